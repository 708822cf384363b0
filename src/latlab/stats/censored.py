"""Quantiles of durations of which some had not ended when it was looked at last.

The product-limit estimate: Kaplan and Meier, "Nonparametric Estimation from Incomplete Observations",
Journal of the American Statistical Association 53(282), 1958. Without open ones it is the nearest rank of
`latlab.stats.quantiles`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from latlab.stats.quantiles import quantiles

__all__ = ["censored_quantiles"]

_ROUNDING = 1e-12


def censored_quantiles(values: ArrayLike, still: ArrayLike, qs: Iterable[float]) -> list[tuple[int, bool]]:
    """Several quantiles, each with whether it is only known to be at least this.

    Args:
        values: durations, whole numbers; at least one.
        still: of each, whether it had not ended: it is at least that long.
        qs: from 0 to 1.
    """
    times, censored = np.asarray(values), np.asarray(still, bool)
    wanted = list(qs)
    if not censored.any():
        return [(int(value), False) for value in quantiles(times, wanted)]
    # At one instant what ends does so before what is still open.
    order = np.lexsort((censored, times))
    times, censored = times[order], censored[order]
    at_risk = len(times) - np.arange(len(times))
    survival = np.cumprod(np.where(censored, 1.0, 1.0 - 1.0 / at_risk))
    ended = np.flatnonzero(~censored)
    found = []
    for q in wanted:
        at = ended[survival[ended] <= 1.0 - q + _ROUNDING] if len(ended) else ended
        found.append((int(times[at[0]]), False) if len(at) else (int(times[-1]), True))
    return found
