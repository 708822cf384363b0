"""Two speeds of a machine are told apart by the runs themselves, and nothing else is taken for them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from latlab.stubs import forecast
from latlab.stubs.studies import states as _states

Random = np.random.Generator
# A start, a component, other work, and waits, in ms; a slow machine slows the middle two.
START, COMPONENT, WORK, WAITS = 100.0, 60.0, 60.0, 60.0
SPEEDUPS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
FAST = COMPONENT / (START + COMPONENT + WORK + WAITS)
SLOW = 1.5 * COMPONENT / (START + 1.5 * (COMPONENT + WORK) + WAITS)


def time_of(speedup: float, slow: float, random: Random) -> float:
    busy = (COMPONENT * (1 - speedup) + WORK) * (1 + 0.5 * slow)
    return float((START + busy + WAITS) * math.exp(0.006 * random.normal()))


def rounds(random: Random, slow: Any, *, number: int = 6) -> tuple[list[dict[float, float]], list[float]]:
    """Runs in a random order; `slow` tells of each, by its place and its speedup, how slow it is."""
    points, base, place = [], [], 0
    for _ in range(number):
        one: dict[float, float] = {}
        for s in random.permutation([-1.0, *SPEEDUPS]):
            one[float(s)] = time_of(max(0.0, float(s)), float(slow(place, float(s))), random)
            place += 1
        base.append(one.pop(-1.0))
        points.append(one)
    return points, base


def values(points: list[dict[float, float]]) -> list[tuple[float, float]]:
    return [(s, wall) for one in points for s, wall in one.items()]


@pytest.mark.parametrize("seed", range(5))
def test_runs_of_two_speeds_are_told_apart_where_levels_have_unlike_shares_of_them_by_chance(
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    points, base = rounds(random, lambda place, s: random.random() < 0.5)
    found = _states.split(values(points), base)
    assert found is not None
    slow = np.array(found.factors[0]) > 1.1
    truth = [wall > math.sqrt(1.2) * time_of(s, 0, np.random.default_rng(0)) for s, wall in values(points)]
    assert slow.tolist() == truth
    assert found.slower == pytest.approx(math.log(340 / 280), abs=0.05)


@pytest.mark.long
def test_the_interval_holds_what_the_component_buys_at_either_speed() -> None:
    held = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        points, base = rounds(random, lambda place, s, r=random: r.random() < 0.5)
        last = forecast(points, baseline=base, name="c").curve[-1]
        held += [last.interval[0] <= gain <= last.interval[1] for gain in (FAST, SLOW)]
    assert np.mean(held) > 0.9


def test_two_speeds_are_told_and_a_component_that_pays_alike_at_both_gets_no_wider_interval() -> None:
    random = np.random.default_rng(2)
    points, base = rounds(random, lambda place, s: place % 8 < 4)
    found = forecast(points, baseline=base, name="c")
    assert any(str(one).startswith("the machine ran at two speeds: ") for one in found.warnings)
    plain = rounds(np.random.default_rng(3), lambda place, s: 0)[0]
    alike = [{s: wall * (1.4 if random.random() < 0.5 else 1.0) for s, wall in one.items()} for one in plain]
    steady, widened = (forecast(one, name="c").curve[-1].interval for one in (plain, alike))
    assert widened[1] - widened[0] < 4 * (steady[1] - steady[0])


ONE: dict[str, Callable[[Random, int, float], float]] = {
    "steady": lambda random, place, s: 0.0,
    "wandering": lambda random, place, s: random.random(),
    "held up": lambda random, place, s: random.exponential(0.4) * (random.random() < 0.2),
    "drifting": lambda random, place, s: place / 42,
}


@pytest.mark.long
@pytest.mark.parametrize("kind", ONE)
def test_one_speed_is_not_taken_for_two(kind: str) -> None:
    taken = 0
    for seed in range(20):
        random = np.random.default_rng(seed)
        points, base = rounds(random, functools.partial(ONE[kind], random))
        taken += _states.split(values(points), base) is not None
    assert taken <= 2


@pytest.mark.long
def test_conditions_are_not_taken_for_states_where_all_runs_but_one_are_slow() -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        points, base = rounds(random, lambda place, s: place != 17, number=5)
        assert _states.split(values(points), base) is None


def test_too_few_runs_tell_nothing_of_states() -> None:
    points, base = rounds(np.random.default_rng(1), lambda place, s: place % 2, number=2)
    assert _states.split(values(points)[:8], base) is None
