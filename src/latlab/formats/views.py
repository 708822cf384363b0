"""The readers that `latlab show` asks about the formats of this floor: recordings, interval logs, percentile
tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from latlab.formats.hdr import hlog
from latlab.formats.recording import is_recording, open_recording
from latlab.model.shown import Reader, Shown, Table
from latlab.model.statistics.histogram import Histogram
from latlab.words import duration, plural

__all__ = ["HGRM", "HLOG", "RECORDING"]

_QUANTILES = ((50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99.9"))


def _show_recording(path: Path) -> Shown:
    recording = open_recording(path)
    series: dict[str, dict[str, Any]] = {}
    for name in recording.names():
        table = recording.series(name)
        series[name] = {"rows": table.num_rows, "columns": list(table)}
        if left := recording.unfinished_bytes(name):
            series[name]["unfinished_bytes"] = left
    document = {
        "kind": recording.kind,
        "version": recording.version,
        "complete": recording.complete,
        "started_at": recording.started_at,
        "finished_at": recording.finished_at,
        "command": recording.command,
        "seed": recording.seed,
        "parameters": recording.parameters,
        "series": series,
        "documents": recording.documents(),
        "environment": {"summary": recording.environment.summary(), **recording.environment.to_json()},
    }
    state = "complete" if recording.complete else "incomplete: its run was killed or is still writing"
    facts = [
        ("started", recording.started_at),
        ("state", state),
        ("command", recording.command),
        ("seed", recording.seed),
        ("environment", recording.environment.summary()),
        ("jitter floor", recording.environment.floor()),
        ("documents", ", ".join(recording.documents()) or None),
    ]
    rows = [(name, s["rows"], ", ".join(s["columns"])) for name, s in series.items()]
    tables = [Table("", ("", ""), facts)]
    if rows:
        tables.append(Table("Series", ("series", "rows", "columns"), rows))
    return Shown(f"a recording of {recording.kind}", document, tables)


def _show_log(path: Path) -> Shown:
    log = hlog.read_log(path)
    rows = []
    by_tag: dict[str, dict[str, Any]] = {}
    for tag in log.tags:
        intervals = [interval for interval in log.intervals if interval.tag == tag]
        found = _totals(intervals)
        rows.append(
            (tag or "–", len(intervals), *(found[k] for k in ("count", "p50", "p99", "p99.9", "max")))
        )
        by_tag[tag or ""] = {"histograms": len(intervals), **found}
    document = {
        "format": "hlog",
        "log_version": log.version,
        "encodings": sorted({interval.version for interval in log.intervals}),
        "start_time_s": log.start_time_s,
        "histograms": len(log.intervals),
        **_totals(log.intervals),
        "by_tag": by_tag,
    }
    columns = ("tag", "histograms", "count", "p50", "p99", "p99.9", "max")
    span = sum(interval.length_s for interval in log.intervals)
    held = plural(len(log.intervals), "interval")
    what = f"a histogram log of {held}, {duration(1e9 * span)}, values in the log's own unit"
    return Shown(what, document, [Table("", columns, rows)])


def _totals(intervals: Sequence[hlog.LogInterval]) -> dict[str, Any]:
    """Counts and quantiles of all intervals; None where there is nothing to rank, or scales are mixed."""
    names = [name for _, name in _QUANTILES]
    ratios = {interval.ratio for interval in intervals}
    total = hlog.merged(intervals) if len(ratios) == 1 else Histogram()
    count = sum(interval.histogram.count for interval in intervals)
    if total.count == 0:
        return {"count": count, **dict.fromkeys([*names, "max"])}
    (ratio,) = ratios
    values = {name: _scaled(total.percentile(percent), ratio) for percent, name in _QUANTILES}
    return {"count": count, **values, "max": _scaled(total.maximum, ratio)}


def _scaled(value: int, ratio: float) -> float:
    # An integer histogram's values stay integers: 1745879039 and not 1745879039.0.
    return value if ratio == 1.0 else value * ratio


def _show_table(path: Path) -> Shown:
    table = hlog.read_hgrm(path)
    found = {name: float(table.values[table.quantiles >= percent / 100][0]) for percent, name in _QUANTILES}
    largest = float(table.values[-1]) if table.maximum is None else table.maximum
    document = {"format": "hgrm", "rows": len(table.values), "count": table.count, **found, "max": largest}
    rows = [(table.count, *found.values(), largest)]
    return Shown(
        "a percentile table", document, [Table("", ("count", *(name for _, name in _QUANTILES), "max"), rows)]
    )


def _is_log(path: Path, head: bytes) -> bool:
    marks = (b"#[Histogram log format", b'"StartTimestamp"', b",HIST")
    return path.suffix == ".hlog" or any(mark in head for mark in marks)


def _is_table(path: Path, head: bytes) -> bool:
    first = head.lstrip().split(b"\n", 1)[0]
    return path.suffix == ".hgrm" or (b"Value" in first and b"Percentile" in first)


RECORDING = Reader("recordings (folders)", lambda path, head: is_recording(path), _show_recording)
HLOG = Reader("HdrHistogram logs (.hlog)", _is_log, _show_log)
HGRM = Reader("percentile tables (.hgrm)", _is_table, _show_table)
