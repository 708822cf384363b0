"""The classic histogram of two bin spacings, and what its min and knee should be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.errors import UsageError
from latlab.model.evidence.jitter import HistogramAdvice
from latlab.model.evidence.said import said
from latlab.model.machine.jitter import CoreJitter

__all__ = ["INFINITE", "Histogram", "bin_bounds", "histogram", "recommendations"]

INFINITE = (1 << 64) - 1


@dataclass(frozen=True)
class Histogram:
    """Counts between inclusive upper bounds.

    Attributes:
        bounds_ticks: upper bounds; the last is `INFINITE`.
        counts: deltas in each bin.
        sums_ticks: their sum.
    """

    min_ticks: int
    knee_ticks: int
    bounds_ticks: tuple[int, ...]
    counts: tuple[int, ...]
    sums_ticks: tuple[float, ...]

    @property
    def below_knee(self) -> float:
        """The share of samples up to the knee."""
        total = sum(self.counts)
        return sum(self.counts[: len(self.counts) // 2]) / total if total else 0.0


def bin_bounds(bins: int, min_ticks: int, knee_ticks: int) -> tuple[int, ...]:
    """Upper bounds: half of the bins linear up to the knee, half 2, 10, 20, 100 … times it.

    The last has no end.

    Raises:
        UsageError: an odd number of bins, a knee that is not over min, or fewer values than bins between
            them.
    """
    if bins < 2 or bins % 2:
        raise UsageError(
            f"{bins} bins can't be halved at the knee", remedy="give -b an even number of at least 2"
        )
    half = bins // 2
    if min_ticks < 0:
        raise UsageError(f"min is {min_ticks} ticks", remedy="give -m 0 or more")
    if knee_ticks <= min_ticks:
        raise UsageError(
            f"the knee ({knee_ticks} ticks) is not over min ({min_ticks} ticks)",
            remedy="raise -k or lower -m",
        )
    if knee_ticks - min_ticks < half:
        raise UsageError(
            f"{half} linear bins don't fit between min ({min_ticks}) and knee ({knee_ticks}) ticks",
            remedy="raise -k or lower -b",
        )
    linear = [min_ticks + (knee_ticks - min_ticks) * (i + 1) // half for i in range(half)]
    upper = [knee_ticks * (2 if i % 2 == 0 else 10) * 10 ** (i // 2) for i in range(half)]
    upper[-1] = INFINITE
    return tuple(linear + upper)


def histogram(
    values_ticks: np.ndarray[Any, Any],
    counts: np.ndarray[Any, Any],
    bins: int,
    min_ticks: int,
    knee_ticks: int,
) -> Histogram:
    """Sort counted deltas into the two-spacing bins; values below min fall into the first one."""
    bounds = bin_bounds(bins, min_ticks, knee_ticks)
    finite = np.array(bounds[:-1], dtype=np.float64)
    at = np.searchsorted(finite, values_ticks, side="left")
    sums = np.bincount(at, weights=values_ticks * counts.astype(float), minlength=bins)
    each = np.zeros(bins, np.uint64)
    np.add.at(each, at, counts.astype(np.uint64))
    return Histogram(min_ticks, knee_ticks, bounds, tuple(each.tolist()), tuple(sums.tolist()))


def automatic_range(core: CoreJitter, bins: int) -> tuple[int, int]:
    """A min and a knee that the recommendations leave alone, where the deltas allow it."""
    low = int(0.8 * core.min_ticks)
    return low, max(core.percentile_ticks(98), low + bins // 2)


def recommendations(seen: Histogram, smallest_ticks: int) -> list[str]:
    """What would make the histogram tell more: each is one clause."""
    advice: list[str] = []
    if smallest_ticks < 0.8 * seen.min_ticks:
        advice.append(said(HistogramAdvice.SET_MIN, ticks=0.8 * smallest_ticks))
    if seen.below_knee < 0.90:
        advice.append(said(HistogramAdvice.RAISE_KNEE, ticks=seen.knee_ticks, below=seen.below_knee))
    elif seen.below_knee > 0.99:
        advice.append(said(HistogramAdvice.LOWER_KNEE, ticks=seen.knee_ticks, below=seen.below_knee))
    return advice
