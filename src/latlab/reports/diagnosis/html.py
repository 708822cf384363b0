"""The report of a diagnosis: one HTML page in the order of the argument, each number linked to its view."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from latlab.lab.diagnosis.diagnose import DiagnosisRun
from latlab.model.diagnosis.answer import Answer, Budget, Forecast, Interval
from latlab.model.queues.tail import Tail
from latlab.reports.diagnosis.demo_html import add_observation, add_topology
from latlab.reports.diagnosis.flame import add_flame
from latlab.reports.diagnosis.text import applied_rows, forecast_rows, in_queue, tail_rows
from latlab.reports.diagnosis.threads_html import add_threads
from latlab.reports.diagnosis.turns import add_turns
from latlab.reports.html import Page
from latlab.reports.queues.doubts import doubt_in_words
from latlab.reports.queues.text import beyond_limit
from latlab.reports.requests.html import add_requests
from latlab.reports.sections import figures
from latlab.stats.quantiles import quantile_name
from latlab.stats.stub_law import rates_between, times_between
from latlab.words import duration, share, sureness, unit_of

__all__ = ["write_report"]

_MOST_PARTS = 60  # of a budget, the largest
_HOW = {
    "model": "Computed by a queue model that was fitted to the observation; nothing of it was measured.",
    "schedule": "Computed by a simulation of what the threads were seen to do, in all ways that give back "
    "the program's own time; nothing of it was measured.",
}


def write_report(path: str | os.PathLike[str], run: DiagnosisRun, command: str) -> None:
    """Write the page.

    Args:
        path: of the HTML file.
        run: the answer, with what was observed.
        command: that made it.

    Raises:
        InputError: when the file can't be written.
    """
    answer = run.answer
    page = Page("Where does the latency come from, and what would fixing it buy?", answer.target)
    page.verdict(answer.sentence, "bad" if answer.limiting_stage else "good", link="limits")
    for forecast in answer.forecasts:
        page.verdict(f"{forecast.sentence[:1].upper()}{forecast.sentence[1:]}.", link="forecast")
    if answer.applied is not None:
        page.verdict(answer.applied.sentence, "good" if answer.applied.agrees else "warn", link="applied")
    if answer.losses:
        page.verdict("\n\n".join(f"{loss}." for loss in answer.losses), "warn", link="queues")
    for doubt in answer.doubts:
        page.verdict(f"Withheld: {doubt_in_words(doubt)}.", "warn")
    if answer.distrust:
        page.verdict("Not trustworthy as it stands:\n\n" + "\n\n".join(answer.distrust), "warn")
    seen = run.seen.queues
    if seen is not None:
        add_topology(page, seen.diagnosis)
    for number, one in enumerate(answer.lines):
        if one.budget is not None:
            anchor = "budget" if not number else f"budget-{number + 1}"
            _budget(page, one.budget, _views(run), ", ".join(one.stages[:4]), anchor)
    if answer.budget is not None and not answer.lines:
        _budget(page, answer.budget, _views(run))
    if answer.tail is not None and answer.tail.events:
        _slowest(page, answer.tail)
    page.section(
        "What limits",
        f"Verdict: {answer.verdict}, confidence {sureness(answer.confidence)}.",
        anchor="limits",
    )
    names = _queue_names(run)
    for line in answer.evidence:
        page.paragraph(line, link="queues" if any(name in line for name in names) else "stages")
    if answer.stalls:
        page.paragraph("\n\n".join(f"{line[:1].upper()}{line[1:]}." for line in answer.stalls), link="fills")
    if answer.burst is not None:
        page.paragraph(f"{answer.burst[:1].upper()}{answer.burst[1:]}.", link="fills")
    for forecast in answer.forecasts:
        _forecast(page, forecast)
    if answer.applied is not None:
        done = answer.applied
        page.section(
            f"Forecast and measured: {done.stage} made {share(done.speedup, digits=0)} faster",
            f"{done.runs} runs of the same input with the faster stage, after the forecast was made. "
            "They agree where their intervals overlap.",
            anchor="applied",
        )
        page.table(*applied_rows(done))
    _floor(page, answer)
    if seen is not None:
        times = seen.residence
        add_observation(page, seen.diagnosis, seen.observation, times.end_to_end, times.waiting)
    if answer.threads is not None:
        add_threads(page, answer.threads)
        if run.seen.schedule is not None:
            add_flame(page, run.seen.schedule, answer.threads)
            add_turns(page, run.seen.schedule, answer.threads)
    if answer.requests is not None:
        add_requests(page, answer.requests)
    _steps(page, answer)
    page.reproduce(command, run.environment, answer.seed)
    page.write(path)


def _views(run: DiagnosisRun) -> dict[str, str]:
    """The section that each kind of part of a budget comes from, where this page has it."""
    views = {"service": "stages", "waiting": "queues", "floor": "", "unexplained": ""}
    if run.answer.floor is not None:
        views["floor"] = "floor"
    if run.seen.queues is not None and run.seen.queues.residence.end_to_end.size:
        views |= {"waiting": "waiting", "unexplained": "latency"}
    return views


def _queue_names(run: DiagnosisRun) -> list[str]:
    seen = run.seen.queues
    return [] if seen is None else [queue.name for queue in seen.diagnosis.queues if queue.name]


def _budget(
    page: Page, budget: Budget, views: dict[str, str], line: str = "", anchor: str = "budget"
) -> None:
    name = "the mean" if budget.quantile is None else quantile_name(budget.quantile)
    page.section(
        f"{line}: where {name} goes" if line else f"Where {name} goes",
        f"{duration(budget.total_ns)}, taken apart over {budget.events:,} events; the parts sum to it.",
        anchor=anchor,
    )
    total = max(budget.total_ns, 1e-9)
    told = [part for part in budget.parts if part.ns > 0 or part.kind == "unexplained"]
    # Thousands of bars show nothing; floor and unexplained are always told.
    shown = [part for n, part in enumerate(told) if n < _MOST_PARTS or part.kind in ("floor", "unexplained")]
    rest = budget.total_ns - sum(part.ns for part in shown)
    scale, unit = unit_of(max(part.ns for part in shown) if shown else 0.0)
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": [f"{part.kind} {part.where}".strip() for part in reversed(shown)],
        "x": [part.ns / scale for part in reversed(shown)],
    }
    axes = {"xaxis": {"title": {"text": unit}}, "margin": {"l": 220}}
    page.figure({"data": [bars], "layout": axes}, "The parts of the budget.", height=120 + 24 * len(shown))
    page.table(
        ("part", "where", "time", "share"),
        [[part.kind, part.where, duration(part.ns), share(part.ns / total)] for part in shown]
        + ([["all else", "", duration(rest), share(rest / total)]] if len(shown) < len(told) else []),
        "Each row leads to the view that its number comes from.",
        links=[views[part.kind] for part in shown] + [""] * (len(shown) < len(told)),
    )


def _slowest(page: Page, tail: Tail) -> None:
    page.section(
        "The slowest events",
        f"{beyond_limit(tail)}; the slowest of them, with where most of the time went.",
        anchor="slowest",
    )
    columns, rows = tail_rows(tail)
    hops = [hop for event in tail.events if (hop := event.longest) is not None]  # as the rows
    page.table(
        columns,
        rows,
        "Each row leads to the view of its queue or stage; 'latlab queues tail' shows every hop.",
        links=["queues" if in_queue(hop) else "stages" for hop in hops],
    )


def _forecast(page: Page, forecast: Forecast) -> None:
    how = _HOW.get(
        forecast.method,
        f"Measured: {forecast.rounds} rounds, the unmodified pipeline in each and the stubs where "
        "more runs tell more, in an order drawn anew, on the same input.",
    )
    page.section(f"If {forecast.stage} were faster", how, anchor="forecast")
    if forecast.warnings:
        page.paragraph("\n\n".join(forecast.warnings))
    points = forecast.points
    at = [100 * (point.speedup or 0.0) for point in points]
    carries = [point.capacity_hz for point in points if point.capacity_hz is not None]
    if len(carries) == len(points):
        layout = {
            "xaxis": {"title": {"text": f"{forecast.stage} faster by, %"}},
            "yaxis": {"title": {"text": "events/s"}, "rangemode": "tozero"},
        }
        page.figure(
            {"data": _by_law(at, carries, 1.0, "maximum throughput", rates_between), "layout": layout},
            "Maximum throughput, with the input as fast as it is taken. Points are measured; between them "
            "the service falls linearly, as a stub's does, and the throughput is its inverse up to the next "
            "limit.",
            height=320,
        )
    tails = {
        name: [getattr(point, key) for point in points]
        for name, key in (("p50", "p50_ns"), ("p99", "p99_ns"), ("p99.9", "p99_9_ns"))
    }
    scale, unit = unit_of(max((one.value for values in tails.values() for one in values if one), default=0.0))
    curves = [_curve(at, values, scale, name) for name, values in tails.items() if None not in values]
    if curves:
        layout = {
            "xaxis": {"title": {"text": f"{forecast.stage} faster by, %"}},
            "yaxis": {"type": "log", "title": {"text": f"end to end, {unit}"}},
        }
        page.figure(
            {"data": curves, "layout": layout}, "End-to-end latency at the input's own pace.", height=360
        )
    columns, rows = forecast_rows(forecast)
    page.table(("", *columns), rows)
    times = [point.time_ns for point in points if point.time_ns is not None]
    if times and len(times) == len(points):
        scale, unit = unit_of(max(time.value for time in times))
        layout = {
            "xaxis": {"title": {"text": f"{forecast.stage} faster by, %"}},
            "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
        }
        page.figure(
            {"data": _by_law(at, times, scale, "time", times_between), "layout": layout},
            "Time of the whole command. Points are measured; between them the stub's law: it falls linearly "
            "up to the next limit.",
            height=320,
        )


def _curve(x: list[float], values: list[Interval], scale: float, name: str) -> figures.Figure:
    y = [value.value / scale for value in values]
    up = [(_high(value) - value.value) / scale for value in values]
    down = [(value.value - _low(value)) / scale for value in values]
    bars = {"type": "data", "array": up, "arrayminus": down, "symmetric": False, "visible": True}
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, "name": name, "error_y": bars}


def _value(found: Interval) -> float:
    return found.value


def _low(found: Interval) -> float:
    return found.value if found.low is None else found.low


def _high(found: Interval) -> float:
    return found.value if found.high is None else found.high


def _by_law(
    at: list[float],
    values: list[Interval],
    scale: float,
    name: str,
    law: Callable[[Sequence[float], Sequence[float], Sequence[float]], NDArray[np.float64]],
) -> list[figures.Figure]:
    """The measured points, and what lies between them by the stub's law, with a band from their intervals."""
    points = _curve(at, values, scale, name)
    if len(at) < 2 or at[0] != 0:
        return [points]
    x = list(range(101))
    speedups, dense = [one / 100 for one in at], [one / 100 for one in x]
    low, middle, high = (
        (law(speedups, [bound(value) for value in values], dense) / scale).tolist()
        for bound in (
            _low,
            _value,
            _high,
        )
    )
    plain = {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
    }
    return [
        {**plain, "x": x, "y": low},
        {**plain, "x": x, "y": high, "fill": "tonexty"},
        {"type": "scatter", "mode": "lines", "x": x, "y": middle, "name": "between, by law"},
        points,
    ]


def _floor(page: Page, answer: Answer) -> None:
    if answer.floor is not None:
        floor = answer.floor
        page.section(
            "The machine's floor",
            f"Before the run, CPU {', '.join(map(str, floor.cpus))} for "
            f"{duration(1e9 * floor.seconds)} each: "
            f"{share(floor.share, digits=2)} of the time went into gaps, the longest of "
            f"{duration(floor.worst_ns)}.",
            anchor="floor",
        )
        page.paragraph("\n\n".join((*floor.sources, *floor.warnings)))
    if answer.findings:
        page.section("Settings that disturb", anchor="settings")
        page.table(
            ("setting", "is", "costs", "command that fixes it"),
            [list(finding) for finding in answer.findings],
        )


def _steps(page: Page, answer: Answer) -> None:
    page.section("Steps", "What was done, and what was left out, and why.", anchor="steps")
    page.table(
        ("step", "", "s", "result"),
        [[step.name, step.state, round(step.seconds, 1), step.detail] for step in answer.steps],
    )
    if answer.unknown:
        page.table(("not known", "how to measure it"), [[one.what, one.command] for one in answer.unknown])
