"""The working periods of a component that waits, and what each of them would buy (step 3 of the method).

A call that works, waits and works again has two working periods. Where it waits is seen by the kernel's
scheduler alone, and so one more run is measured under its trace. Stubs then wait where the component waits,
for as long as it does, and the longest periods are made faster one at a time.
"""

from __future__ import annotations

import bisect
import tempfile
import time
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from latlab.errors import InputError, UnavailableError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import Speedup
from latlab.model.stubs import Timeline, WorkingPeriod
from latlab.stubs.studies import forecast as _forecast
from latlab.stubs.studies import runner as _lab
from latlab.stubs.timelines import capture as _capture
from latlab.stubs.timelines import derive as _derive

Rows = npt.NDArray[np.int64]
Slice = tuple[int, int, str]
# A period that is less of the component's time than this is not studied, nor more periods than so many.
_LEAST = 0.05
_MOST = 3
_SPEEDUPS = (0.0, 0.5, 1.0)
_BASE = -1.0
_FEWEST_ROUNDS = 4


def cut(begin: int, end: int, slices: Sequence[Slice], merge_ns: int = _derive.MERGE_NS) -> list[Slice]:
    """A thread's slices within a call; what is blocked for too short a time to be slept counts as running."""
    first = max(0, bisect.bisect_right(slices, begin, key=lambda one: one[0]) - 1)
    found: list[Slice] = []
    for since, until, state in slices[first:]:
        if since >= end:
            break
        a, b = max(since, begin), min(until, end)
        if b > a:
            found.append((a, b, "running" if state == "blocked" and b - a < merge_ns else state))
    return found


def steps(parts: Sequence[Slice]) -> Rows:
    """A call as working periods: rows (busy_ns, wait_ns after it); the last one waits for nothing."""
    rows: list[list[int]] = [[0, 0]]
    for begin, end, state in parts:
        if state == "running":
            if rows[-1][1]:
                rows.append([0, 0])
            rows[-1][0] += end - begin
        elif state == "blocked":
            rows[-1][1] += end - begin
    if rows[-1][1]:
        rows.append([0, 0])
    return np.array(rows, dtype=np.int64)


def scaled(rows: Rows, busy_ns: int, blocked_ns: int) -> Rows:
    """The steps with the call's usual times instead of those of the traced run, as a stub reads them.

    Returns:
        (busy_ns, -wait_ns) of each working period, 0 as the wait of the last.
    """
    busy, waits = rows.sum(axis=0)
    if len(rows) == 1 or not busy or not waits or blocked_ns <= 0:
        return np.array([[busy_ns, max(0, blocked_ns)]], dtype=np.int64)
    result = np.empty_like(rows)
    result[:, 0] = rows[:, 0] * (busy_ns / busy)
    result[:, 1] = -np.maximum(1, rows[:, 1] * (blocked_ns / waits))
    result[-1, 1] = 0
    return result


def of_calls(units: _lab.Units, timeline: Timeline, spans: Mapping[str, Rows]) -> dict[tuple[str, int], Rows]:
    """For each unit the rows of all of its calls; empty where the traced run made other calls.

    Args:
        units: the calls as they usually are.
        timeline: of the traced run.
        spans: of each process, rows (thread number, thread id, begin, end) of its calls in that run.
    """
    slices = {
        thread.pid: [(a + timeline.begin_ns, b + timeline.begin_ns, s) for a, b, s in thread.slices]
        for thread in timeline.threads
    }
    found = {}
    for (process, number), unit in units.items():
        rows = spans.get(process, np.zeros((0, 4), dtype=np.int64))
        rows = rows[rows[:, 0] == number]
        if len(rows) != len(unit.times):
            return {}
        calls = [
            scaled(steps(cut(begin, end, slices.get(tid, []))), int(busy), int(blocked))
            for (_, tid, begin, end), (busy, blocked) in zip(rows.tolist(), unit.times, strict=True)
        ]
        found[process, number] = np.concatenate(calls)
    return found


