"""Tail exemplars: the slowest traced events one by one, where each waited, and what stood in front of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError, UsageError
from latlab.model.queues.observation import Columns, Observation
from latlab.model.queues.tail import Tail, TailEvent, TailHop
from latlab.queues.judge.measures.threads import thread_ids
from latlab.queues.sample.scheduler import ThreadStates
from latlab.stats.quantiles import nearest_rank

__all__ = ["tail"]

_FINISHED = 1


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
        raise UsageError(f"{share} is not a quantile between 0 and 1")
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
    kernel = None if missing else ThreadStates(observation.scheduler, observation.thread_names)
    seen = _Seen(observation, kernel)
    events = tuple(
        _event(seen, {name: values[starts[i] : ends[i]] for name, values in rows.items()}) for i in chosen
    )
    return Tail(share, float(limit), int(whole.sum()), len(beyond), events, missing)


@dataclass(frozen=True)
class _Looks:
    """The samples of one queue.

    Attributes:
        t_ns, came, fill: shape (samples,).
        empty: shape (samples,): the last sample up to each that found the queue empty; 0 where none did.
    """

    t_ns: NDArray[np.int64]
    came: NDArray[np.int64]
    fill: NDArray[np.int64]
    empty: NDArray[np.int64]

    def in_front(self, at: int) -> tuple[int | None, int | None, int | None]:
        """The fill when an event came, how long the queue had not been empty, and how many came meanwhile."""
        last = int(np.searchsorted(self.t_ns, at, side="right")) - 1
        if last < 0:
            return None, None, None
        since = int(self.empty[last])
        return int(self.fill[last]), int(at - self.t_ns[since]), int(self.came[last] - self.came[since])


@dataclass(frozen=True)
class _Times:
    """What the kernel said of one thread: shape (looks,) each."""

    t_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.float64]
    wait_ns: NDArray[np.float64]

    def shares(self, begin: int, end: int) -> tuple[float | None, float | None]:
        """Shares of a wait in which the thread ran, and was ready without a CPU, by the nearest looks."""
        first = max(0, int(np.searchsorted(self.t_ns, begin, side="right")) - 1)
        last = min(len(self.t_ns) - 1, max(first + 1, int(np.searchsorted(self.t_ns, end, side="left"))))
        if last <= first:
            return None, None
        time = float(self.t_ns[last]) - float(self.t_ns[first])
        used, waited = (float(sums[last] - sums[first]) for sums in (self.cpu_ns, self.wait_ns))
        return min(1.0, used / time), min(1.0, waited / time)


class _Seen:
    """An observation, sorted so that a moment of one queue or thread is found at once."""

    def __init__(self, observation: Observation, kernel: ThreadStates | None) -> None:
        self.queues = observation.queues
        self.tids = thread_ids(observation)
        self.kernel = kernel
        samples, threads = observation.samples, observation.threads
        self._looks = {
            queue.number: _looks(samples, np.flatnonzero(samples["queue"] == queue.number))
            for queue in observation.queues
        }
        self._times: dict[int, _Times] = {}
        for tid in set(self.tids.values()) if threads else ():
            rows = np.flatnonzero(threads["tid"] == tid)
            if len(rows) >= 2:
                columns = (threads[name][rows].astype(float) for name in ("cpu_ns", "wait_ns"))
                self._times[tid] = _Times(threads["t_ns"][rows].astype(np.int64), *columns)

    def in_front(self, queue: int, at: int) -> tuple[int | None, int | None, int | None]:
        return self._looks[queue].in_front(at)

    def thread(self, tid: int, begin: int, end: int) -> tuple[float | None, float | None]:
        times = self._times.get(tid)
        return (None, None) if times is None else times.shares(begin, end)


def _looks(samples: Columns, rows: NDArray[np.int64]) -> _Looks:
    came = samples["in"][rows].astype(np.int64)
    fill = np.maximum(came - samples["out_high"][rows].astype(np.int64), 0)
    empty = np.maximum.accumulate(np.where(fill == 0, np.arange(len(rows)), 0))
    return _Looks(samples["t_ns"][rows].astype(np.int64), came, fill, empty)


def _event(seen: _Seen, rows: Mapping[str, NDArray[Any]]) -> TailEvent:
    hops = np.flatnonzero(rows["end"] == 0)
    leaves = np.append(rows["push_ns"][1:], rows["pop_ns"][-1:])
    found = []
    for i in hops.tolist():
        push, pop = int(rows["push_ns"][i]), int(rows["pop_ns"][i])
        number, stage = int(rows["queue"][i]), str(rows["stage"][i])
        known = 0 <= number < len(seen.queues)
        name = seen.queues[number].name if known else ""
        front = seen.in_front(number, push) if known else (None, None, None)
        served = max(0, int(leaves[i]) - pop)
        tid = seen.tids.get(stage, 0)
        spans = ((push, pop), (pop, pop + served))
        shares = [None if seen.kernel is None else seen.kernel.share(tid, *span) for span in spans]
        found.append(
            TailHop(name, stage, push, pop - push, served, *front, *seen.thread(tid, push, pop), *shares)
        )
    began, over = int(rows["push_ns"].min()), int(rows["pop_ns"].max())
    return TailEvent(int(rows["event"][0]), began, over - began, tuple(found))
