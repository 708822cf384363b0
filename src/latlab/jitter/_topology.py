"""Core to core: how long a cache line takes between every pair of cores."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab._core import jitter as native
from latlab.errors import UnavailableError, UsageError

__all__ = ["CoreMatrix", "core_to_core"]


@dataclass(frozen=True)
class CoreMatrix:
    """One-way latencies.

    Attributes:
        median_ns: (n, n), symmetric, NaN on the diagonal and where a pair could not be measured.
        spread_ns: (n, n), the mean distance of the batches from their median.
    """

    cpus: tuple[int, ...]
    median_ns: np.ndarray[Any, Any]
    spread_ns: np.ndarray[Any, Any]

    def to_json(self) -> dict[str, Any]:
        """The document that ``latlab jitter --core-to-core --json`` prints."""
        rows = [[None if np.isnan(x) else float(x) for x in row] for row in self.median_ns]
        spread = [[None if np.isnan(x) else float(x) for x in row] for row in self.spread_ns]
        return {"schema": 1, "cpus": list(self.cpus), "median_ns": rows, "spread_ns": spread}


def core_to_core(
    cpus: Sequence[int], *, batches: int = 100, round_trips: int = 1000, limit_s: float = 2.0
) -> CoreMatrix:
    """Measure every pair of `cpus`.

    Raises:
        UsageError: fewer than two CPUs.
        UnavailableError: a CPU refused us.
    """
    if len(cpus) < 2:
        raise UsageError("a cache line needs two cores to travel", remedy="name at least two with --cpus")
    size = len(cpus)
    median, spread = np.full((size, size), np.nan), np.full((size, size), np.nan)
    place = {cpu: index for index, cpu in enumerate(cpus)}
    for pair in native.core_to_core(list(cpus), batches, round_trips, int(limit_s * 1e9)):
        if pair["error"]:
            raise UnavailableError(
                f"CPU {pair['from']} or {pair['to']} was refused ({os.strerror(pair['error'])})",
                remedy="name CPUs that are online and in our cpuset",
            )
        each = np.sort(pair["one_way_ns"])
        if len(each):
            i, k = place[pair["from"]], place[pair["to"]]
            middle = each[(len(each) - 1) // 2]
            median[i, k] = median[k, i] = middle
            spread[i, k] = spread[k, i] = np.abs(each - middle).mean()
    return CoreMatrix(tuple(cpus), median, spread)
