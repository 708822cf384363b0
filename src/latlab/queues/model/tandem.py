"""Simulated tandem lines with a planted truth: what the analysis is judged by.

Many lines at once (arrays over cases), event by event: stage s begins with event n when the event has come
and the stage is free; it puts the event on when the next queue has room, and waits holding it when it hasn't
(blocking after service, as in Buzacott and Shanthikumar, "Stochastic Models of Manufacturing Systems", 1993,
ch. 5).
Its counters are what a real application would publish, sampled at a period.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.observation import Observation, Queue, QueueKind

__all__ = ["Line", "observe", "simulate"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """A family of lines that differ in their random numbers and, if given, in which stage is slow.

    Attributes:
        stages: of each line.
        capacity: of each queue.
        load: arrivals against the capacity of the slowest stage; at least 1 saturates it.
        slower: by how much the planted stage is slower than the rest: 0.05 is 5 %.
        variation: coefficient of variation of service times; 0 makes them all alike.
        service_ns: mean service time of the stages that are not planted.
        holds: the event stays in the queue while it is served (front … pop), else it is taken out first.
        service: their distribution: "gamma" (exponential where the variation is 1) or "lognormal".
        waits_first: a stage begins only when the next queue has room (blocking before service); else it
            serves, and then waits with the event in hand (blocking after service).
    """

    stages: int = 5
    capacity: int = 16
    load: float = 1.5
    slower: float = 0.05
    variation: float = 1.0
    service_ns: float = 20_000.0
    holds: bool = False
    service: str = "gamma"
    waits_first: bool = False


@dataclass(frozen=True)
class EventTimes:
    """When each event was put into and taken out of the queue in front of each stage.

    Attributes:
        put: shape (cases, stages, events): into the queue in front of the stage.
        taken: out of it.
        done: shape (cases, events): left the last stage.
    """

    put: Array
    taken: Array
    done: Array


def simulate(line: Line, slow: NDArray[np.int64], events: int, seed: int) -> EventTimes:
    """Run lines.

    Args:
        slow: shape (cases,): the slow stage of each case; -1 where none is.
        events: through each line.
        seed: of all random numbers.
    """
    random = np.random.default_rng(seed)
    cases, stages = len(slow), line.stages
    mean = np.full((cases, stages), line.service_ns)
    planted = slow >= 0
    mean[np.flatnonzero(planted), slow[planted]] *= 1 + line.slower
    # Event-major, so that one event's row is contiguous.
    service = _unit_times(line, random, (events, stages, cases)) * mean.T
    gaps = random.exponential(1.0, (events, cases)) * mean.max(axis=1) / line.load
    put = np.zeros((events, stages, cases))
    taken = np.zeros((events, stages, cases))
    leave = np.zeros((events, stages, cases))
    zero = np.zeros(cases)
    arrival = np.zeros(cases)
    out = leave if line.holds else taken
    for n in range(events):
        arrival = arrival + gaps[n]
        room = out[n - line.capacity, 0] if n >= line.capacity else zero
        # The source waits too when the first queue is full: a saturated line is one whose source is blocked.
        arrival = np.maximum(arrival, room)
        put[n, 0] = arrival
        for s in range(stages):
            free = leave[n - 1, s] if n else zero
            start = np.maximum(put[n, s], free)
            room = out[n - line.capacity, s + 1] if n >= line.capacity and s + 1 < stages else zero
            if line.waits_first:
                start = np.maximum(start, room)
            taken[n, s] = start
            finish = start + service[n, s]
            if s + 1 < stages:
                finish = np.maximum(finish, room)
                put[n, s + 1] = finish
            leave[n, s] = finish
    return EventTimes(
        put.transpose(2, 1, 0), (leave if line.holds else taken).transpose(2, 1, 0), leave[:, -1].T
    )


def _unit_times(line: Line, random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Service times of mean 1."""
    if line.variation == 0:
        return np.ones(shape)
    if line.service == "lognormal":
        spread = np.log1p(line.variation**2)
        return random.lognormal(-spread / 2, np.sqrt(spread), shape)
    inverse = 1.0 / line.variation**2
    return random.gamma(inverse, 1 / inverse, shape)


def observe(line: Line, times: EventTimes, case: int, period_ns: float, warm_up: float = 0.1) -> Observation:
    """Sample one line's counters at a period, as a recorder would, after a share `warm_up` of the time."""
    end = times.put[case, 0, -1]
    at = np.arange(end * warm_up, end, period_ns)
    columns: dict[str, list[Any]] = {name: [] for name in ("t_ns", "queue", "in", "out")}
    for s in range(line.stages):
        columns["t_ns"].append(at)
        columns["queue"].append(np.full(len(at), s, np.uint32))
        columns["in"].append(np.searchsorted(times.put[case, s], at, side="right"))
        columns["out"].append(np.searchsorted(times.taken[case, s], at, side="right"))
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(joined["t_ns"], kind="stable")
    t_ns = joined["t_ns"][order].astype(np.int64)
    nothing = np.zeros(len(t_ns), np.uint64)
    out = joined["out"][order].astype(np.uint64)
    queues = tuple(
        Queue(
            s,
            f"queue-{s}",
            QueueKind.BOUNDED,
            line.capacity,
            source_name="source" if s == 0 else f"stage-{s - 1}",
            drain_name=f"stage-{s}",
        )
        for s in range(line.stages)
    )
    return Observation(
        queues=queues,
        stages=(),
        processes=(),
        samples={
            "t_ns": t_ns,
            "t_end_ns": t_ns,
            "queue": joined["queue"][order],
            "in": joined["in"][order].astype(np.uint64),
            "out_low": out,
            "out_high": out,
            "dropped": nothing,
            "blocked": nothing,
            "empty": nothing,
            "skipped": nothing.astype(np.uint32),
        },
        sweeps={
            "t_ns": at.astype(np.int64),
            "duration_ns": np.zeros(len(at), np.uint32),
            "read": np.full(len(at), line.stages, np.uint32),
        },
        period_ns=round(period_ns),
    )
