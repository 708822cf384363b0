"""Changes of level in a series that grows: found within two values, at a rate of false alarms that is chosen.

After each value the last two, the last four and the last eight are compared with those before them, since the
last change: by their value nearest to the old level (of two, both have to be away from it, so that a lone
outlier is no change) and by their median. The scale is the larger of the robust deviation of the level and of
the steps from value to value, so that a series that wanders has a larger one; the threshold is that of
Student's t for a forecast from so few values, widened by the correlation of neighbours. Thresholds fall with
more values, which is where a small change is found. By simulation at 0.1 false alarms a year, AR(1) of 0.5
gave 0.05 (300 series of 60 values) and of 0.7 0.11 (500 series). The rate is not kept by exponential values
(0.16) nor by series that go between two levels at random (0.27). Before levels were looked for, independent
normal values gave 0.01 and t-distributed ones 0.04 (4 degrees of freedom) and 0.08 (3). A test repeats
a part of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.stats.distributions import student_quantile

__all__ = ["FEWEST", "LevelChange", "level_changes"]

# With fewer before a change the scale is a guess.
FEWEST = 6
_WINDOWS = (2, 4, 8)
# A level is described by as many of its latest values: older ones belong to another machine.
_MEMORY = 60


@dataclass(frozen=True)
class LevelChange:
    """A change of level.

    Attributes:
        index: of the first value after it.
        found: index of the value that made it certain.
        before: median of the level before.
        after: median from then on, up to the next change.
    """

    index: int
    found: int
    before: float
    after: float


def level_changes(
    values: npt.ArrayLike, *, alarm_probability: float, smallest: float = 0.0
) -> list[LevelChange]:
    """The changes of level, each found by the values up to it alone.

    Args:
        values: shape (n,), in the order measured; logarithms, where changes are relative.
        alarm_probability: of a false alarm at each value.
        smallest: change that counts.

    Raises:
        ValueError: a value isn't finite, or the probability is none.
    """
    x = np.asarray(values, dtype=np.float64)
    if not np.isfinite(x).all() or not 0 < alarm_probability < 1:
        raise ValueError("values must be finite and the probability between 0 and 1")
    start, cuts = 0, []
    end = start + FEWEST
    while end < len(x):
        window = _alarm(x[start : end + 1], alarm_probability / len(_WINDOWS) / 2, smallest)
        if window:
            first = end + 1 - window
            cuts.append((first, end, start))
            start = first
            end = max(end + 1, start + FEWEST)
            continue
        end += 1
    edges = [*[cut for cut, _, _ in cuts], len(x)]
    return [
        LevelChange(first, found, float(np.median(x[begin:first])), float(np.median(x[first : edges[i + 1]])))
        for i, (first, found, begin) in enumerate(cuts)
    ]


def _alarm(x: npt.NDArray[np.float64], probability: float, smallest: float) -> int:
    """How many of the last values are on another level; 0 for none."""
    for window in _WINDOWS:
        old, new = x[:-window][-_MEMORY:], x[-window:]
        if len(old) < FEWEST - 1:
            continue
        middle = float(np.median(old))
        away = new - middle
        # Of two the nearer, of more the median.
        shift = float(away[np.argmin(np.abs(away))]) if window == 2 else float(np.median(away))
        if window == 2 and (away > 0).any() and (away < 0).any():
            continue
        if abs(shift) < max(smallest, 1e-12):
            continue
        aside = np.sign(shift) * (old - middle)
        if float((aside >= abs(shift)).mean()) > _SEEN:
            continue  # a machine with two levels has been on that one before
        scale = max(_scale(old), _step_scale(old), _side_scale(aside))
        own = 1.0 if window == 2 else math.sqrt(math.pi / 2 / window)
        alike = _likeness(old)
        # Both of two have to be that far: for independent ones the square root of the probability would do,
        # for those that move together nothing is gained.
        least = probability ** (_OF_TWO + (1 - _OF_TWO) * alike) if window == 2 else probability
        reach = -student_quantile(len(old) - 1, least)
        wide = _MORE * math.sqrt((1 + alike) / (1 - alike)) * (1 + max(0.0, alike - _LITTLE_ALIKE))
        if abs(shift) > reach * scale * math.hypot(own, math.sqrt(math.pi / 2 / len(old))) * wide:
            return window
    return 0


_MORE = 1.08
# Beyond this correlation, what few values tell of it is off by too much, and thresholds are widened further.
_LITTLE_ALIKE = 0.4
# Of the values before a change, those that may lie as far away.
_SEEN = 0.1
# Of the deviation on the side of a change, which for skew values is the larger one; for normal ones it does
# not count.
_OF_SIDE = 0.8
_OF_TWO = 0.6
# What neighbours are taken to have in common before there are values that tell, and as how many values that
# counts.
_LIKE, _LIKE_VALUES = 0.3, 10


def _likeness(values: npt.NDArray[np.float64]) -> float:
    """The correlation of neighbours, by their ranks, between 0 and 0.9.

    An estimate from few values is too low (by about (1 + 4 r) / n, Kendall 1954), and is drawn to `_LIKE`.
    """
    n = len(values)
    ranks = np.argsort(np.argsort(values)).astype(np.float64)
    ranks -= ranks.mean()
    r = float((ranks[1:] * ranks[:-1]).sum() / max(1e-12, (ranks**2).sum()))
    r += (1 + 4 * max(r, 0.0)) / n
    return min(0.9, max(0.0, (n * r + _LIKE_VALUES * _LIKE) / (n + _LIKE_VALUES)))


def _scale(values: npt.NDArray[np.float64]) -> float:
    """The larger of the robust and a third of the full range's deviation, so that few outliers count a
    little."""
    robust = 1.4826 * float(np.median(np.abs(values - np.median(values))))
    return max(robust, 0.6 * float(values.std(ddof=1)))


def _side_scale(aside: npt.NDArray[np.float64]) -> float:
    beyond = aside[aside > 0]
    return _OF_SIDE * math.sqrt(float((beyond**2).mean())) if len(beyond) > 1 else 0.0


def _step_scale(values: npt.NDArray[np.float64]) -> float:
    steps = np.abs(np.diff(values))
    return 1.4826 * float(np.median(steps)) / math.sqrt(2)
