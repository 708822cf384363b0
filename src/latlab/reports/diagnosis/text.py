"""The answer of a diagnosis on one screen."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable

from latlab.model.diagnosis.answer import Answer, AnswerComparison, Applied, Budget, Forecast, Interval
from latlab.model.queues.tail import Tail, TailHop
from latlab.reports.diagnosis.threads_text import thread_blocks
from latlab.reports.queues.doubts import doubt_in_words
from latlab.reports.requests.sentence import finding
from latlab.reports.requests.text import tail_blocks
from latlab.stats.quantiles import quantile_name
from latlab.words import count, duration, limit, plural, share, table

__all__ = ["applied_rows", "comparison", "forecast_rows", "in_queue", "tail_rows", "text"]

_BAR = 24
_MOST_PARTS = 8
_MOST_EXEMPLARS = 3  # on one screen; the report has more
_MUCH = 0.25  # of the time around a wait


def text(answer: Answer, *, styled: bool = False, width: int | None = None) -> str:
    """The whole answer.

    Args:
        styled: with colour and box drawing, for a terminal.
        width: in columns; by default the terminal's, at most 110.
    """
    columns = width or min(110, shutil.get_terminal_size((100, 40)).columns)

    def wrapped(line: str, first: str = "", rest: str = "") -> str:
        return textwrap.fill(line, columns, initial_indent=first, subsequent_indent=rest)

    blocks = [wrapped(answer.sentence)]
    if answer.doubts:
        told = [f"{_capital(doubt_in_words(doubt))}." for doubt in answer.doubts]
        blocks.append("\n".join(wrapped(one, "Withheld: ", " " * 10) for one in told))
    if answer.distrust:
        blocks.append("\n".join(wrapped(reason, "Not trustworthy: ", " " * 17) for reason in answer.distrust))
    if answer.losses:
        blocks.append("\n".join(wrapped(f"{loss}.", "Lost: ", " " * 6) for loss in answer.losses))
    if answer.forecasts:
        # The answer to "what would it buy" stands before the tables that carry it.
        blocks.append(
            "\n".join(wrapped(f"{_capital(one.sentence)}.{_labelled(one)}") for one in answer.forecasts)
        )
    if answer.applied is not None:
        blocks += [wrapped(answer.applied.sentence), _applied(answer.applied, styled)]
    blocks.append("\n".join(wrapped(line, "  - ", "    ") for line in answer.evidence))
    if answer.threads is not None:
        blocks += thread_blocks(answer.threads, styled)
        if answer.threads.notes:
            blocks.append("\n".join(wrapped(f"{note}.", "  ! ", "    ") for note in answer.threads.notes))
    if answer.requests is not None:
        blocks += [wrapped(f"Requests: {finding(answer.requests)}"), *tail_blocks(answer.requests, styled)]
    if answer.lines:
        for line in answer.lines:
            if line.budget is not None:
                blocks.append(f"{', '.join(line.stages[:4])}\n{_budget(line.budget, styled)}")
    elif answer.budget is not None:
        blocks.append(_budget(answer.budget, styled))
    if answer.objective is not None:
        blocks.append(_objective(answer))
    if answer.stalls:
        blocks.append("\n".join(wrapped(f"{line}.", "  ! ", "    ") for line in answer.stalls))
    if answer.tail is not None and answer.tail.events:
        blocks.append(_slowest(answer.tail, styled))
    if answer.burst is not None:
        blocks.append(wrapped(f"{_capital(answer.burst)}."))
    for one in answer.forecasts:
        blocks.append(_forecast(one, styled))
        blocks.append("\n".join(wrapped(f"{_capital(said)}.", "  ! ", "    ") for said in one.warnings))
    if answer.floor is not None and answer.floor.sources:
        blocks.append(wrapped(f"Machine noise: {_floor(answer)}."))
    if answer.unknown:
        lines = [wrapped(f"{one.what}  →  {one.command}", "  ? ", "    ") for one in answer.unknown]
        blocks.append("\n".join(["Not measured, and how to measure it:", *lines]))
    blocks.append(
        wrapped(
            "Steps: "
            + ", ".join(
                (f"{step.name} {duration(1e9 * step.seconds)}" if step.seconds else step.name)
                if step.state == "done"
                else f"{step.name} skipped"
                for step in answer.steps
            )
            + "."
        )
    )
    return "\n\n".join(block for block in blocks if block)


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _labelled(forecast: Forecast) -> str:
    if forecast.method == "model":
        return " (By a queue model fitted to the observation: computed, not measured.)"
    if forecast.method == "schedule":
        return " (By a simulation of its threads, for the same work: computed, not measured.)"
    rounds = f"{forecast.rounds} rounds beside the unmodified pipeline"
    return f" (Measured: the stage stubbed, {rounds}; the figures are those rounds', not the observed run's.)"


def _floor(answer: Answer) -> str:
    assert answer.floor is not None
    cpus = ", ".join(map(str, answer.floor.cpus))
    return (
        f"{share(answer.floor.share, digits=2)} of CPU time lost on CPU {cpus}, longest gap "
        f"{duration(answer.floor.worst_ns)}, mostly to {answer.floor.sources[0]}; "
        f"{plural(len(answer.findings), 'setting')} add noise (latlab system check)"
    )


def _budget(budget: Budget, styled: bool) -> str:
    name = "the mean" if budget.quantile is None else quantile_name(budget.quantile)
    of = "events" if budget.quantile is None else "traced events around it"
    shown = [part for part in budget.parts if part.ns > 0][:_MOST_PARTS]
    shown += [part for part in budget.parts if part.kind in ("floor", "unexplained") and part not in shown]
    rest = budget.total_ns - sum(part.ns for part in shown)
    rows = [(str(part.kind), part.where, part.ns) for part in shown]
    if rest > 1e-6 * budget.total_ns:
        rows.append(("all else", "", rest))
    total = max(budget.total_ns, 1e-9)
    return table(
        ("part", "where", "time", "share", ""),
        [[k, w, duration(ns), share(ns / total), "#" * round(_BAR * ns / total)] for k, w, ns in rows],
        title=f"Where {name} of {duration(budget.total_ns)} goes ({budget.events:,} {of})",
        styled=styled,
    )


def _slowest(tail: Tail, styled: bool) -> str:
    columns, rows = tail_rows(tail)
    name = quantile_name(tail.share)
    return table(
        columns,
        rows[:_MOST_EXEMPLARS],
        title=f"The slowest of {tail.beyond:,} traced events beyond {name} (all: latlab queues tail)",
        styled=styled,
    )


def tail_rows(tail: Tail) -> tuple[list[str], list[list[str]]]:
    """The headings and a row for each of the slowest events: its time, where most of it went, and why."""
    rows = []
    for event in tail.events:
        longest = event.longest
        if longest is None:
            continue
        waits = in_queue(longest)
        where = f"waiting in {longest.queue or '?'}" if waits else f"service at {longest.stage}"
        spent = max(longest.waited_ns, longest.served_ns)
        rows.append([duration(event.total_ns), where, duration(spent), _why(longest, waits)])
    return ["latency", "mostly in", "for", "why"], rows


def in_queue(hop: TailHop) -> bool:
    """Whether an event waited longer in front of a stage than the stage took for it."""
    return hop.waited_ns >= hop.served_ns


def _why(hop: TailHop, waits: bool) -> str:
    reasons = []
    if waits and hop.fill:
        filling = (
            ""
            if hop.filling_ns is None
            else f" (queue not empty since {duration(hop.filling_ns)} before it came)"
        )
        reasons.append(f"{count(hop.fill)} events ahead of it{filling}")
    elif waits and hop.fill == 0:
        reasons.append("no event ahead of it in this queue")
    if hop.no_cpu is not None and hop.on_cpu is not None:
        # The kernel's counts are read every 50 ms: they tell of the time around, not of the wait alone.
        if hop.no_cpu >= _MUCH:
            reasons.append(f"{hop.stage} was waiting for a CPU {share(hop.no_cpu)} of that time")
        elif hop.on_cpu >= _MUCH:
            reasons.append(f"{hop.stage} ran {share(hop.on_cpu)} of that time")
        else:
            reasons.append(f"{hop.stage} slept most of that time: it had to be woken")
    return ", ".join(reasons) or "not known"


def _objective(answer: Answer) -> str:
    assert answer.objective is not None
    goal = answer.objective
    name = quantile_name(goal.quantile)
    if goal.reached_ns is None:
        return (
            f"Objective: {name} under {duration(goal.limit_ns)}: not known, no traced event reached the end."
        )
    met = "met" if goal.met else "missed"
    return f"Objective: {name} under {duration(goal.limit_ns)}: {met}, it was {duration(goal.reached_ns)}."


def _forecast(forecast: Forecast, styled: bool) -> str:
    columns, rows = forecast_rows(forecast)
    return table(
        (forecast.stage, *columns),
        rows,
        title=f"If {forecast.stage} were faster ({_takes(forecast)})",
        styled=styled,
    )


def _applied(applied: Applied, styled: bool) -> str:
    columns, rows = applied_rows(applied)
    runs = plural(applied.runs, "run")
    return table(
        columns,
        rows,
        title=f"{applied.stage} made {share(applied.speedup, digits=0)} faster ({runs})",
        styled=styled,
    )


def applied_rows(applied: Applied) -> tuple[list[str], list[list[str]]]:
    """The headings and a row for each quantity: as it was, forecast, measured."""
    rows = []
    for row in applied.rows:
        shown = _count_interval if row.what.endswith("/s") else _spread
        was = "–" if row.before is None else shown(Interval(row.before.value))
        found = "agrees" if row.agrees else "differs"
        rows.append([row.what, was, shown(row.forecast), shown(row.measured), found])
    return ["", "before", "forecast [95 %]", "measured [95 %]", ""], rows


def _count_interval(value: Interval) -> str:
    return _bounded(value, count)


def _takes(forecast: Forecast) -> str:
    if forecast.method == "schedule":
        return f"{duration(forecast.service_ns)} in all"
    return f"its service takes {duration(forecast.service_ns)}"


def forecast_rows(forecast: Forecast) -> tuple[list[str], list[list[str]]]:
    """The headings and rows of a forecast's points; columns that no point has are left out."""
    points = [forecast.baseline, *forecast.points]
    names = ["as it is", *(f"{share(point.speedup or 0, digits=0)} faster" for point in forecast.points)]
    columns: dict[str, list[str]] = {
        "time": [_spread(point.time_ns) for point in points],
        "events/s": [_count(point.rate_hz) for point in points],
        "max events/s": [_count(point.capacity_hz) for point in points],
        "p50": [_spread(point.p50_ns) for point in points],
        "p99": [_spread(point.p99_ns) for point in points],
        "p99.9": [_spread(point.p99_9_ns) for point in points],
        "limits": [_limits(point.limits, forecast) for point in points],
    }
    kept = {name: cells for name, cells in columns.items() if any(cell != "–" for cell in cells)}
    return list(kept), [[name, *(cells[i] for cells in kept.values())] for i, name in enumerate(names)]


