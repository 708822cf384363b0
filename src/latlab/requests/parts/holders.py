"""Who had the locks that threads waited for, and what these did meanwhile. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Any

from latlab.model.schedule import Schedule, State
from latlab.requests.parts.threads import Threads
from latlab.requests.parts.waits import Waits
from latlab.requests.places import Places
from latlab.requests.where import ran_in

__all__ = ["Holders"]


class Holders:
    """Finds the holders of locks.

    Args:
        clients: as of `Found`.
    """

    def __init__(
        self, schedule: Schedule, threads: Threads, places: Places, waits: Waits, clients: frozenset[int]
    ) -> None:
        self._schedule, self._threads, self._places = schedule, threads, places
        self._waits, self._clients = waits, clients

    def by(self, row: Any, begin: int, end: int, deep: int) -> list[tuple[int, int, int]]:
        """Who had a lock in each stretch of a wait for it, since when and until when; -1: not known.

        Who let go last may have waited for it, too, until shortly before: then another one had it.
        """
        holder, waits = self.of(row, begin, end), int(row["thread"])
        if holder < 0 or not deep:
            return [(holder, begin, end)]
        found: list[tuple[int, int, int]] = []
        for other, since, ns in self._threads.cut(holder, begin, end):
            lock = other["state"] == State.BLOCKED and self._waits.told(other)[0] == "lock"
            stretch = self.by(other, since, since + ns, deep - 1) if lock else [(holder, since, since + ns)]
            for who, first, last in stretch:
                who = who if who not in (-1, waits) else holder
                if found and found[-1][0] == who:
                    found[-1] = (who, found[-1][1], last)
                else:
                    found.append((who, first, last))
        if not found:
            return [(holder, begin, end)]
        # What isn't known of a holder is a part of its turn.
        edges = [begin, *(since for _, since, _ in found[1:]), end]
        return [(who, edges[at], edges[at + 1]) for at, (who, _, _) in enumerate(found)]

    def named(self, holder: int, begin: int, end: int) -> str:
        """Who has a lock in a stretch, and in which function, where it was sampled there mostly."""
        taken = Counter(one for one in self._places.samples(holder, begin, end) if one)
        function, number = taken.most_common(1)[0] if taken else ("", 0)
        return ran_in(self._threads.name(holder), function if 2 * number > taken.total() else "")

    def doing(self, thread: int, begin: int, end: int) -> str:
        """Who had a CPU, of the program's own also in which function, but for clients."""
        one = self._schedule.threads[thread]
        outside = one.peer or one.tid in self._clients
        return one.name if outside else self.named(thread, begin, end)

    def of(self, row: Any, begin: int, end: int) -> int:
        """Who had a lock that a thread waits for, in this stretch of its wait; -1: not known.

        Who lets go at last has had it. But the interpreter's goes round while one waits: who runs has it, or
        was taken off its CPU.
        """
        if not self._places.interpreters(row):
            return self._waits.released(row)
        waits = int(row["thread"])
        pid = self._schedule.threads[waits].pid
        ran = {
            index: sum(ns for one, _, ns in self._threads.cut(index, begin, end) if self._at_work(one))
            for index, other in enumerate(self._schedule.threads)
            if other.pid == pid and index != waits
        }
        most = max(ran, key=lambda index: ran[index], default=-1)
        return most if most >= 0 and ran[most] > (end - begin) / 2 else -1

    def _at_work(self, row: Any) -> bool:
        """Whether a thread runs, or was taken off its CPU."""
        return row["state"] == State.RUNNING or (
            row["state"] == State.RUNNABLE and self._waits.preempted(row)
        )
