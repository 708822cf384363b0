"""The level of each condition of an experiment on a machine whose speed isn't constant: pure.

A virtual CPU shares its core with neighbours: for milliseconds to seconds it runs at half to two thirds of
its speed, and the guest sees nothing of it but longer times. Means and medians of whole runs then say how
often the machine was slow. What comes again is the fast mode, and so a level is the *expected least of m
runs*, by all draws of m from a condition's runs (an L-estimator; W. Hoeffding, A Class of Statistics with
Asymptotically Normal Distribution, 1948). Its bias is the same however often a condition was run, and falls
out of ratios; a plain minimum's or a low quantile's of a few runs does not. The m is the one that repeats
best on the noise that all conditions share. Where a run may be *shorter* by chance too (a scheduler that puts
two threads on one CPU, and sometimes on two), a middle of m repeats better than the least, and is taken. A
run that was measured in parts is judged part by part (the level of each, added up): a part finds the machine
fast more often than a whole run does. Nothing is taken off that a round's runs share: a round in a slow spell
would lend its few fast runs a speed that no run has.

Errors are a bootstrap's (B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993). Runs of one
part are drawn from what all conditions deviate by, since they share the machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Parts = float | Sequence[float] | Floats

# Estimates that are offered: the r-th least of m.
Rank = tuple[int, int]
OFFERED: tuple[Rank, ...] = ((1, 2), (1, 4), (1, 8), (1, 16), (2, 3), (3, 5))
SINGLE: Rank = (1, 4)  # where levels of different samples are held against each other
REPLICATES = 200
_FEW = 5  # a bootstrap of fewer runs of a condition by itself says nothing


@lru_cache(maxsize=256)
def _weights(n: int, r: int, m: int) -> Floats:
    """Of the sorted values: how often each is the r-th least of m that are drawn from n."""
    ways = [math.comb(i, r - 1) * math.comb(n - i - 1, m - r) for i in range(n)]
    return np.array(ways) / math.comb(n, m)


def ranked(values: Floats, rank: Rank, axis: int = 0) -> Floats:
    """The expected r-th least of m (or of all, where there are fewer)."""
    r, m = rank
    n = values.shape[axis]
    m = min(n, m)
    return np.asarray(np.tensordot(np.sort(values, axis=axis), _weights(n, min(r, m), m), axes=(axis, 0)))


def centre(values: Sequence[float]) -> float:
    """A single condition's level."""
    return float(ranked(np.asarray(values, dtype=np.float64), SINGLE))


def error(values: Sequence[float]) -> float:
    """Half the width of a single level's 95 % interval, relative to it."""
    if len(values) < 2:
        return math.inf
    sample = Sample([{0.0: value} for value in values])
    return 1.96 * float(np.std(sample.replicates()[0.0])) / sample.levels()[0.0]


def difference(more: Sequence[Parts], less: Sequence[Parts]) -> tuple[float, float]:
    """By how much the level of `less` is less, and half the width of its 95 % interval."""
    if len(more) < 2 or len(less) < 2:
        return 0.0, math.inf
    sample = Sample([{0.0: a} for a in more] + [{1.0: b} for b in less])
    levels, spread = sample.levels(), sample.replicates()
    return levels[0.0] - levels[1.0], 1.96 * float(np.std(spread[0.0] - spread[1.0]))


def ratio(of: Sequence[float], to: Sequence[float]) -> tuple[float, float]:
    """The ratio of two single levels, and half the width of its 95 % interval."""
    if len(of) < 2 or len(to) < 2:
        return 1.0, math.inf
    sample = Sample([{0.0: a} for a in of] + [{1.0: b} for b in to], rank=SINGLE)
    levels, spread = sample.levels(), sample.replicates()
    return levels[0.0] / levels[1.0], 1.96 * float(np.std(spread[0.0] / spread[1.0]))


class Sample:
    """Measurements of several conditions in rounds, and the level of each: by the rank that repeats best, or
    by one that is given."""

    def __init__(
        self, rounds: Sequence[Mapping[float, Parts]], *, rank: Rank | None = None, seed: int = 1
    ) -> None:
        if rank is not None:
            self.rank = rank
        self.conditions = sorted({key for one in rounds for key in one})
        self._seed = seed
        self._data: dict[float, Floats] = {}
        for key in self.conditions:
            rows = [np.atleast_1d(np.asarray(one[key], dtype=np.float64)) for one in rounds if key in one]
            self._data[key] = np.array(rows)

    def runs(self, condition: float) -> int:
        """How often a condition was measured."""
        return len(self._data.get(condition, ()))

    @cached_property
    def rank(self) -> Rank:
        """Of OFFERED, the one that repeats best on this noise; of no more than each condition has runs."""
        counts = sorted(len(data) for data in self._data.values())
        few, middle = counts[0], counts[len(counts) // 2]
        offered = [rank for rank in OFFERED if rank[1] <= few] or [(1, max(1, few))]
        return min(offered, key=lambda rank: self._repeats(rank, middle))

    def _repeats(self, rank: Rank, runs: int) -> float:
        """The standard error of a level with this many runs, relative to it."""
        random = np.random.default_rng(self._seed)
        parted = [data for data in self._data.values() if data.shape[1] > 1 and len(data) >= _FEW]
        if parted:
            errors = []
            for data in parted[:4]:  # enough to tell one from another
                drawn = data[random.integers(0, len(data), (REPLICATES // 2, len(data)))]
                sums = ranked(drawn, rank, axis=1).sum(axis=1)
                errors.append(float(np.std(sums) / np.mean(sums)))
            return float(np.median(errors))
        noise = self._noise(rank)
        drawn = noise[random.integers(0, len(noise), (2 * REPLICATES, max(2, runs)))]
        return float(np.std(np.log(ranked(drawn, rank, axis=1))))

    def levels(self) -> dict[float, float]:
        """Of each condition, in the unit of the measurements."""
        return {key: float(ranked(data, self.rank).sum()) for key, data in self._data.items()}

    def replicates(self) -> dict[float, Floats]:
        """Levels that other runs might have given: REPLICATES of each condition."""
        random = np.random.default_rng(self._seed)
        levels = self.levels()
        noise = self._noise(self.rank)
        # Deviations from levels that were fitted to them are too small.
        total = sum(len(data) for data in self._data.values())
        spared = math.sqrt(total / max(1, total - len(self._data)))
        found = {}
        for key, data in self._data.items():
            n = len(data)
            if data.shape[1] == 1 or n < _FEW:
                drawn = noise[random.integers(0, len(noise), (REPLICATES, n))]
                logs = np.log(ranked(drawn, self.rank, axis=1))
                # What so few are off on average, they are off in the measured level too.
                found[key] = levels[key] * np.exp((logs - np.mean(logs)) * spared)
                continue
            drawn = data[random.integers(0, n, (REPLICATES, n))]
            sums = ranked(drawn, self.rank, axis=1).sum(axis=1)
            found[key] = levels[key] + (sums - np.mean(sums)) * math.sqrt(n / (n - 1))
        return found

    def _noise(self, rank: Rank) -> Floats:
        """What whole runs deviate by from their condition's level, as ratios; all conditions together."""
        totals = [data.sum(axis=1) for data in self._data.values()]
        known = [one / ranked(one, rank) for one in totals if len(one) > 1]
        return np.concatenate(known) if known else np.ones(1)
