"""What an observer knows of an application's queues: its topology, what was sampled, and what that means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from numpy.typing import NDArray

__all__ = [
    "Analysis",
    "Burst",
    "Landmark",
    "LatencyNow",
    "Observation",
    "Period",
    "Process",
    "Queue",
    "QueueKind",
    "QueueNow",
    "QueueResult",
    "Snapshot",
    "SocketBuffer",
    "Stage",
    "StageNow",
    "StageResult",
    "Stall",
    "Tail",
    "TailEvent",
    "TailHop",
    "Verdict",
    "stage_label",
]

Columns = Mapping[str, NDArray[Any]]


class QueueKind(StrEnum):
    """What a queue is; the counter file's numbers are 1 + the position here."""

    BOUNDED = "bounded"
    UNBOUNDED = "unbounded"
    POOL = "pool"
    SHARED_MEMORY = "shared-memory"
    BIDIRECTIONAL = "bidirectional"
    SOCKET = "socket"


def stage_label(type_: str, name: str) -> str:
    """How a stage is called in every result: its name; where that is blank, its type; else nothing."""
    return name or type_


@dataclass(frozen=True)
class Process:
    """One counter file of an observed application.

    Attributes:
        number: within the observation.
        pid: the process.
        start: its start time (field 22 of /proc/PID/stat): with the pid it is never used again.
        application: the name that the application gave itself.
        file_number: an application may have several files.
        ended_ns: seen to be gone, or None.
        died: it was gone without having said that it ends.
    """

    number: int
    pid: int
    start: int
    application: str
    file_number: int = 0
    ended_ns: int | None = None
    died: bool = False


@dataclass(frozen=True)
class Landmark:
    """An instant of a recording that a reader looks for.

    Attributes:
        name: "first drop", "trading starts", "start-up ends", "shutdown begins", "ended" or "died".
        subject: the queue or the application that it is about, or "".
    """

    t_ns: int
    name: str
    subject: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.subject}" if self.subject else self.name


@dataclass(frozen=True)
class Queue:
    """One queue, with its place in the topology.

    Attributes:
        number: within the observation; the samples name it by this.
        capacity: events; 0 where it is unbounded or unknown.
        identity: of a queue between processes, as 16 hexadecimal digits; else "".
        pair: the number of the other direction of a bidirectional queue, or -1.
        processes: numbers of the processes that publish it.
        slots: (process, slot, generation) of each registration.
        producer_tid, consumer_tid: the first threads that used it, or 0.
        discovered: the ends that the application left blank and that were filled from those threads:
            "source", "drain".
        complete: both of its sides are published; a queue that isn't is listed, and not sampled.
        added_ns: first seen.
        retired_ns: seen to be gone, or None.
    """

    number: int
    name: str
    kind: QueueKind
    capacity: int
    source_type: str = ""
    source_name: str = ""
    drain_type: str = ""
    drain_name: str = ""
    group: str = ""
    implementation: str = ""
    identity: str = ""
    pair: int = -1
    processes: tuple[int, ...] = ()
    slots: tuple[tuple[int, int, int], ...] = ()
    producer_tid: int = 0
    consumer_tid: int = 0
    discovered: tuple[str, ...] = ()
    complete: bool = True
    added_ns: int = 0
    retired_ns: int | None = None

    @property
    def source(self) -> str:
        """The label of the stage that puts events in, or ""."""
        return stage_label(self.source_type, self.source_name)

    @property
    def drain(self) -> str:
        """The label of the stage that takes events out, or ""."""
        return stage_label(self.drain_type, self.drain_name)


@dataclass(frozen=True)
class Stage:
    """One registered stage.

    Attributes:
        wait: how it waits for events: poll, block, hybrid or unknown.
        tid: the thread that runs it, or 0.
        cpu: that it is pinned to, or -1.
    """

    number: int
    type: str
    name: str
    group: str = ""
    wait: str = "unknown"
    tid: int = 0
    cpu: int = -1
    process: int = 0
    slot: int = 0
    added_ns: int = 0
    retired_ns: int | None = None

    @property
    def label(self) -> str:
        """How results call it."""
        return stage_label(self.type, self.name)


