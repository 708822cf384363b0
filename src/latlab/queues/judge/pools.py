"""Pools of connections or buffers: empty is their critical state.

A stage whose own threads take objects and give them back works while it holds one. It waits for the pool
where it has more events in hand than objects: those wait for an object that another thread holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import StageResult, Verdict
from latlab.model.queues.observation import Observation
from latlab.queues.judge.measures.measured import Measured
from latlab.queues.judge.measures.series import Series, is_pool
from latlab.queues.judge.measures.stages import StageView
from latlab.queues.judge.measures.threads import stage_times, user_times
from latlab.queues.judge.ranking import LOADED

__all__ = ["PoolAlone", "PoolWait", "pool_by_itself", "pool_that_limits", "pool_waits"]

_WAITERS = 0.5  # events in hand that wait for an object, on average
_FEWEST = 50  # objects taken, of a pool that no queue stands beside
_BLOCKS = 40  # of the time, that are drawn anew
_RESAMPLES = 400  # none of n tells of less than about 3 / n


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


def _by_all_users(wait: PoolWait, blocked: NDArray[np.float64], measured: Measured, i: int) -> PoolWait:
    """The same with those that hardly ever get an object: nothing else is there that they could wait for."""
    seconds, taken = float(blocked.sum()), int(measured.taken[i].sum())
    waiting = seconds / max(float(measured.time.sum()), 1e-12)
    if waiting <= (wait.waiting or 0.0):
        return wait
    return replace(wait, waiting=waiting, wait_ns=seconds / taken * 1e9 if taken else None)


@dataclass(frozen=True)
class PoolAlone:
    """A pool beside which there is no queue.

    Attributes:
        name: of the pool; "" where it does not limit.
        confidence: how often it limits when blocks of the time are drawn anew.
        sentence: that says so.
        waits: of each pool how long a taker waits for an object, in ns.
        users: what each taker does for how long, an object after the other.
    """

    name: str
    confidence: float
    sentence: str
    waits: dict[int, float]
    users: tuple[StageResult, ...]


def pool_by_itself(observation: Observation, series: Series, window: tuple[int, int]) -> PoolAlone:
    """The pool that limits where there is no queue, with the sentence: a semaphore of tasks, for one.

    Its users say for how long each of them waits for an object; where they do so for most of the time, and
    all objects are out, there are too few of these, or they are held for too long.
    """
    edges = np.linspace(*window, _BLOCKS + 1).astype(np.int64)
    known = stage_times(observation, edges, "blocked_ns")
    limits = PoolAlone("", 0.0, "", {}, ())
    most, waits_ns, users = 0.0, {}, {}
    lasted = max(1e-9, (window[1] - window[0]) / 1e9)
    for row, queue in enumerate(series.queues):
        taken = int(series.out[row, -1] - series.out[row, 0])
        if not is_pool(queue) or taken < _FEWEST or queue.drain not in known:
            continue
        seconds = max(series.seconds, 1e-12)
        empty = float(series.weights[series.low[row] == 0].sum() / seconds)
        each, busy, idle = user_times(observation, queue.drain, edges)
        lives, works = each + busy + idle, float(busy.sum())
        waits, lived = float(each.sum() / max(lives.sum(), 1e-12)), max(float(lives.sum()), 1e-12)
        waits_ns[queue.number] = float(each.sum()) / taken * 1e9
        users[queue.drain] = StageResult(
            queue.drain, (queue.name,), (), ready=0.0, starved=0.0, blocked=min(1.0, waits),
            utilisation=works / lived, service_ns=works / taken * 1e9, rate_hz=taken / lasted,
            cpu=None, run_queue=None, involuntary_hz=None,
        )  # fmt: skip
        if empty >= LOADED and waits >= _WAITERS and waits > most:
            facts = {"pool": queue.name, "empty": empty, "stage": queue.drain, "waits": waits}
            sure = _holds(_empty_blocks(series, row, edges), each, lives)
            most = waits
            limits = PoolAlone(queue.name, sure, said(QueueEvidence.POOL_ALONE, **facts), {}, ())
    return replace(limits, waits=waits_ns, users=tuple(users.values()))


def _empty_blocks(series: Series, row: int, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """The share of each stretch of the time in which a pool has no object."""
    at = np.clip(np.searchsorted(edges, series.t_ns, side="right") - 1, 0, len(edges) - 2)
    whole = np.bincount(at, series.weights, len(edges) - 1)
    none = np.bincount(at, series.weights * (series.low[row] == 0), len(edges) - 1)
    return none / np.maximum(whole, 1e-12)


def _holds(
    empty: NDArray[np.float64],
    waits: NDArray[np.float64] | None = None,
    lives: NDArray[np.float64] | None = None,
) -> float:
    """How often the pool is as empty, and as many wait, when blocks of the time are drawn anew.

    Args:
        waits: shape (blocks,): seconds that its users wait. lives: that they are there.
    """
    random = np.random.default_rng(23)
    drawn = random.integers(0, len(empty), (_RESAMPLES, len(empty)))
    holds = empty[drawn].mean(axis=1) >= LOADED
    if waits is not None and lives is not None:
        holds &= waits[drawn].sum(axis=1) >= _WAITERS * lives[drawn].sum(axis=1)
    return min(float(holds.mean()), 1 - 3 / _RESAMPLES)


def pool_that_limits(
    observation: Observation, measured: Measured, series: Series, stage: str | None, verdict: Verdict
) -> tuple[tuple[str, str, float] | None, dict[int, float]]:
    """The pool that limits, the sentence that says so and how sure it is; and what is waited for each pool.

    As sure as it is that the pool is as empty in other stretches of the time, too.
    """
    rows = [i for i, view in enumerate(measured.views) if stage in (view.label, view.type)]
    # Whose workers wait for a pool is seldom busy: who is behind is busiest then, with time to spare.
    spare = verdict is Verdict.STAGE and all(float(measured.occupied[i]) < LOADED for i in rows)
    edges = np.linspace(series.t_ns[0], series.t_ns[-1] + 1, _BLOCKS + 1).astype(np.int64)
    worst: tuple[float, str, str, float] | None = None
    waits: dict[int, float] = {}
    for i, view in enumerate(measured.views):
        has_work = float(measured.ready[i] + measured.blocked[i])
        for wait in pool_waits(view, series):
            queue = series.queues[wait.row]
            if wait.own and wait.waiting is None:
                wait = _by_own_times(wait, measured, i)
                if not view.outputs and view.label in measured.own:
                    wait = _by_all_users(
                        wait, user_times(observation, view.label, measured.edges)[0], measured, i
                    )
            if wait.wait_ns is not None:
                waits[queue.number] = wait.wait_ns
            short = wait.empty >= LOADED and has_work >= LOADED
            # A stage that gives its objects back itself is slow by them where others of its threads wait.
            open_ = verdict in (Verdict.NONE, Verdict.UNKNOWN, Verdict.BURST)
            named = i in rows or ((open_ or spare) and view.label in measured.own)
            mine = wait.own and (wait.waiting or 0.0) >= _WAITERS and named
            others = not wait.own and open_
            if short and (mine or others) and (worst is None or wait.empty > worst[0]):
                facts = {"pool": queue.name, "empty": wait.empty, "stage": view.label}
                text = said(QueueEvidence.POOL, **facts)
                if wait.waiting is not None:
                    text = said(QueueEvidence.POOL_WAITS, waiting=wait.waiting, **facts)
                sure = _holds(_empty_blocks(series, wait.row, edges))
                worst = (wait.empty, queue.name, text, sure)
    return (worst[1:] if worst is not None else None), waits
