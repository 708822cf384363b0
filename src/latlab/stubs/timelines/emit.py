"""Writes action files as the source of a program that does the same."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.errors import UsageError
from latlab.stubs.timelines.actions import Action, Program

LANGUAGES = ("c++", "python")

_CPP = r"""// Written by `latlab stubs emit`: the threads of {source}.
// Build: g++ -O2 -std=c++20 -pthread FILE.cpp
#include <fcntl.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <barrier>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

using Semaphore = std::counting_semaphore<1 << 20>;
static std::int64_t clock_ns(clockid_t id) {{
  timespec t{{}};
  clock_gettime(id, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}}
// CPU time on a running account: what a wait costs is taken from the run after it.
static thread_local std::int64_t account = 0;
static void run(std::int64_t ns) {{
  account += ns;
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < account) {{
  }}
}}
static void sleep_ns(std::int64_t ns) {{
  const std::int64_t end = clock_ns(CLOCK_MONOTONIC) + ns;
  const timespec at{{end / 1'000'000'000, end % 1'000'000'000}};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
}}
[[maybe_unused]] static void hold(std::vector<char>& memory, std::size_t bytes) {{
  std::vector<char>(bytes, 1).swap(memory);
}}
[[maybe_unused]] static void io(int file, bool reading, std::int64_t bytes, std::int64_t block) {{
  std::vector<char> buffer(static_cast<std::size_t>(block), 'x');
  for (std::int64_t done = 0; done < bytes; done += block) {{
    const auto size = static_cast<std::size_t>(bytes - done < block ? bytes - done : block);
    char* data = buffer.data();
    const ssize_t moved = reading ? pread(file, data, size, done) : pwrite(file, data, size, done);
    if (moved <= 0) return;
  }}
}}
static std::barrier start_barrier({roots});
{globals}
static void begin(bool root) {{
  prctl(PR_SET_TIMERSLACK, 1UL);
  if (root) start_barrier.arrive_and_wait();
  account = clock_ns(CLOCK_THREAD_CPUTIME_ID);
}}
{threads}
int main() {{
  const std::int64_t from = clock_ns(CLOCK_MONOTONIC);
  std::vector<std::thread> all;
{starts}  for (auto& thread : all) thread.join();
  std::printf("%.6f ms\n", static_cast<double>(clock_ns(CLOCK_MONOTONIC) - from) / 1e6);
}}
"""

_PYTHON = '''"""Written by `latlab stubs emit`: the threads of {source}. Spins and sleeps are latlab's."""

import os
import tempfile
import threading
import time

from latlab._core import stubs

FILE = tempfile.TemporaryFile()
{globals}
START = threading.Barrier({roots})


def run(us):
    stubs.spin_cpu_released(round(us * 1000))


def sleep(us):
    stubs.sleep(round(us * 1000))


def io(reading, size, block):
    for done in range(0, size, block):
        part = min(block, size - done)
        os.pread(FILE.fileno(), part, done) if reading else os.pwrite(FILE.fileno(), b"x" * part, done)


