"""What a messaging run was asked for, what it measured, and what that means.

Over 400 lines: settings, what a run counted and what it says are one JSON document, in the order of reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.model.messaging.driver import DriverOption
from latlab.model.statistics.summary import Summary

__all__ = [
    "INTERRUPTED",
    "SATURATED",
    "SECRETS",
    "Counter",
    "Cpu",
    "Doubt",
    "Facts",
    "Hump",
    "Limiting",
    "Measurement",
    "PartUse",
    "Peak",
    "ReceiverGroup",
    "Result",
    "RunVerdict",
    "Settings",
    "Side",
    "SlowPeriod",
    "Throttled",
    "Throughput",
]

SECRETS = ("password", "token")
SATURATED = 0.9  # of a core, that a part used: nearly a whole one
INTERRUPTED = "interrupted"  # why a run is partial that its user ended
Nanoseconds = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a transport is and what it promises.

    Attributes:
        name: what `--transport` takes.
        title: in words.
        lossless: every message that was sent arrives, or sending fails.
        ordered: messages of one sender arrive in the order in which they were sent.
        max_bytes: the largest message.
        received_at: where I_n is taken: in the application after which call, or in a library's thread.
        loop: "native", or "python" where the harness's own cost is microseconds.
        topologies: those that it can serve.
        waits: "block" (asleep in the kernel), "poll" (spinning), or both.
        broker: the product's server that stands in the middle; None where ours does.
        package: the Python distribution that it needs; None where none.
        extra: latlab's extra that brings the package.
        program: the server's program; None where none is needed.
        debian: the distribution's package that brings the program.
        library: the C client's shared library that is opened at run time, as the linker names it; None where
            none.
        plugin: a shared object of the user's, which latlab's native loops drive.
        access: which of "user", "password", "token", "vhost" and "tls" its client takes.
        driver: the options of its client.
        many: who may be several: "" (one sender, one receiver), "one" (receivers that share the messages),
            "all" (each receiver has every message), "any" (groups of receivers that share).
    """

    name: str
    title: str
    lossless: bool
    ordered: bool
    max_bytes: int
    received_at: str
    loop: str = "python"
    topologies: tuple[str, ...] = ("broker", "direct")
    waits: tuple[str, ...] = ("block",)
    broker: str | None = None
    package: str | None = None
    extra: str | None = None
    program: str | None = None
    debian: str | None = None
    plugin: bool = False
    library: str | None = None
    access: tuple[str, ...] = ()
    driver: tuple[DriverOption, ...] = ()
    many: str = ""

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Facts:
        """Read what a recording kept; of an older one some are missing."""
        values = dict(document)
        for name in ("topologies", "waits", "access"):
            values[name] = tuple(values.get(name, ()))
        values["driver"] = tuple(
            DriverOption(**{**one, "choices": tuple(one["choices"])}) for one in values.get("driver", ())
        )
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is asked for. Times in ns, sizes in bytes.

    Attributes:
        warmup: messages before the measured ones, kept apart.
        load: "max", "rate", "poisson", "bursts", "steps" or "file".
        rate_hz: messages a second of "rate" and "poisson".
        burst: messages a burst; burst_period_ns: from one burst to the next.
        load_file: a market-data file whose timing is replayed; speed: how many times faster.
        batch: messages that the sender hands over at once.
        buffer_bytes: of the transport (socket buffer, ring); None for its own.
        window: M of the overheads.
        sample_every: k; CPU clocks and the broker's times are read at every k-th message.
        cpus: of sender, broker and receiver; -1 for any; None lets the run choose.
        stalls: (message, ns) at which the broker stands still.
        faults: what the broker does wrong to every k-th message ("drop", "repeat", "swap", "damage").
        receiver_delay_ns: what the receiver spends on every message; broker_delay_ns: likewise.
        timeout_s: how long nothing may move before the run is ended as partial.
        drain_s: how long messages may still arrive after the last was sent.
        server: "auto" starts a product's server on loopback; otherwise its address.
        network: "host", or "namespace" for a broker in a network namespace of its own.
        priority: of SCHED_FIFO for the sender (a library's own threads are 1 above it, the broker 2, the
            receiver 3); 0 leaves the scheduling as it is.
        counters: names of auxiliary counters, read while the run goes on.
        broker: HOST:PORT of `latlab messaging broker` on another host; None for one of our own.
        duration_s: about how long to measure, whatever `messages` says; None for that many.
        connect: address of somebody else's program that forwards (to `listen`) or echoes; None for none.
        half: report half the round trip (topology "pingpong").
        user, password, token, vhost: what a server asks for. Password and token are kept in no recording.
        tls: whether the connection is encrypted; tls_ca, tls_cert, tls_key: files of it, None for the
            system's own; tls_unverified: whoever answers is believed.
        driver: options of the transport's client, as text.
        senders, receivers: how many; the senders take turns, so that `rate_hz` is of all together.
        steps: of the load "steps": (messages a second, seconds) one after the other.
        sizes: (bytes, weight) of sizes that are drawn; `size` is the largest. Empty: all have `size`.
        groups: of receivers: each group has every message, and one receiver of the group has it.
    """

    transport: str
    size: int = 64
    messages: int = 10_000
    warmup: int = 0
    topology: str = "broker"
    wait: str = "auto"
    load: str = "max"
    rate_hz: float = 0.0
    burst: int = 1
    burst_period_ns: int = 0
    load_file: str | None = None
    speed: float = 1.0
    batch: int = 1
    buffer_bytes: int | None = None
    window: int = 100
    sample_every: int = 1000
    cpus: tuple[int, int, int] | None = None
    seed: int = 1
    stalls: tuple[tuple[int, int], ...] = ()
    faults: Mapping[str, int] = field(default_factory=dict)
    receiver_delay_ns: int = 0
    broker_delay_ns: int = 0
    timeout_s: float = 10.0
    drain_s: float = 1.0
    server: str = "auto"
    network: str = "host"
    network_rate_bits: float | None = None
    network_delay_ns: int = 0
    network_jitter_ns: int = 0
    network_loss: float = 0.0
    kernel_stamps: bool = False
    half: bool = False
    priority: int = 0
    counters: tuple[str, ...] = ()
    broker: str | None = None
    duration_s: float | None = None
    connect: str | None = None
    listen: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    vhost: str | None = None
    tls: bool = False
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_unverified: bool = False
    driver: Mapping[str, str] = field(default_factory=dict)
    senders: int = 1
    receivers: int = 1
    groups: int = 1
    steps: tuple[tuple[float, float], ...] = ()
    sizes: tuple[tuple[int, float], ...] = ()

    @property
    def total(self) -> int:
        """Messages to send, warm-up included."""
        return self.warmup + self.messages

    def to_json(self, *, secrets: bool = False) -> dict[str, Any]:
        """As a JSON object, which `from_json` reads back; passwords and tokens only with `secrets`."""
        document = asdict(self)
        return document if secrets else {**document, **dict.fromkeys(SECRETS)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Settings:
        """Read what `to_json` wrote; unknown keys of a later version are left aside."""
        known = {f.name for f in fields(cls)}
        values = {key: value for key, value in document.items() if key in known}
        values["counters"] = tuple(values.get("counters", ()))
        values["steps"] = tuple((float(a), float(b)) for a, b in values.get("steps", ()))
        values["sizes"] = tuple((int(a), float(b)) for a, b in values.get("sizes", ()))
        values["stalls"] = tuple((int(a), int(b)) for a, b in values.get("stalls", ()))
        if values.get("cpus") is not None:
            values["cpus"] = tuple(values["cpus"])
        return cls(**values)

    def with_(self, **changes: Any) -> Settings:
        """A copy with some settings changed."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Side:
    """What one loop counted. `errno` is 0 where nothing went wrong."""

    count: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    cpu_ns: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    voluntary_switches: int = 0
    involuntary_switches: int = 0
    errno: int = 0
    error: str | None = None
    waited_ns: int = 0


