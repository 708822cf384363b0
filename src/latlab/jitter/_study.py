"""The same measurement under many conditions, in randomised order.

So that a drift of the machine favours none.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from latlab.errors import UsageError
from latlab.jitter._measure import measure
from latlab.model.machine.jitter import CoreJitter

__all__ = ["Study", "StudyRow", "run_study"]

_SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


class Condition(NamedTuple):
    """What is different in one run."""

    name: str
    cpu: int
    seconds: float
    loaded: tuple[int, ...] = ()
    slept: bool = False
    fifo: bool = False


@dataclass(frozen=True)
class StudyRow:
    """One run of one condition."""

    condition: str
    round: int
    cpu: int
    p50_ns: float
    p999_ns: float
    max_ns: float
    gaps_per_second: float
    gap_share: float


@dataclass(frozen=True)
class Study:
    """Every run, in the order in which they were made."""

    rows: tuple[StudyRow, ...]
    seed: int

    def to_json(self) -> dict[str, Any]:
        """The document that ``latlab jitter study --json`` prints."""
        rows = [{key: getattr(row, key) for key in row.__dataclass_fields__} for row in self.rows]
        return {"schema": 1, "seed": self.seed, "runs": rows}


def conditions(cpus: Sequence[int], seconds: float) -> list[Condition]:
    """Other cores idle or loaded, a thread that slept or was hot, each core, short and long.

    Both scheduling classes.
    """
    first, others = cpus[0], tuple(cpus[1:])
    found = [Condition(f"CPU {cpu}", cpu, seconds) for cpu in cpus]
    if others:
        found.append(Condition("other cores loaded", first, seconds, loaded=others))
    found += [
        Condition("thread slept before", first, seconds, slept=True),
        Condition("four times as long", first, 4 * seconds),
        Condition("SCHED_FIFO", first, seconds, fifo=True),
    ]
    return found


@contextmanager
def _load(cpus: Sequence[int]) -> Iterator[None]:
    loads = [subprocess.Popen([sys.executable, "-c", _SPIN, str(cpu)]) for cpu in cpus]
    try:
        if loads:
            time.sleep(0.1)
        yield
    finally:
        for load in loads:
            load.kill()
            load.wait()


def run_study(
    cpus: Sequence[int],
    seconds: float,
    *,
    rounds: int = 3,
    seed: int = 1,
    progress: Callable[[str], None] = lambda text: None,
) -> Study:
    """Measure each condition `rounds` times; every round is in a new random order.

    Raises:
        UsageError: no CPU.
    """
    if not cpus:
        raise UsageError("no CPU is named to measure on", remedy="give --cpus, for example --cpus 0-3,7")
    order, rows = random.Random(seed), []
    for number in range(rounds):
        shuffled = conditions(cpus, seconds)
        order.shuffle(shuffled)
        for condition in shuffled:
            progress(f"round {number + 1} of {rounds}: {condition.name}")
            rows.append(_row(condition, number))
    return Study(tuple(rows), seed)


def _row(condition: Condition, number: int) -> StudyRow:
    with _load(condition.loaded):
        if condition.slept:
            time.sleep(min(1.0, condition.seconds))
        else:
            _warm(condition.cpu, 0.05)
        priority = 10 if condition.fifo else 0
        core = measure([condition.cpu], condition.seconds, trace=False, fifo_priority=priority).cores[0]
    return _figures(condition, number, core)


def _warm(cpu: int, seconds: float) -> None:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        pass
    os.sched_setaffinity(0, before)


def _figures(condition: Condition, number: int, core: CoreJitter) -> StudyRow:
    seconds = core.ns(core.wall_ticks) / 1e9
    return StudyRow(
        condition.name,
        number,
        core.cpu,
        core.ns(core.percentile_ticks(50)),
        core.ns(core.percentile_ticks(99.9)),
        core.ns(core.max_ticks),
        core.outliers / seconds,
        core.gap_ticks / core.wall_ticks,
    )
