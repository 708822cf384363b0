from __future__ import annotations

from latlab.stubs.studies.sameness.same import Output, difference


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
