"""Quantiles and tails of the normal, Student's, the beta and the binomial distribution, of single numbers.

They stand here so that a core install does without scipy (140 MB); the tests hold them against scipy's.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

__all__ = ["beta_quantile", "binomial_tail", "normal_cdf", "normal_quantile", "student_quantile"]

_NORMAL = NormalDist()
_NEARLY_NORMAL = 1e7  # degrees of freedom
_TINY = 1e-300
_MOST_TERMS = 100_000


def normal_cdf(x: float) -> float:
    """The probability that a standard normal value is at most x; exact in the lower tail, too."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def normal_quantile(probability: float) -> float:
    """The value that a standard normal one is at most with this probability; ±inf for 1 and 0."""
    if probability <= 0 or probability >= 1:
        return math.copysign(math.inf, probability - 0.5)
    return _NORMAL.inv_cdf(probability)


@lru_cache(maxsize=4096)
def student_quantile(freedom: float, probability: float) -> float:
    """The value that Student's t is at most with this probability.

    By the beta distribution (DLMF 8.17; Abramowitz and Stegun 26.7.1).

    Args:
        freedom: degrees of freedom, above 0; infinite is the normal distribution.
        probability: in [0, 1].
    """
    if freedom >= _NEARLY_NORMAL:
        return normal_quantile(probability)
    if probability == 0.5:
        return 0.0
    tail = min(probability, 1 - probability)
    if tail <= 0:
        return math.copysign(math.inf, probability - 0.5)
    # x = freedom / (freedom + t²); near the middle 1 - x is what is small, and what is asked for.
    above = beta_quantile(0.5, freedom / 2, 1 - 2 * tail) if tail > 0.25 else None
    if above is None:
        x = beta_quantile(freedom / 2, 0.5, 2 * tail)
        t = math.sqrt(freedom * (1 - x) / x) if x > 0 else math.inf
    else:
        t = math.sqrt(freedom * above / (1 - above))
    return math.copysign(t, probability - 0.5)


@lru_cache(maxsize=4096)
def beta_quantile(a: float, b: float, probability: float) -> float:
    """The value that a beta distribution's is at most with this probability, by bisection of its log odds.

    Args:
        a: shape, above 0.
        b: shape, above 0.
        probability: in [0, 1].
    """
    if probability <= 0 or probability >= 1:
        return min(1.0, max(0.0, probability))
    low, high = -700.0, 700.0
    while high - low > 1e-13 * max(1.0, abs(low)):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _beta_cdf(a, b, 1 / (1 + math.exp(-middle)), 1 / (1 + math.exp(middle))) < probability:
            low = middle
        else:
            high = middle
    return 1 / (1 + math.exp(-(low + high) / 2))


def binomial_tail(at_least: int, trials: int, probability: float) -> float:
    """The probability of at least this many successes."""
    if at_least <= 0:
        return 1.0
    if at_least > trials or probability <= 0:
        return 0.0
    return (
        1.0 if probability >= 1 else _beta_cdf(at_least, trials - at_least + 1, probability, 1 - probability)
    )


def _beta_cdf(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function at x, of which `rest` is 1 - x: by its continued fraction
    (DLMF 8.17.22), evaluated by Lentz's method, on the side where that converges fast.
    """
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_cdf_lower(b, a, rest, x)
    return _beta_cdf_lower(a, b, x, rest)


def _beta_cdf_lower(a: float, b: float, x: float, rest: float) -> float:
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    d = 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _TINY else _TINY)
    c, fraction = 1.0, d
    for m in range(1, _MOST_TERMS):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > _TINY else _TINY)
            c = 1 + numerator / c
            c = c if abs(c) > _TINY else _TINY
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(front) * fraction / a
