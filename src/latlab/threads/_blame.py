"""What each role's time, and with it the program's progress, depended on: block of time by block of time.

Over 400 lines: one table of causes, filled by the path of progress, and read by what asks for its shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.model.schedule import FOREIGN, Schedule, Source, State, Wait
from latlab.model.threads import Role
from latlab.threads._locks import Word
from latlab.threads._path import PIECE, Piece, walk
from latlab.threads._roles import Group
from latlab.threads._tracks import Track

__all__ = ["BLOCKS", "Blame", "Cause", "blame_of", "lines_of", "used_cpus"]

Array = np.ndarray[Any, Any]

BLOCKS = 24
_MOST_STARTS = 10
_LEAST_WEIGHT = 0.02
_MOST_INTERVALS = 1_500_000  # that are walked; of more, the latest
_OPEN_TAIL = 0.9  # of the window: a thread whose last wait is longer took no part in it
_WHOLE_RUN = 0.8  # of the window: one wait that is as long is for the end of it
_DYING_NS = 5_000_000  # from a signal of another process to the end of a thread
_LAST_PIECES = 16
_RAN_THERE = 0.01  # of the time: less is a thread that was just begun, and put elsewhere
_VISITED = 0.02  # of a role's progress, that another one's doing made up


class Cause:
    """What a piece of progress was spent on."""

    RUN = "run"
    RUNNABLE = "runnable"
    DISK = "disk"
    TIMER = "timer"
    QUOTA = "quota"
    STOPPED = "stopped"
    NETWORK = "network"
    OUTSIDE = "outside"
    OPEN = "open"
    UNSEEN = "unseen"


_CAUSES = (
    Cause.RUN,
    Cause.RUNNABLE,
    Cause.DISK,
    Cause.TIMER,
    Cause.QUOTA,
    Cause.STOPPED,
    Cause.NETWORK,
    Cause.OUTSIDE,
    Cause.OPEN,
    Cause.UNSEEN,
)
_OF_PIECE = np.full(64, _CAUSES.index(Cause.OPEN), np.int64)
for _piece, _cause in (
    (Piece.RUNNING, Cause.RUN),
    (Piece.RUNNABLE, Cause.RUNNABLE),
    (Piece.UNSEEN, Cause.UNSEEN),
    (Piece.OUTSIDE, Cause.OUTSIDE),
    (Piece.NETWORK, Cause.NETWORK),
    (Piece.OPEN, Cause.OPEN),
    (Piece.WAIT + Wait.DISK, Cause.DISK),
    (Piece.WAIT + Wait.SYNC, Cause.DISK),
    (Piece.WAIT + Wait.FAULT, Cause.DISK),
    (Piece.WAIT + Wait.IO_URING, Cause.DISK),
    (Piece.WAIT + Wait.TIMER, Cause.TIMER),
    (Piece.WAIT + Wait.THROTTLED, Cause.QUOTA),
    (Piece.WAIT + Wait.STOPPED, Cause.STOPPED),
):
    _OF_PIECE[_piece] = _CAUSES.index(_cause)


@dataclass(frozen=True)
class Blame:
    """The progress of the program, by block.

    Attributes:
        shares: array (block, thread, cause): weighted time, every block's sum is the weight that it covers.
        causes: names of the last axis.
        locks: futex -> array (block,): progress that waited for its holder.
        lock_run: the same, of it what the holder ran or waited for by itself.
        pieces: (start thread, weight, its pieces).
        foreign: share of the runnable progress's time on the CPUs that it uses that went to strangers.
        stranger: tid -> share of these CPUs' time in the runnable progress.
        idle: share of the runnable progress's time in which a woken thread waited for an idle CPU.
        weight: of each thread that was started from.
        outside: (wait, object) -> weighted time of NETWORK and OUTSIDE.
        disk: (wait, object) -> weighted time of DISK.
    """

    shares: Array
    causes: tuple[str, ...]
    locks: dict[int, Array]
    pieces: tuple[tuple[int, float, Array], ...]
    foreign: float
    stranger: dict[int, float]
    idle: float
    outside: dict[tuple[int, int, int], float]
    disk: dict[tuple[int, int, int], float]
    begin: int
    end: int
    changes: int

    def share(self, cause: str, threads: Sequence[int] | None = None) -> Array:
        """Weighted time of a cause in each block."""
        column = self.shares[:, :, self.causes.index(cause)]
        chosen = column if threads is None else column[:, list(threads)]
        return np.asarray(chosen.sum(axis=1))

    @property
    def total(self) -> float:
        """All weighted time."""
        return float(self.shares.sum())


def blame_of(
    schedule: Schedule,
    tracks: Sequence[Track],
    groups: Sequence[Group],
    skip: frozenset[int],
    words: Mapping[int, Word] | None = None,
) -> Blame:
    """Walk back from threads of all roles.

    Args:
        skip: threads that spin, and those of other programs: their time is not our progress.
        words: the futex words; what runs while it holds a lock that others wait for is the lock's, too.
    """
    end = schedule.ended_ns
    begin = max(schedule.began_ns, _window_begin(tracks, schedule.began_ns))
    parents = [thread.parent for thread in schedule.threads]
    edges = np.linspace(begin, end, BLOCKS + 1)
    shares = np.zeros((BLOCKS, len(tracks), len(_CAUSES)))
    locks: dict[int, Array] = {}
    pieces = []
    outside: dict[tuple[int, int, int], float] = {}
    disk: dict[tuple[int, int, int], float] = {}
    runnable = []
    changes = 0
    holders = _holders(words or {})
    processes = [thread.pid for thread in schedule.threads]
    for thread, time, weight in _starts(tracks, groups, begin, end, skip, processes):
        for start, low, high in _stretches(tracks[thread], edges, begin, time):
            path = walk(tracks, parents, thread, start, low)
            found = _until(path.array(), high)
            if not found.size:
                continue
            changes += len(path.changes)
            pieces.append((thread, weight, found))
            cause = _OF_PIECE[found["what"]]
            cell = found["thread"].astype(np.int64) * len(_CAUSES) + cause
            first = max(0, int(np.searchsorted(edges, found["begin"].min(), side="right")) - 1)
            behind = min(BLOCKS, int(np.searchsorted(edges, found["end"].max(), side="left")))
            for block in range(first, behind):
                spent = np.minimum(found["end"], edges[block + 1]) - np.maximum(found["begin"], edges[block])
                near = spent > 0
                if not near.any():
                    continue
                amount = spent[near] * weight
                shares[block] += np.bincount(cell[near], amount, len(tracks) * len(_CAUSES)).reshape(
                    len(tracks), len(_CAUSES)
                )
                _held(locks, holders, found, near, amount, weight, edges, block)
            names = np.array(_CAUSES)[cause]
            _gather(outside, found, weight, (names == Cause.OUTSIDE) | (names == Cause.NETWORK))
            _gather(disk, found, weight, names == Cause.DISK)
            runnable.append((weight, found[names == Cause.RUNNABLE]))
    foreign, stranger = _who_had_the_cpus(schedule, runnable)
    idle = _idle(schedule, runnable)
    return Blame(
        shares, _CAUSES, locks, tuple(pieces), foreign, stranger, idle, outside, disk, begin, end, changes
    )


def lines_of(blame: Blame, roles: Sequence[Role]) -> list[tuple[frozenset[int], float]]:
    """(roles, share of all weight) of the parts of a program that depend on nothing of each other.

    Two roles are of one part when what one of them did depended on the other for a share of its time.
    """
    role_of = {thread: index for index, role in enumerate(roles) for thread in role.threads}
    first = list(range(len(roles)))

    def root(role: int) -> int:
        while first[role] != role:
            role = first[role]
        return role

    spent = np.zeros((len(roles), len(roles)))  # of the progress of a role, on what roles did
    for start, weight, found in blame.pieces:
        for thread, time in enumerate(np.bincount(found["thread"], found["end"] - found["begin"]).tolist()):
            if time:
                spent[role_of[start], role_of[thread]] += weight * time
    weights = spent.sum(axis=1)
    for mine, other in np.argwhere(spent > _VISITED * weights[:, None]).tolist():
        low, high = sorted((root(mine), root(other)))
        first[high] = low
    parts: dict[int, set[int]] = {}
    for index in range(len(roles)):
        parts.setdefault(root(index), set()).add(index)
    whole = max(1e-9, float(weights.sum()))
    lines = [(frozenset(one), float(weights[list(one)].sum()) / whole) for one in parts.values()]
    return sorted((line for line in lines if line[1] > 0), key=lambda line: -line[1])


def _stretches(track: Track, edges: Array, begin: int, time: int) -> list[tuple[int, int, int]]:
    """(where to walk from, where to, until when it counts): block by block of a thread's time, latest first.

    A thread speaks for every block, not only for the last one: what it depends on at its very end, such as
    who is joined, is not what all of its time depended on. One wait over several blocks is one stretch; its
    end says what it was for.
    """
    found: list[tuple[int, int, int]] = []
    for block in range(len(edges) - 2, -1, -1):
        low, high = int(edges[block]), min(int(edges[block + 1]), time)
        if high <= max(low, begin):
            continue
        start = high
        i = track.at(high)
        if i >= 0 and track.state[i] == State.BLOCKED and track.begin[i] < high < track.end[i] <= time:
            start = track.end[i]
        if found and found[-1][0] == start:
            found[-1] = (start, low, found[-1][2])
        else:
            found.append((start, low, high))
    return found


def _until(found: Array, time: int) -> Array:
    """The pieces before a time."""
    found = found[found["begin"] < time]
    found["end"] = np.minimum(found["end"], time)
    return found


def _held(
    locks: dict[int, Array],
    holders: Mapping[int, Sequence[tuple[int, Any]]],
    found: Array,
    near: Array,
    amount: Array,
    weight: float,
    edges: Array,
    block: int,
) -> None:
    """Add what a block's pieces waited for the holders of locks."""
    locked = found["lock"][near]
    for lock in np.unique(locked[locked >= 0]).tolist():
        locks.setdefault(lock, np.zeros(BLOCKS))[block] += amount[locked == lock].sum()
    free = near & (found["lock"] < 0)
    for who in np.unique(found["thread"][free]).tolist():
        if who not in holders:
            continue
        rows = found[free & (found["thread"] == who)]
        low = np.maximum(rows["begin"], edges[block])
        high = np.minimum(rows["end"], edges[block + 1])
        for lock, held in holders[who]:
            spent = float((held(high) - held(low)).sum()) * weight
            locks.setdefault(lock, np.zeros(BLOCKS))[block] += spent