@dataclass(frozen=True)
class SocketBuffer:
    """A receive buffer of the kernel that belongs to an observed process: a queue in front of the feed.

    Attributes:
        number: within the observation; the socket samples name it by this.
        protocol: udp, udp6, tcp or tcp6.
        local, remote: address:port.
        inode: of the socket.
        process: number of the process that holds it.
        drain: the label of the stage that reads it, where only one can.
    """

    number: int
    protocol: str
    local: str
    remote: str
    inode: int
    process: int
    drain: str = ""
    added_ns: int = 0
    retired_ns: int | None = None

    @property
    def name(self) -> str:
        """How results call it."""
        return f"{self.protocol} {self.local}"


@dataclass(frozen=True)
class Observation:
    """What was observed, in memory: the topology and the series of `docs/reference/queue-recording.md`.

    Attributes:
        queues: by number.
        stages: by number.
        processes: by number.
        samples: columns t_ns, t_end_ns, queue, in, out_low, out_high, dropped, blocked, empty, skipped.
        sweeps: columns t_ns, duration_ns, read: when the sampler looked, changed or not.
        gaps: columns from_ns, to_ns, periods, cause.
        stage_times: columns t_ns, stage, busy_ns, blocked_ns, idle_ns, events, state, transitions.
        threads: columns t_ns, pid, tid, cpu_ns, wait_ns, voluntary, involuntary.
        sockets: by number.
        socket_samples: columns t_ns, socket, fill_bytes, capacity_bytes, dropped.
        phases: (t_ns, process, phase) in order of time; phase is starting, running, stopping or ended.
        period_ns: that was asked for.
        cpus: of the machine; 0 where unknown.
    """

    queues: tuple[Queue, ...]
    stages: tuple[Stage, ...]
    processes: tuple[Process, ...]
    samples: Columns
    sweeps: Columns
    gaps: Columns = field(default_factory=dict)
    stage_times: Columns = field(default_factory=dict)
    threads: Columns = field(default_factory=dict)
    phases: tuple[tuple[int, int, str], ...] = ()
    period_ns: int = 100_000
    cpus: int = 0
    sockets: tuple[SocketBuffer, ...] = ()
    socket_samples: Columns = field(default_factory=dict)


class Verdict(StrEnum):
    """What limits a pipeline."""

    STAGE = "stage"  # a stage is slower than the rest
    SCHEDULER = "scheduler"  # a stage was kept from running
    CPU = "cpu"  # all CPUs are in use: no stage, but the machine
    BURST = "burst"  # bursts are larger than a buffer; on average nothing limits
    NONE = "none"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Burst:
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
class QueueResult:
    """One queue over the observed time. Fills are bounds where samples are intervals.

    Attributes:
        nonempty_samples: sweeps that found at least one event, at least and at most.
        sum_of_fills: over all sweeps, at least and at most.
        mean_fill: over all sweeps, by the midpoint of the bounds.
        mean_nonzero_fill: over the sweeps that found an event.
        fill_p50, fill_p99, fill_max: of the fill over time.
        above_50, above_80, full: share of the time at or above so much of the capacity.
        rate_in_hz, rate_out_hz: events a second.
        residence_ns: the mean time of an event in the queue by Little's law (L = λW), or None without events.
        growth_hz: events a second by which the fill grew (the slope of a line through it).
    """

    number: int
    name: str
    kind: str
    source: str
    drain: str
    capacity: int
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
    total_in: int
    total_out: int
    dropped: int
    blocked: int
    rate_in_hz: float
    rate_out_hz: float
    residence_ns: float | None
    growth_hz: float
    bursts: tuple[Burst, ...] = ()


