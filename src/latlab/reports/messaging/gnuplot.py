"""A messaging run's data and the script that draws the seven classic graphs with gnuplot; CSV of the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.formats.documents import write_text
from latlab.formats.trusted import to_write
from latlab.stats.thinning import extremes

__all__ = ["WINDOWS", "Size", "histogram", "per_message", "running", "write_csv", "write_gnuplot"]

Integers = npt.NDArray[np.int64]
Size = tuple[float, float, float, float]  # bytes a message, median latency in us, messages/s, bytes/s
WINDOWS = (1, 10, 100, 1000)
# More points than a screen has columns show nothing more; the histogram and the CSV have them all.
_POINTS = 50_000


def histogram(
    values: Integers, bins: int | None = None, overlap: float = 0.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Centres and counts of equally wide bins from the smallest value to p99.9, which a tail can't flatten.

    Args:
        bins: how many; None for the Freedman-Diaconis width (Z. Wahrscheinlichkeitstheorie 57 (1981)), 10
        to 500.
        overlap: what part of its width a bin shares with each neighbour, from 0 to below 1: smoother, same
        height.
    """
    if values.size == 0:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    ordered = np.sort(values)
    low, high = float(ordered[0]), float(ordered[min(ordered.size - 1, int(0.999 * ordered.size))])
    high = max(high, low + 1.0)
    if bins is None:
        spread = float(ordered[int(0.75 * (ordered.size - 1))] - ordered[int(0.25 * (ordered.size - 1))])
        width = 2 * spread / ordered.size ** (1 / 3)
        bins = int(np.clip(np.ceil((high - low) / width) if width > 0 else 10, 10, 500))
    width = (high - low) / bins
    centres: npt.NDArray[np.float64] = low + (np.arange(bins, dtype=np.float64) + 0.5) * width
    reach = width * (0.5 + overlap)
    left = np.searchsorted(ordered, centres - reach, side="left")
    right = np.searchsorted(ordered, centres + reach, side="left")
    right[-1] = np.searchsorted(ordered, high + reach - width / 2, side="right")
    return centres, (right - left).astype(np.int64)


def per_message(sent: Integers, received: Integers, window: int) -> dict[str, Any]:
    """By message: latency, both overheads over `window` messages in ns a message, the sign of L_n - L_{n-1}.

    Undefined for messages that did not arrive, for the first ones, and next to a gap; a masked array says so.
    """
    known = (sent >= 0) & (received >= 0)
    latency = np.ma.masked_array(received - sent, mask=~known)
    found: dict[str, Any] = {"latency_ns": latency}
    for name, at, there in (("so_ns", sent, sent >= 0), ("ro_ns", received, received >= 0)):
        overhead = np.ma.masked_array(np.zeros(at.size), mask=True)
        both = there[window:] & there[:-window] if window < at.size else np.zeros(0, dtype=bool)
        if both.size:
            overhead[window:] = np.ma.masked_array((at[window:] - at[:-window]) / window, mask=~both)
        found[name] = overhead
    sign = np.ma.masked_array(np.zeros(sent.size, dtype=np.int64), mask=True)
    if sent.size > 1:
        sign[1:] = np.ma.masked_array(np.sign(np.diff(received - sent)), mask=~(known[1:] & known[:-1]))
    found["sign"] = sign
    return found


def write_csv(path: Path, columns: Mapping[str, Any]) -> None:
    """One line a message, times in ns; -1 where one didn't arrive, nothing where a value is undefined."""
    with open(path, "w", newline="", encoding="utf-8", opener=to_write) as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(columns)
        # A masked value becomes None, and None an empty field.
        lines.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def write_gnuplot(
    folder: Path,
    *,
    sent: Integers,
    received: Integers,
    sizes: Sequence[Size],
    windows: Sequence[int] = WINDOWS,
    bins: int | None = None,
    overlap: float = 0.0,
    title: str = "",
    due: Integers | None = None,
) -> list[Path]:
    """Write data files and `plot.gp`, which draws seven PNG files beside them.

    Args:
        sent, received: ns by message, those that arrived.
        due: when each was due; latencies are from there. None for a load without a schedule.
        sizes: of a sweep; of one run: its one point.
    """
    folder.mkdir(parents=True, exist_ok=True)
    latency = received - (sent if due is None else due)
    rows = extremes(latency, _POINTS)
    _table(folder / "latency.dat", "n latency_us", rows, latency[rows] / 1e3)
    for window in windows:
        if window < sent.size:
            rates = [windowed(series, window) for series in (sent, np.sort(received))]
            at = np.union1d(*(extremes(one, _POINTS) for one in rates))
            _table(
                folder / f"throughput-{window}.dat", "n sending_per_s receiving_per_s", at + window,
                *(one[at] for one in rates),
            )  # fmt: skip
    centres, counts = histogram(latency, bins, overlap)
    _table(folder / "histogram.dat", "latency_us messages", centres / 1e3, counts)
    _table(
        folder / "sizes.dat",
        "bytes median_us messages_per_s bytes_per_s",
        *np.array(sizes, dtype=float).reshape(-1, 4).T,
    )
    _table(folder / "average.dat", "n average_us median_us", *running(latency))
    shown = [w for w in windows if w < sent.size]
    script = folder / "plot.gp"
    write_text(script, _script(shown, title.replace('"', "'"), int(sent.size), has_sizes=bool(sizes)))
    return sorted(folder.iterdir())