@dataclass(frozen=True, slots=True)
class PartUse:
    """What the threads of a part got: the busiest one's time on a CPU, and all threads' time without one.

    `cpu` is the core that they are held to; -1 for any.
    """

    busiest_ns: int
    waited_ns: int
    cpu: int = -1


@dataclass(frozen=True, slots=True)
class Throttled:
    """What a CPU quota did to "run" (the parts that are ours) or "broker". `time_ns`: summed over CPUs."""

    who: str
    quota: str
    count: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Measurement:
    """A run's own words, before anybody draws conclusions. Times in ns since the first intended message.

    Attributes:
        sent_ns: O_n by message, shape (total,); messages never sent are -1 … as is
        received_ns: I_n of one that never arrived.
        intended_ns: when each message was due; None for a load of "max".
        kernel_ns: when the kernel received it; -1 where it didn't say; None where it wasn't asked.
        sender_samples: shape (k, 3): message, ns, CPU ns.
        receiver_samples: shape (k, 5): message, ns, CPU ns, ns inside a broker of ours, the broker's CPU ns.
        broker_cpu_ns: None where nobody could read it.
        process_cpu_ns: of all processes of the run, as the system counts them.
        foreign_cpu_ns: that everybody else on this machine used meanwhile; None where unknown.
        network_bytes: (sent, received) by the loopback or namespace device meanwhile; None where none is.
        bytes_per_message: memory that the measurement took.
        partial: why the run ended before its end; None where it didn't.
        stalls_ns: (message, from, to) of every planted stall, as the broker really made it.
        counters: (messages received, ns, value) of every reading of an auxiliary counter, by its name.
        idle: how the machine's idle CPUs sleep (driver, governor), and which part of the time they did.
        notes: what the reader should know.
        parts: what the threads of "sender", "broker", "receiver" and "library" got; without those unknown.
        looks: by name ("at_ns", the parts, "throttled", "stopped"), what was read at every look: how long
            each part had waited for a CPU by then, a quota had stopped it, and whether one stood still.
        throttled: the quotas that stopped something meanwhile.
        stolen_ns: that the hypervisor had the CPUs for others.
        cpus: of the machine; 0 where it isn't known.
        confirmed_ns: by message, when its sender learned that the server has it; -1: never. None where the
            client asks for no confirmation.
        deliveries_ns: of several groups of receivers, when each group had each message; else empty.
            `received_ns` is then when the last group had it.
        senders, receivers: what each process counted, where there are several.
    """

    settings: Settings
    facts: Facts
    sent_ns: Nanoseconds
    received_ns: Nanoseconds
    intended_ns: Nanoseconds | None
    kernel_ns: Nanoseconds | None
    sender: Side
    receiver: Side
    sender_samples: Nanoseconds
    receiver_samples: Nanoseconds
    broker_cpu_ns: int | None
    process_cpu_ns: int
    foreign_cpu_ns: int | None
    elapsed_ns: int
    network_bytes: tuple[int, int] | None
    ticks_hz: float
    harness_ns: tuple[float, float, float]
    bytes_per_message: float
    locked: bool
    wait: str
    partial: str | None = None
    stalls_ns: tuple[tuple[int, int, int], ...] = ()
    counters: Mapping[str, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)
    idle: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    parts: Mapping[str, PartUse] = field(default_factory=dict)
    looks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    throttled: tuple[Throttled, ...] = ()
    stolen_ns: int = 0
    cpus: int = 0
    confirmed_ns: Nanoseconds | None = None
    deliveries_ns: tuple[Nanoseconds, ...] = ()
    senders: tuple[Side, ...] = ()
    receivers: tuple[Side, ...] = ()


