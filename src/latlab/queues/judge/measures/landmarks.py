"""Instants of a recording that a reader looks for: the first drop, the start of trading, phases, deaths."""

from __future__ import annotations

import numpy as np

from latlab.model.queues.observation import Landmark, Observation, QueueKind
from latlab.queues.judge.measures.series import is_limited

__all__ = ["landmarks"]

_TOGETHER_NS = 1_000_000_000
_TRADING = 10  # events into a book: what comes before is set-up and test orders


def landmarks(observation: Observation, *, exclude: tuple[str, ...] = ()) -> tuple[Landmark, ...]:
    """The instants of an observation that are worth a mark, in the order of time.

    A queue is full first at the first sample that surely shows as many events as its capacity. The first drop
    is the first sample that has more dropped events than its queue's first. Trading starts when more than 10
    events have gone into a queue whose drain is a book (its type or name says "book"); where that was so from
    the beginning, it is not in the observation.

    Args:
        exclude: names of queues that don't count.
    """
    found = [Landmark(t_ns, _PHASES[phase], "") for t_ns, _, phase in observation.phases if phase in _PHASES]
    drops, fulls, starts = [], [], []
    samples = observation.samples
    order = np.argsort(samples["queue"], kind="stable")
    numbers = max((queue.number for queue in observation.queues), default=-1) + 2
    bounds = np.searchsorted(samples["queue"][order], np.arange(numbers))
    for queue in observation.queues:
        if queue.name in exclude:
            continue
        rows = order[bounds[queue.number] : bounds[queue.number + 1]]
        if not len(rows):
            continue
        dropped = samples["dropped"][rows]
        later = np.flatnonzero(dropped > dropped[0])
        if len(later):
            drops.append(Landmark(int(samples["t_ns"][rows[later[0]]]), "first drop", queue.name))
        fill = samples["in"][rows].astype(np.int64) - samples["out_high"][rows].astype(np.int64)
        full = np.flatnonzero(fill >= queue.capacity)
        if is_limited(queue) and queue.kind is not QueueKind.POOL and len(full):
            fulls.append(Landmark(int(samples["t_ns"][rows[full[0]]]), "first full queue", queue.name))
        if "book" in f"{queue.drain_type} {queue.drain_name}".lower():
            came = samples["in"][rows]
            over = np.flatnonzero(came > _TRADING)
            if len(over):
                at = int(samples["t_ns"][rows[over[0]]]) if over[0] > 0 else None
                starts.append((at, queue.name))
    found += [min(marks, key=lambda mark: mark.t_ns) for marks in (drops, fulls) if marks]
    if starts and all(at is not None for at, _ in starts):
        at, name = min((at, name) for at, name in starts if at is not None)
        found.append(Landmark(at, "trading starts", name))
    ends = [process for process in observation.processes if process.ended_ns is not None]
    found += [Landmark(p.ended_ns or 0, "died" if p.died else "ended", p.application) for p in ends]
    kept: list[Landmark] = []
    for mark in sorted(found, key=lambda mark: mark.t_ns):
        # Several processes of one application begin and end together: that is told once.
        same = [k for k in kept if (k.name, k.subject) == (mark.name, mark.subject)]
        if not same or mark.t_ns - same[-1].t_ns > _TOGETHER_NS:
            kept.append(mark)
    return tuple(kept)


_PHASES = {"running": "start-up ends", "stopping": "shutdown begins"}
