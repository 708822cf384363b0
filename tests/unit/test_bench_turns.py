from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.files.experiments_made import RULED

from latlab.bench.judging.measures import judge_measures
from latlab.bench.measuring.turns import (
    PROBED_TURNS,
    kept,
    longer,
    probed_length,
    settled_turn,
    turn_of,
)
from latlab.model.bench import Sample
from latlab.model.statistics.paired import Ruling
from latlab.stats.experiments.paired import Difference


def turns(course: list[float], *, noise: float = 0.01, seed: int = 1) -> list[Sample]:
    """Both sides' turns, whose iterations take this course times one that is drawn for each."""
    random = np.random.default_rng(seed)
    shape = (PROBED_TURNS, len(course))
    return [
        Sample((1000.0 * np.array(course) * np.exp(noise * random.normal(size=shape))).ravel())
        for _ in range(2)
    ]


# As it was seen of a dictionary of 400,000 entries, of a walk through 4 MB, and of a table of 20 MB.
DICTIONARY = [4.84, 2.02, 1.14, 1.10, 1.04, 1.04, *[1.0] * 11]
WALK = [6.8, 4.7, 3.7, 2.8, 2.2, 1.8, 1.5, 1.4, 1.2, 1.16, 1.1, 1.07, *[1.02] * 4, *[1.0] * 36]
TABLE = [2.3, *np.linspace(1.83, 1.0, 31).tolist()]


@pytest.mark.parametrize(
    ("course", "iteration_s", "found"),
    [
        (DICTIONARY, 700e-6, (4, 4)),
        (WALK, 230e-6, (12, 12)),
        (TABLE, 370e-6, turn_of(370e-6)),  # is never warm: as short as elsewhere
        ([1.0] * 9, 1300e-6, (1, 0)),
        ([1.05] * 2 + [1.0] * 598, 20e-6, turn_of(20e-6)),
    ],
)
def test_the_first_iterations_of_a_turn_are_not_measured_until_the_data_are_back_in_the_caches(
    course: list[float], iteration_s: float, found: tuple[int, int]
) -> None:
    for seed in range(5):
        samples = turns(course, seed=seed)
        turn, unmeasured = settled_turn(samples, len(course), iteration_s)
        assert (turn, unmeasured) == pytest.approx(found, abs=1)


def test_of_turns_that_were_measured_as_a_whole_the_warm_part_is_kept() -> None:
    (sample, _) = turns(DICTIONARY, noise=0.0)
    warm = kept(sample, len(DICTIONARY), 5, 6)
    assert (warm.turn, warm.times_ns.tolist()) == (5, [1000.0] * 5 * PROBED_TURNS)


def test_turns_are_looked_at_where_that_takes_a_part_of_the_budget_only() -> None:
    assert probed_length(700e-6, 1.5) == 18
    assert probed_length(3e-3, 1.5) == 4
    assert probed_length(50e-3, 1.5) == 0
    assert probed_length(1e-3, 0.01) == 0


def test_what_is_equivalent_beside_displaced_data_is_so_alone_only_within_a_narrower_interval() -> None:
    random = np.random.default_rng(3)
    pairs = [Difference((r,), (0.0,)) for r in 0.012 * random.normal(size=60)]

    def ruled(displaced: float) -> Ruling:
        (one,) = judge_measures(
            pairs,
            ("typical",),
            **RULED,
            displaced=displaced,
        )
        return one.result.verdict

    assert [ruled(by) for by in (1.0, 1.2, 4.0)] == ["equivalent", "equivalent", "inconclusive"]


def test_turns_that_have_not_settled_are_looked_at_longer_while_that_is_a_part_of_the_budget() -> None:
    # A walk through 4 MB of 40 us alone: 46 iterations of it end before its first tour is warm.
    course = [7.0, *np.linspace(6.5, 2.0, 45).tolist()]
    samples = [dataclasses.replace(s, times_ns=40.0 * s.times_ns) for s in turns(course)]
    assert longer(samples, len(course), 40e-6, 1.5) == 4 * len(course)
    assert longer(samples, len(course), 40e-6, 0.1) == 0  # too dear
    assert longer(turns([1.0] * 46), 46, 40e-6, 1.5) == 0  # settled
