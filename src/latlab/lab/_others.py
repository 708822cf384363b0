"""Who else used the machine while something was observed: the processes that took the most CPU time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

__all__ = ["Other", "Others"]

_LEAST = 0.02  # CPUs: less is not worth a name


@dataclass(frozen=True, slots=True)
class Other:
    """A process that is none of ours.

    Attributes:
        cpus: CPUs' worth of time that it used.
    """

    name: str
    pid: int
    cpus: float


class Others:
    """Looks when it is made, and again at `used`."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._before = _times()

    def used(self, ours: Iterable[int]) -> tuple[Other, ...]:
        """Those that used CPU time since, the most first.

        Args:
            ours: processes that don't count; this one does not either.
        """
        seconds = max(time.monotonic() - self._began, 1e-9)
        ours = {*ours, os.getpid()}
        found = [
            Other(name, pid, (spent - self._before.get((pid, created), ("", 0.0))[1]) / seconds)
            for (pid, created), (name, spent) in _times().items()
            if pid not in ours
        ]
        return tuple(sorted((one for one in found if one.cpus >= _LEAST), key=lambda one: -one.cpus))


def _times() -> dict[tuple[int, float], tuple[str, float]]:
    """(name, CPU seconds) of each process, by its id and when it began: an id comes again."""
    found = {}
    for process in psutil.process_iter(["pid", "create_time", "name", "cpu_times"]):
        known = process.info
        times = known["cpu_times"]
        if times is not None:
            key = (int(known["pid"]), float(known["create_time"]))
            found[key] = (str(known["name"]), float(times.user + times.system))
    return found
