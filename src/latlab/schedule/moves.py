"""For which CPU a runnable thread waits: by the kernel's moves from one's queue to another's. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from latlab.system.kernel.samples import Events

__all__ = ["MOVES", "moves_of", "waited_at", "waits_for"]

#: A thread goes from one CPU's queue to another's.
MOVES = "sched:sched_migrate_task"
_MOVE = np.dtype([("thread", np.int64), ("time", np.int64), ("from", np.int64)])

Array = np.ndarray[Any, Any]


def moves_of(events: Events, index: Callable[[Array], Array], began_ns: int) -> Array | None:
    """When each of our threads was moved, and from which CPU; None where the kernel doesn't tell.

    Args:
        index: of a column of thread numbers the threads' indices, -1 for strangers.
    """
    if MOVES not in events:
        return None
    table = events[MOVES]
    thread = index(table["event_pid"] if "event_pid" in table.columns else table["pid"])
    ours = np.flatnonzero((thread >= 0) & (table["time_ns"] >= began_ns))
    moves = np.zeros(len(ours), _MOVE)
    moves["thread"], moves["time"] = thread[ours], table["time_ns"][ours]
    moves["from"] = table["orig_cpu"][ours]
    return moves[np.lexsort((moves["time"], moves["thread"]))]


def waited_at(rows: Mapping[str, Array], runs: Array, moves: Array) -> Array:
    """The CPU in whose queue each thread waited for longest from one event to the next, if it `runs` then.

    -1 where it doesn't.

    Args:
        rows: `thread`, `time` and `cpu` of each event, by thread and time. moves: by `moves_of`.
    """
    coming = np.concatenate([rows["cpu"][1:], [-1]]) if len(runs) else rows["cpu"]
    end = np.concatenate([rows["time"][1:], [0]]) if len(runs) else rows["time"]
    found = np.where(runs, coming, -1)
    for thread in np.unique(moves["thread"]).tolist():
        own = moves[slice(*np.searchsorted(moves["thread"], [thread, thread + 1]))]
        first, last = np.searchsorted(rows["thread"], [thread, thread + 1])
        at = first + np.flatnonzero(found[first:last] >= 0)
        low = np.searchsorted(own["time"], rows["time"][at])
        high = np.searchsorted(own["time"], end[at])
        moved = np.flatnonzero(high > low)
        for row, begin, until in zip(
            at[moved].tolist(), low[moved].tolist(), high[moved].tolist(), strict=True
        ):
            # A move ends the stay at the CPU that it is from; the last stay is where the thread runs then.
            times = [int(rows["time"][row]), *own["time"][begin:until].tolist(), int(end[row])]
            where = [*own["from"][begin:until].tolist(), int(found[row])]
            stays: dict[int, int] = {}
            for cpu, since, over in zip(where, times[:-1], times[1:], strict=True):
                stays[cpu] = stays.get(cpu, 0) + over - since
            found[row] = max(stays, key=lambda cpu: stays[cpu])
    return found


def waits_for(cpu: Array, ran: Array, runs: Array, last: Array) -> Array:
    """The same without the moves: the CPU where a thread `ran` before and goes on; -1 if it changes over.

    Of one that moves to another CPU it isn't known when it did, and so not whose turn it waited for.
    """
    count = len(cpu)
    place = np.arange(count)
    before = np.maximum.accumulate(np.where(ran, place, -1))
    first = np.concatenate([[True], last[:-1]]) if count else last
    thread_begins = np.maximum.accumulate(np.where(first, place, -1))
    known = (before >= thread_begins) & runs
    where = cpu[np.maximum(before, 0)] if count else cpu
    coming = np.concatenate([cpu[1:], [-1]])
    return np.where(known & (where == coming), coming, -1)
