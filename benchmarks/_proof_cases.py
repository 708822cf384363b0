"""The planted causes of the long series, and how the naming of each is recognised."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psutil

__all__ = ["Case", "cases"]

STAGES = ("decoder", "market", "book", "strategy", "execution")
POOL = "[stages.book]\ncount = 4\nworkers = 2\n"
TEN = "[stages.book]\ncount = 1\n[stages.strategy]\ncount = 10\nper_book = 10\n[replay]\ndelay_ns = 60_000\n"
BURSTS = '[replay]\nmode = "burst"\nburst = 32\ndelay_ns = 1_000_000\n'
SMALL = (
    BURSTS.replace("32", "200").replace("1_000", "4_000")
    + '[queues]\nupdates = {kind = "spsc", capacity = 4}\n'
)
PINNED = "[stages.book]\ncpus = [1]\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """One planted cause, and how its naming is recognised.

    Attributes:
        layout: of the pipeline, as TOML.
        slow: planted service time in ns, by stage.
        named: tells from an answer whether the planted cause is the named one.
        beside: runs beside the diagnosis.
    """

    title: str
    layout: str
    slow: dict[str, int]
    named: Callable[[dict[str, Any]], bool]
    beside: Callable[[subprocess.Popen[str]], AbstractContextManager[None]] | None = None


def stage_named(stage: str) -> Callable[[dict[str, Any]], bool]:
    return lambda answer: answer["limiting_stage"] == stage


def nothing_named(answer: dict[str, Any]) -> bool:
    return (
        answer["limiting_stage"] is None
        and answer["verdict"] == "none"
        and "stood still" not in answer["sentence"]
    )


@contextmanager
def stopped(diagnosis: subprocess.Popen[str]) -> Any:
    """Stops the execution process for 400 ms in the middle of the run."""

    def work() -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until and diagnosis.poll() is None:
            for child in psutil.Process(diagnosis.pid).children():
                if is_execution(child):
                    time.sleep(1.0)
                    child.send_signal(signal.SIGSTOP)
                    time.sleep(0.4)
                    child.send_signal(signal.SIGCONT)
                    return
            time.sleep(0.01)

    def is_execution(child: psutil.Process) -> bool:
        try:
            return bool(child.cmdline()[-1:] == ["execution"])
        except psutil.NoSuchProcess:  # another of the diagnosis' children, which has just ended
            return False

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join()


@contextmanager
def neighbour(_: subprocess.Popen[str]) -> Any:
    """A process that spins on CPU 1 for as long as the diagnosis runs, twice as heavy as a thread of it."""

    def prepare() -> None:
        os.sched_setaffinity(0, {1})
        os.nice(-3)

    with subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=prepare) as process:
        yield
        process.kill()


def cases(slow_ns: int) -> list[Case]:
    found = [Case(f"{stage} is slow", "", {stage: slow_ns}, stage_named(stage)) for stage in STAGES]
    found += [
        Case(f"{name}: {stage} is slow", layout, {stage: slow_ns}, stage_named(stage))
        for name, layout in (("worker pool", POOL), ("ten strategies", TEN), ("bursts", BURSTS))
        for stage in ("market", "book", "strategy")
    ]
    found += [
        Case(f"{a} is slow, {b} half as slow", "", {a: slow_ns, b: slow_ns // 2}, stage_named(a))
        for a, b in (("strategy", "execution"), ("execution", "strategy"), ("book", "strategy"))
    ]
    found.append(
        Case(
            "a queue is too small", SMALL, {}, lambda a: a["verdict"] == "burst" and "book-" in a["sentence"]
        )
    )
    found.append(
        Case("execution is stopped", "", {}, lambda a: "execution-0 stood still" in a["sentence"], stopped)
    )
    if (os.cpu_count() or 1) > 1:
        found.append(
            Case(
                "a neighbour on the books' CPU",
                PINNED,
                {},
                lambda a: a["verdict"] in ("scheduler", "cpu"),
                neighbour,
            )
        )
    found += [
        Case(f"{name}: nothing is planted", layout, {}, nothing_named)
        for name, layout in (("as it comes", ""), ("worker pool", POOL), ("bursts", BURSTS))
    ]
    return found
