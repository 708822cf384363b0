"""The step of a counter, from differences between its readings. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["detect_quantum"]


def detect_quantum(values_ticks: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> int:
    """The counter's step in ticks.

    On a machine whose counter advances by q, nearly every distinct delta is a multiple of q, or off by one
    (a reading
    within a step returns the former one + 1). Distinct values vote, weighted by the square root of their
    counts: the rare
    long ones must be heard beside the millions of the shortest.

    Args:
        values_ticks: distinct deltas, exact ones only.
        counts: how often each came.
    """
    keep = (values_ticks > 1) & (counts > 0)
    values, weights = values_ticks[keep].astype(np.int64), np.sqrt(counts[keep].astype(float))
    if len(values) < 5:
        return (
            int(values[0]) if len(values) == 1 else max(1, int(np.gcd.reduce(values)) if len(values) else 1)
        )
    total = weights.sum()
    for step in range(1000, 7, -1):
        off = values % step
        hit = (off == 0) | (off == 1) | (off == step - 1)
        if weights[hit].sum() >= 0.97 * total and np.count_nonzero(hit & (values > step + 1)) >= 3:
            return step
    for step in range(7, 1, -1):
        if weights[values % step == 0].sum() >= 0.995 * total:
            return step
    return 1
