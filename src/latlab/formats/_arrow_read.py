"""Reads an Arrow IPC stream of numbers and texts into numpy; follows no offset out of the bytes there are.

Root reads recordings that others wrote, and nanoarrow 0.9 dies of a damaged stream (by signal 11, in ten of
twelve series of 4,000 streams with one to six bytes changed): so nanoarrow writes, and this reads. Tables and
vectors are found as flatbuffers lay them out; the messages' fields are those of format/Schema.fbs and
format/Message.fbs (Arrow columnar format 1.4, "Serialization and interprocess communication").
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.formats import _arrow_stream

__all__ = ["read_columns"]

# Type of format/Schema.fbs.
_INT, _FLOAT, _UTF8, _BOOL, _LARGE_UTF8 = 2, 3, 5, 6, 20
_WIDTHS = {8: "1", 16: "2", 32: "4", 64: "8"}
_PRECISIONS = {1: "<f4", 2: "<f8"}
_MOST_COLUMNS = 100_000
# Slots of each table's fields.
_MESSAGE_HEADER = 2
_SCHEMA_ENDIANNESS, _SCHEMA_FIELDS = 0, 1
_FIELD_NAME, _FIELD_TYPE_KIND, _FIELD_TYPE, _FIELD_DICTIONARY, _FIELD_CHILDREN = 0, 2, 3, 4, 5
_BATCH_LENGTH, _BATCH_NODES, _BATCH_BUFFERS, _BATCH_COMPRESSION = 0, 1, 2, 3
_DICTIONARY_ID, _DICTIONARY_DATA, _DICTIONARY_DELTA = 0, 1, 2


@dataclass(frozen=True, slots=True)
class _Column:
    """What a schema says of a column: numpy's type of its values ("U": texts, "V": with long offsets)."""

    name: str
    kind: str
    dictionary: int | None = None
    index: str = ""


class _Table:
    """A table of a flatbuffer; every read is checked against the bytes that there are."""

    def __init__(self, data: memoryview, at: int) -> None:
        self._data, self._at = data, at
        self._vtable = at - _number(data, at, "<i")
        self._size = _number(data, self._vtable, "<H")

    def _place(self, slot: int) -> int | None:
        entry = 4 + 2 * slot
        distance = _number(self._data, self._vtable + entry, "<H") if entry + 2 <= self._size else 0
        return self._at + distance if distance else None

    def number(self, slot: int, layout: str, default: int = 0) -> int:
        at = self._place(slot)
        return default if at is None else _number(self._data, at, layout)

    def table(self, slot: int) -> _Table | None:
        at = self._place(slot)
        return None if at is None else _Table(self._data, at + _number(self._data, at, "<I"))

    def vector(self, slot: int) -> tuple[int, int]:
        """Where a vector's elements begin, and how many there are."""
        at = self._place(slot)
        if at is None:
            return 0, 0
        at += _number(self._data, at, "<I")
        return at + 4, _number(self._data, at, "<I")

    def tables(self, slot: int) -> list[_Table]:
        at, count = self.vector(slot)
        if count > _MOST_COLUMNS:
            raise ValueError(f"a schema of {count} columns")
        places = range(at, at + 4 * count, 4)
        return [_Table(self._data, place + _number(self._data, place, "<I")) for place in places]

    def text(self, slot: int) -> str:
        at, count = self.vector(slot)
        return bytes(_slice(self._data, at, count)).decode()

    def pairs(self, slot: int) -> list[tuple[int, int]]:
        """A vector of structs of two 64-bit numbers."""
        at, count = self.vector(slot)
        whole = _slice(self._data, at, 16 * count)
        return list(struct.iter_unpack("<qq", whole))