def _holders(words: Mapping[int, Word]) -> dict[int, list[tuple[int, Any]]]:
    """By thread: (lock, time -> how long the thread has held it until then while others waited)."""
    found: dict[int, list[tuple[int, Any]]] = {}
    for word in words.values():
        if not word.lock:
            continue
        for thread, times in word.holds.items():
            begin, end = np.array(times, np.int64).T
            # One release may end several waits: the times of one thread may overlap.
            begin = np.maximum(begin, np.concatenate([[begin[0]], np.maximum.accumulate(end)[:-1]]))
            found.setdefault(thread, []).append((word.key, _sums(begin, np.maximum(begin, end))))
    return found


def _gather(into: dict[tuple[int, int, int], float], found: Array, weight: float, mask: Array) -> None:
    rows = found[mask]
    if not rows.size:
        return
    keys = np.stack([rows["thread"], rows["what"], rows["object"]], axis=1).astype(np.int64)
    unique, which = np.unique(keys, axis=0, return_inverse=True)
    spent = np.bincount(which.ravel(), (rows["end"] - rows["begin"]) * weight)
    for key, amount in zip(unique.tolist(), spent.tolist(), strict=True):
        one = (key[0], key[1], key[2])
        into[one] = into.get(one, 0.0) + amount


def _window_begin(tracks: Sequence[Track], began: int) -> int:
    total = sum(len(track.begin) for track in tracks)
    if total <= _MOST_INTERVALS:
        return began
    begins = np.concatenate([np.asarray(track.begin) for track in tracks])
    return int(np.partition(begins, total - _MOST_INTERVALS)[total - _MOST_INTERVALS])


