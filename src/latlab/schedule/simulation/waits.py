"""What each blocked interval waited for, as deeds: another thread's, a time, or an end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.schedule.simulation.steps import Deed, word_of

__all__ = ["Part", "Places", "naps_only", "waits_of"]

Array = np.ndarray[Any, Any]

_POLL_WORK_NS = 200_000  # less work than this between two naps: a loop that only looks whether it may go on
_POLLS = 5  # so many naps make a loop
_LAST_NS = 1_000_000  # from the wake-up that a thread's end is to its end
_BEATS = 0.02  # of its life a heartbeat works at most
_SELDOM = 0.05  # of a thread's waits for others, and of those that it ends
_PERIODIC = 0.25  # of the naps' spread is left in their ends' distances, where a thread keeps a period


@dataclass
class Part:
    """Steps in the making, in any order."""

    thread: Array
    time: Array
    deed: Any
    argument: Any
    rank: int
    wait: Any = 0
    object: Any = -1
    delay: Any = -1


class Places:
    """How much a thread had worked by a time."""

    def __init__(self, schedule: Schedule) -> None:
        rows = schedule.intervals
        self._rows = rows
        self._zero = schedule.began_ns
        self._span = schedule.ended_ns - schedule.began_ns + 2
        self._key = rows["thread"].astype(np.int64) * self._span + (rows["begin"] - self._zero)
        # What was not seen is taken for work: it keeps its time.
        self.works = (rows["state"] == State.RUNNING) | (rows["state"] == State.UNSEEN)
        length = np.where(self.works, rows["end"] - rows["begin"], 0)
        self._before = np.cumsum(length) - length
        self._first = np.searchsorted(rows["thread"], np.arange(len(schedule.threads)))
        self._edges, self._idle = _idle(schedule, rows)

    def idle(self, row: Array) -> Array:
        """For how long a CPU was idle while the thread of an interval was ready; 0 where it was not ready."""
        row = np.minimum(row, len(self._rows) - 1)
        found = self._until(self._rows["end"][row]) - self._until(self._rows["begin"][row])
        return np.where(self._rows["state"][row] == State.RUNNABLE, found, 0)

    def _until(self, time: Array) -> Array:
        return np.asarray(np.rint(np.interp(time, self._edges, self._idle)), np.int64)

    def interval(self, thread: Array, time: Array) -> Array:
        """The row of the interval that a thread is in at a time; -1 before its first."""
        at = (
            np.searchsorted(self._key, thread.astype(np.int64) * self._span + (time - self._zero), "right")
            - 1
        )
        at = np.maximum(at, 0)
        return np.where(self._rows["thread"][at] == thread, at, -1) if len(self._rows) else at - 1

    def work(self, thread: Array, time: Array) -> Array:
        """CPU time since the thread's beginning."""
        at = self.interval(thread, time)
        row = np.maximum(at, 0)
        inside = np.where(
            self.works[row], np.minimum(time, self._rows["end"][row]) - self._rows["begin"][row], 0
        )
        first = np.minimum(self._first[thread], max(len(self._rows) - 1, 0))
        return np.where(at >= 0, self._before[row] + inside - self._before[first], 0)


def _idle(schedule: Schedule, rows: Array) -> tuple[Array, Array]:
    """At these times, for how long at least one CPU had been idle."""
    running = rows[(rows["state"] == State.RUNNING) | (rows["state"] == State.UNSEEN)]
    busy = (running, schedule.foreign, schedule.watching)
    begin = np.concatenate([one["begin"] for one in busy])
    end = np.concatenate([one["end"] for one in busy])
    edges = np.concatenate([[schedule.began_ns], begin, end, [schedule.ended_ns]])
    change = np.concatenate([[0], np.ones(len(begin)), -np.ones(len(end)), [0]])
    order = np.argsort(edges, kind="stable")
    edges, level = edges[order], np.cumsum(change[order])
    idle = (level[:-1] < len(schedule.cpus)) * np.diff(edges)
    return edges, np.concatenate([[0.0], np.cumsum(idle)])


