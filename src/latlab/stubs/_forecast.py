"""From the measured times of a study to its forecast: pure.

The curve has the shape of the method's theory (optimisation pays in proportion until another part takes
over): t(f) = t_min + slope * max(0, f - knee), with f the part of the busy time that is left. The knee is
searched, the other two are least squares; intervals are of a bootstrap over rounds, which keeps what
drifts with a round together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
FACTORS = tuple(round(1 - i / 10, 1) for i in range(11))
# A gain that is less than this (of the whole system) is none, even where it can be told from 0.
SMALLEST_GAIN = 0.01
# A knee within this distance of either end can't be told from no knee.
NEAR_END = 0.05
_KNEES = np.linspace(0.0, 0.97, 98)
_RESAMPLES = 300


@dataclass(frozen=True)
class Forecast:
    """Gains at FACTORS (relative to the original), and the knee as a left-over part of the busy time."""

    kind: str
    gains: Floats
    intervals: Floats
    knee: float
    knee_interval: tuple[float, float]
    least: float
    least_interval: tuple[float, float]
    slope: float


def fit(factors: Floats, times: Floats, weights: Floats) -> tuple[float, float, float, float]:
    """(t_min, slope, knee, weighted squared residual) of the best broken line."""
    total = weights.sum()
    best = (float((weights * times).sum() / total), 0.0, 0.0, np.inf)
    rises = np.maximum(0.0, factors[None, :] - _KNEES[:, None])
    mean_x = rises @ weights / total
    mean_y = float(times @ weights / total)
    spread = ((rises - mean_x[:, None]) ** 2) @ weights
    slopes = np.maximum(
        0.0, ((rises - mean_x[:, None]) * (times - mean_y)) @ weights / np.maximum(spread, 1e-30)
    )
    floors = mean_y - slopes * mean_x
    residuals = ((times - floors[:, None] - slopes[:, None] * rises) ** 2) @ weights
    # The first of nearly equal knees: a straight line has no knee.
    i = int(np.flatnonzero(residuals <= residuals.min() * 1.02 + 1e-12)[0])
    if residuals[i] < best[3]:
        best = (float(floors[i]), float(slopes[i]), float(_KNEES[i]), float(residuals[i]))
    return best


def _curve(
    rounds: Sequence[Mapping[float, float]], base: float
) -> tuple[Floats, tuple[float, float, float, float]]:
    """Gains at FACTORS and the fit, from rounds of {factor: time}."""
    known = sorted({factor for one in rounds for factor in one})
    found = {factor: [one[factor] for one in rounds if factor in one] for factor in known}
    x = np.array(known)
    # The mean of the faster half: a run is only ever disturbed to be longer.
    y = np.array([_location(found[factor]) for factor in known])
    weights = np.array([len(found[factor]) for factor in known], dtype=np.float64)
    line = fit(x, y, weights)
    floor, slope, knee, _ = line
    full = floor + slope * max(0.0, 1.0 - knee)
    modelled = np.array([(full - floor - slope * max(0.0, f - knee)) / base for f in FACTORS])
    return modelled, line


def _location(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = ordered[: max(1, (len(ordered) + 1) // 2)]
    return float(np.mean(half))


def forecast(rounds: Sequence[Mapping[float, float]], base: float, seed: int) -> Forecast:
    """The forecast of a study.

    Args:
        rounds: for each round the system's time at each factor, FACTORS and refinements.
        base: the original's time, in the same unit.
        seed: of the bootstrap.
    """
    random = np.random.default_rng(seed)
    gains, (floor, slope, knee, _) = _curve(rounds, base)
    samples = []
    lines = []
    for _ in range(_RESAMPLES):
        drawn = [rounds[i] for i in random.integers(0, len(rounds), len(rounds))]
        if not {0.0, 1.0} <= {factor for one in drawn for factor in one}:
            continue
        one, line = _curve(drawn, base)
        samples.append(one)
        lines.append(line)
    matrix = np.array(samples)
    low, high = np.quantile(matrix, [0.025, 0.975], axis=0)
    # Few rounds: the bootstrap's spread is too small by about sqrt(n / (n - 1)), and never below the clock's.
    widen = np.sqrt(len(rounds) / max(1, len(rounds) - 1))
    low = gains - np.maximum((gains - low) * widen, 0.003 * (np.array(FACTORS) < 1))
    high = gains + np.maximum((high - gains) * widen, 0.003 * (np.array(FACTORS) < 1))
    knees = np.quantile([line[2] for line in lines], [0.025, 0.975])
    floors = np.quantile([line[0] for line in lines], [0.025, 0.975])
    largest = float(gains[-1])
    if largest < SMALLEST_GAIN or low[-1] <= 0.0:
        kind = "none"
    elif knee <= NEAR_END:
        kind = "total"
    else:
        kind = "limited"
    return Forecast(
        kind=kind,
        gains=gains,
        intervals=np.stack([low, high], axis=1),
        knee=knee,
        knee_interval=(float(knees[0]), float(knees[1])),
        least=floor,
        least_interval=(float(floors[0]), float(floors[1])),
        slope=slope,
    )


def refinements(rounds: Sequence[Mapping[float, float]], base: float) -> tuple[float, ...]:
    """Factors around the knee that are worth measuring too; none where there is no knee."""
    gains, (_, _, knee, _) = _curve(rounds, base)
    if gains[-1] < SMALLEST_GAIN or not NEAR_END < knee < 1 - NEAR_END:
        return ()
    return tuple(
        sorted({round(min(1.0, max(0.0, knee + d)), 2) for d in (-0.07, -0.03, 0.03, 0.07)} - set(FACTORS))
    )


def sentence(result: Any, name: str) -> str:
    """What a study found, in one sentence.

    Args:
        result: the forecast.
        name: the component.
    """
    most = f"{result.gains[-1]:.1%}"
    if result.kind == "none":
        return f"making `{name}` faster buys nothing: the system's time stays where it is"
    if result.kind == "total":
        return f"every part by which `{name}` gets faster pays; without its work the system is {most} faster"
    knee = 1 - result.knee
    return (
        f"making `{name}` up to {knee:.0%} faster pays in proportion ({most} of the system's time); "
        f"beyond that nothing, since another part takes over"
    )