def totals(rows: Mapping[tuple[str, int], Rows]) -> Rows:
    """(busy_ns, wait_ns after it) of each working period, by its number in a call, over all calls."""
    sums: dict[int, npt.NDArray[np.int64]] = {}
    for calls in rows.values():
        number = 0
        for busy, wait in calls:
            sums.setdefault(number, np.zeros(2, dtype=np.int64))[:] += (busy, max(0, -wait))
            number = number + 1 if wait < 0 else 0
    return np.array([sums[number] for number in sorted(sums)])


def trace(lab: _lab.Lab, units: _lab.Units) -> dict[tuple[str, int], Rows]:
    """Measure once more under the scheduler's trace; empty where that can't be, or no call waits twice."""
    if not {"shared", "keyed", "waitless"}.isdisjoint(lab.flags) or lab.plan.kind == "command":
        return {}
    for old in lab.state.glob("*.spans"):
        old.unlink()
    lab.prepare("measure", 0.0, 0)
    try:
        with tempfile.TemporaryDirectory() as folder:
            timeline, code = _capture.capture(lab.command, folder, quiet=True, environment=lab.environment)
    except (UnavailableError, InputError):
        return {}
    spans = {
        path.stem: np.fromfile(path, dtype=np.int64).reshape(-1, 4) for path in lab.state.glob("*.spans")
    }
    found = {} if code else of_calls(units, timeline, spans)
    return found if any((rows[:, 1] < 0).any() for rows in found.values()) else {}


def least_seconds(rows: Mapping[tuple[str, int], Rows], run_s: float) -> float:
    """How long the shortest study of them takes where a run takes this long."""
    return _FEWEST_ROUNDS * (len(_chosen(totals(rows))) * len(_SPEEDUPS[1:]) + 2) * run_s


def _chosen(periods: Rows) -> list[int]:
    """The longest, by their numbers."""
    shares = periods[:, 0] / max(1, periods[:, 0].sum())
    return [int(i) for i in np.argsort(-shares)[:_MOST] if shares[i] >= _LEAST]


def study(
    lab: _lab.Lab, rows: Mapping[tuple[str, int], Rows], until: float, t_sut: float
) -> tuple[WorkingPeriod, ...]:
    """What each of the longest working periods would buy by itself; waits and other periods stay as they are.

    Args:
        rows: of `trace`.
        until: on the clock of time.monotonic; at least four rounds are run.
        t_sut: the unmodified system's time, ns.
    """
    periods = totals(rows)
    chosen = _chosen(periods)
    random = np.random.default_rng(lab.plan.seed + 1)
    measured: dict[int, list[dict[float, float]]] = {i: [] for i in chosen}
    base: list[float] = []
    longest = 0.0
    while len(base) < _FEWEST_ROUNDS or time.monotonic() + longest < until:
        start = time.monotonic()
        variants = [(i, s) for i in chosen for s in _SPEEDUPS[1:]]
        variants += [(-1, 0.0), (-1, _BASE)]
        random.shuffle(variants)
        points: dict[int, dict[float, float]] = {i: {} for i in chosen}
        for number, speedup in variants:
            if number < 0:
                wall = float(lab.run("off" if speedup == _BASE else "busy", max(0.0, speedup)).wall_ns)
                for one in points.values():
                    one[speedup] = wall
            else:
                flags = (f"period={number + 1}",)
                points[number][speedup] = float(lab.run("busy", speedup, flags=flags).wall_ns)
        base.append(next(iter(points.values()))[_BASE])
        for number, one in points.items():
            measured[number].append({s: wall for s, wall in one.items() if s != _BASE})
        longest = max(longest, time.monotonic() - start)
    found = []
    for number in chosen:
        what = said(Speedup.WORKING_PERIOD, number=number + 1, component=lab.plan.component)
        forecast = _forecast.forecast(measured[number], baseline=base, name=what)
        last = forecast.curve[-1]
        share = forecast.base / t_sut
        found.append(
            WorkingPeriod(
                number=number + 1,
                busy_ns=int(periods[number, 0]),
                wait_ns=int(periods[number, 1]),
                component_class=forecast.component_class,
                t_limit=forecast.t_limit,
                gain=last.gain * share,
                interval=(last.interval[0] * share, last.interval[1] * share),
                sentence=forecast.sentence,
                rounds=forecast.rounds,
            )
        )
    return tuple(found)
