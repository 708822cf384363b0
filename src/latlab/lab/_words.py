"""Quantities in the sentences of a diagnosis."""

from __future__ import annotations

from latlab.model.answer import Interval

__all__ = ["interval_of", "time_of"]


def time_of(ns: float) -> str:
    """A time with three significant digits."""
    for limit, unit, scale in ((1e6, "µs", 1e3), (1e9, "ms", 1e6)):
        if ns < limit:
            return f"{ns / scale:,.3g} {unit}"
    return f"{ns / 1e9:,.3g} s"


def interval_of(value: Interval) -> str:
    """A time with its interval."""
    if value.low is None or value.high is None:
        return time_of(value.value)
    return f"{time_of(value.value)} [{time_of(value.low)}, {time_of(value.high)}]"
