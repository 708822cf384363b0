"""HdrHistogram's interval logs (`.hlog`) and percentile tables (`.hgrm`).

A log is text: comments (`#`), a legend, and one line per interval with an optional tag, its start in seconds,
its length, its largest value for a human eye, and the histogram in base64. Every version of payload is read,
0 to 2, of every version of log, 1.0 to 1.3; version 2 payloads in a 1.2 log are written, which everyone
reads.
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from latlab.errors import InputError
from latlab.formats.hdr.encoding import EncodingError, decode, encode
from latlab.formats.trusted import to_write
from latlab.model.statistics.histogram import MAX_VALUE, Histogram, most_digits

__all__ = [
    "Hgrm",
    "Log",
    "LogInterval",
    "LogWriter",
    "merged",
    "read_hgrm",
    "read_log",
    "write_hgrm",
]

_LEGEND = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'
_LONGEST_LINE = 1 << 26  # a histogram of all that 64 bits hold has a hundredth of it
_YEAR_S = 365 * 24 * 3600.0
_TIME = re.compile(r"#\[(StartTime|BaseTime):\s*([-+0-9.eE]+)[\s\]]")
_VERSION = re.compile(r"#\[Histogram log format version ([0-9.]+)\]")
_AGAIN = "copy the file again from where it was written"


@dataclass(frozen=True)
class LogInterval:
    """One line of a log.

    Attributes:
        start_s: when it began, in seconds since the epoch where the log tells (see `Log.absolute`), as
            written otherwise.
        length_s: how long it was.
        histogram: what was recorded; integer values, in whatever unit the log's writer used.
        tag: whose it is, or None.
        ratio: what a value is multiplied with: 1 but for double histograms.
        version: of the payload's encoding.
        line: of the file, from 1.
    """

    start_s: float
    length_s: float
    histogram: Histogram
    tag: str | None = None
    ratio: float = 1.0
    version: int = 2
    line: int = 0


@dataclass(frozen=True)
class Log:
    """A whole log.

    Attributes:
        intervals: its lines, in the order of the file.
        version: of the log's format, as it says itself; None where it doesn't.
        start_time_s: seconds since the epoch, or None.
        comments: the other comment lines, without their `#`.
    """

    intervals: tuple[LogInterval, ...]
    version: str | None
    start_time_s: float | None
    comments: tuple[str, ...]

    @property
    def tags(self) -> list[str | None]:
        """Every tag that occurs, in the order of first appearance; None stands for untagged lines."""
        return list(dict.fromkeys(interval.tag for interval in self.intervals))


def read_log(path: str | os.PathLike[str]) -> Log:
    """Read an interval log of any version.

    A time stamp that lies more than a year before the log's start time is relative to it, as HdrHistogram has
    it, unless the log states its base time.

    Raises:
        InputError: for a file that can't be read or is not a log, with the line.
    """
    source = Path(path)
    state = _Header()
    intervals: list[LogInterval] = []
    for number, line in enumerate(_lines(source), start=1):
        if line.startswith("#"):
            state.comment(line)
        elif line and not line.startswith('"'):
            try:
                intervals.append(_interval(line, number, state))
            except (EncodingError, ValueError) as error:
                raise InputError(source, str(error), place=f"line {number}", remedy=_AGAIN) from None
    if not intervals and state.version is None and state.start is None:
        raise InputError(source, "holds no line of a histogram log")
    return Log(tuple(intervals), state.version, state.start, tuple(state.comments))


def merged(intervals: Iterable[LogInterval]) -> Histogram:
    """All intervals in one histogram that has room for every one of them, with at least three digits.

    Where the lowest value is so large that 64 bits leave no room for three, there are as many as fit.
    Counts of a coarser histogram are placed as `Histogram.merge` says, so totals are those that
    HdrHistogram's own tools show for the same log.

    Raises:
        ValueError: without any interval, or when values of different scale would be mixed.
    """
    histograms, ratios = [], set()
    for interval in intervals:
        histograms.append(interval.histogram)
        ratios.add(interval.ratio)
    if not histograms:
        raise ValueError("there is no interval to merge")
    if len(ratios) > 1:
        raise ValueError("the intervals' values have different scales, so their counts can't be added")
    lowest = min(h.bins.lowest for h in histograms)
    total = Histogram(
        lowest,
        min(MAX_VALUE, max(max(h.bins.highest, int(h.bins.upper()[-1])) for h in histograms)),
        max(min(3, most_digits(lowest)), *(h.bins.digits for h in histograms)),
    )
    for histogram in histograms:
        total.merge(histogram)
    return total


class LogWriter:
    """Writes a log, line by line; a context manager. Every line is flushed: a killed run keeps what it wrote.

    Args:
        path: the file to make.
        start_time_s: when it begins, in seconds since the epoch: it is also the base of the lines' time
            stamps.
        comment: what made it.
        unit_ratio: what the human-readable largest value is divided by: a million shows nanoseconds as ms.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        start_time_s: float = 0.0,
        comment: str = "Logged with latlab",
        unit_ratio: float = 1e6,
    ) -> None:
        self._file: IO[str] = open(  # noqa: SIM115
            path, "w", encoding="utf-8", newline="\n", opener=to_write
        )
        self._base_s, self._ratio = start_time_s, unit_ratio
        self._file.write(f"#[{comment}]\n#[Histogram log format version 1.2]\n")
        if start_time_s:
            self._file.write(f"#[BaseTime: {start_time_s:.3f} (seconds since epoch)]\n")
            self._file.write(f"#[StartTime: {start_time_s:.3f} (seconds since epoch)]\n")
        self._file.write(_LEGEND + "\n")

    def write(self, histogram: Histogram, start_s: float, end_s: float, tag: str | None = None) -> None:
        """Write an interval.

        Args:
            histogram: what was recorded. Values beyond its bins have no place in a log; give it bins enough.
            start_s: when the interval began, on the time line of `start_time_s`.
            end_s: when it ended.
            tag: whose it is: no comma, blank or line break.

        Raises:
            ValueError: for a tag that would break the line, or values beyond the bins.
        """
        if tag is not None and (not tag or re.search(r"[,\s]", tag)):
            raise ValueError(f"a tag holds no comma, blank or line break, as '{tag}' does")
        if histogram.beyond:
            held = f"{histogram.beyond} values up to {histogram.largest_beyond}"
            raise ValueError(f"{held} are above the histogram's highest")
        largest = histogram.maximum / self._ratio if histogram.count else 0.0
        payload = base64.b64encode(encode(histogram)).decode("ascii")
        prefix = "" if tag is None else f"Tag={tag},"
        start = start_s - self._base_s
        self._file.write(f"{prefix}{start:.3f},{end_s - start_s:.3f},{largest:.3f},{payload}\n")
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True)
class Hgrm:
    """A percentile table.

    Attributes:
        values: as written (scaled by the writer), shape (rows,).
        quantiles: from 0 to 1, shape (rows,).
        totals: how many values lie at or below each, shape (rows,).
        mean: from the footer, or None.
        maximum: from the footer, or None.
        count: from the footer, or the last row's total.
    """

    values: NDArray[np.float64]
    quantiles: NDArray[np.float64]
    totals: NDArray[np.int64]
    mean: float | None
    maximum: float | None
    count: int


