from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.stats.change_points import change_points
from latlab.stats.experiments.multiple import benjamini_hochberg, proportion_bounds
from latlab.stats.variance import (
    autocorrelation,
    best_iterations,
    components,
    effective_size,
    midmean,
    midmean_error,
)


def test_adjusted_p_values_are_those_of_benjamini_and_hochbergs_example() -> None:
    p = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240]
    p += [0.4262, 0.5719, 0.6528, 0.7590, 1.0]
    assert int((benjamini_hochberg(p) <= 0.05).sum()) == 4


@given(st.lists(st.floats(0, 1), max_size=30))
def test_adjusting_never_lowers_a_p_value_and_keeps_their_order(p: list[float]) -> None:
    adjusted = benjamini_hochberg(p)
    assert all(a >= b - 1e-12 for a, b in zip(adjusted, p, strict=True))
    assert (np.diff(adjusted[np.argsort(p)]) >= -1e-12).all()
    assert (benjamini_hochberg(p, dependent=True) >= adjusted - 1e-12).all()


def test_no_false_alarm_in_1000_bounds_the_rate_at_three_in_a_thousand() -> None:
    low, high = proportion_bounds(0, 1000)
    assert low == 0
    assert high == pytest.approx(1 - 0.05 ** (1 / 1000))


def test_the_midmean_bears_a_quarter_of_outliers() -> None:
    assert midmean([10, 11, 12, 13, 14, 15, 1e9, 1e9]) == pytest.approx((12 + 13 + 14 + 15) / 4)


def test_the_error_of_the_midmean_is_how_much_it_scatters() -> None:
    random = np.random.default_rng(3)
    series = random.standard_t(3, size=(4000, 24))
    seen = float(np.std([midmean(x) for x in series]))
    assert float(np.mean([midmean_error(x) for x in series])) == pytest.approx(seen, rel=0.08)


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40))
def test_the_error_of_the_midmean_is_the_same_of_the_mirrored_values(values: list[float]) -> None:
    assert midmean_error(values) == pytest.approx(midmean_error([-v for v in values]))


def test_the_effective_size_of_an_autoregressive_series_is_what_theory_says() -> None:
    random = np.random.default_rng(1)
    x = np.zeros(20000)
    for i, step in enumerate(random.normal(size=20000)):
        x[i] = 0.8 * x[i - 1] + step
    assert effective_size(x) == pytest.approx(20000 * (1 - 0.8) / (1 + 0.8), rel=0.15)
    assert autocorrelation(x, 3)[1] == pytest.approx(0.8, abs=0.03)


def test_independent_values_are_worth_about_their_number() -> None:
    assert effective_size(np.random.default_rng(2).normal(size=5000)) > 4000


def test_variance_components_are_found_where_they_were_planted() -> None:
    random = np.random.default_rng(3)
    groups = [100 * np.exp(0.03 * random.normal() + 0.05 * random.normal(size=400)) for _ in range(60)]
    parts = components(groups)
    assert parts.between == pytest.approx(0.03, rel=0.3)
    assert parts.within == pytest.approx(0.05, rel=0.1)


def test_processes_that_differ_by_their_iterations_alone_have_next_to_no_variance_between() -> None:
    random = np.random.default_rng(4)
    parts = components([100 * np.exp(0.05 * random.normal(size=400)) for _ in range(60)])
    assert parts.between < 0.003


def test_dearer_processes_are_given_more_iterations() -> None:
    parts = components([[100.0, 101, 99, 100], [104.0, 105, 103, 104], [98.0, 97, 99, 98]])
    assert best_iterations(parts, 1.0, 1e-3) > best_iterations(parts, 0.01, 1e-3)


