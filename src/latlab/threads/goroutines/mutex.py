"""Go's mutexes, for which no thread waits: the one that limits, by the samples of those who take it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, State
from latlab.model.threads import Numbers
from latlab.threads._blame import Blame
from latlab.threads.goroutines.names import is_written

__all__ = ["ONE_AT_A_TIME", "Contended", "contended"]

Array = np.ndarray[Any, Any]

_LOCKS = re.compile(r"^sync\.\(\*(RW)?Mutex\)\.")
_CONTENDS = re.compile(
    r"^sync\.\(\*(RW)?Mutex\)\.(lockSlow|unlockSlow|rUnlockSlow)|^sync\.runtime_Semacquire"
)
_ALWAYS = 0.85  # of the time: so long one at a time is in a part of what the function does
_HELD = 0.5  # of the time: a lock that is held for less leaves room
ONE_AT_A_TIME = 1.08  # CPUs: what a lock guards runs on one at a time, but for what the samples miss
_TURNS_HZ = 10  # of a thread that is used
_RUNS = 0.1  # of the time, of one that is used though it hardly ever stops
_ONE_AND_ITS_MONITOR = 2
_OFTEN = 0.05  # of the samples, of each that takes turns
_PARTS = 4  # of the time, in each of which it has its turn
_LEAST_TURNS = 20
_CONTENDED = 0.005  # of the samples of who takes it, that wait for it or hand it on


@dataclass(frozen=True)
class Contended:
    """A mutex of Go's, as the samples of those who take it tell it.

    Attributes:
        function: the one that takes it. held: share of the time in which somebody runs in it.
        contends: share of its samples that spin for the lock, or hand it to the next one.
        blocks: progress in each block of the time that ran in it.
        in_turn: how many goroutines run in it one at a time, where no sample shows one that waits.
        roles: indices of the roles that take it; threads: of their samples.
    """

    function: str
    held: float
    contends: float
    blocks: Array
    roles: Numbers
    threads: Numbers
    in_turn: int = 0


def contended(
    schedule: Schedule, blame: Blame, mine: Array, task: Array, cpus: float, role: Callable[[int], int],
    members: Sequence[Sequence[int]],
) -> Contended | None:  # fmt: skip
    """The function that takes a contended mutex, in which somebody runs for most of the time.

    It is seen where goroutines spin for the lock, or hand it to the next one. That nobody else runs in it
    meanwhile is told by how much it runs in all: never more than one CPU.
    """
    samples = schedule.samples
    ran = Counter(samples["stack"][mine].tolist())
    slow: Counter[str] = Counter()
    for stack, number in ran.items():
        names = [schedule.frames[one].function for one in schedule.stacks[stack]]
        taker = next(
            (n for i, n in enumerate(names) if i and _LOCKS.match(names[i - 1]) and not _LOCKS.match(n)), ""
        )
        if taker and is_written(taker) and any(_CONTENDS.match(name) for name in names):
            slow[taker] += number
    if not slow:
        return _in_turn(schedule, blame, mine, task, cpus, role, members)
    function = max(slow, key=lambda name: slow[name])
    inside = np.array(
        [any(schedule.frames[one].function == function for one in stack) for stack in schedule.stacks]
    )[samples["stack"]]
    within = mine & inside
    held = cpus * float(within.sum()) / max(1, int(mine.sum()))
    part_of = False
    if held > ONE_AT_A_TIME:
        # It does more than what the lock guards: that is the part of it which one at a time is always in.
        part = mine & _busiest_part(schedule, function, mine)
        guarded = cpus * float(part.sum()) / max(1, int(mine.sum()))
        if _ALWAYS <= guarded <= ONE_AT_A_TIME:
            within, held, part_of = part, guarded, True
    contends = slow[function] / max(1, int(within.sum()))
    most = held >= _HELD * cpus or part_of
    if not _HELD <= held <= ONE_AT_A_TIME or contends < _CONTENDED or not most:
        return None
    return _told(schedule, blame, function, held, contends, within, mine, task, cpus, role, members)


def _told(
    schedule: Schedule, blame: Blame, function: str, held: float, contends: float, within: Array, mine: Array,
    task: Array, cpus: float, role: Callable[[int], int], members: Sequence[Sequence[int]], in_turn: int = 0,
) -> Contended:  # fmt: skip
    samples = schedule.samples
    tasks = sorted({int(one) for one in task[within].tolist() if one < len(members)})
    edges = np.linspace(blame.begin, blame.end, len(blame.shares) + 1)
    counts = np.histogram(samples["time"][within], edges)[0].astype(float)
    of_sample = cpus * (blame.end - blame.begin) / max(1, int(mine.sum()))
    of_block = np.minimum(1.0, counts * of_sample / ((blame.end - blame.begin) / len(blame.shares)))
    blocks = of_block * blame.shares.sum(axis=(1, 2))
    return Contended(
        function, min(1.0, held), contends, blocks, tuple(role(one) for one in tasks),
        tuple(thread for one in tasks for thread in members[one]), in_turn,
    )  # fmt: skip


def _in_turn(
    schedule: Schedule, blame: Blame, mine: Array, task: Array, cpus: float, role: Callable[[int], int],
    members: Sequence[Sequence[int]],
) -> Contended | None:  # fmt: skip
    """The function that holds a mutex where several goroutines run one at a time though a CPU is free.

    Who holds a lock for longer than a millisecond finds the others asleep: Go hands it to one of them, which
    runs next on the same thread. No sample shows a wait then. But Go runs whatever can run on another thread:
    goroutines that never run beside each other, in a program that does run on two CPUs, wait for each other.
    """
    samples = schedule.samples
    if not schedule.bases.size or not _on_several(schedule, samples["thread"][mine]):
        return None
    taken: Counter[str] = Counter()
    takers = []
    for stack in schedule.stacks:
        frames = [schedule.frames[one] for one in stack]
        takers.append({one.function for one in frames if one.in_mutex and is_written(one.function)})
    for stack, number in Counter(samples["stack"][mine].tolist()).items():
        taken.update(dict.fromkeys(takers[stack], number))
    if not taken:
        return None
    function = max(taken, key=lambda name: taken[name])
    inside = np.array([function in names for names in takers])[samples["stack"]]
    within = mine & inside
    held = cpus * float(within.sum()) / max(1, int(mine.sum()))
    if not max(_HELD, _ALWAYS * cpus) <= held <= ONE_AT_A_TIME:
        return None
    known = within & (schedule.bases > 0)
    whose = schedule.bases[known][np.argsort(samples["time"][known], kind="stable")]
    count = _takes_turns(whose)
    if count < 2 or known.sum() < _HELD * within.sum():
        return None
    return _told(schedule, blame, function, held, 0.0, within, mine, task, cpus, role, members, count)


def _takes_turns(whose: Array) -> int:
    """How many take turns throughout; 0 where one follows when the one before has ended.

    Args:
        whose: of one sample after the other.
    """
    _, number, samples = np.unique(whose, return_inverse=True, return_counts=True)
    if len(whose) < _LEAST_TURNS:
        return 0
    often = np.flatnonzero(samples >= _OFTEN * len(whose))
    parts = np.array_split(number, _PARTS)
    throughout = sum(all((part == one).any() for part in parts) for one in often.tolist())
    changes = int((np.diff(number) != 0).sum())
    return throughout if changes >= _LEAST_TURNS else 0


def _on_several(schedule: Schedule, threads: Array) -> bool:
    """Whether Go may run goroutines on two threads at once: it looks for work on another one again and again.

    Where it may not, one thread runs them all, and the only other one that runs often watches over it.
    """
    pids = {schedule.threads[one].pid for one in np.unique(threads).tolist()}
    own = [number for number, one in enumerate(schedule.threads) if one.pid in pids]
    rows = schedule.intervals
    rows = rows[(rows["state"] == State.RUNNING) & np.isin(rows["thread"], own)]
    often = np.bincount(rows["thread"]) >= max(_LEAST_TURNS, _TURNS_HZ * schedule.seconds)
    ran = np.bincount(rows["thread"], rows["end"] - rows["begin"]) >= _RUNS * 1e9 * schedule.seconds
    return int((often | ran).sum()) > _ONE_AND_ITS_MONITOR


def _busiest_part(schedule: Schedule, function: str, mine: Array) -> Array:
    """Of each sample whether it is in what this function calls for the most of them, a lock's own aside."""
    called = []
    for stack in schedule.stacks:
        names = [schedule.frames[one].function for one in stack]
        at = names.index(function) if function in names else 0
        inner = names[at - 1] if at else ""
        called.append("" if _LOCKS.match(inner) else inner)
    of_sample = np.array(called)[schedule.samples["stack"]]
    most = Counter(of_sample[mine & (of_sample != "")].tolist()).most_common(1)
    return np.asarray(of_sample == most[0][0]) if most else np.zeros(len(of_sample), bool)
