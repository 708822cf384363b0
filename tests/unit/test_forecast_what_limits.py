"""What limits at each point of a forecast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.lab.forecast.what_limits import most_named, with_limits
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.reports.diagnosis.text import forecast_rows


def forecast(kind: str, knee: float | None, takes_over: str | None, method: str = "model") -> Forecast:
    points = tuple(ForecastPoint(speedup, speedup, 0, rate_hz=Interval(100.0)) for speedup in (0.2, 0.6, 1.0))
    return Forecast(
        method, "slow", kind, 1e6, None, ForecastPoint(None, None, 0, rate_hz=Interval(90.0)),  # type: ignore[arg-type]
        points, None if knee is None else Interval(knee), takes_over, None, 2, "said",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "knee", "takes_over", "limits"),
    [
        ("limited", 0.4, "next", ["slow", "slow", "next", "next"]),
        ("limited", 0.4, None, ["slow", "slow", None, None]),
        ("total", None, "next", ["slow", "slow", "slow", "next"]),
        ("none", None, "next", ["next"] * 4),
    ],
)
def test_the_rows_name_the_stage_up_to_its_knee_and_then_what_takes_over(
    kind: str, knee: float | None, takes_over: str | None, limits: list[str | None]
) -> None:
    found = with_limits(forecast(kind, knee, takes_over))
    columns, rows = forecast_rows(found)

    assert [found.baseline.limits, *(point.limits for point in found.points)] == limits
    assert [row[columns.index("limits") + 1] for row in rows] == [one or "–" for one in limits]


def test_of_an_open_forecast_no_row_says_what_limits() -> None:
    assert with_limits(forecast("open", None, None)).baseline.limits is None


def test_what_most_runs_of_a_point_name_limits_it_and_a_verdict_is_worded() -> None:
    assert most_named(["book", "cannot tell", "book"]) == "book"
    assert most_named(["none", "cannot tell", "book"]) is None
    assert most_named(["book", "orders", "cannot tell", "none", "none"]) is None
    assert most_named(["cpu", "cpu", "book"]) == "cpu"
    assert most_named([]) is None


def test_only_runs_of_the_demonstrations_pipeline_name_verdicts() -> None:
    rows = [
        forecast_rows(with_limits(forecast("none", None, "cpu", method)))[1][0][-1]
        for method in ("stub", "model")
    ]

    assert rows == ["the CPUs", "cpu"]


def test_a_bound_is_told_as_one_of_times_as_of_rates() -> None:
    bound = ForecastPoint(0.2, 0.2, 0, rate_hz=Interval(100.0, 100.0, None), p99_ns=Interval(2e6, 2e6, None))
    found = replace(forecast("open", None, None), points=(bound,))
    columns, rows = forecast_rows(found)
    cells = {name: rows[1][1 + at] for at, name in enumerate(columns)}
    assert (cells["events/s"], cells["p99"]) == ("≥ 100", "≥ 2 ms")
