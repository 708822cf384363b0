"""Where the time of a piece of Python code goes: running, ready, blocked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Self

_scopes: dict[str, list[ScopeTime]] = {}


@dataclass(frozen=True)
class ScopeTime:
    """One pass through a measured scope: wall = CPU + ready + blocked."""

    wall_ns: int
    cpu_ns: int
    ready_ns: int
    blocked_ns: int


class measure:  # noqa: N801  # used as a function: with measure("name") as scope
    """Measure a scope: wall, CPU, ready (waited for a CPU) and blocked time of this thread.

        with latlab.stubs.measure("book.apply") as scope:
            ...
        scope.result.blocked_ns

    Ready time is the kernel's (schedstat), brought up to date at each switch; a scope costs about 10 us.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.result = ScopeTime(0, 0, 0, 0)

    def __enter__(self) -> Self:
        self._ready = _ready_ns()
        self._cpu = time.thread_time_ns()
        self._wall = time.perf_counter_ns()
        return self

    def __exit__(self, *_: object) -> None:
        wall = time.perf_counter_ns() - self._wall
        cpu = min(wall, time.thread_time_ns() - self._cpu)
        ready = min(wall - cpu, max(0, _ready_ns() - self._ready))
        self.result = ScopeTime(wall, cpu, ready, wall - cpu - ready)
        _scopes.setdefault(self.name, []).append(self.result)


def scopes() -> dict[str, list[ScopeTime]]:
    """Every pass through every scope so far."""
    return _scopes


def _ready_ns() -> int:
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0
