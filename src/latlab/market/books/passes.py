"""One pass over an input: census, inside."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from latlab._core.market import MAX_JOBS, Pipeline
from latlab.errors import InputError, UsageError
from latlab.market.books.selection import Selecting, Selection
from latlab.market.files.open import Source
from latlab.market.files.output import TextOutput, guard, unwritable
from latlab.market.files.parts import OneParquet
from latlab.market.files.session_date import date_of, with_time
from latlab.market.files.table_output import TableOutput, table_kind
from latlab.market.wire.source import source_of
from latlab.model.market import Census, DamagedInputWarning, FeedError, Written

if TYPE_CHECKING:
    import pyarrow as pa

Input = str | PathLike[str] | Source
Tell = Callable[[Census], None] | None
BOOKS = ("ladder", "array", "map")
_MOST_LEVELS = 1000
DIALECTS = {"I": "ITCH", "P": "PITCH", "T": "PITCH ASCII"}
_COUNTED = (
    "messages", "unknown", "empty", "malformed", "out_of_order", "first_ns", "last_ns",
    "early_ends", "jumped",
)  # fmt: skip


class Entangled(Exception):
    """Threads that share the symbols may not have made what one would; rows before the last piece stand."""


def run(
    source: Source, pipeline: Pipeline, lenient: bool, after_piece: Callable[[], object] | None = None
) -> Census:
    """Feed the input to the pipeline; what it wrote before an error is kept.

    Returns:
        The census, with the errors that were met; a damaged compression is one of them.

    Raises:
        Entangled: the pipeline has several threads, and the input orders that are not of one symbol each.
    """
    errors: list[FeedError] = []
    try:
        with source.pieces() as pieces:
            for piece in pieces:
                pipeline.feed(piece)
                if pipeline.entangled:
                    raise Entangled
                if after_piece is not None:
                    after_piece()
                if pipeline.over:
                    break
    except InputError as error:
        errors.append(FeedError(pipeline.counts()["offset"], error.what))
    pipeline.finish()
    if pipeline.entangled:
        raise Entangled
    if after_piece is not None:
        after_piece()
    return census_of(source, pipeline, errors)


def shared_run(
    source: Source,
    make: Callable[[int], Pipeline],
    jobs: int,
    lenient: bool,
) -> tuple[Census, Pipeline]:
    """A pass whose result is there at its end, by as many threads as are asked for; make(jobs).

    Returns:
        The census, and the pipeline.
    """
    pipeline = make(check_jobs(source, jobs))
    try:
        return run(source, pipeline, lenient), pipeline
    except Entangled:
        pipeline = make(1)
        return run(source, pipeline, lenient), pipeline


def check_jobs(source: Source, jobs: int) -> int:
    """How many threads share the symbols: one where the input can't be read again.

    Raises:
        UsageError: the number is out of range.
    """
    if not 1 <= jobs <= MAX_JOBS:
        raise UsageError(f"jobs must be between 1 and {MAX_JOBS}, not {jobs}")
    return 1 if source.once or source.live else jobs


def census_of(
    source: Source, pipeline: Pipeline, torn: list[FeedError], missing: tuple[str, ...] = ()
) -> Census:
    """The census of a pass that is over.

    Args:
        torn: what was wrong with the input's compression.
        missing: symbols that were asked for and that the input has not.
    """
    errors = [FeedError(offset, what) for offset, what in pipeline.take_errors()] + torn
    counts = pipeline.counts()
    pipeline.take_ended()
    if not counts["messages"] and not errors:
        errors = [FeedError(0, f"it holds no messages ({source.framing})")]
    return Census(
        dialect=DIALECTS.get(pipeline.dialect, "unknown"),
        framing=source.framing,
        by_type=_named(pipeline.by_type(), pipeline.dialect),
        symbols=len({*pipeline.symbols().values(), *pipeline.former_symbols()}),
        errors=tuple(errors),
        anomalies=pipeline.anomalies(),
        transport=source.transport_counts() or pipeline.transport_counts(),
        absent=missing,
        unchecked=source.unchecked,
        **{name: counts[name] for name in _COUNTED},
    )


def _named(by_type: dict[int, int], dialect: str) -> dict[str, int]:
    """Counts by the type's letter; by its number in hex where it is none."""
    plain = dialect != "P"
    return {chr(k) if plain and 0x21 <= k < 0x7F else f"0x{k:02x}": n for k, n in sorted(by_type.items())}


