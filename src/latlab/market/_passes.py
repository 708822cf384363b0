"""One pass over an input: census, inside, depth, trades, snapshot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from latlab._core.market import Pipeline
from latlab.errors import InputError, UsageError
from latlab.market._output import OneParquet, TextOutput
from latlab.market._source import Source, source_of
from latlab.model.market import Census, Depth, FeedError, Written

if TYPE_CHECKING:
    import pyarrow as pa

Input = str | PathLike[str] | Source
BOOKS = ("ladder", "array", "map")
MAX_NS = (1 << 64) - 1
_DIALECTS = {"I": "ITCH", "P": "PITCH", "T": "PITCH ASCII"}
_QUANTILES = {"p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}


def run(
    source: Source, pipeline: Pipeline, lenient: bool, after_piece: Callable[[], None] | None = None
) -> Census:
    """Feed the input to the pipeline; what it wrote before an error is kept.

    Returns:
        The census, with the errors that were met; a damaged compression is one of them.
    """
    errors: list[FeedError] = []
    try:
        with source.pieces() as pieces:
            for piece in pieces:
                pipeline.feed(piece)
                if after_piece is not None:
                    after_piece()
                if pipeline.over:
                    break
    except InputError as error:
        errors.append(FeedError(pipeline.counts()["offset"], error.what))
    pipeline.finish()
    if after_piece is not None:
        after_piece()
    errors = [FeedError(offset, what) for offset, what in pipeline.take_errors()] + errors
    counts = pipeline.counts()
    return Census(
        dialect=_DIALECTS.get(pipeline.dialect, "unknown"),
        framing=source.framing,
        messages=counts["messages"],
        by_type=_named(pipeline.by_type(), pipeline.dialect),
        symbols=len(pipeline.symbols()),
        errors=tuple(errors),
        unknown=counts["unknown"],
        empty=counts["empty"],
        malformed=counts["malformed"],
        out_of_order=counts["out_of_order"],
        first_ns=counts["first_ns"],
        last_ns=counts["last_ns"],
        anomalies=pipeline.anomalies(),
        transport=source.transport_counts() or pipeline.transport_counts(),
    )


def _named(by_type: dict[int, int], dialect: str) -> dict[str, int]:
    """Counts by the type's letter; by its number in hex where it is none."""
    plain = dialect != "P"
    return {chr(k) if plain and 0x21 <= k < 0x7F else f"0x{k:02x}": n for k, n in sorted(by_type.items())}


def refuse(source: Source, census: Census, lenient: bool, *, kept: bool = False) -> None:
    """Raise the first error of a strict pass.

    Args:
        kept: what came before the error stands in an output.

    Raises:
        InputError: there was one.
    """
    if census.errors and not lenient:
        first = census.errors[0]
        raise InputError(
            source.path,
            first.what,
            place=f"offset {first.offset}",
            remedy=("what came before it was kept; " if kept else "") + "--lenient reads on",
        )


def check_period(from_ns: int, to_ns: int) -> None:
    """Refuse a period that ends before it begins.

    Raises:
        UsageError: it does.
    """
    if from_ns > to_ns:
        raise UsageError(f"the period from {from_ns} to {to_ns} ns ends before it begins")


def _absent(pipeline: Pipeline, symbols: tuple[str, ...]) -> tuple[str, ...]:
    known = set(pipeline.symbols().values())
    return tuple(name for name in symbols if name.encode("latin-1", "replace") not in known)


def census(path: Input, *, lenient: bool = False) -> Census:
    """Count an input's messages by type, and list its errors.

    Args:
        path: BinaryFILE, SoupBinTCP, pcap, pcapng, PITCH units or ASCII PITCH; plain, gzip or zstd; or
            ``udp://GROUP:PORT``, a feed on the wire (see `parse_udp`).
        lenient: skip and count a malformed message instead of ending there.

    Raises:
        InputError: it can't be opened, or is none of these.
    """
    source = source_of(path)
    return run(source, Pipeline.census(source.framing, lenient), lenient)


