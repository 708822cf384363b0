"""Intervals over the runs of a forecast: the run is the replicate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from latlab.lab.forecast.one_speed import at_speed
from latlab.lab.forecast.stage_runs import FEWEST, Paced
from latlab.model.diagnosis.answer import ForecastPoint, Interval
from latlab.model.stubs import SpeedupForecast
from latlab.stats.distributions import student_quantile
from latlab.stats.quantiles import nearest_rank

__all__ = ["mean_interval", "on_the_curve", "pooled", "quantile_interval"]

_HALF_95 = 1.96  # standard errors, to either side of what is estimated
_OUTSIDE = 0.05  # how often an interval may miss
# The range of two or three normal values, in standard deviations: root mean square of two, mean of three.
_RANGE = {2: 2**0.5, 3: 1.693}


def mean_interval(values: Sequence[float]) -> Interval:
    """The geometric mean with Student's 95 % interval of the logarithms; below four runs their range.

    Runs are the replicates. (With two or three, Student's interval spans orders of magnitude and says less
    than what was seen.)
    """
    logs = np.log(np.maximum(values, 1e-9))
    mean = float(np.exp(logs.mean()))
    if len(values) < FEWEST:
        return Interval(mean, float(min(values)), float(max(values))) if len(values) > 1 else Interval(mean)
    half = float(student_quantile(len(values) - 1, 0.975) * np.std(logs, ddof=1) / len(values) ** 0.5)
    return Interval(mean, mean * math.exp(-half), mean * math.exp(half))


def quantile_interval(runs: Sequence[Paced], q: float, speed: tuple[float, ...] = ()) -> Interval | None:
    """A quantile of latency in a run: the median over the runs, halfway in logarithms between the middle two.

    The run is the replicate. Events that are pooled over runs give a tail to the one run that was disturbed;
    the question is what a run is like. The interval is between order statistics (of fewer than six runs, all
    of them): it makes no assumption on how runs spread (Conover, "Practical Nonparametric Statistics", 3rd
    ed. 1999, sec. 3.2).

    Args:
        speed: of the machine, at which they are wanted (see `at_speed`); empty: as they came.
    """
    traced = [run for run in runs if run.latency.size]
    own = sorted(at_speed([float(nearest_rank(run.latency, q)) for run in traced], traced, speed)[0])
    if not own:
        return None
    value = math.exp(float(np.median(np.log(np.maximum(own, 1.0)))))
    if len(own) == 1:
        return Interval(value)
    leave = 0
    while 2 * sum(math.comb(len(own), k) for k in range(leave + 2)) / 2 ** len(own) <= _OUTSIDE:
        leave += 1
    return Interval(value, own[leave], own[-1 - leave])


def pooled(points: Sequence[Interval | None], runs: Sequence[int]) -> list[Interval | None]:
    """Intervals of points that were run two or three times each, by how much all of them scatter.

    Two runs are alike by chance as often as not, and their range says little. The points are of one pipeline
    on one machine, so their relative scatter is one, and is estimated from all of them: Student's 95 %
    interval of the logarithms, with the degrees of freedom of all. It is never narrower than what was seen.
    Points of more runs, and those of one, stay as they are.

    Args:
        points: one measure of each point, with its range; None where there is none.
        runs: how often each was run.
    """
    ranges = [
        (number - 1, math.log(one.high / one.low) / _RANGE[number])
        for one, number in zip(points, runs, strict=True)
        if one is not None and number in _RANGE and one.low and one.high
    ]
    freedom = sum(number for number, _ in ranges)
    if len(ranges) < 2:
        return list(points)
    scatter = (sum(number * size**2 for number, size in ranges) / freedom) ** 0.5
    found: list[Interval | None] = []
    for one, number in zip(points, runs, strict=True):
        if one is None or number not in _RANGE or not one.low or not one.high:
            found.append(one)
            continue
        factor = math.exp(float(student_quantile(freedom, 0.975)) * scatter / number**0.5)
        found.append(Interval(one.value, min(one.low, one.value / factor), max(one.high, one.value * factor)))
    return found


def on_the_curve(
    points: Mapping[float | None, ForecastPoint], found: SpeedupForecast
) -> dict[float | None, ForecastPoint]:
    """The points with the throughput of the curve that the runs of all points were fitted by.

    A point of few runs is known to some 5 %, and a fifth of a stage's service often gains no more. Its
    interval holds what its own runs gave as well. The stub at 0 % stays as it was measured, and the others
    keep what the stub itself changes, which the curve is without: the null test holds one against the other.
    """
    base = points[None].capacity_hz
    if found.component_class == "none" or base is None:
        return dict(points)
    gains = {one.speedup: one for one in found.curve}
    error = (found.drift_interval[1] - found.drift_interval[0]) / 2 / _HALF_95
    certain = found.drift * max(0.0, 1 - (error / found.drift) ** 2) if found.drift else 0.0
    fitted = dict(points)
    for key, point in points.items():
        own, on_curve = point.capacity_hz, gains.get(key) if key else None
        if own is None or on_curve is None:
            continue
        stub = certain * (1 - on_curve.speedup)
        value, low, high = (
            base.value / max(1e-9, 1 - gain + stub) for gain in (on_curve.gain, *on_curve.interval)
        )
        rate = Interval(
            value, min(low, own.value, own.low or own.value), max(high, own.value, own.high or own.value)
        )
        fitted[key] = dataclasses.replace(point, capacity_hz=rate)
    return fitted
