"""A simulation of a model whose stages move in step: joins, forks, circles with a window, lent buffers.

Each stage takes one event of each of its inputs for each that it puts to each of its outputs. Such a net has
no decisions (a marked graph: Commoner, Holt, Even and Pnueli, "Marked Directed Graphs", J. Comput. Syst. Sci.
5, 1971): the n-th event of a stage begins when the n-th of each input is there and a worker is free, and
leaves when it is served and the queues behind have room. So times are maxima of times, in whichever order
they are computed. A worker keeps a result for which there is no room. Several workers put on in the order
they took.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

import numpy as np

from latlab.errors import InputError
from latlab.model.queues.queueing import (
    EventWaits,
    ModelForecast,
    ModelSource,
    QueueForecast,
    QueueingModel,
    StageForecast,
)
from latlab.queues.model.draws import service_times
from latlab.stats.quantiles import quantiles

__all__ = ["moves_in_step", "simulate_in_step"]

_SAME = 0.03  # of the events: what counts of one event may differ by
_WARM_UP = 0.25  # of the events are left out: queues fill first
_MOST_MOVES = 400_000  # events times queues, of one simulation: about two seconds


def moves_in_step(model: QueueingModel) -> bool:
    """Whether it has a join, a fork to all, or a circle, and nothing but these and lines.

    Who fills several queues with as much each puts an event to all of them, or to each in its turn: neither
    gets ahead of the other.
    """
    stages = {stage.name: stage for stage in model.stages}
    inputs = {name: [queue for queue in model.queues if queue.drain == name] for name in stages}
    outputs = {name: [queue for queue in model.queues if queue.source == name] for name in stages}
    if any(source.drops for source in model.sources):
        return False
    if any(abs(queue.share - 1) > _SAME for queue in model.queues if queue.source in stages):
        return False
    if any(len(inputs[name]) > 1 and not stage.joins for name, stage in stages.items()):
        return False
    special = any(len(queues) > 1 for queues in (*inputs.values(), *outputs.values()))
    rates: dict[str, list[float]] = {}
    for source in model.sources:
        who = next((queue.source for queue in model.queues if queue.name == source.queue), "")
        rates.setdefault(who or source.queue, []).append(source.rate_hz)
    for several in rates.values():
        if max(several) - min(several) > _SAME * max(several):
            return False
        special = special or len(several) > 1
    return special or any(queue.initial for queue in model.queues)


@dataclass
class _Ring:
    """A queue: who fills and drains it, by their place among the nodes."""

    name: str
    source: int
    drain: int
    capacity: int
    initial: int


@dataclass
class _Node:
    """A stage, or a source: when its events began, and when they left it, in ns."""

    times: list[float]  # of service
    workers: int
    due: list[float] = field(default_factory=list)  # a source's: no event begins before
    into: list[_Ring] = field(default_factory=list)
    out: list[_Ring] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    left: list[float] = field(default_factory=list)
    free: list[float] = field(default_factory=list)  # a heap: when each worker is


def simulate_in_step(model: QueueingModel, *, events: int, seed: int) -> ModelForecast:
    """Throughput and times of a net that moves in step.

    Args:
        events: through each stage; fewer where the net is large.

    Raises:
        InputError: nothing can move in it, as in a circle without an event; or it is too large.
    """
    count = min(events, _MOST_MOVES // max(1, len(model.queues)))
    if count < 100:
        raise InputError("the model", f"{len(model.queues)} queues are too many to simulate")
    nodes, rings = _net(model, count, seed)
    _run(nodes, count)
    return _result(model, nodes, rings, count, seed)


def _net(model: QueueingModel, count: int, seed: int) -> tuple[list[_Node], list[_Ring]]:
    number = {stage.name: i for i, stage in enumerate(model.stages)}
    nodes = [
        _Node(service_times(stage, count, np.random.default_rng([seed, i + 1])).tolist(), stage.workers)
        for i, stage in enumerate(model.stages)
    ]
    rings = []
    sources = {source.queue: source for source in model.sources}
    known: dict[str, int] = {}
    for queue in model.queues:
        if queue.source in number:
            begin = number[queue.source]
        else:
            # One that fills several queues puts each event to all of them.
            key = queue.source or queue.name
            if key not in known:
                known[key] = len(nodes)
                nodes.append(_source(sources[queue.name], nodes[number[queue.drain]], count))
            begin = known[key]
        ring = _Ring(queue.name, begin, number[queue.drain], queue.capacity, queue.initial)
        rings.append(ring)
        nodes[ring.source].out.append(ring)
        nodes[ring.drain].into.append(ring)
    for node in nodes:
        node.free = [0.0] * node.workers
    return nodes, rings


def _source(source: ModelSource, drain: _Node, count: int) -> _Node:
    """What comes from outside: when it may, at its own pace where it told that, or when it was seen to."""
    if source.saturated:
        gap = 1e9 / source.most_hz if source.most_hz else 0.0
        return _Node([gap] * count, 1)
    if source.counts:
        periods = np.repeat(np.arange(len(source.counts)), source.counts)
        whole = len(source.counts)
        laps = -(-count // max(1, len(periods)))
        at = np.concatenate([periods + lap * whole for lap in range(laps)])[:count] * float(source.period_ns)
        return _Node([0.0] * count, 1, due=at.tolist())
    gap = 1e9 / max(source.rate_hz, 1e-9)
    return _Node([0.0] * count, 1, due=[gap * n for n in range(count)])


def _run(nodes: list[_Node], count: int) -> None:
    """All times, as far as they follow from one another.

    Raises:
        InputError: some never follow: nothing moves any more.
    """
    waiting = set(range(len(nodes)))
    while waiting:
        at = waiting.pop()
        node = nodes[at]
        if _advance(node, nodes, count):
            waiting.update(ring.drain for ring in node.out)
            waiting.update(ring.source for ring in node.into)
    stuck = [node for node in nodes if len(node.left) < count]
    if stuck:
        raise InputError("the model", "nothing moves in it any more: a circle holds no event, or no room")


def _advance(node: _Node, nodes: list[_Node], count: int) -> bool:
    """Compute what is known by now; whether anything was."""
    moved = False
    while True:
        some = False
        n = len(node.began)
        if n < count and node.free:
            come = [
                0.0 if n < ring.initial else nodes[ring.source].left[n - ring.initial]
                for ring in node.into
                if n < ring.initial or n - ring.initial < len(nodes[ring.source].left)
            ]
            if len(come) == len(node.into):
                begin = max([*come, heapq.heappop(node.free), node.due[n] if node.due else 0.0])
                node.began.append(begin)
                node.ended.append(begin + node.times[n])
                some = True
        n = len(node.left)
        if n < len(node.ended):
            room = 0.0
            for ring in node.out:
                taken = n + ring.initial - ring.capacity
                if ring.capacity and taken >= 0:
                    if taken >= len(nodes[ring.drain].began):
                        if taken < count:
                            break
                        continue  # nobody takes it within the simulation: there is no more of it to wait for
                    room = max(room, nodes[ring.drain].began[taken])
            else:
                done = max(node.ended[n], room)
                node.left.append(max(done, node.left[-1] if node.left else 0.0))
                heapq.heappush(node.free, done)
                some = True
        if not some:
            return moved
        moved = True


def _result(
    model: QueueingModel, nodes: list[_Node], rings: list[_Ring], count: int, seed: int
) -> ModelForecast:
    first = int(_WARM_UP * count)

    def rate_of(node: _Node) -> float:
        took = node.left[-1] - node.left[first]
        return (count - 1 - first) / took * 1e9 if took > 0 else 0.0

    stages = []
    for stage, node in zip(model.stages, nodes, strict=False):
        time = max(node.left[-1] - node.left[first], 1e-9) * stage.workers
        stuck = sum(left - ended for left, ended in zip(node.left[first:], node.ended[first:], strict=True))
        busy = sum(node.times[first:])
        stages.append(StageForecast(stage.name, rate_of(node), min(1.0, busy / time), min(1.0, stuck / time)))
    queues = []
    for ring in rings:
        came, went = nodes[ring.source].left, nodes[ring.drain].began
        waits = [went[n + ring.initial] - came[n] for n in range(first, count - ring.initial)]
        queues.append(QueueForecast(ring.name, rate_of(nodes[ring.drain]), _waits(waits)))
    inner = nodes[: len(model.stages)]
    ends = [node for node in inner if not node.out]
    outer = [node for node in nodes if not node.into]
    # In a circle without an end all stages take as many, and an event of it is there for ever.
    throughput = sum(rate_of(node) for node in ends) if ends else rate_of(inner[0])
    through = [
        max(node.left[n] for node in ends) - min(node.left[n] for node in outer)
        for n in (range(first, count) if ends and outer else ())
    ]
    return ModelForecast(
        throughput_hz=float(throughput),
        lost=0.0,
        end_to_end=_waits(through),
        queues=tuple(queues),
        stages=tuple(stages),
        simulated_s=max(node.left[-1] for node in nodes) / 1e9,
        events=count,
        seed=seed,
    )


def _waits(times: list[float]) -> EventWaits:
    if not times:
        return EventWaits()
    found = np.array(times)
    p50, p99, p999 = (float(value) for value in quantiles(found, (0.5, 0.99, 0.999)))
    return EventWaits(len(found), float(found.mean()), p50, p99, p999)
