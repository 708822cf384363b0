"""Summaries of long integer series from their distinct values and how often each occurs: exact, no sort."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.model.statistics.summary import Summary
from latlab.stats.quantiles import REPORTED, quantile_name, rank

Integers = npt.NDArray[np.int64]
_NONE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class CountedSeries:
    """A series as its distinct values, rising, and how often each occurs; shapes (k,)."""

    values: Integers
    counts: Integers

    @property
    def size(self) -> int:
        """How many values the series has."""
        return int(self.counts.sum())

    def at(self, ranks: list[int]) -> list[int]:
        """The values of these ranks, from 1."""
        return [int(self.values[i]) for i in np.searchsorted(np.cumsum(self.counts), ranks)]


def counted(to: Integers, from_: Integers = _NONE) -> CountedSeries:
    """The values of `to` - `from_`, or of `to` itself."""
    from latlab._core import messaging as core

    return CountedSeries(*core.count_differences(np.ascontiguousarray(to), np.ascontiguousarray(from_)))


def summarise(series: CountedSeries | Integers, *, per: int = 1) -> Summary | None:
    """What `latlab.stats.quantiles.summary` says of the series; None for no values.

    Ten million values take some 30 ms to count and 1 ms from there; selections take 2 s.

    Args:
        per: divides every value, as M does the differences over M messages.
    """
    if not isinstance(series, CountedSeries):
        series = counted(series)
    if series.values.size == 0:
        return None
    values, counts, count = series.values, series.counts, series.size
    middle, *ranked = series.at([rank(0.5, count), *[rank(q, count) for q in REPORTED]])
    distances = np.abs(values - middle)
    weights = counts.astype(np.float64)
    order = np.argsort(distances, kind="stable")
    half = np.searchsorted(np.cumsum(counts[order]), rank(0.5, count))

    def scale(value: float) -> float:
        return value if per == 1 else value / per

    return Summary(
        count=count,
        minimum=scale(int(values[0])),
        maximum=scale(int(values[-1])),
        mean=scale(float(np.dot(values.astype(np.float64), weights)) / count),
        median=scale(middle),
        robust_deviation=scale(float(np.dot(distances.astype(np.float64), weights)) / count),
        rms_distance=scale(float(np.sqrt(np.dot(distances.astype(np.float64) ** 2, weights) / count))),
        median_distance=scale(int(distances[order[half]])),
        quantiles={quantile_name(q): scale(value) for q, value in zip(REPORTED, ranked, strict=True)},
    )


def summarise_rates(apart: CountedSeries, per_ns: float) -> tuple[Summary | None, int]:
    """Of per_ns / x, undefined (and counted) where x is 0 or less: (the summary, how many are undefined)."""
    defined = apart.values > 0
    undefined = int(apart.counts[~defined].sum())
    # Quantiles of 1/x are those of x from the other end.
    rates, counts = per_ns / apart.values[defined][::-1], apart.counts[defined][::-1]
    if rates.size == 0:
        return None, undefined
    count, reached = int(counts.sum()), np.cumsum(counts)

    def at(q: float) -> float:
        return float(rates[np.searchsorted(reached, rank(q, count))])

    middle, weights = at(0.5), counts.astype(np.float64)
    distances = np.abs(rates - middle)
    order = np.argsort(distances, kind="stable")
    half = np.searchsorted(np.cumsum(counts[order]), rank(0.5, count))
    return Summary(
        count=count,
        minimum=float(rates[0]),
        maximum=float(rates[-1]),
        mean=float(np.dot(rates, weights)) / count,
        median=middle,
        robust_deviation=float(np.dot(distances, weights)) / count,
        rms_distance=float(np.sqrt(np.dot(distances**2, weights) / count)),
        median_distance=float(distances[order[half]]),
        quantiles={quantile_name(q): at(q) for q in REPORTED},
    ), undefined
