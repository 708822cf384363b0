"""Stages that take nothing any more: events wait, there is room behind, and the last was taken long ago."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.model.queues.observation import Observation
from latlab.queues.judge.measures.series import Series, is_limited
from latlab.queues.judge.measures.stages import StageView
from latlab.queues.judge.measures.threads import rows_of, thread_ids

__all__ = ["Stopped", "stopped_stage"]

_LEAST_NS = 400_000_000  # a thread that is taken off, or a collection of garbage, is back by then
_FACTOR = 20.0  # times the usual time between two events
_LONGER = 3.0  # times any stretch before it: a task whose turn comes seldom stands still between turns
_GONE_NS = 200_000_000  # a thread that was not seen for so long, while others were, has ended
_WAITS = 0.9  # of the stretch
_UNSEEN = 0.5  # of the stretch, between two looks
_NO_CPU = 0.3  # of the stretch: then it did not stop, it was kept from running


@dataclass(frozen=True)
class Stopped:
    """A stage that stands still until the end.

    Attributes:
        index: of its view.
        since_ns: from when on.
        waiting: events in front of it at the end.
        ended: its thread is gone; None where nobody knows.
    """

    index: int
    since_ns: int
    waiting: int
    ended: bool | None


def stopped_stage(observation: Observation, series: Series, views: list[StageView]) -> Stopped | None:
    """The stage that stands still for the longest until the end of the observation; None where none does."""
    found: list[Stopped] = []
    for index, view in enumerate(views):
        taken = series.out[list(view.inputs)].sum(axis=0)
        steps = np.flatnonzero(np.diff(taken) > 0)
        first = int(steps[-1]) + 1 if len(steps) else 0
        usual = float(np.median(np.diff(series.t_ns[steps]))) if len(steps) > 2 else 0.0
        waits = series.low[list(view.inputs)] >= 1
        has_work = np.asarray(waits.all(axis=0) if view.joins else waits.any(axis=0))
        stretch = np.flatnonzero(has_work[first:])
        if not len(stretch):
            continue
        begin = first + int(stretch[0])
        lasted = int(series.t_ns[-1] - series.t_ns[begin])
        least = max(_LEAST_NS, _FACTOR * usual, _LONGER * _stood_before(series.t_ns, steps, has_work))
        if lasted < least or _kept_from_it(view, series, begin):
            continue
        # Events wait until the end, and that was seen: a starved sampler sees a stretch by its two ends.
        unseen = int(np.diff(series.t_ns[begin:]).max(initial=0))
        if not has_work[-1] or has_work[begin:].mean() < _WAITS or unseen > _UNSEEN * lasted:
            continue
        state = _thread(observation, thread_ids(observation).get(view.label, 0), int(series.t_ns[begin]))
        if state is not None and state[1] >= _NO_CPU:
            continue
        waiting = int(series.low[list(view.inputs), -1].sum())
        found.append(Stopped(index, int(series.t_ns[begin]), waiting, state[0] if state else None))
    return min(found, key=lambda one: one.since_ns) if found else None


def _stood_before(t_ns: np.ndarray[Any, Any], steps: np.ndarray[Any, Any], has_work: Any) -> float:
    """The longest time, in ns, in which it took nothing though events waited, and then went on."""
    waited = np.concatenate(([0], np.cumsum(has_work)))
    begin, end = steps[:-1] + 1, steps[1:] + 1
    share = (waited[end] - waited[begin]) / np.maximum(end - begin, 1)
    stood = (t_ns[end] - t_ns[begin])[share >= _WAITS]
    return float(stood.max(initial=0))


def _kept_from_it(view: StageView, series: Series, begin: int) -> bool:
    """It has no room for its results, or no object of a pool, for most of the stretch."""
    full = [
        series.low[row, begin:] >= series.queues[row].capacity
        for row in view.outputs
        if is_limited(series.queues[row])
    ]
    empty = [series.low[row, begin:] == 0 for row in view.pools]
    return any(float(kept.mean()) >= 0.5 for kept in (*full, *empty))


def _thread(observation: Observation, tid: int, begin: int) -> tuple[bool, float] | None:
    """Whether a thread is gone, and the share of the time since `begin` that it was ready and had no CPU."""
    rows = rows_of(observation, tid)
    if rows is None:
        return None
    threads = observation.threads
    end = int(threads["t_ns"].max())
    gone = end - int(threads["t_ns"][rows[-1]]) > _GONE_NS
    at = np.interp([begin, end], threads["t_ns"][rows], threads["wait_ns"][rows].astype(float))
    return gone, float((at[1] - at[0]) / max(end - begin, 1))
