"""On which CPU a thread waits and runs: by the kernel's moves, and where a switch to it wasn't seen. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from latlab.system.kernel.samples import Events

__all__ = ["MOVES", "came_unseen", "moves_of", "waited_at", "waits_for"]

#: A thread goes from one CPU's queue to another's.
MOVES = "sched:sched_migrate_task"
# Which a thread makes while it is current.
_MADE = ("sched:sched_waking", "sock:sock_send_length", "sock:sock_recv_length")
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


def came_unseen(events: Events, index: Callable[[Array], Array], rows: Mapping[str, Array]) -> Array:
    """Threads of ours that leave a CPU to which no switch brought them: when, at the earliest, they came.

    A kernel may hide what happens while a thread of some other program is current. The switch that is missing
    lies between the one before it on this CPU and the next event that the thread itself makes. What the
    thread did from then until that event isn't known; what it did before and since is.

    Args:
        rows: `thread`, `time` and `came` (by a switch) of what was seen of our threads, by thread and time.

    Returns:
        `thread`, `time` and `from` (the CPU) of each coming: at the earliest, and at the latest.
    """
    switches = events["sched:sched_switch"]
    order = np.lexsort((switches["time_ns"], switches["cpu"]))
    cpu, time = switches["cpu"][order], switches["time_ns"][order]
    left, then = switches["prev_pid"][order][1:], switches["next_pid"][order][:-1]
    broken = np.flatnonzero((cpu[1:] == cpu[:-1]) & (left != then))
    broken = broken[index(left[broken]) >= 0]
    made = [(events[name]["tid"], events[name]["time_ns"]) for name in _MADE if name in events]
    found = []
    for at in broken.tolist():
        tid, low, high = int(left[at]), int(time[at]), int(time[at + 1])
        thread = int(index(left[at : at + 1])[0])
        first, last = np.searchsorted(rows["thread"], [thread, thread + 1])
        before = int(first + np.searchsorted(rows["time"][first:last], high)) - 1
        if before >= first:
            if rows["came"][before]:
                continue  # that it came was seen; that it left in between was not
            low = max(low, int(rows["time"][before]) + 1)  # behind what was seen last
        if low >= high:
            continue
        acts = [int(times[mine].min()) for tids, times in made
                if (mine := (tids == tid) & (times > low) & (times < high)).any()]  # fmt: skip
        found += [(thread, when, int(cpu[at])) for when in (low, min(acts, default=high))]
    return np.array(found, _MOVE)


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
