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
from latlab.model.queues.observation import Observation
from latlab.queues.judge.measures.measured import Measured
from latlab.queues.judge.measures.series import Series, is_pool
from latlab.queues.judge.measures.stages import StageView
from latlab.queues.judge.measures.threads import stage_times
from latlab.queues.judge.ranking import LOADED

__all__ = ["PoolWait", "pool_by_itself", "pool_that_limits", "pool_waits"]

_WAITERS = 0.5  # events in hand that wait for an object, on average
_FEWEST = 50  # objects taken, of a pool that no queue stands beside


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


def pool_by_itself(
    observation: Observation, series: Series, window: tuple[int, int]
) -> tuple[str, str] | None:
    """The pool that limits where there is no queue, and the sentence: a semaphore of tasks, for one.

    Its users say for how long each of them waits for an object; where they do so for most of the time, and
    all objects are out, there are too few of these, or they are held for too long.
    """
    waited = stage_times(observation, np.array(window, np.int64), "blocked_ns")
    found: tuple[float, str, str] | None = None
    for row, queue in enumerate(series.queues):
        taken = int(series.out[row, -1] - series.out[row, 0])
        if not is_pool(queue) or taken < _FEWEST or queue.drain not in waited:
            continue
        seconds = max(series.seconds, 1e-12)
        empty = float(series.weights[series.low[row] == 0].sum() / seconds)
        waits = float(waited[queue.drain].sum()) * 1e9 / max(1, window[1] - window[0])
        if empty >= LOADED and waits >= _WAITERS and (found is None or waits > found[0]):
            facts = {"pool": queue.name, "empty": empty, "stage": queue.drain, "waits": waits}
            found = waits, queue.name, said(QueueEvidence.POOL_ALONE, **facts)
    return found[1:] if found is not None else None


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
