"""Nanoseconds of each part of a request, and of several. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.model.requests import PartKind, RequestPart

__all__ = ["PREEMPTED", "Spent", "merged"]

Spent = dict[tuple[PartKind, str], float]

#: Of `Account.causes`: without a CPU in the middle of what a thread runs.
PREEMPTED = "preempted meanwhile"


def merged(spent: Sequence[Spent]) -> tuple[RequestPart, ...]:
    """The mean parts of several requests, the largest first."""
    if not spent:
        return ()
    total: Spent = {}
    for one in spent:
        for key, ns in one.items():
            total[key] = total.get(key, 0.0) + ns
    whole = sum(total.values()) or 1.0
    return tuple(
        RequestPart(kind, where, ns / len(spent), ns / whole)
        for (kind, where), ns in sorted(total.items(), key=lambda item: -item[1])
    )
