"""Pools of connections or buffers: empty is their critical state.

A stage whose own threads take objects and give them back works while it holds one. It waits for the pool
where it has more events in hand than objects: those wait for an object that another thread holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Verdict
from latlab.queues.judge.measures.measured import Measured
from latlab.queues.judge.measures.series import Series
from latlab.queues.judge.measures.stages import StageView
from latlab.queues.judge.ranking import LOADED

__all__ = ["PoolWait", "pool_that_limits", "pool_waits"]

_WAITERS = 0.5  # events in hand that wait for an object, on average


@dataclass(frozen=True)
class PoolWait:
    """How a stage waits for a pool.

    Attributes:
        row: of the pool.
        empty: share of the time that it had no object.
        waiting: events in hand that waited for one, on average; None where the counts do not tell.
        wait_ns: mean time that an event waited; None where unknown.
        own: the stage itself gives the objects back.
    """

    row: int
    empty: float
    waiting: float | None
    wait_ns: float | None
    own: bool


def pool_waits(view: StageView, series: Series) -> list[PoolWait]:
    """One for each pool that a stage takes from."""
    found = []
    seconds = max(series.seconds, 1e-12)
    for row in view.pools:
        fill, queue = series.low[row], series.queues[row]
        empty = float(series.weights[fill == 0].sum() / seconds)
        own = queue.source == queue.drain
        waiting, wait_ns = None, None
        if own and view.held is not None:
            used = np.maximum(queue.capacity, fill.max(initial=0)) - fill
            waiting = float((np.maximum(view.held - used, 0) * series.weights).sum() / seconds)
            taken = int((series.out[list(view.inputs), -1] - series.out[list(view.inputs), 0]).sum())
            wait_ns = waiting * seconds / taken * 1e9 if taken else None
        found.append(PoolWait(row, empty, waiting, wait_ns, own))
    return found


def _by_own_times(wait: PoolWait, measured: Measured, i: int) -> PoolWait:
    """The same of a stage whose events in hand no queue counts: who has work and is not at it waits."""
    if measured.views[i].label not in measured.own:
        return wait
    seconds = float(measured.time.sum())
    busy = float(measured.busy[i].sum()) / max(seconds, 1e-12)
    waiting = int(measured.workers[i]) * max(0.0, float(measured.ready[i]) - busy)
    taken = int(measured.taken[i].sum())
    return replace(wait, waiting=waiting, wait_ns=waiting * seconds / taken * 1e9 if taken else None)


def pool_that_limits(
    measured: Measured, series: Series, stage: str | None, verdict: Verdict
) -> tuple[tuple[str, str] | None, dict[int, float]]:
    """The pool that limits with the sentence that says so, and how long events wait for each pool."""
    worst: tuple[float, str, str] | None = None
    waits: dict[int, float] = {}
    for i, view in enumerate(measured.views):
        has_work = float(measured.ready[i] + measured.blocked[i])
        for wait in pool_waits(view, series):
            queue = series.queues[wait.row]
            if wait.own and wait.waiting is None:
                wait = _by_own_times(wait, measured, i)
            if wait.wait_ns is not None:
                waits[queue.number] = wait.wait_ns
            short = wait.empty >= LOADED and has_work >= LOADED
            # A stage that gives its objects back itself is slow by them where others of its threads wait.
            open_ = verdict in (Verdict.NONE, Verdict.UNKNOWN, Verdict.BURST)
            named = stage in (view.label, view.type) or (open_ and view.label in measured.own)
            mine = wait.own and (wait.waiting or 0.0) >= _WAITERS and named
            others = not wait.own and open_
            if short and (mine or others) and (worst is None or wait.empty > worst[0]):
                facts = {"pool": queue.name, "empty": wait.empty, "stage": view.label}
                text = said(QueueEvidence.POOL, **facts)
                if wait.waiting is not None:
                    text = said(QueueEvidence.POOL_WAITS, waiting=wait.waiting, **facts)
                worst = (wait.empty, queue.name, text)
    return (worst[1:] if worst is not None else None), waits