def write_hgrm(
    path: str | os.PathLike[str], histogram: Histogram, *, scale: float = 1.0, ticks_per_half: int = 5
) -> None:
    """Write a percentile table as HdrHistogram does, which its plotters read.

    Args:
        path: the file to make.
        histogram: not empty.
        scale: what values are divided by: 1000 shows nanoseconds as µs.
        ticks_per_half: rows per halving of the distance to 100 %.

    Raises:
        ValueError: for an empty histogram.
    """
    total = histogram.count
    rows = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
    values, counts = histogram.recorded()
    if histogram.beyond:
        values = np.append(values, histogram.largest_beyond)
        counts = np.append(counts, histogram.beyond)
    if total == 0:
        raise ValueError("an empty histogram has no percentiles")
    running = np.cumsum(counts)
    for share in _percentile_steps(running, total, ticks_per_half):
        index = min(int(np.searchsorted(running, math.ceil(share * total - 1e-9))), len(values) - 1)
        value, count = values[index] / scale, int(running[index])
        inverse = f"{1 / (1 - share):14.2f}" if share < 1 else ""
        rows.append(f"{value:12.3f} {share:2.12f} {count:10d} {inverse}".rstrip())
    mean, deviation = histogram.mean() / scale, histogram.standard_deviation() / scale
    rows.append(f"#[Mean    = {mean:12.3f}, StdDeviation   = {deviation:12.3f}]")
    rows.append(f"#[Max     = {histogram.maximum / scale:12.3f}, Total count    = {total:12d}]")
    buckets = (histogram.bins.size >> histogram.bins.half_magnitude) - 1
    rows.append(f"#[Buckets = {buckets:12d}, SubBuckets     = {2 << histogram.bins.half_magnitude:12d}]")
    with open(path, "w", encoding="utf-8", opener=to_write) as file:
        file.write("\n".join(rows) + "\n")


