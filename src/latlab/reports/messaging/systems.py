"""One report over any number of messaging recordings: side by side, and curves of what belongs together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.formats.documents import dumps, write_text
from latlab.formats.recording import Recording
from latlab.model.machine.environment import differences
from latlab.model.messaging.results import Measurement, Result
from latlab.reports.html import Page
from latlab.reports.messaging.gnuplot import histogram
from latlab.reports.messaging.html import axis_unit
from latlab.reports.messaging.json import result_json
from latlab.reports.messaging.text import load
from latlab.reports.messaging.verdict import doubts, finding
from latlab.stats.quantiles import nearest_rank
from latlab.words import duration, rate, size

__all__ = ["Kept", "curves", "nines", "systems_json", "write_systems"]

_QUANTILES = ("p50", "p90", "p99", "p99.9")
# What a run is measured by, and how long: recordings that differ in it alone are of the same thing.
_ASIDE = ("messages", "warmup", "seed", "duration_s", "sample_every", "window", "counters", "timeout_s")


@dataclass(frozen=True)
class Kept:
    """One recording, with its latencies in ns, from the intended time where there is one."""

    name: str
    recording: Recording
    result: Result
    latency: npt.NDArray[np.int64]

    @classmethod
    def of(cls, name: str, recording: Recording, m: Measurement, result: Result) -> Kept:
        """Of a measurement."""
        since = m.sent_ns if m.intended_ns is None else m.intended_ns
        part = slice(m.settings.warmup, None)
        arrived = (m.received_ns[part] >= 0) & (m.sent_ns[part] >= 0)
        return cls(name, recording, result, (m.received_ns[part] - since[part])[arrived])


def nines(latency: npt.NDArray[np.int64]) -> list[tuple[float, int]]:
    """(1 / (1 - q), the q-quantile) at 1, 2, 5 a decade, as far as ten messages lie above it."""
    found = []
    for decade in range(9):
        for step in (1.0, 2.0, 5.0):
            out_of = step * 10.0**decade
            if 1.0 < out_of <= latency.size / 10:
                found.append((out_of, int(nearest_rank(latency, 1.0 - 1.0 / out_of))))
    return found


def curves(kept: Sequence[Kept], axis: str) -> list[list[Kept]]:
    """Groups of recordings that differ in `axis` alone, rising; a group has two points at least.

    What is of another transport, another machine or any other setting is another curve.

    Args:
        axis: a field of the settings, such as "size" or "rate_hz".
    """
    groups: dict[str, list[Kept]] = {}
    for one in kept:
        settings = {k: v for k, v in one.result.settings.to_json().items() if k not in (axis, *_ASIDE)}
        about = one.recording.environment
        machine = [about.get(name) for name in ("host.name", "cpu.model", "kernel.release")]
        key = dumps([sorted(settings.items()), one.result.wait, machine])
        groups.setdefault(key, []).append(one)

    def at(one: Kept) -> float:
        return float(getattr(one.result.settings, axis))

    rising = [sorted(group, key=at) for group in groups.values()]
    return [group for group in rising if len({at(one) for one in group}) > 1]


def systems_json(kept: Sequence[Kept]) -> dict[str, Any]:
    """The report's data: each recording's result, environment and nines, and which of them are a curve."""
    return {
        "recordings": [
            {
                "name": one.name,
                "result": result_json(one.result),
                "environment": one.recording.environment.to_json(),
                "nines": [{"out_of": out_of, "latency_ns": ns} for out_of, ns in nines(one.latency)],
            }
            for one in kept
        ],
        "curves": {
            axis: [[one.name for one in group] for group in curves(among, axis)]
            for axis, among in (("rate_hz", paced(kept)), ("size", kept))
        },
    }


def paced(kept: Sequence[Kept]) -> list[Kept]:
    """The recordings that have a place on the axis of the load."""
    return [one for one in kept if one.result.settings.load in ("rate", "poisson")]


def write_systems(folder: Path, kept: Sequence[Kept]) -> list[Path]:
    """Write `systems.html`, and `systems.gp` with its data, which draws the same curves with gnuplot."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_page(folder / "systems.html", kept), *_gnuplot(folder, kept)]


