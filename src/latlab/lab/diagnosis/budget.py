"""Where the time of an event in the tail goes: a budget over floor, service, waiting and what is unexplained.

The traced events around the quantile are taken apart along their own way, from the end back to the beginning:
each hop is a waiting in a queue, and what lies between two hops is the service of a stage. Averaged over
those events and scaled to the quantile, the parts sum to it by construction; where a trace has lost a hop,
what it would have said is unexplained.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from latlab.formats.event_traces.files import FINISHED
from latlab.lab.judge.residence import TraceTable
from latlab.model.diagnosis.answer import Budget, Part
from latlab.model.queues.analysis import Analysis, StageResult
from latlab.model.queues.observation import SEVERAL
from latlab.stats.quantiles import rank

__all__ = ["budget", "mean_budget"]

_AROUND = 0.25  # of the events above the quantile, so many on either side of it are looked at …
_IN_HAND = 8  # events, of a stage with its threads
_ALL = 0.25  # of the events: what differs by more is a route or a filter
_LEAST_EVENTS = 20  # of which a mean is told: one job of a pool says nothing of the others
_KEPT, _LEAST_KEPT_NS = 0.25, 20_000  # of the service: counts of both sides aren't read at one moment
_FEWEST, _MOST = 12, 400  # … but at least and at most so many in all


def budget(traces: TraceTable, quantile: float, floor_share: float) -> Budget | None:
    """Take the events around a quantile of end-to-end latency apart.

    Args:
        traces: of all processes.
        quantile: as 0.999.
        floor_share: of the time that the machine takes by itself: so much of each service is the floor.

    Returns:
        The budget; None where no traced event reached the end.
    """
    ends = np.flatnonzero(traces.end == FINISHED)
    if ends.size == 0:
        return None
    order = np.lexsort((traces.pop_ns, traces.event))
    events = traces.event[order]
    ways: list[tuple[int, dict[tuple[str, str], int]]] = []
    began = _first_push(traces, ends)
    known = began >= 0
    ends, began = ends[known], began[known]
    if ends.size == 0:
        return None
    times = traces.pop_ns[ends] - began
    by_time = np.argsort(times, kind="stable")
    at = rank(quantile, int(times.size)) - 1
    total = float(times[by_time[at]])
    half = min(max(math.ceil(_AROUND * (times.size - at)), _FEWEST // 2), _MOST // 2)
    for index in by_time[max(0, at - half) : at + half + 1]:
        end = int(ends[index])
        low, high = (int(np.searchsorted(events, traces.event[end], side=side)) for side in ("left", "right"))
        ways.append((int(times[index]), _way(traces, order[low:high], end)))
    return _averaged(ways, quantile, total, floor_share)


def _first_push(traces: TraceTable, ends: NDArray[np.intp]) -> NDArray[np.int64]:
    """When each ended event began; -1 of one without a hop."""
    hops = traces.end == 0
    found, inverse = np.unique(traces.event, return_inverse=True)
    first = np.full(found.size, np.iinfo(np.int64).max)
    np.minimum.at(first, inverse[hops], traces.push_ns[hops])
    first[first == np.iinfo(np.int64).max] = -1
    began: NDArray[np.int64] = first[inverse[ends]]
    return began


def _way(traces: TraceTable, rows: NDArray[np.intp], end: int) -> dict[tuple[str, str], int]:
    """The parts of one event's way, backwards from where it ended, in ns."""
    parts: dict[tuple[str, str], int] = {}
    hops = [int(row) for row in rows if traces.end[row] == 0]
    stage, until = str(traces.drain[end]), int(traces.pop_ns[end])
    while True:
        # The hop by which it came here: of a fan-out's branches, the one that this stage took last before.
        into = [row for row in hops if traces.drain[row] == stage and traces.pop_ns[row] <= until]
        if not into:
            return parts
        row = max(into, key=lambda candidate: int(traces.pop_ns[candidate]))
        hops.remove(row)
        pushed, popped = int(traces.push_ns[row]), int(traces.pop_ns[row])
        for key, ns in (
            (("service", stage), until - popped),
            (("waiting", str(traces.queue[row])), popped - pushed),
        ):
            parts[key] = parts.get(key, 0) + ns
        # The stage that put it in is known by its type: among those, the one that took it last before.
        before = [other for other in hops if traces.pop_ns[other] <= pushed]
        if not before:
            return parts
        previous = max(before, key=lambda candidate: int(traces.pop_ns[candidate]))
        stage, until = str(traces.drain[previous]), pushed


