"""Hardware counters: what the last cache level was asked for, and missed, by chosen processes."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass

from latlab._core.system import HardwareCount
from latlab.errors import UnavailableError

__all__ = ["CacheCount", "CacheCounter"]


@dataclass(frozen=True, slots=True)
class CacheCount:
    """Reads in user mode that asked the last cache level, and those that it had to fetch from memory."""

    loads: int
    misses: int


class CacheCounter:
    """Counts from when it is made on, of processes and of all threads and children that they make later.

    Args:
        pids: of the processes.

    Raises:
        UnavailableError: this CPU has no such counters (most virtual machines), or they are not allowed.
    """

    def __init__(self, pids: Iterable[int]) -> None:
        try:
            self._counts = [
                (HardwareCount("LLC-loads", pid, True), HardwareCount("LLC-load-misses", pid, True))
                for pid in pids
            ]
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EPERM):
                raise UnavailableError(
                    "hardware counters are not allowed", remedy="set kernel.perf_event_paranoid to 2 or less"
                ) from None
            raise UnavailableError("this machine has no counter for its last cache level") from None

    def now(self) -> CacheCount:
        """So far, over all of the processes."""
        loads, misses = (sum(pair[side].now() for pair in self._counts) for side in (0, 1))
        return CacheCount(loads, misses)
