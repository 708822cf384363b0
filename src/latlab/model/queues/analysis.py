"""What a recording of queues means: what limits, and the statistics of each queue and stage."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from latlab.model.diagnosis.pipeline import Whole
from latlab.model.queues.observation import Landmark

__all__ = [
    "Analysis",
    "Burst",
    "Doubt",
    "DoubtKind",
    "LineResult",
    "Period",
    "QueueResult",
    "SocketResult",
    "StageResult",
    "Stall",
    "Verdict",
]


class Verdict(StrEnum):
    """What limits a pipeline."""

    STAGE = "stage"  # a stage is slower than the rest
    SCHEDULER = "scheduler"  # a stage was kept from running
    CPU = "cpu"  # all CPUs are in use: no stage, but the machine
    BURST = "burst"  # bursts are larger than a buffer; on average nothing limits
    POOL = "pool"  # a pool is empty: its users wait for an object that another of them holds
    STOPPED = "stopped"  # a stage takes nothing any more, though events wait and there is room
    NONE = "none"
    UNKNOWN = "cannot tell"


class DoubtKind(StrEnum):
    """What contradicts a verdict, so that it is withheld."""

    RARELY_AT_WORK = "rarely at work"  # `where` has work and room for a share `value` of the time only
    ABOVE_WHOLE = "above the whole"  # `where` is busy for a share `value` of the time
    ABOVE_CAPACITY = "above capacity"  # `where` held `value` events at the median, and has room for `limit`
    MORE_OUT_THAN_IN = "more out than in"  # of `where`, `value` events more came out than went in
    SWAPPED_ENDS = "swapped ends"  # the thread that fills or drains `where` is `other` everywhere else
    UNSEEN_QUEUE = "unseen queue"  # what `where` takes leaves `other`, which no queue connects to it
    BACKED_UP = "backed up"  # `where` is full for a share `value` of the time, and nobody seems slow
    NEVER_STARVED = "never starved"  # `where`, its output, held some for `value` of the time
    SOCKET_DROPS = "socket drops"  # the kernel dropped `value` datagrams in front of `other`
    BUSY_LOOP = (
        "busy loop"  # nothing seems slow, and the loop that runs `where` is busy for `value` of the time
    )
    CAME_LATE = "came late"  # `where` overflows, and `other` at its end had no CPU for `value` of the time
    SOURCE_AS_SLOW = "source as slow"  # `other` feeds `where`, and waits for room for `value` of the time
    NEVER_BEHIND = "never behind"  # `where` holds `value` events of `other` on average, which tells nothing
    GOES_ROUND = "goes round"  # no event comes from outside, and `where` has `value` of the `limit` under way
    SHARED_LOOP = "shared loop"  # `where` and `other` hold one event loop for `value` of the time


@dataclass(frozen=True)
class Doubt:
    """One contradiction; the words are made in the reports.

    Attributes:
        where: the stage or queue that it is about.
        other: the second stage, where there is one.
        value, limit: the numbers, as the kind says.
        kind: which contradiction.
    """

    kind: DoubtKind
    where: str
    other: str = ""
    value: float = 0.0
    limit: float = 0.0


@dataclass(frozen=True)
class LineResult:
    """The verdict on one of several lines that no queue connects.

    Attributes:
        queues, stages: their names; all else is as of an `Analysis`.
        from_ns, to_ns: the time that it is judged by: of one of several applications its own.
    """

    queues: tuple[str, ...]
    stages: tuple[str, ...]
    limiting_stage: str | None
    verdict: Verdict
    confidence: float
    evidence: tuple[str, ...]
    doubts: tuple[Doubt, ...] = ()
    from_ns: int = 0
    to_ns: int = 0


class Burst(NamedTuple):
    """A stretch in which a queue was well above its usual fill."""

    from_ns: int
    to_ns: int
    height: int
    queue: int
    next_queue: int | None = None


@dataclass(frozen=True)
class Stall:
    """A stretch in which a stage took no event though some waited.

    Attributes:
        stage: its label.
        queue: in which they waited.
        fill: the most that waited.
        without_cpu: share of the stretch that its thread was ready and had no CPU; near 0: it did not ask for
            one (it was stopped, or waited for something else); None where unknown.
    """

    stage: str
    queue: str
    from_ns: int
    to_ns: int
    fill: int
    without_cpu: float | None


@dataclass(frozen=True)
class Period:
    """A stretch of the timeline and the stage that limited in it (None: none did)."""

    from_ns: int
    to_ns: int
    stage: str | None
    verdict: str = Verdict.STAGE


@dataclass(frozen=True)
class QueueEnds:
    """Which queue it is, and between whom."""

    number: int
    name: str
    kind: str
    source: str
    drain: str
    capacity: int


@dataclass(frozen=True)
class QueueFlow(QueueEnds):
    """What passed it, and what did not; `rate_in_hz` and `rate_out_hz` are events a second."""

    total_in: int
    total_out: int
    dropped: int
    blocked: int
    rate_in_hz: float
    rate_out_hz: float


@dataclass(frozen=True)
class QueueResult(QueueFlow):
    """One queue over the observed time. Fills are bounds where samples are intervals.

    Attributes:
        nonempty_samples: sweeps that found at least one event, at least and at most.
        sum_of_fills: over all sweeps, at least and at most.
        mean_fill: over all sweeps, by the midpoint of the bounds.
        mean_nonzero_fill: over the sweeps that found an event.
        fill_p50, fill_p99, fill_max: of the fill over time.
        above_50, above_80, full: share of the time at or above that share of the capacity.
        residence_ns: the mean time of an event in the queue by Little's law (L = λW), or None without events.
        growth_hz: events a second by which the fill grew (the slope of a line through it).
        pool_wait_ns: of a pool, the mean time that an event waited for an object; None where unknown.
    """

    samples: int
    nonempty_samples: tuple[int, int]
    sum_of_fills: tuple[int, int]
    mean_fill: float
    mean_nonzero_fill: float
    fill_p50: int
    fill_p99: int
    fill_max: int
    above_50: float
    above_80: float
    full: float
    residence_ns: float | None
    growth_hz: float
    bursts: tuple[Burst, ...] = ()
    pool_wait_ns: float | None = None


@dataclass(frozen=True)
class StageResult:
    """One stage over the observed time.

    Attributes:
        ready: P(an input holds an event and no output is full), or None where it can't be known.
        starved: P(every input is empty).
        blocked: P(an input holds an event and an output is full).
        utilisation: share of the time busy, by the stage's own times, else by the counts around it; without a
            CPU at times.
        service_ns: mean time that one of its threads works on an event; None where it took none.
        rate_hz: events taken in per second.
        cpu: share of one CPU that its thread used, or None.
        run_queue: share of the time that its thread was ready and waited for a CPU, or None.
        involuntary_hz: switches a second that took its CPU away, or None.
        in_hand: mean number of events in it, served, kept, or waiting for room behind it; None where not
            each that comes in goes out.
    """

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ready: float | None
    starved: float | None
    blocked: float | None
    utilisation: float | None
    service_ns: float | None
    rate_hz: float
    cpu: float | None = None
    run_queue: float | None = None
    involuntary_hz: float | None = None
    in_hand: float | None = None


@dataclass(frozen=True)
class SocketResult:
    """A receive buffer of the kernel over the observed time.

    Attributes:
        drain: the stage that reads it; "" where several could.
        dropped: datagrams for which it had no room.
        full: share of the looks that found it nearly full.
        mean_bytes, capacity_bytes: what it held, and what fits.
        waiting: datagrams that it held, on average; None where these are of several sizes.
    """

    name: str
    drain: str
    dropped: int
    full: float
    mean_bytes: float
    capacity_bytes: int
    waiting: float | None = None


@dataclass(frozen=True)
class Analysis:
    """What limits an application.

    Attributes:
        limiting_stage: its label, or the type of several that are equally slow, or None; `verdict` says why.
        verdict: stage, scheduler, cpu, burst, none or cannot tell. With "scheduler" a stage is named where it
            is the busiest for want of a CPU alone.
        confidence: from 0 to 1: how sure the answer is, by the errors of the stages' mean service times: that
            the named stage (or type) is the slowest; for "none" and "burst", that none is loaded; for "cannot
            tell", that the first is not the slowest.
        evidence: sentences with numbers.
        timeline: what limited when.
        queues: of the statistics.
        stages: of the statistics.
        from_ns, to_ns: what of the recording was used: start-up and shutdown are left out.
        landmarks: instants that a reader looks for, of the whole recording, in order of time.
        doubts: what contradicts a name, which is withheld then (the verdict is "cannot tell").
        lines: one verdict each, where there are several lines that no queue connects; else empty. Those above
            are of the line that took the most events among those that say anything.
        sockets: the kernel's receive buffers, the one that dropped most first.
        scarce: there were too few sweeps or events for any answer.
        sentence: the answer in a sentence or two, where a whole run was judged; else "".
        distrust: reasons why what was observed is not trustworthy; empty when it is.
        losses: queues that overran, in words. They are counted, and a finding like any other; but what was
            lost has no latency.
        run: what a whole run adds; None where its queues alone were looked at.
    """

    limiting_stage: str | None
    verdict: Verdict
    confidence: float
    evidence: tuple[str, ...]
    timeline: tuple[Period, ...]
    queues: tuple[QueueResult, ...]
    stages: tuple[StageResult, ...]
    from_ns: int
    to_ns: int
    landmarks: tuple[Landmark, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    lines: tuple[LineResult, ...] = ()
    sockets: tuple[SocketResult, ...] = ()
    scarce: bool = False
    sentence: str = ""
    distrust: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    run: Whole | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a measurement of latency by this run is in doubt: `distrust`, and what was lost."""
        return (*self.distrust, *self.losses)

    @property
    def of_run(self) -> Whole:
        """What the whole run adds, where one was judged."""
        assert self.run is not None
        return self.run

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab queues analyse --json`."""
        document = asdict(self)
        for of_run in ("sentence", "distrust", "losses", "run"):
            del document[of_run]
        document["verdict"] = str(self.verdict)
        return {"schema": 1, **document}
