"""Records of messages as Arrow tables: texts as categories, the symbol in every row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from latlab._core.market import Pipeline, record_layouts
from latlab.market.books.passes import symbol_column

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
    "broken",
    "clear",
    "clear_all",
    "new_day",
)
_SIDED = tuple(EVENT_KINDS.index(kind) for kind in ("add", "trade"))


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


class Symbols:
    """The names of ITCH's numbers, which a directory gives anew each day, for the rows of every type."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def tables(self, batch: dict[str, Records]) -> dict[str, pa.Table]:
        """A table a type, with a column `symbol` behind its `locate`: none of a number that has no name."""
        tables = {kind: table_of(records) for kind, records in batch.items()}
        if not all("locate" in (records.dtype.names or ()) for records in batch.values()):
            return tables  # PITCH names symbols where it has them
        columns: dict[str, list[Any]] = {kind: [] for kind in batch}
        days = self._days(batch)
        for begin, end in zip(days, [*days[1:], None], strict=True):
            if begin:
                self._names = {}
            within = {kind: _between(records, begin, end) for kind, records in batch.items()}
            for kind in "AFPR":  # the directory last: it holds
                if kind in within:
                    self._learn(within[kind], sure=kind == "R")
            for kind, records in within.items():
                columns[kind].append(self._column(records["locate"]))
        return {kind: _joined(table, columns[kind]) for kind, table in tables.items()}

    @staticmethod
    def _days(batch: dict[str, Records]) -> list[int]:
        """Where a day begins with its first message, by offset; the batch begins at 0."""
        starts = batch["S"][batch["S"]["event_code"] == b"O"]["offset"].tolist() if "S" in batch else []
        return [0, *(at for at in starts if at)]

    def _learn(self, records: Records, *, sure: bool) -> None:
        numbers, firsts = np.unique(records["locate"], return_index=True)
        for number, name in zip(numbers.tolist(), records["stock"][firsts].tolist(), strict=True):
            if sure or number not in self._names:
                self._names[number] = _text(name)

    def _column(self, locates: npt.NDArray[np.uint16]) -> pa.Array:
        import pyarrow as pa

        known = sorted(self._names)
        indices = np.full(1 << 16, -1, np.int32)
        indices[known] = np.arange(len(known), dtype=np.int32)
        picked = indices[locates]
        texts = pa.array([self._names[number] for number in known], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(picked, mask=picked < 0), texts)


def _text(raw: bytes) -> str:
    # Bytes that are no text (of a damaged message) keep a letter each.
    return raw.decode("latin-1").rstrip(" \0")


def _between(records: Records, begin: int, end: int | None) -> Records:
    offsets = records["offset"]  # rising
    low = int(np.searchsorted(offsets, begin))
    return records[low : None if end is None else int(np.searchsorted(offsets, end))]


def _joined(table: pa.Table, arrays: list[Any]) -> pa.Table:
    import pyarrow as pa

    symbols = pa.chunked_array(arrays).unify_dictionaries().combine_chunks()
    return table.add_column(table.column_names.index("locate") + 1, "symbol", symbols)


def table_of(records: Records) -> pa.Table:
    """Numbers as they are, texts as categories."""
    import pyarrow as pa

    columns = {}
    for name in records.dtype.names or ():
        values = np.ascontiguousarray(records[name])
        columns[name] = _texts(values) if values.dtype.kind == "S" else pa.array(values)
    return pa.table(columns)


def _texts(values: npt.NDArray[Any]) -> pa.Array:
    """Bytes of the wire as categories; blanks at their end are none of theirs."""
    import pyarrow as pa

    width = values.dtype.itemsize
    raw = pa.Array.from_buffers(pa.binary(width), len(values), [None, pa.py_buffer(values.view(np.uint8))])
    coded = raw.dictionary_encode()
    texts = [_text(text) for text in coded.dictionary.to_pylist()]
    if len(set(texts)) == len(texts):
        return pa.DictionaryArray.from_arrays(coded.indices, pa.array(texts, pa.string()))
    # Two wires' ways to write the same.
    return pa.array(texts, pa.string()).take(coded.indices).dictionary_encode()


def event_table(events: Records, pipeline: Pipeline) -> pa.Table:
    """Book events, with kinds, sides and symbols by name: a side only where the message itself has one."""
    import pyarrow as pa

    table = table_of(events)
    names = table.column_names
    kinds = pa.DictionaryArray.from_arrays(pa.array(events["kind"].astype(np.int32)), pa.array(EVENT_KINDS))
    unsided = ~np.isin(events["kind"], _SIDED)
    numbers = pa.array(events["side"].astype(np.int32), mask=unsided)
    sides = pa.DictionaryArray.from_arrays(numbers, pa.array(["B", "S"]))
    table = table.set_column(names.index("kind"), "kind", kinds)
    table = table.set_column(names.index("side"), "side", sides)
    symbols = symbol_column(pipeline, events["locate"])
    return table.add_column(names.index("locate") + 1, "symbol", symbols)
