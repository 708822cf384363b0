"""A run of jitter as a page: outliers over time, their spectrum, the cumulative curve, cores compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from latlab.jitter import Study, automatic_range, clearest_spectrum
from latlab.model.machine.environment import Environment
from latlab.model.machine.jitter import CoreJitter, JitterResult
from latlab.reports.html import Page
from latlab.words import count, duration, frequency, share

__all__ = ["report", "study_report"]

_MOST_POINTS = 5_000


def report(result: JitterResult, environment: Environment, command: str | None = None) -> Page:
    """The page of one run."""
    page = Page("How quiet is this machine?", environment.summary())
    worst = max(result.cores, key=lambda core: core.ns(core.max_ticks))
    lost = sum(core.gap_ticks for core in result.cores) / max(
        1, sum(core.wall_ticks for core in result.cores)
    )
    page.verdict(
        f"{share(lost, digits=3 if lost < 0.001 else 2 if lost < 0.01 else 1)} of the time went to gaps; "
        f"the longest took {duration(worst.ns(worst.max_ticks))} on CPU {worst.cpu}."
    )
    for warning in result.warnings:
        page.paragraph(warning.text)
    page.section("Cores")
    page.table(
        ["CPU", "readings", "without gaps", "gaps", "p50", "p99.9", "max"],
        [_core_row(core) for core in result.cores],
    )
    if len(result.cores) > 1 and result.sources:
        page.figure(_compared(result), "Gap time of each core by the layer that it went to.")
    page.section("How long a reading takes")
    page.figure(
        _cumulative(result),
        "Share of readings that took as long or longer; the dotted line is the first core's knee: "
        "up to it bins are linear.",
    )
    if result.sources:
        page.section("Who did it")
        page.table(
            ["layer", "kind", "source", "CPU", "count", "total", "ran itself", "worst"],
            [
                [
                    *(one.layer, one.kind, one.name, one.cpu, count(one.count)),
                    *(duration(one.total_ns), duration(one.ran_ns), duration(one.max_ns)),
                ]
                for one in result.sources[:30]
            ],
        )
    page.section("Outliers")
    page.figure(_scatter(result), "Each kept gap: when it began, and how long it took.")
    page.section("The beat")
    for period in result.periods:
        page.paragraph(f"CPU {period.cpu}: {period.cause} (p = {period.p_value:.1g})")
    page.figure(
        _spectrum(result),
        "Power of the outliers whose beat is the clearest, bursts merged; without a beat it is 1 on average. "
        "Dotted lines are the beats that were found.",
    )
    page.reproduce(command, environment)
    return page


def _core_row(core: CoreJitter) -> list[Any]:
    return [
        core.cpu,
        count(core.deltas),
        share(core.pure_ticks / (core.wall_ticks or 1)),
        count(core.outliers),
        duration(core.ns(core.percentile_ticks(50))),
        duration(core.ns(core.percentile_ticks(99.9))),
        duration(core.ns(core.max_ticks)),
    ]


def _figure(
    data: list[dict[str, Any]], x: str, y: str, *, log_x: bool | None, log_y: bool, **more: Any
) -> dict[str, Any]:
    """Axes are logarithmic, linear, or (None) of names."""
    kinds = {True: "log", False: "linear", None: "category"}
    axes = {
        name: {"title": {"text": title}, "type": kinds[log]}
        for name, title, log in zip("xy", (x, y), (log_x, log_y), strict=True)
    }
    return {"data": data, "layout": {"xaxis": axes["x"], "yaxis": axes["y"], **more}}


def _cumulative(result: JitterResult) -> dict[str, Any]:
    data = []
    for core in result.cores:
        total = max(1, int(core.counts.sum()))
        longer = 1.0 - np.concatenate([[0], np.cumsum(core.counts)[:-1]]) / total
        values = core.values_ticks * 1e9 / core.counter_hz
        rows = values >= core.ns(core.min_ticks) * 0.99  # below are readings within one step of the counter
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "line": {"shape": "hv"},
                "name": _name(core),
                "x": values[rows].tolist(),
                "y": longer[rows].tolist(),
            }
        )
    first = result.cores[0]
    knee = first.ns(automatic_range(first, 20)[1])
    line = {
        "type": "line",
        "x0": knee,
        "x1": knee,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "line": {"dash": "dot"},
    }
    label = {"x": float(np.log10(knee)), "y": 0.02, "yref": "paper", "text": f"knee {duration(knee)}",
             "showarrow": False, "xanchor": "left", "xshift": 4}  # fmt: skip
    return _figure(
        data, "ns between two readings", "share that took as long or longer", log_x=True, log_y=True,
        shapes=[line], annotations=[label],
    )  # fmt: skip


def _name(core: CoreJitter) -> str:
    return f"{core.host} CPU {core.cpu}" if core.host else f"CPU {core.cpu}"


def _compared(result: JitterResult) -> dict[str, Any]:
    """A bar a core, stacked by layer: the share of its time in %."""
    walls = {core.cpu: core.ns(core.wall_ticks) or 1.0 for core in result.cores}
    layers = sorted({one.layer for one in result.sources if one.total_ns is not None})
    data = []
    for layer in layers:
        each = dict.fromkeys(walls, 0.0)
        for one in result.sources:
            if one.layer == layer and one.cpu in each:
                each[one.cpu] += 100 * (one.total_ns or 0.0) / walls[one.cpu]
        x = [f"CPU {cpu}" for cpu in each]
        data.append({"type": "bar", "name": layer, "x": x, "y": list(each.values())})
    return _figure(data, "", "gap time, % of the run", log_x=None, log_y=False, barmode="stack")


def _scatter(result: JitterResult) -> dict[str, Any]:
    data = []
    for core in result.cores:
        # The longest are drawn where not all can be: they are what the page is read for.
        shown = np.sort(np.argsort(core.gap_each_ns)[-_MOST_POINTS:])
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": _name(core),
                "x": ((core.gap_start_ns[shown] - core.start_ns) / 1e6).tolist(),
                "y": (core.gap_each_ns[shown] / 1e3).tolist(),
            }
        )
    return _figure(data, "ms since the start", "µs", log_x=False, log_y=True)


def _spectrum(result: JitterResult) -> dict[str, Any]:
    data = []
    for core in result.cores:
        seen = clearest_spectrum(core.gap_start_ns, core.gap_each_ns)
        if seen is None:
            continue
        shown = np.sort(np.argsort(seen.power)[-_MOST_POINTS:])
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": _name(core),
                "x": seen.frequency_hz[shown].tolist(),
                "y": seen.power[shown].tolist(),
            }
        )
    beats = sorted({round(1e9 / one.period_ns, 2) for one in result.periods})
    lines = [
        {
            "type": "line",
            "x0": hz,
            "x1": hz,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "line": {"dash": "dot", "width": 1},
        }
        for hz in beats
    ]
    labels = [
        {"x": float(np.log10(hz)), "y": 1.0, "yref": "paper", "text": frequency(hz), "showarrow": False}
        for hz in beats
    ]
    return _figure(data, "Hz", "power", log_x=True, log_y=True, shapes=lines, annotations=labels)


def study_report(found: Study, environment: Environment, command: str | None = None) -> Page:
    """The page of a study: one point a run, one column a condition."""
    page = Page("Under which conditions is this machine quiet?", environment.summary())
    names = sorted({row.condition for row in found.rows})
    for title, key in (
        ("Gap time, share", "gap_share"),
        ("Longest gap, ns", "max_ns"),
        ("p99.9, ns", "p999_ns"),
    ):
        data = [
            {
                "type": "box",
                "name": name,
                "boxpoints": "all",
                "y": [getattr(row, key) for row in found.rows if row.condition == name],
            }
            for name in names
        ]
        page.section(title)
        page.figure({"data": data, "layout": {"yaxis": {"type": "log"}, "showlegend": False}})
    page.reproduce(command, environment, found.seed)
    return page
