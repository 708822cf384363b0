"""Instants of a recording that a reader looks for: the first drop, the start of trading, phases, deaths."""

from __future__ import annotations

import numpy as np

from latlab.model.queues import Landmark, Observation

__all__ = ["landmarks"]

_TRADING = 10  # events into a book: what comes before is set-up and test orders


def landmarks(observation: Observation, *, exclude: tuple[str, ...] = ()) -> tuple[Landmark, ...]:
    """The instants of an observation that are worth a mark, in the order of time.

    The first drop is the first sample that has more dropped events than its queue's first. Trading starts
    when more than 10 events have gone into a queue whose drain is a book (its type or name says "book");
    where that was so from the beginning, it is not in the observation.

    Args:
        exclude: names of queues that don't count.
    """
    found = [Landmark(t_ns, _PHASES[phase], "") for t_ns, _, phase in observation.phases if phase in _PHASES]
    drops, starts = [], []
    samples = observation.samples
    for queue in observation.queues:
        if queue.name in exclude:
            continue
        rows = np.flatnonzero(samples["queue"] == queue.number)
        if not len(rows):
            continue
        dropped = samples["dropped"][rows]
        later = np.flatnonzero(dropped > dropped[0])
        if len(later):
            drops.append(Landmark(int(samples["t_ns"][rows[later[0]]]), "first drop", queue.name))
        if "book" in f"{queue.drain_type} {queue.drain_name}".lower():
            came = samples["in"][rows]
            over = np.flatnonzero(came > _TRADING)
            if len(over):
                at = int(samples["t_ns"][rows[over[0]]]) if over[0] > 0 else None
                starts.append((at, queue.name))
    if drops:
        found.append(min(drops, key=lambda mark: mark.t_ns))
    if starts and all(at is not None for at, _ in starts):
        at, name = min((at, name) for at, name in starts if at is not None)
        found.append(Landmark(at, "trading starts", name))
    ends = [process for process in observation.processes if process.ended_ns is not None]
    found += [Landmark(p.ended_ns or 0, "died" if p.died else "ended", p.application) for p in ends]
    return tuple(sorted(found, key=lambda mark: mark.t_ns))


_PHASES = {"running": "start-up ends", "stopping": "shutdown begins"}
