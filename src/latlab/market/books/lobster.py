"""The messages of a symbol and its best levels behind each, as files of LOBSTER's format.

Source: "LOBSTER output", lobsterdata.com/info/DataStructure.php: two CSV files without a header, whose k-th
lines belong together.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from latlab._core.market import Pipeline
from latlab.errors import InputError
from latlab.market.books.passes import Input, Tell, absent, check_levels, refuse, run, tell_census
from latlab.market.books.selection import MAX_NS, check_period
from latlab.market.files.output import create, guard, unwritable
from latlab.market.files.session_date import date_of
from latlab.market.wire.source import source_of


def lobster(
    path: Input,
    folder: str | PathLike[str],
    *,
    symbol: str,
    levels: int = 10,
    from_ns: int = 0,
    to_ns: int = MAX_NS,
    day: str | date | None = None,
    lenient: bool = False,
    tell: Tell = None,
) -> tuple[Path, Path, int]:
    """Write ``SYMBOL_DATE_FROM_TO_message_LEVELS.csv`` and ``..._orderbook_LEVELS.csv``.

    A message: seconds since midnight, type (1 submission, 2 partial cancellation, 3 deletion, 4 execution of
    a visible order, 5 of a hidden one, 6 cross, 7 halt), order, shares, price in 1/10,000, direction (1: the
    order that stands buys). A line of the book: ask price, ask size, bid price, bid size of each level;
    9999999999 and -9999999999 with size 0 where none stands. A replacement is a deletion and a submission.
    What changes none of the levels is in neither file.

    Args:
        path: as for `census`.
        folder: made if it isn't there.
        symbol: one.
        levels: the best so many.
        day: of the session, for the names; by default what the input's name says, else ``0000-00-00``.

    Returns:
        Both files, and their number of lines.

    Raises:
        InputError: the input is bad, has not the symbol, or a file can't be written.
        UsageError: arguments out of range.
    """
    check_levels(levels)
    check_period(from_ns, to_ns)
    source, target = source_of(path), Path(folder)
    named = date_of(source.path, day)
    end_ns = min(to_ns, 86_400_000_000_000)
    period = f"{from_ns // 1_000_000}_{end_ns // 1_000_000}"
    stem = f"{symbol}_{named.isoformat() if named else '0000-00-00'}_{period}"
    files = [target / f"{stem}_{kind}_{levels}.csv" for kind in ("message", "orderbook")]
    guard([path], files)
    pipeline = Pipeline.lobster(source.framing, lenient, levels, [symbol], from_ns, to_ns)
    lines = 0
    new = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        with create(files[0]) as messages, create(files[1]) as books:

            def write() -> None:
                nonlocal lines
                made: dict[str, Any] = dict(pipeline.take_lobster())
                lines += len(made["ts_ns"])
                messages.write(_messages(made))
                books.write(_rows(np.asarray(made["levels"]).reshape(-1, 4 * levels)))

            found = run(source, pipeline, lenient, write)
            refuse(source, found, lenient)
            if missing := absent(pipeline, (symbol,)):
                raise InputError(source.path, f"has no symbol {missing[0]}")
    except BaseException as error:
        if new:
            with suppress(OSError):
                target.rmdir()
        if isinstance(error, OSError):
            raise unwritable(target, error) from error
        raise
    tell_census(found, tell)
    return files[0], files[1], lines


def _messages(made: Any) -> bytes:
    names = ("ts_ns", "type", "ref", "qty", "price", "direction")
    rows = zip(*(np.asarray(made[name]).tolist() for name in names), strict=True)
    return "".join(
        f"{ts // 1_000_000_000}.{ts % 1_000_000_000:09d},{kind},{ref},{qty},{price},{direction}\n"
        for ts, kind, ref, qty, price, direction in rows
    ).encode()


def _rows(rows: Any) -> bytes:
    import io

    import pyarrow as pa
    import pyarrow.csv

    if not len(rows):
        return b""
    table = pa.table({str(i): pa.array(rows[:, i]) for i in range(rows.shape[1])})
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out, pyarrow.csv.WriteOptions(include_header=False))
    return out.getvalue()
