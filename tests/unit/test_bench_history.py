"""What a history says of levels that come and go."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from latlab.bench import Results, history


def of_levels(seed: int, *spells: tuple[int, float]) -> dict[str, Any]:
    """The history of a benchmark that had these levels, each for so many results."""
    random = np.random.default_rng(seed)
    levels = np.concatenate([np.full(count, level) for count, level in spells])
    values = levels * np.exp(0.01 * random.normal(size=len(levels)))
    series = [(f"{i}.json", Results("x", {"one": [np.array([v])]})) for i, v in enumerate(values)]
    (found,) = history(series, smallest_effect=0.01)
    return found


@pytest.mark.parametrize("slow", [2, 3, 5, 8])
@pytest.mark.parametrize("since", [2, 3, 10, 20])
def test_a_slowdown_that_was_undone_is_none(slow: int, since: int) -> None:
    for seed in range(5):
        found = of_levels(seed, (30, 1.0), (slow, 1.3), (since, 1.0))
        assert found["verdict"] == "unchanged", found["why"]
        assert [(c["index"], c["back"]) for c in found["changes"]] == [(30, False), (30 + slow, True)]
        assert "from 30.json on, and back since" in found["why"]


@pytest.mark.parametrize("fast", [2, 4, 8, 15])
def test_a_gain_that_is_lost_within_two_results_is_a_slowdown(fast: int) -> None:
    for seed in range(5):
        found = of_levels(seed, (30, 1.0), (fast, 0.7), (2, 1.0))
        assert found["verdict"] == "slower", found["why"]
        assert f"since {30 + fast}.json" in found["why"]


def test_a_slowdown_stays_one_after_a_smaller_gain_and_says_the_sum_of_its_steps() -> None:
    partly = of_levels(1, (30, 1.0), (8, 1.5), (8, 1.25))
    assert partly["verdict"] == "slower"
    assert re.search(r"slower by 2[3-7]\.\d\d % since 30.json; .* accept 38.json", partly["why"])
    twice = of_levels(1, (30, 1.0), (3, 1.3), (2, 1.7))
    assert re.search(r"slower by (6|7)\d\.\d\d % since 30.json; .* accept 33.json", twice["why"])


def test_a_machine_with_two_levels_in_turn_is_not_slower_on_either() -> None:
    turns = [(8, 1.0), (6, 1.2)] * 4
    found = of_levels(2, (20, 1.0), *turns, (6, 1.0), (6, 1.2))
    assert found["verdict"] == "unchanged", found["why"]


@pytest.mark.parametrize("since", [2, 6, 20])
def test_a_level_that_the_series_had_come_back_from_before_is_no_slowdown_for_sure(since: int) -> None:
    for seed in range(5):
        found = of_levels(seed, (25, 1.0), (6, 1.1), (8, 1.0), (since, 1.1))
        assert found["verdict"] == "inconclusive", found["why"]
        assert "the machine has two levels, or a slowdown came again" in found["why"]
        assert "as before from 25.json on" in found["why"]


def test_a_slowdown_to_another_level_than_the_one_it_had_come_back_from_is_one() -> None:
    for seed in range(5):
        found = of_levels(seed, (25, 1.0), (6, 1.1), (8, 1.0), (6, 1.3))
        assert found["verdict"] == "slower", found["why"]


def test_accepting_any_result_of_a_level_accepts_it_and_its_folder_tells_results_of_one_name_apart() -> None:
    values = [*[1.0] * 12, *[1.2] * 8]
    random = np.random.default_rng(1)
    series = [
        (f"days/{i}/bench.json", Results("x", {"one": [np.array([v * np.exp(0.005 * random.normal())])]}))
        for i, v in enumerate(values)
    ]

    def verdict(label: str) -> str:
        return str(history(series, smallest_effect=0.01, accepted={"*": [label]})[0]["verdict"])

    assert [verdict(label) for label in ("days/12/bench.json", "14/bench.json", "days/3/bench.json")] == [
        "unchanged", "unchanged", "slower",
    ]  # fmt: skip
