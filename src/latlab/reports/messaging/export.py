"""A messaging recording in other programs' formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from latlab.formats import documents
from latlab.messaging import latencies
from latlab.model.messaging.results import Measurement, Result
from latlab.reports.messaging.gnuplot import WINDOWS, Size, per_message, write_csv, write_gnuplot
from latlab.reports.messaging.json import result_json
from latlab.words import plural

__all__ = ["size_point", "write"]


def size_point(r: Result) -> list[Size]:
    """A run as a point of the curves against the size; none where nothing arrived."""
    rate = r.receiving_throughput.messages_per_s
    if r.latency is None or rate is None:
        return []
    return [(float(r.settings.size), float(r.latency.median) / 1e3, rate, rate * r.settings.size)]


def write(
    m: Measurement,
    result: Result,
    folder: Path,
    formats: Sequence[str],
    *,
    bins: int | None = None,
    overlap: float = 0.0,
    sizes: Sequence[Size] = (),
) -> list[Path]:
    """Write the formats, and say which files they are.

    Args:
        bins, overlap: of the histogram, as `latlab.reports.messaging.gnuplot.histogram` takes them.
        sizes: of a sweep, this run included; None of them stands for this run alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    numbers, latency = latencies(m)
    s = m.settings
    if "gnuplot" in formats:
        written += write_gnuplot(
            folder / "gnuplot",
            sent=m.sent_ns[s.warmup :][numbers],
            received=m.received_ns[s.warmup :][numbers],
            sizes=sizes or size_point(result),
            windows=sorted({*WINDOWS, s.window}),
            bins=bins,
            overlap=overlap,
            due=None if m.intended_ns is None else m.intended_ns[s.warmup :][numbers],
            title=f"{s.transport}, {plural(s.size, 'byte')}",
        )
    if "csv" in formats:
        columns = {"n": np.arange(s.total) - s.warmup, "sent_ns": m.sent_ns, "received_ns": m.received_ns}
        if m.intended_ns is not None:
            columns["intended_ns"] = m.intended_ns
        if m.kernel_ns is not None:
            columns["kernel_ns"] = m.kernel_ns
        columns.update(per_message(m.sent_ns, m.received_ns, s.window))
        write_csv(folder / "messages.csv", columns)
        written.append(folder / "messages.csv")
    if "hlog" in formats:
        written.append(_hlog(m, latency, folder / "latency.hlog"))
    if "json" in formats:
        documents.write(folder / "result.json", result_json(result))
        written.append(folder / "result.json")
    return written


def _hlog(m: Measurement, latency: np.ndarray[tuple[int], np.dtype[np.int64]], path: Path) -> Path:
    from latlab.formats.hdr.hlog import LogWriter
    from latlab.model.statistics.histogram import Histogram

    with LogWriter(path, comment=f"latlab messaging: {m.settings.transport}") as log:
        seconds = m.elapsed_ns / 1e9
        log.write(Histogram.of(latency), 0.0, seconds, tag="actual")
        if m.intended_ns is not None:
            arrived = m.received_ns >= 0
            arrived[: m.settings.warmup] = False
            log.write(Histogram.of((m.received_ns - m.intended_ns)[arrived]), 0.0, seconds, tag="intended")
    return path
