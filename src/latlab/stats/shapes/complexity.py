"""How a time grows with a size: the law that fits, or that several fit alike.

Each law is fitted as a + b f(n), neither below 0, by least squares of the relative error (Lawson and Hanson,
"Solving least squares problems", 1974, chapter 23), so that small sizes count as much as large ones. One law
is named only if every other fits clearly worse.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from latlab.model.evidence.said import said
from latlab.model.evidence.statistics import GrowthSaid
from latlab.stats.nonnegative import nonnegative_least_squares

__all__ = ["FEWEST", "Growth", "growth"]

FEWEST = 4  # sizes
_SPAN = 8.0  # of the largest over the smallest: n and n log n differ by half of it then
_CLEAR, _FLOOR, _FITS = 2.0, 0.01, 0.15
_LAWS: dict[str, Callable[[float], float]] = {
    "1": lambda _: 0.0,
    "log n": lambda n: math.log2(n + 1),
    "n": lambda n: n,
    "n log n": lambda n: n * math.log2(n + 1),
    "n²": lambda n: n * n,
    "n³": lambda n: n**3,
}


@dataclass(frozen=True)
class Growth:
    """What a series of sizes shows.

    Attributes:
        laws: that fit; one where it is sure, none where nothing does or the sizes are too few.
        error: relative, root of the mean square, of the best.
        why: one sentence.
        span: the largest size over the smallest; 0 of fewer than two.
        ratio: the time of the largest over that of the smallest.
    """

    laws: tuple[str, ...]
    error: float | None
    why: str
    span: float = 0.0
    ratio: float = 1.0


def growth(sizes: Sequence[float], times: Sequence[float]) -> Growth:
    """The law by which times grow with sizes.

    Args:
        sizes: above 0, in any order.
        times: of each, above 0.
    """
    distinct = sorted(set(sizes))
    if len(distinct) > 1 and distinct[0] > 0:
        ends = [
            float(np.median([t for s, t in zip(sizes, times, strict=True) if s == end]))
            for end in (distinct[0], distinct[-1])
        ]
        found = _law(sizes, times, distinct)
        return dataclasses.replace(found, span=distinct[-1] / distinct[0], ratio=ends[1] / ends[0])
    return _law(sizes, times, distinct)


def _law(sizes: Sequence[float], times: Sequence[float], distinct: Sequence[float]) -> Growth:
    if len(distinct) < FEWEST or distinct[0] <= 0 or distinct[-1] < _SPAN * distinct[0]:
        return Growth((), None, said(GrowthSaid.TOO_FEW, sizes=FEWEST, span=_SPAN))
    weights = 1 / np.asarray(times, dtype=np.float64)
    errors = {}
    for name, law in _LAWS.items():
        shape = np.array([law(size) for size in sizes], dtype=np.float64)
        shape /= max(1e-300, float(shape.max()))
        _, distance = nonnegative_least_squares(
            np.column_stack([weights, shape * weights]), np.ones(len(weights))
        )
        errors[name] = float(distance) / math.sqrt(len(weights))
    best = min(errors.values())
    if best > _FITS:
        return Growth((), best, said(GrowthSaid.NONE_FITS, off=best))
    limit = _CLEAR * max(best, _FLOOR)
    # A constant is the other laws with b = 0: it is named before they are.
    laws = ("1",) if errors["1"] <= limit else tuple(n for n, e in errors.items() if e <= limit)
    if len(laws) == 1:
        return Growth(laws, errors[laws[0]], said(GrowthSaid.ONE_FITS))
    return Growth(laws, best, said(GrowthSaid.SEVERAL_FIT))
