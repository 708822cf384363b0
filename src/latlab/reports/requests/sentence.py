"""What makes a server's slow requests slow, in a sentence, and the percentiles."""

from __future__ import annotations

from typing import cast

from latlab.model.evidence.requests import HELD_BY, RequestsDoubt, TailPlace
from latlab.model.evidence.said import kind_of
from latlab.model.requests import PartKind, RequestKind, Requests, TailAnswer
from latlab.words import count, duration, share

__all__ = ["GROUPS", "NAMED", "SAYS", "at_least_of", "finding"]

#: How each part is called.
SAYS = {
    "receive-queue": "waiting in the receive queue",
    "thread": "waiting for a thread",
    "running": "running",
    "runnable": "runnable without a CPU",
    "lock": "blocked on a lock",
    "disk": "on the disk",
    "process": "waiting for another process",
    "fault": "in page faults",
    "interrupt": "interrupted",
    "timer": "waiting for a timer",
    "send": "being sent",
    "unexplained": "unexplained",
}
_NEARLY_ALL = 0.8
_AT_WORK = ("running", "runnable")
_BEHIND = 0.05  # of the difference
#: Percentiles, and of how many requests each is told at least: of fewer it is the longest.
NAMED = (("p50", "p50_ns", 0), ("p99", "p99_ns", 100), ("p99.9", "p999_ns", 1000))


def finding(found: Requests) -> str:
    """What makes the slow requests slow, where that holds, and the percentiles."""
    doubts = {kind_of(one): one for one in found.distrust}
    if not found.requests + found.still_open and RequestsDoubt.UNENDED in doubts:
        return f"No request of which it is known when its answer ends: {doubts[RequestsDoubt.UNENDED]}."
    if not found.requests + found.still_open and RequestsDoubt.ASKS in doubts:
        return f"No requests seen: {doubts[RequestsDoubt.ASKS]}."
    if not found.requests + found.still_open:
        return "No requests seen: the program received none through a socket while it was observed."
    named = [one for one in NAMED if found.requests >= one[2]]
    named += [] if named == list(NAMED) else [("max", "max_ns", 0)]
    whole = f"{', '.join(_bounded(found, name, field) for name, field, _ in named)}."
    said = found.answer
    if said.withheld:
        return f"{whole} Cannot tell what makes the slow requests slow: {said.withheld}{_nearest(found)}."
    behind = f", {share(said.behind, digits=0)} of it {_BEHINDS.get(said.kind, _WAITS)}"
    counts = f"{said.slow} of these {said.of_slow}, and {said.median} of {said.of_median}"
    return (
        f"{GROUPS[said.group].format(said.of_slow)} take {duration(said.extra_ns)} longer than the median "
        f"ones, and spend {share(min(1.0, said.share), digits=0)} of that {_part(said.kind, _place(said))}"
        f"{behind if said.behind > _BEHIND else ''}{_who(said)}. So do {counts} median ones. {whole}"
    )


#: Of which requests an answer tells.
GROUPS = {
    "hundredth": "The slowest hundredth of the requests",
    "p99.9": "The requests around p99.9",
    "slowest": "The {} slowest requests",
}
_WAITS = "behind another that does so"
_BEHINDS = {"running": "preempted, or behind another that does so"}


def _place(said: TailAnswer) -> str:
    """Where, with how much of the difference that is, where it isn't nearly all of the part."""
    if said.kind == "lock" and said.holder:  # who had it follows
        return said.where.partition(HELD_BY)[0]
    if said.ahead:
        return f"{said.where}, {count(said.ahead)} of them at the median"
    mostly = said.where and 0 < said.where_share < _NEARLY_ALL * said.share
    return f"mostly {said.where}, {share(said.where_share, digits=0)}" if mostly else said.where


def _part(kind: PartKind, where: str) -> str:
    """A part and its place, in a sentence."""
    if where == TailPlace.STOPPED.value:
        return where
    return f"{SAYS[kind]} ({where})" if where else SAYS[kind]


def _who(said: TailAnswer) -> str:
    """What those did that were waited for: who had the lock, the other process."""
    kind, _, where = said.holder.partition(" ")
    if not kind:
        return ""
    does = _part(cast("PartKind", kind), where[1:-1])
    if kind == "process" and said.further:
        last, _, there = said.further.partition(" ")
        does += f", which was {_part(cast('PartKind', last), there[1:-1])}"
    if said.kind == "process":
        return f", which was {does}"
    if kind == "running" and where:
        return f", held by {where[1:-1]}, which was running"
    if kind in _AT_WORK and said.ran:
        return f", held by {said.ran}, which was {does}"
    return f", whose holder was {does}"


def _bounded(found: Requests | RequestKind, name: str, field: str) -> str:
    """A percentile, as at least so much where requests that are still open make it that."""
    return f"{name} {at_least_of(found, field)}".strip()


def at_least_of(found: Requests | RequestKind, field: str) -> str:
    """A percentile by its field, as a lower bound where it is one."""
    return f"{'≥ ' if field in found.at_least else ''}{duration(getattr(found, field))}"


def _nearest(found: Requests) -> str:
    """The parts that make the difference, where no single one does."""
    said = [f"{SAYS[kind]} {share(part, digits=0)}" for kind, part in found.answer.candidates[:3]]
    return f" (of the difference: {', '.join(said)})" if said else ""
