"""Looks between sleeps: who sleeps until something has happened waits for who makes it happen.

The kernel sees sleeps that end by themselves. Where nothing comes of most, and something comes of those
in which another thread has just ended what it did, it was that one that was waited for: only what was still
slept after that is a sleep of its own. A thread that sleeps so however far the others are is left as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.threads._tracks import IN_VAIN, LOCKABLE, Track
from latlab.threads.spins.waits import with_waits

__all__ = ["with_looks"]

Array = np.ndarray[Any, Any]

_FEWEST = 5  # stretches of sleeps of which nothing came but of the last one
_USUAL = 0.5  # of the stretches, that are of several sleeps
_MANY, _SAME = (
    40,
    0.95,
)  # stretches, and the share of them with one number of sleeps: of fewer it may be chance
_WAITS_ITSELF = 0.4  # of its life, for the thread that sleeps: then it is not what that one waits for
_SLEPT = 0.05  # of the time: a thread that sleeps less so is left as it is
_LOOKED = 0.5  # of the sleep before it, that a look may take
_LOCKED_NS = 20_000_000  # that a look may wait for the lock under which it looks, as the interpreter's
_ENDS = 0.8  # of the stretches, in whose last sleep who is waited for ends what it does …
_TELLS = 0.5  # … by so much more often than in the sleeps before
_AS_LONG = 0.5  # of the last sleep: in a shorter one who is waited for may not have ended by chance
_AS_OFTEN = 0.1  # by which two differ of which either may have been waited for


class _Stretch(NamedTuple):
    """Sleeps one after the other, with looks between them of which nothing came: rows of the track."""

    sleeps: list[int]

    def windows(self, track: Track) -> list[tuple[int, int]]:
        """Of each sleep the time in which what the look behind it sees has happened."""
        ends = [track.end[one] for one in self.sleeps]
        return list(zip([track.begin[self.sleeps[0]], *ends[:-1]], ends, strict=True))

    def in_vain(self, track: Track) -> list[tuple[int, int]]:
        """The windows of those of which nothing came, and that are about as long as that of the last one."""
        *others, (begin, end) = self.windows(track)
        return [one for one in others if one[1] - one[0] >= _AS_LONG * (end - begin)]


class _Done(NamedTuple):
    """When some threads ended what they did, and which of them each time; in the order of time."""

    times: Array
    threads: Array

    def in_(self, windows: Sequence[tuple[int, int]]) -> float:
        """The share of these times, each without its begin, in which one of them ended what it did."""
        spans = np.array(windows, np.int64)
        first = np.searchsorted(self.times, spans[:, 0], "right")
        return float((first < np.searchsorted(self.times, spans[:, 1], "right")).mean())


def with_looks(schedule: Schedule, tracks: Sequence[Track], role_of: Mapping[int, int]) -> list[Track]:
    """The tracks with the sleeps of those that look by turns as waits, `Wait.LOOK`, for whom they look at."""
    if not schedule.wakes.size:
        return list(tracks)
    out = []
    for track in tracks:
        sleeps = _sleeps(track)
        if not len(sleeps):
            out.append(track)
            continue
        words = {
            word
            for word, state, wait in zip(track.object, track.state, track.wait, strict=True)
            if state == State.BLOCKED and wait in LOCKABLE
        }
        found = _stretches(track, sleeps, _acts(schedule, track, tracks, words))
        several = sum(bool(one.in_vain(track)) for one in found)
        told = several >= max(_FEWEST, _USUAL * len(found)) and not _by_count(found)
        done = _looked_at(schedule, track, found, tracks, role_of, words) if told else None
        out.append(track if done is None else _moved(track, found, done))
    return out


def _by_count(found: Sequence[_Stretch]) -> bool:
    """Whether it is a clock: it does something after a fixed number of sleeps, whatever others have done."""
    often = Counter(len(one.sleeps) for one in found).most_common(1)[0][1]
    return len(found) >= _MANY and often >= _SAME * len(found)


def _sleeps(track: Track) -> Array:
    """Rows of its plain sleeps, where they matter. Who waits for events with a time-out waits for these."""
    slept = (np.array(track.state) == State.BLOCKED) & (np.array(track.wait) == Wait.TIMER)
    slept &= (np.array(track.source) == Source.TIMER) & (np.array(track.object) == -1)
    time = np.array(track.end, np.int64)[slept] - np.array(track.begin, np.int64)[slept]
    rows = np.flatnonzero(slept)
    if len(rows) <= _FEWEST or time.sum() < _SLEPT * (track.end[-1] - track.begin[0]):
        return rows[:0]
    return rows


def _stretches(track: Track, sleeps: Array, acts: Array) -> list[_Stretch]:
    """All but the last one, of which nobody knows whether anything came of it."""
    begin, end = np.array(track.begin, np.int64), np.array(track.end, np.int64)
    state, wait = np.array(track.state), np.array(track.wait)
    last, following = sleeps[:-1], sleeps[1:]

    def between(amount: Array) -> Array:
        """What there is of it between a sleep and the following one."""
        sums = np.concatenate([[0], np.cumsum(amount)])
        return np.asarray(sums[following] - sums[last + 1])

    length = end - begin
    blocked = state == State.BLOCKED
    lock = blocked & np.isin(wait, tuple(LOCKABLE))
    looks = between((blocked & ~lock) | (state == State.UNSEEN)) == 0
    looks &= between(np.where(lock, length, 0)) <= _LOCKED_NS
    looks &= between(np.where(state == State.RUNNING, length, 0)) <= _LOOKED * length[last]
    looks &= np.searchsorted(acts, end[last], "right") == np.searchsorted(acts, begin[following], "right")
    parts = np.split(sleeps, np.flatnonzero(~looks) + 1)
    return [_Stretch(one.tolist()) for one in parts[:-1]]


def _acts(schedule: Schedule, track: Track, tracks: Sequence[Track], words: set[int]) -> Array:
    """When it woke another thread, but for one that waited for a lock that this one takes to look."""
    wakes = schedule.wakes
    mine = wakes[(wakes["waker"] == track.thread) & (wakes["wakee"] != track.thread)]
    if not words:
        return np.asarray(mine["time"], np.int64)
    kept = np.ones(len(mine), bool)
    for i, (time, wakee) in enumerate(zip(mine["time"].tolist(), mine["wakee"].tolist(), strict=True)):
        if wakee < 0:
            continue
        other = tracks[wakee]
        at = other.at(time)
        kept[i] = not (at >= 0 and other.wait[at] in LOCKABLE and other.object[at] in words)
    return np.asarray(mine["time"][kept], np.int64)


def _ends_of(track: Track, words: set[int]) -> Array:
    """When a thread ended what it did: it waits for something but these locks, or is gone."""
    state = np.array(track.state)
    awake = np.isin(state, (State.RUNNING, State.RUNNABLE))
    if words:  # who looks takes the lock from it for a moment
        awake |= np.isin(track.wait, tuple(LOCKABLE)) & np.isin(track.object, tuple(words))
    last = awake & ~np.concatenate([awake[1:], [False]])
    ends: Array = np.array(track.end, np.int64)[last]
    return ends


def _waits_for(track: Track, sleeper: int) -> bool:
    """Whether it is the other way round: as who fills the queue of one that sleeps for each of its items."""
    ended = (np.array(track.state) == State.BLOCKED) & (np.array(track.waker) == sleeper)
    time = np.array(track.end, np.int64) - np.array(track.begin, np.int64)
    return bool(time[ended].sum() >= _WAITS_ITSELF * time.sum())


def _looked_at(
    schedule: Schedule, track: Track, found: Sequence[_Stretch], tracks: Sequence[Track],
    role_of: Mapping[int, int], words: set[int],
) -> _Done | None:  # fmt: skip
    """Who has just ended what it did when something comes of a sleep, and not when nothing does.

    One thread, or all of a role, as of processes of which each does one thing.
    """
    last: list[tuple[int, int]] = []
    vain: list[tuple[int, int]] = []
    for one in found:
        if others := one.in_vain(track):
            last.append(one.windows(track)[-1])
            vain += others
    alone: dict[int, _Done] = {}
    of_role: dict[int, list[_Done]] = {}
    for other in tracks:
        if role_of[other.thread] == role_of[track.thread] or _waits_for(other, track.thread):
            continue
        times = _ends_of(other, words)
        if len(times):
            alone[other.thread] = _Done(times, np.full(len(times), other.thread))
            of_role.setdefault(role_of[other.thread], []).append(alone[other.thread])
    able: list[tuple[float, bool, _Done]] = []
    mine = schedule.threads[track.thread].pid
    for done in [*alone.values(), *(_together(one) for one in of_role.values() if len(one) > 1)]:
        often = done.in_(last)
        tells = often - done.in_(vain)
        if often >= _ENDS and tells >= _TELLS:
            here = all(schedule.threads[one].pid == mine for one in np.unique(done.threads).tolist())
            able.append((tells, here, done))
    best = max((tells for tells, _, _ in able), default=0.0)
    # Who is in the same process hands on what others have done.
    near = [one for one in able if one[0] >= best - _AS_OFTEN]
    return max(near, key=lambda one: (one[1], one[0]))[2] if near else None


def _together(of: Sequence[_Done]) -> _Done:
    times, threads = (np.concatenate(parts) for parts in zip(*of, strict=True))
    order = np.argsort(times, kind="stable")
    return _Done(times[order], threads[order])


def _moved(track: Track, found: Sequence[_Stretch], done: _Done) -> Track:
    """The sleeps as waits for who ends the last of them; the looks between them stay."""
    waits: list[tuple[int, int, int, int]] = []
    for one in found:
        low, high = one.windows(track)[-1]
        at = int(np.searchsorted(done.times, high, "right")) - 1
        begin = track.begin[one.sleeps[-1]]
        if at < 0 or not (until := int(done.times[at])) > low:
            continue
        other = int(done.threads[at])
        waits += [(track.begin[row], track.end[row], other, IN_VAIN) for row in one.sleeps[:-1]]
        if until > begin:
            waits.append((begin, until, other, -1))
    return with_waits(track, waits, Wait.LOOK)
