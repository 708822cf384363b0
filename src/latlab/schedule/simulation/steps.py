"""What a simulation runs: work, deeds and what they wait for, thread by thread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

__all__ = ["Deed", "Policy", "Steps", "word_of"]

Array = np.ndarray[Any, Any]


class Deed(IntEnum):
    """What a thread does behind the work of a step; as in native/core/schedule/simulation.hpp."""

    POST = 0
    WAIT = 1
    SLEEP = 2
    UNTIL = 3
    START = 4
    JOIN = 5
    LOCK = 6
    UNLOCK = 7
    HALT = 8
    EXIT = 9
    NONE = 10


@dataclass(frozen=True)
class Policy:
    """Of the scheduler; see native/core/schedule/simulation.hpp."""

    slice_ns: int
    behind_ns: int
    own_queues: bool = False
    stay_ns: int = 0


@dataclass(frozen=True)
class Steps:
    """All threads' steps, one thread behind another; times in ns from the beginning of the schedule.

    Attributes:
        first: of thread t the steps are first[t] to first[t + 1].
        work: before the deed. wait: the `Wait` of a step that blocks, and `object` on what.
        recorded: when the deed was done. born: by thread, -1 where another one starts it.
        allowed: by thread, a bit for each CPU; 0: all.
        cost: by thread, virtual run time of the scheduler for each ns: the more, the less is it preferred.
        delay: by step that blocks, from its wake-up to running where a CPU is idle; -1: `wake_ns`.
        own: so many threads are the program's; those behind them are strangers, one for each CPU of each.
        wake_ns: from a wake-up to running on an idle CPU.
        slice_ns, behind_ns, own_queues, stay_ns: of the scheduler; see native/core/schedule/simulation.hpp.
    """

    first: Array
    work: Array
    deed: Array
    argument: Array
    recorded: Array
    wait: Array
    object: Array
    born: Array
    allowed: Array
    cost: Array
    delay: Array
    own: int
    cpus: int
    wake_ns: int
    slice_ns: int = 3_000_000
    behind_ns: int = 1_000_000
    own_queues: bool = False
    stay_ns: int = 0

    @property
    def thread(self) -> Array:
        """The thread of each step."""
        return np.repeat(np.arange(len(self.born)), np.diff(self.first))

    def beside(self, ours: int, others: int) -> Steps:
        """The same with the program's threads and strangers so much less preferred than by their priority."""
        return self.changed(cost=self.cost * np.where(np.arange(len(self.born)) < self.own, ours, others))

    @property
    def policy(self) -> Policy:
        """Under which the scheduler chooses."""
        return Policy(self.slice_ns, self.behind_ns, self.own_queues, self.stay_ns)

    def by(self, policy: Policy) -> Steps:
        """The same under another policy of the scheduler."""
        return replace(self, **vars(policy))

    def changed(self, **columns: Any) -> Steps:
        """The same with other columns."""
        return replace(self, **columns)


def word_of(address: Any) -> Any:
    """A futex word, or a column: glibc's condition variable waits on two by turns, 4 bytes apart."""
    return address & ~7
