"""What a simulated schedule gives: whether it can be trusted, and what a change would buy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latlab.model.diagnosis.answer import Interval

__all__ = ["Scenario", "ScenarioPoint", "ScheduleForecast", "Simulated"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is made faster.

    Attributes:
        kind: role: the threads' work; function: `function`'s part of it, by the samples; lock: the time that
            lock `object` is held; disk: waits for the disk; timer: naps of `threads`; cpus: one more CPU.
        name: as it is told.
        threads: indices into `Schedule.threads`; () for all, where the kind knows threads.
    """

    kind: Literal["role", "function", "lock", "disk", "timer", "cpus"]
    name: str
    threads: tuple[int, ...] = ()
    object: int = -1
    function: str = ""


@dataclass(frozen=True, slots=True)
class ScenarioPoint:
    """The program with the scenario's thing made faster by `speedup` (0 to 1): its whole time in ns."""

    speedup: float
    time_ns: Interval


@dataclass(frozen=True, slots=True)
class Simulated:
    """The unchanged schedule, simulated.

    Attributes:
        recorded_ns: what the program took. simulated_ns: what it takes in the simulation.
        withheld: why nothing can be forecast by it; "" where it can.
        busy: by thread, the share of the simulated time in which it had a CPU.
        ready: by thread, the share in which it waited for one.
    """

    recorded_ns: int
    simulated_ns: int
    withheld: str
    busy: tuple[float, ...]
    ready: tuple[float, ...]

    @property
    def error(self) -> float:
        """Of the simulated time, relative to the recorded one."""
        return (self.simulated_ns - self.recorded_ns) / self.recorded_ns if self.recorded_ns else 0.0


@dataclass(frozen=True, slots=True)
class ScheduleForecast:
    """What one scenario would buy.

    Attributes:
        kind: total: every speed-up pays; limited: up to the knee; none; open: it pays, and how far is not
            known beyond its points; None where it is withheld.
        spent_ns: time of the thing that is made faster, of all threads together.
        knee: the speed-up beyond which nothing is gained.
        takes_over: what limits from there: the thread's index, or "cpus"; None: nothing, or not known.
    """

    scenario: Scenario
    withheld: str
    kind: Literal["total", "limited", "none", "open"] | None
    baseline: Interval | None
    points: tuple[ScenarioPoint, ...]
    spent_ns: float
    knee: float | None
    takes_over: int | Literal["cpus"] | None
