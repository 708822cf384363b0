"""What stands in for scipy in a core install gives what scipy gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from scipy.optimize import nnls

from latlab.stats.distributions import (
    beta_quantile,
    binomial_tail,
    normal_cdf,
    normal_quantile,
    student_quantile,
)
from latlab.stats.nonnegative import nonnegative_least_squares

PROBABILITIES = st.one_of(st.floats(1e-12, 1 - 1e-12), st.sampled_from([1e-9, 0.025, 0.25, 0.5, 0.75, 0.975]))


@given(
    PROBABILITIES, st.one_of(st.floats(0.5, 300), st.integers(1, 100_000), st.just(1e9), st.just(math.inf))
)
def test_students_quantiles_are_scipys(probability: float, freedom: float) -> None:
    expected = special.stdtrit(freedom, probability) if math.isfinite(freedom) else special.ndtri(probability)
    assert student_quantile(freedom, probability) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@given(PROBABILITIES, st.floats(0.5, 400), st.floats(0.5, 400))
def test_beta_quantiles_have_the_probability_that_was_asked_for(
    probability: float, a: float, b: float
) -> None:
    assert special.betainc(a, b, beta_quantile(a, b, probability)) == pytest.approx(probability, rel=1e-6)


@given(st.integers(1, 300), st.floats(0.001, 0.999), st.data())
def test_binomial_tails_are_scipys(trials: int, probability: float, data: st.DataObject) -> None:
    least = data.draw(st.integers(0, trials + 1))
    expected = stats.binom.sf(least - 1, trials, probability)
    assert binomial_tail(least, trials, probability) == pytest.approx(expected, rel=1e-9, abs=1e-13)


@given(st.floats(-37, 8))
def test_the_normal_distributions_tail_is_scipys(x: float) -> None:
    assert normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-12)


def test_the_ends_of_a_distribution_are_at_its_ends() -> None:
    assert normal_quantile(0.0) == student_quantile(5, 0.0) == -math.inf
    assert normal_quantile(1.0) == student_quantile(5, 1.0) == math.inf
    assert (beta_quantile(2, 3, 0.0), beta_quantile(2, 3, 1.0)) == (0.0, 1.0)


@pytest.mark.parametrize("seed", range(60))
def test_nonnegative_least_squares_come_as_near_as_scipys(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, columns = int(random.integers(2, 40)), int(random.integers(1, 25))
    design = random.normal(size=(rows, columns))
    if seed % 3 == 0:  # what the curves of a study are fitted with: columns that are much alike
        knees = np.linspace(0.05, 1, columns)
        design = -np.minimum(np.sort(random.random(rows))[:, None], knees[None, :])
        design[:, 0] = 1
    target = random.normal(size=rows) + 1
    found, distance = nonnegative_least_squares(design, target)
    assert (found >= 0).all()
    assert distance == pytest.approx(np.linalg.norm(design @ found - target))
    assert distance <= nnls(design, target)[1] * (1 + 1e-7) + 1e-9
