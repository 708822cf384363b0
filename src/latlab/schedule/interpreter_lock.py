"""The one rule for the interpreter's lock: do the threads of a process take one CPU together?"""

from __future__ import annotations

__all__ = ["LEAST_CPU", "takes_one_cpu"]

# Of a CPU: less is not a lock that is always held; more needs code that runs without it.
LEAST_CPU, _HIGH = 0.8, 1.15


def takes_one_cpu(used: float, waited: float = 0.0) -> bool:
    """Whether threads that take so many CPUs together may be one behind another for one lock.

    Args:
        used: CPUs that they ran.
        waited: CPUs that they were runnable for besides: who holds the lock may have to wait for one.
    """
    return used + waited >= LEAST_CPU and used <= _HIGH
