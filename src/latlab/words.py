"""How latlab writes quantities and tables: one way for each, in the whole product.

A time has three significant digits and the unit that reads best, a share is in per cent with a space before
the sign, a count has its thousands apart. Tables stay plain where nobody wants colour.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

__all__ = [
    "cells",
    "count",
    "count_of",
    "duration",
    "duration_interval",
    "duration_of",
    "frequency",
    "limit",
    "nearest",
    "number",
    "period",
    "plural",
    "printable",
    "rate",
    "relative",
    "right_aligned",
    "seconds",
    "share",
    "share_of",
    "short",
    "size",
    "sureness",
    "table",
    "unit_of",
    "wants_style",
]


class TextStream(Protocol):
    """Where text goes to: what is asked of it is whether somebody watches."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""


def wants_style(stream: TextStream, environment: Mapping[str, str] | None = None) -> bool:
    """Whether colour and box drawing are welcome: on a terminal, unless NO_COLOR or TERM=dumb asks for
    none."""
    variables = os.environ if environment is None else environment
    # https://no-color.org: present and not empty, whatever its value.
    if variables.get("NO_COLOR") or variables.get("TERM") == "dumb":
        return False
    return stream.isatty()


def printable(text: str) -> str:
    """Somebody else's text as a terminal may have it: "?" for what steers one; line ends and tabs stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else "?" for one in text)


def duration(ns: float | None, *, digits: int = 3) -> str:
    """Nanoseconds in the unit that reads best: "850 ns", "12.3 µs", "4.56 ms", "1.2 s"; "–" for None or
    NaN."""
    if ns is None or ns != ns:
        return "–"
    size = abs(ns)
    for limit, unit in ((1e3, "ns"), (1e6, "µs"), (1e9, "ms")):
        # Half a unit in the last place below the limit would be written as the limit itself.
        if size < limit * (1 - 0.5 * 10**-digits):
            return f"{_significant(ns / (limit / 1e3), digits)} {unit}"
    return f"{_significant(ns / 1e9, digits)} s"


def seconds(value: float) -> str:
    """A time that is known in seconds, as `duration` writes it: "3 s", "250 ms"; at an end "0 s"."""
    return duration(1e9 * value) if value else "0 s"


def frequency(hz: float, *, digits: int = 3) -> str:
    """A frequency in the unit that reads best: "250 Hz", "2.4 GHz"."""
    for scale, unit in ((1e9, "GHz"), (1e6, "MHz"), (1e3, "kHz")):
        if abs(hz) >= scale:
            return f"{_significant(hz / scale, digits)} {unit}"
    return f"{_significant(hz, digits)} Hz"


def duration_interval(value: float, low: float | None, high: float | None) -> str:
    """A time with its interval: "1.2 ms [1.1 ms, 1.3 ms]"; without bounds the time alone."""
    if low is None or high is None:
        return duration(value)
    return f"{duration(value)} [{duration(low)}, {duration(high)}]"


def unit_of(ns: float) -> tuple[float, str]:
    """The unit for an axis whose largest time is `ns`: how many ns it is, and its name."""
    for scale, unit in ((1.0, "ns"), (1e3, "µs"), (1e6, "ms")):
        if abs(ns) < 1e3 * scale:
            return scale, unit
    return 1e9, "s"


def count(value: float | None) -> str:
    """A number of things with its thousands apart: "1,234,567"; "–" for None."""
    return "–" if value is None else f"{value:,.0f}"


def short(value: float) -> str:
    """A number of things where little room is: "9,999", "12.3 k", "1.5 M", "2 G"."""
    for least, scale, prefix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            return f"{_significant(value / scale, 3)} {prefix}"
    return f"{value:,.0f}"


def rate(per_s: float | None, unit: str) -> str:
    """Things a second, in three digits: "12 messages/s", "1.5 Mmessages/s"; "undefined" for None."""
    if per_s is None:
        return "undefined"
    for prefix, scale in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if per_s >= 0.9995 * scale:  # three digits of it are those of the scale
            return f"{per_s / scale:.3g} {prefix}{unit}/s"
    return f"{per_s:.3g} {unit}/s"


def period(ns: float) -> str:
    """The length of something periodic, to a thousandth of its unit: "4.000 ms"; who compares it with a
    clock's rate needs its zeros."""
    return f"{ns / 1e6:.3f} ms" if ns < 1e9 else f"{ns / 1e9:.3f} s"


def number(value: float | None) -> str:
    """A number that need not be whole, in three digits: "0.25", "3", "33,016"; "–" for None or NaN."""
    return "–" if value is None or value != value else _significant(value, 3)


def share(value: float | None, *, digits: int = 1, signed: bool = False) -> str:
    """A share as per cent: 0.123 is "12.3 %", `signed` "+12.3 %"; "–" for None or NaN."""
    sign = "+" if signed else ""
    return "–" if value is None or value != value else f"{100 * value:{sign}.{digits}f} %"


def sureness(confidence: float) -> str:
    """A confidence; where all resamples gave one name it is a lower bound, and said to be one."""
    return f"{'at least ' if _CAPPED <= confidence < 1 else ''}{share(confidence, digits=0)}"


def relative(value: float | None, *, digits: int = 3, signed: bool = False) -> str:
    """A relative difference as per cent, in significant digits: 0.5117 is "51.2 %", `signed` "+51.2 %"; "–"
    for None or NaN."""
    if value is None or value != value:
        return "–"
    return f"{'+' if signed and value > 0 else ''}{_significant(100 * value, digits)} %"


