"""Who else used the machine while something was observed: how much of it, and which processes the most."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass

import psutil

from latlab.model.evidence.pipeline import Disturbance
from latlab.model.evidence.said import said

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
    """Everything but this process and the children that end meanwhile.

    Looks when it is made, and again at `end`, which must come after the children were waited for: then the
    kernel tells what they used, from their first instruction to their last.

    Attributes:
        cpus: CPUs' worth of time that went to others, with what the hypervisor stole. The larger of two
            sums: of the processes that can be seen, and of what the machine was busy for less what is ours.
            The first misses processes that ended meanwhile, and those of other containers; the second counts
            ticks, and is off by some tenths of a CPU where threads wake and sleep between them.
        stolen: of it, what the hypervisor gave to other machines.
        seen: the first sum, which is exact as far as it goes.
        processes: those that used the most of it, the most first.
    """

    def __init__(self) -> None:
        self.cpus = self.stolen = self.seen = 0.0
        self.processes: tuple[Other, ...] = ()
        self._began = time.monotonic()
        self._busy_s, self._stolen_s = _machine()
        self._ours_s = _ours()
        self._before = _times()

    def end(self) -> None:
        """Look again, and keep what was found."""
        busy_s, stolen_s = _machine()
        unaccounted_s = busy_s - self._busy_s - (_ours() - self._ours_s)
        seconds = max(time.monotonic() - self._began, 1e-9)
        found = [
            Other(name, pid, (spent - self._before.get((pid, created), ("", 0.0))[1]) / seconds)
            for (pid, created), (name, spent) in _times().items()
            if pid != os.getpid()
        ]
        self.stolen = (stolen_s - self._stolen_s) / seconds
        self.seen = self.stolen + sum(max(one.cpus, 0.0) for one in found)
        self.cpus = max(self.seen, unaccounted_s / seconds)
        self.processes = tuple(
            sorted((one for one in found if one.cpus >= _LEAST), key=lambda one: -one.cpus)
        )

    @property
    def unseen(self) -> bool:
        """Whether most of it went to none of the processes that can be seen."""
        return sum(one.cpus for one in self.processes) < self.cpus / 2

    def took(self, cores: int) -> str:
        """In words, as what follows "while"."""
        who = "the hypervisor" if self.stolen > self.cpus / 2 else "other processes"
        most = next(iter(self.processes), None)
        name = "" if most is None else said(Disturbance.MOST, name=most.name, pid=most.pid, cpus=most.cpus)
        return said(Disturbance.FOREIGN, who=who, taken=self.cpus, cpus=cores, most=name)


def _machine() -> tuple[float, float]:
    """(seconds that the CPUs were busy or stolen, those stolen), of all CPUs together."""
    times = psutil.cpu_times()
    idle = times.idle + times.iowait + times.guest + times.guest_nice  # (a guest's time is in user, too)
    return float(sum(times) - idle), float(times.steal)


def _ours() -> float:
    """CPU seconds of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


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
