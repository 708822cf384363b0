"""What an observer knows of an application's queues: its topology, and what was sampled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

__all__ = [
    "HOLDS_LOOP",
    "SEVERAL",
    "Columns",
    "Landmark",
    "Observation",
    "Process",
    "Queue",
    "QueueKind",
    "SocketBuffer",
    "Stage",
    "named",
    "stage_label",
]

Columns = Mapping[str, NDArray[Any]]

HOLDS_LOOP = "event loop"
"""Type of what is published for a task that holds its loop: its busy time is that, and it is not a stage."""


SEVERAL = " + "
"""Between the labels of unlike stages that use one side of a queue."""


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
        name: "first drop", "first full queue", "trading starts", "start-up ends", "shutdown begins", "ended"
            or "died".
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
    def of_python(self) -> bool:
        """Python implements it: it is named by module and class, where C++'s name would have "::"."""
        return "." in self.implementation and "::" not in self.implementation

    @cached_property
    def source(self) -> str:
        """The label of the stage that puts events in, or ""."""
        return stage_label(self.source_type, self.source_name)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The labels of the stages that put events in: none, one, or several unlike ones."""
        return tuple(self.source.split(SEVERAL)) if self.source else ()

    @cached_property
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
        scheduler: columns t_ns, event, tid, other, value, cpu: what the scheduler did to the threads, where
            that was recorded.
        thread_names: of those, by tid.
        scheduler_missing: why there is no such series, or "".
        phases: (t_ns, process, phase) in order of time; phase is starting, running, stopping or ended.
        period_ns: that was asked for.
        cpus: of the machine; 0 where unknown.
        clock_step_ns: the counter's step: two stamps less far apart have no order. 0 where unknown.
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
    clock_step_ns: int = 0
    sockets: tuple[SocketBuffer, ...] = ()
    socket_samples: Columns = field(default_factory=dict)
    scheduler: Columns = field(default_factory=dict)
    thread_names: Mapping[int, str] = field(default_factory=dict)
    scheduler_missing: str = ""


def named(queues: Iterable[Queue]) -> tuple[Queue, ...]:
    """With a name each: one that its program gave none is called by its number."""
    return tuple(replace(one, name=one.name or f"queue {one.number}") for one in queues)
