"""Columns of numbers and texts, between numpy and Arrow's IPC streams: written by nanoarrow, read by our own.

nanoarrow takes 4 MB where pyarrow takes 170, and 40 ms to import: pyarrow is asked for only by what needs it
(`Columns.to_arrow`, market data).
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from latlab.formats._arrow_read import read_columns
from latlab.formats.documents import naming
from latlab.formats.trusted import to_write

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["Columns", "as_struct", "read_stream", "type_name"]

_MOST_TEXT = 1 << 31  # bytes: of a column whose offsets have 32 bits
# Arrow's format strings of numbers (Arrow C data interface), and numpy's type of each.
_NUMBERS = {
    "c": "i1",
    "C": "u1",
    "s": "i2",
    "S": "u2",
    "i": "i4",
    "I": "u4",
    "l": "i8",
    "L": "u8",
    "f": "f4",
    "g": "f8",
}
_FORMATS = {kind: name for name, kind in _NUMBERS.items()}


class Columns(Mapping[str, NDArray[Any]]):
    """The rows of a series: a mapping from a column's name to its values.

    Numbers are arrays of their own type (float64 with NaN where some are missing), texts are object arrays of
    str, None where missing. It is also an Arrow stream (`__arrow_c_stream__`): `pyarrow.table(columns)` and
    `polars.DataFrame(columns)` take it as it is.

    Attributes:
        num_rows: in each column.
    """

    def __init__(self, columns: Mapping[str, NDArray[Any]], num_rows: int) -> None:
        self._columns = dict(columns)
        self.num_rows = num_rows

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<{self.num_rows:,} rows of {', '.join(self._columns)}>"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import nanoarrow

        stream = nanoarrow.c_array_stream(as_struct(self._columns))
        return stream.__arrow_c_stream__(requested_schema)

    def to_pydict(self) -> dict[str, list[Any]]:
        """Lists of Python's own numbers and strings."""
        return {name: values.tolist() for name, values in self._columns.items()}

    def rows(self) -> Iterator[dict[str, Any]]:
        """One dict a row."""
        for values in zip(*self.to_pydict().values(), strict=True):
            yield dict(zip(self._columns, values, strict=True))

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a header and one line a row; an empty field where a text is missing.

        Raises:
            OSError: it can't be written.
        """
        with naming(path), open(path, "w", newline="", encoding="utf-8", opener=to_write) as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(self._columns)
            lines.writerows(zip(*self.to_pydict().values(), strict=True))

    def to_arrow(self) -> pa.Table:
        """The same as an Arrow table (needs pyarrow)."""
        import pyarrow as pa

        return pa.table(self)

    def to_pandas(self) -> pd.DataFrame:
        """The same as a pandas data frame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self._columns)

    def to_polars(self) -> pl.DataFrame:
        """The same as a polars data frame (needs polars)."""
        import polars as pl

        return pl.DataFrame(self)


def as_struct(columns: Mapping[str, Any] | Any) -> Any:
    """A chunk of rows as a nanoarrow array of structs.

    Args:
        columns: arrays, or lists of texts or numbers, of equal length by name; or an Arrow array of structs
            of any library (`__arrow_c_array__`), such as a pyarrow.RecordBatch.

    Raises:
        ValueError: columns of unlike length or of a type that Arrow has no column for.
    """
    import nanoarrow as na

    if not isinstance(columns, Mapping):
        return na.c_array(columns)
    made = {name: _as_array(name, values) for name, values in columns.items()}
    lengths = {array.length for array in made.values()}
    if len(lengths) > 1:
        told = ", ".join(f"{name}: {array.length}" for name, array in made.items())
        raise ValueError(f"columns of unlike length ({told})")
    schema = na.struct({name: array.schema for name, array in made.items()})
    return na.c_array_from_buffers(
        schema, lengths.pop() if lengths else 0, [None], null_count=0, children=list(made.values())
    )


def _as_array(name: str, values: Any) -> Any:
    import nanoarrow as na

    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise ValueError(f"column '{name}' has {values.ndim} dimensions")
    if isinstance(values, np.ndarray) and values.dtype.kind in "UO":
        values = values.tolist()
    if not isinstance(values, np.ndarray):
        if not isinstance(values, list | tuple | range):
            return na.c_array(values)
        values = list(values)
        kinds = {type(one) for one in values} - {type(None)}
        if kinds == {str} or not kinds:
            return _texts(values)
        if not kinds <= {int, float, bool} and not all(isinstance(v, np.generic | None) for v in values):
            raise ValueError(f"column '{name}' holds {', '.join(sorted(k.__name__ for k in kinds))}")
        if None in values:
            known = np.array([value is not None for value in values])
            filled = np.array([0 if value is None else value for value in values])
            return _numbers(name, filled, known)
        values = np.array(values)
    return _numbers(name, values, None)


def _texts(values: list[str | None]) -> Any:
    import nanoarrow as na

    encoded = [b"" if one is None else one.encode() for one in values]
    places = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    missing = sum(one is None for one in values)
    valid = np.packbits([one is not None for one in values], bitorder="little") if missing else None
    small = places[-1] < _MOST_TEXT
    offsets = places.astype(np.int32) if small else places
    kind = na.string() if small else na.large_string()
    return na.c_array_from_buffers(kind, len(values), [valid, offsets, b"".join(encoded)], null_count=missing)


def _numbers(name: str, values: NDArray[Any], known: NDArray[np.bool_] | None) -> Any:
    import nanoarrow as na

    missing = 0 if known is None else int((~known).sum())
    valid = None if known is None else np.packbits(known, bitorder="little")
    if values.dtype.kind == "b":
        bits = np.packbits(values, bitorder="little")
        return na.c_array_from_buffers(na.bool_(), len(values), [valid, bits], null_count=missing)
    if values.dtype.str[1:] not in _FORMATS:
        raise ValueError(f"column '{name}' is of type {values.dtype}, for which a series has no column")
    data = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    kind = na.c_schema(_type_of(values.dtype))
    return na.c_array_from_buffers(kind, len(data), [valid, data], null_count=missing)


def _type_of(kind: np.dtype[Any]) -> Any:
    import nanoarrow as na

    names = {"i": "int", "u": "uint", "f": "float"}
    return getattr(na, f"{names[kind.kind]}{8 * kind.itemsize}")()


def read_stream(data: bytes) -> Columns:
    """The rows of a whole Arrow IPC stream.

    Raises:
        ValueError: damaged, or with a column that is neither of numbers nor of texts.
    """
    return Columns(*read_columns(data))


def type_name(kind: Any) -> str:
    """A column's type as numpy names it; Arrow's own letter where that has none."""
    if kind.dictionary is not None:
        return f"words of {type_name(kind.dictionary)}"
    if kind.format in _NUMBERS:
        return np.dtype(_NUMBERS[kind.format]).name
    return {"u": "string", "U": "string", "b": "bool"}.get(kind.format, str(kind.format))
