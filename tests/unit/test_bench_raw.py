from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.bench.results import raw as _raw
from latlab.errors import InputError
from latlab.model.bench import Sample

RANDOM = np.random.default_rng(1)
ROWS = [
    _raw.Row(
        "a, b", pair, position, side, Sample(RANDOM.exponential(100.0, size=5), 4, 2, 10.0, 15.5, turn=2)
    )
    for pair in range(3)
    for position, side in enumerate("AB" if pair % 2 else "BA")
]


def test_raw_results_are_read_as_they_were_written_to_the_last_bit(tmp_path: Path) -> None:
    _raw.write(tmp_path / "raw.csv", {"kind": "bench-ab"}, ROWS)
    raw = _raw.read(tmp_path / "raw.csv")
    assert raw.meta == {"kind": "bench-ab"}
    assert raw.tests() == ["a, b"]
    for expected, actual in zip(ROWS, raw.rows, strict=True):
        assert expected.sample.times_ns.tolist() == actual.sample.times_ns.tolist()
        assert expected.sample.turn == actual.sample.turn
        assert (expected.pair, expected.position, expected.side) == (
            actual.pair,
            actual.position,
            actual.side,
        )
        assert (actual.sample.batch, actual.sample.operations, actual.sample.read_ns) == (4, 2, 15.5)
    assert len(raw.pairs("a, b")) == 3


def test_a_pair_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    _raw.write(tmp_path / "raw.csv", {}, ROWS[:-1])
    assert len(_raw.read(tmp_path / "raw.csv").pairs("a, b")) == 2


@pytest.mark.parametrize("keep", [0, 10, 60, 300, -7, -1])
def test_a_truncated_file_is_an_input_error(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "raw.csv"
    _raw.write(path, {"kind": "bench-ab"}, ROWS)
    path.write_text(path.read_text()[:keep])
    with pytest.raises(InputError, match=r"raw\.csv"):
        _raw.read(path)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_read_or_an_input_error(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "raw.csv"
    _raw.write(path, {"kind": "bench-ab"}, ROWS)
    text = path.read_text()
    at = data.draw(st.integers(0, len(text) - 1))
    path.write_text(text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 5)) :])
    with contextlib.suppress(InputError):
        assert len(_raw.read(path).rows) <= len(ROWS) + 5