def _labels(groups: Sequence[Sequence[Kept]], axis: str) -> list[str]:
    """Each curve's name: its transport, and whatever else tells the curves of one figure apart."""
    about = []
    for group in groups:
        one, environment = group[0].result, group[0].recording.environment
        settings = {k: v for k, v in one.settings.to_json().items() if k not in (axis, *_ASIDE)}
        machine = {name: environment.get(name) for name in ("host.name", "cpu.model", "kernel.release")}
        about.append({**settings, "wait": one.wait, **settings["driver"], **machine})
    always = ("transport", "topology", "wait")
    names = [name for known in about for name in known if name not in (*always, "driver")]
    unlike = [name for name in dict.fromkeys(names) if len({str(known.get(name)) for known in about}) > 1]
    found = []
    for known in about:
        more = [f"{name} {known[name]}" for name in unlike if known.get(name) is not None]
        found.append(", ".join([*(str(known[name]) for name in always), *more]))
    return found


def _lines(series: Sequence[tuple[str, Any, Any]], x: str, y: str) -> dict[str, Any]:
    data = [
        {"type": "scatter", "mode": "lines+markers", "name": name, "x": list(a), "y": list(b)}
        for name, a, b in series
    ]
    axes = {"type": "log"}
    return {
        "data": data,
        "layout": {"xaxis": {"title": {"text": x}, **axes}, "yaxis": {"title": {"text": y}, **axes}},
    }


def _against(
    kept: Sequence[Kept], axis: str, value: Callable[[Kept], float | None], unit: float = 1.0
) -> list[tuple[str, list[float], list[float | None]]]:
    found = []
    groups = curves(kept, axis)
    for label, group in zip(_labels(groups, axis), groups, strict=True):
        x = [float(getattr(one.result.settings, axis)) for one in group]
        y = [value(one) for one in group]
        found.append((label, x, [None if v is None else v / unit for v in y]))
    return found


def _latency(quantile: str) -> Callable[[Kept], float | None]:
    def value(one: Kept) -> float | None:
        summary = one.result.intended_latency or one.result.latency
        return None if summary is None else float(summary.quantiles[quantile])

    return value


def _throughput(one: Kept) -> float | None:
    return one.result.receiving_throughput.messages_per_s


def _title(kept: Sequence[Kept]) -> str:
    """Between which p99 the recordings lie; which is faster, single recordings don't decide."""
    known = [(value, one.name) for one in kept if (value := _latency("p99")(one)) is not None]
    if len(known) < 2:
        return "Messaging, side by side"
    (low, fast), (high, slow) = min(known), max(known)
    return f"p99 from {duration(low)} ({fast}) to {duration(high)} ({slow})"


