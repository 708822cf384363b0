"""Tables for research: trades, books at times or at every change, bars; whole, or batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from latlab._core.market import Pipeline
from latlab.errors import InputError, UsageError
from latlab.market.books.bounded import ReadStep, gathered, in_parts
from latlab.market.books.passes import (
    Input,
    Tell,
    absent,
    census_of,
    check_levels,
    inside_table,
    refuse,
    symbol_column,
    tell_census,
    write_inside,
)
from latlab.market.books.selection import MAX_NS, Selecting, Selection, symbol_list
from latlab.market.files.open import Source
from latlab.market.files.session_date import date_of, with_time
from latlab.market.wire.source import source_of
from latlab.model.market import FeedError, Written
from latlab.words import duration

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class TableStream:
    """Arrow tables of one schema, made as they are asked for: an iterator over them, in bounded memory.

    The census is there when the input has been read to its end; a strict reading raises at its first error.
    """

    _tables: Iterator[pa.Table]

    def __iter__(self) -> Iterator[pa.Table]:
        return self._tables

    def read(self) -> pa.Table:
        """All that is left, as one table."""
        import pyarrow as pa

        return pa.concat_tables(list(self._tables))

    def reader(self) -> pa.RecordBatchReader:
        """The same for whoever takes Arrow's stream (polars, DuckDB, a writer of Parquet)."""
        import pyarrow as pa

        first = next(self._tables)

        def batches() -> Iterator[pa.RecordBatch]:
            yield from first.to_batches()
            for table in self._tables:
                yield from table.to_batches()

        return pa.RecordBatchReader.from_batches(first.schema, batches())


def stream(
    source: Source,
    pipeline: Pipeline,
    take: Callable[[], pa.Table],
    part: Selection,
    *,
    tell: Tell = None,
    dense: bool = False,
) -> Iterator[pa.Table]:
    """A table for each piece of the input; the first may be empty, and gives the schema.

    Args:
        dense: rows come by the time that passes, and not by the bytes: a piece that makes too many at once is
            taken in parts.

    Raises:
        InputError: the input is bad and the reading strict; what came before was yielded.
    """
    torn: list[FeedError] = []
    yielded, step = False, ReadStep()
    try:
        with source.pieces() as pieces:
            for part_of_piece in in_parts(pieces, step) if dense else pieces:
                pipeline.feed(part_of_piece)
                table = take()
                step.fit(table.num_rows)
                if table.num_rows:
                    yielded = True
                    yield table
                if pipeline.over:
                    break
    except InputError as error:
        torn.append(FeedError(pipeline.counts()["offset"], error.what))
    pipeline.finish()
    table = take()
    if table.num_rows or not yielded:
        yield table
    found = census_of(source, pipeline, torn, absent(pipeline, part.symbols))
    refuse(source, found, part.lenient)
    tell_census(found, tell)


def inside_stream(
    path: Input, *, levels: int = 1, tell: Tell = None, **selection: Unpack[Selecting]
) -> TableStream:
    """Every true change of the inside, as Arrow tables that are made while the input is read.

    Args:
        path: as for `census`.
        levels: the best so many levels.
        tell: is given the census at the end; without it damage is a `DamagedInputWarning`.
        selection: what is read, as the fields of a `Selection`.

    Returns:
        Columns ts_ns, locate, symbol, bid_px, bid_qty, offer_px, offer_qty (and those of further levels).
    """
    check_levels(levels)
    part = Selection(**selection)
    source, when = source_of(path), session_date(path, part.day)
    pipeline = Pipeline.inside(
        source.framing, part.lenient, "ladder", 8192, levels, False, 0, *part.for_core()
    )
    take = lambda: with_time(inside_table(pipeline, levels), when, pipeline.first_day_rows)  # noqa: E731
    return TableStream(stream(source, pipeline, take, part, tell=tell))


@overload
def inside(path: Input, output: None = None, **options: Any) -> pa.Table: ...
@overload
def inside(path: Input, output: str | PathLike[str], **options: Any) -> Written: ...
def inside(path: Input, output: str | PathLike[str] | None = None, **options: Any) -> pa.Table | Written:
    """Every true change of the inside, and none that is not: as a table, or written to a file.

    Args:
        path: as for `census`.
        output: a file, see `write_inside`; without it the changes are returned.
        options: of `inside_stream`, or of `write_inside`.
    """
    if output is not None:
        return write_inside(path, output, **options)
    return inside_stream(path, **options).read()


