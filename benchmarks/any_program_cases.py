"""The planted programs of `benchmarks.any_program`: each a command and what limits it."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
Program = Callable[..., tuple[str, ...]]
MAKERS: list[Maker] = []


def maker(make: Maker) -> Maker:
    MAKERS.append(make)
    return make


def words(options: dict[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in options.items()]


def cpp(folder: Path, mode: str, *, built: str = "planted", **options: object) -> tuple[str, ...]:
    return (str(folder / built), mode, "{seconds}", *words(options))


def python(folder: Path, mode: str, *, source: str = "planted.py", **options: object) -> tuple[str, ...]:
    del folder
    return (sys.executable, str(HERE / source), mode, "{seconds}", *words(options))


def drawn(draw: random.Random, text: str) -> str:
    """An option as it stands, one of some ("a|b"), or between two numbers ("2..5", "0.3..1.0")."""
    if "|" in text:
        return draw.choice(text.split("|"))
    low, span, high = text.partition("..")
    if not span:
        return text
    return str(draw.uniform(float(low), float(high)) if "." in low else draw.randint(int(low), int(high)))


def planted(
    title: str, program: Program, line: str, kinds: tuple[str, ...], name: str = "", *, silent: bool = False
) -> None:
    """A program of which nothing but its options is drawn: `line` is its mode and they, see `drawn`."""
    mode, *options = (word.partition("=") for word in line.split())

    @maker
    def make(draw: random.Random, folder: Path) -> Case:
        chosen = {key: drawn(draw, text) for key, _, text in options}
        return Case(title, program(folder, mode[0], **chosen), kinds, name, silent)


NAMES = ("parse", "check", "price", "route", "store")


def slow_line(draw: random.Random, folder: Path, via: str, **more: object) -> Case:
    count = draw.randint(2, 5)
    slow, fast = draw.choice(NAMES[:count]), draw.uniform(20, 60)
    # More than two CPUs' work would make these the limit.
    us = round(fast * (count + draw.uniform(1, 3)))
    options: dict[str, Any] = {"stages": count, "slow": slow, "fast": round(fast), "us": us,
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


planted("lock while sleeping", cpp, "lock threads=2..5 hold_sleep=500|2000 fast=30", ("lock",), "lock")
planted("reader-writer lock", cpp, "rwlock threads=2 hold_sleep=2000|5000", ("lock",), "lock")
planted("spin wait", cpp, "spin us=100..600", ("thread",), "producer_loop|make_item")


def late(draw: random.Random, folder: Path, program: str, least: float) -> tuple[str, ...]:
    """A program of equal parts, one of which takes `least` to 5 times as long."""
    fast = draw.randint(50, 200)
    return cpp(folder, program, threads=2, fast=fast, us=round(fast * draw.uniform(least, 5)))


@maker
def late_worker(draw: random.Random, folder: Path) -> Case:
    return Case("one late worker", late(draw, folder, "forkjoin", 2.5), ("thread",), "worker_loop")


planted("workers of a pool", cpp, "pool threads=2 dispatch=5 job=200..600", ("thread",), "jobs_loop|do_job")
planted(
    "dispatcher of a pool",
    cpp,
    "pool threads=2..4 dispatch=200..500 job=40",
    ("thread",),
    "dispatcher_loop|prepare_job",
)
planted(
    "jobs that sleep", cpp, "pool threads=2 dispatch=20 job=30 job_sleep=1000|3000", ("timer",), "jobs_loop"
)


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


planted("one thread", cpp, "single", ("thread",), "main|planted|crunch|turn")
planted("page faults", cpp, "faults", ("thread",), "main|planted|touch_pages")


for _via in ("socketpair", "pipe", "tcp", "unix"):

    @maker
    def slow_child(draw: random.Random, folder: Path, via: str = _via) -> Case:
        command = cpp(folder, "ask", via=via, us=draw.randint(200, 800), fast=draw.randint(20, 60))
        return Case(f"slow child by {via}", command, ("process",), "serve|turn")

    @maker
    def sleeping_child(draw: random.Random, folder: Path, via: str = _via) -> Case:
        command = cpp(folder, "ask", via=via, us=20, sleep=draw.choice([800, 3000]), fast=30)
        return Case(f"sleeping child by {via}", command, ("timer", "process"), "serve|planted")


planted(
    "slow client of a child",
    cpp,
    "ask via=tcp us=40 fast=200..600",
    ("thread",),
    "use_reply|turn|main|planted",
)


@maker
def late_child(draw: random.Random, folder: Path) -> Case:
    return Case("one late child", late(draw, folder, "children", 3), ("process",), "its_share|turn|planted")


planted("eventfd", cpp, "events us=200..600 fast=30", ("thread",), "handler_loop|handle_event")


@maker
def quota(draw: random.Random, folder: Path) -> Case:
    return Case("CPU quota", cpp(folder, "single"), ("cpu",), "quota", quota=draw.choice([0.3, 0.5]))


@maker
def neighbour(draw: random.Random, folder: Path) -> Case:
    return Case("neighbour on the CPU", cpp(folder, "single"), ("cpu",), "CPUs", pinned=True)


planted("Python line", python, "line ms=1.2..2.5 fast=0.3", ("thread",), "price")


@maker
def python_sleep(draw: random.Random, folder: Path) -> Case:
    # By its queues a stage that sleeps is a slow stage.
    return Case(
        "Python line with a sleep",
        python(folder, "line", sleep=draw.uniform(2, 5)),
        ("timer", "thread"),
        "price",
    )


planted("GIL", python, "gil threads=2..4", ("lock",), "GIL")
planted("Python lock", python, "lock threads=2..4 hold=2.0..5.0", ("lock",), "lock")
planted("asyncio", python, "loop ms=10.0..40.0", ("thread",), "recompute|compute|blocker")
planted(
    "process pool",
    python,
    "processes ms=80.0..200.0 fast=10",
    ("process",),
    "unequal|digest|PoolWorker|python",
)
planted("executor that sleeps", python, "executor sleep=5.0..20.0", ("timer",), "ThreadPool|price|worker")
planted("Python server", python, "ask ms=1.0..4.0", ("process",), "answer|digest|echo|SHA256")


@maker
def idle_server(draw: random.Random, folder: Path) -> Case:
    # It asks itself by a child of its own that sleeps: that it waits for the child's timer is right, too.
    return Case("idle server", python(folder, "serve", every=draw.uniform(10, 30)), ("load", "timer"), "")


planted("Python alone", python, "single", ("thread",), "crunch|compute|python|main")


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
