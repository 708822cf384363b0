"""The report of a study: the sentence, the curve, what each step measured, and the cost-benefit table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latlab.model.machine.environment import Environment
from latlab.model.stubs import StudyResult, StudyRun
from latlab.reports.html import Page
from latlab.reports.sections.figures import Figure
from latlab.words import share

__all__ = ["stage_page", "study_page"]

_NAMES = {
    "measure": "1. Where the time goes",
    "suspicion": "2. Is it a bottleneck?",
    "waits": "3. Its waits",
    "flat": "4. Without its work",
    "idle": "5. Asleep instead of working",
    "busy": "6. A part of its work",
}


def study_page(result: StudyResult, command: str, environment: Environment, seed: int) -> Page:
    """The page of `latlab stubs study --html`.

    Args:
        result: of the study.
        command: by which it was called.
        environment: of the machine.
        seed: of the order of the runs.
    """
    page = Page(
        f"What would a faster {result.component} buy?", f"latlab stubs study, {len(result.runs)} runs"
    )
    page.verdict(result.sentence, "good" if result.component_class != "none" else "plain")
    for warning in result.warnings:
        page.verdict(warning, "bad")
    page.section(
        "The forecast",
        "By which part the whole system's time falls when the component's work does. The band is the 95 % "
        "interval; crosses are rounds of the stub, relative to the unmodified system of the same round.",
    )
    page.figure(_curve(result))
    page.section(
        "Costs and benefits", "What the component saves, what the system saves, and how much of it pays."
    )
    page.table(
        ["faster by", "component saves, ms", "system, ms", "system saves, ms", "pays"],
        [_row(result, i) for i in range(len(result.curve))],
    )
    for step in result.steps:
        if step.name in _NAMES:
            page.section(_NAMES[step.name], step.text)
            figure = _figure(result, step.name)
            if figure is not None:
                page.figure(figure)
    page.section("7. What to do", _advice(result))
    page.details("Every run", _runs(result.runs))
    page.reproduce(command, environment, seed)
    return page


def stage_page(document: Mapping[str, Any], command: str, environment: Environment, seed: int) -> Page:
    """The page of a study of a stage of the trading pipeline.

    Args:
        document: of the study, as `latlab stubs study --json` prints it.
        command: by which it was called.
        environment: of the machine.
        seed: of the order of the runs.
    """
    name = document["component"]
    page = Page(f"What would a faster {name} buy?", f"latlab stubs study, {document['rounds']} rounds")
    page.verdict(document["sentence"], "good" if document["class"] != "none" else "plain")
    for warning in document["warnings"]:
        page.verdict(warning, "bad")
    curve = document["curve"]
    page.section(
        "The forecast",
        "By which part the pipeline's time an event, at full load, falls when the stage's work does. "
        "Whiskers are 95 % intervals.",
    )
    x = [100 * point["speedup"] for point in curve]
    page.figure(
        {
            "data": [_whiskers("gain", x, [100 * p["gain"] for p in curve],
                               [[100 * bound for bound in p["interval"]] for p in curve])],
            "layout": {"xaxis": {"title": {"text": f"{name} faster by, %"}},
                       "yaxis": {"title": {"text": "system faster by, %"}}},
        }
    )  # fmt: skip
    page.section("Tail latency", "From the feed to the strategy, at the input's own pace.")
    tails = []
    for quantile in ("p50", "p99", "p99.9"):
        known = [(at, point[f"{quantile}_ns"]) for at, point in zip(x, curve, strict=True)]
        known = [(at, one) for at, one in known if one is not None]
        bounds = [[(one[end] or one["value"]) / 1e3 for end in ("low", "high")] for _, one in known]
        tails.append(
            _whiskers(quantile, [at for at, _ in known], [one["value"] / 1e3 for _, one in known], bounds)
        )
    layout = {"xaxis": {"title": {"text": f"{name} faster by, %"}},
              "yaxis": {"title": {"text": "latency, us"}, "type": "log"}}  # fmt: skip
    page.figure({"data": tails, "layout": layout})
    page.section("Costs and benefits", "Maximum throughput, and the latency of its events.")
    page.table(
        ["faster by", "events/s", "system faster by", "p50, us", "p99, us", "p99.9, us"],
        [
            [f"{share(p['speedup'], digits=0)}", round(p["capacity_hz"]), f"{share(p['gain'])}",
             *(None if p[f"{q}_ns"] is None else round(p[f"{q}_ns"]["value"] / 1e3, 1)
               for q in ("p50", "p99", "p99.9"))]
            for p in curve
        ],
    )  # fmt: skip
    page.reproduce(command, environment, seed)
    return page


def _whiskers(name: str, x: list[float], y: list[float], bounds: list[list[float]]) -> dict[str, Any]:
    below = [max(0.0, value - min(pair)) for value, pair in zip(y, bounds, strict=True)]
    above = [max(0.0, max(pair) - value) for value, pair in zip(y, bounds, strict=True)]
    error = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return {"type": "scatter", "mode": "lines+markers", "name": name, "x": x, "y": y, "error_y": error}


def _row(result: StudyResult, index: int) -> list[Any]:
    point = result.curve[index]
    saved = point.speedup * result.t_cus_ns / 1e6
    gained = point.gain * result.t_sut_ns / 1e6
    pays = f"{share(gained / saved, digits=0)}" if saved else None
    return [
        f"{share(point.speedup, digits=0)}",
        round(saved, 3),
        round(point.value / 1e6, 3),
        round(gained, 3),
        pays,
    ]


def _curve(result: StudyResult) -> Figure:
    x = [100 * point.speedup for point in result.curve]
    low = [100 * point.interval[0] for point in result.curve]
    high = [100 * point.interval[1] for point in result.curve]
    base = {run.round: run.wall_ns for run in result.runs if run.round >= 0 and run.variant == _base(result)}
    measured = [
        (100 * run.speedup, 100 * (1 - run.wall_ns / base[run.round]))
        for run in result.runs
        if run.variant in ("busy", "flat") and run.round in base
    ]
    band = {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    data: list[dict[str, Any]] = [
        {**band, "x": x, "y": low},
        {**band, "x": x, "y": high, "fill": "tonexty"},
        {
            "type": "scatter", "mode": "markers", "name": "rounds", "marker": {"symbol": "x", "size": 5},
            "opacity": 0.5, "x": [a for a, _ in measured], "y": [b for _, b in measured],
        },
        {"type": "scatter", "mode": "lines+markers", "name": "forecast", "x": x,
         "y": [100 * point.gain for point in result.curve]},
    ]  # fmt: skip
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": f"{result.component} faster by, %"}},
        "yaxis": {"title": {"text": "system faster by, %"}},
    }
    if result.t_limit is not None:
        at = 100 * result.t_limit
        layout["shapes"] = [{"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1,
                             "line": {"dash": "dot", "width": 1}}]  # fmt: skip
    return {"data": data, "layout": layout}


def _base(result: StudyResult) -> str:
    return "off" if any(run.variant == "off" for run in result.runs) else "original"


def _figure(result: StudyResult, step: str) -> Figure | None:
    """Runs of the variants that the step compares."""
    wanted = {
        "measure": ("original", "measure"),
        "suspicion": ("delay",),
        "flat": (_base(result), "flat"),
        "idle": ("busy", "idle"),
        "busy": (_base(result), "busy"),
    }.get(step)
    if wanted is None:
        return None
    groups: dict[str, list[float]] = {}
    for run in result.runs:
        if run.variant not in wanted or (step != "measure" and run.variant != "delay" and run.round < 0):
            continue
        if step == "idle" and run.variant == "busy" and run.speedup:
            continue
        # A delay's length stands where a stub's speedup does.
        part = f" {share(run.speedup, digits=0)} faster" if run.variant == "busy" and run.speedup else ""
        name = (
            f"delay {share(run.speedup, digits=0)}" if run.variant == "delay" else _WORDS[run.variant] + part
        )
        groups.setdefault(name, []).append(run.wall_ns / 1e6)
    if not groups:
        return None
    data = [
        {"type": "box", "name": name, "y": values, "boxpoints": "all", "jitter": 0.4, "pointpos": 0}
        for name, values in sorted(groups.items())
    ]
    return {"data": data, "layout": {"yaxis": {"title": {"text": "run, ms"}}, "showlegend": False}}


_WORDS = {
    "original": "original", "off": "unmodified", "measure": "measured", "busy": "stub",
    "flat": "stub without time", "idle": "stub asleep",
}  # fmt: skip


def _advice(result: StudyResult) -> str:
    if result.component_class == "none":
        return "Leave it as it is: look for what limits elsewhere, and study that."
    if result.component_class == "total":
        return "Optimise it, measure again, and start at step 1."
    who = result.takes_over or "what takes over"
    return f"Optimise it until it is {share(result.t_limit or 0, digits=0)} faster, then study {who}."


def _runs(runs: tuple[StudyRun, ...]) -> str:
    lines = [f"{'variant':10} {'speedup':>7} {'round':>5} {'wall ms':>10} {'user ms':>10} {'system ms':>10}"]
    lines += [
        f"{run.variant:10} {run.speedup:7.2f} {run.round:5} {run.wall_ns / 1e6:10.3f} "
        f"{run.user_ns / 1e6:10.3f} {run.system_ns / 1e6:10.3f}"
        for run in runs
    ]
    return "\n".join(lines)
