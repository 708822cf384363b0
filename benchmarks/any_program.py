"""Programs that nobody prepared, each with one planted limit: is what `latlab diagnose` names right?

Lines of threads over condition variables, semaphores and pipes, locks, reader-writer locks, spinning, pools,
fork and join, fsync, servers and children that are slow, timers, quotas, neighbours, page faults, idle
servers, shell pipelines; in C++ and Python, with parameters drawn from the seed. They hold nothing of latlab.

    python -m benchmarks.any_program [--cases 44] [--seed 1] [--seconds 2] [--only TEXT] [--neighbour]

Right: the kind and the name of what is planted. Withheld: kind unknown, or exit code 3. Wrong: anything else.
Bars: right in at least 95 %, wrong in at most 2 %; one of two equal stages named in at most 1 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks._bars import Bar, report

HERE = Path(__file__).parent / "any_programs"
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Case:
    """A program and what limits it.

    Attributes:
        kinds: that are right. name: what the limit's name, its functions or its evidence must show.
        silent: whether "cannot tell" is right, too (or alone, without kinds).
        quota: share of one CPU that its control group may use. pinned: with a neighbour on the same CPU.
        needs: programs without which it is left out.
    """

    title: str
    command: tuple[str, ...]
    kinds: tuple[str, ...]
    name: str = ""
    silent: bool = False
    quota: float | None = None
    pinned: bool = False
    needs: tuple[str, ...] = ()


Maker = Callable[[random.Random, Path], Case]
MAKERS: list[Maker] = []


def maker(make: Maker) -> Maker:
    MAKERS.append(make)
    return make


def cpp(folder: Path, mode: str, **options: object) -> tuple[str, ...]:
    return (str(folder / "planted"), mode, "{seconds}", *(f"{key}={value}" for key, value in options.items()))


def python(mode: str, **options: object) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "planted.py"), mode, "{seconds}",
            *(f"{key}={value}" for key, value in options.items()))  # fmt: skip


NAMES = ("parse", "check", "price", "route", "store")


def slow_line(draw: random.Random, folder: Path, via: str, **more: object) -> Case:
    count = draw.randint(2, 5)
    slow, fast = draw.choice(NAMES[:count]), draw.uniform(30, 120)
    options = {"stages": count, "slow": slow, "fast": round(fast), "us": round(fast * draw.uniform(2.5, 5)),
               "capacity": draw.choice([4, 32, 100]), "via": via, **more}  # fmt: skip
    return Case(f"line by {via}", cpp(folder, "line", **options), ("thread",), slow)


for _via in ("condvar", "sem", "pipe"):
    maker(lambda draw, folder, via=_via: slow_line(draw, folder, via))


@maker
def sleeping_stage(draw: random.Random, folder: Path) -> Case:
    case = slow_line(draw, folder, "condvar", sleep=draw.choice([600, 1500]))
    return Case("line with a sleep", case.command, ("timer",), case.name)


@maker
def equal_stages(draw: random.Random, folder: Path) -> Case:
    us = draw.randint(100, 300)
    command = cpp(folder, "line", stages=2, slow="parse", also="check", us=us, fast=us, source=5)
    return Case("equal stages", command, (), silent=True)


@maker
def starved_line(draw: random.Random, folder: Path) -> Case:
    every = draw.choice([2000, 4000])
    return Case(
        "paced source",
        cpp(folder, "line", stages=3, us=150, fast=50, every=every),
        ("timer", "load"),
        "source|load",
    )


@maker
def one_lock(draw: random.Random, folder: Path) -> Case:
    us = draw.randint(150, 600)
    command = cpp(folder, "lock", threads=draw.randint(2, 5), us=us, fast=round(us * draw.uniform(0.05, 0.2)))
    return Case("lock while working", command, ("lock",), "lock")


@maker
def sleeping_lock(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "lock", threads=draw.randint(2, 5), hold_sleep=draw.choice([500, 2000]), fast=30)
    return Case("lock while sleeping", command, ("lock",), "lock")


@maker
def reader_writer(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "rwlock", threads=draw.randint(2, 3), hold_sleep=draw.choice([2000, 5000]))
    return Case("reader-writer lock", command, ("lock",), "lock")


@maker
def spinning(draw: random.Random, folder: Path) -> Case:
    return Case(
        "spin wait", cpp(folder, "spin", us=draw.randint(100, 600)), ("thread",), "producer_loop|make_item"
    )


@maker
def late_worker(draw: random.Random, folder: Path) -> Case:
    fast = draw.randint(50, 200)
    command = cpp(folder, "forkjoin", threads=2, fast=fast, us=round(fast * draw.uniform(2.5, 5)))
    return Case("one late worker", command, ("thread",), "worker_loop")


@maker
def pool_of_workers(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "pool", threads=2, dispatch=5, job=draw.randint(200, 600))
    return Case("workers of a pool", command, ("thread",), "jobs_loop|do_job")


@maker
def slow_dispatcher(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "pool", threads=draw.randint(2, 4), dispatch=draw.randint(200, 500), job=40)
    return Case("dispatcher of a pool", command, ("thread",), "dispatcher_loop|prepare_job")


@maker
def sleeping_jobs(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "pool", threads=2, dispatch=20, job=30, job_sleep=draw.choice([1000, 3000]))
    return Case("jobs that sleep", command, ("timer",), "jobs_loop")


@maker
def durable(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "fsync", fast=20, bytes=draw.choice([512, 4096, 65536]), file=folder / "log")
    return Case("fsync", command, ("disk",), "")


@maker
def paced(draw: random.Random, folder: Path) -> Case:
    by = draw.choice(["usleep", "timerfd"])
    return Case(
        "timer",
        cpp(folder, "pace", by=by, every=draw.choice([1000, 5000]), fast=60),
        ("timer",),
        "main|planted|pace",
    )


@maker
def full_machine(draw: random.Random, folder: Path) -> Case:
    return Case(
        "more threads than CPUs", cpp(folder, "cpu", threads=4 * (os.cpu_count() or 2)), ("cpu",), "CPU"
    )


@maker
def one_thread(draw: random.Random, folder: Path) -> Case:
    return Case("one thread", cpp(folder, "single"), ("thread",), "main|planted|crunch|turn")


@maker
def page_faults(draw: random.Random, folder: Path) -> Case:
    return Case("page faults", cpp(folder, "faults"), ("thread",), "main|planted|touch_pages")


for _via in ("socketpair", "pipe", "tcp", "unix"):

    @maker
    def slow_child(draw: random.Random, folder: Path, via: str = _via) -> Case:
        command = cpp(folder, "ask", via=via, us=draw.randint(200, 800), fast=draw.randint(20, 60))
        return Case(f"slow child by {via}", command, ("process",), "serve|turn")

    @maker
    def sleeping_child(draw: random.Random, folder: Path, via: str = _via) -> Case:
        command = cpp(folder, "ask", via=via, us=20, sleep=draw.choice([800, 3000]), fast=30)
        return Case(f"sleeping child by {via}", command, ("timer", "process"), "serve|planted")


@maker
def slow_asker(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "ask", via="tcp", us=40, fast=draw.randint(200, 600))
    return Case("slow client of a child", command, ("thread",), "use_reply|turn|main|planted")


@maker
def late_child(draw: random.Random, folder: Path) -> Case:
    fast = draw.randint(50, 200)
    command = cpp(folder, "children", threads=2, fast=fast, us=round(fast * draw.uniform(3, 5)))
    return Case("one late child", command, ("process",), "its_share|turn|planted")


@maker
def event_handler(draw: random.Random, folder: Path) -> Case:
    command = cpp(folder, "events", us=draw.randint(200, 600), fast=30)
    return Case("eventfd", command, ("thread",), "handler_loop|handle_event")


@maker
def quota(draw: random.Random, folder: Path) -> Case:
    return Case("CPU quota", cpp(folder, "single"), ("cpu",), "quota", quota=draw.choice([0.3, 0.5]))


@maker
def neighbour(draw: random.Random, folder: Path) -> Case:
    return Case("neighbour on the CPU", cpp(folder, "single"), ("cpu",), "CPUs", pinned=True)


@maker
def python_line(draw: random.Random, folder: Path) -> Case:
    return Case("Python line", python("line", ms=draw.uniform(1.2, 2.5), fast=0.3), ("thread",), "price")


@maker
def python_sleep(draw: random.Random, folder: Path) -> Case:
    # By its queues a stage that sleeps is a slow stage.
    return Case(
        "Python line with a sleep", python("line", sleep=draw.uniform(2, 5)), ("timer", "thread"), "price"
    )


@maker
def interpreter_lock(draw: random.Random, folder: Path) -> Case:
    return Case("GIL", python("gil", threads=draw.randint(2, 4)), ("lock",), "GIL")


@maker
def python_lock(draw: random.Random, folder: Path) -> Case:
    return Case(
        "Python lock", python("lock", threads=draw.randint(2, 4), hold=draw.uniform(2, 5)), ("lock",), "lock"
    )


@maker
def blocked_loop(draw: random.Random, folder: Path) -> Case:
    return Case("asyncio", python("loop", ms=draw.uniform(10, 40)), ("thread",), "recompute|compute|blocker")


@maker
def unequal_processes(draw: random.Random, folder: Path) -> Case:
    command = python("processes", ms=draw.uniform(80, 200), fast=10)
    return Case("process pool", command, ("process",), "unequal|digest|PoolWorker|python")


@maker
def sleeping_executor(draw: random.Random, folder: Path) -> Case:
    return Case(
        "executor that sleeps",
        python("executor", sleep=draw.uniform(5, 20)),
        ("timer",),
        "ThreadPool|price|worker",
    )


@maker
def python_server(draw: random.Random, folder: Path) -> Case:
    return Case(
        "Python server", python("ask", ms=draw.uniform(1, 4)), ("process",), "answer|digest|server|python"
    )


@maker
def idle_server(draw: random.Random, folder: Path) -> Case:
    # It asks itself by a child of its own that sleeps: that it waits for the child's timer is right, too.
    return Case("idle server", python("serve", every=draw.uniform(10, 30)), ("load", "timer"), "")


@maker
def python_alone(draw: random.Random, folder: Path) -> Case:
    return Case("Python alone", python("single"), ("thread",), "crunch|compute|python|main")


@maker
def sort_behind(draw: random.Random, folder: Path) -> Case:
    script = f"while :; do cat {folder}/words; done | timeout {{seconds}} gzip -9 > /dev/null"
    return Case("shell pipeline", ("bash", "-c", script), ("process",), "gzip")


@maker
def awk_behind(draw: random.Random, folder: Path) -> Case:
    script = "yes | timeout {seconds} awk '{ for (i = 0; i < 40; i++) s += i * NR }' "
    return Case("yes | awk", ("bash", "-c", script), ("process",), "awk")


@maker
def shell_sleep(draw: random.Random, folder: Path) -> Case:
    return Case("sleep", ("sleep", "{seconds}"), ("timer",), "sleep")


@maker
def pigz(draw: random.Random, folder: Path) -> Case:
    return Case("pigz", ("bash", "-c", f"timeout {{seconds}} pigz -p2 -11 -c {folder}/words* > /dev/null"),
                ("thread", "process"), "compress|deflate|pigz", needs=("pigz",))  # fmt: skip


@maker
def xz(draw: random.Random, folder: Path) -> Case:
    script = f"timeout {{seconds}} xz -T2 --block-size=1MiB -c {folder}/words > /dev/null"
    return Case("xz", ("bash", "-c", script), ("thread", "process"), "xz|lzma", needs=("xz",))


def cases(count: int, seed: int, folder: Path) -> Iterator[Case]:
    """So many programs: every kind in turn, with parameters of their own."""
    for number in range(count):
        yield MAKERS[number % len(MAKERS)](random.Random(f"{seed} {number}"), folder)


@dataclass(frozen=True)
class Outcome:
    case: Case
    mark: str
    said: str
    confidence: float
    alternatives: tuple[str, ...] = field(default=())


@contextlib.contextmanager
def surroundings(case: Case) -> Iterator[list[str]]:
    """What stands in front of the command, and the neighbour."""
    if case.pinned:
        cpu = str(max(os.sched_getaffinity(0)))
        beside = subprocess.Popen(["taskset", "-c", cpu, sys.executable, "-c", "while True: pass"])
        try:
            yield ["taskset", "-c", cpu]
        finally:
            beside.kill()
            beside.wait()
    elif case.quota is not None:
        with group_of(case.quota) as procs:
            yield ["sh", "-c", f'echo $$ > {procs}; exec "$@"', "-"]
    else:
        yield []


@contextlib.contextmanager
def group_of(quota: float) -> Iterator[Path]:
    """A control group of either version that may use so much of one CPU: the file that takes processes in."""
    old = (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists()
    group = CGROUPS / ("cpu" if old else "") / f"any-program-{os.getpid()}"
    group.mkdir()
    try:
        if old:
            (group / "cpu.cfs_quota_us").write_text(str(round(100_000 * quota)))
        else:
            (group / "cpu.max").write_text(f"{round(100_000 * quota)} 100000")
        yield group / "cgroup.procs"
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def missing(case: Case) -> str | None:
    absent = [one for one in case.needs if shutil.which(one) is None]
    if absent:
        return f"{absent[0]} is not installed"
    if case.quota is not None and not (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists():
        try:
            controllers = (CGROUPS / "cgroup.subtree_control").read_text().split()
        except OSError:
            controllers = []
        if "cpu" not in controllers or not os.access(CGROUPS, os.W_OK):
            return "no control group of ours with a CPU quota"
    return None


def judged(case: Case, seconds: float) -> Outcome:
    """Diagnose a program as a user would, and hold what is said against what is planted."""
    with surroundings(case) as before:
        command = [*before, *(word.replace("{seconds}", str(seconds)) for word in case.command)]
        done = subprocess.run(
            [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--json",
             "--seconds", str(seconds + 3), "--", *command],
            capture_output=True, text=True, timeout=seconds + 120, check=False,
        )  # fmt: skip
    at = done.stdout.find("\n{")
    try:
        answer = json.loads(done.stdout[at + 1 if at >= 0 and not done.stdout.startswith("{") else 0 :])
    except json.JSONDecodeError:
        return Outcome(case, "failed", f"exit {done.returncode}: {(done.stderr or done.stdout)[-300:]}", 0.0)
    limit = answer["limit"]
    said = f"{limit['kind']} {limit['name']!r}: {answer['sentence']}"
    return Outcome(case, mark(case, limit, answer["sentence"], done.returncode), said, limit["confidence"])


def mark(case: Case, limit: dict[str, Any], sentence: str, code: int) -> str:
    """right, withheld or wrong."""
    if limit["kind"] == "unknown" or code == 3:
        return "right" if case.silent else "withheld"
    shown = " ".join([limit["name"], sentence, *(one["function"] for one in limit["code"])])
    return "right" if limit["kind"] in case.kinds and re.search(case.name, shown) else "wrong"


def compiled(folder: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    options = ["-std=c++20", "-O2", "-g", "-pthread"]
    subprocess.run([compiler, *options, str(HERE / "planted.cpp"), "-o", str(folder / "planted")], check=True)
    draw = random.Random(5)
    words = [bytes(draw.choices(b"abcdefghij", k=draw.randint(2, 9))) for _ in range(4000)]
    for number in range(3):
        text = b" ".join(draw.choices(words, k=1_500_000))
        (folder / ("words" if not number else f"words{number}")).write_bytes(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=len(MAKERS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="titles that hold this text")
    parser.add_argument("--neighbour", action="store_true", help="beside a process that computes")
    parser.add_argument("--json", type=Path, help="where the outcomes are written")
    given = parser.parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="any-program-") as temporary:
        compiled(Path(temporary))
        beside = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if given.neighbour else None
        try:
            for case in cases(given.cases, given.seed, Path(temporary)):
                if given.only not in case.title:
                    continue
                why = missing(case)
                if why is not None:
                    print(f"{'left out':9} {case.title:26} | {why}", flush=True)
                    continue
                found = judged(case, given.seconds)
                outcomes.append(found)
                print(f"{found.mark:9} {case.title:26} | {found.said}", flush=True)
        finally:
            if beside is not None:
                beside.kill()
                beside.wait()
    if given.json:
        rows = [{"title": o.case.title, "mark": o.mark, "said": o.said} for o in outcomes]
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return summary(outcomes)


def summary(outcomes: list[Outcome]) -> int:
    """The counts, the calibration, the bars."""
    counts = {
        name: sum(o.mark == name for o in outcomes) for name in ("right", "withheld", "wrong", "failed")
    }
    print(", ".join(f"{name} {number}" for name, number in counts.items()))
    sure = [o for o in outcomes if o.confidence >= 0.95 and o.mark in ("right", "wrong")]
    if sure:
        right = sum(o.mark == "right" for o in sure)
        print(f"said with 95 % or more: {len(sure)}, of these right {right}")
    total = max(1, len(outcomes))
    return report(
        [
            Bar("right kind and name", counts["right"] / total, 0.95, at_least=True),
            Bar("wrong or failed", (counts["wrong"] + counts["failed"]) / total, 0.02),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