def inside(
    path: Input,
    output: str | PathLike[str],
    *,
    book: str = "ladder",
    capacity: int = 8192,
    levels: int = 1,
    symbols: tuple[str, ...] = (),
    from_ns: int = 0,
    to_ns: int = MAX_NS,
    lenient: bool = False,
    resume: bool = False,
) -> Written:
    """Write every true change of the inside, and none that is not.

    Args:
        path: the input, as for `census`.
        output: ``*.parquet``, or text lines ``ts_ns locate symbol bid_px bid_qty offer_px offer_qty`` (prices
            in 1/10,000, an empty side ``0 0``), compressed when it ends in ``.gz`` or ``.zst``.
        book: the design of the book sides: ladder, array or map; the result is the same.
        capacity: ticks that the array holds.
        levels: the best so many levels; for more than one, their four numbers follow one another in the line,
            and a change of any of them is a change.
        symbols: only these; all when empty.
        from_ns: the first time stamp that is written (ns since midnight); the book is exact from the start.
        to_ns: the last.
        resume: go on behind what a killed run of the same command wrote.

    Raises:
        InputError: the input is bad (what came before stays in the output), or the output can't be written.
        UsageError: arguments out of range.
    """
    if book not in BOOKS:
        raise UsageError(f"the book must be one of {', '.join(BOOKS)}, not '{book}'")
    if not 1 <= levels <= 1000:
        raise UsageError(f"levels must be between 1 and 1000, not {levels}")
    if not 64 <= capacity <= 1 << 22:
        raise UsageError(f"the capacity must be between 64 and {1 << 22}, not {capacity}")
    check_period(from_ns, to_ns)
    source, target = source_of(path), Path(output)
    try:
        text = table = None
        if target.suffix == ".parquet":
            table = OneParquet(target, resume=resume)
            table.skip(skip := table.kept)
        else:
            text = TextOutput(target, resume=resume)
            skip = text.lines
        pipeline = Pipeline.inside(
            source.framing,
            lenient,
            book,
            capacity,
            levels,
            table is None,
            skip,
            list(symbols),
            from_ns,
            to_ns,
        )
        if text is not None:
            with text:
                found = run(source, pipeline, lenient, lambda: text.write(pipeline.take_text()))
        elif table is not None:
            with table:
                found = run(source, pipeline, lenient, lambda: table.write(_inside_table(pipeline, levels)))
    except OSError as error:
        raise InputError(target, f"can't be written: {error.strerror or error}") from error
    refuse(source, found, lenient, kept=True)
    found = replace(found, absent=_absent(pipeline, symbols))
    return Written(pipeline.changes(), found, pipeline.side_counts())


def _inside_table(pipeline: Pipeline, levels: int) -> pa.Table:
    import pyarrow as pa

    times, locates, values = pipeline.take_columns()
    rows = values.reshape(-1, 4 * levels)
    columns = {
        "ts_ns": pa.array(times),
        "locate": pa.array(locates),
        "symbol": symbol_column(pipeline, locates),
    }
    for level in range(levels):
        suffix = "" if levels == 1 else f"_{level + 1}"
        for i, name in enumerate(("bid_px", "bid_qty", "offer_px", "offer_qty")):
            kind = np.uint32 if name.endswith("px") else np.uint64
            columns[name + suffix] = pa.array(rows[:, 4 * level + i].astype(kind))
    return pa.table(columns)


def symbol_column(pipeline: Pipeline, locates: Any) -> pa.Array:
    """The names of the symbols of these numbers, as a dictionary array."""
    import pyarrow as pa

    names = pipeline.symbols()
    known = sorted(names)
    indices = np.zeros(1 << 16, np.int32)
    indices[known] = np.arange(len(known), dtype=np.int32)
    texts = [names[number].decode("latin-1") for number in known] or [""]
    return pa.DictionaryArray.from_arrays(pa.array(indices[locates]), pa.array(texts)).dictionary_decode()


