"""The two speeds of a machine, told apart by the runs themselves: pure.

A shared machine may run a program at either of two speeds for seconds at a time. What a faster component
buys differs between them where not all of the program is slowed alike (waits aren't), and how often each of
them is there differs from one minute to the next. So the runs of all conditions together are taken as those
of two curves of diminishing returns, each run of the nearer one (a mixture of regressions, fitted by
classification: G. Celeux and G. Govaert, A Classification EM Algorithm, 1992). A condition that had few fast
runs by chance then isn't taken for a slow one. Two curves are told only where they stand apart far beyond
what runs of one of them scatter, so that noise with a tail and speeds that drift are not taken for states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.stats.shapes.knees import Floats, concave

Flags = npt.NDArray[np.bool_]

# The least distance of two states: in standard deviations of the runs of one, and as a share of the time.
APART, LEAST = 5.0, 0.04
_UNLIKE = 5  # by how many times less than others a condition may be slowed, which is none of the rest's work
_CHANCE = 2.5  # standard deviations of a chi-squared statistic
_MIXED = 0.6  # of the conditions have runs of both states
_BETWEEN = (0.3, 0.7)  # of the way from one to the other there are few runs
_MOST_BETWEEN = 0.1
_FEWEST = 5  # runs of the rarer state
_STEPS, _TURNS = 30, 4
_LEAST_SEEN = 0.1  # sum of squares of speedups that shows a slope
_REPLICATES = 40
_KEPT = 0.9  # of the runs of a state: some are held up by something else


@dataclass(frozen=True)
class States:
    """Runs of two states.

    Attributes:
        slow: the share of runs in the slow state.
        slower: how much longer the unmodified system takes in the slow state, as a logarithm.
        steeper: how much more than that the system without the component takes, and its standard error.
        factors: what each run takes of its time in the fast state; of the values, then of each of the others.
    """

    slow: float
    slower: float
    steeper: tuple[float, float]
    factors: tuple[tuple[float, ...], ...]

    def there(self, gains: Floats, speedups: Floats) -> tuple[Floats, Floats]:
        """Gains in the slow state by those in the fast one, and their standard errors."""
        height, error = self.steeper
        left = (1 - gains) * np.exp(height * speedups)
        return 1 - left, left * error * speedups


def split(values: Sequence[tuple[float, float]], *others: Sequence[float]) -> States | None:
    """The two states that runs came in; None where they came in one, or in many.

    Args:
        values: (speedup, time) of each run.
        others: times of the unmodified system in other guises, each of which has a level of its own.
    """
    speedups = np.array([s for s, _ in values] + [0.0] * sum(map(len, others)))
    times = np.array([t for _, t in values] + [t for each in others for t in each], dtype=np.float64)
    guise = np.repeat(np.arange(len(others) + 1), [len(values), *map(len, others)])
    if len(times) < 4 * _FEWEST or len({s for s, _ in values}) < 3:
        return None
    runs = _Runs(speedups, np.log(times), guise)
    settled = [
        one
        for begin in _begins(runs)
        if (one := _settled(runs, begin)) is not None and _by_chance(runs, one.slow)
    ]
    if not settled:
        return None
    fit = min(settled, key=lambda one: one.spread)
    if not fit.apart():
        return None
    # Runs are drawn anew from what they deviate by; who is of which state is as good as certain here.
    random = np.random.default_rng(1)
    off = fit.off * math.sqrt(len(times) / max(1, len(times) - 4))
    drawn = [
        _fitted(_Runs(speedups, runs.logs - fit.off + random.choice(off, len(off)), guise), fit.slow).steeper
        for _ in range(_REPLICATES)
    ]
    factors = np.exp(fit.slow * fit.gap)
    return States(
        float(np.mean(fit.slow)), fit.slower, (fit.steeper, float(np.std(drawn))),
        tuple(tuple(factors[guise == i].tolist()) for i in range(len(others) + 1)),
    )  # fmt: skip


@dataclass(frozen=True)
class _Runs:
    speedups: Floats
    logs: Floats
    guise: npt.NDArray[np.int64]

    @property
    def same(self) -> Floats:
        """A row a run, a column a condition: 1 where the run is of it."""
        keys = np.stack([self.guise, self.speedups], axis=1)
        return np.asarray((keys[:, None] == np.unique(keys, axis=0)).all(axis=2), dtype=np.float64)

    def middles(self, of: Callable[[Floats], float]) -> Floats:
        """Of each run, that of its condition."""
        same = [
            (self.guise == g) & (self.speedups == s) for g, s in zip(self.guise, self.speedups, strict=True)
        ]
        return np.array([of(self.logs[one]) for one in same])


@dataclass(frozen=True)
class _Fit:
    runs: _Runs
    slow: Flags
    slower: float
    steeper: float
    off: Floats  # what each run deviates by, as a logarithm

    @property
    def spread(self) -> float:
        return float(np.mean(np.abs(self.off)))

    @property
    def gap(self) -> Floats:
        return np.asarray(self.slower + self.steeper * self.runs.speedups)

    def apart(self) -> bool:
        """Whether the states stand apart beyond what their runs scatter, and few lie between them."""
        if float(self.gap.min()) * _UNLIKE < float(self.gap.max()) or float(np.median(self.gap)) < LEAST:
            return False
        place = self.slow + self.off / self.gap
        if float(np.mean((place > _BETWEEN[0]) & (place < _BETWEEN[1]))) > _MOST_BETWEEN:
            return False
        for one in (self.slow, ~self.slow):
            sizes = np.sort(np.abs(self.off[one] / self.gap[one]))
            sizes = sizes[: math.ceil(_KEPT * len(sizes))]
            # A line was fitted to them.
            if APART * math.sqrt(float(sizes @ sizes) / max(1, len(sizes) - 2)) > 1:
                return False
        return True


def _begins(runs: _Runs) -> list[Flags]:
    """Who may be slow, to begin with."""
    low, high, middle = (runs.middles(of) for of in (np.min, np.max, np.median))
    found: list[Flags] = [runs.logs > (low + high) / 2, runs.logs > middle]
    for level in (low, middle, high):
        made = _curve(_Runs(runs.speedups, level, runs.guise))
        off = runs.logs - made
        ordered = np.sort(off)
        steps = np.diff(ordered)[_FEWEST - 1 : -_FEWEST + 1]
        if len(steps):
            found.append(off > ordered[_FEWEST - 1 + int(np.argmax(steps))])
    return found


def _by_chance(runs: _Runs, slow: Flags) -> bool:
    """Whether the conditions' shares of slow runs may differ by chance, since runs came in a random order.

    Else conditions themselves were taken for fast and slow: one whose runs are all of one state tells nothing
    of the other, and any curve leads through both.
    """
    number = runs.same.sum(axis=0)
    wanted = number * slow.mean()
    off = slow @ runs.same - wanted
    count = slow @ runs.same
    if float(np.mean((count > 0) & (count < number))) < _MIXED:
        return False
    free = len(number) - 1
    statistic = float(np.sum(off**2 / wanted + off**2 / (number - wanted)))
    return statistic < free + _CHANCE * math.sqrt(2 * free)


def _settled(runs: _Runs, slow: Flags) -> _Fit | None:
    """Each run belongs to the nearer state, until none moves any more."""
    fit = None
    for _ in range(_STEPS):
        if min(slow.sum(), (~slow).sum()) < _FEWEST:
            return None
        fit = _fitted(runs, slow)
        again = fit.off + fit.slow * fit.gap > fit.gap / 2
        if (again == slow).all():
            break
        slow = again
    return fit


def _fitted(runs: _Runs, slow: Flags) -> _Fit:
    """What the slow ones take longer, and the curve of all of them without it, in turn."""
    slower, steeper = _within(runs, slow)
    made = runs.logs
    for _ in range(_TURNS):
        made = _curve(_Runs(runs.speedups, runs.logs - slow * (slower + steeper * runs.speedups), runs.guise))
        slower, steeper = _line(runs.speedups[slow], (runs.logs - made)[slow])
    off = runs.logs - made - slow * (slower + steeper * runs.speedups)
    return _Fit(runs, slow, slower, steeper, off)


def _within(runs: _Runs, slow: Flags) -> tuple[float, float]:
    """The same by differences between runs of one condition alone: it needs no curve."""
    same = runs.same @ (runs.same.T / runs.same.sum(axis=0)[:, None])
    columns = np.stack([slow, slow * runs.speedups], axis=1).astype(np.float64)
    apart = columns - same @ columns
    (slower, steeper), *_ = np.linalg.lstsq(apart, runs.logs - same @ runs.logs, rcond=1e-3)
    return float(slower), float(steeper)


def _curve(runs: _Runs) -> Floats:
    """Of each run the logarithm of its condition's level, on a curve of diminishing returns."""
    own = runs.guise == 0
    at, place = np.unique(runs.speedups[own], return_inverse=True)
    middle = np.exp([np.median(runs.logs[own][place == i]) for i in range(len(at))])
    weights = np.bincount(place).astype(np.float64)
    left = np.maximum(1e-3, 1 - concave(at, middle, weights)(at))
    level = float(np.average(middle * left, weights=weights) / np.average(left**2, weights=weights))
    made = np.empty_like(runs.logs)
    made[own] = np.log(level * left)[place]
    for other in range(1, int(runs.guise.max()) + 1):
        made[runs.guise == other] = np.median(runs.logs[runs.guise == other])
    return made


def _line(at: Floats, values: Floats) -> tuple[float, float]:
    """Height at 0 and slope of a line; without a slope where there is too little to see one."""
    spread = at - at.mean()
    total = float(spread @ spread)
    slope = float(spread @ values) / total if total > _LEAST_SEEN else 0.0
    return float(values.mean() - slope * at.mean()), slope
