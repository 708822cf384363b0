"""A confidence sequence for the centre of conditionally symmetric differences, by betting on their signs.

Let D be a difference whose sign was drawn by a fair coin (the random order of the two sides of a block) and
psi any odd function with values in [-1, 1]. Then E[psi(D - theta) | past] = 0 for the true shift theta,
whatever the tails, the drift or the autocorrelation of the machine, so that the capital of a bettor,

    K+(theta) = sum_k w_k prod_i (1 + lambda_k psi_i(D_i - theta)),    K- with -lambda_k,

is a nonnegative martingale, and by Ville's inequality it ever reaches 2/alpha with probability at most
alpha/2: Ramdas, Ruf, Larsson and Koolen, "Admissible anytime-valid sequential inference must rely on
nonnegative martingales" (2020), section on symmetric distributions; Waudby-Smith and Ramdas, "Estimating
means of bounded random variables by betting", JRSS B 86 (2024), for the capital process and its
inversion. psi is Huber's clipped line, its scale taken from *earlier* differences alone.

Processes may have several states, so that differences come in groups: of a map's lookups 45 % lay within
0.2 % of the shift, the others 3.7 % beside it. A line that is clipped beyond all groups weighs them alike, as
a mean does; one that is clipped within the middle group takes each difference by its sign, as the median
does, and told 1 % apart from less than half as many pairs. Half of the capital may be bet so (`narrow`), each
pair of a block by itself, since the mean of two pairs has more groups than they.

A difference may count for less than one, by its own noise: whatever exchanging the two sides leaves as it was
(how much the turns of a pair scatter) may decide a stake, since the coin is fair given that. And one may bet
on several statistics of the same pair, each of which changes its sign with the sides, in equal parts: the sum
of nonnegative martingales is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["Evidence", "capital", "centre", "confidence_sequence"]

Floats = npt.NDArray[np.float64]

# Stakes and their prior weights. A third of the weight lies on the boldest, which wins where every sign
# agrees: 7 blocks then suffice at alpha = 0.05; the timid ones find effects of a twentieth of the noise.
STAKES = np.array([0.015, 0.03, 0.06, 0.12, 0.25, 0.45, 0.7, 0.98])
LOG_WEIGHTS = np.log(np.array([0.07, 0.07, 0.08, 0.1, 0.1, 0.12, 0.13, 0.33]))
# Huber's line is clipped at two robust standard deviations: 99 % as efficient as the mean under normal
# noise, and an outlier counts no more than a difference of 2 sigma.
CLIP = 2.0
SIGMA_PER_MAD = 1.4826
# The narrow line is clipped where a quarter of the differences lie.
NARROW = 0.25
# So many differences are judged by their sign alone, before there is a scale.
SIGNS_ONLY = 4


class Evidence:
    """Differences in the order measured, with what is known before each is looked at.

    Args:
        statistics: of each difference.
        narrow: whether half of the capital is bet by the narrow line.
    """

    def __init__(self, statistics: int = 1, *, narrow: bool = False) -> None:
        self._blocks: list[Floats] = []
        self._means: list[Floats] = []
        self._noises: list[Floats] = []
        self._clips: list[Floats] = []
        self._narrow_clips: list[Floats] = []
        self._weights: list[Floats] = []
        self._median = np.zeros(statistics)
        self._stacked: tuple[Floats, ...] | None = None
        self._narrow = narrow
        self.statistics = statistics

    def __len__(self) -> int:
        return len(self._means)

    def add(
        self, pairs: Floats | Sequence[Sequence[float]], noises: Floats | Sequence[Sequence[float]]
    ) -> None:
        """One more difference: a block of pairs whose order one coin has drawn.

        Args:
            pairs: shape (pairs, statistics), of as many pairs each time.
            noises: standard error of each by what it was made from; 0 where that is unknown.
        """
        at, block = len(self), np.asarray(pairs, dtype=np.float64)
        own = np.sqrt((np.asarray(noises, dtype=np.float64) ** 2).sum(axis=0)) / len(block)
        # Scales settle; beyond some tens they are renewed seldom, which keeps this linear.
        renewed = at <= 64 or at % 16 == 0
        clip = self._clips[-1] if self._clips else np.zeros(self.statistics)
        narrow = self._narrow_clips[-1] if self._clips else clip
        if renewed and at >= SIGNS_ONLY:
            clip = CLIP * SIGMA_PER_MAD * _median(_apart(np.array(self._means)))
            narrow = _quantile(_apart(np.concatenate(self._blocks)), NARROW)
        self._noises.append(own)
        if renewed:
            self._median = _median(np.array(self._noises))
        # The usual noise is the deviation of the earlier differences, or twice the median noise so far where
        # that is more, so that it is the disturbed differences alone that count for less.
        usual = np.maximum(clip / CLIP, 2.0 * self._median)
        weight = np.divide(usual, own, out=np.ones(self.statistics), where=own > 0)
        self._blocks.append(block)
        self._means.append(block.mean(axis=0))
        self._clips.append(clip)
        self._narrow_clips.append(narrow)
        self._weights.append(np.minimum(1.0, weight**2))
        self._stacked = None

    def _arrays(self) -> tuple[Floats, ...]:
        if self._stacked is None:
            kept = self._blocks, self._means, self._clips, self._narrow_clips, self._weights
            self._stacked = tuple(np.array(each) for each in kept)
        return self._stacked

    def scores(self, theta: float) -> Floats:
        """psi of each difference from a shift, shape (differences, bettors).

        A bettor has a statistic, and with `narrow` there are two for each.
        """
        blocks, means, clip, narrow, weight = self._arrays()
        out = weight * _clipped(means - theta, clip)
        if self._narrow:
            each = _clipped(blocks - theta, narrow[:, None, :])
            out = np.concatenate([out, weight * (each.sum(axis=1) / each.shape[1])], axis=1)
        return out

    def range(self) -> tuple[float, float]:
        """Two shifts beyond which no score changes."""
        every, _, clip, _, _ = self._arrays()
        span = float(np.ptp(every)) + float(clip.max()) + 1e-12
        return float(every.min()) - span, float(every.max()) + span


def _quantile(values: Floats, share: float) -> Floats:
    """numpy's along the first axis, bit for bit, without what that spends on checks of a few numbers."""
    at = share * (len(values) - 1)
    low = int(at)
    rest, high = at - low, min(low + 1, len(values) - 1)
    parted: Floats = np.partition(values, (low, high), axis=0)
    apart: Floats = parted[high] - parted[low]
    return np.asarray(parted[low] + apart * rest if rest < 0.5 else parted[high] - apart * (1 - rest))


