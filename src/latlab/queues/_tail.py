"""Tail exemplars: the slowest traced events one by one, where each waited, and what stood in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError, UsageError
from latlab.model.queue_tail import Tail, TailEvent, TailHop
from latlab.model.queues import Observation, Queue
from latlab.queues._analysis_threads import thread_ids
from latlab.queues._scheduler import Threads
from latlab.stats.quantiles import nearest_rank

__all__ = ["tail"]

_FINISHED = 1
_MOST_LOOKS = 100_000  # back in time from an event: to when its queue was empty last


def tail(
    observation: Observation, traces: Mapping[str, NDArray[Any]], *, share: float = 0.999, most: int = 20
) -> Tail:
    """The events whose time from end to end is beyond a quantile, the slowest first.

    Args:
        traces: columns event, push_ns, pop_ns, queue (-1 of an end), stage, end, as in a recording.
        share: the quantile.
        most: events to look at.

    Raises:
        InputError: when no traced event came to an end.
        UsageError: for a quantile that is none.
    """
    if not 0 < share < 1:
        raise UsageError(f"{share} is no quantile between 0 and 1")
    order = np.lexsort((traces["pop_ns"], traces["event"]))
    rows = {name: np.asarray(values)[order] for name, values in traces.items()}
    if not len(order):
        raise InputError("traces", "hold no event")
    starts = np.flatnonzero(np.append(True, rows["event"][1:] != rows["event"][:-1]))
    ends = np.append(starts[1:], len(order))
    began = np.minimum.reduceat(rows["push_ns"], starts)
    over = np.maximum.reduceat(rows["pop_ns"], starts)
    # An event that was filtered ended, too, but not at the end: its time is none from end to end.
    whole = np.maximum.reduceat((rows["end"] == _FINISHED).astype(int), starts) > 0
    if not whole.any():
        raise InputError("traces", "no traced event came to an end")
    times = over - began
    limit = nearest_rank(times[whole], share)
    beyond = np.flatnonzero(whole & (times > limit))
    chosen = beyond[np.argsort(-times[beyond], kind="stable")][:most]
    missing = observation.scheduler_missing
    if not missing and not len(observation.scheduler.get("t_ns", ())):
        missing = "there are no scheduler events"
    kernel = None if missing else Threads(observation.scheduler, observation.thread_names)
    looks = {
        queue.number: np.flatnonzero(observation.samples["queue"] == queue.number)
        for queue in observation.queues
    }
    events = tuple(
        _event(
            observation, looks, kernel, {name: values[starts[i] : ends[i]] for name, values in rows.items()}
        )
        for i in chosen
    )
    return Tail(share, float(limit), int(whole.sum()), len(beyond), events, missing)


def _event(
    observation: Observation,
    looks: Mapping[int, NDArray[Any]],
    kernel: Threads | None,
    rows: Mapping[str, NDArray[Any]],
) -> TailEvent:
    hops = np.flatnonzero(rows["end"] == 0)
    leaves = np.append(rows["push_ns"][1:], rows["pop_ns"][-1:])
    found = []
    tids = thread_ids(observation)
    for i in hops.tolist():
        push, pop = int(rows["push_ns"][i]), int(rows["pop_ns"][i])
        number = int(rows["queue"][i])
        queue = observation.queues[number] if 0 <= number < len(observation.queues) else None
        stage = str(rows["stage"][i])
        fill, filling, came = (
            (None, None, None) if queue is None else _in_front(observation, looks, queue, push)
        )
        on_cpu, waiting = _thread(observation, stage, push, pop)
        served = max(0, int(leaves[i]) - pop)
        name = "" if queue is None else queue.name
        tid = tids.get(stage, 0)
        shares = (
            (None, None)
            if kernel is None
            else (kernel.share(tid, push, pop), kernel.share(tid, pop, pop + served))
        )
        found.append(
            TailHop(name, stage, push, pop - push, served, fill, filling, came, on_cpu, waiting, *shares)
        )
    began, over = int(rows["push_ns"].min()), int(rows["pop_ns"].max())
    return TailEvent(int(rows["event"][0]), began, over - began, tuple(found))


def _in_front(
    observation: Observation, looks: Mapping[int, NDArray[Any]], queue: Queue, at: int
) -> tuple[int | None, int | None, int | None]:
    """The fill when an event came, how long the queue had not been empty, and how many came meanwhile."""
    samples = observation.samples
    mine = looks.get(queue.number, np.empty(0, np.int64))
    last = int(np.searchsorted(samples["t_ns"][mine], at, side="right")) - 1
    if last < 0:
        return None, None, None
    before = mine[max(0, last + 1 - _MOST_LOOKS) : last + 1]
    came = samples["in"][before].astype(np.int64)
    fill = np.maximum(came - samples["out_high"][before].astype(np.int64), 0)
    empty = np.flatnonzero(fill == 0)
    since = int(empty[-1]) if len(empty) else 0
    return int(fill[-1]), int(at - samples["t_ns"][before[since]]), int(came[-1] - came[since])


def _thread(observation: Observation, stage: str, begin: int, end: int) -> tuple[float | None, float | None]:
    """Shares of a wait in which the stage's thread ran, and was ready without a CPU, by the nearest looks."""
    threads = observation.threads
    tid = thread_ids(observation).get(stage)
    if tid is None or not threads or not len(threads["tid"]):
        return None, None
    mine = np.flatnonzero(threads["tid"] == tid)
    if len(mine) < 2:
        return None, None
    at = threads["t_ns"][mine]
    first = max(0, int(np.searchsorted(at, begin, side="right")) - 1)
    last = min(len(mine) - 1, max(first + 1, int(np.searchsorted(at, end, side="left"))))
    if last <= first:
        return None, None
    seconds = float(at[last]) - float(at[first])
    used, waited = (
        float(threads[name][mine[last]]) - float(threads[name][mine[first]]) for name in ("cpu_ns", "wait_ns")
    )
    return min(1.0, used / seconds), min(1.0, waited / seconds)
