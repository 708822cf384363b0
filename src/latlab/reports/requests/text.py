"""A server's requests on one screen: the finding, percentiles, the tail's parts and the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from latlab.model.evidence.requests import RequestsDoubt
from latlab.model.evidence.said import kind_of
from latlab.model.requests import (
    NOT_ASKED,
    PartKind,
    QuantileForecast,
    RequestKind,
    RequestPart,
    Requests,
    RequestsComparison,
)
from latlab.words import count, duration, number, plural, share, table

__all__ = [
    "FORECAST_COLUMNS",
    "KIND_COLUMNS",
    "PART_COLUMNS",
    "SAYS",
    "SLOW_COLUMNS",
    "common_lines",
    "comparison_lines",
    "counted",
    "finding",
    "forecast_notes",
    "forecast_rows",
    "kind_rows",
    "part_rows",
    "requests_lines",
    "slow_rows",
    "tail_blocks",
]

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
_FRAMING = {
    "resp": "RESP (Redis)",
    "http": "HTTP/1.1",
    "postgresql": "PostgreSQL",
    "lines": "a line each",
    "prefixed": "messages that begin with their length",
    "direction": "not recognised: a request ends where its answer begins",
}
_MOST_LINES = 12  # of kinds
_MOST_TRAITS = 5
_AT_WORK = ("running", "runnable")
_BEHIND = 0.05  # of the difference
_LEAST = 0.005  # share of a part that is worth a line


def finding(found: Requests) -> str:
    """What makes the slow requests slow, where that holds, and the percentiles."""
    doubts = {kind_of(one): one for one in found.distrust}
    if not found.requests + found.still_open and RequestsDoubt.UNENDED in doubts:
        return f"No request of which it is known when its answer ends: {doubts[RequestsDoubt.UNENDED]}."
    if not found.requests + found.still_open and RequestsDoubt.ASKS in doubts:
        return f"No requests seen: {doubts[RequestsDoubt.ASKS]}."
    if not found.requests + found.still_open:
        return "No requests seen: the program received none through a socket while it was observed."
    named = [one for one in _NAMED if found.requests >= one[2]]
    named += [] if named == list(_NAMED) else [("max", "max_ns", 0)]
    whole = f"{', '.join(_bounded(found, name, field) for name, field, _ in named)}."
    said = found.answer
    if said.withheld:
        return f"{whole} Cannot tell what makes the slow requests slow: {said.withheld}{_nearest(found)}."
    where = f" ({said.where})" if said.where else ""
    behind = ", preempted meanwhile, or behind another that does so" if said.behind > _BEHIND else ""
    holder = ""
    if said.holder:
        told = _did(said.holder) if said.kind == "process" else _held(said.holder, said.ran)
        holder = f" {told}"
    counts = f"{said.slow} of {plural(said.of_slow, 'slow request')}, and {said.median} of {said.of_median}"
    return (
        f"The slow requests take {duration(said.extra_ns)} longer than the median ones, and spend "
        f"{share(min(1.0, said.share), digits=0)} of that {SAYS[said.kind]}{where}{behind}: so do {counts} "
        f"median ones.{holder} {whole}"
    )


def _did(holder: str) -> str:
    """What the process did that was waited for."""
    kind, space, where = holder.partition(" ")
    return f"That process was {SAYS[cast('PartKind', kind)]}{space}{where} meanwhile."


def _held(holder: str, ran: str) -> str:
    """Who held the lock and in which function, where it ran or was ready to; else what it waited for."""
    kind, space, where = holder.partition(" ")
    if kind == "running" and where:
        return f"The lock was held by {where[1:-1]}, which was running meanwhile."
    who = f"The lock was held by {ran}, which was" if kind in _AT_WORK and ran else "Who held the lock was"
    return f"{who} {SAYS[cast('PartKind', kind)]}{space}{where} meanwhile."


_CHANGES = {
    "lock": "holding {} half as long",
    "function": "{} 20 % faster",
    "worker": "one more worker",
    "cpu": "one more CPU",
}
FORECAST_COLUMNS = ("change", "p50", "p99", "p99.9")


def forecast_rows(found: Requests) -> list[tuple[str, ...]]:
    """What is seen, and each change with its quantiles and their intervals."""
    told = [one for one in found.forecasts if one.quantiles]
    if not told:
        return []
    rows = [("unchanged, as seen", *(duration(one.seen_ns) for one in told[0].quantiles))]
    rows.append((
        "unchanged, simulated",
        *(duration(one.unchanged_ns) for one in told[0].quantiles),
    ))  # fmt: skip
    for one in told:
        cells = ("–" if each.withheld else _interval(each) for each in one.quantiles)
        rows.append((_CHANGES[one.change].format(one.name), *cells))
    return rows


def _interval(one: QuantileForecast) -> str:
    return f"{duration(one.ns)} ({duration(one.low_ns)} to {duration(one.high_ns)})"


def forecast_notes(found: Requests) -> list[str]:
    """Why something isn't forecast."""
    notes = []
    if found.forecasts_withheld and found.forecasts_withheld != NOT_ASKED:
        notes.append(f"What a change would buy isn't forecast: {found.forecasts_withheld}.")
    notes += [
        f"Not forecast for {_CHANGES[one.change].format(one.name)}: {one.withheld}."
        for one in found.forecasts
        if one.withheld
    ]
    told = next((one for one in found.forecasts if one.quantiles), None)
    if told is not None:
        notes += [f"{one.name} isn't forecast: {one.withheld}." for one in told.quantiles if one.withheld]
    return notes


