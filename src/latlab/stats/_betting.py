"""A confidence sequence for the centre of conditionally symmetric differences, by betting on their signs.

Let D be a difference whose sign was drawn by a fair coin (the random order of the two sides of a block) and
psi any odd function with values in [-1, 1]. Then E[psi(D - theta) | past] = 0 for the true shift theta,
whatever the tails, the drift or the autocorrelation of the machine, so that the capital of a bettor,

    K+(theta) = sum_k w_k prod_i (1 + lambda_k psi_i(D_i - theta)),    K- with -lambda_k,

is a nonnegative martingale, and by Ville's inequality it ever reaches 2/alpha with probability at most
alpha/2: Ramdas, Ruf, Larsson and Koolen, "Admissible anytime-valid sequential inference must rely on
nonnegative martingales" (2020), section on symmetric distributions; Waudby-Smith and Ramdas, "Estimating
means of bounded random variables by betting", JRSS B 86 (2024), for the capital process and its
inversion. psi is Huber's clipped line, its scale taken from *earlier* differences alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

__all__ = ["capital", "centre", "confidence_sequence", "scales"]

Floats = npt.NDArray[np.float64]

# Stakes and their prior weights. A third of the weight lies on the boldest, which wins where every sign
# agrees: 7 blocks then suffice at alpha = 0.05; the timid ones find effects of a twentieth of the noise.
STAKES = np.array([0.015, 0.03, 0.06, 0.12, 0.25, 0.45, 0.7, 0.98])
LOG_WEIGHTS = np.log(np.array([0.07, 0.07, 0.08, 0.1, 0.1, 0.12, 0.13, 0.33]))
# Huber's line is clipped at two robust standard deviations: 99 % as efficient as the mean under normal
# noise, and an outlier counts no more than a difference of 2 sigma.
CLIP = 2.0
SIGMA_PER_MAD = 1.4826
# So many differences are judged by their sign alone, before there is a scale.
SIGNS_ONLY = 4


def scales(differences: Floats) -> Floats:
    """The clipping point of each difference, from those before it (0: judge by sign)."""
    out = np.zeros(len(differences))
    for i in range(SIGNS_ONLY, len(differences)):
        # The scale settles; beyond some tens it is renewed seldom, which keeps this linear.
        if i > 64 and i % 16:
            out[i] = out[i - 1]
            continue
        past = differences[:i]
        out[i] = CLIP * SIGMA_PER_MAD * float(np.median(np.abs(past - np.median(past))))
    return out


def _scores(differences: Floats, clip: Floats, theta: float) -> Floats:
    x = differences - theta
    line = np.divide(x, clip, out=np.sign(x), where=clip > 0)
    return np.clip(line, -1.0, 1.0)


def capital(differences: Floats, clip: Floats, theta: float, direction: int) -> float:
    """The logarithm of the capital of who bets that the centre lies above (+1) or below (-1) theta."""
    scores = direction * _scores(differences, clip, theta)
    logs = LOG_WEIGHTS + np.log1p(np.multiply.outer(STAKES, scores)).sum(axis=1)
    top = logs.max()
    return float(top + np.log(np.exp(logs - top).sum()))


def _bisect(above: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds at `low` and not at `high` changes."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        if above(middle):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def centre(differences: Floats, clip: Floats) -> float:
    """The shift at which the scores balance: the estimate that belongs to the confidence sequence."""
    low, high = float(differences.min()), float(differences.max())
    if low == high:
        return low
    return _bisect(lambda theta: float(_scores(differences, clip, theta).sum()) > 0, low, high)


def confidence_sequence(differences: Floats, clip: Floats, alpha: float) -> tuple[float | None, float | None]:
    """The shifts that no bettor has refuted, valid at every stopping time at once; None for an open end."""
    if len(differences) == 0:
        return None, None
    threshold = float(np.log(2.0 / alpha))
    span = float(np.ptp(differences)) + float(clip.max()) + 1e-12
    bottom, top = float(differences.min()) - span, float(differences.max()) + span
    # Each factor falls with theta, so the capital does, and one bisection finds the only crossing.
    lower = upper = None
    if capital(differences, clip, bottom, 1) >= threshold:
        lower = _bisect(lambda theta: capital(differences, clip, theta, 1) >= threshold, bottom, top)
    if capital(differences, clip, top, -1) >= threshold:
        upper = -_bisect(lambda theta: capital(differences, clip, -theta, -1) >= threshold, -top, -bottom)
    return lower, upper
