"""Every field of every message, as numpy records or Arrow tables, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from latlab._core.market import Pipeline, RecordDecoder, Transport
from latlab.errors import InputError, UsageError
from latlab.market.books.passes import DIALECTS, Input, Tell, census_of, refuse, tell_census
from latlab.market.files.open import Source
from latlab.market.files.output import guard, unwritable
from latlab.market.files.parts import OneParquet, PartsByKind
from latlab.market.files.table_output import table_kind
from latlab.market.records.layouts import (
    EVENT_KINDS,
    PITCH_ASCII_RECORD_TYPES,
    PITCH_RECORD_TYPES,
    RECORD_TYPES,
    Records,
    Symbols,
    event_table,
)
from latlab.market.wire.source import source_of
from latlab.model.market import Census, FeedError

if TYPE_CHECKING:
    import pyarrow as pa

_BY_DIALECT = {"I": RECORD_TYPES, "P": PITCH_RECORD_TYPES, "T": PITCH_ASCII_RECORD_TYPES}
_EVENT = np.dtype(
    [
        ("ts_ns", "u8"),
        ("ref", "u8"),
        ("new_ref", "u8"),
        ("offset", "u8"),
        ("qty", "u4"),
        ("price", "u4"),
        ("locate", "u2"),
        ("type", "S1"),
        ("kind", "u1"),
        ("side", "u1"),
        ("printable", "?"),
        ("_", "V2"),
    ]
)
# As they are given: a cross has more shares than fit 32 bits.
_TOLD = np.dtype([(n, "u8" if n == "qty" else _EVENT[n]) for n in _EVENT.names or () if n != "_"])
_CROSS = EVENT_KINDS.index("cross")


@overload
def read(
    path: Input, *, output: Literal["numpy"] = "numpy", lenient: bool = False, tell: Tell = None
) -> Iterator[dict[str, Records]]: ...
@overload
def read(
    path: Input, *, output: Literal["arrow"], lenient: bool = False, tell: Tell = None
) -> Iterator[dict[str, pa.Table]]: ...
def read(path: Input, *, output: str = "numpy", lenient: bool = False, tell: Tell = None) -> Iterator[Any]:
    """Decode an input in batches of some hundred thousand messages, whatever its size.

    Args:
        path: as for `census`.
        output: ``"numpy"``: structured arrays; ``"arrow"``: tables, with texts as categories and, of ITCH,
            the symbol in every row.
        lenient: skip malformed messages.
        tell: is given the census at the end; without it damage is a `DamagedInputWarning`.

    Yields:
        By message type (as the census names it), the records of this batch, with every field of the
        specification (integers as numbers, prices in 1/10,000, text as bytes, times in ns since midnight) and
        the frame's offset among the input's frames, by which the types' order can be restored. Their layouts
        are `RECORD_TYPES`, `PITCH_RECORD_TYPES` (binary) and `PITCH_ASCII_RECORD_TYPES`.

    Raises:
        InputError: the input is bad; batches before the bad message have been yielded.
    """
    if output not in ("numpy", "arrow"):
        raise UsageError(f"the output must be numpy or arrow, not '{output}'")
    yield from _batches(path, output, lenient, tell)


def _batches(path: Input, output: str, lenient: bool, tell: Tell) -> Iterator[dict[str, Any]]:
    source = source_of(path)
    decoder = _Decoder(source, lenient)
    symbols = Symbols()

    def converted(batch: dict[str, Records]) -> dict[str, Any]:
        return symbols.tables(batch) if output == "arrow" else batch

    torn: list[FeedError] = []
    try:
        with source.pieces() as pieces:
            for piece in pieces:
                if batch := decoder.feed(piece):
                    yield converted(batch)
                if decoder.stopped:
                    break
    except InputError as error:
        torn.append(FeedError(decoder.offset, error.what))
    if not decoder.stopped and (batch := decoder.finish()):
        yield converted(batch)
    found = decoder.census(source, torn)
    refuse(source, found, lenient)
    tell_census(found, tell, books=False)


class _Decoder:
    """Transport and records: which records they are shows when the first packet has come."""

    def __init__(self, source: Source, lenient: bool) -> None:
        self._lenient = lenient
        self._transport = None if source.framing == "binary" else Transport(source.framing)
        self._decoder: RecordDecoder | None = None if self._transport else RecordDecoder(lenient)
        self._types = RECORD_TYPES
        self._torn: list[tuple[int, str]] = []

    @property
    def stopped(self) -> bool:
        return (bool(self._torn) and not self._lenient) or (
            self._decoder is not None and self._decoder.stopped
        )

    @property
    def offset(self) -> int:
        """Behind the last whole frame."""
        return 0 if self._decoder is None else self._decoder.offset

    def census(self, source: Source, torn: list[FeedError]) -> Census:
        """What was read, as far as a decoder without books knows it.

        The errors are the transport's, by offset in the input, then those of the messages, by offset among
        the frames.
        """
        decoder, transport = self._decoder, self._transport
        errors = self._torn + ([] if decoder is None else decoder.errors())
        found = [FeedError(offset, what) for offset, what in errors] + torn
        messages = 0 if decoder is None else decoder.messages + decoder.unknown
        if not messages and not found:
            found = [FeedError(0, f"it holds no messages ({source.framing})")]
        return Census(
            dialect=DIALECTS.get("I" if transport is None else transport.dialect, "unknown"),
            framing=source.framing,
            messages=messages,
            by_type={},
            symbols=0,
            errors=tuple(found),
            unknown=0 if decoder is None else decoder.unknown,
            empty=0,
            malformed=0 if decoder is None else decoder.malformed,
            out_of_order=0 if decoder is None else decoder.out_of_order,
            early_ends=0 if decoder is None else decoder.early_ends,
            first_ns=0,
            last_ns=0,
            anomalies={},
            transport=source.transport_counts() or ({} if transport is None else transport.counts()),
            unchecked=source.unchecked,
        )

    def feed(self, piece: npt.NDArray[np.uint8]) -> dict[str, Records]:
        if self._transport is not None:
            self._transport.feed(piece)
            self._torn += self._transport.errors()
            if self._decoder is None:
                if self._transport.dialect not in _BY_DIALECT:
                    return {}
                self._types = _BY_DIALECT[self._transport.dialect]
                self._decoder = RecordDecoder(self._lenient, dialect=self._transport.dialect)
            piece = self._transport.take(strict=not self._lenient)
        assert self._decoder is not None
        self._decoder.feed(piece)
        return self._taken()

    def finish(self) -> dict[str, Records]:
        if self._transport is not None:
            self._transport.finish()
            self._torn += self._transport.errors()
            if self._decoder is None:
                return {}
            self._decoder.feed(self._transport.take(strict=not self._lenient))
        assert self._decoder is not None
        self._decoder.finish()
        return self._taken()

    def _taken(self) -> dict[str, Records]:
        assert self._decoder is not None
        taken = zip(self._types.items(), self._decoder.take(), strict=True)
        return {
            kind: raw[: count * dtype.itemsize].view(dtype) for (kind, dtype), (count, raw) in taken if count
        }


def read_events(path: Input, *, lenient: bool = False) -> Iterator[Records]:
    """What an input does to books, in order and the same for ITCH and PITCH, in batches.

    Yields:
        Records with ts_ns, ref, new_ref (a replacement's reference, or a trade's match), offset, qty, price
        (1/10,000), locate, type (of the wire), kind (an index into `EVENT_KINDS`), side (0 bid, 1 offer),
        printable.

    Raises:
        InputError: the input is bad.
    """
    for events, _ in _events(path, lenient, None):
        yield events


def _events(path: Input, lenient: bool, tell: Tell) -> Iterator[tuple[Records, Pipeline]]:
    source = source_of(path)
    pipeline = Pipeline.events(source.framing, lenient)
    torn: list[FeedError] = []
    # The pass is driven from here, a piece at a time, so that only one batch is held.
    try:
        with source.pieces() as pieces:
            for piece in pieces:
                pipeline.feed(piece)
                if len(batch := _told(pipeline)):
                    yield batch, pipeline
                if pipeline.stopped:
                    break
    except InputError as error:
        torn.append(FeedError(pipeline.counts()["offset"], error.what))
    pipeline.finish()
    if len(rest := _told(pipeline)):
        yield rest, pipeline
    found = census_of(source, pipeline, torn)
    refuse(source, found, lenient)
    tell_census(found, tell, books=False)


def _told(pipeline: Pipeline) -> Records:
    raw = np.frombuffer(pipeline.take_events(), _EVENT)
    events = np.empty(len(raw), _TOLD)
    for name in _TOLD.names or ():
        events[name] = raw[name]
    crosses = raw["kind"] == _CROSS
    events["qty"][crosses] = raw["ref"][crosses]
    events["ref"][crosses] = 0
    events["qty"][raw["type"] == b"H"] = 0  # the letter of a state
    return events


def decode(
    path: Input,
    output: str | PathLike[str],
    *,
    per: str = "type",
    lenient: bool = False,
    resume: bool = False,
    tell: Tell = None,
) -> dict[str, int]:
    """Write every field of every message as Parquet.

    Args:
        path: as for `census`.
        output: for ``per="type"`` a folder with a folder of parts for each type (``OUT/A/part-*.parquet``;
            ``pyarrow.parquet.read_table("OUT/A")`` reads one); for ``per="event"`` one file of book events.
            It takes its name when it is whole, and is ``OUT.part`` (``OUT.parts``) before.
        per: ``"type"`` or ``"event"``.
        lenient: skip malformed messages.
        resume: keep the whole parts that a killed run left, and go on behind them.
        tell: is given the census at the end; without it damage is a `DamagedInputWarning`.

    Returns:
        Rows that the output holds, by type.

    Raises:
        InputError: the input is bad (what came before is kept), or the output can't be written.
        UsageError: the output is the input, or a folder of something else.
    """
    if per not in ("type", "event"):
        raise UsageError(f"per must be type or event, not '{per}'")
    guard([path], [output])
    if str(output) == "-":
        raise UsageError("decoded messages are a folder of tables, or a Parquet file: give -o a name")
    target = Path(output)
    try:
        if per == "event":
            if target.suffix and table_kind(target) != "parquet":
                raise UsageError(f"events are written as *.parquet, not '{output}'")
            with OneParquet(target, resume=resume) as file:
                for events, pipeline in _events(path, lenient, tell):
                    file.write(event_table(events, pipeline))
                file.commit()
            return {"events": file.rows}
        with PartsByKind(target, resume=resume) as parts:
            for tables in _batches(path, "arrow", lenient, tell):
                for kind, table in tables.items():
                    parts.write(kind, table)
        return parts.rows
    except OSError as error:
        raise unwritable(target, error) from error
