from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from latlab.errors import UnavailableError
from latlab.model.schedule import Frame
from latlab.schedule.code.names import entry_of
from latlab.system.kernel.python_stacks import find_py_spy
from latlab.system.kernel.stacks import Sampler, Stacks, unwinds_by_dwarf


def _unavailable() -> str | None:
    try:
        Sampler(python=False)
    except UnavailableError as error:
        return str(error)
    return None


REASON = _unavailable()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=f"stacks: {REASON}"),
    pytest.mark.rights,
    pytest.mark.side_by_side,  # names are read, and which has most of the samples: no time is judged
]
dwarf = pytest.mark.skipif(not unwinds_by_dwarf(), reason="libdw1 is not installed")
spy = pytest.mark.skipif(find_py_spy() is None, reason="py-spy is not installed")

PLANTED = """
#include <time.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool done = false;
volatile double sink;
static double now() { timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
__attribute__((noinline, noclone)) double hot(double x) {
  double s = 0;
  for (int i = 1; i < 100000; ++i)
    s += x / i;  // HOT
  return s;
}
__attribute__((noinline, noclone)) double around(double x) { double y = hot(x); sink = y; return y + 1; }
__attribute__((noinline, noclone)) void* compress(void*) {
  double end = now() + 1.0;
  while (now() < end) sink = around(sink);
  pthread_mutex_lock(&lock);
  done = true;
  pthread_cond_broadcast(&cond);
  pthread_mutex_unlock(&lock);
  return nullptr;
}
__attribute__((noinline, noclone)) void until_done() {
  pthread_mutex_lock(&lock);
  while (!done) pthread_cond_wait(&cond, &lock);
  pthread_mutex_unlock(&lock);
}
void* collect(void*) {
  until_done();
  asm volatile("");
  return nullptr;
}
void* tick(void*) {
  for (int i = 0; i < 9; ++i) usleep(100000);
  return nullptr;
}
int main() {
  getchar();
  pthread_t a, b, c;
  pthread_create(&a, nullptr, compress, nullptr);
  pthread_create(&b, nullptr, collect, nullptr);
  pthread_create(&c, nullptr, tick, nullptr);
  pthread_join(a, nullptr);
  pthread_join(b, nullptr);
  pthread_join(c, nullptr);
}
"""
HOT = 1 + next(i for i, line in enumerate(PLANTED.splitlines()) if "// HOT" in line)


def _built(folder: Path, *options: str) -> Path:
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    source = folder / "planted.cpp"
    source.write_text(PLANTED)
    program = folder / "planted"
    subprocess.run(["g++", "-g", "-pthread", *options, str(source), "-o", str(program)], check=True)
    return program


def _sampled(command: list[str], **options: bool) -> Stacks:
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        with Sampler([process.pid], **options) as sampler:
            process.communicate(b"\n", timeout=60)
        return sampler.stop()


def _stacks(stacks: Stacks, running: bool) -> Counter[tuple[Frame, ...]]:
    return Counter(
        stacks.frames_of(index) for index in range(len(stacks)) if bool(stacks.running[index]) == running
    )


def _plain(stack: tuple[Frame, ...]) -> list[str]:
    return [frame.function.split("(")[0] for frame in stack]


