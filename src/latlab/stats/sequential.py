"""Changes of level in a series that grows: found within two values, at a rate of false alarms that is chosen.

After each value the last two, four, eight and sixteen are compared with those before them, since the last
change: two by their mean (and the nearer has to be seven tenths as far, so that a lone outlier is
no change), more by their median. The scale is the deviation of the level, which grows with wandering; the
threshold is that of Student's t for a forecast from so few values, widened by the correlation of neighbours.
It falls with more values, which is where a small change is found. What single values have done before, by
chance or on one of a machine's two levels, has to be less likely to come in a row than a false alarm may be.
By simulation at 0.1 false alarms a year (`python -m benchmarks.bench_history`, 200 series of 120 values of a
kind), normal and t-distributed values (4 degrees of freedom) gave none in 66 years, AR(1) of 0.5 and of 0.7
0.02 and 0.00 a year, 5 % of outliers of one size 0.11, exponential values 0.12; 5 % of outliers of any size
gave 0.24, which is too many: those of a year that come in a row may be larger than all before. The rate is
not kept by series that go between two levels at random. The mean of two, with the level and scatter of normal
values known and the same probability of an alarm at each, would find +10 % over 2, 3 and 4 % in 99, 80 and
39 % of series; this one, which has thirty values to learn from, finds it in 82, 19 and 5 % with the second
value, in 98, 58 and 16 % with the eighth and in 100, 87 and 44 % with the sixteenth. `findable` says which
changes a series allows.

A level that has just begun is described by its few values, their scatter by that of the levels before, too:
so a change that goes back after two values is found to have gone back. After the return the
earlier level goes on; a series that leaves it and returns twice has two levels and no change.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from latlab.stats.distributions import student_quantile

__all__ = ["FEWEST", "LevelChange", "findable", "level_changes"]

# With fewer before a change the scale is a guess.
FEWEST = 6
_WINDOWS = (2, 4, 8, 16)
# As often as a series may lead back to the level before the last change: there and back twice.
_TURNS = 3
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
        back: whether it leads back to the level before the last change.
    """

    index: int
    found: int
    before: float
    after: float
    back: bool = False


class _Cut(NamedTuple):
    first: int
    found: int
    before: float
    back: bool


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
    probability = alarm_probability / 2
    cuts: list[_Cut] = []
    level: list[int] = []  # the current one, also by what it had before it was left for a while
    earlier: list[int] = []  # the one before
    since = 0  # values since the last change
    scatter = np.empty(0)  # of levels that were left, about their medians
    for index in range(len(x)):
        level.append(index)
        since += 1
        window = _alarm(x[level], since, scatter, probability, smallest)
        if not window and 4 <= since < FEWEST + 2 and earlier and _gone(x[level[-since:]], x[earlier]):
            window = 2
        if not window:
            continue
        window = _begun(x[level], window)
        old, new = level[:-window], level[-window:]
        middle = float(np.median(x[old]))
        back = bool(earlier) and _is_back(x[earlier], middle, x[new], probability)
        scatter = np.concatenate([scatter, x[old[len(old) - since + window :]] - middle])[-_MEMORY:]
        cuts.append(_Cut(new[0], index, middle, back))
        level, earlier, since = [*earlier, *new] if back else new, old, window
        if len(cuts) > _TURNS and all(cut.back for cut in cuts[-_TURNS:]):
            # Two levels in turn are the machine's, and none of them is a change.
            level, earlier = sorted({*level, *earlier}), []
            since = len(level)
            del cuts[-_TURNS - 1 :]
    edges = [cut.first for cut in cuts] + [len(x)]
    return [
        LevelChange(cut.first, cut.found, cut.before, float(np.median(x[cut.first : end])), cut.back)
        for cut, end in zip(cuts, edges[1:], strict=True)
    ]


def findable(values: npt.ArrayLike, *, alarm_probability: float) -> dict[int, float]:
    """By number of values of a new level: the smallest change that these find with a probability of 0.9.

    Args:
        values: of one level.
        alarm_probability: as of `level_changes`.
    """
    old = np.asarray(values, dtype=np.float64)[-_MEMORY:]
    return {
        window: max(
            _threshold(old, side, window, alarm_probability / 2) + _NINE_OF_TEN * _scale(old) * _own(window)
            for side in (1.0, -1.0)
        )
        for window in _WINDOWS
        if len(old) >= FEWEST - 1
    }


