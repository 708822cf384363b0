"""The stages of an application over a window, block by block: what all judgement is made of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.observation import Observation
from latlab.queues.judge.measures.series import Series, is_limited
from latlab.queues.judge.measures.stages import Manner, StageView, busy_share, chains, manner_of, stage_views
from latlab.queues.judge.measures.threads import (
    ThreadShares,
    stage_times,
    thread_blocks,
    thread_ids,
    thread_shares,
    told_of,
    told_threads,
)
from latlab.queues.judge.ranking import BLOCKS

__all__ = ["Measured", "measure"]


_AS_MUCH = 1.05  # who runs for longer than it is at work, by more than the counts can err, looks for events


@dataclass(frozen=True)
class Measured:
    """Stages over a window; `blocks` are stretches of it."""

    views: list[StageView]
    ready: NDArray[np.float64]  # (stages,): shares of time
    starved: NDArray[np.float64]
    blocked: NDArray[np.float64]
    occupied: NDArray[np.float64]
    busy: NDArray[np.float64]  # (stages, blocks): seconds
    work: NDArray[np.float64]  # (stages, blocks): seconds busy, but for those in which its thread had no CPU
    demand: NDArray[np.float64]  # (stages, blocks): seconds of a CPU
    exact: NDArray[np.bool_]  # (stages,): the demand is what the kernel counted, at work alone
    per: NDArray[np.float64]  # (stages, blocks): seconds; see `rank`
    taken: NDArray[np.int64]  # (stages, blocks): events out of the inputs
    time: NDArray[np.float64]  # (blocks,): seconds
    edges: NDArray[np.int64]  # (blocks + 1,): ns
    own: dict[str, NDArray[np.float64]]  # by label: busy seconds a block, from the stage's own times
    threads: dict[str, ThreadShares]
    error: NDArray[np.float64]  # (stages,): the part of its busy time that may be no work of its own
    workers: NDArray[np.int64]  # (stages,): threads or tasks that share its events; `busy` is their mean
    stretch: NDArray[np.float64]  # (stages,): times its busy time, what its events take; see `_stretch`

    def served(self, i: int) -> NDArray[np.float64]:
        """Shape (blocks,): seconds that a stage's events took, of all its workers: over them, its service."""
        spent: NDArray[np.float64] = self.busy[i] * (self.workers[i] * self.stretch[i])
        return spent


