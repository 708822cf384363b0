from __future__ import annotations

import os
from pathlib import Path

import pytest

from latlab.stubs.studies.sameness.same import Output, Written, difference, output_of, written_elsewhere


def said(line: bytes) -> Output:
    return Output(0, line + b"\n", b"", {})


def test_long_lines_are_shown_from_where_they_differ() -> None:
    begin = b"0, " * 50
    found = difference(said(begin + b"stub"), said(begin + b"own"), lambda: said(begin + b"own"))
    assert found is not None
    assert "0, stub' and not '" in found
    assert "0, own'" in found


def test_short_lines_are_shown_whole() -> None:
    found = difference(said(b"n = 3"), said(b"n = 60"), lambda: said(b"n = 60"))
    assert found is not None
    assert "'n = 3' and not 'n = 60'" in found


def wrote(**files: Written) -> Output:
    return Output(0, b"", b"", files)


def test_a_file_that_holds_something_else_is_told() -> None:
    one = wrote(log=Written(1))
    assert difference(wrote(log=Written(2)), one, lambda: one) == "log holds something else"


def test_a_file_that_each_run_adds_to_is_compared_by_what_it_adds() -> None:
    original, second = wrote(log=Written(1, 7)), wrote(log=Written(2, 7))
    assert difference(wrote(log=Written(3, 7)), original, lambda: second) is None
    assert difference(wrote(log=Written(3, 8)), original, lambda: second) == "log holds something else"


def test_a_file_that_differs_from_run_to_run_tells_nothing() -> None:
    assert difference(wrote(log=Written(3)), wrote(log=Written(1)), lambda: wrote(log=Written(2))) is None


def test_a_file_that_grows_holds_what_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    added = [output_of(["sh", "-c", "echo more >> log"], os.environ).files["log"] for _ in range(3)]
    assert added[0].whole != added[1].whole
    assert added[0].same(added[1])
    assert added[1].same(added[2])


def test_files_elsewhere_are_those_outside_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for path in ("here/a", "b"):
        (tmp_path / path).write_text(path)
    paths = [str(tmp_path / path) for path in ("here/a", "b", "gone")]
    assert list(written_elsewhere(paths)) == [str(tmp_path / "b")]