def read_columns(data: bytes) -> tuple[dict[str, NDArray[Any]], int]:
    """The columns of a stream's whole chunks, and their rows.

    Raises:
        ValueError: damaged, or with a column that is neither of numbers nor of texts.
    """
    view = memoryview(data)
    columns: list[_Column] | None = None
    words: dict[int, NDArray[Any]] = {}
    chunks: list[list[NDArray[Any]]] = []
    rows = 0
    try:
        for message in _arrow_stream.messages(lambda at, length: data[at : at + length], len(data)):
            length = _number(view, message.begin + 4, "<i")
            metadata = _slice(view, message.begin + 8, length)
            body = view[message.begin + 8 + length : message.end]
            header = _Table(metadata, _number(metadata, 0, "<I")).table(_MESSAGE_HEADER)
            if header is None:
                raise ValueError("a message without a header")
            if message.kind == _arrow_stream.SCHEMA:
                if columns is not None:
                    raise ValueError("a second schema")
                columns = _columns(header)
            elif columns is None:
                raise ValueError("a chunk before the schema")
            elif message.kind == _arrow_stream.DICTIONARY_BATCH:
                _take_dictionary(header, body, columns, words)
            else:
                count, values = _batch(header, body, columns)
                chunks.append([_worded(c, v, words) for c, v in zip(columns, values, strict=True)])
                rows += count
    except _arrow_stream.FramingError as error:
        raise ValueError(error.what) from None
    except (struct.error, RecursionError, OverflowError):
        raise ValueError("metadata that point outside their message") from None
    if columns is None:
        return {}, 0
    if len({column.name for column in columns}) < len(columns):
        raise ValueError("two columns of one name")
    joined = [np.concatenate(parts) for parts in zip(*chunks, strict=True)] or [_empty(c) for c in columns]
    return {column.name: values for column, values in zip(columns, joined, strict=True)}, rows


def _columns(schema: _Table) -> list[_Column]:
    if schema.number(_SCHEMA_ENDIANNESS, "<h"):
        raise ValueError("big-endian columns")
    found = []
    for one in schema.tables(_SCHEMA_FIELDS):
        name, kind = one.text(_FIELD_NAME), one.number(_FIELD_TYPE_KIND, "<B")
        if one.vector(_FIELD_CHILDREN)[1]:
            raise ValueError(f"column '{name}' has columns of its own, which a series doesn't have")
        value = _kind(name, kind, one.table(_FIELD_TYPE))
        encoding = one.table(_FIELD_DICTIONARY)
        if encoding is None:
            found.append(_Column(name, value))
        else:
            index = encoding.table(1)
            # Without a type indices are of 32 bits, signed.
            kind_of = "<i4" if index is None else _kind(name, _INT, index)
            found.append(_Column(name, value, encoding.number(_DICTIONARY_ID, "<q"), kind_of))
    return found


def _kind(name: str, kind: int, about: _Table | None) -> str:
    if kind == _INT and about is not None:
        width = _WIDTHS.get(about.number(0, "<i"))
        if width is not None:
            return f"<{'i' if about.number(1, '<B') else 'u'}{width}"
    if kind == _FLOAT and about is not None and about.number(0, "<h") in _PRECISIONS:
        return _PRECISIONS[about.number(0, "<h")]
    if kind in (_UTF8, _LARGE_UTF8, _BOOL):
        return {_UTF8: "U", _LARGE_UTF8: "V", _BOOL: "?"}[kind]
    raise ValueError(f"column '{name}' is of Arrow's type {kind}, which a series doesn't have")


def _take_dictionary(
    header: _Table, body: memoryview, columns: list[_Column], words: dict[int, NDArray[Any]]
) -> None:
    number = header.number(_DICTIONARY_ID, "<q")
    kind = next((c.kind for c in columns if c.dictionary == number), None)
    data = header.table(_DICTIONARY_DATA)
    if kind is None or data is None:
        raise ValueError("a dictionary that no column has")
    values = _batch(data, body, [_Column("", kind)])[1][0]
    before = words.get(number) if header.number(_DICTIONARY_DELTA, "<B") else None
    words[number] = values if before is None else np.concatenate([before, values])


