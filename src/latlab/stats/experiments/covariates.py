"""Values of runs as they would be under one condition, where the conditions of the runs explain them.

An ordinary least-squares fit of the values on what was measured beside them (the analysis of covariance:
Fisher, "Statistical Methods for Research Workers", 4th ed. 1932, ch. 8). It is used only where it predicts
runs that it has not seen: the residuals of leaving each run out (PRESS: Allen, Technometrics 16, 1974) must
be clearly less than the deviations from the mean, else the values stay as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["at_one_condition"]

_FEWEST = 8  # runs for a fit of up to two covariates
_EXPLAINS = 0.7  # of the squared deviations, at most, may be left when each run is left out


def at_one_condition(
    values: ArrayLike, covariates: ArrayLike, reference: ArrayLike
) -> tuple[NDArray[np.float64], float]:
    """The values moved to a reference condition, and the share of their variance that is explained.

    Args:
        values: one a run; of rates and times their logarithms.
        covariates: shape (runs, covariates), in the same manner.
        reference: shape (covariates,): where the values are wanted.

    Returns:
        (values, share): unchanged and 0 where there are too few runs, or the covariates predict nothing.
    """
    y, x = np.asarray(values, float), np.asarray(covariates, float)
    if len(y) < _FEWEST or x.ndim != 2 or not np.isfinite(x).all() or not np.ptp(y):
        return y, 0.0
    varies = np.ptp(x, axis=0) > 1e-9
    if not varies.any():
        return y, 0.0
    x, at = x[:, varies], np.asarray(reference, float)[varies]
    design = np.column_stack([np.ones(len(y)), x - x.mean(axis=0)])
    inverse = np.linalg.pinv(design)
    slopes = inverse @ y
    leverage = np.minimum(np.einsum("ij,ji->i", design, inverse), 1 - 1e-9)
    left_out = (y - design @ slopes) / (1 - leverage)
    alone = (y - y.mean()) / (1 - 1 / len(y))  # the mean of all others, likewise
    share = 1 - float(left_out @ left_out) / float(alone @ alone)
    if share < 1 - _EXPLAINS:
        return y, 0.0
    moved: NDArray[np.float64] = y + (at - x) @ slopes[1:]
    return moved, share
