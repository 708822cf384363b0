"""The requests that a server answered, and where the slow ones spent their time.

Schema versions of the JSON document: 1, the present one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

__all__ = ["PartKind", "RequestKind", "RequestPart", "Requests", "SlowRequest"]

PartKind = Literal[
    "receive-queue",  # it lay in the socket's queue while the thread that would read it did something else
    "thread",  # it had been read, and waited for a thread
    "running",
    "runnable",  # its thread could run, and had no CPU
    "lock",
    "disk",
    "process",  # another process, a peer, or a stop by a signal
    "fault",
    "interrupt",
    "timer",
    "send",  # from the first byte of the answer to the last
    "unexplained",
]


@dataclass(frozen=True, slots=True)
class RequestPart:
    """A part of a request's time; the parts sum to the whole.

    Attributes:
        where: the thread, lock, file or peer; "" where there is none.
        ns: its mean over the requests that are told of.
        share: of their whole time.
    """

    kind: PartKind
    where: str
    ns: float
    share: float


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests alike: of a command, a URL, a query's fingerprint; "request" where none is recognised."""

    name: str
    count: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """One of the slowest.

    Attributes:
        began_ns: its arrival, CLOCK_MONOTONIC.
        connection: the socket, as far as it is known.
    """

    ns: int
    began_ns: int
    connection: str
    kind: str
    parts: tuple[RequestPart, ...]


@dataclass(frozen=True, slots=True)
class Requests:
    """What a server's connections showed.

    Attributes:
        requests: that began and ended while it was observed.
        rate_hz: requests a second.
        framing: "resp", "http", "postgresql", or "direction": a request ends where its answer begins.
        p50_ns … max_ns: from the arrival in the receive queue until the last byte of the answer was sent.
        without_arrival: requests whose arrival wasn't seen; they are counted from when they were read.
        parts: of those around p99.9 (of fewer than ten thousand: of the slowest hundredth).
        median_parts: of those around the median.
        band: how many requests `parts` tells of.
        distrust: why this isn't trustworthy; empty when it is.
    """

    seconds: float
    requests: int
    rate_hz: float
    connections: int
    framing: str
    p50_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    without_arrival: int
    kinds: tuple[RequestKind, ...]
    parts: tuple[RequestPart, ...]
    median_parts: tuple[RequestPart, ...]
    band: int
    slowest: tuple[SlowRequest, ...]
    lost_events: int
    sampled_share: float = 1.0
    distrust: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab requests show --json`, schema 1."""
        return {"schema": 1, **asdict(self), "trustworthy": not self.distrust}