def _batch(header: _Table, body: memoryview, columns: list[_Column]) -> tuple[int, list[NDArray[Any]]]:
    """The rows of a chunk, and its columns' stored values: indices where a column has a dictionary."""
    rows = header.number(_BATCH_LENGTH, "<q")
    if header.table(_BATCH_COMPRESSION) is not None:
        raise ValueError("compressed columns, which a series doesn't have: read them by pyarrow")
    nodes, buffers = header.pairs(_BATCH_NODES), iter(header.pairs(_BATCH_BUFFERS))
    if len(nodes) != len(columns) or rows < 0:
        raise ValueError(f"a chunk of {len(nodes)} columns and {rows} rows")
    found = []
    for column, (count, missing) in zip(columns, nodes, strict=True):
        if count != rows:
            raise ValueError(f"column '{column.name}' has {count} of {rows} rows")
        kind = column.index or column.kind
        needed = 3 if kind in "UV" else 2
        own = [_slice(body, *place) for place in islice(buffers, needed)]
        if len(own) < needed:
            raise ValueError(f"column '{column.name}' lacks its values")
        valid = _bits(own[0], rows) if missing and rows else None
        found.append(_with_missing(_stored(own[1:], kind, rows), valid, indices=bool(column.index)))
    return rows, found


def _stored(buffers: list[memoryview], kind: str, rows: int) -> NDArray[Any]:
    if kind == "?":
        return _bits(buffers[0], rows)
    if kind not in "UV":
        wanted = rows * np.dtype(kind).itemsize
        return np.frombuffer(_slice(buffers[0], 0, wanted), kind).astype(kind.lstrip("<"))
    found = np.empty(rows, dtype=object)
    if rows:
        width = "<i4" if kind == "U" else "<i8"
        places = np.frombuffer(_slice(buffers[0], 0, (rows + 1) * int(width[2])), width)
        if places[0] < 0 or (np.diff(places) < 0).any() or int(places[-1]) > len(buffers[1]):
            raise ValueError("texts that begin or end outside their chunk")
        data = bytes(buffers[1])
        found[:] = [data[a:b].decode() for a, b in pairwise(places.tolist())]
    return found


def _bits(data: memoryview, rows: int) -> NDArray[np.bool_]:
    held = np.frombuffer(_slice(data, 0, (rows + 7) // 8), np.uint8)
    return np.unpackbits(held, count=rows, bitorder="little").astype(bool)


def _with_missing(values: NDArray[Any], valid: NDArray[np.bool_] | None, *, indices: bool) -> NDArray[Any]:
    if valid is None or valid.all():
        return values
    if indices:
        return np.where(valid, values.astype(np.int64), -1)
    if values.dtype.kind in "iuf":
        return np.where(valid, values.astype(np.float64), np.nan)
    kept = values.astype(object)
    kept[~valid] = None
    return kept


def _worded(column: _Column, values: NDArray[Any], words: dict[int, NDArray[Any]]) -> NDArray[Any]:
    if column.dictionary is None:
        return values
    own = words.get(column.dictionary)
    at = values.astype(np.int64)
    if own is None or (at.size and not (int(at.min()) >= -1 and int(at.max()) < len(own))):
        raise ValueError(f"column '{column.name}' points outside of its dictionary")
    # The last place is for what is missing: index -1.
    return np.append(own.astype(object), [None])[at]


def _empty(column: _Column) -> NDArray[Any]:
    plain = column.dictionary is None and column.kind not in "UV"
    return np.empty(0, column.kind.lstrip("<") if plain else object)


def _number(data: memoryview, at: int, layout: str) -> int:
    if at < 0:
        raise struct.error("before the first byte")
    return int(struct.unpack_from(layout, data, at)[0])


def _slice(data: memoryview, at: int, length: int) -> memoryview:
    if at < 0 or length < 0 or at + length > len(data):
        raise struct.error("outside the bytes that there are")
    return data[at : at + length]
