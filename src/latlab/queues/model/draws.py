"""Service times, drawn beforehand: two models that differ in one stage get the same for all others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.queueing import ModelStage

__all__ = ["STEADY", "service_times"]

STEADY = 0.01  # coefficient of variation: below it all times are alike


def service_times(
    stage: ModelStage, count: int, rng: np.random.Generator, weight: float = 1.0
) -> NDArray[np.float64]:
    """Times in ns, with interruptions.

    Args:
        weight: events of the pipeline that a simulated one stands for.
    """
    variation = stage.variation / np.sqrt(weight)
    if variation < STEADY:
        times = np.ones(count)
    elif variation <= 1.0:
        shape = 1.0 / variation**2
        times = rng.gamma(shape, 1.0 / shape, count)
    else:
        spread = np.log1p(variation**2)
        times = rng.lognormal(-spread / 2, np.sqrt(spread), count)
    times *= max(stage.service_ns * weight, 1e-3)
    if stage.interrupted:
        often = rng.poisson(stage.interrupted * weight, count)
        hit = np.flatnonzero(often)
        times[hit] += rng.gamma(often[hit]) * stage.interruption_ns
    return times
