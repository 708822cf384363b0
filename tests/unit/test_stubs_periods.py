"""Working periods within the calls of a component that waits."""

import numpy as np
import pytest

from latlab.model.stubs import Timeline, TimelineThread
from latlab.stubs.studies import periods as _periods
from latlab.stubs.studies.runner import Unit

US = 1000


def thread(tid: int, *slices: tuple[int, int, str]) -> TimelineThread:
    ordered = tuple((a * US, b * US, state) for a, b, state in slices)
    return TimelineThread(0, None, tid, "", 0, 0, 0, 0, ordered[-1][1], slices=ordered)


def unit(*calls: tuple[int, int]) -> Unit:
    return Unit(np.array(calls) * US, 0, 0)


def test_a_call_is_cut_where_it_waits_and_not_where_it_is_kept_from_a_cpu() -> None:
    parts = [(0, 300, "running"), (300, 400, "ready"), (400, 500, "running"), (500, 900, "blocked"),
             (900, 950, "ready"), (950, 1150, "running")]  # fmt: skip
    slices = [(a * US, b * US, s) for a, b, s in parts]
    rows = _periods.steps(_periods.cut(100 * US, 1100 * US, slices))
    assert rows.tolist() == [[300 * US, 400 * US], [150 * US, 0]]


def test_a_wait_too_short_to_be_slept_is_part_of_the_work() -> None:
    slices = [(0, 100 * US, "running"), (100 * US, 110 * US, "blocked"), (110 * US, 200 * US, "running")]
    assert _periods.steps(_periods.cut(0, 200 * US, slices)).tolist() == [[200 * US, 0]]


def test_a_call_that_ends_with_its_wait_has_a_period_without_work() -> None:
    slices = [(0, 100 * US, "running"), (100 * US, 500 * US, "blocked")]
    assert _periods.steps(_periods.cut(0, 500 * US, slices)).tolist() == [[100 * US, 400 * US], [0, 0]]


def test_steps_take_the_usual_times_of_their_call() -> None:
    rows = np.array([[300, 400], [100, 0]]) * US
    assert _periods.scaled(rows, 200 * US, 800 * US).tolist() == [[150 * US, -800 * US], [50 * US, 0]]
    assert _periods.scaled(rows, 200 * US, 0).tolist() == [[200 * US, 0]]  # it does not usually wait


def test_calls_of_a_traced_run_become_rows_and_totals_by_period() -> None:
    slices = [(0, 10, "running"), (10, 60, "blocked"), (60, 90, "running"),
              (90, 100, "running"), (100, 150, "blocked"), (150, 180, "running")]  # fmt: skip
    timeline = Timeline("captured", 180 * US, (thread(77, *slices),), begin_ns=5_000_000)
    spans = {"p": np.array([[0, 77, 0, 90 * US], [0, 77, 90 * US, 180 * US]])}
    spans["p"][:, 2:] += 5_000_000
    rows = _periods.of_calls({("p", 0): unit((40, 50), (40, 50))}, timeline, spans)
    assert rows["p", 0].tolist() == [[10_000, -50_000], [30_000, 0]] * 2
    assert _periods.totals(rows).tolist() == [[20_000, 100_000], [60_000, 0]]


def test_a_traced_run_with_other_calls_says_nothing() -> None:
    timeline = Timeline("captured", 180 * US, (thread(77, (0, 90, "running")),))
    spans = {"p": np.array([[0, 77, 0, 90 * US]])}
    assert _periods.of_calls({("p", 0): unit((40, 50), (40, 50))}, timeline, spans) == {}


def test_the_shortest_study_of_more_working_periods_takes_longer() -> None:
    one = {("a", 0): np.array([[1000, -500], [10, 0]])}  # the second is too short to be studied
    two = {("a", 0): np.array([[1000, -500], [900, 0]])}
    assert _periods.least_seconds(one, 0.1) == pytest.approx(1.6)
    assert _periods.least_seconds(two, 0.1) == pytest.approx(2.4)
