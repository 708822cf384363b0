"""For which request a thread works at each time: by what it reads and answers. Pure.

What follows a reading belongs to the request that was read, what precedes an answer to the one that it
answers. So a loop that reads several requests before it answers the first is told apart, whether it works
on each when it has read it (as redis does) or before it answers it (as asyncio does).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from latlab.requests.connections import NEVER

__all__ = ["NOBODY", "Owners"]

NOBODY = -1
_READ, _SENT = 0, 1

Array = np.ndarray[Any, Any]
_NONE = np.zeros(0, np.int64)


class Owners:
    """Whose each stretch of each thread is.

    Attributes:
        usual_ns: for how long a request is worked on, at the median.

    Args:
        rows: of REQUEST, all of them.
    """

    def __init__(self, rows: Array) -> None:
        numbers = np.arange(len(rows))
        parts = []
        for kind, who, when in ((_READ, "reader", "read"), (_SENT, "sender", "sent")):
            seen = rows[when] != NEVER
            if kind == _SENT:
                seen &= rows["answered"] != NEVER
            count = int(seen.sum())
            times = (
                rows[when] - rows["held"] if kind == _SENT else rows[when]
            )  # what TCP keeps keeps no thread
            parts.append((rows[who][seen], times[seen], np.full(count, kind), numbers[seen]))
        tids, times, kinds, which = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((kinds, times, tids))
        tids, times, kinds, which = (column[order] for column in (tids, times, kinds, which))
        # Between an event and the next: an answer's, else what was read; after an answer nobody's.
        after = np.where(kinds == _READ, which, NOBODY)
        same = tids[1:] == tids[:-1]
        owner = after.copy()
        owner[:-1] = np.where(same & (kinds[1:] == _SENT), which[1:], after[:-1])
        owner[:-1] = np.where(same, owner[:-1], NOBODY)
        owner[-1:] = NOBODY
        # What precedes the answer to what another thread has read may hold a worker's idling.
        itself = (rows["reader"] == rows["sender"])[owner] if len(rows) else np.zeros(0, bool)
        mine = np.flatnonzero((owner[:-1] != NOBODY) & ((kinds == _READ) | itself)[:-1])
        worked = np.bincount(owner[mine], times[mine + 1] - times[mine], len(rows)) if len(mine) else _NONE
        self.usual_ns = float(np.median(worked[worked > 0])) if (worked > 0).any() else 0.0
        ids, starts = np.unique(tids, return_index=True)
        self._of = {
            int(tid): (part, whose)
            for tid, part, whose in zip(
                ids.tolist(), np.split(times, starts[1:]), np.split(owner, starts[1:]), strict=True
            )
        } if len(tids) else {}  # fmt: skip

    def cut(self, tid: int, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """A stretch of a thread's time by whose it is: the request's index or NOBODY, begin, end."""
        times, owner = self._of.get(tid, (_NONE, _NONE))
        place = int(np.searchsorted(times, begin, side="right")) - 1
        while begin < end:
            until = min(end, int(times[place + 1])) if place + 1 < len(times) else end
            if until > begin:
                yield (int(owner[place]) if place >= 0 else NOBODY), begin, until
            begin, place = until, place + 1