{threads}
def main():
    begin = time.monotonic_ns()
    threads = [threading.Thread(target=thread) for thread in ({all_threads},)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{{(time.monotonic_ns() - begin) / 1e6:.6f}} ms")


if __name__ == "__main__":
    main()
'''


def emit(program: Program, language: str) -> str:
    """The source of a program that does what the action files say.

    Every thread exists from the start and waits at its own gate, as in the player.

    Raises:
        UsageError: another language than C++ and Python.
    """
    if language not in LANGUAGES:
        raise UsageError(f"unknown language '{language}'", remedy=f"one of {', '.join(LANGUAGES)}")
    return _cpp(program) if language == "c++" else _python(program)


def _names(program: Program, verbs: tuple[str, ...]) -> list[str]:
    found = {
        action.name for actions in program.threads.values() for action in actions if action.verb in verbs
    }
    return sorted(found)


def _symbols(program: Program) -> dict[tuple[str, str], str]:
    events = {("event", n): f"event_{i}" for i, n in enumerate(_names(program, ("signal", "wait")))}
    return events | {("lock", n): f"lock_{i}" for i, n in enumerate(_names(program, ("lock", "unlock")))}


def _roots(program: Program) -> set[int]:
    return set(program.threads) - set(program.creator_of())


def _cpp(program: Program) -> str:
    symbols, roots = _symbols(program), _roots(program)
    lines = [
        f"static Semaphore {symbol}{{0}};" if kind == "event" else f"static std::mutex {symbol};"
        for (kind, _), symbol in symbols.items()
    ]
    for number in program.threads:
        lines.append(f"static Semaphore begin_{number}{{0}}, done_{number}{{0}};")
    if any(action.verb.startswith("io") for actions in program.threads.values() for action in actions):
        lines += [
            'static char file_name[] = "/tmp/stubs-XXXXXX";',
            "static const int file = [] { const int fd = mkstemp(file_name); unlink(file_name);",
            "                             return fd; }();",
        ]
    threads = []
    for number, actions in program.threads.items():
        body = "\n".join("  " + line for line in _cpp_lines(actions, symbols, number))
        root = "true" if number in roots else "false"
        gate = "" if number in roots else f"  begin_{number}.acquire();\n"
        # Each thread that joins takes one: a thousand are enough for any program.
        end = "" if any(action.verb == "exit" for action in actions) else f"\n  done_{number}.release(1000);"
        threads.append(f"static void thread_{number}() {{\n{gate}  begin({root});\n{body}{end}\n}}")
    starts = "".join(f"  all.emplace_back(thread_{number});\n" for number in program.threads)
    return _CPP.format(
        source=program.source, roots=len(roots), globals="\n".join(lines), threads="\n".join(threads),
        starts=starts,
    )  # fmt: skip


def _cpp_lines(
    actions: tuple[Action, ...], symbols: dict[tuple[str, str], str], number: int
) -> Iterator[str]:
    depth = 0
    if any(action.verb == "memory" for action in actions):
        yield "std::vector<char> memory;"
    for action in actions:
        depth -= action.verb == "end"
        pad = "  " * depth
        match action.verb:
            case "run":
                yield f"{pad}run({action.amount});"
            case "sleep" | "ready":
                yield f"{pad}sleep_ns({action.amount});"
            case "create":
                yield f"{pad}begin_{action.thread}.release();"
            case "join":
                yield f"{pad}done_{action.thread}.acquire();"
            case "signal":
                yield f"{pad}{symbols['event', action.name]}.release();"
            case "wait":
                yield f"{pad}{symbols['event', action.name]}.acquire();"
            case "lock" | "unlock":
                yield f"{pad}{symbols['lock', action.name]}.{action.verb}();"
            case "repeat":
                yield f"{pad}for (std::int64_t i = 0; i < {action.amount}; ++i) {{"
            case "end":
                yield f"{pad}}}"
            case "memory":
                yield f"{pad}hold(memory, {action.amount});"
            case "io fsync":
                yield f"{pad}fsync(file);"
            case "exit":
                yield f"{pad}done_{number}.release(1000);"
            case _:
                reading = "true" if action.verb == "io read" else "false"
                yield f"{pad}io(file, {reading}, {action.amount}, {action.block});"
        depth += action.verb == "repeat"


def _python(program: Program) -> str:
    symbols, roots = _symbols(program), _roots(program)
    lines = [
        f"{symbol} = threading.{'Semaphore(0)' if kind == 'event' else 'Lock()'}"
        for (kind, _), symbol in symbols.items()
    ]
    for number in program.threads:
        lines.append(f"begin_{number}, done_{number} = threading.Event(), threading.Event()")
    threads = []
    for number, actions in program.threads.items():
        gate = "START.wait()" if number in roots else f"begin_{number}.wait()"
        body = "\n".join("    " + line for line in _python_lines(actions, symbols, number))
        threads.append(f"def thread_{number}():\n    {gate}\n{body}\n    done_{number}.set()\n\n")
    return _PYTHON.format(
        source=program.source, roots=len(roots), globals="\n".join(lines), threads="\n".join(threads),
        all_threads=", ".join(f"thread_{number}" for number in program.threads),
    )  # fmt: skip


def _python_lines(
    actions: tuple[Action, ...], symbols: dict[tuple[str, str], str], number: int
) -> Iterator[str]:
    depth = 0
    for action in actions:
        depth -= action.verb == "end"
        pad = "    " * depth
        match action.verb:
            case "run" | "sleep" | "ready":
                yield f"{pad}{'run' if action.verb == 'run' else 'sleep'}({action.amount / 1e3})"
            case "create":
                yield f"{pad}begin_{action.thread}.set()"
            case "join":
                yield f"{pad}done_{action.thread}.wait()"
            case "signal":
                yield f"{pad}{symbols['event', action.name]}.release()"
            case "wait":
                yield f"{pad}{symbols['event', action.name]}.acquire()"
            case "lock" | "unlock":
                verb = "acquire" if action.verb == "lock" else "release"
                yield f"{pad}{symbols['lock', action.name]}.{verb}()"
            case "repeat":
                yield f"{pad}for _ in range({action.amount}):"
                yield f"{pad}    pass"
            case "end":
                pass
            case "memory":
                yield f"{pad}memory = b'\\x01' * {action.amount}"
            case "io fsync":
                yield f"{pad}os.fsync(FILE.fileno())"
            case "exit":
                yield f"{pad}done_{number}.set()"
            case _:
                yield f"{pad}io({action.verb == 'io read'}, {action.amount}, {action.block})"
        depth += action.verb == "repeat"
