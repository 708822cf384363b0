"""A server's requests on one screen: the finding, percentiles, the tail's parts and the slowest."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.model.requests import RequestPart, Requests
from latlab.words import count, duration, plural, share, table

__all__ = ["finding", "requests_lines"]

_SAYS = {
    "receive-queue": "waiting in the receive queue",
    "thread": "waiting for a thread",
    "running": "running",
    "runnable": "runnable without a CPU",
    "lock": "blocked on a lock",
    "disk": "blocked on the disk",
    "process": "waiting for another process",
    "fault": "waiting for a page",
    "interrupt": "interrupted",
    "timer": "waiting for a timer",
    "send": "being sent",
    "unexplained": "unexplained",
}
_FRAMING = {
    "resp": "RESP (Redis)",
    "http": "HTTP/1.1",
    "postgresql": "PostgreSQL",
    "direction": "not recognised: a request ends where its answer begins",
}
_LEAST = 0.005  # share of a part that is worth a line


def finding(found: Requests) -> str:
    """The finding in a sentence or two."""
    if not found.requests:
        return "No requests seen: the program received none through a socket while it was observed."
    whole = f"p50 {duration(found.p50_ns)}, p99 {duration(found.p99_ns)}, p99.9 {duration(found.p999_ns)}"
    if not found.parts:
        return f"{whole}."
    first = found.parts[0]
    where = f" ({first.where})" if first.where else ""
    spent = f"{share(first.share, digits=0)} of their time {_SAYS[first.kind]}{where}"
    return f"The slow requests spend {spent}. {whole}."


def requests_lines(found: Requests) -> list[str]:
    """The whole screen."""
    lines = [finding(found), ""]
    if not found.requests:
        return lines[:1]
    asked = f"{plural(found.requests, 'request')} on {plural(found.connections, 'connection')}"
    how = _FRAMING[found.framing]
    lines.append(f"{asked} in {found.seconds:.3g} s, {count(found.rate_hz)} a second. Framing: {how}.")
    lines += ["", table(
        ("kind", "requests", "p50", "p99", "p99.9", "max"),
        [
            (k.name, count(k.count), *(duration(v) for v in (k.p50_ns, k.p99_ns, k.p999_ns, k.max_ns)))
            for k in found.kinds[:12]
        ],
    )]  # fmt: skip
    lines += [
        "",
        f"Where the slow ones spend it (mean of {plural(found.band, 'request')}), beside the median ones:",
    ]
    lines += [_parts_table(found.parts, found.median_parts), "", "The slowest:"]
    lines.append(table(
        ("latency", "kind", "mostly", "connection"),
        [(duration(one.ns), one.kind, _mostly(one.parts), one.connection) for one in found.slowest],
    ))  # fmt: skip
    return lines


def _parts_table(tail: Sequence[RequestPart], median: Sequence[RequestPart]) -> str:
    usual = {(part.kind, part.where): part for part in median}
    rows = []
    for part in tail:
        if part.share < _LEAST:
            continue
        other = usual.get((part.kind, part.where))
        rows.append((
            _SAYS[part.kind], part.where or None, duration(part.ns), share(part.share),
            duration(other.ns) if other is not None else "0 ns",
        ))  # fmt: skip
    return table(("part", "where", "slow", "share", "median"), rows)


def _mostly(parts: Sequence[RequestPart]) -> str:
    return f"{_SAYS[parts[0].kind]} {share(parts[0].share, digits=0)}" if parts else ""