def common_lines(found: Requests) -> list[str]:
    """What the slow requests have in common that median ones have not, a line each."""
    return [
        f"{one.what}: {one.value}, in {one.slow} of {plural(one.of_slow, 'slow request')} and "
        f"{one.median} of {one.of_median} median ones (p = {one.p_value:.1g})"
        for one in found.answer.common[:_MOST_TRAITS]
    ]


#: Percentiles, and of how many requests each is told at least: of fewer it is the longest.
_NAMED = (("p50", "p50_ns", 0), ("p99", "p99_ns", 100), ("p99.9", "p999_ns", 1000))


def _bounded(found: Requests | RequestKind, name: str, field: str) -> str:
    """A percentile, as at least so much where requests that are still open make it that."""
    return f"{name} {_at_least(found, field)}".strip()


def _at_least(found: Requests | RequestKind, field: str) -> str:
    return f"{'≥ ' if field in found.at_least else ''}{duration(getattr(found, field))}"


def _nearest(found: Requests) -> str:
    """The parts that make the difference, where no single one does."""
    said = [f"{SAYS[kind]} {share(part, digits=0)}" for kind, part in found.answer.candidates[:3]]
    return f" (of the difference: {', '.join(said)})" if said else ""


def counted(found: Requests) -> list[str]:
    """How many, how they were told apart, and what isn't known of that."""
    sampled = found.sampled_share < 1
    asked = f"{plural(found.requests, 'request')} on {plural(found.connections, 'connection')}"
    rate = (
        f"{'at least ' if found.uncounted else 'about ' if sampled else ''}{number(found.rate_hz)} a second"
    )
    lines = [f"{asked} in {duration(1e9 * found.seconds)}, {rate}. Framing: {_framing(found)}."]
    if sampled:
        lines.append(
            f"{share(found.sampled_share, digits=0)} of the connections were observed, drawn by chance; "
            "the rate is of all."
        )
    if found.uncounted:
        lines.append(
            f"In {plural(found.uncounted, 'exchange')} more came than was captured: the rest of each counts "
            "as one request. There were more if the client pipelines."
        )
    if found.unasked:
        lines.append(
            f"The server also pushed bytes unasked, {plural(found.unasked, 'time')}: they are left out of "
            "the answers."
        )
    if found.still_open:
        lines.append(
            f"{plural(found.still_open, 'request')} had no answer when the observation ended, the oldest for "
            f"{duration(found.longest_open_ns)}: each counts as at least that long."
        )
    return lines


def _framing(found: Requests) -> str:
    main = _FRAMING[found.framing]
    other = sum(number for name, number in found.framings.items() if name != found.framing)
    return f"{main}; {plural(other, 'request')} otherwise" if other else main


def requests_lines(found: Requests) -> list[str]:
    """The whole screen."""
    lines = [finding(found), ""]
    if not found.requests + found.still_open:
        return lines[:1]
    lines += counted(found)
    lines += ["", table(KIND_COLUMNS, kind_rows(found, _MOST_LINES))]
    lines += [
        "",
        f"Where the slow ones spend it (mean of {plural(found.band, 'request')}), beside the median ones:",
    ]
    lines += [table(PART_COLUMNS, part_rows(found.parts, found.median_parts))]
    common = common_lines(found)
    if common:
        lines += ["", "What the slow ones have in common:", *(f"  {line}" for line in common)]
    rows = forecast_rows(found)
    if rows:
        lines += ["", "What a change would buy, at the same arrivals:", table(FORECAST_COLUMNS, rows)]
    lines += [*([] if rows else [""]), *forecast_notes(found)] if forecast_notes(found) else []
    lines += ["", "The slowest:"]
    lines.append(table(SLOW_COLUMNS, slow_rows(found)))
    return lines


