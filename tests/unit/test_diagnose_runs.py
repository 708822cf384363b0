"""What several runs of a pipeline say together, and what one of them lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from latlab import stubs
from latlab.formats.event_traces.files import RECORD, TraceFile
from latlab.lab.forecast.by_stage_stub import _agenda, _sentence, points_that_fit
from latlab.lab.forecast.intervals import on_the_curve, pooled, quantile_interval
from latlab.lab.forecast.stage_runs import Fast, Paced, undisturbed
from latlab.lab.judge.disturbances import losses_in_words
from latlab.lab.judge.outcome import Outcome
from latlab.lab.judge.verdict import _uncounted
from latlab.model.diagnosis.answer import ForecastPoint, Interval
from latlab.model.diagnosis.pipeline import QueueRow
from latlab.model.stubs import SpeedupForecast
from latlab.queues.trace.traces import _known_until


def run(tail_us: float, taken: float = 0.0) -> Paced:
    """A thousand events, of which the slowest two take so long, while others took a share of the machine."""
    latency = np.append(np.full(998, 50_000), np.full(2, round(1000 * tail_us)))
    return Paced(rate_hz=1.0, service_ns=1.0, latency=latency, limits="none", taken=taken)


def test_one_disturbed_run_does_not_make_the_tail() -> None:
    found = quantile_interval([run(tail) for tail in (100, 104, 96, 40_000, 101)], 0.999)

    assert found is not None
    assert found.value == pytest.approx(101_000)
    assert (found.low, found.high) == (96_000, 40_000_000)


def test_of_an_even_number_it_lies_halfway_between_the_middle_two() -> None:
    found = quantile_interval([run(tail) for tail in (100, 400)], 0.999)

    assert found is not None
    assert found.value == pytest.approx(200_000)


def test_of_many_runs_the_interval_leaves_the_outermost_out() -> None:
    found = quantile_interval([run(100 + k) for k in range(12)], 0.999)

    assert found is not None
    assert (found.low, found.high) == (102_000, 109_000)


@pytest.mark.parametrize(
    ("room", "points"),
    [(9, (0.0, 0.2, 0.5, 1.0)), (4, (0.0, 0.2, 0.5, 1.0)), (3, (0.0, 0.5, 1.0)), (0, (0.0, 0.5, 1.0))],
)
def test_the_point_that_is_applied_stays_where_there_is_room_for_few(
    room: int, points: tuple[float, ...]
) -> None:
    assert points_that_fit((0.0, 0.2, 0.5, 1.0), 0.5, room) == points


def agenda(
    rounds: int,
    tails: list[float],
    rates: list[float],
    flat_tails: list[float] | None = None,
    flat_rates: list[float] | None = None,
) -> list[tuple[float | None, bool]]:
    """The runs of a round after so many, whose layouts but the flat stub gave the same until now."""
    keys = (None, 0.4)
    return _agenda(
        rounds,
        {key: [run(tail) for tail in tails] for key in keys} | {1.0: [run(t) for t in flat_tails or tails]},
        {key: [Fast(rate, "book") for rate in rates] for key in keys}
        | {1.0: [Fast(rate, "book") for rate in flat_rates or rates]},
    )


def test_the_first_rounds_hold_every_layout_at_both_paces_and_the_flat_stub_more_often() -> None:
    runs = agenda(0, [], [])
    assert set(runs) == {(key, pace) for key in (None, 0.4, 1.0) for pace in (True, False)}
    assert {one for one in runs if runs.count(one) > 1} == {(1.0, False)}
    assert runs.count((1.0, False)) == 3


SURE, UNSURE = [100.0, 101.0, 100.0, 101.0], [100.0, 140.0, 100.0, 140.0]


def test_where_runs_agree_the_time_goes_to_the_flat_stub() -> None:
    assert agenda(4, SURE, SURE) == [(None, True)] + 4 * [(1.0, True)]


def test_an_unmodified_pipeline_that_is_unlike_itself_runs_as_often_as_the_flat_stub() -> None:
    runs = agenda(5, UNSURE, SURE)
    assert runs.count((None, True)) == runs.count((1.0, True)) == 4


def test_a_flat_stub_whose_throughput_is_uneven_runs_at_full_load_again() -> None:
    runs = agenda(5, SURE, SURE, flat_rates=UNSURE)
    assert [one for one in runs if not one[1]] == 3 * [(1.0, False)]


def test_an_uneven_throughput_of_the_unmodified_pipeline_is_measured_again() -> None:
    assert (None, False) in agenda(5, SURE, UNSURE, flat_rates=SURE)
    assert (None, False) in agenda(2, SURE, SURE[:2])


def test_what_lies_between_is_run_again_once_the_flat_stub_is_known() -> None:
    assert {(0.4, True), (0.4, False)} <= set(agenda(4, UNSURE, UNSURE, SURE, SURE))
    assert (0.4, True) not in agenda(4, SURE, UNSURE, SURE, SURE)
    assert (0.4, False) not in agenda(4, UNSURE, SURE, SURE, SURE)


def test_what_lies_between_waits_for_the_flat_stub() -> None:
    for runs in (agenda(4, UNSURE, UNSURE, UNSURE, SURE), agenda(4, UNSURE, UNSURE, SURE, UNSURE)):
        assert 0.4 not in {key for key, _ in runs}


def kept(taken: list[float]) -> list[float]:
    """The shares that others took in those runs of a point that count, beside a point with quiet runs."""
    paced, _ = undisturbed({None: [run(100)] * len(taken), 1.0: [run(100, share) for share in taken]}, {})
    return [one.taken for one in paced[1.0]]


def test_runs_that_others_disturbed_do_not_count() -> None:
    assert kept([0.3, 0.0, 0.01, 0.0, 0.1, 0.02, 0.01]) == [0.0, 0.01, 0.0, 0.02, 0.01]


def test_what_others_always_take_is_the_machine_as_it_is() -> None:
    paced, _ = undisturbed({None: [run(100, share) for share in (0.2, 0.21, 0.2, 0.19, 0.21, 0.4)]}, {})
    assert [one.taken for one in paced[None]] == [0.2, 0.21, 0.2, 0.19, 0.21]


def test_of_each_point_the_four_least_disturbed_runs_count() -> None:
    assert kept([0.5, 0.4, 0.3, 0.2, 0.1]) == [0.4, 0.3, 0.2, 0.1]
    assert kept([0.5, 0.4]) == [0.5, 0.4]


def test_throughput_counts_by_the_same_rule() -> None:
    fast = [Fast(1e6, "book", share) for share in (0.0, 0.0, 0.0, 0.0, 0.5)]
    _, left = undisturbed({}, {1.0: fast})
    assert left[1.0] == fast[:4]


def test_runs_without_a_traced_event_give_none() -> None:
    empty = Paced(rate_hz=1.0, service_ns=1.0, latency=np.empty(0, np.int64), limits="none")

    assert quantile_interval([empty], 0.5) is None


def test_traces_are_known_until_the_first_lane_was_full() -> None:
    records = np.zeros(5, RECORD)
    traces = TraceFile(records, np.array([0, 0, 1, 1, 2], np.uint32), 1, 16, 0, 0, lost=7)

    assert _known_until(traces, np.array([10, 30, 20, 25, 90])) == 25


def feed(taken: int, lost: int) -> QueueRow:
    zeros: dict[str, Any] = dict.fromkeys(
        ("capacity", "samples", "nonempty", "sum_of_fills", "fill_p50", "fill_p99"), 0
    )
    return QueueRow(
        name="feed-a",
        source="exchange-a",
        drain="decoder-a",
        kind="bounded",
        fill_mean=0.0,
        fill_max=0,
        full_blocks=0,
        events_in=taken,
        events_out=taken,
        drops=lost,
        little_ns=None,
        **zeros,
    )


@pytest.mark.parametrize(("taken", "reasons"), [(92, 0), (91, 1)])
def test_what_was_offered_is_either_taken_or_counted_as_lost(taken: int, reasons: int) -> None:
    # 100 were sent in three passes, the last two of which began with a message of their own.
    summary = {"feeds": [{"sent": 100, "dropped": 10, "passes": 3}]}

    found = _uncounted([feed(taken, 10)], [Outcome("trading", 1, summary, None, 0)])

    assert len(found) == reasons


def test_an_application_that_lost_nothing_has_no_losses() -> None:
    assert losses_in_words([feed(92, 0)], None) == ()


def test_what_was_lost_is_told_with_its_share_and_whose_fault_it_is() -> None:
    (said,) = losses_in_words([feed(75, 25), feed(9, 0)], "book")
    assert said.startswith("25.0 % of feed-a's messages were dropped because book cannot keep up (25 of 100)")


def test_intervals_of_two_runs_each_cover_the_truth_as_often_as_they_say() -> None:
    random = np.random.default_rng(9)
    covered = 0
    for _ in range(200):
        logs = random.normal(0.0, 0.1, (5, 2))
        points = [Interval(float(np.exp(two.mean())), *map(float, np.exp(np.sort(two)))) for two in logs]
        found = pooled(points, [2] * 5)
        covered += sum(one is not None and one.low <= 1.0 <= one.high for one in found)  # type: ignore[operator]
    assert 0.93 <= covered / 1000 <= 0.985


def test_an_interval_of_many_runs_stays_as_it_is() -> None:
    points = [
        Interval(1.0, 0.9, 1.1),
        Interval(1.0, 0.9, 1.1),
        Interval(1.0, 0.99, 1.01),
        None,
        Interval(1.0),
    ]
    found = pooled(points, [2, 3, 7, 0, 1])
    assert found[2:] == points[2:]
    assert found[0] is not None
    assert found[0].low is not None
    assert found[0].low < 0.9


def of_throughput(
    costs: dict[float, float], spread: float
) -> tuple[dict[float | None, ForecastPoint], SpeedupForecast]:
    """Three runs at each speed-up, of µs an event, which differ by so much: their points and their curve."""
    found = stubs.forecast(
        [{s: (1 + spread * turn) * 1e6 / us for s, us in costs.items()} for turn in (0, 1, -1)],
        name="book",
        baseline=[50_000.0, 50_000.0 * (1 + spread), 50_000.0 * (1 - spread)],
        better="more",
        what="throughput",
    )
    points = {
        s: ForecastPoint(
            s, s, 3, capacity_hz=Interval(1e6 / us, (1 - spread) * 1e6 / us, (1 + spread) * 1e6 / us)
        )
        for s, us in [(None, 20.0), *costs.items()]
    }
    return points, found


def test_a_points_throughput_is_that_of_the_curve_of_all_points() -> None:
    # 20 µs an event, of which the stage has 12, until the next one limits at 10: at 20 % by bad luck no gain.
    costs = {0.0: 20.0, 0.2: 20.0, 0.5: 14.0, 1.0: 10.0}
    measured, found = of_throughput(costs, spread=0.01)

    fitted = on_the_curve(measured, found)

    assert fitted[None] == measured[None]
    assert fitted[0.0] == measured[0.0]
    rate = fitted[0.2].capacity_hz
    assert rate is not None
    assert 51_500 < rate.value < 58_000
    assert rate.low is not None
    assert rate.low <= 50_000  # as its own runs gave


def test_a_curve_hides_no_stub_that_changes_the_pipeline() -> None:
    # Stubbed an event takes 22 µs in place of 20: at 20 % nothing is gained, as without a curve.
    costs = {0.0: 22.0, 0.2: 20.0, 0.5: 16.0, 1.0: 10.0}
    measured, found = of_throughput(costs, spread=0.002)

    fitted = on_the_curve(measured, found)

    rate = fitted[0.2].capacity_hz
    assert rate is not None
    assert 49_000 < rate.value < 52_000  # the curve alone, which is without the stub's own time: 55,500


@pytest.mark.parametrize(("faster_ms", "rough"), [(7.8, True), (6.4, True), (6.0, False)])
def test_a_tail_that_may_be_as_long_with_a_faster_stage_is_told_as_too_rough(
    faster_ms: float, rough: bool
) -> None:
    def point(speedup: float | None, tail_ms: float) -> ForecastPoint:
        tail = Interval(tail_ms * 1e6, 0.8e6 * tail_ms, 1.1e6 * tail_ms)
        return ForecastPoint(speedup, speedup, 2, capacity_hz=Interval(50_000.0), p99_9_ns=tail)

    points = {
        None: point(None, 6.7),
        0.2: point(0.2, faster_ms),
        0.5: point(0.5, faster_ms),
        1.0: point(1.0, 3.0),
    }
    sentence = _sentence("book", points, "none", None, None)
    assert "p99.9 from 6.7 ms to" in sentence
    assert sentence.count("too rough to tell a change") == (2 if rough else 0)

    del points[0.2]  # the budget was short
    sentence = _sentence("book", points, "none", None, None)
    assert "`book` 50 % faster takes p99.9 from 6.7 ms to" in sentence
    assert sentence.count("too rough to tell a change") == (1 if rough else 0)
