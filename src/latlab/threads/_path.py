"""The chain of waiting, walked backwards: what a thread's time depended on, to its root.

A thread that was blocked until another thread woke it depended on that one in this time, and on whatever that
one depended on in turn. Walking from a thread's last moment backwards and changing to the waker at each
wake-up gives a path that covers the time without a gap; a victim hands the blame on to its culprit. The
idea of cascading a wait to those who were waited for is that of wPerf (Zhou et al., OSDI 2018); the path is
the critical path of a parallel program (Yang and Miller, 1988).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latlab.model.schedule import Source, State, Wait
from latlab.threads._tracks import LOCKABLE, Track

__all__ = ["Piece", "Step", "Walk", "walk"]

_MOST_STANDSTILLS = 64  # changes of thread at one moment: a circle of stamps that contradict each other


@dataclass(slots=True)
class Walk:
    """A path, latest piece first.

    Attributes:
        pieces: rows of PIECE.
        changes: (waker, wakee, wait kind, object) of each change of thread.
    """

    pieces: list[tuple[int, ...]] = field(default_factory=list)
    changes: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    def add(self, thread: int, what: int, begin: int, end: int, item: int, lock: int, waiter: int) -> None:
        """One more piece, before all others in time."""
        self.pieces.append((thread, what, begin, end, item, lock, waiter))

    def array(self) -> np.ndarray[Any, Any]:
        """All pieces as a structured array of PIECE, in the order of time."""
        return np.array(self.pieces, PIECE)[::-1]


PIECE = np.dtype(
    [
        ("thread", np.int32),
        ("what", np.uint8),  # as `Piece`
        ("begin", np.int64),
        ("end", np.int64),
        ("object", np.int64),  # of the wait in it, -1 without
        (
            "lock",
            np.int64,
        ),  # the futex for whose waiter the path came here, while that waited; or -1
        ("lock_waiter", np.int32),  # that waiter's thread
    ]
)


class Piece:
    """What a piece of the path is; the numbers of `Wait` shifted, so that both fit into one column."""

    RUNNING = 0
    RUNNABLE = 1
    UNSEEN = 2
    OUTSIDE = 3  # ended by a thread that was not observed
    NETWORK = 4
    OPEN = 5  # a wait whose end was not seen
    WAIT = 16  # + Wait: a wait that ended by itself: disk, timer, quota …


Step = tuple[int, int]
_BY_ITSELF = frozenset(
    (Wait.DISK, Wait.SYNC, Wait.FAULT, Wait.TIMER, Wait.THROTTLED, Wait.STOPPED, Wait.IO_URING)
)
_OF_OTHERS = frozenset((Wait.DISK, Wait.SYNC, Wait.FAULT, Wait.IO_URING))


def walk(
    tracks: Sequence[Track], parents: Sequence[int], start: int, end: int, begin: int, most: int = 2_000_000
) -> Walk:
    """The path of `start` from `end` back to `begin`.

    Args:
        parents: of each thread the one that made it in the observed time, -1 else.
        most: pieces at most; the rest of the time is UNSEEN.
    """
    path = Walk()
    thread, time = start, end
    lock, lock_until, waiter = -1, end, -1  # valid above lock_until
    standstill, looked = 0, False
    while time > begin and len(path.pieces) < most:
        track = tracks[thread]
        i = track.at(time)
        if i < 0:
            parent = parents[thread]
            if parent < 0 or standstill > _MOST_STANDSTILLS:
                break
            path.changes.append((parent, thread, Wait.NONE, -1, time))
            thread = parent
            standstill += 1
            continue
        low = max(track.begin[i], begin)
        high = min(time, track.end[i])
        if high < time:  # a hole between two intervals
            path.add(thread, Piece.UNSEEN, high, time, -1, -1, -1)
            time = high
            continue
        state = track.state[i]
        if state == State.BLOCKED and track.end[i] == time:
            wait, source, waker = track.wait[i], track.source[i], track.waker[i]
            by_thread = source in (Source.THREAD, Source.NETWORK) and waker >= 0 and waker != thread
            # What another thread of the program ended is none: of a file it held the kernel's lock.
            own = wait in _BY_ITSELF and wait not in _OF_OTHERS
            if by_thread and not own and standstill < _MOST_STANDSTILLS:
                path.changes.append((waker, thread, wait, track.object[i], time))
                looked = wait == Wait.LOOK
                if wait in LOCKABLE:
                    lock, lock_until, waiter = track.object[i], low, thread
                elif wait != Wait.CHILD:  # who waits for its own child holds the lock for what that one does
                    lock = -1
                thread = waker
                standstill += 1
                continue
            what = _ended_by_itself(wait, source, waker)
        elif state == State.BLOCKED and looked and track.waker[i] >= 0 and standstill < _MOST_STANDSTILLS:
            # Who looks at one that waits itself waits for the same.
            thread = track.waker[i]
            standstill += 1
            continue
        elif state == State.BLOCKED:
            what = Piece.WAIT + track.wait[i] if track.wait[i] in _BY_ITSELF else Piece.OPEN
        else:
            what = (Piece.RUNNING, Piece.RUNNABLE, Piece.RUNNABLE, Piece.UNSEEN)[state]
        standstill, looked = 0, False
        item = track.object[i]
        if lock >= 0 and lock_until < time:
            if lock_until > low:
                path.add(thread, what, lock_until, time, item, lock, waiter)
                time = lock_until
                lock = -1
                if time > low:
                    path.add(thread, what, low, time, item, -1, -1)
            else:
                path.add(thread, what, low, time, item, lock, waiter)
        else:
            lock = -1
            path.add(thread, what, low, time, item, -1, -1)
        time = low
    if time > begin:
        path.add(thread, Piece.UNSEEN, begin, time, -1, -1, -1)
    return path


def _ended_by_itself(wait: int, source: int, waker: int) -> int:
    if wait == Wait.IO_URING and source == Source.NETWORK:
        return Piece.NETWORK
    if wait == Wait.IO_URING and source == Source.TIMER:
        return Piece.WAIT + Wait.TIMER
    if wait in _BY_ITSELF:
        return Piece.WAIT + wait
    if source == Source.TIMER:
        return Piece.WAIT + Wait.TIMER
    if source == Source.NETWORK:
        return Piece.NETWORK
    if source == Source.DISK:
        return Piece.WAIT + Wait.DISK
    if source == Source.THREAD and waker < 0:
        return Piece.OUTSIDE
    return Piece.UNSEEN if source == Source.UNKNOWN else Piece.OUTSIDE
