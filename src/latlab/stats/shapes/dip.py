"""Hartigan's dip statistic and its calibration against the uniform distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# Quantiles of sqrt(n) * dip for n uniform values, from 20,000 samples each (5,000 for the two largest n; seed
# 20241121; `python tools/dip_table.py` prints them again). The uniform is the least favourable unimodal
# distribution that Hartigan & Hartigan (1985) calibrate against: every other one tried rejects less often.
PROBABILITIES = np.array([0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9995])
SIZES = np.array([4, 5, 6, 8, 10, 15, 20, 30, 50, 100, 200, 500, 1000, 3000, 8000])
QUANTILES: Floats = np.array(
    [
        [
            0.2500,
            0.2500,
            0.2500,
            0.2500,
            0.2500,
            0.2909,
            0.3761,
            0.4157,
            0.4485,
            0.4637,
            0.4740,
            0.4877,
            0.4913,
        ],
        [
            0.2236,
            0.2236,
            0.2236,
            0.2236,
            0.2718,
            0.3435,
            0.3955,
            0.4159,
            0.4330,
            0.4393,
            0.4425,
            0.4462,
            0.4467,
        ],
        [
            0.2041,
            0.2041,
            0.2041,
            0.2400,
            0.3020,
            0.3571,
            0.3908,
            0.4041,
            0.4400,
            0.4714,
            0.4989,
            0.5414,
            0.5556,
        ],
        [
            0.1768,
            0.2092,
            0.2325,
            0.2725,
            0.3142,
            0.3475,
            0.4018,
            0.4352,
            0.4690,
            0.4873,
            0.5039,
            0.5514,
            0.5797,
        ],
        [
            0.1933,
            0.2270,
            0.2466,
            0.2784,
            0.3096,
            0.3614,
            0.4130,
            0.4420,
            0.4778,
            0.5056,
            0.5314,
            0.5758,
            0.5964,
        ],
        [
            0.2125,
            0.2367,
            0.2490,
            0.2789,
            0.3243,
            0.3716,
            0.4257,
            0.4587,
            0.4964,
            0.5252,
            0.5508,
            0.6025,
            0.6156,
        ],
        [
            0.2121,
            0.2348,
            0.2532,
            0.2866,
            0.3280,
            0.3807,
            0.4327,
            0.4673,
            0.5076,
            0.5367,
            0.5607,
            0.6149,
            0.6475,
        ],
        [
            0.2165,
            0.2440,
            0.2595,
            0.2924,
            0.3372,
            0.3904,
            0.4459,
            0.4814,
            0.5243,
            0.5522,
            0.5760,
            0.6451,
            0.6808,
        ],
        [
            0.2224,
            0.2500,
            0.2662,
            0.3005,
            0.3458,
            0.4016,
            0.4613,
            0.4969,
            0.5423,
            0.5733,
            0.6048,
            0.6690,
            0.7009,
        ],
        [
            0.2264,
            0.2560,
            0.2748,
            0.3087,
            0.3549,
            0.4111,
            0.4716,
            0.5126,
            0.5589,
            0.5875,
            0.6241,
            0.6811,
            0.7063,
        ],
        [
            0.2336,
            0.2626,
            0.2807,
            0.3153,
            0.3617,
            0.4204,
            0.4816,
            0.5228,
            0.5657,
            0.5968,
            0.6247,
            0.7099,
            0.7620,
        ],
        [
            0.2371,
            0.2661,
            0.2839,
            0.3195,
            0.3681,
            0.4254,
            0.4884,
            0.5293,
            0.5796,
            0.6152,
            0.6481,
            0.7178,
            0.7593,
        ],
        [
            0.2405,
            0.2692,
            0.2874,
            0.3233,
            0.3723,
            0.4309,
            0.4946,
            0.5349,
            0.5867,
            0.6239,
            0.6501,
            0.7195,
            0.7560,
        ],
        [
            0.2404,
            0.2728,
            0.2900,
            0.3267,
            0.3743,
            0.4320,
            0.4957,
            0.5403,
            0.5920,
            0.6262,
            0.6542,
            0.7119,
            0.7607,
        ],
        [
            0.2438,
            0.2719,
            0.2917,
            0.3273,
            0.3749,
            0.4353,
            0.5005,
            0.5412,
            0.5834,
            0.6156,
            0.6411,
            0.6811,
            0.7110,
        ],
    ]
)


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