def trade_stream(path: Input, *, tell: Tell = None, **selection: Unpack[Selecting]) -> TableStream:
    """As `trades`, batch by batch. The input is read twice: a trade is broken long after it was made.

    Raises:
        UsageError: the input is a pipe or a feed, which can be read once only.
    """
    part = Selection(**selection)
    source, when = source_of(path), session_date(path, part.day)
    if source.once or source.live:
        raise UsageError("trades of a pipe or a feed can't be streamed: use trades(), or a file")
    args = part.for_core()
    first = Pipeline.trades(source.framing, True, [""], MAX_NS, MAX_NS)
    broken: list[Any] = []

    def breaks() -> pa.Table:
        broken.append(first.take_broken())
        return _trade_table(first)

    for _ in stream(source, first, breaks, Selection(lenient=True), tell=lambda census: None):
        pass
    pipeline = Pipeline.trades(source.framing, part.lenient, *args)
    take = lambda: _marked(_dated_trades(pipeline, when), broken)  # noqa: E731
    return TableStream(stream(source, pipeline, take, part, tell=tell))


def trades(path: Input, *, tell: Tell = None, **selection: Unpack[Selecting]) -> pa.Table:
    """Every trade: executions (at their own price, or the resting order's), hidden orders' trades, crosses.

    Returns:
        Columns ts_ns, locate, symbol, type, side (of the resting order; none of a cross), aggressor (the
        other side; none where the feed doesn't tell), price (1/10,000), qty, match, printable (an execution
        that is not printable is not a volume), broken (the trade was taken back later).

    Raises:
        InputError: the input is bad.
    """
    import pyarrow as pa

    part = Selection(**selection)
    source, when = source_of(path), session_date(path, part.day)
    pipeline = Pipeline.trades(source.framing, part.lenient, *part.for_core())
    broken: list[Any] = []

    def take() -> pa.Table:
        broken.append(pipeline.take_broken())
        return _dated_trades(pipeline, when)

    tables = list(stream(source, pipeline, take, part, tell=tell))
    return _marked(pa.concat_tables(tables), broken)


def _marked(table: pa.Table, broken: list[Any]) -> pa.Table:
    """With the trades that were taken back; broken: pieces of their matches and of the days of these."""
    import pyarrow as pa

    matches, days = table["match"].to_numpy(), table["day"].to_numpy()
    taken, of = (np.concatenate(parts) for parts in zip(*broken, strict=True))
    # Matches of PITCH executions at another price are not told: 0.
    marked = np.zeros(len(matches), bool)
    for day in np.unique(of):  # each numbers its matches anew
        marked |= (days == day) & np.isin(matches, taken[of == day])
    return table.drop_columns(["day"]).append_column("broken", pa.array(marked & (matches != 0)))


def _trade_table(pipeline: Pipeline) -> pa.Table:
    import pyarrow as pa

    columns: dict[str, Any] = dict(pipeline.take_trades())
    table = pa.table({name: _column(name, values) for name, values in columns.items()})
    return table.add_column(2, "symbol", symbol_column(pipeline, columns["locate"]))


def _dated_trades(pipeline: Pipeline, when: date | None) -> pa.Table:
    return with_time(_trade_table(pipeline), when, pipeline.first_day_rows)


def _column(name: str, values: Any) -> pa.Array:
    import pyarrow as pa

    if name in ("type", "side", "aggressor"):
        return letters(values)
    return pa.array(values.astype(bool) if name == "printable" else values)


def letters(values: Any) -> pa.Array:
    """Bytes as strings of one letter, a zero as none."""
    import pyarrow as pa

    texts = pa.array([None] + [chr(i) for i in range(1, 256)])
    return texts.take(pa.array(np.ascontiguousarray(values).view(np.uint8)))