@dataclass(frozen=True, slots=True)
class Throughput:
    """Messages and bytes per second: over the whole run, and over windows of M messages."""

    messages_per_s: float | None
    bytes_per_s: float | None
    window: int
    windows: Summary | None
    undefined: int


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU ns per measured message of each part; `other` is what the parts leave of the total."""

    sender: float | None
    broker: float | None
    receiver: float | None
    total: float | None
    other: float | None
    foreign: float | None


@dataclass(frozen=True, slots=True)
class Counter:
    """An auxiliary counter over the run. `per_s`: between neighbouring readings; None for fewer than two."""

    total: int
    per_message: float | None
    per_s: Summary | None


@dataclass(frozen=True, slots=True)
class Hump:
    """A mode of the latencies."""

    at_ns: float
    weight: float


@dataclass(frozen=True, slots=True)
class Peak:
    """Messages close together that stand out. `where`: "start", "end", "load change" or "middle".

    `cause`: "planted stall", "standstill", "stopped", "quota", "sender late", or a part that waited for a
    CPU; None where nothing that was watched explains it.
    """

    first: int
    last: int
    messages: int
    max_ns: int
    where: str
    cause: str | None = None


class Limiting(StrEnum):
    """What limits a run."""

    NOTHING = "nothing"  # the load is below what it takes
    PART = "part"  # one part, or several, use a whole core each
    CORE = "core"  # parts that share a core use all of it
    MACHINE = "machine"  # everything together uses all cores
    QUOTA = "quota"
    ROUND_TRIP = "round trip"  # one message at a time
    ELSEWHERE = "elsewhere"  # neither end does: a broker or a line that can't be watched
    ASLEEP = "asleep"  # no part is busy: they wait for one another, or for a disk
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SlowPeriod:
    """Slow messages at a period. `every`: in messages, None where it is one of time alone; `late_ns`: by how
    much they are slower than the typical one; `seen`: how many there were."""

    every: int | None
    time_ns: int
    late_ns: float
    seen: int


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why the figures can't be trusted: "clock", "nothing", "others", "hypervisor", "standstill", "quota" or
    "rising".

    `amount`: of others, the CPUs that they used on average; of a standstill, its seconds; of a quota, the
    share of the time.
    """

    kind: str
    amount: float | None = None
    who: str = ""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """What was measured, in one finding.

    Attributes:
        limiting: what limits. parts: which ones of "sender", "broker", "receiver", "library" it is about.
        shares: the share of a core that each part's busiest thread used; without those unknown.
        why: of UNKNOWN, what is missing: "short", "poll" or "unsure".
        doubts: why the run isn't trustworthy; empty where it is.
        period: in the slow messages; None where none is sure.
    """

    limiting: Limiting
    parts: tuple[str, ...] = ()
    shares: Mapping[str, float] = field(default_factory=dict)
    why: str = ""
    doubts: tuple[Doubt, ...] = ()
    period: SlowPeriod | None = None


