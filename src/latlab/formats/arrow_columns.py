"""Columns of numbers and texts between numpy and Arrow, by their buffers.

pyarrow's own conversions import pandas where that is installed, to ask whether they were given one of its
kind: that takes half a second, and many times that on a full machine, while an application is recorded that
may be over by then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["as_arrow", "as_numpy"]

_MOST_TEXT = 1 << 31  # bytes: of a column whose offsets have 32 bits
_NUMBERS = "iuf"


def as_arrow(values: Any) -> pa.Array:
    """A column of an array, or of a list of texts or numbers; of anything else what pyarrow makes of it."""
    import pyarrow as pa

    if isinstance(values, list) and values:
        kinds = {type(one) for one in values}
        if kinds == {str}:
            texts = [one.encode() for one in values]
            offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
            if offsets[-1] < _MOST_TEXT:
                places = pa.py_buffer(offsets.astype(np.int32))
                return pa.StringArray.from_buffers(len(texts), places, pa.py_buffer(b"".join(texts)))
        elif kinds in ({int}, {float}, {bool}):
            values = np.array(values)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.isnative:
        if values.dtype.kind == "b":
            bits = pa.py_buffer(np.packbits(values, bitorder="little"))
            return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])
        if values.dtype.kind in _NUMBERS and values.dtype.itemsize <= 8:
            data = pa.py_buffer(np.ascontiguousarray(values))
            return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, data])
    return pa.array(values)


def as_numpy(column: pa.ChunkedArray) -> NDArray[Any]:
    """An array of a column; of one that isn't of numbers, or lacks some, what pyarrow makes of it."""
    import pyarrow as pa

    numbers = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if not numbers or column.null_count:
        found: NDArray[Any] = column.to_numpy()
        return found
    kind = np.dtype(column.type.to_pandas_dtype())
    parts = [
        np.frombuffer(chunk.buffers()[1], kind, len(chunk), chunk.offset * kind.itemsize)
        for chunk in column.chunks
        if len(chunk)
    ]
    return np.concatenate(parts) if parts else np.empty(0, kind)