def _averaged(
    ways: list[tuple[int, dict[tuple[str, str], int]]], quantile: float, total: float, floor_share: float
) -> Budget:
    mean_total = sum(time for time, _ in ways) / len(ways)
    scale = total / mean_total / len(ways) if mean_total > 0 else 0.0
    sums: dict[tuple[str, str], float] = {}
    for _, parts in ways:
        for key, ns in parts.items():
            sums[key] = sums.get(key, 0.0) + ns * scale
    service = {where: ns for (kind, where), ns in sums.items() if kind == "service"}
    floor = floor_share * sum(service.values())
    found = [Part("floor", "machine", floor)]
    found += [Part("service", where, ns * (1 - floor_share)) for where, ns in service.items()]
    found += [Part("waiting", where, ns) for (kind, where), ns in sums.items() if kind == "waiting"]
    found.sort(key=lambda part: -part.ns)
    rest = total - sum(part.ns for part in found)
    # Rounding aside, what is left over is what lost hops would have said.
    found.append(Part("unexplained", "", 0.0 if abs(rest) < 1e-6 * max(total, 1.0) else rest))
    return Budget(quantile, total, len(ways), tuple(found))


def _kept(stage: StageResult, often: float) -> list[Part]:
    """What an event waits in a stage's hand beyond its service: for room behind it, or for a delay."""
    if stage.in_hand is None or stage.service_ns is None or not stage.rate_hz:
        return []
    kept_ns = stage.in_hand / stage.rate_hz * 1e9 - stage.service_ns
    if kept_ns < max(_KEPT * stage.service_ns, _LEAST_KEPT_NS):
        return []
    return [Part("waiting", f"{stage.label}, in hand", kept_ns * often)]


def mean_budget(found: Analysis) -> Budget | None:
    """The mean time of an event by Little's law, where there are no traces.

    Each queue's mean residence, each stage's mean service and what it keeps an event for beyond that are
    weighted by the events that came through, over the events that came in at the front: what an event that
    entered the pipeline costs on average.
    (Where these differ by no more than queues held, all came through: some were inside before, or stayed.)
    A service is the one that is stated everywhere else, the machine's floor included. Datagrams that wait
    in a socket are queue, too; those that were dropped there are none.

    Args:
        found: of the samples.

    Returns:
        The budget, of quantile None; None where no time is known, or too few events came in.
    """
    drains = {queue.drain for queue in found.queues if queue.drain}
    entered = sum(
        queue.total_in
        for queue in found.queues
        if drains.isdisjoint(queue.source.split(SEVERAL)) and queue.kind != "pool"
    )
    if not entered:
        entered = max((queue.total_in for queue in found.queues), default=0)
    if entered < _LEAST_EVENTS:
        return None
    seconds = (found.to_ns - found.from_ns) / 1e9
    inside = sum(queue.fill_max for queue in found.queues if queue.kind != "pool")
    inside += _IN_HAND * len(found.stages)

    def through(events: float) -> float:
        """Of an event that entered, how often it came here."""
        if abs(events - entered) <= inside and abs(events - entered) <= _ALL * entered:
            return 1.0
        return events / entered

    parts = []
    for queue in found.queues:
        own = queue.kind == "pool" or (bool(queue.drain) and queue.source == queue.drain)
        time_ns = queue.pool_wait_ns if own else queue.residence_ns
        if time_ns is not None:
            parts.append(Part("waiting", queue.name, time_ns * through(queue.total_out)))
    for stage in found.stages:
        if stage.service_ns is not None:
            # Of a join's inputs each holds a part of the same event, which stays in it for as long as all.
            often = through(sum(queue.total_out for queue in found.queues if queue.name in stage.inputs))
            parts.append(Part("service", stage.label, stage.service_ns * often))
            parts += _kept(stage, often)
    if not parts:
        return None
    for socket in found.sockets:
        read = sum(queue.total_in for queue in found.queues if socket.drain and queue.source == socket.drain)
        if socket.waiting is not None and read:
            wait_ns = socket.waiting * seconds / read * 1e9
            parts.append(Part("waiting", socket.name, wait_ns * min(1.0, read / entered)))
    parts.sort(key=lambda part: -part.ns)
    parts.append(Part("unexplained", "", 0.0))
    return Budget(None, sum(part.ns for part in parts), entered, tuple(parts))
