from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.stats.quantiles import (
    median,
    nearest_rank,
    quantile_name,
    quantiles,
    rank,
    robust_deviation,
    summary,
)

integers = st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=60)


def test_the_median_of_an_even_sized_sample_is_the_lower_of_the_two() -> None:
    assert median([4, 1, 3, 2]) == 2


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert quantiles([10.0, 20.0], [0.5, 0.500001, 0.99]) == [10.0, 20.0, 20.0]


def test_a_quantile_written_in_decimal_is_not_moved_by_its_binary_fraction() -> None:
    assert rank(0.07, 100) == 7
    assert ceil(0.07 * 100) == 8


@pytest.mark.parametrize(("q", "expected"), [(0.0, 1), (1.0, 1000), (0.999, 999), (0.9991, 1000), (0.001, 1)])
def test_the_rank_is_the_ceiling_of_q_times_n(q: float, expected: int) -> None:
    assert rank(q, 1000) == expected


@given(values=integers, permille=st.integers(0, 1000))
def test_every_quantile_is_the_value_of_its_rank_in_the_sorted_series(
    values: list[int], permille: int
) -> None:
    expected = sorted(values)[max(1, ceil(Fraction(permille, 1000) * len(values))) - 1]
    assert nearest_rank(np.array(values, dtype=np.int64), permille / 1000) == expected


@given(values=integers)
def test_at_least_a_share_q_of_the_values_lies_at_or_below_the_q_quantile(values: list[int]) -> None:
    found = nearest_rank(values, 0.9)
    assert 10 * sum(v <= found for v in values) >= 9 * len(values)
    assert 10 * sum(v < found for v in values) < 9 * len(values)


@given(values=integers)
def test_the_median_minimises_the_mean_distance(values: list[int]) -> None:
    own = robust_deviation(values)
    for other in values:
        distance = sum(abs(v - other) for v in values) / len(values)
        assert own <= distance * (1 + 1e-9)


def test_integers_beyond_a_float_keep_every_digit() -> None:
    stamps = np.array([2**63 + 1, 2**63 + 2, 2**63 + 3], dtype=np.uint64)
    assert median(stamps) == 2**63 + 2
    assert robust_deviation(stamps) == pytest.approx(2 / 3)


def test_a_summary_reports_every_measure_of_a_known_series() -> None:
    found = summary([1, 2, 3, 10])
    assert (found.count, found.minimum, found.maximum, found.mean, found.median) == (4, 1, 10, 4.0, 2)
    assert found.robust_deviation == (1 + 0 + 1 + 8) / 4
    assert found.rms_distance == pytest.approx(((1 + 0 + 1 + 64) / 4) ** 0.5)
    assert found.median_distance == 1
    assert found.quantiles == {"p50": 2, "p90": 10, "p99": 10, "p99.9": 10}


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], ["a"]])
def test_what_has_no_quantile_is_refused(values: list[object]) -> None:
    with pytest.raises(ValueError):
        median(values)  # type: ignore[arg-type]


@pytest.mark.parametrize("q", [-0.1, 1.1, float("nan")])
def test_a_quantile_outside_0_to_1_is_refused(q: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        nearest_rank([1], q)


@pytest.mark.parametrize(
    ("q", "name"), [(0.5, "p50"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.07, "p7"), (1.0, "p100")]
)
def test_quantiles_are_named_by_their_percentage(q: float, name: str) -> None:
    assert quantile_name(q) == name
