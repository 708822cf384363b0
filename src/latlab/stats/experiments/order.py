"""What the order of a pair does to it, learnt from earlier pairs and taken out.

Of two walks through 64 MB, in processes that live at the same time, one order differed from the other by 25 %
on one day, where the pairs scattered by 2 % beside that; why isn't known. Let X be the log-ratio of the
second to the first and s the coin that says which side is first, so that the difference of the sides is
D = s X. What is known before the pair may be subtracted from X: if the sides are the same, s is a fair coin
given X, so s (X - p) has a fair sign for every p that earlier pairs settle. The bets on it are as fair as
those on D, and D scatters no more by twice the effect of the order.

p is the median of the earlier X, in which the effect of the sides cancels, since it comes with either sign;
and 0 unless it is beyond its own error, or learning it would cost those that have no such effect.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from latlab.stats.experiments.paired import Difference

__all__ = ["OrderEffect", "without_order"]

_FEWEST = 4
_BEYOND = 3.0  # standard errors of the median
_SIGMA_PER_MAD, _MEDIAN_ERROR = 1.4826, 1.2533
_OFTEN, _SELDOM = 64, 16  # it settles: of more pairs than these it is renewed at each sixteenth


class OrderEffect:
    """The effect of the order, pair by pair."""

    def __init__(self) -> None:
        self._seen: list[npt.NDArray[np.float64]] = []
        self._effect: npt.NDArray[np.float64] | None = None

    def taken_out(self, pair: Difference) -> Difference:
        """The pair without what earlier ones showed of its order; it is learnt from for the next."""
        if pair.first == 0:
            return pair
        values = np.array([*pair.log_ratios, *pair.others])
        if self._seen and len(self._seen[0]) != len(values):
            return pair
        moved = values if self._effect is None else values - pair.first * self._effect
        self._seen.append(pair.first * values)
        count = len(self._seen)
        if count >= _FEWEST and (count <= _OFTEN or count % _SELDOM == 0):
            seen = np.array(self._seen)
            middle = np.median(seen, axis=0)
            spread = _SIGMA_PER_MAD * np.median(np.abs(seen - middle), axis=0)
            sure = np.abs(middle) > _BEYOND * _MEDIAN_ERROR * spread / math.sqrt(count)
            self._effect = np.where(sure, middle, 0.0)
        cut = len(pair.log_ratios)
        ratios, others = tuple(moved[:cut].tolist()), tuple(moved[cut:].tolist())
        return Difference(ratios, pair.noises, others, pair.first)


def without_order(pairs: Sequence[Difference]) -> list[Difference]:
    """All pairs, in the order measured, each without what those before it showed of its order."""
    effect = OrderEffect()
    return [effect.taken_out(pair) for pair in pairs]
