from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from latlab.stats.shapes.humps import dip_p_value, dip_statistic, find_humps

UNIMODAL = {
    "normal": lambda random, n: random.normal(size=n),
    "uniform": lambda random, n: random.random(n),
    "exponential": lambda random, n: random.exponential(size=n),
    "heavy tail": lambda random, n: random.pareto(1.5, n),
    "a clock of 10 ns": lambda random, n: np.round(random.lognormal(8, 0.3, n) / 10) * 10,
    "a clock coarser than the distribution": lambda random, n: np.round(random.normal(size=n) * 1.5),
}


@pytest.mark.parametrize("name", UNIMODAL)
def test_unimodal_values_have_one_hump_in_at_least_95_of_100_series(name: str) -> None:
    random = np.random.default_rng(7)
    alarms = sum(find_humps(UNIMODAL[name](random, 200)).multimodal for _ in range(400))
    assert alarms <= 400 * 0.05 + 3 * np.sqrt(400 * 0.05 * 0.95)


def test_the_sleeping_wake_up_is_told_from_the_awake_one() -> None:
    random = np.random.default_rng(3)
    asleep = random.random(20_000) < 0.05
    latency = np.where(
        asleep, random.lognormal(np.log(25_000), 0.1, 20_000), random.lognormal(np.log(7_000), 0.15, 20_000)
    )
    humps = find_humps(latency).humps
    assert [round(h.at / 1000) for h in humps] == [7, 25]
    assert humps[1].weight == pytest.approx(asleep.mean(), abs=0.002)


def test_four_humps_are_found_where_four_are_planted() -> None:
    random = np.random.default_rng(5)
    values = np.concatenate([random.normal(at, 1, 2000) for at in (0, 8, 20, 40)])
    assert [round(h.at / 2) * 2 for h in find_humps(values).humps] == [0, 8, 20, 40]


@pytest.mark.parametrize("count", [300, 500, 1000])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_second_path_of_a_few_of_not_many_values_is_a_hump(count: int, sign: int) -> None:
    random = np.random.default_rng(count)
    for _ in range(50):
        few = round(0.05 * count)
        values = np.append(random.normal(28, 2, count - few), random.normal(28 + sign * 150, 10, few))
        humps = find_humps(values).humps
        assert sorted(h.weight for h in humps) == [pytest.approx(0.05), pytest.approx(0.95)]


@pytest.mark.long
@pytest.mark.parametrize("name", UNIMODAL)
def test_a_tail_is_no_hump_by_a_gap(name: str) -> None:
    random = np.random.default_rng(11)
    for count in (60, 300, 2000):
        # A level of 1 % for all of it: by gaps alone the chance is smaller still, since its bound is coarse.
        found = [find_humps(UNIMODAL[name](random, count), alpha=0.01) for _ in range(300)]
        assert sum(h.multimodal and h.p_value > h.alpha for h in found) <= 2


@pytest.mark.parametrize("count", [60, 100, 200])
def test_batches_are_a_hump_for_each_place_in_them_however_few_there_are(count: int) -> None:
    random = np.random.default_rng(count)
    for _ in range(30):
        values = random.normal(30, 2, count) + 200 * (np.arange(count) % 4)
        found = find_humps(values, alpha=0.01).humps
        assert [round(h.at / 200) for h in found] == list(range(4))


def test_ten_of_a_hundred_far_from_the_others_are_a_hump() -> None:
    random = np.random.default_rng(8)
    for _ in range(50):
        values = random.normal(28, 2, 100) + 250 * (np.arange(100) % 10 == 3)
        assert [h.weight for h in find_humps(values, alpha=0.01).humps] == [0.9, 0.1]


def test_messages_that_one_stall_delayed_are_no_hump() -> None:
    """They come evenly late, from the stall's whole length down to nothing."""
    random = np.random.default_rng(9)
    alarms = 0
    for _ in range(200):
        values = random.normal(28, 2, 200)
        values[:12] += np.arange(1, 13) * 166 + random.normal(0, 3, 12)
        alarms += find_humps(values, alpha=0.01).multimodal
    assert alarms <= 4


def test_two_values_far_apart_are_two_humps() -> None:
    humps = find_humps(np.repeat([7000, 25000], [300, 700])).humps
    assert [(h.at, h.weight) for h in humps] == [(7000.0, 0.3), (25000.0, 0.7)]


def test_no_values_have_no_hump_and_one_value_has_one() -> None:
    assert find_humps([]).humps == ()
    assert [h.at for h in find_humps([4.0]).humps] == [4.0]


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        find_humps([1.0, float("nan")])


# Hartigan & Hartigan's statistic by hand: equal steps miss by half a step, two points by a quarter.
@pytest.mark.parametrize(("values", "dip"), [([1, 2, 3, 4, 5], 0.1), ([0, 0, 1, 1], 0.25), ([2, 2, 2], 0.0)])
def test_the_dip_of_small_samples_is_the_one_worked_out_by_hand(values: list[int], dip: float) -> None:
    assert dip_statistic(values) == pytest.approx(dip)


def test_the_p_value_of_uniform_values_is_below_5_percent_in_5_of_100_samples() -> None:
    random = np.random.default_rng(11)
    rejected = sum(dip_p_value(dip_statistic(random.random(60)), 60) <= 0.05 for _ in range(2000))
    assert abs(rejected - 100) <= 3.5 * np.sqrt(2000 * 0.05 * 0.95)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=80), st.floats(0.01, 100), st.floats(-1e3, 1e3))
def test_weights_add_up_to_one_and_humps_lie_in_their_own_range(
    values: list[float], scale: float, shift: float
) -> None:
    found = find_humps(np.array(values) * scale + shift)
    assert sum(h.weight for h in found.humps) == pytest.approx(1.0)
    assert all(h.low <= h.at <= h.high for h in found.humps)
    assert found.multimodal <= (found.p_value <= found.alpha)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=60))
def test_the_dip_is_between_half_a_step_and_a_quarter_and_does_not_care_for_the_unit(
    values: list[int],
) -> None:
    dip = dip_statistic(values)
    assert 0.0 <= dip <= 0.25
    assert dip_statistic(np.array(values) * 3.0 + 1.0) == pytest.approx(dip)
    assert dip_statistic(-np.array(values)) == pytest.approx(dip)
