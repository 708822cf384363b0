"""Every clock that a program could read: what a reading costs, its step, and what it is good for."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latlab._core import clock as native_clock
from latlab.stats.quantum import detect_quantum

__all__ = ["ClockFacts", "clocks", "facts_of", "recommend"]


@dataclass(frozen=True)
class ClockFacts:
    """One clock.

    Attributes:
        kind: ``counter``, ``monotonic``, ``wall``, ``cpu time`` or ``python``.
        cost_ns: a reading from Python, less an empty call: what a Python program pays.
        native_cost_ns: a reading from C++; None for Python's own clocks.
        quantum_ns: the step that all its differences are multiples of.
        monotonic: whether it never stepped back while it was watched.
        use: what to take it for.
    """

    name: str
    kind: str
    cost_ns: float
    quantum_ns: float
    monotonic: bool
    use: str
    native_cost_ns: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The clock's entry of ``latlab system clocks --json``."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


def _candidates() -> list[tuple[str, str, Callable[[], int], str]]:
    gettime = time.clock_gettime_ns
    named = [
        (
            "CLOCK_MONOTONIC",
            "monotonic",
            time.CLOCK_MONOTONIC,
            "intervals, and what must agree with other processes",
        ),
        ("CLOCK_MONOTONIC_RAW", "monotonic", time.CLOCK_MONOTONIC_RAW, "intervals without NTP's slewing"),
        ("CLOCK_BOOTTIME", "monotonic", time.CLOCK_BOOTTIME, "intervals that count suspension too"),
        ("CLOCK_REALTIME", "wall", time.CLOCK_REALTIME, "dates; never intervals: it is set and slewed"),
        ("CLOCK_PROCESS_CPUTIME_ID", "cpu time", time.CLOCK_PROCESS_CPUTIME_ID, "work of a whole process"),
        (
            "CLOCK_THREAD_CPUTIME_ID",
            "cpu time",
            time.CLOCK_THREAD_CPUTIME_ID,
            "work of one thread, not its waiting",
        ),
    ]
    found: list[tuple[str, str, Callable[[], int], str]] = [
        ("TSC", "counter", native_clock.ticks, "the shortest intervals on one core"),
        ("TSC, ordered", "counter", native_clock.ticks_ordered, "short pieces of code, start and end exact"),
    ]
    for name, kind, number, use in named:
        found.append((name, kind, lambda number=number: gettime(number), use))  # type: ignore[misc]
    found += [
        ("getrusage", "cpu time", _getrusage, "user and system time apart; coarse"),
        ("time.time_ns", "python", time.time_ns, "as CLOCK_REALTIME"),
        ("time.perf_counter_ns", "python", time.perf_counter_ns, "intervals in Python"),
        ("time.monotonic_ns", "python", time.monotonic_ns, "timeouts in Python"),
        ("time.process_time_ns", "python", time.process_time_ns, "as CLOCK_PROCESS_CPUTIME_ID"),
        ("time.thread_time_ns", "python", time.thread_time_ns, "as CLOCK_THREAD_CPUTIME_ID"),
    ]
    return found


def _getrusage() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def _nothing() -> int:
    return 0


def facts_of(
    name: str, kind: str, read: Callable[[], int], use: str, *, per_ns: float = 1.0, readings: int = 20_000
) -> ClockFacts:
    """Measure one clock.

    Args:
        read: gives its value.
        per_ns: units of the value in a nanosecond.
        readings: back-to-back ones for cost, quantum and monotonicity.
    """
    values = np.fromiter((read() for _ in range(readings)), dtype=np.int64, count=readings)
    steps = np.diff(values)
    cost = statistics.median(_cost(read) for _ in range(5)) - statistics.median(
        _cost(_nothing) for _ in range(5)
    )
    quantum = _quantum(steps[steps > 0], max(cost, 1.0) * per_ns) / per_ns
    return ClockFacts(name, kind, max(0.0, cost), quantum, bool((steps >= 0).all()), use)


def _quantum(steps: np.ndarray[Any, Any], cost: float) -> float:
    """The lattice of the steps; a clock without one moves by far more than its reading takes, or by 1."""
    if not len(steps):
        return float("nan")
    values, counts = np.unique(steps, return_counts=True)
    lattice = detect_quantum(values, counts)
    return float(values[0]) if lattice == 1 and values[0] > 10 * cost else float(lattice)


def _cost(read: Callable[[], int], count: int = 2000) -> float:
    start = time.perf_counter_ns()
    for _ in range(count):
        read()
    return (time.perf_counter_ns() - start) / count


def clocks() -> list[ClockFacts]:
    """Measure every candidate; about 0.3 s."""
    first = native_clock.reference()
    time.sleep(0.01)
    second = native_clock.reference()
    per_ns = (second[0] - first[0]) / max(1, second[1] - first[1])
    native = _native_costs(per_ns)
    found = []
    for name, kind, read, use in _candidates():
        coarse = 2_000 if kind == "cpu time" else 20_000
        one = facts_of(name, kind, read, use, per_ns=per_ns if kind == "counter" else 1.0, readings=coarse)
        found.append(replace(one, native_cost_ns=native.get(name)))
    return found


def _native_costs(per_ns: float) -> dict[str, float]:
    plain, ordered, _ = native_clock.read_cost_ticks()
    costs = {"TSC": plain, "TSC, ordered": ordered, "getrusage": native_clock.clock_cost_ticks(-1)}
    for name in dir(time):
        if name.startswith("CLOCK_"):
            costs[name] = native_clock.clock_cost_ticks(getattr(time, name))
    return {name: ticks / per_ns for name, ticks in costs.items() if ticks > 0}


def recommend(found: list[ClockFacts]) -> dict[str, str]:
    """Which clock for what, by what was measured."""
    steady = [one for one in found if one.monotonic]
    counters = [one for one in steady if one.kind == "counter"]
    intervals = [one for one in steady if one.kind in ("monotonic", "python") and "time.time" not in one.name]
    work = [one for one in steady if one.kind == "cpu time"]
    best: dict[str, str] = {}
    if counters:
        best["shortest intervals in native code"] = min(counters, key=lambda one: one.cost_ns).name
    if intervals:
        usable = [one for one in intervals if "process" not in one.name and "thread" not in one.name]
        best["intervals in Python"] = min(usable or intervals, key=lambda one: one.cost_ns).name
    if work:
        best["work without waiting"] = min(work, key=lambda one: (one.quantum_ns, one.cost_ns)).name
    best["dates"] = "CLOCK_REALTIME"
    return best
