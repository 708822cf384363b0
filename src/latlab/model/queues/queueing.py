"""A queueing model of a pipeline, and what a simulation of it forecasts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from latlab.errors import UsageError

__all__ = [
    "EventWaits",
    "ModelForecast",
    "ModelQueue",
    "ModelSource",
    "ModelStage",
    "QueueForecast",
    "QueueingModel",
    "StageForecast",
]


@dataclass(frozen=True)
class ModelSource:
    """What comes from outside into a queue.

    Attributes:
        queue: its name.
        rate_hz: events a second that are offered, those that were dropped included.
        variation: coefficient of variation of the gaps between events, where there are no counts.
        drops: what finds the queue full is lost; else it waits in front of it.
        saturated: the source waited for room: there is always another event; `rate_hz` is what came.
        most_hz: of a saturated one, what it puts while it need not wait for room; None where unknown.
        period_ns, counts: events in each period, as they were recorded; empty: gaps are drawn.
    """

    queue: str
    rate_hz: float
    variation: float = 1.0
    drops: bool = False
    saturated: bool = False
    period_ns: int = 0
    counts: tuple[int, ...] = ()
    most_hz: float | None = None


@dataclass(frozen=True)
class ModelStage:
    """A stage.

    Attributes:
        workers: events that it serves at a time.
        service_ns: mean time of one event, without interruptions.
        variation: coefficient of variation of that time.
        interrupted: mean number of interruptions of one service, by the scheduler for example.
        interruption_ns: mean time of an interruption.
        joins: it takes one event of each of its inputs for each that it serves.
    """

    name: str
    service_ns: float
    variation: float = 1.0
    workers: int = 1
    type: str = ""
    interrupted: float = 0.0
    interruption_ns: float = 0.0
    joins: bool = False

    @property
    def mean_ns(self) -> float:
        """Mean time of one event, with interruptions."""
        return self.service_ns + self.interrupted * self.interruption_ns


@dataclass(frozen=True)
class ModelQueue:
    """A queue.

    Attributes:
        source: the stage that fills it; "" or a name that is not a stage: it is filled from outside.
        drain: the stage that empties it.
        capacity: 0 where it is unbounded.
        share: events put in for each event that the source takes.
        initial: events in it at the beginning, of a circle: there are never more or fewer of them.
    """

    name: str
    source: str
    drain: str
    capacity: int = 0  # unbounded
    share: float = 1.0
    initial: int = 0


@dataclass(frozen=True)
class QueueingModel:
    """A pipeline as arrival and service processes joined by queues."""

    sources: tuple[ModelSource, ...]
    stages: tuple[ModelStage, ...]
    queues: tuple[ModelQueue, ...]

    def with_stage(
        self,
        name: str,
        *,
        speed: float | None = None,
        service_ns: float | None = None,
        workers: int | None = None,
    ) -> QueueingModel:
        """Another service time or number of workers for a stage, or for all stages of a type.

        Args:
            name: of a stage, or of a type.
            speed: how many times as fast.

        Raises:
            UsageError: when there is no such stage.
        """
        chosen = [s for s in self.stages if s.name == name] or [s for s in self.stages if s.type == name]
        if not chosen:
            raise UsageError(f"no stage '{name}'", remedy=f"there are: {', '.join(self._stage_names())}")
        if (speed is not None and speed <= 0) or (workers is not None and workers < 1):
            raise UsageError(f"'{name}': a speed above 0 and at least one worker are needed")

        def changed(stage: ModelStage) -> ModelStage:
            time = stage.service_ns if service_ns is None else service_ns
            return replace(stage, service_ns=time / (speed or 1.0), workers=workers or stage.workers)

        return replace(self, stages=tuple(changed(s) if s in chosen else s for s in self.stages))

    def with_capacity(self, name: str, capacity: int) -> QueueingModel:
        """Another capacity for a queue; 0 makes it unbounded.

        Raises:
            UsageError: when there is no such queue.
        """
        if name not in {queue.name for queue in self.queues}:
            raise UsageError(
                f"no queue '{name}'", remedy=f"there are: {', '.join(queue.name for queue in self.queues)}"
            )
        queues = tuple(replace(q, capacity=capacity) if q.name == name else q for q in self.queues)
        return replace(self, queues=queues)

    def _stage_names(self) -> list[str]:
        types = {stage.type for stage in self.stages if stage.type}
        return [stage.name for stage in self.stages] + sorted(types - {s.name for s in self.stages})


@dataclass(frozen=True)
class EventWaits:
    """Times of many events, in ns; all are 0 without events."""

    count: int = 0
    mean_ns: float = 0.0
    p50_ns: float = 0.0
    p99_ns: float = 0.0
    p99_9_ns: float = 0.0


@dataclass(frozen=True)
class QueueForecast:
    """A queue: events a second that pass it, and how long they wait in it."""

    name: str
    rate_hz: float
    waiting: EventWaits


@dataclass(frozen=True)
class StageForecast:
    """A stage.

    Attributes:
        rate_hz: events that it serves a second.
        utilisation: share of its workers' time in which they serve.
        blocked: share in which they hold a result for which there is no room.
    """

    name: str
    rate_hz: float
    utilisation: float
    blocked: float


@dataclass(frozen=True)
class ModelForecast:
    """What a simulation of a model gives.

    Attributes:
        throughput_hz: events a second that the last stages finish.
        lost: share of the offered events that found their queue full.
        end_to_end: from the arrival to the end, of the events that reach a last stage.
        simulated_s: of the pipeline's time.
        events: that arrived in the simulation.
    """

    throughput_hz: float
    lost: float
    end_to_end: EventWaits
    queues: tuple[QueueForecast, ...]
    stages: tuple[StageForecast, ...]
    simulated_s: float
    events: int
    seed: int

    def to_json(self) -> Mapping[str, Any]:
        """The machine contract of `latlab queues simulate --json`."""
        return {"schema": 1, **asdict(self)}