def read_hgrm(path: str | os.PathLike[str]) -> Hgrm:
    """Read a percentile table, of blanks or of commas.

    Raises:
        InputError: for a file that can't be read or is no such table, with the line.
    """
    source = Path(path)
    rows: list[tuple[float, float, int]] = []
    footer: dict[str, float] = {}
    for number, line in enumerate(_lines(source), start=1):
        text = line.strip().replace(",", " ") if not line.startswith("#") else line
        if text.startswith("#"):
            found = re.findall(r"([A-Z][A-Za-z ]*?)\s*=\s*([-+0-9.eE]+)", text)
            footer.update({name.strip(): number_of(source, number, value) for name, value in found})
        elif text and not text.lstrip('"').startswith("Value"):
            cells = text.split()
            if len(cells) < 3:
                raise InputError(source, "not a row of a percentile table", place=f"line {number}")
            value, share, total = (number_of(source, number, cell) for cell in cells[:3])
            if not 0 <= share <= 1:
                raise InputError(source, f"a share of {share}", place=f"line {number}")
            rows.append((value, share, int(total)))
    if not rows:
        raise InputError(source, "holds no row of a percentile table")
    values, shares, totals = zip(*rows, strict=True)
    return Hgrm(
        values=np.array(values),
        quantiles=np.array(shares),
        totals=np.array(totals, dtype=np.int64),
        mean=footer.get("Mean"),
        maximum=footer.get("Max"),
        count=int(footer.get("Total count", totals[-1])),
    )


def number_of(source: Path, line: int, text: str) -> float:
    """A finite number of a text file, or an InputError with its line."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or abs(value) > 2.0**63:
        raise InputError(source, f"'{text[:40]}' is not a valid number here", place=f"line {line}")
    return value


class _Header:
    """What a log's comments have said so far."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.start: float | None = None
        self.base: float | None = None
        self.comments: list[str] = []

    def comment(self, line: str) -> None:
        if found := _VERSION.match(line):
            self.version = found[1]
        elif found := _TIME.match(line):
            try:
                value = float(found[2])
            except ValueError:
                value = math.nan
            # A start beyond any date is a damaged comment, and a comment does not spoil the counts.
            if not math.isfinite(value) or abs(value) > 1e11:
                return
            if found[1] == "StartTime":
                self.start = value
            else:
                self.base = value
        else:
            self.comments.append(line[1:].strip())

    def absolute(self, stamp: float) -> float:
        if self.base is None:
            relative = self.start is not None and stamp < self.start - _YEAR_S
            self.base = self.start if relative else 0.0
        return stamp + (self.base or 0.0)


def _interval(line: str, number: int, state: _Header) -> LogInterval:
    tag = None
    if line.startswith("Tag="):
        name, _, line = line.partition(",")
        tag = name[4:]
    cells = line.split(",")
    if len(cells) != 4:
        raise ValueError(f"{len(cells)} fields where an interval has 4")
    start, length, _largest = (float(cell) for cell in cells[:3])
    if not (math.isfinite(start) and math.isfinite(length) and abs(start) < 1e12 and 0 <= length < 1e12):
        raise ValueError(f"'{cells[0]},{cells[1]}' is not an interval of time")
    try:
        data = base64.b64decode(cells[3].strip(), validate=True)
    except binascii.Error as error:
        raise ValueError(f"the histogram is not base64 ({error})") from None
    decoded = decode(data)
    at = state.absolute(start)
    return LogInterval(at, length, decoded.histogram, tag, decoded.ratio, decoded.version, number)


def _lines(source: Path) -> Iterator[str]:
    try:
        with open(source, encoding="utf-8", errors="strict", newline=None) as file:
            while line := file.readline(_LONGEST_LINE):
                if len(line) == _LONGEST_LINE:
                    raise InputError(source, f"has a line of more than {_LONGEST_LINE:,} characters")
                yield line.rstrip("\n")
    except UnicodeDecodeError as error:
        raise InputError(source, "not text", place=f"offset {error.start}") from None
    except OSError as error:
        raise InputError(source, f"can't be read ({error.strerror})") from None


def _percentile_steps(running: NDArray[np.int64], total: int, per_half: int) -> Iterator[float]:
    """The shares that a table shows: ever finer towards 1, and no finer than the counts are."""
    share, last = 0.0, -1
    while True:
        index = int(np.searchsorted(running, max(1, math.ceil(share * total - 1e-9))))
        yield share
        # Once the last value is reached, finer steps would repeat it.
        if (index >= len(running) - 1 and last == index) or share >= 1:
            break
        last = index
        halvings = 2 ** (int(math.log2(1 / (1 - share))) + 1)
        share = min(1.0, share + 1 / (per_half * halvings))
        if 1 - share < 0.5 / total:
            break
    if share < 1:
        yield 1.0
