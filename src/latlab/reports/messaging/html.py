"""A messaging run as one HTML page in which one can zoom."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from latlab.formats.recording import Recording
from latlab.messaging import latencies
from latlab.model.messaging.results import Measurement, Result
from latlab.model.statistics.summary import Summary
from latlab.reports.html import Page
from latlab.reports.messaging.gnuplot import WINDOWS, Size, histogram, running, windowed
from latlab.reports.messaging.verdict import verdict
from latlab.stats.thinning import extremes
from latlab.words import count, duration, plural, rate, relative, unit_of

__all__ = ["axis_unit", "write_html"]

# What a browser draws smoothly; the least and the largest of each part are kept, so that no peak is lost.
_POINTS = 20_000


def write_html(
    path: Path,
    m: Measurement,
    r: Result,
    recording: Recording,
    *,
    bins: int | None = None,
    overlap: float = 0.0,
    sizes: Sequence[Size] = (),
) -> Path:
    """Write the page.

    Args:
        bins, overlap: of the histogram, as `latlab.reports.messaging.gnuplot.histogram` takes them.
        sizes: of a sweep over sizes; drawn where there are two of them at least.
    """
    s = m.settings
    page = Page(
        "How fast do messages travel?",
        f"{r.facts.title}, {plural(s.size, 'byte')} a message, {s.topology}, {r.wait}",
    )
    typical = r.intended_latency or r.latency
    median = (
        "nothing arrived"
        if typical is None
        else f"half of all messages take {duration(typical.median)} or less"
        + (" from the intended sending" if r.intended_latency is not None else "")
    )
    tone: Literal["bad", "warn", "good"] = (
        "bad" if r.partial or not r.received else "warn" if r.lost or r.verdict.doubts else "good"
    )
    page.verdict(
        f"{' '.join(verdict(r))} {median[0].upper()}{median[1:]}; "
        f"{count(r.lost)} of {count(r.sent)} were lost; the latency is {r.stability}.",
        tone,
    )
    page.section("Latency")
    names = ["average", "robust deviation", "p50", "p90", "p99", "p99.9", "max"]
    rows = []
    for name, x in (
        ("from the actual sending", r.latency),
        ("from the intended sending", r.intended_latency),
    ):
        if x is not None:
            values = [x.mean, x.robust_deviation, *[x.quantiles[q] for q in names[2:6]], x.maximum]
            rows.append([name, *[duration(value) for value in values]])
    page.table(["", *names], rows)
    numbers, latency = latencies(m)
    since = ""
    if m.intended_ns is not None:  # what the table's first line can hide: the wait for a sender held up
        latency = m.received_ns[s.warmup :][numbers] - m.intended_ns[s.warmup :][numbers]
        since = " from the intended sending"
    at, kept = _thinned(numbers, latency)
    ns, unit = axis_unit(typical)
    axis = f"latency, {unit}"
    page.figure(_lines([("latency", at, kept / ns)], "message", axis), f"Latency{since} by message.")
    at, average, median_ = running(latency)
    average, median_ = (1e3 / ns * one for one in (average, median_))
    page.figure(
        _lines([("average", at, average), ("median", at, median_)], "message", axis),
        "Average against median, by parts of the run.",
    )
    centres, counts = histogram(latency, bins, overlap)
    bars = {"type": "bar", "x": (centres / ns).tolist(), "y": counts.tolist(), "name": "messages"}
    layout = {"xaxis": {"title": {"text": axis}}, "yaxis": {"title": {"text": "messages"}}}
    humps = ", ".join(f"{duration(h.at_ns)} ({relative(h.weight)})" for h in r.humps)
    several = f"{len(r.humps)} hump{'' if len(r.humps) == 1 else 's'}"
    few = " (too few messages to tell whether there are more)" if r.humps_unsure else ""
    page.figure({"data": [bars], "layout": layout}, f"Histogram{since} up to p99.9; {several}: {humps}{few}.")
    page.section("Throughput")
    both = (("sending", r.sending_throughput), ("receiving", r.receiving_throughput))
    page.table(
        ["", "messages", "bytes"],
        [[name, rate(t.messages_per_s, "messages"), rate(t.bytes_per_s, "B")] for name, t in both],
    )
    sent, received = m.sent_ns[s.warmup :][numbers], np.sort(m.received_ns[s.warmup :][numbers])
    if s.window < sent.size:
        both_ways = [
            _over(name, stamps, s.window) for name, stamps in (("sending", sent), ("receiving", received))
        ]
        page.figure(
            _logarithmic(_lines(both_ways, "message", "messages/s")), f"Over windows of {s.window} messages."
        )
    windows = [_over(f"M = {w}", received, w) for w in WINDOWS if w < received.size]
    if windows:
        page.figure(
            _logarithmic(_lines(windows, "message", "messages/s")),
            "Receiving throughput over windows of M messages.",
        )
    if len(sizes) > 1:
        bytes_, medians, messages_per_s, bytes_per_s = np.array(sizes, dtype=float).T
        for series, unit in (
            (("messages/s", bytes_, messages_per_s), "messages/s"),
            (("bytes/s", bytes_, bytes_per_s), "bytes/s"),
            (("median", bytes_, medians), "median latency, µs"),
        ):
            figure = _lines([series], "bytes a message", unit)
            figure["layout"]["xaxis"]["type"] = "log"
            page.figure(figure, f"{unit[0].upper()}{unit[1:]} against the size of a message.")
    page.reproduce(recording.command, recording.environment, recording.seed, recording.parameters)
    return page.write(path)


def axis_unit(latency: Summary | None) -> tuple[float, str]:
    """Nanoseconds of the unit for a page's axes, and its name: that of the table's p99."""
    return unit_of(0.0 if latency is None else latency.quantiles.get("p99", latency.maximum))


def _over(name: str, stamps: Any, window: int) -> tuple[str, Any, Any]:
    """The throughput over windows of so many messages; a gap where it is undefined."""
    rates = windowed(stamps, window)
    at = extremes(rates, _POINTS)
    return name, at + window, [None if rate != rate else rate for rate in rates[at].tolist()]


def _logarithmic(figure: dict[str, Any]) -> dict[str, Any]:
    """Two messages that are found together make a rate over one of them that flattens all others."""
    figure["layout"]["yaxis"]["type"] = "log"
    return figure


def _thinned(numbers: Any, latency: Any) -> tuple[Any, Any]:
    at = extremes(latency, _POINTS)
    return numbers[at], latency[at]


def _lines(series: list[tuple[str, Any, Any]], x: str, y: str) -> dict[str, Any]:
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": np.asarray(a).tolist(),
            "y": b if isinstance(b, list) else np.asarray(b).tolist(),
        }
        for name, a, b in series
    ]
    return {"data": data, "layout": {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}}
