"""Many comparisons at once: adjusted p-values that control the false-discovery rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from latlab.stats.distributions import beta_quantile

__all__ = ["benjamini_hochberg", "proportion_bounds"]


def benjamini_hochberg(
    p_values: Sequence[float] | npt.NDArray[np.float64], *, dependent: bool = False
) -> npt.NDArray[np.float64]:
    """Adjusted p-values: rejecting those up to q keeps the expected share of false rejections below q.

    Benjamini and Hochberg, JRSS B 57 (1995), for independent or positively dependent tests; with `dependent`
    the bound of Benjamini and Yekutieli, Annals of Statistics 29 (2001), for any dependence.

    Args:
        p_values: shape (n,).
        dependent: whether nothing is known of how the tests depend on one another.

    Raises:
        ValueError: a p-value lies outside of 0 to 1.
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values must be between 0 and 1")
    count = len(p)
    if count == 0:
        return p
    order = np.argsort(p)
    factor = float(np.sum(1 / np.arange(1, count + 1))) if dependent else 1.0
    scaled = p[order] * factor * count / np.arange(1, count + 1)
    out = np.empty(count)
    out[order] = np.minimum(1.0, np.minimum.accumulate(scaled[::-1])[::-1])
    return out


def proportion_bounds(successes: int, trials: int, *, level: float = 0.95) -> tuple[float, float]:
    """One-sided lower and upper bounds of a proportion, each at `level`.

    Clopper and Pearson, Biometrika 26 (1934): exact, from the beta distribution.

    Raises:
        ValueError: the counts make no sense.
    """
    if not 0 <= successes <= trials or trials == 0:
        raise ValueError(f"{successes} of {trials} is not a proportion")
    low = 0.0 if successes == 0 else beta_quantile(successes, trials - successes + 1, 1 - level)
    high = 1.0 if successes == trials else beta_quantile(successes + 1, trials - successes, level)
    return low, high
