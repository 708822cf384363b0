"""A period in the messages: every k-th one is slow, or one every so many ns."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from latlab.model.messaging.results import SlowPeriod

Integers = npt.NDArray[np.int64]
_FEWEST = 8  # slow messages, or a chance agreement could look like a period
_LEVEL = 1e-6  # of all that is tried together
_MOST_CHANCE = 0.8  # of memoryless slow messages' distances, those that are multiples of their median
_HITS = 0.9  # of the distances that have to be whole multiples of the period


def find_period(numbers: Integers, latency: Integers, due_ns: Integers) -> SlowPeriod | None:
    """The period at which messages are slow; None where none is sure.

    Slow is above a level between the median and the tail; several levels are tried, the highest first, since
    rare slow messages may stand among frequent ones that are less slow. Of slow messages in a row the first
    counts: the others waited behind it.

    Args:
        numbers: of the messages, rising; shape (n,).
        latency: ns, from the intended time where there is one.
        due_ns: when each was due, or sent.
    """
    if latency.size < 10 * _FEWEST:
        return None
    ordered = np.sort(latency)
    middle = float(ordered[(latency.size - 1) // 2])
    tried = set()
    for q in (0.9999, 0.999, 0.995, 0.98, 0.95, 0.85, 0.7):
        high = float(ordered[min(latency.size - 1, math.ceil(q * latency.size))])
        if high < 1.5 * max(middle, 1.0):
            continue
        for level in ((middle + high) / 2, (max(middle, 1.0) * high) ** 0.5):
            if level in tried:
                continue
            tried.add(level)
            found = _of_level(numbers, latency, due_ns, level)
            if found is not None:
                return found
    return None


def _of_level(numbers: Integers, latency: Integers, due_ns: Integers, level: float) -> SlowPeriod | None:
    late = np.flatnonzero(latency > level)
    # More than half of all are slow: the rest would be the exception.
    if late.size < _FEWEST or late.size > latency.size // 2:
        return None
    starts = late[np.flatnonzero(np.diff(late, prepend=-2) > 1)]
    if starts.size < _FEWEST:
        return None
    usual = float(np.median(latency[starts])) - float(np.median(latency))
    apart = np.diff(numbers[starts])
    every = int(np.median(apart))
    if every >= 2 and _sure(
        apart.astype(np.float64), float(every), 0.0 if every < 50 else 1.0, discrete=True
    ):
        time_ns = int(np.median(np.diff(due_ns[starts])))
        return SlowPeriod(every, time_ns, usual, int(starts.size))
    times = np.diff(due_ns[starts]).astype(np.float64)
    period = float(np.median(times))
    if period > 0 and _sure(times, period, 0.02 * period, discrete=False):
        return SlowPeriod(None, round(period), usual, int(starts.size))
    return None


def _sure(apart: npt.NDArray[np.float64], period: float, tolerance: float, *, discrete: bool) -> bool:
    """Whether so many distances are whole multiples of the period as chance would not bring about."""
    multiple = np.rint(apart / period)
    off = np.abs(apart - multiple * period)
    fits = (multiple >= 1) & (off <= tolerance * multiple)
    hits, count = int(fits.sum()), int(apart.size)
    # One parameter, the period, was fitted to the distances: one of them is spent.
    chance = min(1.0, (2 * tolerance + 1) / period if discrete else 2 * tolerance / period)
    # A message's number that is at a memoryless distance is at the median rather often when that is small.
    if discrete and period < 10:
        chance = min(_MOST_CHANCE, 2.5 * chance)
    if hits < _HITS * count or chance >= 1.0:
        return False
    tail = sum(
        math.exp(
            math.lgamma(count) - math.lgamma(k + 1) - math.lgamma(count - k)
            + k * math.log(chance) + (count - 1 - k) * math.log1p(-chance)
        )
        for k in range(max(0, hits - 1), min(count - 1, hits + 200) + 1)
        if k <= count - 1
    )  # fmt: skip
    return tail < _LEVEL
