"""What lies between the measured points of a stub, by its law.

A stub's service falls linearly with its speed-up, and so does the time per event of what it limits, until
another limits: from there on it stays. A rate is the inverse of that time. (A straight line between the
rates at 20 % and 100 % would promise nothing for most of the way, and more than there is before a knee.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["rates_between", "times_between"]

_FALLEN = 0.8  # of the way to the limit: a point beyond that may lie past the knee


def times_between(
    speedups: Sequence[float], times: Sequence[float], at: Sequence[float]
) -> NDArray[np.float64]:
    """The time per event, or of the whole, at speed-ups that were not measured.

    Args:
        speedups: of the measured points, ascending from 0; the last is where the limit is read.
        times: of these points.
        at: speed-ups from 0 to 1.
    """
    x, y = np.asarray(speedups, float), np.asarray(times, float)
    first, limit = float(y[0]), float(y[-1])
    falling = [i for i in range(1, len(x)) if first - y[i] <= _FALLEN * (first - limit)]
    # The steepest of what is before the knee; past it points say only that the slope is at least as much.
    known = falling or [1]
    slope = float((x[known] * (first - y[known])).sum() / (x[known] ** 2).sum())
    found = first - slope * np.asarray(at, float)
    bounded: NDArray[np.float64] = np.maximum(found, limit) if limit <= first else np.minimum(found, limit)
    return bounded


def rates_between(
    speedups: Sequence[float], rates: Sequence[float], at: Sequence[float]
) -> NDArray[np.float64]:
    """The same of rates."""
    return 1.0 / times_between(speedups, [1.0 / max(rate, 1e-12) for rate in rates], at)
