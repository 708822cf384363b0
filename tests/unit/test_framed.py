"""Results that a notebook shows: a line, a table, a picture, the frames of other libraries."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.model.framed import Framed


class Queues(Framed):
    @property
    def finding(self) -> str:
        return "store limits <really>"

    def columns(self) -> dict[str, list[object]]:
        return {"queue": ["a<b", "c"], "fill": [95.25, None], "rate_hz": [33_016, 2]}

    def _bars(self) -> str:
        return "fill"


def test_a_result_is_a_line_and_a_table_whose_texts_are_escaped() -> None:
    made = Queues()
    assert repr(made) == "<store limits <really>>"
    page = made._repr_html_()
    assert "<b>store limits &lt;really&gt;</b>" in page
    assert "<td>a&lt;b</td><td>95.2</td><td>33,016</td>" in page
    assert "<td>c</td><td>–</td><td>2</td>" in page


def test_a_picture_has_a_bar_a_row_and_is_written_as_it_is_shown(tmp_path: Path) -> None:
    picture = Queues().plot()
    assert picture._repr_svg_().count("<rect ") == 2
    assert "<title>store limits &lt;really&gt;</title>" in picture.svg
    assert picture.save(tmp_path / "fills.svg").read_text(encoding="utf-8") == picture.svg


@pytest.mark.parametrize(("library", "method"), [("pandas", "to_pandas"), ("polars", "to_polars")])
def test_a_result_is_a_data_frame(library: str, method: str) -> None:
    pytest.importorskip(library)
    frame = getattr(Queues(), method)()
    assert list(frame.columns) == ["queue", "fill", "rate_hz"]
    assert len(frame) == 2


def test_a_result_is_an_arrow_table() -> None:
    pytest.importorskip("pyarrow")
    assert Queues().to_arrow().column_names == ["queue", "fill", "rate_hz"]