def _page(path: Path, kept: Sequence[Kept]) -> Path:
    page = Page("How fast do messages travel?", f"{len(kept)} recordings, latencies from the intended time")
    doubted = [one.name for one in kept if one.result.verdict.doubts]
    said = f"{len(doubted)} of {len(kept)} are not trustworthy: {', '.join(doubted)}." if doubted else ""
    told = said or ("The recordings are trustworthy." if len(kept) > 1 else "The recording is trustworthy.")
    page.verdict(f"{_title(kept)}.\n\n{told}", "warn" if doubted else "good")
    page.section("Recordings")
    rows = []
    for one in kept:
        r = one.result
        summary = r.intended_latency or r.latency
        values = [None if summary is None else summary.quantiles[q] for q in _QUANTILES]
        rows.append(
            [
                one.name, r.settings.transport, size(r.settings.size), load(r),
                *[duration(v) for v in values], rate(_throughput(one), "messages"),
                duration(r.cpu.total), r.lost,
            ]
        )  # fmt: skip
    head = ["", "transport", "size", "load", *_QUANTILES, "throughput", "CPU a message", "lost"]
    page.table(head, rows)
    said_of = [[one.name, " ".join([finding(one.result), *doubts(one.result)])] for one in kept]
    page.table(["", "verdict"], said_of)  # sentences want a table of their own
    page.section("Latency by nines")
    tails = _tails(kept)
    if tails:
        page.figure(
            _lines(tails, "1 / (1 − quantile)", "latency, µs"),
            "10 is p90, 1,000 is p99.9. A curve ends where fewer than ten messages lie above it.",
        )
    for one in kept:
        centres, counts = histogram(one.latency)
        ns, unit = axis_unit(one.result.intended_latency or one.result.latency)
        bars = {"type": "bar", "x": (centres / ns).tolist(), "y": counts.tolist()}
        layout = {"xaxis": {"title": {"text": f"latency, {unit}"}}, "yaxis": {"title": {"text": "messages"}}}
        page.figure({"data": [bars], "layout": layout}, f"{one.name}: histogram up to p99.9.", height=220)
    page.section("Curves", "Recordings are joined where they differ in one setting alone, on one machine.")
    drawn = False
    for title, x, y, series in _figures(kept):
        if series:
            page.figure(_lines(series, x, y), title)
            drawn = True
    if not drawn:
        page.paragraph("No two recordings differ only in their rate or only in their size.")
    page.section("Environments")
    first = kept[0].recording.environment
    for one in kept:
        about = one.recording.environment
        unlike = "; ".join(str(d) for d in differences(first, about)) or f"the same as {kept[0].name}'s"
        if one is kept[0]:
            unlike = "\n".join(f"{name}: {about[name]}" for name in about)
        names = ("cpu.model", "kernel.release", "cpu.governor")
        known = ", ".join(str(about.get(name)) for name in names if about.get(name) is not None)
        page.details(f"{one.name}: {known}", unlike)
    again = [one.recording.command for one in kept if one.recording.command]
    page.reproduce("\n".join(again), first, kept[0].recording.seed)
    return page.write(path)


def _tails(kept: Sequence[Kept]) -> list[tuple[str, list[float], list[float]]]:
    """Latency in us by nines, of every recording that has enough messages."""
    found = [(one.name, nines(one.latency)) for one in kept]
    return [(name, [x for x, _ in points], [y / 1e3 for _, y in points]) for name, points in found if points]


def _figures(kept: Sequence[Kept]) -> list[tuple[str, str, str, list[Any]]]:
    """(title, x, y, series) of every curve over several recordings."""
    at_a_rate = paced(kept)
    found = [
        (f"{q} against load.", "messages/s", "latency, µs", _against(at_a_rate, "rate_hz", _latency(q), 1e3))
        for q in _QUANTILES
    ]
    found.append(("Throughput against size.", "bytes", "messages/s", _against(kept, "size", _throughput)))
    cpu = _against(kept, "size", lambda one: one.result.cpu.total, 1e3)
    found.append(("CPU a message against size.", "bytes", "µs", cpu))
    return found


def _gnuplot(folder: Path, kept: Sequence[Kept]) -> list[Path]:
    """Data files and the script; each curve is a block of its own, so that none is joined with another."""
    script = ["# gnuplot systems.gp: curves over several messaging recordings.",
              "set terminal pngcairo size 1000,600", "set grid", "set logscale xy",
              "set datafile missing 'nan'"]  # fmt: skip
    tails = _tails(kept)
    plots: list[tuple[str, str, str, Any]] = [("nines", "1 / (1 - quantile)", "latency, us", tails)]
    for title, x, y, series in _figures(kept):
        plots.append((title.rstrip(".").lower().replace(" ", "-"), x, y.replace("µ", "u"), series))
    written = []
    for name, x, y, series in plots:
        if not series:
            continue
        data = folder / f"{name}.dat"
        blocks = []
        for label, xs, ys in series:
            rows = [
                f"{a:.9g} {'nan' if b is None else format(b, '.9g')}" for a, b in zip(xs, ys, strict=True)
            ]
            blocks.append("\n".join([f"# {label}", *rows]))
        write_text(data, "\n\n\n".join(blocks) + "\n")
        each = ", ".join(
            f"'{data.name}' index {i} using 1:2 with linespoints title \"{label.replace(chr(34), chr(39))}\""
            for i, (label, _, _) in enumerate(series)
        )
        script += [f"set xlabel '{x}'", f"set ylabel '{y}'", f"set output '{name}.png'", f"plot {each}"]
        written.append(data)
    path = folder / "systems.gp"
    write_text(path, "\n".join(script) + "\n")
    return [*written, path]