def tail_blocks(found: Requests, styled: bool) -> list[str]:
    """How many there were, and the slow ones' parts: what a diagnosis shows of them."""
    spend = "spends its" if found.band == 1 else "spend their"
    title = f"Where {plural(found.band, 'slow request')} {spend} time, beside the median ones"
    rows = part_rows(found.parts, found.median_parts)
    return [*counted(found), table(PART_COLUMNS, rows, title=title, styled=styled)]


KIND_COLUMNS = ("kind", "requests", "p50", "p99", "p99.9", "max")
PART_COLUMNS = ("part", "where", "slow", "share", "median")
SLOW_COLUMNS = ("latency", "kind", "mostly", "connection")


def kind_rows(found: Requests, most: int) -> list[tuple[str, ...]]:
    """The most frequent kinds, and what the rest of them are pooled in."""
    shown = found.kinds if len(found.kinds) <= most else (*found.kinds[: most - 1], found.kinds[-1])
    return [
        (
            _kind_name(found, one),
            count(one.count),
            *(_at_least(one, field) if one.count >= least else "–" for _, field, least in _NAMED),
            _at_least(one, "max_ns"),
        )
        for one in shown
    ]


def _kind_name(found: Requests, kind: RequestKind) -> str:
    pooled = found.pooled_kinds and kind is found.kinds[-1]
    return f"{kind.name} ({plural(found.pooled_kinds, 'kind')})" if pooled else kind.name


def part_rows(tail: Sequence[RequestPart], median: Sequence[RequestPart]) -> list[tuple[str | None, ...]]:
    """The parts of the slow ones that are worth a line, each beside the median ones'."""
    usual = {(part.kind, part.where): part for part in median}
    rows: list[tuple[str | None, ...]] = []
    for part in tail:
        if part.share < _LEAST:
            continue
        other = usual.get((part.kind, part.where))
        rows.append((
            SAYS[part.kind], part.where or None, duration(part.ns), share(part.share),
            duration(other.ns) if other is not None else "0 ns",
        ))  # fmt: skip
    return rows


def slow_rows(found: Requests) -> list[tuple[str, ...]]:
    """The slowest, each with its main part."""
    return [
        (f"≥ {duration(one.ns)}" if one.still_open else duration(one.ns), one.kind, _mostly(one.parts),
         one.connection)
        for one in found.slowest
    ]  # fmt: skip


def _mostly(parts: Sequence[RequestPart]) -> str:
    shares: dict[PartKind, float] = {}
    for part in parts:
        shares[part.kind] = shares.get(part.kind, 0.0) + part.share
    most = max(shares, key=lambda kind: shares[kind], default=None)
    return f"{SAYS[most]} {share(shares[most], digits=0)}" if most is not None else ""


_VERDICTS = {
    "slower": "The requests got slower.",
    "faster": "The requests got faster.",
    "mixed": "Some quantiles got slower, others faster.",
    "equivalent": "No quantile changed by as much as matters.",
    "inconclusive": "No verdict.",
}


def comparison_lines(found: RequestsComparison) -> list[str]:
    """The verdict, and each quantile's change with its reason."""
    rows = [
        (one.name, duration(one.before_ns), duration(one.after_ns), share(one.effect, signed=True),
         "–" if one.low is None or one.high is None
         else f"{share(one.low, signed=True)} to {share(one.high, signed=True)}", one.verdict)
        for one in found.changes
    ]  # fmt: skip
    reasons = dict.fromkeys(f"{one.name}: {one.why}" for one in found.changes)
    if len({one.why for one in found.changes}) == 1:
        reasons = dict.fromkeys(one.why for one in found.changes)
    return [
        f"{_VERDICTS[found.verdict]} {plural(found.pairs, 'pair')} of recordings.", "",
        table(("quantile", "before", "after", "change", "interval", "verdict"), rows), "", *reasons,
    ]  # fmt: skip
