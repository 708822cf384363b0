"""Which stage the tail waits for, and whether a fix that was applied agrees with its forecast."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from latlab.lab.diagnosis.tail_stage import most_of, waits_for
from latlab.lab.forecast.applied import _faster, _overlap, _sentence
from latlab.lab.trading.layout import STORY
from latlab.model.diagnosis.answer import AppliedRow, Budget, Interval, Part
from latlab.model.queues.analysis import Verdict


def _found(verdict: Verdict) -> Any:
    return SimpleNamespace(
        verdict=verdict,
        of_run=SimpleNamespace(
            stages=[
                SimpleNamespace(name="book-1", type="book"),
                SimpleNamespace(name="strategy-0", type="strategy"),
            ]
        ),
        queues=[
            SimpleNamespace(name="market-a.book-1", drain="book-1"),
            SimpleNamespace(name="s", drain="strategy-0"),
        ],
    )


def _budget(waiting: float, elsewhere: float) -> Budget:
    parts = (
        Part("waiting", "market-a.book-1", waiting),
        Part("waiting", "s", elsewhere),
        Part("floor", "machine", 1.0),
    )
    return Budget(0.999, waiting + elsewhere + 1.0, 40, parts)


def test_the_stage_that_most_of_the_tail_waits_for_is_named_with_its_queue() -> None:
    found = waits_for(_found(Verdict.NONE), _budget(800.0, 199.0))
    assert found is not None
    assert (found.stage, "80 % of p99.9" in found.sentence, "market-a.book-1 (80 %)" in found.sentence) == (
        "book",
        True,
        True,
    )


def test_no_stage_is_named_where_none_makes_half_of_the_tail() -> None:
    evenly = Budget(
        0.999, 1000.0, 40, (Part("waiting", "market-a.book-1", 400.0), Part("waiting", "s", 390.0))
    )
    assert waits_for(_found(Verdict.NONE), evenly) is None


def test_what_makes_the_most_of_a_tail_of_what_can_be_made_faster_is_told_whatever_the_verdict() -> None:
    found, spent = _found(Verdict.CPU), _budget(200.0, 799.0)
    assert most_of(found, spent, {"book", "strategy"}) == "strategy"
    assert most_of(found, spent, {"book"}) == "book"
    assert most_of(found, spent, {"feed"}) is None
    assert most_of(found, None, {"book"}) is None


def test_a_stage_that_limits_the_throughput_is_not_named_again_by_the_tail() -> None:
    assert waits_for(_found(Verdict.STAGE), _budget(800.0, 199.0)) is None


@pytest.mark.parametrize(
    ("one", "other", "overlaps"),
    [
        (Interval(5, 4, 6), Interval(6.5, 6, 7), True),
        (Interval(5, 4, 6), Interval(6.5, 6.1, 7), False),
        (Interval(5), Interval(5, 4, 6), True),
        (Interval(5), Interval(5.1), False),
    ],
)
def test_forecast_and_measurement_agree_where_their_intervals_overlap(
    one: Interval, other: Interval, overlaps: bool
) -> None:
    assert (_overlap(one, other), _overlap(other, one)) == (overlaps, overlaps)


def test_a_forecast_that_was_wrong_is_told_with_what_it_was_wrong_on() -> None:
    right = AppliedRow("p50", None, Interval(5, 4, 6), Interval(5, 4, 6), True)
    wrong = AppliedRow("p99.9", None, Interval(5, 4, 6), Interval(9, 8, 10), False)
    assert "The forecast was wrong on p99.9" in _sentence("book", 0.5, (right, wrong))


def test_a_fix_takes_the_stages_time_and_no_other() -> None:
    faster = _faster(STORY, "book", 0.5)
    times = {name: stage.service_ns for name, stage in faster.stages.items()}
    assert times == {
        **{name: stage.service_ns for name, stage in STORY.stages.items()},
        "book": STORY.stages["book"].service_ns // 2,
    }