def measure(observation: Observation, series: Series, window: tuple[int, int]) -> Measured:
    """The stages over a window, block by block."""
    views = stage_views(observation, series)
    manner = manner_of(views, series)
    count = min(BLOCKS * 4, max(1, len(series.t_ns) // 8))
    cuts = np.linspace(0, len(series.t_ns), count + 1).astype(int)
    looked = np.add.reduceat(series.weights, cuts[:-1])
    edges = np.append(series.t_ns[cuts[:-1]], series.t_ns[-1] + max(1, round(series.weights[-1] * 1e9)))
    # By the clock, as what was counted: the shares of the time that was looked at stand for its gaps too.
    time = np.diff(edges) / 1e9
    shares = np.zeros((4, len(views)))
    busy = np.zeros((len(views), count))
    total = series.seconds
    own = stage_times(observation, edges)
    own = {view.label: own[view.label] for view in views if _tells_all(view, series, observation, own)}
    stuck = stage_times(observation, edges, "blocked_ns")
    for i, view in enumerate(views):
        *plain, mended = busy_share(view, series, manner)
        shares[:, i] = [float((x * series.weights).sum() / total) for x in plain]
        busy[i] = np.add.reduceat(mended * series.weights, cuts[:-1]) * time / np.maximum(looked, 1e-12)
        if view.label in own:
            busy[i] = own[view.label]
    threads = thread_shares(observation, window)
    ready, starved, blocked, occupied = shares
    for i, view in enumerate(views):
        if view.label in own:
            # The mended counts guess what a stage holds between two samples; its own times know.
            waited = float(blocked[i])
            if view.label in stuck:
                waited = max(waited, float(stuck[view.label].sum() / max(time.sum(), 1e-12)))
            occupied[i] = min(1.0, float(busy[i].sum() / max(time.sum(), 1e-12)) + waited)
    taken = _taken(views, series, cuts)
    per = _per(views, series, taken, time)
    work, demand, exact = _work(observation, views, busy, edges)
    return Measured(
        views,
        ready,
        starved,
        blocked,
        occupied,
        busy,
        work,
        demand,
        exact,
        per,
        taken,
        time,
        edges,
        own,
        threads,
        _error(views, busy, time, threads),
        _workers(views, observation, manner, own),
        np.array([_stretch(view, i, shares[0], busy, taken, time, threads) for i, view in enumerate(views)]),
    )


def _workers(
    views: list[StageView], observation: Observation, manner: Manner, own: dict[str, NDArray[np.float64]]
) -> NDArray[np.int64]:
    """By their own times; else as many as held an event at once, as `busy_share` takes them."""
    told = told_threads(observation)
    found = np.ones(len(views), np.int64)
    for i, view in enumerate(views):
        if view.label in own:
            found[i] = told.get(view.label, 1)
        elif view.held is not None and manner.holds is False:
            found[i] = max(1, round(float(np.quantile(view.held, 0.999))))
    return found


_PARKS = 0.25  # of its events, after which a thread sleeps until there is another
_NEVER_SLEEPS = 0.95  # of the time, a thread runs or wants to: then it may look for events all the while


def _stretch(
    view: StageView,
    i: int,
    ready: NDArray[np.float64],
    busy: NDArray[np.float64],
    taken: NDArray[np.int64],
    time: NDArray[np.float64],
    threads: dict[str, ThreadShares],
) -> float:
    """How many times its busy time the events of a stage take, at least 1.

    The time in which it has an event and room, and says that it is idle, is a part of that: it wakes up, or
    looks for the event, as who reads it from a pipe. (Of several inputs that are not one event's, it may
    rightly wait for another; and waiting for an object of a pool is no work.) And who takes of several inputs
    what no count shows afterwards has been at work for as long as its thread ran, if that sleeps when
    there is nothing.
    """
    seconds = max(float(time.sum()), 1e-12)
    share = float(busy[i].sum()) / seconds
    least = float(ready[i]) if (len(view.inputs) == 1 or view.joins) and not view.pools else 0.0
    thread = threads.get(view.label)
    if thread is not None and view.held is None and len(view.inputs) > 1:
        rate_hz = float(taken[i].sum()) / (len(view.inputs) if view.joins else 1) / seconds
        if thread.cpu + thread.wait < _NEVER_SLEEPS and thread.voluntary_hz >= _PARKS * rate_hz:
            least = max(least, thread.cpu)
    return max(1.0, least / share) if share > 0 else 1.0


# Of a thread's busy time: CPUs differ by as much (one machine's two, measured by `benchmarks.machine_speed`),
# and every wait for something else than a CPU ends with a wake-up, which takes 50 to 100 us.
_CPU_DIFFERS, _WAKES = 0.015, 0.03


def _error(
    views: list[StageView],
    busy: NDArray[np.float64],
    time: NDArray[np.float64],
    threads: dict[str, ThreadShares],
) -> NDArray[np.float64]:
    """What real threads' times may be wrong by; 0 where nothing is known of the threads."""
    error = np.zeros(len(views))
    shares = busy.sum(axis=1) / max(float(time.sum()), 1e-12)
    for i, view in enumerate(views):
        thread = threads.get(view.label)
        if thread is not None and shares[i] > 0:
            off = 1.0 - min(1.0, (thread.cpu + thread.wait) / float(shares[i]))
            error[i] = _CPU_DIFFERS + _WAKES * off
    return error


_HARDLY = 0.02  # of the time


def _tells_all(
    view: StageView, series: Series, observation: Observation, own: dict[str, NDArray[np.float64]]
) -> bool:
    """What a stage tells of its times holds all that it waits for.

    Of a queue that is counted in another file than its times stand in, it does not say that it waits there.
    """
    if view.label not in own:
        return False
    files = told_of(observation, view.label)
    total = max(series.seconds, 1e-12)
    for row in (*view.inputs, *view.outputs):
        queue = series.queues[row]
        if not queue.processes or files & set(queue.processes):
            continue
        waits = series.low[row] == 0
        if row in view.outputs:
            if not is_limited(queue):
                continue
            waits = series.low[row] >= queue.capacity
        if float(waits @ series.weights) / total > _HARDLY:
            return False
    return True


def _work(
    observation: Observation, views: list[StageView], busy: NDArray[np.float64], edges: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """What of its busy time a stage was at work, what it needed a CPU for, and whether that is exact.

    A thread that waits for events asleep is ready only while it has some. One that polls is ready all the
    time, and as likely to lack a CPU while it works as while it looks: of its waiting the share counts that
    its busy time is of the time in which it wanted a CPU. It uses a CPU while it looks, too; the other does
    so only at work, which the kernel tells exactly.
    """
    work, demand = busy.copy(), busy.copy()
    exact = np.zeros(len(views), np.bool_)
    tids = thread_ids(observation)
    for i, view in enumerate(views):
        tid = tids.get(view.label, 0)
        known = thread_blocks(observation, tid, edges)
        if known is None:
            continue
        ran, waited = known
        work[i] -= waited * np.minimum(1.0, busy[i] / np.maximum(ran + waited, 1e-12))
        exact[i] = list(tids.values()).count(tid) == 1 and ran.sum() <= _AS_MUCH * work[i].sum()
        demand[i] = ran if exact[i] else work[i]
    return work, demand, exact


def _taken(views: list[StageView], series: Series, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
    ends = cuts - (cuts == cuts[-1])
    rows = [np.diff(series.out[list(view.inputs)].sum(axis=0)[ends]) for view in views]
    return np.array(rows, np.int64).reshape(len(views), len(cuts) - 1)


def _per(
    views: list[StageView], series: Series, taken: NDArray[np.int64], time: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What each stage's busy time is held against, in seconds.

    It is the time; or, of stages that pass on every event from one to the next, the events that it took, at
    the rate of the chain. At the end of the run the first stages may have taken some that the last have not:
    then the time would be unfair to either.
    """
    per = np.tile(time, (len(views), 1))
    for chain in chains(views, series):
        totals = taken[chain].sum(axis=1)
        if len(chain) > 1 and totals.min() > 0:
            per[chain] = taken[chain] * (time.sum() / totals.mean())
    return per
