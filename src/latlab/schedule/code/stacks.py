"""Where in the code a schedule's threads run and block: sampled stacks joined to its intervals.

A stack that was taken where a thread left its CPU belongs to the interval that begins there: blocked, it is
kept and the interval points at it; preempted, it is dropped, since the running samples tell that better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.schedule import SAMPLE, Schedule, ScheduledThread, State
from latlab.schedule.code.names import entry_of
from latlab.system.kernel.stacks import Stacks

__all__ = ["with_stacks"]

_TOLERANCE_NS = 200_000  # between a switch in the schedule and the sample of it


def with_stacks(schedule: Schedule, stacks: Stacks) -> Schedule:
    """The schedule with samples: a blocked interval has the stack it blocked in, where that was sampled, and
    a thread the function in which it starts."""
    thread = _threads_of(schedule.threads, stacks)
    intervals = schedule.intervals.copy()
    keep = thread >= 0
    interval_of = np.full(len(stacks), -1, np.int64)
    owners = np.ascontiguousarray(intervals["thread"])  # else it is copied for each thread
    for index in np.unique(thread[keep & (stacks.running == 0)]).tolist():
        rows = np.flatnonzero((thread == index) & (stacks.running == 0))
        low, high = np.searchsorted(owners, [index, index + 1]).tolist()
        if low == high:
            continue  # nothing is known of its intervals: all its stacks are kept
        begins = intervals["begin"][low:high]
        at = np.searchsorted(begins, stacks.time_ns[rows] + _TOLERANCE_NS, side="right") - 1
        # The nearest one, of the last two that began before.
        earlier = np.maximum(at - 1, 0)
        at = np.maximum(at, 0)
        nearer = np.abs(begins[earlier] - stacks.time_ns[rows]) < np.abs(begins[at] - stacks.time_ns[rows])
        at = np.where(nearer, earlier, at)
        state = intervals["state"][low:high][at]
        near = np.abs(begins[at] - stacks.time_ns[rows]) <= _TOLERANCE_NS
        blocked = near & (state == State.BLOCKED)
        keep[rows[~blocked]] = False
        interval_of[rows[blocked]] = low + at[blocked]
    kept = np.flatnonzero(keep)
    samples = np.empty(len(kept), SAMPLE)
    samples["time"] = stacks.time_ns[kept]
    samples["thread"] = thread[kept]
    samples["running"] = stacks.running[kept]
    samples["stack"] = stacks.stack[kept]
    pointing = interval_of[kept]
    intervals["sample"][pointing[pointing >= 0]] = np.flatnonzero(pointing >= 0)
    entries = _entries(samples, stacks)
    return replace(
        schedule,
        intervals=intervals,
        samples=samples,
        bases=stacks.base[kept] if stacks.base.size else stacks.base,
        stacks=stacks.stacks,
        frames=stacks.frames,
        threads=tuple(
            replace(one, entry=one.entry or entries.get(index, ""))
            for index, one in enumerate(schedule.threads)
        ),
        losses=replace(schedule.losses, notes=schedule.losses.notes + stacks.notes),
    )


def _threads_of(threads: Sequence[ScheduledThread], stacks: Stacks) -> np.ndarray[Any, Any]:
    """The index of each sample's thread, -1 for a stranger's; a tid may have been given twice."""
    out = np.full(len(stacks), -1, np.int32)
    for index, one in enumerate(threads):
        rows = (stacks.tid == one.tid) & (out < 0)
        rows &= stacks.time_ns <= (one.ended_ns + _TOLERANCE_NS if one.ended else np.iinfo(np.int64).max)
        out[rows] = index
    return out


def _entries(samples: np.ndarray[Any, Any], stacks: Stacks) -> Mapping[int, str]:
    """The function in which each thread starts: what most of its whole stacks say."""
    votes: dict[int, dict[str, int]] = {}
    names = [entry_of([stacks.frames[i] for i in stack]) for stack in stacks.stacks]
    for thread, stack in zip(samples["thread"].tolist(), samples["stack"].tolist(), strict=True):
        if names[stack]:
            of_thread = votes.setdefault(thread, {})
            of_thread[names[stack]] = of_thread.get(names[stack], 0) + 1
    return {thread: max(named, key=lambda name: named[name]) for thread, named in votes.items()}
