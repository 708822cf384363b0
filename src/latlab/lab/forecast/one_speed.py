"""The runs of a forecast at one speed of the machine.

A host's other machines share cores and the last-level cache with this one: neither shows as stolen time,
and a pipeline at full load follows both. How long known work took before and after each run says what it
met.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

import numpy as np

from latlab.lab.forecast.stage_runs import Fast, Paced
from latlab.model.evidence.forecast import ForecastWarning
from latlab.model.evidence.said import said
from latlab.stats.experiments.covariates import at_one_condition
from latlab.system.core_speed import CacheSpeed, CoreSpeed

__all__ = ["MachineSpeed", "at_speed", "at_usual_speed", "explained_by_speed", "usual_speed", "varied"]


class MachineSpeed:
    """Looks at how long work in a core and a read from the cache take: some 20 ms each time."""

    def __init__(self) -> None:
        self.core = CoreSpeed(sorted(os.sched_getaffinity(0)))
        self._cache = CacheSpeed()

    def look(self) -> tuple[float, float]:
        """The logarithms of both."""
        return float(np.log(self.core.look())), float(np.log(self._cache.look()))

    def around(self, before: tuple[float, float]) -> tuple[float, float]:
        """The mean of a look before a run and of one now, after it."""
        after = self.look()
        return (before[0] + after[0]) / 2, (before[1] + after[1]) / 2


def usual_speed(runs: Sequence[Paced | Fast]) -> tuple[float, ...]:
    """The median of what was seen of the machine's speed around the runs; empty where nothing was."""
    seen = np.array([run.speed for run in runs if run.speed])
    return tuple(np.median(seen, axis=0).tolist()) if len(seen) else ()


def at_speed(
    values: Sequence[float], runs: Sequence[Paced | Fast], speed: tuple[float, ...]
) -> tuple[list[float], float]:
    """What the runs of one point would have given at one speed of the machine, as far as it explains them.

    Args:
        values: of each run a rate or a time.
        speed: from `usual_speed`; empty leaves the values as they are.

    Returns:
        (values, the share of their variance that the machine's speed explains).
    """
    if not speed or not all(run.speed for run in runs):
        return list(values), 0.0
    logs = np.log(np.maximum(values, 1e-9))
    moved, explained = at_one_condition(logs.tolist(), [run.speed for run in runs], speed)
    return np.exp(moved).tolist() if explained else list(values), explained


def at_usual_speed(
    capacity: Mapping[float | None, Sequence[Fast]],
) -> tuple[dict[float | None, list[Fast]], float]:
    """The runs at full load as at the machine's usual speed, and what that explains of the flat stub's."""
    usual = usual_speed([run for runs in capacity.values() for run in runs])
    found: dict[float | None, list[Fast]] = {}
    shares: dict[float | None, float] = {}
    for key, runs in capacity.items():
        rates, shares[key] = at_speed([run.rate_hz for run in runs], runs, usual)
        found[key] = [dataclasses.replace(run, rate_hz=rate) for run, rate in zip(runs, rates, strict=True)]
    return found, shares.get(1.0, 0.0)


def explained_by_speed(explained: float) -> str:
    """The note on runs that were moved to one speed."""
    return said(ForecastWarning.ONE_SPEED, explained=explained)


def varied(slow: float, times: float, looks: int) -> str:
    """The warning on CPUs that changed their speed, by what CoreSpeed saw."""
    return said(ForecastWarning.SPEED_VARIED, slow=max(0.01, slow), times=times, looks=looks)
