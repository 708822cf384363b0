"""What limits a program, by its threads alone: roles, who hands work to whom, locks, and the limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from latlab.words import share

__all__ = ["Code", "Edge", "Limit", "LimitKind", "LockUse", "Role", "Slice", "ThreadFindings"]

Names = tuple[str, ...]
Numbers = tuple[int, ...]


_ALL = 0.95  # of a function's samples: whoever calls it in so many is told as its caller, without a share
_ASLEEP = 0.6
_AWAKE = 0.2


class LimitKind(StrEnum):
    """What a program is limited by."""

    THREAD = "thread"
    LOCK = "lock"
    CPU = "cpu"
    DISK = "disk"
    PROCESS = "process"
    NETWORK = "network"
    TIMER = "timer"
    LOAD = "load"  # nothing limits: it waits for work
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Code:
    """A place in the code and its share of the samples of what limits.

    Attributes:
        function, file, line: the place; a file of "" and a line of 0 where they are not known.
        share: of the samples.
        caller: the program's own function that mostly calls it there; "" where none does, or it isn't known.
        calls: share of these samples in which the caller called it.
    """

    function: str
    file: str
    line: int
    share: float
    caller: str = ""
    calls: float = 1.0

    @property
    def told(self) -> str:
        """As a sentence has it."""
        if not self.caller:
            return self.function
        part = "" if self.calls >= _ALL else f"{share(self.calls, digits=0)} of it "
        return f"{self.function}, {part}called by {self.caller}"


@dataclass(frozen=True, slots=True)
class Limit:
    """What limits.

    Attributes:
        name: of the role, lock, process, peer or resource; "" where nothing is named.
        confidence: 0 to 1: how often resampled blocks of the time give this kind and name.
        share: of the time that the program's progress waited for it.
        evidence: sentences with numbers, the strongest first.
        why_not: why nothing is named, where the kind is unknown.
        kind: a thread, a lock, the CPUs, the disk …
        sentence: the finding.
        code: where the limiting threads ran or waited, by samples of their stacks.
    """

    kind: LimitKind
    name: str
    confidence: float
    share: float
    sentence: str
    evidence: Names = ()
    code: tuple[Code, ...] = ()
    why_not: Names = ()


@dataclass(frozen=True, slots=True)
class Role:
    """Threads that do the same.

    Attributes:
        count: how many threads.
        running, runnable: share of the threads' time, mean over them.
        blocked: share of the threads' time by what they wait for.
        busy: share of the time in which they wait for nobody else in the program.
        limits: share of the program's progress that waited for this role.
        spins: whether it polls without progress.
        paced: whether it begins each round when that is due, and sleeps for what its work leaves until then:
            to work faster makes it sleep for longer.
        may_be_due: whether it works and sleeps by turns, and nothing tells whether it is paced so.
        code: where it mostly runs; of one that mostly waits where it does.
        name: by where its threads start or wait.
        pids: its processes.
        process: the program's name.
        entry: the function that its threads start in.
        threads: their numbers in the schedule.
    """

    name: str
    count: int
    pids: Numbers
    running: float
    runnable: float
    blocked: Mapping[str, float]
    busy: float
    limits: float
    process: str = ""
    entry: str = ""
    threads: Numbers = ()
    spins: bool = False
    paced: bool = False
    may_be_due: bool = False
    code: tuple[Code, ...] = ()

    @property
    def asleep(self) -> float:
        """Share of the time that it sleeps by itself, where that is what it mostly does; else 0."""
        slept = self.blocked.get("timer", 0.0)
        return slept if slept >= _ASLEEP and self.running < _AWAKE else 0.0


@dataclass(frozen=True, slots=True)
class Edge:
    """One role ends the waits of another: it hands work or room to it.

    Attributes:
        kind: futex, lock, pipe, socket, poll, eventfd, child, signal or other.
        per_second: how often.
        waiting: share of the observed time that a thread of `to` spent in waits that `source` ended, mean.
        source: the role that hands on.
        to: the role that waited.
    """

    source: str
    to: str
    kind: str
    per_second: float
    waiting: float


@dataclass(frozen=True, slots=True)
class LockUse:
    """A futex word that threads contend for.

    Attributes:
        name: the interpreter lock, or the word's address.
        waits: that were seen. wait_ns: their sum.
        share: of the program's progress that waited for the lock's holder.
        waiters, holders: roles.
        waits_in: the functions that wait for it, where stacks were taken.
        address: of the word.
        wait_ns: all waits together.
        longest_ns: the longest of them.
    """

    name: str
    address: int
    waits: int
    wait_ns: int
    longest_ns: int
    share: float
    waiters: Names
    holders: Names
    waits_in: Names = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """A thread's line in the drawn timeline: shares of equally long pieces of the observed time.

    Attributes:
        thread: its number in `threads`.
        running, runnable: a share of each piece.
    """

    thread: int
    running: tuple[float, ...]
    runnable: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ThreadFindings:
    """All that the threads tell.

    Attributes:
        progress: how the program's progress spends its time: what it waits for -> share; they sum to 1.
        threads: name of every thread, as "compress (pid 4711)".
        slices: for the timeline, of the threads that matter.
        distrust: what was not seen well enough.
        root: the process that was asked about; 0 where that isn't known.
        limit: what limits.
        roles: threads that do the same.
        edges: who hands work or room to whom.
        locks: that threads contend for.
        seconds: that were observed.
        handoffs: wake-ups of one of its threads by another.
        method: how the kernel's events were taken.
        unseen: share of the waits whose end was not seen.
        notes: what a reader should know of the observation.
        alone: the one thread of its role that limits, by its index; -1 where no single one does.
        apart: it has parts that do not wait for each other: each makes progress by itself.
    """

    limit: Limit
    roles: tuple[Role, ...]
    edges: tuple[Edge, ...]
    locks: tuple[LockUse, ...]
    progress: Mapping[str, float]
    seconds: float
    handoffs: int
    method: str
    unseen: float
    distrust: Names = ()
    notes: Names = ()
    threads: Names = ()
    slices: tuple[Slice, ...] = field(default=())
    root: int = 0
    alone: int = -1
    apart: bool = False

    def role(self, name: str | None) -> Role | None:
        """The role of this name, None without one."""
        return next((role for role in self.roles if role.name == name), None)

    def code_of(self, name: str) -> tuple[Code, ...]:
        """Where what has this name runs, as far as it is known."""
        if self.limit.name == name:
            return self.limit.code
        role = self.role(name)
        return role.code if role is not None else ()

    @property
    def without_a_cpu(self) -> float:
        """Share of the program's progress that waited for a thread which was ready and had no CPU."""
        return sum(part for what, part in self.progress.items() if what.endswith(": runnable"))

    def to_json(self) -> dict[str, Any]:
        """The keys that an answer gains: limit, roles, edges, locks, progress."""
        limit = asdict(self.limit)
        limit["kind"] = str(self.limit.kind)
        edges = []
        for edge in self.edges:
            one = asdict(edge)
            edges.append({"from": one.pop("source"), **one})
        return {
            "limit": limit,
            "roles": [asdict(role) for role in self.roles],
            "edges": edges,
            "locks": [asdict(lock) for lock in self.locks],
            "progress": dict(self.progress),
            "observed": {
                "seconds": self.seconds,
                "method": self.method,
                "unseen": self.unseen,
                "handoffs": self.handoffs,
                "notes": list(self.notes),
            },
        }