def _starts(
    tracks: Sequence[Track],
    groups: Sequence[Group],
    begin: int,
    end: int,
    skip: frozenset[int],
    processes: Sequence[int],
) -> list[tuple[int, int, float]]:
    """(thread, time to walk back from, weight): every role speaks, by how much it takes part.

    A role takes part by what it runs and by what it waits for others; one that only sleeps by itself, or
    waits for one thing all the time, such as who waits for the end of the run, has hardly a voice.

    Args:
        processes: of each thread.
    """
    voices = []
    for group in groups:
        members = []
        for thread in group.threads:
            track = tracks[thread]
            if thread in skip or not track.begin:
                continue
            time = _last(track, processes, thread)
            if time - begin < (1 - _OPEN_TAIL) * (end - begin):
                continue
            members.append((_part(track, begin, end), thread, time))
        if not members:
            continue
        members.sort(reverse=True)
        weight = sum(part for part, _, _ in members) / len(members)
        chosen = members[: 3 if len(groups) <= _MOST_STARTS // 3 else 1]
        whole = sum(part for part, _, _ in chosen)
        for part, thread, time in chosen:
            voices.append((thread, time, min(1.0, weight) * part / whole))
    voices.sort(key=lambda voice: -voice[2])
    voices = voices[:_MOST_STARTS]
    total = sum(weight for _, _, weight in voices)
    return [(thread, time, weight / total) for thread, time, weight in voices] if total > 0 else []


def _last(track: Track, processes: Sequence[int], thread: int) -> int:
    """When a thread's last own business ended: what it still waited for then is not what it depended on."""
    last = len(track.begin) - 1
    if track.state[last] == State.BLOCKED and not _ended(track, last):
        return int(track.begin[last])
    for i in range(last, max(-1, last - _LAST_PIECES), -1):
        if track.end[last] - track.end[i] > _DYING_NS:
            break
        waker = track.waker[i]
        killed = track.wait[i] not in (Wait.CHILD, Wait.PIPE, Wait.SOCKET, Wait.POLL, Wait.EVENTFD)
        if (
            track.state[i] == State.BLOCKED
            and waker >= 0
            and processes[waker] != processes[thread]
            and killed
        ):
            return int(track.begin[i])  # a signal of another process ended it
    return int(track.end[last])


def _ended(track: Track, i: int) -> bool:
    """Whether the end of the last wait was seen, and not only that of the observation."""
    return track.waker[i] >= 0 or track.source[i] not in (Source.UNKNOWN, Source.THREAD)


def _part(track: Track, begin: int, end: int) -> float:
    time = np.asarray(track.end) - np.maximum(np.asarray(track.begin), begin)
    blocked = np.asarray(track.state) == State.BLOCKED
    by_thread = (np.asarray(track.source) == Source.THREAD) & (np.asarray(track.waker) >= 0)
    by_thread |= np.isin(track.wait, (Wait.DISK, Wait.SYNC, Wait.THROTTLED))
    counts = (time > 0) & (~blocked | (by_thread & (time <= _WHOLE_RUN * (end - begin))))
    return _LEAST_WEIGHT + float(time[counts].sum()) / max(1, end - begin)


def used_cpus(schedule: Schedule) -> list[int]:
    """Those on which the program's threads ran; a moment, as of one that was just begun, is none."""
    rows = schedule.intervals
    rows = rows[(rows["state"] == State.RUNNING) & (rows["cpu"] >= 0)]
    ran = np.bincount(rows["cpu"], weights=rows["end"] - rows["begin"]) / 1e9 / schedule.seconds
    return [int(one) for one in np.flatnonzero(ran > _RAN_THERE)]


def _who_had_the_cpus(
    schedule: Schedule, runnable: Sequence[tuple[float, Array]]
) -> tuple[float, dict[int, float]]:
    """While progress waited for a CPU: the share of the CPUs' time that strangers had, and which.

    Of those CPUs that its threads use: who has another one, which an affinity keeps them from, takes
    nothing from them.
    """
    used = used_cpus(schedule) or list(schedule.cpus)
    cpus = max(1, len(used))
    foreign = schedule.foreign[np.isin(schedule.foreign["cpu"], used)]
    total = sum(weight * float((rows["end"] - rows["begin"]).sum()) for weight, rows in runnable)
    if total <= 0 or not foreign.size:
        return 0.0, {}
    by_tid: dict[int, float] = {}
    for tid in np.unique(foreign["tid"]).tolist():
        if tid <= 0:
            continue
        spent = 0.0
        turns = foreign[foreign["tid"] == tid]
        for cpu in np.unique(turns["cpu"]).tolist():
            had = _cumulated(turns[turns["cpu"] == cpu])
            for weight, rows in runnable:
                if rows.size:
                    spent += weight * float((had(rows["end"]) - had(rows["begin"])).sum())
        if spent > 0:
            by_tid[tid] = spent / (total * cpus)
    return sum(by_tid.values()), by_tid


def _idle(schedule: Schedule, runnable: Sequence[tuple[float, Array]]) -> float:
    """While progress waited for a CPU: the share of that time in which a woken thread waited for an idle one.

    The idle CPU has to wake up itself first, which takes that of a virtual machine some 20 µs.
    """
    rows = schedule.intervals
    woken = rows["state"] == State.RUNNABLE
    woken[1:] &= (rows["state"][:-1] == State.BLOCKED) & (rows["thread"][:-1] == rows["thread"][1:])
    waits = rows[woken]
    keys = _key(waits, schedule.began_ns)
    own = rows[rows["state"] == State.RUNNING]
    turns = (own, schedule.foreign)  # who observes would not be there
    cpu, begin, end = (np.concatenate([one[name] for one in turns]) for name in ("cpu", "begin", "end"))
    busy = {}
    for number in np.unique(waits["cpu"][waits["cpu"] >= 0]).tolist():
        here = np.flatnonzero(cpu == number)
        here = here[np.argsort(begin[here], kind="stable")]
        busy[number] = _sums(begin[here], end[here]) if here.size else lambda at: 0.0 * at
    total = idle = 0.0
    for weight, pieces in runnable:
        total += weight * float((pieces["end"] - pieces["begin"]).sum())
        at = np.searchsorted(keys, _key(pieces, schedule.began_ns), side="right") - 1
        found = at >= 0
        if len(waits):
            found &= (waits["thread"][at] == pieces["thread"]) & (waits["end"][at] > pieces["begin"])
        for number, had in busy.items():
            here = pieces[found & (waits["cpu"][at] == number)]
            time = here["end"] - here["begin"]
            idle += weight * float((time - np.minimum(time, had(here["end"]) - had(here["begin"]))).sum())
    return idle / total if total > 0 else 0.0


def _key(rows: Array, began: int) -> Array:
    """Of threads' intervals, in their order: by thread, then by time (ns, up to three days)."""
    return (rows["thread"].astype(np.int64) << 48) | np.maximum(0, rows["begin"].astype(np.int64) - began)


def _cumulated(turns: Array) -> Any:
    """A function of time: how long these turns took until then."""
    assert turns.dtype == FOREIGN
    order = np.argsort(turns["begin"])
    return _sums(turns["begin"][order], turns["end"][order])


def _sums(begin: Array, end: Array) -> Any:
    times = np.stack([begin, end], axis=1).ravel()
    taken = np.cumsum(end - begin)
    values = np.stack([taken - (end - begin), taken], axis=1).ravel()
    times = np.maximum.accumulate(times)
    return lambda at: np.interp(at, times, values, left=0.0, right=float(taken[-1]))


assert PIECE.names is not None