def _limits(name: str | None, forecast: Forecast) -> str:
    """Only runs of the demonstration's pipeline name verdicts there; any other stage goes by its name."""
    if name is None:
        return "–"
    return limit(name) if forecast.method == "stub" else name


def _count(value: Interval | None) -> str:
    whole = value is not None and value.low is not None and value.high is not None
    return _bounded(Interval(value.value) if whole and value is not None else value, count)


def _spread(value: Interval | None) -> str:
    return _bounded(value, duration)


def _bounded(value: Interval | None, shown: Callable[[float], str]) -> str:
    """A value with its interval; a bound that is known at one side only as that."""
    if value is None:
        return "–"
    if value.low is not None and value.high is not None:
        return f"{shown(value.value)} [{shown(value.low)}, {shown(value.high)}]"
    return f"{'≥ ' if value.low is not None else '≤ ' if value.high is not None else ''}{shown(value.value)}"


def comparison(found: AnswerComparison) -> str:
    """Two diagnoses beside each other."""

    def shown(value: float, unit: str) -> str:
        if unit == "share":
            return share(value)
        return duration(value) if unit == "ns" else f"{count(value)} {unit}"

    verdicts = {"part": "", "open": "not decided"}
    before, after = (name or "none" for name in (found.limiting_before, found.limiting_after))
    moved = f"What limits: {before}" + ("" if before == after else f" before, {after} after") + "."
    rows = [
        [
            change.what,
            shown(change.before, change.unit),
            shown(change.after, change.unit),
            "–"
            if not change.before or change.unit == "share"
            else share(change.after / change.before - 1, signed=True),
            verdicts.get(change.verdict, change.verdict),
        ]
        for change in found.changes
    ]
    lines = [moved, "", table(("", "before", "after", "change", ""), rows)]
    if found.decides:
        lines += ["", f"One run each doesn't decide how long the program takes: {found.decides}"]
    if found.warnings:
        lines += ["", "The environments differ: " + "; ".join(found.warnings) + "."]
    return "\n".join(lines)
