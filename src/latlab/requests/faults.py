"""What missing pages cost a running thread: how many there were, at the price of one on this machine.

The kernel tells when a page was missing and not how long it took to make it. A page that is read from a disk
blocks its thread, and is a wait; one that is only made is part of what a thread runs.
"""

from __future__ import annotations

import mmap
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

__all__ = ["Faults", "cost_of_a_fault_ns"]

_BYTES = 8 << 20
_TRIES = 5


@dataclass(frozen=True)
class Faults:
    """When pages were missing, by thread, and what one costs."""

    times: Mapping[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    cost_ns: float = 0.0

    def ns(self, tid: int, begin: int, ns: int) -> int:
        """Of a stretch in which a thread ran, what its missing pages took: by their usual price."""
        times = self.times.get(tid)
        if times is None:
            return 0
        low, high = np.searchsorted(times, [begin, begin + ns])
        return min(ns, int((high - low) * self.cost_ns))


def cost_of_a_fault_ns() -> float:
    """What a page costs that a program touches for the first time: the cheapest of a few tries."""
    best = float("inf")
    for _ in range(_TRIES):
        with mmap.mmap(-1, _BYTES) as memory:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            begin = time.perf_counter_ns()
            _touch(memory)
            taken = time.perf_counter_ns() - begin
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        if faults:
            best = min(best, taken / faults)
    return best if best < float("inf") else 0.0


def _touch(memory: mmap.mmap) -> None:
    np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
