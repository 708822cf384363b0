"""A server's requests on one screen: the finding, percentiles, the tail's parts and the slowest."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.model.evidence.requests import TailPlace
from latlab.model.requests import (
    NOT_ASKED,
    CommonTrait,
    PartKind,
    Parts,
    QuantileForecast,
    RequestKind,
    RequestPart,
    Requests,
    RequestsComparison,
)
from latlab.reports.requests.sentence import GROUPS, NAMED, SAYS, at_least_of, finding
from latlab.words import count, duration, number, plural, share, table

__all__ = [
    "FORECAST_COLUMNS",
    "KIND_COLUMNS",
    "PART_COLUMNS",
    "SLOW_COLUMNS",
    "common_lines",
    "comparison_lines",
    "counted",
    "forecast_notes",
    "forecast_rows",
    "kind_rows",
    "part_rows",
    "requests_lines",
    "slow_parts",
    "slow_rows",
    "spent_title",
    "tail_blocks",
]

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
_SMALL, _POOLED = 0.03, 3  # share of a part, below which so many of a kind are one line
_STOPPED = ("stopped", TailPlace.STOPPED.value.removeprefix("stopped "))
_LEAST = 0.005  # share of a part that is worth a line


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


def simulated(found: Requests) -> str:
    """Of which requests, where not of all of them: their percentiles may be others than those of all."""
    most = max((one.simulated for one in found.forecasts), default=0)
    return f" of the first {count(most)} requests" if 0 < most < found.requests else ""


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
        f"{one.what}: {one.value}, in {one.slow} of {_longest(found, one)} and "
        f"{one.median} of {one.of_median} median ones (p = {one.p_value:.1g})"
        for one in found.answer.common[:_MOST_TRAITS]
    ]


def _longest(found: Requests, one: CommonTrait) -> str:
    """Those that decide what the slow ones have in common: all of them, or the longest."""
    if one.of_slow < found.answer.of_slow:
        return f"the {one.of_slow} longest of them"
    return plural(one.of_slow, "slow request")


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
        f"{spent_title(found)}:",
    ]
    lines += [table(PART_COLUMNS, part_rows(slow_parts(found), found.median_parts))]
    common = common_lines(found)
    if common:
        lines += ["", "What the slow ones have in common:", *(f"  {line}" for line in common)]
    rows = forecast_rows(found)
    if rows:
        lines += [
            "",
            f"What a change would buy, at the same arrivals{simulated(found)}:",
            table(FORECAST_COLUMNS, rows),
        ]
    lines += [*([] if rows else [""]), *forecast_notes(found)] if forecast_notes(found) else []
    lines += ["", "The slowest:"]
    lines.append(table(SLOW_COLUMNS, slow_rows(found)))
    return lines


def tail_blocks(found: Requests, styled: bool) -> list[str]:
    """How many there were, and the slow ones' parts: what a diagnosis shows of them."""
    rows = part_rows(slow_parts(found), found.median_parts)
    return [*counted(found), table(PART_COLUMNS, rows, title=spent_title(found), styled=styled)]


def slow_parts(found: Requests) -> Parts:
    """Of the requests that the finding tells of."""
    return found.answer.parts or found.parts


def spent_title(found: Requests) -> str:
    """Of the table of these parts."""
    told = found.answer
    count_of = told.of_slow if told.parts else found.band
    group = told.group if told.parts else "slowest"
    if count_of == 1:
        return "Where the slowest request spends its time, beside the median ones"
    which = GROUPS[group].format(count_of).replace("The", "the", 1)
    left = f"; {told.left_out} late by latlab left out" if told.parts and told.left_out else ""
    number_of = f" ({count_of}{left})" if group != "slowest" or left else ""
    return f"Where {which}{number_of} spend their time, beside the median ones"


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
            *(at_least_of(one, field) if one.count >= least else "–" for _, field, least in NAMED),
            at_least_of(one, "max_ns"),
        )
        for one in shown
    ]


def _kind_name(found: Requests, kind: RequestKind) -> str:
    pooled = found.pooled_kinds and kind is found.kinds[-1]
    return f"{kind.name} ({plural(found.pooled_kinds, 'kind')})" if pooled else kind.name


def part_rows(tail: Sequence[RequestPart], median: Sequence[RequestPart]) -> list[tuple[str | None, ...]]:
    """The parts of the slow ones that are worth a line, each beside the median ones'."""
    usual = {(part.kind, part.where): part.ns for part in median}
    small: dict[PartKind, list[RequestPart]] = {}
    for part in tail:
        if part.share < _SMALL:
            small.setdefault(part.kind, []).append(part)
    pooled = {kind: each for kind, each in small.items() if len(each) >= _POOLED}
    rows = [
        (part.kind, part.where, part.ns, part.share, usual.get((part.kind, part.where), 0.0))
        for part in tail
        if part.share >= _LEAST and part not in pooled.get(part.kind, ())
    ]
    rows += [
        (
            kind, f"{len(each)} others", sum(one.ns for one in each), sum(one.share for one in each),
            sum(usual.get((kind, one.where), 0.0) for one in each),
        )
        for kind, each in pooled.items()
    ]  # fmt: skip
    return [
        (
            *(_STOPPED if where == TailPlace.STOPPED.value else (SAYS[kind], where or None)),
            duration(ns), share(part), duration(median_ns),
        )
        for kind, where, ns, part, median_ns in sorted(rows, key=lambda row: -row[2])
        if part >= _LEAST
    ]  # fmt: skip


def slow_rows(found: Requests) -> list[tuple[str, ...]]:
    """The slowest, each with its main part."""
    return [
        (f"≥ {duration(one.ns)}" if one.still_open else duration(one.ns), one.kind, _mostly(one.parts),
         one.connection)
        for one in found.slowest
    ]  # fmt: skip


def _mostly(parts: Sequence[RequestPart]) -> str:
    shares: dict[str, float] = {}
    for part in parts:
        # As in the table of the parts: who is stopped waits for no other process.
        says = _STOPPED[0] if part.where == TailPlace.STOPPED.value else SAYS[part.kind]
        shares[says] = shares.get(says, 0.0) + part.share
    most = max(shares, key=lambda says: shares[says], default=None)
    return f"{most} {share(shares[most], digits=0)}" if most is not None else ""


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
