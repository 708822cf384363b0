"""What the machine's speed explains of runs is taken off, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.stats.experiments.covariates import at_one_condition


def runs(slope: float, noise: float, count: int = 20, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Values that follow the first of two covariates."""
    random = np.random.default_rng(seed)
    speeds = random.normal(0.0, 0.2, (count, 2))
    return 5.0 + slope * speeds[:, 0] + random.normal(0.0, noise, count), speeds


def test_values_that_follow_a_covariate_are_as_at_the_reference() -> None:
    values, speeds = runs(slope=-1.0, noise=0.01)
    moved, share = at_one_condition(values, speeds, [0.1, 0.0])
    assert moved == pytest.approx(np.full(20, 4.9), abs=0.05)
    assert share > 0.95


@pytest.mark.parametrize("seed", range(20))
def test_values_that_follow_none_stay_as_they_are(seed: int) -> None:
    values, speeds = runs(slope=0.0, noise=0.1, seed=seed)
    moved, share = at_one_condition(values, speeds, [0.0, 0.0])
    assert (moved.tolist(), share) == (values.tolist(), 0.0)


def test_a_few_runs_fit_nothing() -> None:
    values, speeds = runs(slope=-1.0, noise=0.0, count=7)
    assert at_one_condition(values, speeds, [0.0, 0.0])[1] == 0.0


def test_a_covariate_that_never_changed_or_was_not_seen_is_left_out() -> None:
    values, speeds = runs(slope=-1.0, noise=0.01)
    still = np.column_stack([speeds[:, 0], np.zeros(20)])
    assert at_one_condition(values, still, [0.0, 3.0])[0] == pytest.approx(np.full(20, 5.0), abs=0.05)
    unseen = np.where(np.arange(40).reshape(20, 2) == 0, np.nan, speeds)
    assert at_one_condition(values, unseen, [0.0, 0.0])[1] == 0.0