def refuse(source: Source, census: Census, lenient: bool, *, kept: Path | None = None) -> None:
    """Raise the first error of a strict pass.

    Args:
        kept: where what came before the error stands.

    Raises:
        InputError: there was one.
    """
    if census.errors and not lenient:
        first = census.errors[0]
        raise InputError(
            source.path,
            first.what,
            place=f"offset {first.offset}",
            remedy=(f"what came before it is in {kept}; " if kept else "")
            + "--lenient skips what is damaged",
        )


def check_levels(levels: int) -> None:
    """Refuse a number of best levels that no book is asked for.

    Raises:
        UsageError: it is out of range.
    """
    if not 1 <= levels <= _MOST_LEVELS:
        raise UsageError(f"levels must be between 1 and {_MOST_LEVELS}, not {levels}")


def absent(pipeline: Pipeline, symbols: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the symbols that the input has not."""
    pipeline.take_ended()
    known = {*pipeline.symbols().values(), *pipeline.former_symbols()}
    return tuple(name for name in symbols if name.encode("latin-1", "replace") not in known)


def tell_census(census: Census, tell: Tell, *, books: bool = True) -> None:
    """Hand the census to who asked for it, or warn of damage: nothing is absorbed silently."""
    if tell is not None:
        tell(census)
        return
    if census.absent:
        warnings.warn(f"no symbol {', '.join(census.absent)} in the input", stacklevel=3)
    if found := census.damage(books=books):
        kinds = ", ".join(f"{n:,} {kind.replace('_', ' ')}" for kind, n in found.items())
        warnings.warn(f"the input is damaged or not whole: {kinds}", DamagedInputWarning, stacklevel=3)


def census(path: Input, *, lenient: bool = False, jobs: int = 1) -> Census:
    """Count an input's messages by type, and list its errors.

    Args:
        path: BinaryFILE, SoupBinTCP, pcap, pcapng, PITCH units or ASCII PITCH; plain, gzip or zstd; or
            ``udp://GROUP:PORT``, a feed on the wire (see `parse_udp`).
        lenient: skip and count a malformed message instead of ending there.
        jobs: threads that share the symbols, as for `write_inside`.

    Raises:
        InputError: it can't be opened, or is none of these.
    """
    source = source_of(path)
    return shared_run(
        source, lambda jobs: Pipeline.census(source.framing, lenient, jobs=jobs), jobs, lenient
    )[0]


def write_inside(
    path: Input,
    output: str | PathLike[str],
    *,
    book: str = "ladder",
    capacity: int = 8192,
    levels: int = 1,
    resume: bool = False,
    jobs: int = 1,
    **selection: Unpack[Selecting],
) -> Written:
    """Write every true change of the inside, and none that is not.

    Args:
        path: the input, as for `census`.
        output: ``*.parquet``, ``*.feather``, ``*.csv``, or (``*.txt``, ``-``) text lines ``ts_ns locate
            symbol bid_px bid_qty offer_px offer_qty`` (prices in 1/10,000, an empty side ``0 0``), compressed
            when it ends in ``.gz`` or ``.zst``. It takes its name when it is whole; what came before an
            error, or before a kill, is in ``OUTPUT.part`` (of Parquet in the folder ``OUTPUT.parts``).
        book: the design of the book sides: ladder, array or map; the result is the same.
        capacity: ticks that the array holds.
        levels: the best so many levels; for more than one, their four numbers follow one another in the line,
            and a change of any of them is a change.
        resume: go on behind what a killed run of the same command wrote.
        jobs: threads that share the symbols of ITCH; the result is the same. Where orders are not of one
            symbol each, or unknown, the input is read again by one thread; a pipe and a feed on the wire are
            read by one.
        selection: what is written, as the fields of a `Selection`.

    Raises:
        InputError: the input is bad, or the output can't be written.
        UsageError: arguments out of range.
    """
    if book not in BOOKS:
        raise UsageError(f"the book must be one of {', '.join(BOOKS)}, not '{book}'")
    check_levels(levels)
    if not 64 <= capacity <= 1 << 22:
        raise UsageError(f"the capacity must be between 64 and {1 << 22}, not {capacity}")
    part = Selection(**selection)
    lenient = part.lenient
    kind = _kind_of(output)
    if resume and kind not in ("text", "parquet"):
        raise UsageError("only text and *.parquet can be resumed")
    guard([path], [output])
    source, target = source_of(path), Path(output)
    common = part.for_core()
    when = date_of(source.path, part.day)

    def changes(pipeline: Pipeline) -> pa.Table:
        return with_time(inside_table(pipeline, levels), when, pipeline.first_day_rows)

    def go(skip: int, write: Callable[[Pipeline], object]) -> tuple[Census, Pipeline]:
        def made(skip: int, jobs: int) -> Pipeline:
            text = kind == "text"
            return Pipeline.inside(source.framing, lenient, book, capacity, levels, text, skip, *common, jobs)

        pipeline = made(skip, check_jobs(source, jobs))
        try:
            return run(source, pipeline, lenient, lambda: write(pipeline)), pipeline
        except Entangled:
            alone = made(max(skip, pipeline.changes()), 1)  # behind what is written already
            return run(source, alone, lenient, lambda: write(alone)), alone

    def whole(found: Census) -> bool:
        return lenient or not found.errors

    kept: Path | None = None
    try:
        if kind == "text":
            with TextOutput(target, resume=resume) as text:
                found, pipeline = go(text.lines, lambda made: text.write(made.take_text()))
                if whole(found):
                    text.commit()
                else:
                    kept = None if str(target) == "-" else text.part
        elif kind == "parquet":
            with OneParquet(target, resume=resume) as table:
                table.skip(table.kept)
                found, pipeline = go(table.kept, lambda made: table.write(changes(made)))
                if whole(found):
                    table.commit()
                else:
                    kept = table.folder
        else:
            with TableOutput(target) as other:
                found, pipeline = go(0, lambda made: other.write(changes(made)))
                refuse(source, found, lenient)
    except OSError as error:
        raise unwritable(target, error) from error
    refuse(source, found, lenient, kept=kept)
    found = replace(found, absent=absent(pipeline, part.symbols))
    return Written(pipeline.changes(), found, pipeline.side_counts())


def _kind_of(output: str | PathLike[str]) -> str:
    """Lines of text, but by the names of tables those."""
    name = Path(output).name
    packed = Path(name).suffix in (".gz", ".zst")
    inner = Path(name).with_suffix("").suffix if packed else Path(name).suffix
    if name == "-" or inner in ("", ".txt") or (packed and inner not in (".csv", ".parquet", ".feather")):
        return "text"
    return table_kind(output)


def inside_table(pipeline: Pipeline, levels: int) -> pa.Table:
    """The changes since the last call."""
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
    """The names of the symbols of these numbers, which are of all rows that the pipeline has made anew."""
    import pyarrow as pa

    parts, begin = [], 0
    for end, names in [*pipeline.take_ended(), (len(locates), pipeline.symbols())]:
        parts.append(_symbols_of(names, locates[begin:end]))
        begin = end
    return pa.concat_arrays(parts)


def _symbols_of(names: dict[int, bytes], locates: Any) -> pa.Array:
    import pyarrow as pa

    known = sorted(names)
    indices = np.full(1 << 16, -1, np.int32)
    indices[known] = np.arange(len(known), dtype=np.int32)
    texts = pa.array([names[number].decode("latin-1") for number in known], pa.string())
    picked = indices[locates]
    return pa.DictionaryArray.from_arrays(pa.array(picked, mask=picked < 0), texts).dictionary_decode()