def snapshot(
    path: Input, *, at_ns: int, symbols: tuple[str, ...] = (), lenient: bool = False, tell: Tell = None
) -> pa.Table:
    """Every level of every book, as it stood after the last message of the time.

    Args:
        at_ns: ns since midnight.
        symbols: only these; all when empty.

    Returns:
        Columns locate, symbol, side (B, S), level (0 is the inside), price (1/10,000), qty, orders.

    Raises:
        InputError: the input is bad before that time.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    source, names = source_of(path), symbol_list(symbols)
    pipeline = Pipeline.snapshot(source.framing, lenient, at_ns)
    nothing = pa.table({})
    for _ in stream(source, pipeline, lambda: nothing, Selection(symbols, lenient=lenient), tell=tell):
        pass
    columns: dict[str, Any] = dict(pipeline.snapshot_levels())
    table = pa.table({name: _column(name, values) for name, values in columns.items()})
    table = table.add_column(1, "symbol", symbol_column(pipeline, columns["locate"]))
    return table.filter(pc.is_in(table["symbol"], pa.array(names))) if names else table


def snapshots(path: Input, **options: Any) -> pa.Table:
    """As `snapshot_stream`, as one table."""
    return snapshot_stream(path, **options).read()


def snapshot_stream(
    path: Input,
    *,
    every_ns: int = 0,
    levels: int = 1,
    long: bool = False,
    tell: Tell = None,
    **selection: Unpack[Selecting],
) -> TableStream:
    """The best levels of books with their orders, at even times or whenever one of them is another.

    Args:
        path: as for `census`.
        every_ns: between two rows of a symbol, at whole multiples since midnight, from its first order to
            the feed's end; 0: a row at each change.
        levels: the best so many.
        long: a row a level and side (level 0 is the inside) instead of a row a time.
        selection: what is read, as the fields of a `Selection`; of all symbols, of which a day has 8,000, it
            is many rows.

    Returns:
        Columns ts_ns, locate, symbol, then bid_px, bid_qty, bid_orders, offer_px, offer_qty, offer_orders,
        from the second level on with ``_2`` and so on; or side, level, price, qty, orders.

    Raises:
        UsageError: arguments out of range.
    """
    check_levels(levels)
    part = Selection(**selection)
    if every_ns and every_ns < 1_000:
        raise UsageError(f"snapshots are at least 1 µs apart, not {duration(every_ns)}")
    source, when = source_of(path), session_date(path, part.day)
    pipeline = Pipeline.books(source.framing, part.lenient, levels, every_ns, *part.for_core())
    shape = _long_table if long else _wide_table

    def take() -> pa.Table:
        table, of_first_day = shape(pipeline, levels)
        return with_time(table, when, of_first_day)

    tables = stream(source, pipeline, take, part, tell=tell, dense=every_ns != 0)
    return TableStream(gathered(tables) if every_ns else tables)


_NUMBERS = ("bid_px", "bid_qty", "bid_orders", "offer_px", "offer_qty", "offer_orders")


def _narrow(name: str, values: Any) -> Any:
    return values if name.endswith("qty") else values.astype(np.uint32)


def _wide_table(pipeline: Pipeline, levels: int) -> tuple[pa.Table, int]:
    """The rows since the last call, and how many of them are of the first day at most."""
    import pyarrow as pa

    times, locates, values = pipeline.take_books()
    rows = values.reshape(len(times), len(_NUMBERS) * levels)
    columns = {
        "ts_ns": pa.array(times),
        "locate": pa.array(locates),
        "symbol": symbol_column(pipeline, locates),
    }
    for level in range(levels):
        for i, name in enumerate(_NUMBERS):
            key = name if level == 0 else f"{name}_{level + 1}"
            columns[key] = pa.array(_narrow(name, rows[:, len(_NUMBERS) * level + i]))
    return pa.table(columns), pipeline.first_day_rows


def _long_table(pipeline: Pipeline, levels: int) -> tuple[pa.Table, int]:
    """As `_wide_table`."""
    import pyarrow as pa

    times, locates, values = pipeline.take_books()
    rows = values.reshape(len(times), levels, 2, 3).transpose(0, 2, 1, 3).reshape(-1, 3)
    stands = rows[:, 1] != 0
    each = 2 * levels
    of = np.repeat(np.arange(len(locates)), each)[stands]
    columns = {
        "ts_ns": pa.array(times[of]),
        "locate": pa.array(locates[of]),
        "symbol": symbol_column(pipeline, locates).take(pa.array(of)),
        "side": letters(np.tile(np.repeat(np.frombuffer(b"BS", np.uint8), levels), len(times))[stands]),
        "level": pa.array(np.tile(np.arange(levels, dtype=np.uint32), 2 * len(times))[stands]),
        "price": pa.array(rows[stands, 0].astype(np.uint32)),
        "qty": pa.array(rows[stands, 1]),
        "orders": pa.array(rows[stands, 2].astype(np.uint32)),
    }
    return pa.table(columns), int(np.searchsorted(of, pipeline.first_day_rows))


def session_date(path: Input, day: str | date | None) -> date | None:
    """The date that is given, or what the file's name says."""
    named = path.path if isinstance(path, Source) else Path(path)
    return date_of(named, day)