@dataclass(frozen=True)
class StageResult:
    """One stage over the observed time.

    Attributes:
        ready: P(an input holds an event and no output is full), or None where it can't be known.
        starved: P(every input is empty).
        blocked: P(an input holds an event and an output is full).
        utilisation: share of the time busy, from the stage's own times; None where it publishes none.
        service_ns: mean time of work per event, where it can be known.
        rate_hz: events taken in per second.
        cpu: share of one CPU that its thread used, or None.
        run_queue: share of the time that its thread was ready and waited for a CPU, or None.
        involuntary_hz: switches a second that took its CPU away, or None.
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


@dataclass(frozen=True)
class Analysis:
    """What limits an application.

    Attributes:
        limiting_stage: its label, or the type of several that are slow alike, or None; `verdict` says why.
        verdict: stage, scheduler, cpu, burst, none or cannot tell.
        confidence: from 0 to 1: how sure the answer is, by the errors of the stages' mean service times: that
            the named stage (or type) is the slowest; for "none" and "burst", that none is loaded; for "cannot
            tell", that the first is not the slowest.
        evidence: sentences with numbers.
        timeline: what limited when.
        queues: of the statistics.
        stages: likewise.
        from_ns, to_ns: what of the recording was used: start-up and shutdown are left out.
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

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab queues analyse --json`."""
        document = asdict(self)
        document["verdict"] = str(self.verdict)
        return {"schema": 1, **document}


@dataclass(frozen=True)
class QueueNow:
    """A queue at one look.

    Attributes:
        kind: as `QueueKind`. A socket's fill, capacity and high-water mark are bytes; its events are not
            counted.
        fill_low, fill_high: bounds of the fill.
        high_water: the most that was seen at any look.
        rate_in_hz, rate_out_hz: since the look before; 0 at the first.
    """

    number: int
    name: str
    kind: str
    source: str
    drain: str
    capacity: int
    fill_low: int
    fill_high: int
    high_water: int
    total_in: int
    total_out: int
    dropped: int
    blocked: int
    rate_in_hz: float
    rate_out_hz: float
    group: str = ""
    implementation: str = ""

    @property
    def fill_share(self) -> float | None:
        """Of the capacity; None where it has none."""
        return self.fill_high / self.capacity if self.capacity else None


@dataclass(frozen=True)
class StageNow:
    """A stage at one look.

    Attributes:
        state: idle, busy or blocked; "" where it publishes no times of its own.
        busy, blocked: shares of the time since the look before, or None.
        rate_hz: events since the look before, by the queues that it drains.
        waiting: events in the queues that it drains.
    """

    label: str
    type: str
    group: str
    state: str
    busy: float | None
    blocked: float | None
    rate_hz: float
    waiting: int


@dataclass(frozen=True)
class LatencyNow:
    """End-to-end latency of the traced events that ended in the last seconds.

    Attributes:
        events: that ended.
        p50_ns, p99_ns, p99_9_ns: nearest ranks; None where fewer events ended than the quantile needs.
        window_s: the seconds.
        full: a process has no room for more traces: what it does from then on is not in here.
    """

    events: int
    p50_ns: float | None
    p99_ns: float | None
    p99_9_ns: float | None
    window_s: float
    full: bool = False


@dataclass(frozen=True)
class Snapshot:
    """All queues and stages at one look.

    Attributes:
        limiting_stage: by the last seconds, or None; `verdict` says why there is none.
        verdict: as `Verdict`, or "" where nobody judged.
        confidence: from 0 to 1.
        latency: from end to end; None where the application traces no events, or nobody looked.
    """

    t_ns: int
    queues: tuple[QueueNow, ...]
    stages: tuple[StageNow, ...] = ()
    limiting_stage: str | None = None
    verdict: str = ""
    confidence: float = 0.0
    latency: LatencyNow | None = None

    def to_json(self) -> dict[str, Any]:
        """A line of `latlab queues watch --json`."""
        return {"schema": 1, **asdict(self)}


@dataclass(frozen=True)
class TailHop:
    """One stay of a slow event: in a queue, and then in the stage that took it out.

    Attributes:
        waited_ns: in the queue.
        served_ns: from there until it was put into the next queue, or ended.
        fill: events in the queue by the last sample before it came; None where there is none.
        filling_ns: for how long the queue had not been empty then.
        came: events that came in that time.
        on_cpu, no_cpu: shares of the time around the wait in which the stage's thread ran, and was ready
            without a CPU; None where its times were not recorded.
    """

    queue: str
    stage: str
    push_ns: int
    waited_ns: int
    served_ns: int
    fill: int | None
    filling_ns: int | None
    came: int | None
    on_cpu: float | None
    no_cpu: float | None


@dataclass(frozen=True)
class TailEvent:
    """A slow event and its path."""

    event: int
    began_ns: int
    total_ns: int
    hops: tuple[TailHop, ...]

    @property
    def longest(self) -> TailHop | None:
        """The hop that took most of its time."""
        return max(self.hops, key=lambda hop: hop.waited_ns + hop.served_ns, default=None)


@dataclass(frozen=True)
class Tail:
    """The slowest traced events.

    Attributes:
        share: the quantile beyond which they are.
        limit_ns: its value.
        traced: events that came to the end.
        beyond: how many of them took longer; `events` are the slowest of these.
    """

    share: float
    limit_ns: float
    traced: int
    beyond: int
    events: tuple[TailEvent, ...]

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab queues tail --json`."""
        return {"schema": 1, **asdict(self)}
