"""The planted programs of `benchmarks.any_program`: each a command and what limits it."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

__all__ = ["HERE", "MAKERS", "Case", "maker"]

HERE = Path(__file__).parent / "any_programs"


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
    slow, fast = draw.choice(NAMES[:count]), draw.uniform(20, 60)
    # More than two CPUs' work would make these the limit.
    us = round(fast * (count + draw.uniform(1, 3)))
    options = {"stages": count, "slow": slow, "fast": round(fast), "us": us,
               "capacity": draw.choice([4, 32, 100]), "via": via, **more}  # fmt: skip
    return Case(f"line by {via}", cpp(folder, "line", **options), ("thread",), slow)


for _via in ("condvar", "sem", "pipe"):
    maker(partial(slow_line, via=_via))


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
    command = cpp(folder, "rwlock", threads=2, hold_sleep=draw.choice([2000, 5000]))
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
        "Python server", python("ask", ms=draw.uniform(1, 4)), ("process",), "answer|digest|echo|SHA256"
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
    script = f"while :; do cat {folder}/words || exit; done | timeout {{seconds}} gzip -9 > /dev/null"
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
