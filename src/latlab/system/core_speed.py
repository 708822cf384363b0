"""Whether the CPUs work at one speed: what another machine's thread on the same physical core costs.

A virtual CPU is often one of the two hardware threads of a core. When the host gives the other one to
somebody else, work that fills the core's width takes up to twice as long, and neither stolen time nor a clock
shows it: the only witness is work of a known size that takes longer than it did.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence

import numpy as np

from latlab._core import stubs as native

__all__ = ["CacheSpeed", "CoreSpeed"]

_ITERATIONS, _LOOPS = 20_000, 3  # of work: some 15 µs each; the least counts, since an interrupt is not meant
_SLOW = 1.15  # times the usual: well above what repeats, and well below a shared core's 1.5 to 1.8
_USUAL = 0.05  # quantile
_FEWEST = 20  # looks at a CPU that say something
_READS = 50_000
_LINE_BYTES = 64
_CACHED_BYTES = 6 << 20  # more than a core's own cache, less than the one that all share


class CoreSpeed:
    """Looks now and then at how long a piece of work takes on each CPU.

    Attributes:
        looks: of each CPU, in ns, in order.
    """

    def __init__(self, cpus: Sequence[int]) -> None:
        self.looks: dict[int, list[int]] = {cpu: [] for cpu in cpus}

    def look(self) -> float:
        """Some 50 µs on each CPU. The calling thread may run where it might before.

        Returns:
            The mean time of the work in ns over the CPUs that could be looked at; NaN where none could.
        """
        allowed = os.sched_getaffinity(0)
        now = []
        try:
            for cpu, took in self.looks.items():
                try:
                    os.sched_setaffinity(0, {cpu})
                except OSError:  # taken away meanwhile, or not ours to choose: it has a look less
                    continue
                took.append(min(native.gauge(_ITERATIONS, _LOOPS)))
                now.append(took[-1])
        finally:
            os.sched_setaffinity(0, allowed)
        return sum(now) / len(now) if now else math.nan

    def slow(self) -> tuple[float, float] | None:
        """The share of the looks at which work took longer, and how many times; None: too few looks."""
        slowness = [
            np.array(took) / np.quantile(took, _USUAL, method="inverted_cdf")
            for took in self.looks.values()
            if len(took) >= _FEWEST
        ]
        if not slowness:
            return None
        ratios = np.concatenate(slowness)
        slow = float(np.mean(ratios > _SLOW))
        return slow, float(np.median(ratios[ratios > _SLOW])) if slow else 1.0

    def varied(self) -> tuple[float, float, int] | None:
        """As `slow`, and of how many looks; None where the speed did not change, or too little was seen."""
        found = self.slow()
        looks = sum(len(took) for took in self.looks.values() if len(took) >= _FEWEST)
        if found is None or found[0] * looks < 2:  # one look may have met whatever it met
            return None
        return *found, looks


class CacheSpeed:
    """Reads in an order that no prefetcher guesses, from memory of a size.

    Args:
        size: in bytes.
        reads: in one look.
    """

    def __init__(self, size: int = _CACHED_BYTES, reads: int = _READS) -> None:
        lines = size // _LINE_BYTES
        self._lines = np.ones((lines, _LINE_BYTES // 8))  # written, so that each page is one of its own
        self._order = np.random.default_rng(1).integers(0, lines, reads)

    def look(self) -> float:
        """The time of one read in ns, the quickest of three times that all are read: some ms each."""
        times = []
        for _ in range(3):
            begin = time.perf_counter_ns()
            self._lines[self._order, 0].sum()
            times.append(time.perf_counter_ns() - begin)
        return min(times) / len(self._order)