@dwarf
@pytest.mark.parametrize(
    "options",
    [
        ["-O2", "-fomit-frame-pointer"],
        ["-O1", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables", "-fno-exceptions"],
        ["-O2", "-static-pie"],
    ],
    ids=["without frame pointers", "with them and nothing else", "static"],
)
def test_the_hot_function_and_its_line_are_found(tmp_path: Path, options: list[str]) -> None:
    stacks = _sampled([str(_built(tmp_path, *options))])
    running = _stacks(stacks, running=True)
    lines: Counter[int] = Counter()
    for stack, count in running.items():
        if stack[0].function.startswith("hot(") and stack[0].file.endswith("planted.cpp"):
            lines[stack[0].line] += count
    assert lines[HOT] + lines[HOT - 1] > 0.8 * running.total()
    (common, _), *_ = [pair for pair in running.most_common() if "hot" in _plain(pair[0])]
    assert _plain(common)[:3] == ["hot", "around", "compress"]


@dwarf
def test_where_a_thread_blocks_is_found_also_if_it_blocks_only_once(tmp_path: Path) -> None:
    stacks = _sampled([str(_built(tmp_path, "-O2"))])
    blocked = _stacks(stacks, running=False)
    assert any("until_done" in _plain(stack) for stack in blocked)
    assert any("tick" in _plain(stack) and "usleep" in _plain(stack) for stack in blocked)
    assert any(
        _plain(stack)[-1] in ("_start", "__libc_start_main") for stack in blocked if "main" in _plain(stack)
    )


@dwarf
def test_threads_are_named_by_the_function_they_start_in(tmp_path: Path) -> None:
    stacks = _sampled([str(_built(tmp_path, "-O2"))])
    entries = {entry_of(stacks.frames_of(index)) for index in range(len(stacks))}
    assert {"compress", "collect", "tick"} <= entries


@dwarf
def test_without_symbols_there_are_module_and_offset_and_what_to_install(tmp_path: Path) -> None:
    program = _built(tmp_path, "-O2", "-s")
    stacks = _sampled([str(program)])
    ((hot, *_), _), *_ = _stacks(stacks, running=True).most_common()
    assert (hot.function, hot.module) == ("", str(program))
    assert hot.offset > 0
    (note,) = [note for note in stacks.notes if "planted" in note]
    assert "has no symbols" in note


@dwarf
def test_separate_debug_information_is_found_beside_the_program(tmp_path: Path) -> None:
    program = _built(tmp_path, "-O2")
    (tmp_path / ".debug").mkdir()
    debug = tmp_path / ".debug/planted.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(debug)], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", str(program)], check=True)
    ((hot, *_), _), *_ = _stacks(_sampled([str(program)]), running=True).most_common()
    assert (hot.function, hot.line) in (("hot(double)", HOT), ("hot(double)", HOT - 1))


@dwarf
def test_a_child_s_code_is_found_in_its_own_program(tmp_path: Path) -> None:
    program = _built(tmp_path, "-O2")
    stacks = _sampled(["/bin/sh", "-c", f"{program}; true"])
    assert any(frame.module == str(program) for stack in _stacks(stacks, running=True) for frame in stack)


PYTHON = """
import sys, threading, time
def parse(n):
    s = 0
    for i in range(n):
        s += i * i  # HOT
    return s
def decode(end):
    while time.monotonic() < end:
        parse(5000)
def nap(end):
    while time.monotonic() < end:
        time.sleep(0.01)  # WAITS
sys.stdin.readline()
end = time.monotonic() + 3
threads = [threading.Thread(target=what, args=(end,)) for what in (decode, nap)]
for one in threads: one.start()
for one in threads: one.join()
"""


def _line(mark: str) -> int:
    return 1 + next(i for i, line in enumerate(PYTHON.splitlines()) if mark in line)


@spy
@dwarf
def test_python_s_own_functions_and_lines_are_found(tmp_path: Path) -> None:
    script = tmp_path / "feed.py"
    script.write_text(PYTHON)
    stacks = _sampled([sys.executable, str(script)])
    running = _stacks(stacks, running=True)
    hot = sum(count for stack, count in running.items() if stack[0].function == "parse")
    assert hot > 0.5 * running.total()
    assert any(stack[0] == Frame("parse", str(script), _line("# HOT")) for stack in running)
    blocked = _stacks(stacks, running=False)
    assert any(Frame("nap", str(script), _line("# WAITS")) in stack for stack in blocked)
    entries = {entry_of(stack) for stack in [*running, *blocked]}
    assert {"decode", "nap"} <= entries


@dwarf
def test_a_captured_schedule_has_the_code_of_what_blocks_longest(tmp_path: Path) -> None:
    from latlab.model.schedule import State
    from latlab.schedule import capture_command

    script = tmp_path / "go.sh"
    script.write_text(f"#!/bin/sh\necho | {_built(tmp_path, '-O2')}\n")
    script.chmod(0o755)
    schedule = capture_command([str(script)])
    entries = {thread.entry for thread in schedule.threads}
    assert {"main", "compress", "collect", "tick"} <= entries
    collector = next(i for i, thread in enumerate(schedule.threads) if thread.entry == "collect")
    own = schedule.of_thread(collector)
    longest = max(own[own["state"] == State.BLOCKED], key=lambda one: int(one["end"] - one["begin"]))
    sample = schedule.samples[longest["sample"]]
    functions = [schedule.frames[i].function for i in schedule.stacks[sample["stack"]]]
    assert any(name.startswith("until_done") for name in functions)
    assert (int(sample["running"]), int(sample["thread"])) == (0, collector)
