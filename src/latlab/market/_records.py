"""Every field of every message, as numpy records or Arrow tables, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from latlab._core.market import Pipeline, RecordDecoder, Transport, record_layouts
from latlab.errors import InputError, UsageError
from latlab.market._output import OneParquet, PartsByKind
from latlab.market._source import Source, source_of

if TYPE_CHECKING:
    import pyarrow as pa

Records = npt.NDArray[np.void]

EVENT_KINDS = (
    "none",
    "add",
    "execute",
    "execute_at",
    "execute_left",
    "reduce",
    "remove",
    "replace",
    "modify",
    "trade",
    "cross",
    "clear",
    "clear_all",
    "new_day",
)
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


def _dtypes(dialect: str) -> dict[str, np.dtype[np.void]]:
    layouts = {}
    for kind, size, fields in record_layouts(dialect):
        names = [name for name, _, _, _ in fields] + ["offset"]
        formats = [f"S{width}" if text else f"u{width}" for _, _, width, text in fields] + ["u8"]
        offsets = [offset for _, offset, _, _ in fields] + [size - 8]
        spec = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
        # As the census names them: binary PITCH has numbers for types.
        name = f"0x{kind:02x}" if dialect == "P" else chr(kind)
        layouts[name] = np.dtype(spec)  # type: ignore[call-overload]
    return layouts


RECORD_TYPES = _dtypes("I")
PITCH_RECORD_TYPES = _dtypes("P")
PITCH_ASCII_RECORD_TYPES = _dtypes("T")
_BY_DIALECT = {"I": RECORD_TYPES, "P": PITCH_RECORD_TYPES, "T": PITCH_ASCII_RECORD_TYPES}


@overload
def read(
    path: str | PathLike[str], *, output: Literal["numpy"] = "numpy", lenient: bool = False
) -> Iterator[dict[str, Records]]: ...
@overload
def read(
    path: str | PathLike[str], *, output: Literal["arrow"], lenient: bool = False
) -> Iterator[dict[str, pa.Table]]: ...
def read(path: str | PathLike[str], *, output: str = "numpy", lenient: bool = False) -> Iterator[Any]:
    """Decode an input in batches of some hundred thousand messages, whatever its size.

    Args:
        path: as for `census`.
        output: ``"numpy"``: structured arrays; ``"arrow"``: tables.
        lenient: skip malformed messages.

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
    source = source_of(path)
    convert = _arrow if output == "arrow" else _same
    decoder = _Decoder(source, lenient)
    with source.pieces() as pieces:
        for piece in pieces:
            if batch := decoder.feed(piece):
                yield {kind: convert(records) for kind, records in batch.items()}
            if decoder.stopped:
                break
        else:
            if batch := decoder.finish():
                yield {kind: convert(records) for kind, records in batch.items()}
    if decoder.errors and not lenient:
        offset, what = decoder.errors[0]
        raise InputError(path, what, place=f"offset {offset}", remedy="--lenient reads on")


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
    def errors(self) -> list[tuple[int, str]]:
        """The transport's, by offset in the input, then those of the messages, by offset among the frames."""
        return self._torn + ([] if self._decoder is None else self._decoder.errors())

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


def read_events(path: str | PathLike[str], *, lenient: bool = False) -> Iterator[Records]:
    """What an input does to books, in order and the same for ITCH and PITCH, in batches.

    Yields:
        Records with ts_ns, ref, new_ref (a replacement's reference, or a trade's match), offset, qty, price
        (1/10,000), locate, type (of the wire), kind (an index into `EVENT_KINDS`), side (0 bid, 1 offer),
        printable.

    Raises:
        InputError: the input is bad.
    """
    source = source_of(path)
    pipeline = Pipeline.events(source.framing, lenient)
    batches: list[Records] = []
    # The pass is driven from here, a piece at a time, so that only one batch is held.
    with source.pieces() as pieces:
        for piece in pieces:
            pipeline.feed(piece)
            batches.append(np.frombuffer(pipeline.take_events(), _EVENT))
            if len(batches[-1]):
                yield batches.pop()
            if pipeline.stopped:
                break
    pipeline.finish()
    rest = np.frombuffer(pipeline.take_events(), _EVENT)
    if len(rest):
        yield rest
    errors = pipeline.take_errors()
    if errors and not lenient:
        raise InputError(path, errors[0][1], place=f"offset {errors[0][0]}", remedy="--lenient reads on")


def _same(records: Records) -> Records:
    return records


def _arrow(records: Records) -> pa.Table:
    import pyarrow as pa

    columns = {}
    for name in records.dtype.names or ():
        values = np.ascontiguousarray(records[name])
        if name == "_":
            continue
        if values.dtype.kind == "S":
            # Bytes of the wire that are no text (a damaged message) stay what they are.
            width = values.dtype.itemsize
            buffer = pa.py_buffer(values.view(np.uint8))
            kind = pa.binary(width)
            columns[name] = pa.Array.from_buffers(kind, len(values), [None, buffer])
        else:
            columns[name] = pa.array(values)
    return pa.table(columns)


def decode(
    path: str | PathLike[str],
    output: str | PathLike[str],
    *,
    per: str = "type",
    lenient: bool = False,
    resume: bool = False,
) -> dict[str, int]:
    """Write every field of every message as Parquet.

    Args:
        path: as for `census`.
        output: for ``per="type"`` a folder with a folder of parts for each type (``OUT/A/part-*.parquet``;
            ``pyarrow.parquet.read_table("OUT/A")`` reads one); for ``per="event"`` one file of book events.
        per: ``"type"`` or ``"event"``.
        lenient: skip malformed messages.
        resume: keep the whole parts that a killed run left, and go on behind them.

    Returns:
        Rows that the output holds, by type.

    Raises:
        InputError: the input is bad (what came before is kept), or the output can't be written.
    """
    if per not in ("type", "event"):
        raise UsageError(f"per must be type or event, not '{per}'")
    target = Path(output)
    try:
        if per == "event":
            with OneParquet(target, resume=resume) as file:
                for events in read_events(path, lenient=lenient):
                    file.write(_arrow(events))
            return {"events": file.rows}
        with PartsByKind(target, resume=resume) as parts:
            for tables in read(path, output="arrow", lenient=lenient):
                for kind, table in tables.items():
                    parts.write(kind, table)
        return parts.rows
    except OSError as error:
        raise InputError(target, f"can't be written: {error.strerror or error}") from error
