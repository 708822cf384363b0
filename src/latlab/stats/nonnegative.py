"""Least squares whose coefficients are not negative."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["nonnegative_least_squares"]

Floats = npt.NDArray[np.float64]


def nonnegative_least_squares(design: Floats, target: Floats) -> tuple[Floats, float]:
    """The coefficients x >= 0 of least |design x - target|, and that distance.

    Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23: a set of columns that are free is
    grown by the one that helps the most, and left by those that would become negative.

    Args:
        design: of shape (rows, columns).
        target: of shape (rows,).
    """
    columns = design.shape[1]
    found = np.zeros(columns)
    free = np.zeros(columns, dtype=bool)
    tolerance = (
        10 * max(design.shape) * np.finfo(float).eps * float(np.abs(design).sum(axis=0).max(initial=0.0))
    )
    for _ in range(3 * columns + 10):
        slope = design.T @ (target - design @ found)
        slope[free] = -math.inf
        if free.all() or slope.max() <= tolerance:
            break
        free[int(np.argmax(slope))] = True
        while True:
            trial = np.zeros(columns)
            trial[free] = np.linalg.lstsq(design[:, free], target, rcond=None)[0]
            negative = free & (trial <= 0)
            if not negative.any():
                found = trial
                break
            # As far towards the trial as nothing becomes negative; what reaches 0 is no longer free.
            left = found[negative] - trial[negative]
            step = float(np.min(np.divide(found[negative], left, out=np.zeros_like(left), where=left > 0)))
            found = found + step * (trial - found)
            free &= found > tolerance * 1e-3
            found[~free] = 0.0
            if not free.any():
                break
    return found, float(np.linalg.norm(design @ found - target))
