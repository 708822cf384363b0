"""The requests that a server answered, and where the slow ones spent their time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

__all__ = [
    "NOT_ASKED",
    "CommonTrait",
    "PartKind",
    "QuantileChange",
    "QuantileForecast",
    "RequestForecast",
    "RequestKind",
    "RequestPart",
    "RequestSpan",
    "RequestWake",
    "Requests",
    "RequestsComparison",
    "SlowRequest",
    "TailAnswer",
    "TimeSlice",
]

SCHEMA = 1  # of the JSON documents; versions: 1, the present one

#: `Requests.forecasts_withheld` where nobody asked.
NOT_ASKED = "it was not asked for"
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
        kind: service, a wait, or what else its time went to.
    """

    kind: PartKind
    where: str
    ns: float
    share: float


Parts = tuple[RequestPart, ...]


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Requests alike: of a command, a URL, a query's fingerprint; "request" where none is recognised.

    Attributes:
        still_open: of its requests, those that were not answered while it was observed.
        at_least: the fields of those of its percentiles that are lower bounds for that.
        name: what was asked for.
        count: of requests.
        p50_ns, p99_ns, p999_ns, max_ns: of theirs.
    """

    name: str
    count: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    still_open: int = 0
    at_least: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestSpan:
    """A stretch of a request's time, from its arrival: what the thread did that was to serve it.

    Attributes:
        thread: its name and number; "" where none was known.
        kind, where: as of a part.
        from_ns, until_ns: from the request's arrival.
    """

    thread: str
    kind: PartKind
    where: str
    from_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class RequestWake:
    """A wake-up of a thread that served a request, at a time from its arrival.

    Attributes:
        at_ns: from the request's arrival.
        waker: who ended the wait: a thread and its number.
        thread: whose.
    """

    at_ns: int
    waker: str
    thread: str


@dataclass(frozen=True, slots=True)
class SlowRequest:
    """One of the slowest.

    Attributes:
        began_ns: its arrival, CLOCK_MONOTONIC.
        connection: the socket, as far as it is known.
        still_open: it was not answered while it was observed: it took at least `ns`.
        timeline: its parts in their order; short ones of a long timeline are left out.
        ns: from its arrival to the last byte of its answer.
        kind: what was asked for.
        parts: where its time went.
        wakes: who woke the threads that worked on it.
    """

    ns: int
    began_ns: int
    connection: str
    kind: str
    parts: Parts
    still_open: bool = False
    timeline: tuple[RequestSpan, ...] = ()
    wakes: tuple[RequestWake, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """The requests that arrived in one stretch of time, from `began_s` after the observation's beginning.

    Attributes:
        began_s: its start, in seconds from that of the observation.
        requests: that arrived in it.
        p50_ns, p99_ns, max_ns: of these.
    """

    began_s: float
    requests: int
    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class CommonTrait:
    """Something that slow requests have and median ones have not.

    Attributes:
        what: "kind", "connection", "core", "answer's size", "request's size", "lock", "disk", "period".
        value: which, as "KEYS", "CPU 1", "1 MB and more", "every 230 ms".
        slow, of_slow, median, of_median: how many requests have it, of how many.
        p_value: Fisher's exact test, one-sided, times the number of traits that were looked at.
        amount: of a size, bytes; of a period, ns; else 0.
    """

    what: str
    value: str
    slow: int
    of_slow: int
    median: int
    of_median: int
    p_value: float
    amount: float = 0.0


@dataclass(frozen=True, slots=True)
class TailAnswer:
    """What the slow requests spend their time on that the median ones don't; said only where it holds.

    Attributes:
        withheld: why nothing is said; "" where it is.
        kind, where: the part that makes most of the difference.
        extra_ns: by how much slow requests are longer than median ones, on average; share: this part's of it.
        slow, of_slow: the slow requests in which this part alone is most of the difference, and all of them.
        median, of_median: the same of the median ones.
        p_value: that chance alone puts this many among the slow ones (Fisher's exact test, one-sided).
        candidates: the parts of the difference, the largest first, with their shares.
        behind: of the share, what they spent waiting for somebody who did this: the thread that reads or
            works, the holder of a lock.
        holder: of a lock, what its holders mostly did meanwhile; of another process, what its threads did;
            "" where that is nothing in particular, or wasn't seen.
        ran: of a lock, where its holders ran meanwhile, for most of the time that they ran; "" likewise.
        further: where those waited for another process, too, what that was late by; "" likewise.
        common: what the slow requests have in common that median ones have not, the surest first.
        where_share: of the difference, what `where` makes of it.
        group: which requests are the slow ones here: the slowest "hundredth", those around "p99.9", or the
            "slowest" few, of less than 800 requests.
        parts: of these, as `Requests.parts` is of those of its band.
        left_out: requests of the group that are late by latlab for the most: they decide nothing.
        ahead: where they wait behind earlier ones, behind how many at the median.
    """

    withheld: str = ""
    kind: PartKind = "unexplained"
    where: str = ""
    extra_ns: float = 0.0
    share: float = 0.0
    slow: int = 0
    of_slow: int = 0
    median: int = 0
    of_median: int = 0
    p_value: float = 1.0
    candidates: tuple[tuple[PartKind, float], ...] = ()
    behind: float = 0.0
    holder: str = ""
    ran: str = ""
    common: tuple[CommonTrait, ...] = ()
    further: str = ""
    where_share: float = 0.0
    group: Literal["hundredth", "p99.9", "slowest"] = "hundredth"
    parts: Parts = ()
    left_out: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class QuantileForecast:
    """A quantile of the latency with a change made, at the same arrivals.

    Attributes:
        name: as "p99". seen_ns: what was seen of the simulated requests; unchanged_ns: what their simulation
            gives without the change.
        ns: with it; low_ns, high_ns: over the simulations that fit, and over halves of the time.
        withheld: why it isn't told: then `ns` and its interval are 0.
        seen_ns: as it was observed.
    """

    name: str
    seen_ns: int
    unchanged_ns: int
    ns: int = 0  # as its interval: where it is withheld
    low_ns: int = 0
    high_ns: int = 0
    withheld: str = ""


@dataclass(frozen=True, slots=True)
class RequestForecast:
    """What a change would buy.

    Attributes:
        change: "lock" (held half as long), "function" (20 % faster), "worker" (one more), "cpu" (one more).
        name: which lock or function; "" of the others.
        withheld: why nothing is told; then there are no quantiles.
        quantiles: what it does to each.
        simulated: of how many requests, the first ones; 0 in older recordings.
    """

    change: Literal["lock", "function", "worker", "cpu"]
    name: str
    quantiles: tuple[QuantileForecast, ...] = ()
    withheld: str = ""
    simulated: int = 0


@dataclass(frozen=True, slots=True)
class Requests:
    """What a server's connections showed.

    Attributes:
        requests: that began and ended while it was observed.
        rate_hz: requests a second; where a share of the connections was sampled, of all of them.
        framing: of most requests: "resp", "http", "postgresql", "lines", "prefixed" (by a length of four
            bytes), or "direction": a request ends where its answer begins.
        p50_ns, p99_ns, p999_ns, max_ns: quantiles and the longest, from the arrival in the receive queue
            until the last byte of the answer was sent.
        without_arrival: requests whose arrival wasn't seen; they are counted from when they were read.
        parts: of those around p99.9 (of fewer than ten thousand: of the slowest hundredth).
        median_parts: of those around the median.
        band: how many requests `parts` tells of.
        sampled_share: of the connections, that were observed.
        still_open: requests that had not been answered at the end; each counts as at least this long in all
            percentiles (`latlab.stats.censored`).
        at_least: the fields of those of the percentiles that are lower bounds for that.
        uncounted: exchanges in which more requests may have come than are counted: what was captured of them
            doesn't show it.
        unasked: how often bytes were pushed that belong to no answer; they are left out.
        framings: how many requests were told apart by which framing.
        pooled_kinds: kinds that the last of `kinds`, "other", stands for.
        answer: what makes the slow ones slow.
        over_time: by arrival, in stretches of equal length; those without a request are left out.
        distrust: why this isn't trustworthy; empty when it is.
        began_ns: of the observation, CLOCK_MONOTONIC.
        forecasts: what a change would buy.
        seconds: that were observed.
        connections: that carried a request.
        kinds: the same by what was asked for.
        slowest: requests one by one.
        lost_events: of the kernel's, for want of room.
        longest_open_ns: how long the oldest unanswered request had waited at the end.
        forecasts_withheld: why nothing is told of any change; "" where it is.
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
    parts: Parts
    median_parts: Parts
    band: int
    slowest: tuple[SlowRequest, ...]
    lost_events: int
    sampled_share: float = 1.0
    distrust: tuple[str, ...] = ()
    still_open: int = 0
    longest_open_ns: int = 0
    at_least: tuple[str, ...] = ()
    uncounted: int = 0
    framings: Mapping[str, int] = field(default_factory=dict)
    pooled_kinds: int = 0
    answer: TailAnswer = field(default_factory=lambda: TailAnswer("it was not requested"))
    over_time: tuple[TimeSlice, ...] = ()
    began_ns: int = 0
    forecasts: tuple[RequestForecast, ...] = ()
    forecasts_withheld: str = NOT_ASKED
    unasked: int = 0

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab requests show --json`, schema 1."""
        return {"schema": SCHEMA, **asdict(self), "trustworthy": not self.distrust}


@dataclass(frozen=True, slots=True)
class QuantileChange:
    """A quantile before and after.

    Attributes:
        name: as "p99". before_ns, after_ns: medians over the recordings.
        effect: relative change; low, high: its interval, None where there is none.
        verdict: as `latlab.model.statistics.paired.Verdict`. why: in words.
    """

    name: str
    before_ns: int
    after_ns: int
    effect: float
    low: float | None
    high: float | None
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class RequestsComparison:
    """Two versions of a server, by recordings in pairs.

    Attributes:
        verdict: over all quantiles. pairs: of recordings. needed: without which there is no verdict.
    """

    verdict: str
    pairs: int
    needed: int
    changes: tuple[QuantileChange, ...]

    def to_json(self) -> dict[str, Any]:
        """The machine contract of `latlab requests compare --json`, schema 1."""
        return {"schema": SCHEMA, **asdict(self)}
