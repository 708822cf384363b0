"""What a thread waited for, and who ended that: each blocked interval by itself. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from latlab.model.evidence.requests import TailPlace
from latlab.model.evidence.said import said
from latlab.model.requests import PartKind
from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.requests.parts.threads import Threads
from latlab.requests.places import Places
from latlab.requests.where import waited_in

__all__ = ["AGAIN_NS", "DEEPEST", "ONE_CONDITION", "TO_CLIENT", "Waits"]

Array = np.ndarray[Any, Any]

ONE_CONDITION = 64  # bytes
AGAIN_NS = 1_000_000
DEEPEST = 16  # who waits for who waits for a lock
TO_CLIENT = "to the client"
_MOST_PIECES = 200  # of one wait: CPython's threads look up every 5 ms
_KERNELS = "a kernel lock"
_PLACED = ("lock", "disk", "timer", "process")  # kinds of waits that have a place in the code
_FOR_OTHERS = (Wait.PIPE, Wait.SOCKET, Wait.CHILD, Wait.POLL, Wait.EVENTFD)
_NONE = np.zeros(0, np.int64)


class Waits:
    """Names the parts that waits are.

    Args:
        calls, clients, pipes: as of `Found`.
    """

    def __init__(
        self,
        schedule: Schedule,
        threads: Threads,
        places: Places,
        calls: Mapping[int, tuple[Array, Array]],
        clients: frozenset[int],
        pipes: frozenset[str],
        serving: frozenset[int],
    ) -> None:
        self._schedule, self._threads, self._places = schedule, threads, places
        self._calls, self._clients, self._pipes = calls, clients, pipes
        self._serving = serving

    def woken_by_timer(self, row: Any) -> bool:
        """Whether a timer ended a wait, or the wait of who ended it, a thread of its process, just before.

        That is how runtimes with threads of their own go on (Go's, Tokio's): who looks after the timers hands
        what is due to another thread.
        """
        for _ in range(DEEPEST):
            if row["source"] == Source.TIMER:
                return True
            if not self.of_its_own(row):
                return False
            waits = self._threads.turns[int(row["waker"])].rows
            waits = waits[(waits["state"] == State.BLOCKED) & (waits["end"] <= row["end"])]
            if not len(waits) or int(row["end"]) - int(waits["end"][-1]) > AGAIN_NS:
                return False
            row = waits[-1]
        return False

    def whom(self, kind: PartKind, row: Any) -> int:
        """The thread that ended a wait for another thread, or for another process; -1: not known."""
        if kind not in ("thread", "process") or row["wait"] == Wait.STOPPED:
            return -1
        return int(row["waker"])

    def of_its_own(self, row: Any) -> bool:
        """Whether a thread of the same process ended a wait by itself, such as one that a loop gave work."""
        waker, own = int(row["waker"]), self._schedule.threads[int(row["thread"])]
        if waker < 0 or row["source"] != Source.THREAD:
            return False
        other = self._schedule.threads[waker]
        return other.pid == own.pid and other.tid not in self._clients

    def part(self, row: Any) -> tuple[PartKind, str]:
        """The part that a wait is, and its place: what was waited for, and in which function."""
        kind, where = self.told(row)
        placed = kind in _PLACED and row["wait"] not in (Wait.POLL, Wait.STOPPED)
        return kind, waited_in(where, self._places.waiting(row) if placed else "", lock=kind == "lock")

    def told(self, row: Any) -> tuple[PartKind, str]:
        """The part that a wait is, and what was waited for."""
        wait, waker, source = int(row["wait"]), int(row["waker"]), int(row["source"])
        thing = self._schedule.objects.get(int(row["object"]), "")
        woke = self._threads.name(waker) if waker >= 0 else ""
        if self._is_handed(row):
            return "thread", woke
        if wait == Wait.FUTEX and (
            source != Source.TIMER or self._places.interpreters(row) or self.waits_on(row)
        ):
            return "lock", self._places.lock(row)
        if wait in (Wait.SEMAPHORE, Wait.FILE_LOCK):
            named = f"file lock on {thing}" if thing else "file lock"
            named = f"System V semaphore {int(row['object'])}" if wait == Wait.SEMAPHORE else named
            return "lock", named
        if wait in (Wait.DISK, Wait.FAULT) and source == Source.THREAD and waker >= 0:
            return self._in_the_kernel(row, thing)
        if wait in (Wait.DISK, Wait.SYNC):
            return "disk", "fsync" if wait == Wait.SYNC else thing
        if wait == Wait.FAULT:
            return "fault", ""
        if wait == Wait.TIMER or source == Source.TIMER:
            return "timer", ""
        if wait == Wait.STOPPED:
            return "process", said(TailPlace.STOPPED)
        if wait == Wait.THROTTLED:
            return "runnable", "CPU quota"
        # A pipe of another kind, such as a child's output, is not among the calls.
        sends = wait == Wait.SOCKET or (wait == Wait.PIPE and thing in self._pipes)
        if sends and self.answers(row):
            return "send", TO_CLIENT
        if wait in _FOR_OTHERS and self.of_its_own(row):
            return "thread", woke
        if wait in _FOR_OTHERS:
            return "process", woke or ("" if thing.startswith("anon_inode:") else thing)  # of many, no name
        if source == Source.DISK:
            return "disk", thing
        return "unexplained", ""

    def _is_handed(self, row: Any) -> bool:
        """Whether a wait at a condition variable was ended by a thread that answers nobody itself.

        Such as a worker that is done with its work: nobody has a condition variable, as one has a lock.
        Of those who serve one may have put back what the others share, such as a connection of a pool.
        """
        return (
            self._places.awaits_news(row) and self.of_its_own(row) and int(row["waker"]) not in self._serving
        )

    def _in_the_kernel(self, row: Any, thing: str) -> tuple[PartKind, str]:
        """An uninterruptible wait that a thread of the program ended: no disk does that.

        A file and a process's memory have a lock (i_rwsem, mmap_lock); vfork waits for the child's exec.
        """
        waker = self._schedule.threads[int(row["waker"])]
        if waker.pid != self._schedule.threads[int(row["thread"])].pid and not thing:
            return "process", waker.name
        of = thing or ("its memory" if row["wait"] == Wait.FAULT else "")
        return "lock", f"{_KERNELS} of {of}" if of else f"{_KERNELS}, such as its memory's"

    def preempted(self, row: Any) -> bool:
        """Whether a thread that is ready had run until then."""
        turns = self._threads.turns[int(row["thread"])]
        at = int(turns.begins.searchsorted(row["begin"]))
        return at > 0 and bool(turns.rows["state"][at - 1] == State.RUNNING)

    def answers(self, row: Any) -> bool:
        """Whether the call in which a thread waited put an answer into a connection: it was full."""
        times, answers = self._calls.get(self._schedule.threads[int(row["thread"])].tid, (_NONE, _NONE))
        at = int(np.searchsorted(times, int(row["end"])))
        return at < len(times) and bool(answers[at])

    def waits_on(self, row: Any) -> bool:
        """Whether a wait that its time-out ended goes on: who only looks up waits for the same word again.

        A condition variable's words lie beside each other, and take turns (glibc's has two groups).
        """
        return self.again(row) is not None

    def again(self, row: Any) -> Any:
        """The wait for the same word that follows one that its time-out ended; None where none does."""
        turns = self._threads.turns[int(row["thread"])]
        at = int(turns.begins.searchsorted(row["begin"]))
        for other in turns.rows[at + 1 : at + 4]:
            if other["state"] == State.BLOCKED:
                again = (
                    int(other["wait"]) == Wait.FUTEX
                    and abs(int(other["object"]) - int(row["object"])) < ONE_CONDITION
                    and int(other["begin"]) - int(row["end"]) < AGAIN_NS
                )
                return other if again else None
        return None

    def released(self, row: Any) -> int:
        """Who let go of what a thread waited for, at last, where time-outs cut its wait; -1: not known."""
        for _ in range(_MOST_PIECES):
            if int(row["waker"]) >= 0 or row["source"] != Source.TIMER or (again := self.again(row)) is None:
                break
            row = again
        return int(row["waker"])