def waits_of(schedule: Schedule, places: Places, blocked: Array, meets: bool) -> list[Part]:
    """Everything that blocks, and the posts that let go.

    Args:
        blocked: rows of the schedule's intervals.
        meets: who ends a wait has waited itself for that one to begin, if it began. So it is at a barrier,
            and where the room between two threads is small; else who is early goes on.
    """
    rows = schedule.intervals[blocked]
    zero = schedule.began_ns
    waker = rows["waker"].astype(np.int64)
    by_thread = (waker >= 0) & np.isin(rows["source"], (Source.THREAD, Source.NETWORK))
    by_thread &= waker != rows["thread"]
    by_thread &= places.interval(np.maximum(waker, 0), rows["end"]) >= 0
    by_thread &= ~_beats(schedule, rows, by_thread)
    slots = np.cumsum(by_thread) - 1  # those that have a use: the simulation allows no more than steps
    length = rows["end"] - rows["begin"]
    timed = (rows["source"] == Source.TIMER) & ~by_thread
    idle_for, join = _polls(schedule, places, rows, timed, by_thread)
    length = np.where(idle_for >= 0, idle_for, length)
    deed = np.where(by_thread, int(Deed.WAIT), int(Deed.SLEEP))
    argument = np.where(by_thread, slots, length)
    periodic = _periodic(rows, timed & (idle_for < 0))
    deed = np.where(periodic, int(Deed.UNTIL), deed)
    argument = np.where(periodic, rows["end"] - zero, argument)
    thread = rows["thread"].astype(np.int64)
    wait = rows["wait"].astype(np.int64)
    parts = [Part(thread, rows["begin"], deed, argument, 3, wait, rows["object"], places.idle(blocked + 1))]
    looked = np.flatnonzero(join >= 0)
    parts.append(Part(thread[looked], rows["begin"][looked], Deed.JOIN, join[looked], 2, wait[looked]))
    giver, when = waker[by_thread], rows["end"][by_thread]
    # Who woke somebody while it was blocked itself (an interrupt did it for it) had done its part before.
    inside = np.maximum(places.interval(giver, when), 0)
    asleep = schedule.intervals["state"][inside] == State.BLOCKED
    when = np.where(asleep, schedule.intervals["begin"][inside], when)
    parts.append(
        Part(giver, when, Deed.POST, slots[by_thread], 0, wait[by_thread], rows["object"][by_thread])
    )
    parts += _joins(schedule, rows, by_thread)
    if meets:
        parts += _meetings(schedule, rows, by_thread, giver, when)
    parts.append(_halts(schedule, rows, timed, by_thread))
    return parts


def _beats(schedule: Schedule, rows: Array, by_thread: Array) -> Array:
    """Waits that a heartbeat makes and ends, such as a virtual machine's that stops its threads by the clock.

    Its time had come when they began, and such waits are seldom in what that thread deals with others. They
    come by the heartbeat's time, wherever the thread is by then, and are kept as they were.
    """
    found = np.zeros(len(rows), bool)
    # What it has to do with others: it waits for them, and lets them go on.
    dealings = np.bincount(
        np.concatenate([rows["thread"][by_thread], rows["waker"][by_thread]]),
        minlength=len(schedule.threads),
    )
    for beat in np.unique(rows["waker"][by_thread]).tolist():
        its = schedule.of_thread(beat)
        length = its["end"] - its["begin"]
        naps = its[(its["state"] == State.BLOCKED) & (its["source"] == Source.TIMER)]
        if not len(naps) or float(length[its["state"] == State.RUNNING].sum()) > _BEATS * float(length.sum()):
            continue
        naps = naps[2 * (naps["end"] - naps["begin"]) > (naps["end"] - naps["begin"]).max()]  # no back-off
        mine = np.flatnonzero(by_thread & (rows["waker"] == beat))
        by_thread_of = np.bincount(rows["thread"][mine], minlength=len(dealings))
        seldom = by_thread_of[rows["thread"][mine]] < _SELDOM * dealings[rows["thread"][mine]]
        woke = np.searchsorted(naps["end"], rows["end"][mine], "right") - 1
        awake = (woke >= 0) & (naps["end"][np.maximum(woke, 0)] <= rows["begin"][mine])
        found[mine[seldom & awake]] = True
    return found


def _joins(schedule: Schedule, rows: Array, by_thread: Array) -> list[Part]:
    """Who waits for the end of one waits for those of its kin that ended meanwhile, which nobody saw."""
    parents = np.array([one.parent for one in schedule.threads], np.int64)
    ends = np.array([one.ended_ns if one.ended else np.iinfo(np.int64).max for one in schedule.threads])
    waker = np.maximum(rows["waker"], 0)
    for_end = by_thread & (parents[waker] == rows["thread"]) & (np.abs(ends[waker] - rows["end"]) < _LAST_NS)
    found: list[tuple[int, int, int]] = []
    before: dict[int, int] = {}
    for at in np.flatnonzero(for_end).tolist():
        parent, end = int(rows["thread"][at]), int(rows["end"][at])
        over = np.flatnonzero((parents == parent) & (ends > before.get(parent, 0)) & (ends <= end))
        for child in over.tolist():
            if child != rows["waker"][at]:
                found.append((parent, end, child))
        before[parent] = end
    who, when, whom = np.array(found, np.int64).reshape(-1, 3).T
    return [Part(who, when, Deed.JOIN, whom, 0)]


