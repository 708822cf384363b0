"""The study of a stage as JSON, from a forecast that the laboratory made."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.lab.forecast.stage_study import as_json
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.machine.environment import Environment
from latlab.reports.stubs import text as stubs_text
from latlab.reports.stubs.study_html import stage_page
from latlab.stubs import load_study


def point(speedup: float | None, rate: float) -> ForecastPoint:
    tail = Interval(rate, rate / 2, rate * 2)
    return ForecastPoint(
        speedup, None, 3, Interval(1000.0), Interval(rate, rate * 0.9, rate * 1.1), tail, tail, tail, "book"
    )


def test_a_stage_that_doubles_the_rate_gains_half_of_the_time_per_event() -> None:
    found = Forecast(
        "stub", "book", "limited", 30_000, 200.0, point(None, 500.0),
        (point(0.0, 500.0), point(0.5, 1000.0), point(1.0, 1000.0)), Interval(0.5), "strategy",
        Interval(0.0), 3, "beyond 50 % nothing",
    )  # fmt: skip
    document = as_json(found)
    assert (document["class"], document["t_limit"], document["t_sut_ns"]) == ("limited", 0.5, 2e6)
    assert [one["gain"] for one in document["curve"]] == [0.0, 0.5, 0.5]
    assert document["curve"][1]["interval"][0] < 0.5 < document["curve"][1]["interval"][1]
    assert document["curve"][2]["p99.9_ns"]["value"] == 1000.0
    assert "beyond 50 % nothing" in stubs_text.stage(document)
    assert "warning: not validated" in stubs_text.stage(document)


def test_a_stage_has_the_page_of_other_studies() -> None:
    found = Forecast(
        "stub", "book", "limited", 30_000, 200.0, point(None, 500.0),
        (point(0.0, 500.0), point(1.0, 1000.0)), Interval(0.5), "strategy", Interval(0.0), 3, "half pays",
    )  # fmt: skip
    page = stage_page(as_json(found), "latlab stubs study book.toml", Environment({}), 1).html()
    assert "What would a faster book buy?" in page
    assert "half pays" in page
    assert "not validated" in page


def test_planted_times_belong_to_a_stage(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('component = "a:b"\nslow = ["book=1"]\n')
    with pytest.raises(InputError, match="belongs to a stage"):
        load_study(file)
