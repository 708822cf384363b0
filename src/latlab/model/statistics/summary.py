"""What is said about a series of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Summary"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A series of values, in its own unit, in a few numbers.

    Location and spread are measured from the median, since a latency's mean and standard deviation follow
    its few largest values.

    Attributes:
        count: how many values there are.
        minimum: the smallest.
        maximum: the largest.
        mean: the average.
        median: the lower median, which is the value of rank ⌈count / 2⌉.
        robust_deviation: mean of |x - median|.
        rms_distance: root of the mean of (x - median)².
        median_distance: the lower median of |x - median| (the median absolute deviation, not rescaled).
        quantiles: the values of nearest rank by name, "p50" to "p99.9".
    """

    count: int
    minimum: float
    maximum: float
    mean: float
    median: float
    robust_deviation: float
    rms_distance: float
    median_distance: float
    quantiles: Mapping[str, float] = field(default_factory=dict)
