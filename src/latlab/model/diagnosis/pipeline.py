"""What a whole run of an application adds to the analysis of its queues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latlab.model.queues.analysis import Analysis

__all__ = ["Discrepancy", "Latency", "QueueRow", "SamplerFacts", "StageRow", "Whole", "run_json"]


@dataclass(frozen=True, slots=True)
class Latency:
    """Quantiles (nearest rank) of times in ns.

    Attributes:
        count: of events.
        p50, p90, p99, p99_9, max: quantiles, and the longest; `p99_9` is written `p99.9`.
    """

    count: int
    p50: int
    p90: int
    p99: int
    p99_9: int
    max: int

    def to_json(self) -> dict[str, int]:
        """Keys as people write them."""
        return {
            "count": self.count,
            "p50": self.p50,
            "p90": self.p90,
            "p99": self.p99,
            "p99.9": self.p99_9,
            "max": self.max,
        }


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue's row.

    Attributes:
        samples: sweeps of the sampler; nonempty: those that found at least one event.
        full_blocks: times that a producer found it full and waited.
        waiting_ns: of traced events, from put in to taken out; None without a trace.
        little_ns: the mean time in the queue by Little's law, from the samples alone.
        traced_mean_ns: the mean of the traced times, to hold against it.
    """

    name: str
    source: str
    drain: str
    kind: str
    capacity: int
    samples: int
    nonempty: int
    sum_of_fills: int
    fill_mean: float
    fill_p50: int
    fill_p99: int
    fill_max: int
    full_blocks: int
    events_in: int
    events_out: int
    drops: int
    little_ns: float | None
    waiting_ns: Latency | None = None
    traced_mean_ns: float | None = None


@dataclass(frozen=True, slots=True)
class StageRow:
    """One stage instance's row.

    Attributes:
        utilisation: share of the time that it was busy and on a CPU.
        cpu_cores: CPUs' worth of time that its thread used, waiting included where it polls.
        ready: P(input non-empty and output not full), by the samples.
        run_queue: share of the time that its thread was ready and had no CPU.
        service_ns: of traced events, from taken out to put on, by the wall clock.
        waiting_ns: of traced events, in the queues in front of it.
    """

    name: str
    type: str
    events: int
    rate_hz: float
    utilisation: float | None
    cpu_cores: float | None
    ready: float | None
    blocked: float | None
    run_queue: float | None
    service_ns: Latency | None = None
    waiting_ns: Latency | None = None


@dataclass(frozen=True, slots=True)
class SamplerFacts:
    """How the queues were sampled.

    Attributes:
        period_ns: asked for; achieved_p99_ns: the 99th percentile of the periods that were kept.
        missed: periods without a sample.
    """

    period_ns: int
    achieved_p50_ns: int
    achieved_p99_ns: int
    sweeps: int
    missed: int
    queues: int


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """Samples held against traces: how many show fewer events than traced ones were inside.

    Attributes:
        samples: that could be checked.
        discrepancies: that contradict a trace.
    """

    samples: int
    discrepancies: int
    traces: int

    @property
    def rate(self) -> float | None:
        """Discrepancies a sample; None where nothing could be checked."""
        return self.discrepancies / self.samples if self.samples else None


@dataclass(frozen=True, slots=True)
class Whole:
    """What a whole run adds to the analysis of its queues.

    Attributes:
        queues, stages: with what event traces and the counts of the whole run tell.
        end_to_end: of the traced events that reached the end; None if none did.
        sampler: how the queues were sampled.
        discrepancy: samples held against traces.
        cores_used, cores: CPUs' worth of time that the application used, and those that it could use.
        seconds: that are judged.
        events: that came in from outside.
        facts: of the processes, by what they are called in JSON.
    """

    queues: tuple[QueueRow, ...]
    stages: tuple[StageRow, ...]
    end_to_end: Latency | None
    sampler: SamplerFacts
    discrepancy: Discrepancy
    cores_used: float | None
    cores: int
    seconds: float
    events: int
    facts: Mapping[str, Any] = field(default_factory=dict)


def run_json(found: Analysis) -> dict[str, Any]:
    """The machine contract of `latlab demo --json`, schema 1: the analysis of a whole run."""
    whole = found.of_run

    def latency(value: Latency | None) -> dict[str, int] | None:
        return None if value is None else value.to_json()

    queues = [
        {
            "name": queue.name,
            "source": queue.source,
            "drain": queue.drain,
            "kind": queue.kind,
            "capacity": queue.capacity,
            "in": queue.events_in,
            "out": queue.events_out,
            "drops": queue.drops,
            "full_blocks": queue.full_blocks,
            "fill": {
                "samples": queue.samples,
                "nonempty": queue.nonempty,
                "sum": queue.sum_of_fills,
                "mean": queue.fill_mean,
                "p50": queue.fill_p50,
                "p99": queue.fill_p99,
                "max": queue.fill_max,
            },
            "waiting_ns": latency(queue.waiting_ns),
            "little_ns": queue.little_ns,
            "traced_mean_ns": queue.traced_mean_ns,
        }
        for queue in whole.queues
    ]
    stages = []
    for stage in whole.stages:
        row = asdict(stage)
        row["service_ns"], row["waiting_ns"] = latency(stage.service_ns), latency(stage.waiting_ns)
        stages.append(row)
    return {
        "schema": 1,
        "limiting_stage": found.limiting_stage,
        "verdict": str(found.verdict),
        "confidence": found.confidence,
        "sentence": found.sentence,
        "evidence": list(found.evidence),
        "trustworthy": not found.reasons and not found.doubts,
        "contradictions": [asdict(doubt) for doubt in found.doubts],
        "distrust": list(found.reasons),
        "losses": list(found.losses),
        "queues": queues,
        "stages": stages,
        "end_to_end_ns": latency(whole.end_to_end),
        "sampler": asdict(whole.sampler),
        "discrepancy": {
            "traces": whole.discrepancy.traces,
            "samples": whole.discrepancy.samples,
            "discrepancies": whole.discrepancy.discrepancies,
            "rate": whole.discrepancy.rate,
        },
        "cores_used": whole.cores_used,
        "cores": whole.cores,
        "seconds": whole.seconds,
        "events": whole.events,
        **whole.facts,
    }
