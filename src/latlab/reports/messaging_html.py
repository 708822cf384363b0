"""A messaging run as one HTML page in which one can zoom."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from latlab.formats.recording import Recording
from latlab.messaging import latencies
from latlab.model.messaging import Measurement, Result
from latlab.reports.html import Page
from latlab.reports.messaging_gnuplot import histogram
from latlab.reports.messaging_text import rate
from latlab.reports.text import duration

__all__ = ["write_html"]

# What a browser draws smoothly; the largest value of each part is kept, so that no peak is lost.
_POINTS = 20_000


def write_html(
    path: Path,
    m: Measurement,
    r: Result,
    recording: Recording,
    *,
    bins: int | None = None,
    overlap: float = 0.0,
) -> Path:
    """Write the page."""
    s = m.settings
    page = Page(
        "How fast do messages travel?", f"{r.facts.title}, {s.size} bytes a message, {s.topology}, {r.wait}"
    )
    median = (
        "nothing arrived"
        if r.latency is None
        else f"half of all messages take {duration(r.latency.median)} or less"
    )
    tone: Literal["bad", "warn", "good"] = (
        "bad" if r.partial or not r.received else "warn" if r.lost or r.stability == "rising" else "good"
    )
    page.verdict(
        f"{median[0].upper()}{median[1:]}; {r.lost} of {r.sent} were lost; the latency is {r.stability}.",
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
    at, kept = _thinned(numbers, latency)
    page.figure(_lines([("latency", at, kept / 1e3)], "message", "latency, us"), "Latency by message.")
    centres, counts = histogram(latency, bins, overlap)
    bars = {"type": "bar", "x": (centres / 1e3).tolist(), "y": counts.tolist(), "name": "messages"}
    layout = {"xaxis": {"title": {"text": "latency, us"}}, "yaxis": {"title": {"text": "messages"}}}
    humps = ", ".join(f"{duration(h.at_ns)} ({h.weight:.0%})" for h in r.humps)
    page.figure(
        {"data": [bars], "layout": layout}, f"Histogram up to p99.9; {len(r.humps)} hump(s): {humps}."
    )
    page.section("Throughput")
    both = (("sending", r.sending_throughput), ("receiving", r.receiving_throughput))
    page.table(
        ["", "messages", "bytes"],
        [[name, rate(t.messages_per_s, "messages"), rate(t.bytes_per_s, "B")] for name, t in both],
    )
    series = []
    sent, received = m.sent_ns[s.warmup :][numbers], np.sort(m.received_ns[s.warmup :][numbers])
    if s.window < sent.size:
        step = np.arange(s.window, sent.size, max(1, sent.size // _POINTS))
        for name, stamps in (("sending", sent), ("receiving", received)):
            apart = np.maximum(stamps[step] - stamps[step - s.window], 1)
            series.append((name, step, s.window * 1e9 / apart))
        page.figure(_lines(series, "message", "messages/s"), f"Over windows of {s.window} messages.")
    page.reproduce(recording.command, recording.environment, recording.seed, recording.parameters)
    return page.write(path)


def _thinned(numbers: Any, latency: Any) -> tuple[Any, Any]:
    if latency.size <= _POINTS:
        return numbers, latency
    starts = np.arange(0, latency.size, -(-latency.size // _POINTS))
    return numbers[starts], np.maximum.reduceat(latency, starts)


def _lines(series: list[tuple[str, Any, Any]], x: str, y: str) -> dict[str, Any]:
    data = [
        {
            "type": "scattergl",
            "mode": "lines",
            "name": name,
            "x": np.asarray(a).tolist(),
            "y": np.asarray(b).tolist(),
        }
        for name, a, b in series
    ]
    return {"data": data, "layout": {"xaxis": {"title": {"text": x}}, "yaxis": {"title": {"text": y}}}}