def size(value: float | None) -> str:
    """An amount of bytes in binary units: "512 B", "1.5 KiB", "64 MiB"; "–" for None or NaN."""
    if value is None or value != value:
        return "–"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{_significant(amount, 3)} {unit}"


def nearest(given: str, known: Iterable[str]) -> str:
    """The remedy for a name that nobody knows: "did you mean 'list'?", or nothing where none is like it."""
    import difflib  # seldom needed, and `--help` waits for every import

    near = difflib.get_close_matches(given, list(known), n=1)
    return f"did you mean '{near[0]}'?" if near else ""


def plural(number: int, one: str, many: str = "") -> str:
    """A count with its noun: "1 event", "1,234 events", "2 queues"."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


_CAPPED = 0.99  # what 400 resamples without an exception tell (3 / n, the "rule of three")
_LIMITS = {"cpu": "the CPUs", "scheduler": "the scheduler", "burst": "bursts"}


def limit(name: str, mark: str = "") -> str:
    """What limits a run: a stage's name, between marks, or what its verdict stands for: "the CPUs"."""
    return _LIMITS.get(name, f"{mark}{name}{mark}")


_TIMES_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000}
_SIZES = {"": 1, "b": 1, "k": 1000, "kb": 1000, "m": 10**6, "mb": 10**6, "g": 10**9, "gb": 10**9,
          "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}  # fmt: skip


def duration_of(text: str) -> int:
    """Nanoseconds of a time as it is written: "100us", "1.5 ms", "2s", "3m".

    Raises:
        ValueError: it isn't one.
    """
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(ns|us|µs|ms|s|m)", text.strip())
    if found is None:
        raise ValueError(f"'{text}' isn't a duration; write 100us, 1ms or 2s")
    return round(float(found[1]) * _TIMES_NS[found[2]])


def share_of(text: str) -> float:
    """A share as it is written: "2 %", "2%" and "0.02" are 0.02.

    Raises:
        ValueError: it isn't one.
    """
    number, percent = text.strip().removesuffix("%").strip(), text.strip().endswith("%")
    if re.fullmatch(r"[0-9]*\.?[0-9]+(e-?[0-9]+)?", number) is None:
        raise ValueError(f"'{text}' isn't a share; write 2% or 0.02")
    return float(number) / (100 if percent else 1)


def count_of(text: str) -> int:
    """A number of things or of bytes as it is written: "64", "1k", "1M", "64MiB".

    Raises:
        ValueError: it isn't one.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)", text.strip())
    if found is None or found[2].lower() not in _SIZES:
        raise ValueError(f"'{text}' isn't a size or count; write 64, 1k or 64MiB")
    return round(float(found[1]) * _SIZES[found[2].lower()])


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    title: str | None = None,
    styled: bool = False,
    width: int | None = None,
) -> str:
    """A table: columns of numbers right-aligned, the others left.

    Args:
        columns: the headings.
        rows: one sequence per row, as long as `columns`; None is shown as "–".
        title: a line above it.
        styled: with box drawing and colour, for a terminal (see `wants_style`).
        width: of the terminal, where styled; wide cells are wrapped to it.

    Raises:
        ValueError: when a row is longer or shorter than the columns.
    """
    texts, right = cells(columns, rows), right_aligned(columns, rows)
    if styled:
        return _boxed(columns, texts, right, title, width)
    widths = [max(len(text) for text in (name, *(row[i] for row in texts))) for i, name in enumerate(columns)]
    lines = [] if title is None else [title]
    heading = [list(columns), ["-" * width for width in widths]] if any(columns) else []
    for row in [*heading, *texts]:
        aligned = (t.rjust(w) if r else t.ljust(w) for t, w, r in zip(row, widths, right, strict=True))
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)


def cells(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[str]]:
    """The text of every cell of a table.

    Raises:
        ValueError: when a row is longer or shorter than the columns.
    """
    for row in rows:
        if len(row) != len(columns):
            raise ValueError(f"a row of {len(row)} cells under {len(columns)} columns")
    return [[_cell(value) for value in row] for row in rows]


def right_aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[bool]:
    """Which columns read as numbers: they are, or their texts begin with a digit."""
    return [_is_numeric([row[i] for row in rows]) for i in range(len(columns))]


def _boxed(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Sequence[bool],
    title: str | None,
    width: int | None,
) -> str:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.show_header = any(columns)
    for name, is_right in zip(columns, right, strict=True):
        drawn.add_column(Text(name), justify="right" if is_right else "left", header_style="bold cyan")
    for row in rows:
        # Text and not markup: a queue may well be called "[red]".
        drawn.add_row(*(Text(cell) for cell in row))
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=width).print(drawn)
    return out.getvalue().rstrip("\n")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "–" if value != value else _significant(value, 4)
    return printable(" ".join(str(value).split()))


_LONGEST_QUANTITY = 32  # characters


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [(value, text) for value in values if (text := _cell(value)) not in ("–", "")]
    return bool(known) and all(
        (isinstance(value, int | float) and not isinstance(value, bool)) or _begins_with_digit(text)
        for value, text in known
    )


def _begins_with_digit(text: str) -> bool:
    quantity = len(text.split("[")[0]) <= _LONGEST_QUANTITY  # more is a sentence that begins with a number
    return quantity and text.lstrip("-+±<>≤≥~ ")[:1].isdigit()


def _significant(value: float, digits: int) -> str:
    """So many significant digits, without an exponent in the range that a human reads."""
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    whole = len(str(int(abs(value)))) if abs(value) >= 1 else 0
    if whole >= digits:
        return f"{value:,.0f}"
    return f"{float(f'{value:.{digits}g}'):.12f}".rstrip("0").rstrip(".")