def _meetings(schedule: Schedule, rows: Array, by_thread: Array, giver: Array, when: Array) -> list[Part]:
    """Who ends a wait comes to it no sooner than the one that waits; but for one that ends itself then."""
    ends = np.array([one.ended_ns for one in schedule.threads], np.int64)
    begin, thread = rows["begin"][by_thread], rows["thread"][by_thread].astype(np.int64)
    real = (ends[giver] - when > _LAST_NS) & (begin < when)
    slots = int(by_thread.sum()) + np.flatnonzero(real)
    arrived = Part(thread[real], begin[real], Deed.POST, slots, 2)
    return [arrived, Part(giver[real], when[real], Deed.WAIT, slots, -1)]


def _polls(
    schedule: Schedule, places: Places, rows: Array, timed: Array, by_thread: Array
) -> tuple[Array, Array]:
    """Naps of loops that look whether they may go on: how long each is kept (-1: as it was), and for whom.

    A wait with a time-out that is waited again at once is one: until the wake that ended its last nap. Naps
    without an object last until a thread ends, where one ended in the last of them.
    """
    keep = np.full(len(rows), -1, np.int64)
    join = np.full(len(rows), -1, np.int64)
    if not timed.any():
        return keep, join
    after = places.work(rows["thread"].astype(np.int64), rows["begin"])
    gap = np.full(len(rows), np.iinfo(np.int64).max)
    gap[:-1] = np.where(rows["thread"][1:] == rows["thread"][:-1], after[1:] - after[:-1], gap[:-1])
    goes_on = gap < _POLL_WORK_NS
    ended = np.array([one.ended_ns if one.ended else -1 for one in schedule.threads], np.int64)
    words = np.where(rows["wait"] == Wait.FUTEX, word_of(rows["object"]), rows["object"])
    last = len(rows) - 1
    while last >= 0:
        first = last
        same = words[last]
        while first > 0 and goes_on[first - 1] and timed[first - 1] and words[first - 1] == same:
            first -= 1
        if same >= 0 and by_thread[last] and first < last:
            keep[first:last] = 0
        elif same < 0 and timed[last] and last - first + 1 >= _POLLS:
            who = int(rows["thread"][last])
            begin, end = int(rows["begin"][last]), int(rows["end"][last])
            found = [
                other for other in np.flatnonzero((ended > begin - 1_000_000) & (ended <= end)).tolist()
                if other != who and not naps_only(schedule, other)
            ]  # fmt: skip
            if found:
                keep[first : last + 1] = 0
                keep[last] = max(0, end - int(ended[found].max()))
                join[first] = found[int(np.argmax(ended[found]))]
        last = first - 1
    return keep, join


def naps_only(schedule: Schedule, thread: int) -> bool:
    """It does next to nothing but sleep."""
    rows = schedule.of_thread(thread)
    length = rows["end"] - rows["begin"]
    return bool(length[rows["source"] == Source.TIMER].sum() > 0.5 * length.sum())


def _periodic(rows: Array, timed: Array) -> Array:
    """Timers of threads that keep a period, whatever they do in between."""
    found = np.zeros(len(rows), bool)
    for thread in np.unique(rows["thread"][timed]).tolist():
        at = np.flatnonzero(timed & (rows["thread"] == thread))
        if len(at) < _POLLS:
            continue
        length = (rows["end"] - rows["begin"])[at].astype(float)
        distance = np.diff(rows["end"][at]).astype(float)
        spread = float(np.mean(np.abs(length - np.median(length))))
        if float(np.mean(np.abs(distance - np.median(distance)))) < _PERIODIC * spread:
            found[at] = True
    return found


def _halts(schedule: Schedule, rows: Array, timed: Array, by_thread: Array) -> Part:
    """A thread that naps until it is told to end ends when somebody waits for that."""
    naps = np.bincount(rows["thread"][timed], minlength=len(schedule.threads))
    who, when, whom = [], [], []
    for place in np.flatnonzero(by_thread & (naps[np.maximum(rows["waker"], 0)] >= _POLLS)).tolist():
        row = rows[place]
        other = int(row["waker"])
        end = schedule.threads[other].ended_ns
        joined = schedule.threads[other].parent == row["thread"]
        if not joined or not schedule.threads[other].ended or abs(end - int(row["end"])) > 1_000_000:
            continue
        its = timed & (rows["thread"] == other)
        nap = float(np.median((rows["end"] - rows["begin"])[its]))
        if row["end"] - row["begin"] <= 1.5 * nap and naps_only(schedule, other):
            who.append(int(row["thread"]))
            when.append(int(row["begin"]))
            whom.append(other)
    return Part(np.array(who, np.int64), np.array(when, np.int64), Deed.HALT, np.array(whom, np.int64), 2)
