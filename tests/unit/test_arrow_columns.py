"""Columns go to Arrow and back by their buffers, as pyarrow converts them, without importing pandas."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from latlab.formats.arrow_columns import as_arrow, as_numpy

NUMBERS = [np.arange(7, dtype=kind) for kind in ("i1", "u2", "u4", "i8", "u8", "f4", "f8")]
LISTS: list[Any] = [["", "a", "größer"], [1, -2], [1.5, 2.0], [True, False], [None, "a"], [1, None], []]
ODD = [np.array([True] * 9 + [False]), np.arange(10)[::3], np.arange(4, dtype=">i4"), np.array(["a", "bc"])]


@pytest.mark.parametrize("values", [*NUMBERS, *LISTS, *ODD], ids=str)
def test_a_column_is_what_pyarrow_makes_of_it(values: Any) -> None:
    try:
        expected = pa.array(values)
    except pa.ArrowNotImplementedError:
        with pytest.raises(pa.ArrowNotImplementedError):
            as_arrow(values)
        return
    found = as_arrow(values)
    found.validate(full=True)
    assert expected.equals(found)


@pytest.mark.parametrize("values", NUMBERS, ids=str)
def test_numbers_come_back_from_several_chunks_and_from_a_slice(values: Any) -> None:
    column = pa.chunked_array([as_arrow(values), as_arrow(values).slice(2, 3), as_arrow(values[:0])])
    assert np.concatenate([values, values[2:5]]).tolist() == as_numpy(column).tolist()
    assert values.dtype == as_numpy(column).dtype


def test_a_column_that_lacks_some_is_converted_as_pyarrow_does() -> None:
    assert np.isnan(as_numpy(pa.chunked_array([pa.array([1.0, None])]))).tolist() == [False, True]


def test_recorded_columns_never_import_pandas() -> None:
    program = (
        "import sys, numpy as np, pyarrow as pa\n"
        "from latlab.formats.arrow_columns import as_arrow, as_numpy\n"
        "columns = [as_arrow(np.arange(3)), as_arrow(['a', 'b']), as_arrow([1, 2])]\n"
        "as_numpy(pa.chunked_array([columns[0]]))\n"
        "sys.exit('pandas' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
