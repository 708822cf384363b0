"""The native HDR recorder from Python: records while measuring, and gives a histogram afterwards."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from latlab._core.stats import HdrRecorder
from latlab.model.statistics.histogram import HOUR_NS, Histogram, counted_values

__all__ = ["HistogramRecorder", "histogram_of"]


class HistogramRecorder:
    """Records non-negative integers into HDR bins without allocating. One thread at a time.

    Args:
        lowest: the smallest value that must be told from 0.
        highest: the largest value with a bin; larger ones are counted as beyond it.
        digits: significant decimal digits, 0 to 5.

    Raises:
        ValueError: for a range that makes no sense.
    """

    def __init__(self, lowest: int = 1, highest: int = HOUR_NS, digits: int = 3) -> None:
        self._native = HdrRecorder(lowest, highest, digits)
        self.record = self._native.record
        self.record_corrected = self._native.record_corrected
        self.reset = self._native.reset

    def record_many(self, values: ArrayLike) -> None:
        """Count the values of a series of integers, of any shape.

        Raises:
            ValueError: for a negative value: nothing is counted then.
        """
        series = counted_values(values)
        if series.size == 0:
            return
        self._native.record_many(np.ascontiguousarray(series, dtype=np.uint64))

    def merge(self, other: HistogramRecorder) -> None:
        """Add what another recorder with the same bins holds.

        Raises:
            ValueError: for unlike bins.
        """
        self._native.merge(other._native)

    def histogram(self) -> Histogram:
        """A copy of what was recorded so far."""
        return histogram_of(self._native)


def histogram_of(native: HdrRecorder) -> Histogram:
    """What a native recorder holds, as a histogram."""
    return Histogram(
        native.lowest,
        native.highest,
        native.digits,
        counts=native.counts(),
        beyond=native.beyond,
        largest_beyond=native.largest_beyond,
    )
