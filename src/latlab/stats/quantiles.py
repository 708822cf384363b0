"""Quantiles by nearest rank, the lower median and the robust deviation.

Every quantile here is a value that was measured, never one between two of them: the q-quantile of N values is
the one of rank ⌈qN⌉ (definition 1 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The
American Statistician 50(4), 1996: the inverse of the empirical distribution). A latency between the 25 µs of
a sleeping receiver and the 7 µs of an awake one never happened, and interpolation would report it. The median
is thereby the lower of the two middle values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import ceil, comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latlab.model.statistics.summary import Summary

__all__ = [
    "REPORTED",
    "median",
    "median_bounds",
    "nearest_rank",
    "quantile_name",
    "quantiles",
    "rank",
    "robust_deviation",
    "summary",
]

# What a report shows unless told otherwise.
REPORTED = (0.5, 0.9, 0.99, 0.999)


def rank(q: float, count: int) -> int:
    """The rank ⌈qN⌉ of the q-quantile among `count` sorted values, from 1 to `count`.

    ``q`` is taken as the decimal number that it is written as: 0.07 of 100 values is rank 7, although the
    binary fraction that stands for 0.07 is a little larger than that and would give 8.

    Raises:
        ValueError: when q lies outside [0, 1] or there is no value.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"a quantile must be between 0 and 1, not {q}")
    if count < 1:
        raise ValueError("no values, so no quantile")
    return min(max(1, ceil(Fraction(repr(float(q))) * count)), count)


def nearest_rank(values: ArrayLike, q: float) -> float:
    """The q-quantile of a series: its ⌈qN⌉-th smallest value.

    Args:
        values: a series of numbers without NaN; its order doesn't matter.
        q: from 0 (the minimum) to 1 (the maximum).

    Returns:
        The value itself, an int where the series is one of integers.

    Raises:
        ValueError: for an empty series, a NaN in it, or a q outside [0, 1].
    """
    return quantiles(values, [q])[0]


def quantiles(values: ArrayLike, qs: Iterable[float]) -> list[float]:
    """Several quantiles by nearest rank, in the order of `qs`, at the price of one partial sort.

    Raises:
        ValueError: as `nearest_rank` does.
    """
    series = _series(values)
    ranks = [rank(q, series.size) - 1 for q in qs]
    if not ranks:
        return []
    ordered = np.partition(series, sorted(set(ranks)))
    return [ordered[index].item() for index in ranks]


def median(values: ArrayLike) -> float:
    """The lower median: the value of rank ⌈N / 2⌉, which is p50.

    Raises:
        ValueError: as `nearest_rank` does.
    """
    return nearest_rank(values, 0.5)


def median_bounds(values: ArrayLike, *, level: float = 0.95) -> tuple[float, float] | None:
    """The confidence interval of a median by ranks: exact for any distribution, since each value lies above
    the median or below it as a coin falls (David and Nagaraja, "Order Statistics", 2003, section 7.1).

    Args:
        values: independent ones.
        level: its coverage is at least this.

    Returns:
        None where there are too few values for the level (fewer than 6 for 0.95).

    Raises:
        ValueError: for an empty series or a NaN in it.
    """
    series = np.sort(_series(values))
    count = len(series)
    outside, k = 0.0, 0
    # k values may be left out on either side while both tails together stay within 1 - level.
    while 2 * (outside + comb(count, k) / 2**count) <= 1 - level:
        outside += comb(count, k) / 2**count
        k += 1
    return None if k == 0 else (float(series[k - 1]), float(series[count - k]))


def robust_deviation(values: ArrayLike) -> float:
    """Mean of |x - median|: a spread that one outlier moves by its distance and not by its square.

    Raises:
        ValueError: for an empty series or a NaN in it.
    """
    return float(np.mean(_distances(_series(values))))


def quantile_name(q: float) -> str:
    """How a quantile is written: "p50", "p99.9"."""
    percent = Fraction(repr(float(q))) * 100
    if percent.denominator == 1:
        return f"p{percent.numerator}"
    return f"p{float(percent):.12g}"


def summary(values: ArrayLike, qs: Sequence[float] = REPORTED) -> Summary:
    """A series in a few numbers.

    Args:
        values: a series of numbers without NaN, in any order.
        qs: the quantiles to report besides minimum, median and maximum.

    Raises:
        ValueError: for an empty series, a NaN in it, or a quantile outside [0, 1].
    """
    series = _series(values)
    distances = _distances(series)
    found = quantiles(series, [0.0, 0.5, 1.0, *qs])
    return Summary(
        count=int(series.size),
        minimum=found[0],
        maximum=found[2],
        mean=float(np.mean(series, dtype=np.float64)),
        median=found[1],
        robust_deviation=float(np.mean(distances)),
        rms_distance=float(np.sqrt(np.mean(np.square(distances)))),
        median_distance=nearest_rank(distances, 0.5),
        quantiles={quantile_name(q): value for q, value in zip(qs, found[3:], strict=True)},
    )


def _series(values: ArrayLike) -> NDArray[Any]:
    series = np.asarray(values).reshape(-1)
    if series.size == 0:
        raise ValueError("no values, so no quantile")
    if series.dtype.kind == "f" and np.isnan(series).any():
        raise ValueError("a series with NaN in it has no quantile")
    if series.dtype.kind not in "fiub":
        raise ValueError(f"a series of {series.dtype} has no quantile")
    return series


def _distances(series: NDArray[Any]) -> NDArray[np.float64]:
    """|x - median|, exact for integers that a float64 could not hold (time stamps in ns of an epoch)."""
    middle = np.partition(series, rank(0.5, series.size) - 1)[rank(0.5, series.size) - 1]
    if series.dtype.kind == "b":
        return np.asarray(series != middle, dtype=np.float64)
    # The larger minus the smaller, since unsigned integers have no negative difference.
    return np.asarray(np.maximum(series, middle) - np.minimum(series, middle), dtype=np.float64)