@dataclass(frozen=True, slots=True)
class ReceiverGroup:
    """What a group of receivers had: `received` by each of them, `latency` from the intended time if any."""

    received: tuple[int, ...]
    lost: int
    latency: Summary | None


@dataclass(frozen=True, slots=True)
class Result:
    """What a run means. None where a value is not defined.

    Attributes:
        stalls_ns: (message, ns) of every planted stall, as long as the broker really made it.
        humps_unsure: whether the messages are too few to tell if there are more humps.
        confirm_latency: from a message's sending until its sender learned that the server has it.
        unconfirmed: messages of which it never did, where confirmations were asked for.
        groups: of several receivers; `latency` above is then until the last group had a message.
    """

    settings: Settings
    facts: Facts
    wait: str
    sent: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    corrupted: int
    warmup: Summary | None
    latency: Summary | None
    intended_latency: Summary | None
    sending_overhead: Summary | None
    receiving_overhead: Summary | None
    sending_throughput: Throughput
    receiving_throughput: Throughput
    wire_to_kernel: Summary | None
    kernel_to_application: Summary | None
    broker_stay: Summary | None
    cpu: Cpu
    cpu_windows: Mapping[str, Summary]
    humps: tuple[Hump, ...]
    humps_p_value: float | None
    humps_unsure: bool
    peaks: tuple[Peak, ...]
    stability: str
    drift: float | None
    signs: Mapping[str, int]
    identity_violations: int
    clock_steps: int
    harness_ns: tuple[float, float, float]
    near_harness: bool
    page_faults: int
    sleeps_per_message: float
    network_bytes: tuple[int, int] | None
    bytes_per_message: float
    partial: str | None
    counters: Mapping[str, Counter]
    idle: Mapping[str, Any]
    stalls_ns: tuple[tuple[int, int], ...]
    notes: tuple[str, ...]
    verdict: RunVerdict
    confirm_latency: Summary | None = None
    unconfirmed: int = 0
    groups: tuple[ReceiverGroup, ...] = ()
