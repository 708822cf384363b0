"""Ready figures for reports, as plotly's plain data and layout: series over time, latency distributions,
boxplots.

They are dicts and not plotly objects, since nothing but plotly.js is needed to draw them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latlab.model.statistics.histogram import Histogram
from latlab.stats.quantiles import quantiles

__all__ = ["Figure", "bars", "boxes", "density", "percentiles", "steps"]

Figure = dict[str, Any]
# More points than pixels only make a page that is slow to open.
_MOST_POINTS = 4000
# Of all series of one figure over time, and of each at least.
_FIGURE_POINTS, _FEWEST_POINTS = 12_000, 600


def steps(
    series: Mapping[str, tuple[ArrayLike, ArrayLike]],
    x_title: str,
    y_title: str,
    *,
    landmarks: Mapping[str, float] | None = None,
    log_y: bool = False,
) -> Figure:
    """Values that hold until the next one, over time: fills of queues, throughput.

    Long series are thinned to the smallest and the largest value of each stretch, so no peak is lost.

    Args:
        series: x and y, of equal length and x ascending, by name.
        x_title: with the unit.
        y_title: with the unit.
        landmarks: instants to mark, by label.
        log_y: a logarithmic y axis.
    """
    data = []
    most = min(_MOST_POINTS, max(_FEWEST_POINTS, _FIGURE_POINTS // max(len(series), 1)))
    for name, (x, y) in series.items():
        at, values = thinned(np.asarray(x), np.asarray(y), most)
        at, values = _rounded(at), values if log_y else _rounded(values)
        line = {"shape": "hv", "width": 1.4}
        data.append({"type": "scatter", "mode": "lines", "name": name, "x": at, "y": values, "line": line})
    layout: dict[str, Any] = {
        "xaxis": {"title": {"text": x_title}},
        "yaxis": {"title": {"text": y_title}, **({"type": "log"} if log_y else {"rangemode": "tozero"})},
        "hovermode": "x unified",
        "showlegend": len(series) > 1,
    }
    if landmarks:
        # Beside one another two names would be one blot: the second of them goes without.
        furthest = max((float(np.max(x)) for x, _ in series.values() if np.size(x)), default=0.0)
        least = 0.02 * furthest
        named: list[float] = []
        for x in sorted(landmarks.values()):
            if not named or x - named[-1] >= least:
                named.append(x)
        layout["shapes"] = [
            {
                "type": "line",
                "x0": x,
                "x1": x,
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "line": {"dash": "dot", "width": 1},
            }
            for x in landmarks.values()
        ]
        layout["annotations"] = [
            {
                "x": x,
                "yref": "paper",
                "y": 1,
                "text": name,
                "showarrow": False,
                "textangle": -90,
                "xanchor": "right",
                "yanchor": "top",
            }
            for name, x in landmarks.items()
            if x in named
        ]
    return {"data": data, "layout": layout}


def percentiles(distributions: Mapping[str, Histogram], *, unit: str = "µs", scale: float = 1e3) -> Figure:
    """Latency by percentile, as HdrHistogram's plots: each decade of 1 / (1 - q) has the same width.

    Args:
        distributions: histograms by name; empty ones are left out.
        unit: of the axis.
        scale: what values are divided by to be in that unit.
    """
    data, furthest = [], 10.0
    for name, histogram in distributions.items():
        if histogram.count == 0:
            continue
        values, shares = histogram.cumulative()
        # The largest value stands at the middle of the last rank: at 100 % the axis would have no end.
        inverse = 1 / np.maximum(1 - shares, 0.5 / histogram.count)
        furthest = max(furthest, float(inverse[-1]))
        at, shown = thinned(np.concatenate([[1.0], inverse]), np.concatenate([values[:1], values]) / scale)
        line = {"shape": "vh", "width": 2}
        hover = [f"{100 * (1 - 1 / x):.6g} %: {y:,.4g} {unit}" for x, y in zip(at, shown, strict=True)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "x": at,
                "y": shown,
                "line": line,
                "text": hover,
                "hoverinfo": "text+name",
            }
        )
    decades = range(int(np.ceil(np.log10(furthest))) + 1)
    ticks = [1.0, 2.0, *(10.0**d for d in decades if d > 0)]
    labels = ["0 %", "50 %", *(f"{100 - 10.0 ** (2 - d):.10g} %" for d in decades if d > 0)]
    return {
        "data": data,
        "layout": {
            "xaxis": {"type": "log", "title": {"text": "percentile"}, "tickvals": ticks, "ticktext": labels},
            "yaxis": {"type": "log", "title": {"text": f"latency ({unit})"}},
            "showlegend": len(data) > 1,
        },
    }


def density(
    distributions: Mapping[str, Histogram], *, unit: str = "µs", scale: float = 1e3, per_decade: int = 20
) -> Figure:
    """How many values lie where, on logarithmic axes, so that a thousand-fold tail stays visible.

    Args:
        distributions: histograms by name; empty ones are left out.
        unit: of the axis.
        scale: what values are divided by to be in that unit.
        per_decade: bars per factor of ten.
    """
    data = []
    for name, histogram in distributions.items():
        if histogram.count == 0:
            continue
        values, counts = histogram.recorded()
        if histogram.beyond:
            values = np.append(values, histogram.largest_beyond)
            counts = np.append(counts, histogram.beyond)
        bins = np.floor(np.log10(np.maximum(values / scale, 1e-9)) * per_decade).astype(np.int64)
        first = int(bins.min())
        heights = np.bincount(bins - first, weights=counts)
        held = np.flatnonzero(heights)
        left = 10 ** ((held + first) / per_decade)
        widths = left * (10 ** (1 / per_decade) - 1)
        bar = {"type": "bar", "name": name, "x": left, "y": heights[held], "width": widths, "offset": 0}
        data.append({**bar, "opacity": 0.75, "marker": {"line": {"width": 0}}})
    return {
        "data": data,
        "layout": {
            "xaxis": {"type": "log", "title": {"text": f"latency ({unit})"}},
            "yaxis": {"type": "log", "title": {"text": "values"}},
            "barmode": "overlay",
            "showlegend": len(data) > 1,
        },
    }


def bars(
    groups: Mapping[str, Mapping[str, float | None]],
    y_title: str,
    *,
    log_y: bool = False,
    across: bool = False,
) -> Figure:
    """Bars side by side: one colour a group, one place on the axis a name.

    Args:
        groups: by group a value by name; None is left out.
        y_title: of the values, with the unit.
        log_y: a logarithmic axis of the values.
        across: bars from left to right, one name below the other: for long names.
    """
    data = []
    names, numbers = ("y", "x") if across else ("x", "y")
    for group, values in groups.items():
        known = {name: value for name, value in values.items() if value is not None}
        bar = {"type": "bar", "name": group, names: list(known), numbers: list(known.values())}
        data.append({**bar, "orientation": "h"} if across else bar)
    axis: dict[str, Any] = {"title": {"text": y_title}, **({"type": "log"} if log_y else {})}
    layout: Figure = {"barmode": "group", f"{numbers}axis": axis, "showlegend": len(data) > 1}
    if across:
        layout["yaxis"] = {"autorange": "reversed"}
    return {"data": data, "layout": layout}


def boxes(groups: Mapping[str, ArrayLike], y_title: str, *, log_y: bool = False) -> Figure:
    """Boxplots: median and quartiles by nearest rank, whiskers at p1 and p99, and the extremes as points.

    Args:
        groups: a series by name; empty ones are left out.
        y_title: with the unit.
        log_y: a logarithmic y axis.
    """
    data = []
    ends: list[float] = []
    for name, values in groups.items():
        series = np.asarray(values).reshape(-1)
        if series.size == 0:
            continue
        ends += [float(series.min()), float(series.max())]
        low, first, middle, third, high, least, most = quantiles(series, [0.01, 0.25, 0.5, 0.75, 0.99, 0, 1])
        data.append(
            {
                "type": "box",
                "name": name,
                "x": [name],
                "q1": [first],
                "median": [middle],
                "q3": [third],
                "lowerfence": [low],
                "upperfence": [high],
                "y": [[least, most]],
                "boxpoints": "all",
                "jitter": 0,
                "pointpos": 0,
                "marker": {"size": 4},
            }
        )
    axis: dict[str, Any] = {"title": {"text": y_title}, **({"type": "log"} if log_y else {})}
    if log_y and ends and min(ends) > 0:
        axis |= _log_ticks(min(ends), max(ends))
    return {"data": data, "layout": {"yaxis": axis, "showlegend": False}}


def _log_ticks(low: float, high: float) -> dict[str, Any]:
    """Ticks with whole numbers; within a decade plotly writes a lone digit, which nobody can read."""
    if high < 10 * low:  # hardly bent: evenly spaced ones
        rough = max(high - low, 1e-3 * low) / 4
        unit = 10.0 ** math.floor(math.log10(rough))
        step = unit * next(d for d in (1, 2, 5, 10) if d * unit >= rough)
        values = [k * step for k in range(math.floor(low / step), math.ceil(high / step) + 1) if k > 0]
    else:
        digits = (1, 2, 5) if high / low < 300 else (1,)
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        values = [d * 10.0**k for k in exponents for d in digits]
    return {"tickvals": values, "ticktext": [f"{v:,.6g}" if v < 1e6 else f"{v:,.0f}" for v in values]}


def thinned(x: NDArray[Any], y: NDArray[Any], most: int = _MOST_POINTS) -> tuple[NDArray[Any], NDArray[Any]]:
    """A series in at most so many points: of each stretch the smallest and the largest value, in their
    order."""
    if x.shape != y.shape:
        raise ValueError(f"{x.shape} instants for {y.shape} values")
    if y.size <= most:
        return x, y
    edges = np.linspace(0, y.size, most // 2 + 1).astype(np.int64)
    kept = {0, y.size - 1}
    for begin, end in pairwise(edges.tolist()):
        kept.add(begin + int(np.argmin(y[begin:end])))
        kept.add(begin + int(np.argmax(y[begin:end])))
    # The first and the last point may bring two more than asked for, which nobody sees.
    index = np.array(sorted(kept))
    return x[index], y[index]


def _rounded(values: NDArray[Any]) -> NDArray[Any]:
    """Floats to seven digits of the largest: more is seen in no zoom, and was half of a page's size."""
    largest = float(np.max(np.abs(values), initial=0.0)) if values.dtype.kind == "f" else 0.0
    if not 0.0 < largest < math.inf:
        return values
    return np.round(values, 6 - math.floor(math.log10(largest)))
