"""HDR histograms as arrays: HdrHistogram's bins, and what is said about the counts in them.

The bins are those of HdrHistogram (Gil Tene, http://hdrhistogram.org), so counts move to and from every other
implementation without loss. A quantile of a histogram is the upper bound of the bin that holds the value of
rank ⌈qN⌉; how wide that bin is can be asked for. See docs/reference/histograms.md.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["HOUR_NS", "MAX_VALUE", "Bins", "Histogram", "counted_values", "most_digits"]

HOUR_NS = 3_600_000_000_000
MAX_VALUE = 2**63 - 1


def counted_values(values: ArrayLike) -> NDArray[Any]:
    """A series of any shape as one row, if a histogram can count it.

    Raises:
        ValueError: for a negative value or one that is not an integer.
    """
    series: NDArray[Any] = np.asarray(values).reshape(-1)
    if series.size and series.dtype.kind not in "iu":
        raise ValueError(f"a histogram counts integers, not {series.dtype}; round to a unit first")
    if series.size and series.dtype.kind == "i" and int(series.min()) < 0:
        raise ValueError("a histogram counts no negative values")
    return series


def most_digits(lowest: int) -> int:
    """How many significant digits, 0 to 5, bins can have above a lowest value, in values of 64 bits.

    Args:
        lowest: 1 to 2^62.
    """
    return max(d for d in range(6) if d == 0 or _half_magnitude(d) + lowest.bit_length() <= 62)


def _half_magnitude(digits: int) -> int:
    """Half the power of two at or above 2·10^digits: the number of bins that are one unit wide."""
    twice: int = 2 * 10**digits
    return (twice - 1).bit_length() - 1


class Bins:
    """Which bin a value falls into, and which values a bin holds.

    Args:
        lowest: the smallest value that must be told from 0, at least 1.
        highest: the largest value that has a bin, at least twice `lowest`.
        digits: significant decimal digits, 0 to 5: no bin is wider than 10^-digits of its value.

    Raises:
        ValueError: for a range that makes no sense.
    """

    def __init__(self, lowest: int, highest: int, digits: int) -> None:
        if not 0 <= digits <= 5:
            raise ValueError(f"significant digits must be between 0 and 5, not {digits}")
        if not 1 <= lowest <= MAX_VALUE // 2:
            raise ValueError(f"the lowest value must be between 1 and 2^62, not {lowest}")
        if not 2 * lowest <= highest <= MAX_VALUE:
            raise ValueError(f"the highest value must be between {2 * lowest} and 2^63 - 1, not {highest}")
        self.lowest, self.highest, self.digits = lowest, highest, digits
        self.half_magnitude = _half_magnitude(digits)
        self._unit_magnitude = lowest.bit_length() - 1
        if self.half_magnitude + 1 + self._unit_magnitude > 62:
            raise ValueError(f"a lowest value of {lowest} leaves no room for {digits} digits")
        beyond = 2 << (self.half_magnitude + self._unit_magnitude)
        groups = 1
        while beyond <= highest:
            groups += 1
            beyond <<= 1
        self.size = (groups + 1) << self.half_magnitude

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bins) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[int, int, int]:
        return (self.lowest, self.highest, self.digits)

    def lower(self) -> NDArray[np.int64]:
        """The smallest value of every bin."""
        return _lower_bounds(self.half_magnitude, self._unit_magnitude, self.size)

    def upper(self) -> NDArray[np.int64]:
        """The largest value of every bin."""
        return self.lower() + (self.width() - 1)

    def width(self) -> NDArray[np.int64]:
        """How many values every bin holds."""
        group = np.maximum((np.arange(self.size) >> self.half_magnitude) - 1, 0)
        return np.asarray(np.left_shift(np.int64(1), group + self._unit_magnitude), dtype=np.int64)

    def index(self, values: ArrayLike) -> NDArray[np.int64]:
        """The bin of every value.

        Args:
            values: integers from 0 to what the last bin holds; not checked here.
        """
        series = np.asarray(values, dtype=np.int64)
        mask = ((2 << self.half_magnitude) - 1) << self._unit_magnitude
        padded = series | np.int64(mask)
        _, exponent = np.frexp(padded.astype(np.float64))
        length = exponent.astype(np.int64)
        # Above 2^53 the float may have been rounded up to the next power of two.
        length -= (padded >> (length - 1)) == 0
        group = length - (self.half_magnitude + 1) - self._unit_magnitude
        index = (group << self.half_magnitude) + (series >> (group + self._unit_magnitude))
        return np.asarray(index, dtype=np.int64)


class Histogram:
    """Counts in HDR bins.

    Equality is that of bins and counts. Values above the highest are counted in `beyond`; they rank above all
    others, and a quantile that falls among them is the largest of them.

    Args:
        lowest: the smallest value that must be told from 0.
        highest: the largest value with a bin; an hour in nanoseconds by default.
        digits: significant decimal digits.
        counts: one per bin, shape (bins.size,); all zero by default. It is taken over, not copied.
        beyond: how many values lay above `highest`.
        largest_beyond: the largest of those.

    Raises:
        ValueError: for a range that makes no sense, counts of another shape, or negative ones.
    """

    def __init__(
        self,
        lowest: int = 1,
        highest: int = HOUR_NS,
        digits: int = 3,
        *,
        counts: NDArray[Any] | None = None,
        beyond: int = 0,
        largest_beyond: int = 0,
    ) -> None:
        self.bins = Bins(lowest, highest, digits)
        if counts is None:
            counts = np.zeros(self.bins.size, dtype=np.int64)
        self.counts: NDArray[np.int64] = np.asarray(counts).astype(np.int64, copy=False)
        if self.counts.shape != (self.bins.size,):
            raise ValueError(f"{self.counts.shape} counts for {self.bins.size} bins")
        if self.counts.size and int(self.counts.min()) < 0:
            raise ValueError("a count is negative")
        self.beyond, self.largest_beyond = beyond, largest_beyond

    @classmethod
    def of(cls, values: ArrayLike, *, lowest: int = 1, highest: int = HOUR_NS, digits: int = 3) -> Self:
        """A histogram of a series."""
        made = cls(lowest, highest, digits)
        made.record_many(values)
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Histogram):
            return NotImplemented
        same = self.bins == other.bins and self.beyond == other.beyond
        return same and bool(np.array_equal(self.counts, other.counts))

    __hash__ = None  # type: ignore[assignment]

    def record_many(self, values: ArrayLike) -> None:
        """Count the values of a series, of any shape.

        Raises:
            ValueError: for a negative value or one that is not an integer: nothing is counted then.
        """
        series = counted_values(values)
        if series.size == 0:
            return
        # Compared as they come: a uint64 above 2^63 must not wrap round on the way to int64.
        over = series > series.dtype.type(min(self.bins.highest, int(np.iinfo(series.dtype).max)))
        if over.any():
            self.beyond += int(np.count_nonzero(over))
            self.largest_beyond = max(self.largest_beyond, int(series[over].max()))
            series = series[~over]
        self.counts += np.bincount(self.bins.index(series), minlength=self.bins.size)

    def merge(self, other: Histogram) -> None:
        """Add another histogram's counts.

        Where the other's bins are unlike ours, each of its counts goes to the bin of that bin's smallest
        value, as HdrHistogram's own `add` has it: by less than the width of its bin too low.
        """
        if other.bins == self.bins:
            self.counts += other.counts
        else:
            held = np.flatnonzero(other.counts)
            values = other.bins.lower()[held]
            inside = values <= self.bins.highest
            index = self.bins.index(values[inside])
            np.add.at(self.counts, index, other.counts[held[inside]])
            if not inside.all():
                self.beyond += int(other.counts[held[~inside]].sum())
                self.largest_beyond = max(self.largest_beyond, int(other.bins.upper()[held[-1]]))
        self.beyond += other.beyond
        self.largest_beyond = max(self.largest_beyond, other.largest_beyond)

    @property
    def count(self) -> int:
        """How many values were recorded, those beyond the highest included."""
        return int(self.counts.sum()) + self.beyond

    @property
    def minimum(self) -> int:
        """The lower bound of the first bin that holds something.

        Raises:
            ValueError: for an empty histogram.
        """
        held = np.flatnonzero(self.counts)
        if held.size:
            return int(self.bins.lower()[held[0]])
        return self._only_beyond()

    @property
    def maximum(self) -> int:
        """The upper bound of the last bin that holds something, or the largest value beyond the bins.

        Raises:
            ValueError: for an empty histogram.
        """
        if self.beyond:
            return self.largest_beyond
        held = np.flatnonzero(self.counts)
        if not held.size:
            return self._only_beyond()
        return int(self.bins.upper()[held[-1]])

    def quantile(self, q: float) -> int:
        """The upper bound of the bin that holds the value of rank ⌈qN⌉.

        Raises:
            ValueError: for an empty histogram or a q outside [0, 1].
        """
        return self._at(Fraction(repr(float(q))))

    def percentile(self, percent: float) -> int:
        """`quantile`, asked for in per cent: `percentile(99.9)` is p99.9.

        Raises:
            ValueError: for an empty histogram or a percentage outside [0, 100].
        """
        return self._at(Fraction(repr(float(percent))) / 100)

    def width_at(self, value: int) -> int:
        """How many values the bin of a value holds: a quantile there is known to that."""
        if not 0 <= value <= self.bins.highest:
            raise ValueError(f"{value} has no bin")
        return int(self.bins.width()[self.bins.index(np.array([value]))[0]])

    def mean(self) -> float:
        """The mean of the bins' middles, weighted by their counts; values beyond the bins are left out.

        Raises:
            ValueError: for an empty histogram.
        """
        held, middles = self._middles()
        return float(np.average(middles, weights=self.counts[held]))

    def standard_deviation(self) -> float:
        """Root of the mean squared distance from `mean`; values beyond the bins are left out.

        Raises:
            ValueError: for an empty histogram.
        """
        held, middles = self._middles()
        weights = self.counts[held]
        mean = np.average(middles, weights=weights)
        return float(np.sqrt(np.average(np.square(middles - mean), weights=weights)))

    def recorded(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The upper bounds of the bins that hold something, and their counts."""
        held = np.flatnonzero(self.counts)
        return self.bins.upper()[held], self.counts[held]

    def cumulative(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Values and the share of all values at or below each: the points of a cumulative curve."""
        values, counts = self.recorded()
        shares = np.cumsum(counts) / max(1, self.count)
        if self.beyond:
            values, shares = np.append(values, self.largest_beyond), np.append(shares, 1.0)
        return values, shares

    def _middles(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        held = np.flatnonzero(self.counts)
        if not held.size:
            self._only_beyond()
            raise ValueError("every value lies beyond the bins, so their middle is not known")
        lower, width = self.bins.lower()[held], self.bins.width()[held]
        # HdrHistogram's median equivalent value: bins of one unit are their own middle.
        return held, (lower + width // 2).astype(np.float64)

    def _at(self, share: Fraction) -> int:
        if not 0 <= share <= 1:
            raise ValueError(f"a quantile must be between 0 and 1, not {float(share)}")
        total = self.count
        if total == 0:
            raise ValueError("an empty histogram has no quantile")
        rank = max(1, ceil(share * total))
        if rank > total - self.beyond:
            return self.largest_beyond
        index = int(np.searchsorted(np.cumsum(self.counts), rank))
        return int(self.bins.upper()[index])

    def _only_beyond(self) -> int:
        if self.beyond:
            return self.largest_beyond
        raise ValueError("an empty histogram has no value")


@lru_cache(maxsize=16)
def _lower_bounds(half_magnitude: int, unit_magnitude: int, size: int) -> NDArray[np.int64]:
    index = np.arange(size, dtype=np.int64)
    half = 1 << half_magnitude
    group = (index >> half_magnitude) - 1
    first = group < 0
    within = np.where(first, index & (half - 1), (index & (half - 1)) + half)
    bounds = np.asarray(np.left_shift(within, np.maximum(group, 0) + unit_magnitude), dtype=np.int64)
    bounds.setflags(write=False)
    return bounds
