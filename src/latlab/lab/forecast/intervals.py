"""Intervals over the runs of a forecast: the run is the replicate."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from latlab.lab.forecast.one_speed import at_speed
from latlab.lab.forecast.stage_runs import FEWEST, Paced
from latlab.model.diagnosis.answer import Interval
from latlab.stats.distributions import student_quantile
from latlab.stats.quantiles import nearest_rank

__all__ = ["mean_interval", "quantile_interval"]

_OUTSIDE = 0.05  # how often an interval may miss


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
