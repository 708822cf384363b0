"""Curves of diminishing returns through measured points: pure; `stubs.studies.forecast` says why so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.stats.nonnegative import nonnegative_least_squares

Floats = npt.NDArray[np.float64]

# What a knee must cost against a straight line, in parts of the system's time, and how much better it must
# fit (Fisher's F) to be one.
LEAST_LOSS = 0.01
LEAST_F = 6.0
# Knees nearer to the ends than this can't be told from no knee.
NEAR_END = 0.03
_KNEES = np.round(np.arange(NEAR_END, 1 - NEAR_END + 1e-9, 0.01), 2)
_GRID = np.round(np.arange(0.04, 1.0001, 0.04), 2)


@dataclass(frozen=True)
class Knee:
    """g(s) = first * min(s, at) + rest * s; `at` is 1 where there is none."""

    at: float
    first: float
    rest: float

    @property
    def beyond(self) -> float:
        """The slope after the knee, relative to that before."""
        return self.rest / max(1e-9, self.first + self.rest)


def concave(speedups: Floats, times: Floats, weights: Floats) -> Callable[[Floats], Floats]:
    """The gain as a function of the speedup, by least squares under its constraints."""
    # A knee beyond the last point can't be seen: there the curve goes on as it was.
    knees = np.array([*_GRID[speedups.max() - 0.01 > _GRID], 1.0])

    def columns(at: Floats) -> Floats:
        return np.asarray(np.minimum(at[:, None], knees[None, :]))

    design = np.hstack([np.ones((len(speedups), 1)), -columns(speedups)])
    root = np.sqrt(weights / weights.max())
    solution, _ = nonnegative_least_squares(design * root[:, None], times * root)
    level, slopes = float(solution[0]), solution[1:]

    def gain(at: Floats) -> Floats:
        return np.asarray(columns(at) @ slopes / level)

    return gain


def simplest(
    speedups: Floats, times: Floats, weights: Floats, *, least_variance: float
) -> Callable[[Floats], Floats]:
    """The gain as a function of the speedup: of a line with one knee or none, where no curve of several knees
    fits clearly better. What bends a curve between few points is mostly noise, and costs most at its ends.

    Args:
        least_variance: as in `one_knee`.
    """
    knee = one_knee(speedups, times, weights, least_variance=least_variance)
    curved = concave(speedups, times, weights)

    def straight(at: Floats) -> Floats:
        return np.asarray(knee.first * np.minimum(at, knee.at) + knee.rest * at)

    def left(gain: Callable[[Floats], Floats]) -> float:
        """The weighted sum of squares that a curve of this shape leaves."""
        shape = 1 - gain(speedups)
        level = np.average(times * shape, weights=weights) / np.average(shape**2, weights=weights)
        return float(np.sum((times - level * shape) ** 2 * weights) / weights.max())

    rest = left(curved)
    noise = max(rest / max(1, len(speedups) - 4), least_variance, 1e-12)
    return curved if left(straight) - rest > LEAST_F * noise else straight


def line(speedups: Floats, times: Floats, weights: Floats) -> float:
    """By how much the straight line falls from 0 to 1, relative to its begin; negative where it rises."""
    mean_s, mean_t = np.average(speedups, weights=weights), np.average(times, weights=weights)
    slope = np.average((speedups - mean_s) * (times - mean_t), weights=weights) / np.average(
        (speedups - mean_s) ** 2, weights=weights
    )
    return float(-slope / (mean_t - slope * mean_s))


def one_knee(
    speedups: Floats, times: Floats, weights: Floats, *, least_variance: float, forced: bool = False
) -> Knee:
    """The best straight line, or the best line with one knee where it is clearly better.

    Args:
        least_variance: of the point with the largest weight, as known from its repetitions.
        forced: the best knee, whether or not it is better.
    """
    root = np.sqrt(weights / weights.max())
    knees = _KNEES[speedups.max() - 0.02 > _KNEES]
    slope, straight = _solve(root, times, speedups)
    if not knees.size:
        return Knee(1.0, float(slope[1] / slope[0]), 0.0)
    plain = [(_solve(root, times, np.minimum(speedups, k)), float(k)) for k in knees]
    (best, error), at = min(plain, key=lambda one: one[0][1])
    first, rest = float(best[1]), 0.0
    free = max(1, len(speedups) - 4)
    both = [(_solve(root, times, np.minimum(speedups, k), speedups), float(k)) for k in knees]
    (two, error_two), at_two = min(both, key=lambda one: one[0][1])

    def noise(left: float) -> float:
        return max(left / free, least_variance, 1e-12)

    # A slope that goes on beyond the knee has to earn its place too.
    if error - error_two > LEAST_F * noise(error_two):
        (first, rest), error, at, best = (float(two[1]), float(two[2])), error_two, at_two, two
    loss = first * (1 - at) / max(1e-9, float(best[0]))
    better = straight - error > LEAST_F * noise(error)
    if not forced and (loss < LEAST_LOSS or not better):
        return Knee(1.0, float(slope[1] / slope[0]), 0.0)
    return Knee(round(at, 4), first / float(best[0]), rest / float(best[0]))


def _solve(root: Floats, times: Floats, *shapes: Floats) -> tuple[Floats, float]:
    """Level and slopes, none of them negative, and the weighted sum of squares that is left."""
    design = np.stack([np.ones_like(times), *(-shape for shape in shapes)], axis=1) * root[:, None]
    solution, *_ = np.linalg.lstsq(design, times * root, rcond=None)
    if (solution < 0).any():
        solution, residual = nonnegative_least_squares(design, times * root)
        return solution, residual**2
    return np.asarray(solution, dtype=np.float64), float(np.sum((design @ solution - times * root) ** 2))
