from __future__ import annotations

import json
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.errors import InputError
from latlab.formats import documents


class Wait(Enum):
    BLOCK = "block"


@dataclass(frozen=True)
class Result:
    p50_ns: float
    wait: Wait
    fills: np.ndarray


def test_results_become_strict_json() -> None:
    result = Result(float("nan"), Wait.BLOCK, np.array([1, 2], dtype=np.uint64))
    found = json.loads(
        documents.dumps({"r": result, "x": np.float32("inf"), 3: (np.int8(1), Path("a"), {"b"})})
    )
    assert found == {"r": {"p50_ns": None, "wait": "block", "fills": [1, 2]}, "x": None, "3": [1, "a", ["b"]]}


def test_what_json_cannot_say_is_refused() -> None:
    with pytest.raises(TypeError, match="object can't be written"):
        documents.dumps({"x": object()})


def test_a_document_that_fails_to_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    documents.write(tmp_path / "a.json", {"n": 1})
    with pytest.raises(TypeError):
        documents.write(tmp_path / "a.json", {"n": object()})
    assert documents.read(tmp_path / "a.json") == {"n": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "offset 0: not JSON"),
        (b'{"a": ', "offset 6: not JSON"),
        (b'{"\xff": 1}', "offset 2: not UTF-8"),
        (b"[1]", "holds a list, not an object"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "nested too deeply"),
    ],
)
def test_a_damaged_document_is_an_input_error_with_its_offset(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(raw)
    with pytest.raises(InputError) as caught:
        documents.read(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.long
@given(st.dictionaries(st.text(), json_values))
def test_plain_documents_come_back_as_they_were(document: dict[str, object]) -> None:
    assert json.loads(documents.dumps(document)) == document


def test_what_steers_a_terminal_is_escaped_in_json_and_comes_back() -> None:
    text = "\x1b[2J\x7f\x9b1m\u202ecod.exe\u2066é"
    written = documents.dumps({text: text})
    assert [one for one in written if not one.isprintable()] == []
    assert json.loads(written) == {text: text}
    assert "é" in written


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDWR)
    documents.write(tmp_path / "pipe", {"a": 1})
    assert json.loads(os.read(end, 100)) == {"a": 1}
    os.close(end)
    assert (tmp_path / "pipe").is_fifo()
    assert [one.name for one in tmp_path.iterdir()] == ["pipe"]


def test_a_text_that_can_not_be_written_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        documents.write_text(tmp_path / "none" / "out.json", "{}")
    assert caught.value.filename == str(tmp_path / "none" / "out.json")


def test_a_text_that_can_not_be_written_leaves_the_former_one(tmp_path: Path) -> None:
    documents.write_text(tmp_path / "out", "whole")
    with pytest.raises(UnicodeEncodeError):
        documents.write_text(tmp_path / "out", "half, then \ud800")
    assert (tmp_path / "out").read_text() == "whole"
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
