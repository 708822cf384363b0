"""Where a measurement's variance comes from, and how dependent its values are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = [
    "Components",
    "autocorrelation",
    "best_iterations",
    "components",
    "effective_size",
    "midmean",
    "midmean_error",
    "one_way",
]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Components:
    """Standard deviations of a nested design, as shares of the typical value.

    Attributes:
        between: of processes (or builds), beyond what their iterations explain.
        within: of iterations.
        effective_share: effective over actual number of iterations.
    """

    between: float
    within: float
    effective_share: float


def midmean(values: npt.ArrayLike) -> float:
    """The mean of the middle half: the typical value of one process.

    It bears a quarter of outliers on either side, and where the clock's step shows in the values it resolves
    finer than their median. Tukey, Exploratory Data Analysis (1977), section 19.

    Raises:
        ValueError: there is no value.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    if len(ordered) == 0:
        raise ValueError("no value")
    quarter = len(ordered) // 4
    return float(ordered[quarter : len(ordered) - quarter].mean())


def midmean_error(values: npt.ArrayLike) -> float:
    """Standard error of the midmean of independent values; 0 for a single one.

    From the winsorised deviation: Tukey and McLaughlin, Sankhya A 25 (1963); Yuen, Biometrika 61 (1974).

    Raises:
        ValueError: there is no value.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = len(ordered)
    if count == 0:
        raise ValueError("no value")
    if count == 1:
        return 0.0
    quarter = count // 4
    ordered[:quarter] = ordered[quarter]
    ordered[count - quarter :] = ordered[count - quarter - 1]
    return float(ordered.std(ddof=1)) / ((1 - 2 * quarter / count) * math.sqrt(count))


def autocorrelation(values: npt.ArrayLike, lags: int | None = None) -> Floats:
    """Autocorrelation at lags 0, 1, …; shape (lags + 1,). A constant series has none beyond lag 0."""
    x = np.asarray(values, dtype=np.float64)
    count = len(x)
    lags = min(count - 1 if lags is None else lags, count - 1)
    if count == 0:
        return np.zeros(0)
    x = x - x.mean()
    size = 1 << (2 * count - 1).bit_length()
    spectrum = np.fft.rfft(x, size)
    covariance = np.fft.irfft(spectrum * np.conj(spectrum), size)[: lags + 1]
    if covariance[0] <= 0:
        return np.concatenate([[1.0], np.zeros(lags)])
    out: Floats = covariance / covariance[0]
    return out


def effective_size(values: npt.ArrayLike) -> float:
    """How many independent values carry as much about the mean as these dependent ones.

    N / (1 + 2 sum rho_k), summed over the initial monotone sequence of pairs: Geyer, "Practical Markov chain
    Monte Carlo", Statistical Science 7 (1992), section 3.3. Outliers are clipped at 5 deviations first, since
    a single one hides any correlation.
    """
    x = np.asarray(values, dtype=np.float64)
    count = len(x)
    if count < 4:
        return float(count)
    middle = float(np.median(x))
    spread = 1.4826 * float(np.median(np.abs(x - middle)))
    if spread > 0:
        x = np.clip(x, middle - 5 * spread, middle + 5 * spread)
    rho = autocorrelation(x)
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    total = float(np.minimum.accumulate(pairs[:stop]).sum())
    return float(min(count, max(1.0, count / max(2 * total - 1, 1e-9))))


def components(groups: Sequence[npt.ArrayLike]) -> Components:
    """Variance components of processes and their iterations, robustly, on the log scale.

    The processes' typical values vary by their own variance and that of a midmean of its *effective*
    iterations; what the second doesn't explain is the first (one-way random effects: Searle, Casella and
    McCulloch, Variance Components (1992), chapter 3; used for benchmarks by Kalibera and Jones, "Rigorous
    benchmarking in reasonable time", ISMM 2013).

    Args:
        groups: for each process its times, in the order measured, all above 0.

    Raises:
        ValueError: fewer than two processes, or one without a value.
    """
    logs = [np.log(np.asarray(group, dtype=np.float64)) for group in groups]
    if len(logs) < 2 or min(map(len, logs)) == 0:
        raise ValueError("variance components need two processes with values")
    centres = np.array([midmean(x) for x in logs])
    withins = [1.4826 * float(np.median(np.abs(x - np.median(x)))) for x in logs]
    within = math.sqrt(float(np.mean(np.square(withins))))
    sizes = np.array([effective_size(x) for x in logs])
    share = float((sizes / np.array([len(x) for x in logs])).mean())
    explained = float(np.mean(np.square(withins) / sizes)) * 1.2  # a midmean's variance over a mean's
    between = math.sqrt(max(0.0, float(centres.var(ddof=1)) - explained))
    return Components(between, within, share)


def one_way(values: npt.ArrayLike) -> tuple[float, float]:
    """Standard deviations (between groups, within a group) of groups of equal size.

    The moment estimator of one-way random effects: Searle, Casella and McCulloch, Variance Components (1992),
    section 3.5.

    Args:
        values: shape (groups, values of a group), both at least 2.

    Raises:
        ValueError: there are fewer.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 2 or min(x.shape) < 2:
        raise ValueError("variance components need two groups of two values")
    within = float(x.var(axis=1, ddof=1).mean())
    between = float(x.mean(axis=1).var(ddof=1)) - within / x.shape[1]
    return math.sqrt(max(0.0, between)), math.sqrt(within)


def best_iterations(parts: Components, process_s: float, iteration_s: float) -> int:
    """Iterations a process that make the most of the time, by what each level costs and varies.

    sqrt(cost of a process / cost of an iteration * variance within / variance between): Kalibera and Jones,
    ISMM 2013, section 6.
    """
    if parts.between <= 0:
        parts = Components(max(parts.within / 100, 1e-9), parts.within, parts.effective_share)
    within = parts.within**2 / max(parts.effective_share, 1e-3)
    ratio = process_s / max(iteration_s, 1e-12) * within / parts.between**2
    return max(1, round(math.sqrt(ratio)))