def depth(
    path: Input,
    *,
    book: str = "ladder",
    capacity: int = 8192,
    symbols: tuple[str, ...] = (),
    from_ns: int = 0,
    to_ns: int = MAX_NS,
    lenient: bool = False,
) -> Depth:
    """How many ticks from the inside each book event is, and how many levels its side has.

    The depth of an event is the number of ticks (a cent, 1/100 cent below a dollar) by which its price is
    worse than the best of its side after it; 0 at the inside, and for one that moved it. A replacement counts
    with its new price. (JayBeams, itch5eventdepth.)

    Raises:
        InputError: the input is bad.
    """
    check_period(from_ns, to_ns)
    source = source_of(path)
    pipeline = Pipeline.depth(source.framing, lenient, book, capacity, list(symbols), from_ns, to_ns)
    found = run(source, pipeline, lenient)
    refuse(source, found, lenient)
    found = replace(found, absent=_absent(pipeline, symbols))
    values, counts = pipeline.event_depth()
    return Depth(int(counts.sum()), _quantiles(values, counts), _quantiles(*pipeline.book_depth()), found)


def _quantiles(values: Any, counts: Any) -> dict[str, int]:
    """Nearest-rank quantiles of values that occur so many times."""
    if not len(values):
        return {}
    ends = np.cumsum(counts)
    total = int(ends[-1])
    picked = {}
    for name, q in _QUANTILES.items():
        rank = max(1, -int(-q * total // 1))
        picked[name] = int(values[np.searchsorted(ends, rank)])
    return {"min": int(values[0])} | picked | {"max": int(values[-1])}


def trades(
    path: Input,
    *,
    symbols: tuple[str, ...] = (),
    from_ns: int = 0,
    to_ns: int = MAX_NS,
    lenient: bool = False,
) -> pa.Table:
    """Every trade: executions (at their own price, or the resting order's), hidden orders' trades, crosses.

    Returns:
        Columns ts_ns, locate, symbol, type, side (of the resting order), price (1/10,000), qty, match,
        printable (an execution that is not printable is no volume).

    Raises:
        InputError: the input is bad.
    """
    import pyarrow as pa

    check_period(from_ns, to_ns)
    source = source_of(path)
    pipeline = Pipeline.trades(source.framing, lenient, list(symbols), from_ns, to_ns)
    tables: list[dict[str, Any]] = []
    found = run(source, pipeline, lenient, lambda: tables.append(pipeline.take_trades()))
    refuse(source, found, lenient)
    columns = {name: np.concatenate([t[name] for t in tables]) for name in tables[0]}
    table = pa.table({name: pa.array(_letters(name, values)) for name, values in columns.items()})
    return table.add_column(2, "symbol", symbol_column(pipeline, columns["locate"]))


def snapshot(path: Input, *, at_ns: int, lenient: bool = False) -> pa.Table:
    """Every level of every book, as it stood after the last message of the time.

    Args:
        at_ns: ns since midnight.

    Returns:
        Columns locate, symbol, side (B, S), level (0 is the inside), price (1/10,000), qty, orders.

    Raises:
        InputError: the input is bad.
    """
    import pyarrow as pa

    source = source_of(path)
    pipeline = Pipeline.snapshot(source.framing, lenient, at_ns)
    found = run(source, pipeline, lenient)
    refuse(source, found, lenient)
    columns = pipeline.snapshot_levels()
    table = pa.table({name: pa.array(_letters(name, values)) for name, values in columns.items()})
    return table.add_column(1, "symbol", symbol_column(pipeline, columns["locate"]))


def _letters(name: str, values: Any) -> Any:
    if name in ("type", "side"):
        return values.view("S1").astype("U1")
    return values.astype(bool) if name == "printable" else values
