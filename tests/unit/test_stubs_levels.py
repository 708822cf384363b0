"""Levels on a planted machine that switches between a fast and a slow mode."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.stubs.studies.levels import Sample, centre, difference, ranked


def runs(random: np.random.Generator, level: float, count: int) -> list[float]:
    """Runs of which each is slowed as a whole, by up to 80 %, with probability 0.6."""
    slow = random.random(count) < 0.6
    return list(
        level * (1 + slow * random.uniform(0.1, 0.8, count)) * (1 + 0.003 * random.standard_normal(count))
    )


def test_the_expected_least_of_two_is_the_mean_over_all_pairs() -> None:
    values = np.array([3.0, 1.0, 2.0])
    assert ranked(values, (1, 2)) == pytest.approx((1 + 1 + 2) / 3)


def test_it_is_the_same_for_few_runs_and_for_many() -> None:
    random = np.random.default_rng(1)
    few = [float(ranked(np.array(runs(random, 100, 5)), (1, 4))) for _ in range(2000)]
    many = [float(ranked(np.array(runs(random, 100, 20)), (1, 4))) for _ in range(2000)]
    assert np.mean(few) == pytest.approx(np.mean(many), rel=0.005)


def test_ratios_are_found_on_a_machine_with_two_modes() -> None:
    random = np.random.default_rng(2)
    errors = []
    for _ in range(40):
        rounds = [{0.0: a, 1.0: b} for a, b in zip(runs(random, 100, 20), runs(random, 60, 20), strict=True)]
        levels = Sample(rounds).levels()
        errors.append(levels[1.0] / levels[0.0] / 0.6 - 1)
    assert float(np.sqrt(np.mean(np.square(errors)))) < 0.02


def test_errors_cover_what_levels_are_off() -> None:
    random = np.random.default_rng(3)
    inside = []
    for _ in range(100):
        found, width = difference(runs(random, 100, 12), runs(random, 80, 12))
        inside.append(abs(found - 20) <= width)
    assert np.mean(inside) >= 0.85


def test_parts_find_the_machine_fast_where_no_whole_run_does() -> None:
    random = np.random.default_rng(4)
    parted = [np.array([runs(random, 10, 1)[0] for _ in range(10)]) for _ in range(12)]
    whole = Sample([{0.0: one.sum()} for one in parted]).levels()[0.0]
    by_part = Sample([{0.0: one} for one in parted]).levels()[0.0]
    assert by_part == pytest.approx(100, rel=0.03)
    assert whole > 1.1 * 100


def test_identical_runs_have_no_error() -> None:
    assert centre([5.0] * 6) == pytest.approx(5)
    assert difference([5.0] * 6, [5.0] * 6) == pytest.approx((0.0, 0.0))


def test_a_run_that_was_short_by_chance_does_not_pull_its_condition_down() -> None:
    random = np.random.default_rng(5)
    rounds = [{s: (131 - 36 * s) * random.normal(1, 0.004) for s in (0.0, 0.5, 1.0)} for _ in range(10)]
    rounds[3][0.0] = 113.0  # two threads that met two CPUs, once
    sample = Sample(rounds)
    assert sample.rank[0] > 1
    levels = sample.levels()
    assert levels[0.0] == pytest.approx(131, rel=0.01)
    assert levels[1.0] == pytest.approx(95, rel=0.01)