def _alarm(
    x: npt.NDArray[np.float64], since: int, scatter: npt.NDArray[np.float64], probability: float,
    smallest: float,
) -> int:  # fmt: skip
    """How many of the last values are on another level; 0 for none.

    Args:
        x: a level, and perhaps what came after it.
        since: number of its last values that came since the last change.
        scatter: of earlier levels about their medians, which tells how few values of a young one scatter.
        probability: of a false alarm of each side, of all windows together.
        smallest: change that counts.
    """
    for window in _WINDOWS:
        old, new = x[:-window][-_MEMORY:], x[-window:]
        young = len(old) < FEWEST - 1
        if window > since or (young and (window != 2 or len(old) < 2 or len(scatter) < FEWEST - 1)):
            continue
        middle = float(np.median(old))
        away = new - middle
        # Of two the mean, which tells more than the nearer alone, of more the median.
        shift = float(away.mean()) if window == 2 else float(np.median(away))
        if window == 2 and float((away * np.sign(shift)).min()) < _NEARER * abs(shift):
            continue  # a lone outlier
        if abs(shift) < max(smallest, 1e-12):
            continue
        known = np.concatenate([scatter, x[:-window] - middle])
        if _seen(np.sign(shift) * known, abs(shift), window) > _SHARES[window] * probability:
            continue  # outliers, or a machine with two levels: it has been as far away before
        if abs(shift) > _threshold(old, float(np.sign(shift)), window, probability, scatter):
            return window
    return 0


def _seen(aside: npt.NDArray[np.float64], shift: float, window: int) -> float:
    """The probability that a window of such values is `shift` away, by those before that were; 0 if none was.

    Of two values both have to be as far as the nearer one must be, of more at least one half. What a
    threshold takes from a deviation knows nothing of how often single values lie far away: two outliers in a
    row come once a year where each has a probability of 0.05.
    """
    far = float((aside >= (_NEARER if window == 2 else 1.0) * shift).mean())
    if window == 2:
        return far**2
    return math.comb(window, window // 2) * far ** (window // 2)


def _begun(x: npt.NDArray[np.float64], window: int) -> int:
    """How many of a window's values are on the new level: half of them may be enough to find it."""
    before, after = float(np.median(x[:-window])), float(np.median(x[-window:]))
    while window > 2 and abs(x[-window] - before) < abs(x[-window] - after):
        window -= 1
    return window


def _gone(young: npt.NDArray[np.float64], earlier: npt.NDArray[np.float64]) -> bool:
    """Whether the last two values of a level of few are nearer to the level before it than to its others."""
    before = float(np.median(earlier[-_MEMORY:]))
    apart = float(np.median(young[:-2])) - before
    return float(((young[-2:] - before) / apart).max()) < 0.5 if apart else False


def _is_back(
    earlier: npt.NDArray[np.float64], left: float, new: npt.NDArray[np.float64], probability: float
) -> bool:
    """Whether new values are those of an earlier level, rather than of one between it and that just left."""
    old = earlier[-_MEMORY:]
    middle = float(np.median(old))
    shift = float(np.median(new)) - middle
    if abs(shift) > abs(left - middle) / 2:
        return False
    return len(old) < FEWEST - 1 or abs(shift) <= _threshold(old, float(np.sign(shift)), 2, probability)


def _threshold(
    old: npt.NDArray[np.float64],
    side: float,
    window: int,
    probability: float,
    scatter: npt.NDArray[np.float64] | None = None,
) -> float:
    """The least distance of `window` values' mean or median from the level before that is a change."""
    about = old - float(np.median(old))
    pool = about if scatter is None else np.concatenate([scatter, about])[-_MEMORY:]
    levels = 1 if len(pool) == len(old) else 2
    alike = _likeness(pool)
    reach = -student_quantile(len(pool) - levels, _SHARES[window] * probability)
    wide = _MORE * math.sqrt((1 + alike) / (1 - alike)) * (1 + max(0.0, alike - _LITTLE_ALIKE))
    own = math.hypot(_own(window), math.sqrt(math.pi / 2 / len(old)))
    return reach * max(_scale(pool), _scale(old), _side_scale(side * pool)) * own * wide


def _own(window: int) -> float:
    """The deviation of the mean of two, or the median of more, of values that scatter by 1."""
    return math.sqrt((1.0 if window == 2 else math.pi / 2) / window)


_MORE = 1.1
_NINE_OF_TEN = 1.2816
# Of the mean of two values, what the nearer has to be away at least.
_NEARER = 0.7
# Of the probability that all windows have: the first to look has most.
_SHARES = {2: 0.66, 4: 0.18, 8: 0.1, 16: 0.06}
# Beyond this correlation, what few values tell of it is off by too much, and thresholds are widened further.
_LITTLE_ALIKE = 0.4
# Of the deviation on the side of a change, which for skew values is the larger one; for normal ones it does
# not count.
_OF_SIDE = 0.8
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
    """The deviation without what lies far away, of which nine tenths of the whole deviation is the least."""
    middle = float(np.median(values))
    robust = 1.4826 * float(np.median(np.abs(values - middle)))
    kept = np.clip(values, middle - _CLIP * robust, middle + _CLIP * robust) if robust else values
    return max(_CLIPPED * float(kept.std(ddof=1)), 0.9 * float(values.std(ddof=1)), 0.7 * robust)


# Robust deviations, beyond which values are clipped, and what that costs the deviation of normal ones.
_CLIP, _CLIPPED = 2.5, 1.03


def _side_scale(aside: npt.NDArray[np.float64]) -> float:
    beyond = aside[aside > 0]
    return _OF_SIDE * math.sqrt(float((beyond**2).mean())) if len(beyond) > 1 else 0.0
