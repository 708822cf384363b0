"""When a thread began with a request that another one had read, and when it had nothing to do. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np

from latlab.model.schedule import State, Wait
from latlab.requests.connections import NEVER
from latlab.requests.parts.threads import Threads
from latlab.requests.parts.waits import ONE_CONDITION

__all__ = ["IDLE", "Workers"]

Array = np.ndarray[Any, Any]

IDLE = (Wait.POLL, Wait.FUTEX, Wait.EVENTFD, Wait.PIPE, Wait.SOCKET)
_OFTEN_IDLE = 0.1  # of the readings of its requests that a worker waits for a word, for that to be its idling


class Workers:
    """Tells a thread's idling from its work.

    Args:
        rows: of REQUEST, all of them.
    """

    def __init__(self, threads: Threads, rows: Array) -> None:
        self._threads, self._requests = threads, rows
        self._idle_words = self._words_of_idling()

    def taken_up(self, sender: int, read: int, answered: int, done_before: int) -> int:
        """When the answering thread began with it: after its last answer, and after it was woken for it."""
        begun = max(read, min(done_before, answered))
        first = True
        for row, _, _ in self._threads.cut(sender, begun, answered):
            if row["state"] == State.BLOCKED and int(row["wait"]) in IDLE:
                waits = first and int(row["begin"]) <= begun
                if waits or self._waits_for_work(row):
                    begun = min(int(row["end"]), answered)
                first = False
        return begun

    def idle(self, thread: int, begin: int, end: int) -> list[tuple[int, int]]:
        """When a thread waited for work in this stretch; all of it where nothing is known of the thread."""
        found, known = [], 0
        for row, since, ns in self._threads.cut(thread, begin, end):
            known += ns
            if row["state"] == State.BLOCKED and int(row["wait"]) in (*IDLE, Wait.TIMER):
                found.append((since, since + ns))
        return found if known else [(begin, end)]

    def _waits_for_work(self, row: Any) -> bool:
        """Whether a thread waits for the same word here as it mostly does while the next request is read."""
        word = int(row["object"])
        words = self._idle_words.get(int(row["thread"]), ())
        return int(row["wait"]) == Wait.FUTEX and any(abs(word - one) < ONE_CONDITION for one in words)

    def _words_of_idling(self) -> dict[int, list[int]]:
        """By thread that answers what others read, the words that it waits for when these read."""
        found: dict[int, list[int]] = {}
        rows = self._requests
        for tid in np.unique(rows["sender"][rows["sender"] != rows["reader"]]).tolist():
            thread = self._threads.index.get(tid, -1)
            if thread < 0:
                continue
            read = rows["read"][(rows["sender"] == tid) & (rows["reader"] != tid) & (rows["read"] != NEVER)]
            turns = self._threads.turns[thread]
            at = np.minimum(turns.ends.searchsorted(read, "right"), len(turns.rows) - 1)
            then = turns.rows[at] if len(turns.rows) else turns.rows
            waits = then["object"][(then["state"] == State.BLOCKED) & (then["wait"] == Wait.FUTEX)]
            words, counts = np.unique(waits, return_counts=True)
            found[thread] = words[counts >= _OFTEN_IDLE * len(read)].tolist()
        return found
