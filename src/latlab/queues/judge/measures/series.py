"""From stored changes to fills at every sweep: the arrays that all analysis is made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import NotTrustworthyError
from latlab.model.queues.observation import Observation, Queue, QueueKind

__all__ = ["Series", "expand", "is_limited", "is_pool", "steady_window"]

Ints = NDArray[np.int64]

# Above this many cells every k-th sweep is used: 33 bytes a cell, and no answer needs more.
_MOST_CELLS = 4_000_000


@dataclass(frozen=True)
class Series:
    """Every observed queue at every sweep of a window.

    Attributes:
        queues: those that were sampled within the window, in the order of the rows below.
        t_ns: shape (sweeps,): when each sweep began.
        weights: shape (sweeps,): seconds that a sweep stands for: up to the next, but not across a gap.
        in_, out: shape (queues, sweeps).
        low, high: shape (queues, sweeps): bounds of the fill; 0 where the queue was not known.
        seen: shape (queues, sweeps): the queue was known at that sweep.
        dropped, blocked: shape (queues,): over the window.
    """

    queues: tuple[Queue, ...]
    t_ns: Ints
    weights: NDArray[np.float64]
    in_: Ints
    out: Ints
    low: Ints
    high: Ints
    seen: NDArray[np.bool_]
    dropped: Ints
    blocked: Ints

    @property
    def seconds(self) -> float:
        """The time that the weights cover: shares of the time are of this."""
        return float(self.weights.sum())

    def cut(self, cut: slice) -> Series:
        """Some of the sweeps; the sums over the window stay those of the whole."""
        return Series(
            self.queues,
            self.t_ns[cut],
            self.weights[cut],
            self.in_[:, cut],
            self.out[:, cut],
            self.low[:, cut],
            self.high[:, cut],
            self.seen[:, cut],
            self.dropped,
            self.blocked,
        )

    def of(self, rows: list[int]) -> Series:
        """Some of the queues."""
        if rows == list(range(len(self.queues))):
            return self
        return Series(
            tuple(self.queues[row] for row in rows),
            self.t_ns,
            self.weights,
            self.in_[rows],
            self.out[rows],
            self.low[rows],
            self.high[rows],
            self.seen[rows],
            self.dropped[rows],
            self.blocked[rows],
        )


def is_pool(queue: Queue) -> bool:
    """Free objects: said so, or what a stage takes from and gives back to itself."""
    return queue.kind is QueueKind.POOL or bool(queue.drain and queue.drain == queue.source)


def is_limited(queue: Queue) -> bool:
    """It has a capacity that can be exhausted."""
    return queue.capacity > 0 and queue.kind is not QueueKind.UNBOUNDED


def steady_window(observation: Observation) -> tuple[int, int]:
    """The part of an observation that counts: start-up and shutdown are left out where they were marked.

    Raises:
        NotTrustworthyError: when nothing was sampled.
    """
    t_ns = observation.sweeps["t_ns"]
    if not len(t_ns):
        raise NotTrustworthyError("nothing was sampled", remedy="record for longer")
    first, last = int(t_ns[0]), int(t_ns[-1]) + 1
    running: dict[int, tuple[int, int]] = {}
    for at, process, phase in observation.phases:
        begin, end = running.get(process, (-1, last))
        if phase == "running" and begin < 0:
            running[process] = (max(first, at), last)
        elif phase in ("stopping", "ended") and begin >= 0 and end == last:
            running[process] = (begin, at)
    marked = [stretch for stretch in running.values() if stretch[1] > stretch[0]]
    if not marked:
        return first, last
    # Of several processes, the time in which all of them run; where there is none, that of the longest.
    begin, end = max(b for b, _ in marked), min(e for _, e in marked)
    return (begin, end) if end > begin else max(marked, key=lambda stretch: stretch[1] - stretch[0])


def expand(
    observation: Observation, window: tuple[int, int] | None = None, *, exclude: tuple[str, ...] = ()
) -> Series:
    """The state of every queue at every sweep of a window.

    What was stored holds from its own sweep on, until the next that was stored.

    Args:
        window: from_ns and to_ns; by default all of it.
        exclude: names of queues to leave out.

    Raises:
        NotTrustworthyError: when there are fewer than two sweeps in it.
    """
    every = observation.sweeps["t_ns"].astype(np.int64)
    first, last = (0, len(every)) if window is None else (int(i) for i in np.searchsorted(every, window))
    if last - first < 2:
        raise NotTrustworthyError("fewer than two sweeps to analyse", remedy="record for longer")
    samples = observation.samples
    order = np.argsort(samples["queue"], kind="stable")
    numbers = max((queue.number for queue in observation.queues), default=-1) + 2  # of some, if not of all
    starts = np.searchsorted(samples["queue"][order], np.arange(numbers)).tolist()
    stride = max(1, (last - first) * len(observation.queues) // _MOST_CELLS)
    sweeps = every[first:last:stride]
    # A sample's own sweep began before it was read, and is the last that did.
    ends = np.append(every[1:], np.iinfo(np.int64).max)[first:last:stride]
    when = samples["t_ns"][order]
    # The first of these sweeps that a sample is known at, and holds from; len(sweeps) of a later one.
    known_at = np.searchsorted(ends, when.astype(np.int64), side="right")
    chosen, rows_of = [], []
    for queue in observation.queues:
        rows = slice(starts[queue.number], starts[queue.number + 1])
        if rows.stop > rows.start and queue.name not in exclude and when[rows.start] < ends[-1]:
            chosen.append(queue)
            rows_of.append(rows)
    shape = (len(chosen), len(sweeps))
    in_, out, low, high = (np.empty(shape, np.int64) for _ in range(4))
    seen = np.zeros(shape, np.bool_)
    came, gone, least = (samples[name][order].astype(np.int64) for name in ("in", "out_high", "out_low"))
    fills = np.maximum(came - gone, 0), np.maximum(came - least, 0)
    counted = {name: samples[name][order].astype(np.int64) for name in ("dropped", "blocked")}
    sums: dict[str, Any] = {name: np.zeros(len(chosen), np.int64) for name in counted}
    for row, (queue, rows) in enumerate(zip(chosen, rows_of, strict=True)):
        first_known = int(known_at[rows.start])
        held = np.diff(known_at[rows], append=len(sweeps))
        held[0] += first_known  # before it was known, what it begins with
        seen[row, first_known:] = True
        if queue.retired_ns is not None:
            seen[row] &= sweeps < queue.retired_ns
        for table, values in ((in_, came), (out, gone), (low, fills[0]), (high, fills[1])):
            table[row] = np.repeat(values[rows], held)
        # What is not there yet, or no more, holds nothing that anybody waits for.
        if not seen[row].all():
            low[row][~seen[row]] = high[row][~seen[row]] = 0
        # Sums go from the sample that holds at the first sweep to the one that holds at the last.
        ruling = rows.start + np.flatnonzero(held)
        for name, values in sums.items():
            values[row] = counted[name][ruling[-1]] - counted[name][ruling[0]]
    return Series(
        _with_pools(chosen, in_, out),
        sweeps,
        _weights(sweeps),
        in_,
        out,
        low,
        high,
        seen,
        **sums,
    )


_FEWEST = 50  # events
_APART = 0.02  # of them


def _with_pools(queues: list[Queue], in_: Ints, out: Ints) -> tuple[Queue, ...]:
    """The queues, with those as pools that were filled once, by another than who takes and gives back.

    Their drain is one of their sources, and takes one of their objects for each event of its other inputs.
    What is tried again goes into a queue of its own drain, too, and comes with no other input.
    """
    moved_in, moved = in_[:, -1] - in_[:, 0], out[:, -1] - out[:, 0]
    found = list(queues)
    for row, queue in enumerate(queues):
        if is_pool(queue) or queue.drain not in queue.sources:
            continue
        others = [
            other
            for other, one in enumerate(queues)
            if one.drain == queue.drain and queue.drain not in one.sources
        ]
        most, events = int(moved[row]), int(moved[others].sum())
        near = max(_APART * most, max(queue.capacity, 1))
        if most >= _FEWEST and abs(most - events) <= near and abs(most - int(moved_in[row])) <= near:
            found[row] = replace(
                queue, kind=QueueKind.POOL, source_type=queue.drain_type, source_name=queue.drain_name
            )
    return tuple(found)


def _weights(sweeps: Ints) -> NDArray[np.float64]:
    """A sweep stands for the time up to the next, at most two periods: a gap is time that nobody saw."""
    apart = np.diff(sweeps)
    usual = float(np.median(apart))
    return np.append(np.minimum(apart, 2 * usual), usual) / 1e9
