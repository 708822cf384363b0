"""Spinning as waiting: what a thread runs in a loop that only looks is waiting for who ends that loop.

The kernel sees such a thread run. Samples of its stack tell when it spun, and whoever works at the end of a
stretch of it has changed what it looked at. Where several work then, it is the one that is seen there nearly
each time, and less while the spinning thread works. Where nothing tells them apart the end is not seen.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.threads._code import spins_in
from latlab.threads._tracks import Track

__all__ = ["with_spins", "with_waits"]

Array = np.ndarray[Any, Any]

_LEAST_SAMPLES = 20
_LEAST = 0.05  # of a thread's running samples, that spin: fewer change nothing
_NEAR_NS = 2_500_000  # from one sample to the next, and some: so much two threads' stretches are uncertain
_TELLS = 0.15  # by so much more often one of those that may have ended it is seen there
_ITSELF = (Wait.TIMER, Wait.DISK, Wait.SYNC, Wait.POLL, Wait.SOCKET, Wait.PIPE, Wait.EVENTFD)
_COLUMNS = ("begin", "end", "state", "wait", "source", "waker", "object", "sample")


@dataclass(frozen=True)
class _Thread:
    """What is known of one: its stretches of spinning, and of work (it runs, or would if it had a CPU).

    Attributes:
        spun, works: arrays (stretch, 2) of begin and end.
        at_work: times of its samples that don't spin.
    """

    spun: Array
    works: Array
    at_work: Array

    def worked_until(self, times: Array) -> Array:
        """Up to each of these times, when it worked last; long ago where it never did."""
        if not len(self.works):
            return np.full(len(times), np.iinfo(np.int64).min // 2)
        at = np.searchsorted(self.works[:, 0], times, "left") - 1
        last = np.minimum(times, self.works[np.maximum(at, 0), 1])
        return np.where(at >= 0, last, np.iinfo(np.int64).min // 2)


def with_spins(
    schedule: Schedule,
    tracks: Sequence[Track],
    role_of: Mapping[int, int],
    skip: frozenset[int] = frozenset(),
) -> list[Track]:
    """The tracks with intervals of `Wait.SPIN` where their threads spun while another one worked.

    A stretch in which nobody else of the process works stays what the kernel says: the thread runs.

    Args:
        skip: threads that stay as they are: a runtime's own, which spin for themselves.
    """
    samples = schedule.samples[schedule.samples["running"] == 1]
    if not samples.size:
        return list(tracks)
    spins = spins_in(schedule)[samples["stack"]]
    if not spins.any():
        return list(tracks)
    known = {}
    for track in tracks:
        mine = samples["thread"] == track.thread
        known[track.thread] = _seen(track, samples["time"][mine], spins[mine])
    pids = [thread.pid for thread in schedule.threads]
    out = []
    for track in tracks:
        one = known[track.thread]
        if not len(one.spun) or track.thread in skip:
            out.append(track)
            continue
        others = [other for other in known if other != track.thread and pids[other] == pids[track.thread]]
        out.append(_moved(track, one, {other: known[other] for other in others}, tracks, role_of))
    return out


def _seen(track: Track, times: Array, spins: Array) -> _Thread:
    state = np.asarray(track.state)
    begin, end = np.asarray(track.begin, np.int64), np.asarray(track.end, np.int64)
    # What follows each other without a wait is one stretch; a preempted thread goes on where it was.
    awake = np.isin(state, (State.RUNNING, State.RUNNABLE))
    first = np.flatnonzero(awake & ~np.concatenate([[False], awake[:-1]]))
    last = np.flatnonzero(awake & ~np.concatenate([awake[1:], [False]]))
    whole = np.stack([begin[first], end[last]], axis=1)
    at_work = times[~spins]
    if len(times) < _LEAST_SAMPLES or spins.mean() < _LEAST:
        return _Thread(_pairs([]), whole, at_work)
    on_cpu = state == State.RUNNING
    # Of all stretches at once: a thread that waits for moments only has a million of them.
    at, ran = _ran_until(begin[on_cpu], end[on_cpu])
    spun: list[tuple[int, int]] = []
    worked: list[tuple[int, int]] = []
    for (low, high), (i, j) in zip(whole.tolist(), np.searchsorted(times, whole).tolist(), strict=True):
        inside = spins[i:j]  # none of a stretch without a sample
        changes = i + 1 + np.flatnonzero(inside[1:] != inside[:-1])
        between = _half_way(at, ran, times[changes - 1], times[changes])
        edges = [low, *np.clip(between, low, high).astype(np.int64).tolist(), high]
        spin = bool(i < j and spins[i])
        for a, b in itertools.pairwise(edges):
            if b > a:
                (spun if spin else worked).append((a, b))
            spin = not spin
    return _Thread(_pairs(spun), _pairs(worked), at_work)


def _ran_until(begin: Array, end: Array) -> tuple[Array, Array]:
    """The times at which a thread got and left a CPU, and how long it had run by then."""
    taken = np.cumsum(end - begin)
    at = np.stack([begin, end], axis=1).ravel().astype(float)
    return at, np.stack([taken - (end - begin), taken], axis=1).ravel().astype(float)


def _half_way(at: Array, ran: Array, before: Array, after: Array) -> Array:
    """The middle between two times, of the time that a thread ran; by what `_ran_until` tells."""
    if not len(before):
        return before
    middle = (np.interp(before, at, ran) + np.interp(after, at, ran)) / 2
    return np.asarray(np.interp(middle, ran, at))


def _moved(
    track: Track, mine: _Thread, others: Mapping[int, _Thread], tracks: Sequence[Track],
    role_of: Mapping[int, int],
) -> Track:  # fmt: skip
    """The track with its stretches of spinning as waits for who ended them."""
    ends = mine.spun[:, 1]
    last = {other: one.worked_until(ends) for other, one in others.items()}
    # Samples tell the ends of two threads' stretches each for itself.
    works = {other: here > ends - _NEAR_NS for other, here in last.items()}
    # Who works at nearly every end, and less while this one works, is whom it waits for.
    tells = {
        other: float(here.mean())
        + float(here.mean() - _mean(others[other].worked_until(mine.at_work) == mine.at_work))
        for other, here in works.items()
    }
    waits: list[tuple[int, int, int, int]] = []
    for row, (begin, end) in enumerate(mine.spun.tolist()):
        able = [other for other, here in works.items() if here[row]]
        able = able or [other for other in others if _woke_by_itself(tracks[other], end)]
        if not able:
            continue
        waker = _one_of(able, tells, role_of, others, end)
        end = min(end, int(last[waker][row])) if waker >= 0 and works[waker][row] else end
        if end > begin:
            waits.append((begin, end, waker, -1))
    return with_waits(track, waits, Wait.SPIN)


def _one_of(
    able: Sequence[int], tells: Mapping[int, float], role_of: Mapping[int, int],
    others: Mapping[int, _Thread], end: int,
) -> int:  # fmt: skip
    """Who ended a stretch, of those that worked then; -1 where nothing tells."""
    best = max(able, key=lambda one: tells[one])
    near = [one for one in able if tells[one] > tells[best] - _TELLS]
    if len({role_of[one] for one in near}) > 1:
        return -1
    # Of threads that do the same the last one lets go, and has done its work then.
    return min(near, key=lambda one: _until(others[one].works, end))


def _until(stretches: Array, time: int) -> int:
    """When the stretch ends that holds a time; of none the time itself."""
    at = int(np.searchsorted(stretches[:, 0], time, "left")) - 1
    return max(time, int(stretches[at, 1])) if at >= 0 else time


def _woke_by_itself(track: Track, time: int) -> bool:
    """Whether a thread came out of a wait that no other one ended, just before this or after it."""
    at = track.at(time)
    for i in (at - 1, at):
        if i < 0 or track.state[i] != State.BLOCKED or track.wait[i] not in _ITSELF:
            continue
        if abs(track.end[i] - time) < _NEAR_NS and (track.source[i] != Source.THREAD or track.waker[i] < 0):
            return True
    return False


def with_waits(track: Track, waits: Sequence[tuple[int, int, int, int]], kind: Wait) -> Track:
    """The track with waits in place of what it did then, by time: (begin, end, who ended it, object)."""
    if not waits:
        return track
    rows: list[tuple[int, ...]] = [
        (begin, end, int(State.BLOCKED), int(kind), int(Source.THREAD if waker >= 0 else Source.UNKNOWN),
         waker, item, -1)
        for begin, end, waker, item in waits
    ]  # fmt: skip
    spun, at = 0, 0
    running = int(State.RUNNING)
    for begin, end, state, *rest in zip(*(getattr(track, name) for name in _COLUMNS), strict=True):
        while at < len(waits) and waits[at][1] <= begin:
            at += 1
        low, k = begin, at
        while k < len(waits) and waits[k][0] < end:
            if waits[k][0] > low:
                rows.append((low, waits[k][0], state, *rest))
            spun += min(end, waits[k][1]) - max(low, waits[k][0]) if state == running else 0
            low = max(low, waits[k][1])
            k += 1
        if low < end:
            rows.append((low, end, state, *rest))
    rows.sort()
    return Track(
        track.thread,
        *(list(column) for column in zip(*rows, strict=True)),
        looks=track.looks,
        spun=track.spun + spun,
    )


def _pairs(stretches: Sequence[tuple[int, int]]) -> Array:
    return np.array(stretches, np.int64).reshape(-1, 2)


def _mean(seen: Array) -> float:
    return float(seen.mean()) if len(seen) else 0.0
