"""Several humps over the iterations of a process: one typical time then describes none of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from latlab.model.bench import Sample
from latlab.stats.distributions import binomial_tail
from latlab.stats.shapes.humps import find_humps
from latlab.stats.variance import effective_size

__all__ = ["iteration_humps"]

Floats = npt.NDArray[np.float64]
ALPHA = 0.05  # of the test of one process
CERTAIN = 0.01  # chance of as many processes of one hump that their tests reject
FEWEST_VALUES = 25  # independent ones of a process, below which its test hardly ever finds two humps
MOST_PROCESSES = 40


def iteration_humps(samples: Sequence[Sample]) -> int | None:
    """Humps of the distribution over the iterations of a process; None where they are too few to tell.

    Each process is tested by itself, since processes differ by their levels as well: Hartigan's dip test of
    its iterations, thinned to as many as they are worth independent ones. So many processes must be found to
    have several humps as one in a hundred runs of a single hump would show.

    Args:
        samples: the processes of one side.
    """
    chosen = samples[:: max(1, math.ceil(len(samples) / MOST_PROCESSES))]
    tested = [values for values in map(_independent, chosen) if len(values) >= FEWEST_VALUES]
    if not tested:
        return None
    alpha = CERTAIN if len(tested) == 1 else ALPHA
    found = [len(find_humps(values, alpha=alpha).humps) for values in tested]
    several = [count for count in found if count > 1]
    if binomial_tail(len(several), len(tested), alpha) > CERTAIN:
        return 1
    return int(np.median(several))


def _independent(sample: Sample) -> Floats:
    """A process's iterations without the clock's steps and the likeness of neighbours."""
    times = sample.times_ns
    # A step of the clock is filled evenly, or each of them would be a hump of its own.
    step = sample.quantum_ns / max(1, sample.batch * sample.operations)
    filled = times + step * (np.random.default_rng(len(times)).random(len(times)) - 0.5)
    # By its ranks: a few outliers would hide how alike neighbours are.
    ranks = np.argsort(np.argsort(filled)).astype(np.float64)
    every = max(1, math.ceil(len(times) / effective_size(ranks)))
    thinned: Floats = filled[::every]
    return thinned
