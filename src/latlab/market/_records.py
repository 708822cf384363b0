"""Every field of every message, as numpy records or Arrow tables, in batches of bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from latlab._core.market import Pipeline, RecordDecoder, Transport, record_layouts
from latlab.errors import InputError, UsageError
from latlab.market._source import Source

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
_PART_ROWS = 1 << 20


def _dtypes() -> list[tuple[str, np.dtype[np.void]]]:
    layouts = []
    for kind, size, fields in record_layouts():
        names = [name for name, _, _, _ in fields] + ["offset"]
        formats = [f"S{width}" if text else f"u{width}" for _, _, width, text in fields] + ["u8"]
        offsets = [offset for _, offset, _, _ in fields] + [size - 8]
        spec = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
        layouts.append((kind, np.dtype(spec)))  # type: ignore[call-overload]
    return layouts


RECORD_TYPES = dict(_dtypes())


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
        For ITCH: by message type, the records of this batch, with every field of the specification (integers
        as numbers, prices in 1/10,000, text as bytes) and the frame's offset in the input's frames, by which
        the types' order can be restored. For PITCH: under ``"events"``, book events as in `read_events`.

    Raises:
        InputError: the input is bad; batches before the bad message have been yielded.
    """
    if output not in ("numpy", "arrow"):
        raise UsageError(f"the output must be numpy or arrow, not '{output}'")
    source = Source(path)
    transport = None if source.framing == "binary" else Transport(source.framing)
    decoder = RecordDecoder(lenient)
    convert = _arrow if output == "arrow" else _same
    with source.pieces() as pieces:
        for piece in pieces:
            if transport is not None:
                transport.feed(piece)
                if transport.dialect not in ("I", "\0"):
                    break
                piece = transport.take()
            decoder.feed(piece)
            yield {kind: convert(records) for kind, records in _taken(decoder)}
            if decoder.stopped:
                break
        else:
            if transport is not None:
                transport.finish()
                decoder.feed(transport.take())
            decoder.finish()
            if last := {kind: convert(records) for kind, records in _taken(decoder)}:
                yield last
    if transport is not None and transport.dialect not in ("I", "\0"):
        for events in read_events(path, lenient=lenient):
            yield {"events": convert(events)}
        return
    if decoder.errors() and not lenient:
        offset, what = decoder.errors()[0]
        raise InputError(path, what, place=f"offset {offset}", remedy="--lenient reads on")


def _taken(decoder: RecordDecoder) -> Iterator[tuple[str, Records]]:
    for (kind, dtype), (count, raw) in zip(RECORD_TYPES.items(), decoder.take(), strict=True):
        if count:
            yield kind, raw[: count * dtype.itemsize].view(dtype)


def read_events(path: str | PathLike[str], *, lenient: bool = False) -> Iterator[Records]:
    """What an input does to books, in order and the same for ITCH and PITCH, in batches.

    Yields:
        Records with ts_ns, ref, new_ref (a replacement's reference, or a trade's match), offset, qty, price
        (1/10,000), locate, type (of the wire), kind (an index into `EVENT_KINDS`), side (0 bid, 1 offer),
        printable.

    Raises:
        InputError: the input is bad.
    """
    source = Source(path)
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
        per: ``"type"`` or ``"event"``; PITCH has events only.
        lenient: skip malformed messages.
        resume: keep the whole parts that a killed run left, and go on behind them.

    Returns:
        Rows written, by type.

    Raises:
        InputError: the input is bad (what came before is kept), or the output can't be written.
    """
    if per not in ("type", "event"):
        raise UsageError(f"per must be type or event, not '{per}'")
    target = Path(output)
    try:
        if per == "event":
            return {"events": _decode_events(path, target, lenient)}
        return _decode_types(path, target, lenient, resume)
    except OSError as error:
        raise InputError(target, f"can't be written: {error.strerror or error}") from error


def _decode_events(path: str | PathLike[str], target: Path, lenient: bool) -> int:
    from latlab.market._output import create_parquet

    rows = 0
    with create_parquet(target) as write:
        for events in read_events(path, lenient=lenient):
            write(_arrow(events))
            rows += len(events)
    return rows


def _decode_types(path: str | PathLike[str], target: Path, lenient: bool, resume: bool) -> dict[str, int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target.mkdir(parents=True, exist_ok=True)
    progress = target / "_progress.json"
    # A part is one batch of a type; a batch counts as done when the progress file says so, which is written
    # after its parts. A resumed run decodes again (it is much faster than writing) and skips what is done.
    done = json.loads(progress.read_text())["batches"] if resume and progress.exists() else 0
    rows: dict[str, int] = {}
    held: dict[str, list[pa.Table]] = {}
    batch = 0

    def flush() -> None:
        nonlocal batch
        if batch >= done:
            for kind, tables in held.items():
                folder = target / kind
                folder.mkdir(exist_ok=True)
                pq.write_table(
                    pa.concat_tables(tables), folder / f"part-{batch:05}.parquet", compression="zstd"
                )
            temporary = progress.with_suffix(".tmp")
            temporary.write_text(json.dumps({"batches": batch + 1, "rows": rows}))
            temporary.replace(progress)
        batch += 1
        held.clear()

    waiting = 0
    try:
        for tables in read(path, output="arrow", lenient=lenient):
            for kind, table in tables.items():
                rows[kind] = rows.get(kind, 0) + table.num_rows
                waiting += table.num_rows
                held.setdefault(kind, []).append(table)
            if waiting >= _PART_ROWS:
                flush()
                waiting = 0
    finally:
        if held:
            flush()
    return rows
