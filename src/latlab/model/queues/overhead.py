"""What observing costs an application: the latency of its queues, unobserved and at several periods."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Overhead", "QueueCost", "SampleTime", "WatchedRuns"]


@dataclass(frozen=True, slots=True)
class QueueCost:
    """The times that events spent in one queue, over all rounds at one period.

    Attributes:
        queue: its name; "" is the whole way, from the first queue to the end of the pipeline.
        events: traced.
        slowdown: the median over the rounds of (mean time here / mean time unobserved in that round) - 1;
            None for the unobserved runs themselves, and where a round has no event.
        slowdown_low, slowdown_high: the 95 % confidence interval of that median, by the ranks of the rounds
            (exact whatever their distribution); None with fewer than 6 rounds.
    """

    queue: str
    events: int
    mean_ns: float
    deviation_ns: float
    p1_ns: int
    p50_ns: int
    p99_ns: int
    slowdown: float | None = None
    slowdown_low: float | None = None
    slowdown_high: float | None = None


@dataclass(frozen=True, slots=True)
class WatchedRuns:
    """All runs at one period.

    Attributes:
        period_ns: 0: unobserved.
        runs: rounds that were run whole.
        achieved_p99_ns: the 99th percentile of the periods that were kept; None for unobserved runs.
        llc_loads, llc_misses: of the pipeline's processes in user mode, a run on average; None where the
            machine has no such counters.
    """

    period_ns: int
    runs: int
    achieved_p99_ns: float | None
    llc_loads: float | None
    llc_misses: float | None
    queues: tuple[QueueCost, ...]

    @property
    def whole(self) -> QueueCost | None:
        """The whole way."""
        return next((cost for cost in self.queues if not cost.queue), None)


@dataclass(frozen=True, slots=True)
class SampleTime:
    """How long a look at one queue took, and where its counts lie.

    Attributes:
        pid: of the process whose counter file holds them (the producer's, of a queue between processes).
        slot: in that file.
        offset_bytes: of the counts in it.
        parts: registrations that are read for one sample (2 for a queue between two processes).
        looks: that were timed.
        p50_ns, p99_ns: less what a look at no queue takes (p50).
    """

    queue: str
    pid: int
    slot: int
    offset_bytes: int
    parts: int
    looks: int
    p50_ns: float
    p99_ns: float


@dataclass(frozen=True, slots=True)
class Overhead:
    """The effect of observing on the demonstration's pipeline.

    Attributes:
        rounds: each has one run at every period, in an order drawn anew.
        seconds: of each run.
        watched: unobserved first, then by period, the longest first.
        counters: why the hardware counters are unavailable, or "".
        sample_times: in the order of memory.
        warnings: what makes the figures doubtful.
    """

    rounds: int
    seconds: float
    watched: tuple[WatchedRuns, ...]
    counters: str
    sample_times: tuple[SampleTime, ...]
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab queues overhead --json`."""
        return {"schema": 1, **asdict(self)}
