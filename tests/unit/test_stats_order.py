"""What the order of a pair does to it is learnt from earlier pairs, and no pair's coin is known by that."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.model.statistics.paired import Ruling
from latlab.stats.experiments.order import OrderEffect, without_order
from latlab.stats.experiments.paired import Difference, judge


def pairs(count: int, *, order: float, shift: float = 0.0, noise: float = 0.01) -> list[Difference]:
    """Pairs of which the second takes longer by `order`, and B by `shift`."""
    random = np.random.default_rng(1)
    coins = 2 * random.integers(2, size=count) - 1
    values = shift + order * coins + noise * random.normal(size=count)
    both = zip(values.tolist(), coins.tolist(), strict=True)
    return [Difference((value,), (0.0,), (2 * value,), coin) for value, coin in both]


def ratios(found: list[Difference]) -> np.ndarray:
    return np.array([d.log_ratios for d in found])


def test_the_second_process_of_a_pair_is_slower_and_that_falls_out_after_some_pairs() -> None:
    found = without_order(pairs(30, order=0.25, shift=0.05))
    assert np.abs(ratios(found[6:])[:, 0] - 0.05).max() < 0.06
    assert np.abs(np.array([d.others[0] for d in found[6:]]) - 0.1).max() < 0.12


def test_a_change_beside_a_larger_effect_of_the_order_is_found() -> None:
    measured = pairs(24, order=0.25, shift=0.05)
    options = {"smallest_effect": 0.01, "block_pairs": 1}
    assert judge(ratios(measured), **options).verdict is Ruling.INCONCLUSIVE  # type: ignore[arg-type]
    assert judge(ratios(without_order(measured)), **options).verdict is Ruling.SLOWER  # type: ignore[arg-type]


def test_what_is_taken_out_does_not_know_the_coin_of_its_own_pair() -> None:
    measured = pairs(20, order=0.25)
    for at in (5, 12, 19):
        effect, turned = OrderEffect(), OrderEffect()
        for one in measured[:at]:
            effect.taken_out(one)
            turned.taken_out(one)
        one = measured[at]
        (value,) = one.log_ratios
        other = Difference((-value,), (0.0,), (-2 * value,), -one.first)  # the coin fell the other way
        assert turned.taken_out(other).log_ratios[0] == pytest.approx(-effect.taken_out(one).log_ratios[0])


def test_pairs_whose_order_has_no_effect_or_is_not_known_stay_as_they_are() -> None:
    measured = pairs(4, order=0.0)
    assert without_order(measured) == measured
    unknown = [Difference(d.log_ratios, d.noises, d.others) for d in pairs(30, order=0.25)]
    assert without_order(unknown) == unknown
