"""A discrete-event simulation of a queueing model, by ciw (https://ciw.readthedocs.io).

A stage is a node with as many servers as workers, and one queue with the room of all of its input queues. A
result for which there is no room keeps its worker (blocking after service). Where a stage puts more than one
event on for each that it takes, a simulated event stands for several behind it: its service times there are
longer by that number, and the rates are multiplied.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError, MissingExtraError, UsageError
from latlab.model.queues.queueing import (
    EventWaits,
    ModelForecast,
    ModelQueue,
    ModelSource,
    ModelStage,
    QueueForecast,
    QueueingModel,
    StageForecast,
)
from latlab.queues.model.draws import STEADY, service_times
from latlab.queues.model.in_step import moves_in_step, simulate_in_step
from latlab.stats.quantiles import quantiles

__all__ = ["copies_of", "forecast"]

_MOST_ARRIVALS = 100_000  # from a source that always has another event
_MOST_FASTER = (
    4.0  # times what was seen, at most: where sources give as much as is taken, less simulated time is enough
)
_PRESSES = 16.0  # times what can pass: so many arrivals keep a queue full; any more are refused
_WARM_UP = 0.05  # of the simulated time is left out
_LEAST_THROUGH = 0.05  # of the arrivals: else the simulation has more to do with refusing than with serving


def forecast(model: QueueingModel, *, events: int = 20_000, seed: int = 1) -> ModelForecast:
    """Throughput and waiting times of a pipeline, from a simulation of its model.

    One that moves in step, with joins, forks to all, circles with a window or buffers that are lent, needs no
    ciw: see `latlab.queues.model.in_step`.

    Args:
        events: that arrive from outside; about 30,000 services a second are simulated.
        seed: of all random numbers: the same gives the same forecast.

    Raises:
        MissingExtraError: without ciw.
        InputError: when the model has a circle or a join and does not move in step, or nothing comes into it.
        UsageError: for fewer than 100 events.
    """
    if events < 100:
        raise UsageError(f"{events} events are too few to simulate", remedy="100 at least")
    if moves_in_step(model):
        return simulate_in_step(model, events=events, seed=seed)
    try:
        import ciw
    except ImportError:
        raise MissingExtraError("ciw", "simulate") from None
    joins = next((stage.name for stage in model.stages if stage.joins), None)
    if joins is not None:
        what = (
            f"{joins} combines events of several queues, which is simulated only where as many events pass "
        )
        what += "through each queue, and here the numbers differ"
        raise InputError("the model", what)
    flows = _Flows(model)
    offered = sum(source.rate_hz for source in model.sources)
    if not model.stages or offered <= 0:
        raise InputError("the model", "nothing comes into it")
    # As many as the slowest stage lets through. Where that is less than what arrives, the queues fill first,
    # and the first half of the time is left out.
    always = all(source.saturated and source.most_hz is None for source in model.sources)
    through = min(_MOST_FASTER if always else 1.0, flows.room())
    overloaded = through < 1.0 or any(source.saturated for source in model.sources)
    seconds = events / (offered * max(through, _LEAST_THROUGH)) * (2.0 if overloaded else 1.0)
    # ciw draws from the standard library's generator: what others draw from it must not change.
    before = random.getstate()
    try:
        ciw.seed(seed)
        simulation = ciw.Simulation(_network(ciw, model, flows, seconds, seed))
        simulation.simulate_until_max_time(seconds * 1e6)
        records = simulation.get_all_records(only=["service", "rejection"])
    finally:
        random.setstate(before)
    begin = seconds * (0.5 if overloaded else _WARM_UP)
    return _result(model, flows, records, (begin, seconds), seed)


def copies_of(model: QueueingModel) -> float:
    """Of an event that comes from outside, how many reach an end: above 1 where stages copy it, else 1."""
    offered = sum(source.rate_hz for source in model.sources)
    if not model.stages or offered <= 0 or any(stage.joins for stage in model.stages):
        return 1.0
    flows = _Flows(model)
    ends = [i for i, out in enumerate(flows.outputs) if not out]
    return max(1.0, float(flows.true[ends].sum()) / offered)


class _Flows:
    """Events a second through each stage, of the pipeline and of the simulation."""

    def __init__(self, model: QueueingModel) -> None:
        self.number = {stage.name: i for i, stage in enumerate(model.stages)}
        self.outputs: list[list[ModelQueue]] = [[] for _ in model.stages]
        self.inputs: list[list[ModelQueue]] = [[] for _ in model.stages]
        for queue in model.queues:
            if queue.drain not in self.number:
                raise InputError("the model", f"no stage '{queue.drain}'", place=f"queue {queue.name}")
            self.inputs[self.number[queue.drain]].append(queue)
            if queue.source in self.number:
                self.outputs[self.number[queue.source]].append(queue)
        self._stages = model.stages
        rates = {source.queue: source.rate_hz for source in model.sources}
        unknown = rates.keys() - {queue.name for queue in model.queues}
        if unknown:
            raise InputError("the model", f"no queue '{min(unknown)}'", place="sources")
        true = np.zeros(len(model.stages))
        simulated = np.zeros(len(model.stages))
        for i in self._order():
            for queue in self.inputs[i]:
                before = self.number.get(queue.source)
                if before is None:
                    true[i] += rates.get(queue.name, 0.0)
                    simulated[i] += rates.get(queue.name, 0.0)
                else:
                    true[i] += true[before] * queue.share
                    simulated[i] += simulated[before] * self.chance(before, queue)
        self.weight = np.divide(true, simulated, out=np.ones_like(true), where=simulated > 0)
        self.true = true

    def chance(self, stage: int, queue: ModelQueue) -> float:
        """That a simulated event goes from a stage into a queue."""
        return queue.share / max(1.0, sum(output.share for output in self.outputs[stage]))

    def room(self) -> float:
        """Times what arrives for which the slowest stage has time: below 1 where that is too much."""
        loads = [
            flow * stage.mean_ns / 1e9 / stage.workers
            for stage, flow in zip(self._stages, self.true.tolist(), strict=True)
        ]
        return 1.0 / max(1e-9, *loads)

    def _order(self) -> list[int]:
        waiting = {
            i: {self.number[q.source] for q in inputs if q.source in self.number}
            for i, inputs in enumerate(self.inputs)
        }
        order: list[int] = []
        while waiting:
            free = [i for i, before in waiting.items() if before <= set(order)]
            if not free:
                name = self._stages[min(waiting)].name
                raise InputError(
                    "the model", f"stages fill each other's queues in a circle ('{name}' is in it)"
                )
            order += free
            for i in free:
                del waiting[i]
        return order


def _network(ciw: Any, model: QueueingModel, flows: _Flows, seconds: float, seed: int) -> Any:
    routing = [[0.0] * len(model.stages) for _ in model.stages]
    rng = np.random.default_rng(seed)
    arrivals: list[Any] = []
    capacities: list[float] = []
    services = []
    sources = {source.queue: source for source in model.sources}
    for i, stage in enumerate(model.stages):
        for queue in flows.outputs[i]:
            routing[i][flows.number[queue.drain]] += flows.chance(i, queue)
        total = sum(routing[i])
        if total > 1.0:
            routing[i] = [share / total for share in routing[i]]
        outer = [sources[queue.name] for queue in flows.inputs[i] if queue.name in sources]
        gaps = _gaps(outer, stage, flows.room(), seconds, rng)
        arrivals.append(_listed(ciw, gaps) if gaps else None)
        waits_outside = any(not (source.drops or source.saturated) for source in outer)
        rooms = [queue.capacity for queue in flows.inputs[i]]
        capacities.append(float("inf") if waits_outside or 0 in rooms else sum(rooms))
        count = int(flows.true[i] / flows.weight[i] * seconds * 1.2) + 1000
        draws = np.random.default_rng([seed, i + 1])  # [seed, 0] would be the arrivals' stream again
        services.append(_service(ciw, stage, float(flows.weight[i]), count, draws))
    return ciw.create_network(
        arrival_distributions=arrivals,
        service_distributions=services,
        number_of_servers=[stage.workers for stage in model.stages],
        queue_capacities=capacities,
        routing=routing,
    )


def _gaps(
    outer: list[ModelSource], stage: ModelStage, room: float, seconds: float, rng: np.random.Generator
) -> list[float]:
    """Gaps between the arrivals at a stage, in µs, for longer than the simulation runs."""
    times = []
    for source in outer:
        if source.saturated:
            # Twice as many as the stage could take: what finds the queue full never entered. A stage that
            # takes next to no time could take more than any memory holds, and others let it pass on less.
            rate = min(2.0 * stage.workers / max(stage.mean_ns, 1.0) * 1e9, _MOST_ARRIVALS / seconds)
            rate = min(rate, _PRESSES * room * source.rate_hz or rate)
            rate = min(rate, source.most_hz or rate)
            times.append(np.arange(int(rate * seconds) + 1) / rate)
        elif source.counts:
            period = source.period_ns / 1e9
            needed = int(np.ceil(seconds / period))
            counts = np.resize(np.array(source.counts, np.int64), needed)
            times.append((np.repeat(np.arange(needed), counts) + rng.random(int(counts.sum()))) * period)
        elif source.rate_hz > 0:
            count = int(source.rate_hz * seconds * 1.2) + 100
            if source.variation == 0:
                gaps = np.ones(count)
            else:
                shape = 1.0 / source.variation**2
                gaps = rng.gamma(shape, 1.0 / shape, count)
            times.append(np.cumsum(gaps) / source.rate_hz)
    if not times:
        return []
    joined = np.sort(np.concatenate(times)) * 1e6
    # Then nothing more: ciw begins the sequence anew otherwise.
    gaps = np.diff(np.concatenate(([0.0], joined[joined < seconds * 1e6], [seconds * 2e6])))
    return [float(gap) for gap in gaps]


def _listed(ciw: Any, times: list[float]) -> Any:
    """These times one after another, and from the beginning again.

    ciw's own `Sequential` holds an iterator of itertools, which it copies; from Python 3.14 on none can be.
    """

    class Listed(ciw.dists.Distribution):  # type: ignore[misc]
        def __init__(self) -> None:
            self._next = 0

        def sample(self, t: Any = None, ind: Any = None) -> float:
            time = times[self._next % len(times)]
            self._next += 1
            return time

    return Listed()


def _service(ciw: Any, stage: ModelStage, weight: float, count: int, rng: np.random.Generator) -> Any:
    if stage.variation / np.sqrt(weight) < STEADY and not stage.interrupted:
        return ciw.dists.Deterministic(max(stage.service_ns * weight / 1e3, 1e-6))
    times = service_times(stage, count, rng, weight) / 1e3
    return _listed(ciw, [float(time) for time in times])


def _result(
    model: QueueingModel, flows: _Flows, records: list[Any], window_s: tuple[float, float], seed: int
) -> ModelForecast:
    begin, end = window_s[0] * 1e6, window_s[1] * 1e6
    time = (end - begin) / 1e6
    served = [record for record in records if record.record_type == "service"]
    refused = sum(1 for record in records if record.record_type != "service")
    who = np.array([record.id_number for record in served], np.int64)
    node = np.array([record.node for record in served], np.int64) - 1
    came = np.array([record.arrival_date for record in served], float)
    order = np.lexsort((came, who))
    columns = [
        np.array([getattr(record, name) for record in served], float)[order]
        for name in ("waiting_time", "service_time", "time_blocked", "exit_date", "service_end_date")
    ]
    who, node, came = who[order], node[order], came[order]
    waiting, service, blocked, left, ended = columns
    first = np.append(True, who[1:] != who[:-1]) if len(who) else np.empty(0, bool)
    last = np.append(first[1:], True) if len(who) else first
    before = np.where(first, -1, np.append(-1, node[:-1])[: len(node)])
    counted = (ended >= begin) & (ended <= end)
    stages = []
    for i, stage in enumerate(model.stages):
        mine = counted & (node == i)
        stages.append(
            StageForecast(
                stage.name,
                float(mine.sum() * flows.weight[i] / time),
                float(service[mine].sum() / 1e6 / time / stage.workers),
                float(blocked[mine].sum() / 1e6 / time / stage.workers),
            )
        )
    queues = []
    for queue in model.queues:
        i = flows.number[queue.drain]
        source = flows.number.get(queue.source, -1)
        mine = counted & (node == i) & (before == source)
        siblings = [q for q in flows.inputs[i] if flows.number.get(q.source, -1) == source]
        # Of one source's queues into one stage the simulation makes a single way.
        total = sum(q.share for q in siblings)
        share = queue.share / total if total else 1 / len(siblings)
        queues.append(
            QueueForecast(
                queue.name, float(mine.sum() * flows.weight[i] / time * share), _waits(waiting[mine])
            )
        )
    # The last record of an event that is still on its way is no end.
    ends = np.array([not flows.outputs[i] for i in range(len(model.stages))])
    finished = last & counted & ends[node] if len(who) else last
    began = came[np.maximum.accumulate(np.where(first, np.arange(len(who)), 0))] if len(who) else came
    throughput = sum(stage.rate_hz for i, stage in enumerate(stages) if ends[i])
    dropping = any(source.drops for source in model.sources)
    arrived = int(first.sum()) + refused
    return ModelForecast(
        throughput_hz=float(throughput),
        lost=refused / arrived if dropping and arrived else 0.0,
        end_to_end=_waits((left - began)[finished]),
        queues=tuple(queues),
        stages=tuple(stages),
        simulated_s=window_s[1],
        events=arrived if dropping else int(first.sum()),
        seed=seed,
    )


def _waits(times_us: NDArray[np.float64]) -> EventWaits:
    if not len(times_us):
        return EventWaits()
    p50, p99, p999 = (float(value) * 1e3 for value in quantiles(times_us, (0.5, 0.99, 0.999)))
    return EventWaits(len(times_us), float(times_us.mean()) * 1e3, p50, p99, p999)
