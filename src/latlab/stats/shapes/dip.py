"""Hartigan's dip statistic and its calibration against the uniform distribution."""

from __future__ import annotations

from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Quantiles of sqrt(n) * dip for n uniform values, from 20,000 samples each (5,000 for the two largest n; seed
# 20241121; `python tools/dip_table.py` prints the file again). The uniform is the least favourable unimodal
# distribution that Hartigan & Hartigan (1985) calibrate against: every other one tried rejects less often.
with (resources.files("latlab.stats.shapes") / "dip.csv").open(encoding="utf-8") as _file:
    PROBABILITIES: Floats = np.array(_file.readline().split(",")[1:], np.float64)
    _TABLE: Floats = np.loadtxt(_file, delimiter=",")
SIZES, QUANTILES = _TABLE[:, 0].astype(int), _TABLE[:, 1:]


def dip_statistic(values: npt.ArrayLike) -> float:
    """The dip: the largest distance between the empirical distribution and the unimodal one nearest to it.

    Args:
        values: one-dimensional, in any order. Ties count as one step of the distribution.

    Returns:
        Between 1/(2n) and 1/4; 0 for fewer than two distinct values.

    Source: J. A. Hartigan and P. M. Hartigan, The Dip Test of Unimodality, Annals of Statistics 13 (1985):
    shrink the modal interval between the greatest convex minorant and the least concave majorant until their
    distance is not larger than the misfit outside of it.
    """
    import diptest

    x = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if x.size < 2 or x[0] == x[-1]:
        return 0.0
    # The library gives 0 where the distribution is nearest to unimodal: half a step is the least there is.
    return max(float(diptest.dipstat(x, sort_x=False)), 0.5 / x.size)


def _scaled_quantiles(count: int) -> Floats:
    """The quantiles of sqrt(n) * dip at `count` uniform values; linear in 1/sqrt(n) between tabled sizes."""
    at = 1.0 / np.sqrt(np.clip(count, SIZES[0], SIZES[-1]))
    grid = 1.0 / np.sqrt(SIZES[::-1])
    return np.array([np.interp(at, grid, column[::-1]) for column in QUANTILES.T])


def dip_p_value(dip: float, count: int) -> float:
    """How likely `count` uniform values have at least this dip; 0.0005 stands for "that or less".

    Args:
        dip: from `dip_statistic`.
        count: how many values it was computed from.
    """
    if count < int(SIZES[0]):
        return 1.0
    scaled = dip * np.sqrt(count)
    quantiles: Any = _scaled_quantiles(count)
    return float(1.0 - np.interp(scaled, quantiles, PROBABILITIES, left=0.0))


def critical_dip(alpha: float, count: int) -> float:
    """The dip that `count` uniform values reach with probability `alpha`."""
    return float(np.interp(1.0 - alpha, PROBABILITIES, _scaled_quantiles(count)) / np.sqrt(count))
