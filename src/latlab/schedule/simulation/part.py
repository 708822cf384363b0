"""A stretch of a schedule that is too long to be simulated, where it stands for the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, ScheduledThread, State
from latlab.schedule.simulation.simulate import MOST_STEPS, steps_in

__all__ = ["stretch_of"]

Array = np.ndarray[Any, Any]

_FITS = 0.8  # of what can be simulated: turns don't come evenly
_ALIKE = 0.05  # of the time, a thread runs more or less in the stretch than in all
_EVENLY = 0.2  # of the turns, more or less than are due


def stretch_of(schedule: Schedule) -> Schedule | None:
    """The middle of a schedule, as long as can be simulated.

    None where it does not stand for the whole: a thread runs for another share of it, or turns come at
    another rate, as of a program that does one thing first and another one later.
    """
    whole = schedule.ended_ns - schedule.began_ns
    length = int(whole * _FITS * MOST_STEPS / max(1, steps_in(schedule)))
    if length >= whole:
        return schedule
    begin = schedule.began_ns + (whole - length) // 2
    part = _cut(schedule, begin, begin + length)
    due = len(schedule.intervals) * length / whole
    if abs(len(part.intervals) - due) > _EVENLY * due:
        return None
    apart = _running(part) / max(1, length) - _running(schedule) / max(1, whole)
    return part if float(np.abs(apart).max(initial=0.0)) <= _ALIKE else None


def _cut(schedule: Schedule, begin: int, end: int) -> Schedule:
    """What happened from `begin` to `end`, as if it had been observed for so long."""

    def within(rows: Array) -> Array:
        rows = rows[(rows["end"] > begin) & (rows["begin"] < end)].copy()
        rows["begin"], rows["end"] = np.maximum(rows["begin"], begin), np.minimum(rows["end"], end)
        return rows

    def of(thread: ScheduledThread) -> ScheduledThread:
        before, over = thread.began_ns < begin, thread.ended_ns > end
        return replace(
            thread,
            began_ns=min(max(thread.began_ns, begin), end),
            ended_ns=max(min(thread.ended_ns, end), begin),
            ended=thread.ended and not over,
            parent=-1 if before else thread.parent,
        )

    times = schedule.wakes["time"]
    begun = schedule.deadlines["begin"]
    return replace(
        schedule,
        began_ns=begin,
        ended_ns=end,
        threads=tuple(of(thread) for thread in schedule.threads),
        intervals=within(schedule.intervals),
        wakes=schedule.wakes[(times >= begin) & (times < end)],
        foreign=within(schedule.foreign),
        watching=within(schedule.watching),
        interrupted=within(schedule.interrupted),
        deadlines=schedule.deadlines[(begun >= begin) & (begun < end)],
    )


def _running(schedule: Schedule) -> Array:
    """By thread: ns."""
    rows = schedule.intervals[schedule.intervals["state"] == State.RUNNING]
    length = (rows["end"] - rows["begin"]).astype(float)
    return np.bincount(rows["thread"], weights=length, minlength=len(schedule.threads))