def test_a_planted_change_of_level_is_found_at_its_place() -> None:
    random = np.random.default_rng(5)
    x = np.concatenate([random.normal(10, 1, 60), random.normal(13, 1, 50), random.normal(10, 1, 40)])
    found = change_points(x)
    assert len(found) == 2
    assert abs(found[0].index - 60) <= 6
    assert abs(found[1].index - 110) <= 6
    assert found[0].after - found[0].before == pytest.approx(3, abs=0.7)


def test_a_change_begins_after_the_last_low_value_even_if_that_is_the_highest_of_them() -> None:
    low = [1.0, 1.003, 0.998, 1.001, 1.002, 0.999, 1.0, 1.001, 0.997, 1.004]
    (found,) = change_points([*low, *(1.1 * x for x in low[:6])], alpha=0.02)
    assert found.index == 10


def test_a_steady_series_has_a_change_no_more_often_than_alpha() -> None:
    found = [change_points(np.random.default_rng(s).standard_cauchy(size=80), alpha=0.05) for s in range(60)]
    assert sum(map(bool, found)) <= 8


def test_correlated_noise_is_seldom_taken_for_a_change() -> None:
    alarms = 0
    for seed in range(40):
        random, x = np.random.default_rng(seed), np.zeros(300)
        for i in range(1, 300):
            x[i] = 0.6 * x[i - 1] + random.normal()
        alarms += bool(change_points(x, alpha=0.01))
    assert alarms <= 8


def test_a_long_series_is_searched_by_stretches() -> None:
    x = np.concatenate([np.full(30_000, 5.0), np.full(70_000, 4.0)]) + np.random.default_rng(1).normal(
        size=100_000
    )
    assert any(abs(point.index - 30_000) < 500 for point in change_points(x))


@given(st.lists(st.floats(-1e6, 1e6), max_size=40))
def test_any_series_gives_ordered_indices_inside_it(values: list[float]) -> None:
    indices = [point.index for point in change_points(values)]
    assert indices == sorted(set(indices))
    assert all(0 < i < len(values) for i in indices)


def test_what_changes_from_turn_to_turn_falls_out_of_the_ratio_of_two_that_took_turns() -> None:
    from latlab.bench.judging.judge import log_ratio, turn_ratios
    from latlab.model.bench import Sample

    frequency = np.repeat([1.0, 1.1, 0.9, 1.2, 1.0], 4)[:18]  # the last turn is shorter, and left out
    one, other = Sample(100 * frequency, turn=4), Sample(105 * frequency, turn=4)
    assert turn_ratios(one, other) == pytest.approx([math.log(1.05)] * 4)
    assert log_ratio(one, other) == pytest.approx(math.log(1.05))
    assert log_ratio(other, one) == pytest.approx(-log_ratio(one, other))
    apart = Sample(100 * frequency), Sample(105 * frequency)
    assert len(turn_ratios(*apart)) == 1


def test_a_quantile_has_an_interval_once_seven_groups_of_pairs_carry_it() -> None:
    from latlab.bench.judging.judge import judge_pairs
    from latlab.model.bench import Sample

    random = np.random.default_rng(5)

    def pairs(count: int) -> list[tuple[Sample, Sample]]:
        return [
            (Sample(100 + random.exponential(size=50)), Sample(120 + random.exponential(size=50)))
            for _ in range(count)
        ]

    few, many = (
        judge_pairs(pairs(count), smallest_effect=0.01, smallest_effect_why="", alpha=0.05)
        for count in (12, 40)
    )
    assert [s.quantile for s in few.shifts if s.withheld is None] == []
    carried = {s.quantile: s for s in many.shifts if s.withheld is None}
    assert list(carried) == ["p25", "p50", "p75", "p90"]
    for name, shift in carried.items():
        low, high = shift.interval
        excess = -math.log1p(-float(name[1:]) / 100)  # of the exponential distribution's quantile
        assert low is not None
        assert high is not None
        assert low < 20 / (100 + excess) < high
        assert high - low < 0.05
    assert str(many.shifts[-1].withheld).startswith("needs 7 times 5,000 effective iterations, has ")
