"""Fewer values of a long series, by what they are for: extremes to be drawn, a random sample to be tested.

Every k-th value would do for neither: a period that shares a factor with k is met always or never.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["drawn", "extremes"]


def extremes(values: NDArray[Any], points: int) -> NDArray[np.int64]:
    """Indices of the least and largest of each of `points / 2` equal parts, ascending; all of a short series.

    A NaN is never an extreme; a part of nothing else gives its first.
    """
    count = len(values)
    if count <= points or points < 2:
        return np.arange(count, dtype=np.int64)
    parts = points // 2
    edges = np.linspace(0, count, parts + 1).astype(np.int64)
    low = np.where(np.isnan(values), np.inf, values) if values.dtype.kind == "f" else values
    high = np.where(np.isnan(values), -np.inf, values) if values.dtype.kind == "f" else values
    found = [
        edge
        for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        for edge in (begin + int(np.argmin(low[begin:end])), begin + int(np.argmax(high[begin:end])))
    ]
    return np.unique(np.array(found, np.int64))


def drawn(values: NDArray[Any], most: int, *, seed: int = 0) -> NDArray[Any]:
    """At most this many of the values, drawn at random without replacement, in their order."""
    if len(values) <= most:
        return values
    rows = np.random.default_rng(seed).choice(len(values), most, replace=False)
    return values[np.sort(rows)]