def _median(values: Floats) -> Floats:
    """As `_quantile`, of numpy's median."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    parted: Floats = np.partition(values, (low, high), axis=0)
    return np.asarray((parted[low] + parted[high]) / 2)


def _apart(values: Floats) -> Floats:
    return np.abs(values - _median(values))


def _clipped(x: Floats, clip: Floats) -> Floats:
    return np.divide(x, clip, out=np.sign(x), where=np.abs(x) < clip)


def capital(evidence: Evidence, theta: float, direction: int) -> float:
    """The logarithm of the capital of who bets that the centre lies above (+1) or below (-1) theta."""
    scores = direction * evidence.scores(theta)
    logs = LOG_WEIGHTS[:, None] + np.log1p(np.multiply.outer(STAKES, scores)).sum(axis=1)
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum() / scores.shape[1]))


def _bisect(above: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds at `low` and not at `high` changes."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        if above(middle):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def centre(evidence: Evidence) -> float:
    """The shift at which the scores balance: the estimate that belongs to the confidence sequence."""
    bottom, top = evidence.range()
    # The ends of the stretch on which the scores balance, where they do so on more than a point.
    first = _bisect(lambda theta: float(evidence.scores(theta).sum()) > 0, bottom, top)
    last = -_bisect(lambda theta: float(evidence.scores(-theta).sum()) < 0, -top, -bottom)
    return 0.5 * (first + last)


def confidence_sequence(evidence: Evidence, alpha: float) -> tuple[float | None, float | None]:
    """The shifts that no bettor has refuted, valid at every stopping time at once; None for an open end.

    Where the lower end lies above the upper one, the statistics have no shift in common.
    """
    if len(evidence) == 0:
        return None, None
    threshold = float(np.log(2.0 / alpha))
    bottom, top = evidence.range()

    # Each factor falls with theta, so the capital does, and one bisection finds the only crossing.
    def above(theta: float) -> bool:
        return capital(evidence, theta, 1) >= threshold

    def below(theta: float) -> bool:
        return capital(evidence, -theta, -1) >= threshold

    lower = _bisect(above, bottom, top) if above(bottom) else None
    upper = -_bisect(below, -top, -bottom) if below(-top) else None
    return lower, upper
