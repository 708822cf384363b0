"""Columns go to an Arrow stream and come back, and every Arrow library reads what latlab wrote."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nanoarrow.ipc import StreamWriter

from latlab.formats.columns import Columns, as_struct, read_stream

NUMBERS = [np.arange(7, dtype=kind) for kind in ("i1", "u2", "u4", "i8", "u8", "f4", "f8")]
LISTS: list[Any] = [["", "a", "größer"], [1, -2], [1.5, 2.0], [True, False], [None, "a"], []]
ODD = [np.array([True] * 9 + [False]), np.arange(10)[::3], np.arange(4, dtype=">i4"), np.array(["a", "bc"])]


def written(*chunks: Any) -> bytes:
    out = io.BytesIO()
    with StreamWriter.from_writable(out) as stream:
        for chunk in chunks:
            stream.write_array(as_struct(chunk))
    return out.getvalue()


SPOILED = written(
    *2 * [{"s": ["a", "bcd", "", None], "n": [1, 2, 3, 4], "f": [1.5, None, 2, 3], "b": [True] * 4}]
)


@pytest.mark.parametrize("values", [*NUMBERS, *LISTS, *ODD], ids=str)
def test_a_column_comes_back_and_pyarrow_reads_the_same(values: Any) -> None:
    data = written({"x": values}, {"x": values})
    expected = list(values) * 2
    found = read_stream(data)["x"]
    assert expected == found.tolist()
    assert expected == pa.ipc.open_stream(data).read_all()["x"].to_pylist()
    if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
        assert found.dtype == values.dtype.newbyteorder("=")


def test_what_pyarrow_wrote_is_read_with_missing_values_and_dictionaries() -> None:
    names = ["a", "b", None, "a"]
    table = pa.table(
        {
            "n": pa.array([1, None, 3, 4]),
            "s": pa.array(names),
            "d": pa.array(names).dictionary_encode(),
            "b": pa.array([True, None, False, True]),
            "l": pa.array(names, pa.large_string()),
        }
    )
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table, max_chunksize=3)
    found = read_stream(out.getvalue())
    assert np.isnan(found["n"]).tolist() == [False, True, False, False]
    assert [found[name].tolist() for name in "sdl"] == [names, names, names]
    assert found["b"].tolist() == [True, None, False, True]
    assert found.num_rows == 4


def test_columns_are_an_arrow_table_for_whoever_asks() -> None:
    columns = Columns({"x": np.arange(3), "s": np.array(["a", None, "c"], dtype=object)}, 3)
    expected = {"x": [0, 1, 2], "s": ["a", None, "c"]}
    assert pa.table(columns).to_pydict() == columns.to_arrow().to_pydict() == columns.to_pydict() == expected
    assert [row["s"] for row in columns.rows()] == expected["s"]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"x": [1, 2], "y": [1]}, "unlike length"),
        ({"x": np.zeros((2, 2))}, "2 dimensions"),
        ({"x": [object()]}, "object"),
        ({"x": np.array([1j])}, "complex128"),
    ],
)
def test_what_is_no_column_is_refused(columns: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        as_struct(columns)


def test_a_column_that_a_series_does_not_have_is_named() -> None:
    table = pa.table({"x": pa.array([[1], [2, 3]])})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table)
    with pytest.raises(ValueError, match="column 'x' has columns of its own"):
        read_stream(out.getvalue())


def test_compressed_columns_are_refused_by_name() -> None:
    table = pa.table({"x": pa.array(range(1000))})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    with pytest.raises(ValueError, match="compressed columns"):
        read_stream(out.getvalue())


@pytest.mark.long
@settings(max_examples=1000, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=6),
    st.integers(0, 2000),
)
def test_any_bytes_changed_or_cut_are_read_or_refused(changes: list[tuple[int, int]], cut: int) -> None:
    raw = bytearray(SPOILED)
    for at, value in changes:
        raw[at % len(raw)] = value
    if cut < len(raw):
        del raw[cut:]
    with contextlib.suppress(ValueError, MemoryError):
        read_stream(bytes(raw)).to_pydict()


def test_recorded_columns_import_neither_pandas_nor_pyarrow() -> None:
    program = (
        "import sys, numpy as np\n"
        "from latlab.formats.columns import as_struct\n"
        "as_struct({'a': np.arange(3), 'b': ['a', 'b', 'c'], 'c': [1, 2, 3]})\n"
        "sys.exit('pandas' in sys.modules or 'pyarrow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