def windowed(stamps: Integers, window: int) -> npt.NDArray[np.float64]:
    """Messages a second over each window of so many messages; NaN where it takes no time."""
    apart = (stamps[window:] - stamps[:-window]).astype(np.float64)
    rates = np.full(apart.size, np.nan)
    np.divide(window * 1e9, apart, out=rates, where=apart > 0)
    return rates


def _table(path: Path, header: str, *columns: Any) -> None:
    text = io.StringIO()
    np.savetxt(
        text,
        np.column_stack(columns) if len(columns[0]) else np.zeros((0, len(columns))),
        fmt="%.9g",
        header=header,
    )
    write_text(path, text.getvalue())


def running(latency: Integers, blocks: int = 200) -> tuple[Any, Any, Any]:
    """Average and median of equal parts of the run: (the last message of each, average, median) in us."""
    parts = [part for part in np.array_split(latency, min(blocks, max(1, latency.size))) if part.size]
    at = np.cumsum([part.size for part in parts])
    average = np.array([part.mean() for part in parts]) / 1e3
    median = np.array([np.sort(part)[(part.size - 1) // 2] for part in parts]) / 1e3
    return at, average, median


def _plot(drawn: str) -> str:
    """A plot command; gnuplot refuses to draw nothing, and an empty graph says so."""
    if drawn:
        return f"plot {drawn}"
    return """set label 1 'too few messages' at graph 0.5, graph 0.5 center
plot [1:10] [1:10] NaN notitle
unset label 1"""


def _script(windows: Sequence[int], title: str, count: int, *, has_sizes: bool) -> str:
    middle = windows[len(windows) // 2] if windows else 1
    throughput = ", ".join(f"'throughput-{w}.dat' using 1:3 with lines title 'M = {w}'" for w in windows)
    both = (
        f"'throughput-{middle}.dat' using 1:2 with lines title 'sending', "
        "'' using 1:3 with lines title 'receiving'"
        if windows
        else ""
    )
    average = "'average.dat' using 1:2 with lines title 'average', '' using 1:3 with lines title 'median'"
    by_size = (
        "'sizes.dat' using 1:3 with linespoints title 'messages/s', "
        "'' using 1:4 axes x1y2 with linespoints title 'bytes/s'"
    )
    latency = "'latency.dat' using 1:2 with dots title 'latency'"
    histogram = "'histogram.dat' using 1:2 with boxes title 'latency'"
    zoom = max(1, count // 100)
    first = f"'latency.dat' using 1:2 with linespoints title 'the first {zoom} messages'"
    return f"""# gnuplot plot.gp: seven graphs of one messaging run.
set terminal pngcairo size 1000,600
set grid
set datafile missing 'nan'
set title "{title}"
set xlabel 'message'
set ylabel 'messages/s'
set logscale y
set output '1-throughput.png'
{_plot(throughput)}
unset logscale y
set ylabel 'latency, us'
set output '2-average-median.png'
{_plot(average if count else "")}
set xlabel 'bytes a message'
set ylabel 'messages/s'
set y2label 'bytes/s'
set y2tics
set logscale x
set key left
set output '3-sizes.png'
{_plot(by_size if has_sizes else "")}
unset logscale x
set key default
unset y2tics
unset y2label
set xlabel 'message'
set ylabel 'latency, us'
set output '4-latency.png'
{_plot(latency if count else "")}
set xlabel 'latency, us'
set ylabel 'messages'
set output '5-histogram.png'
{_plot(histogram if count else "")}
set xlabel 'message'
set ylabel 'messages/s'
set logscale y
set output '6-sender-receiver.png'
{_plot(both)}
unset logscale y
set ylabel 'latency, us'
set xrange [0:{zoom}]
set output '7-zoom.png'
{_plot(first if count else "")}
"""
