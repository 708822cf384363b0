"""The intervals of each thread as plain lists, with waits joined that a time-out only looked up from."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Wait

__all__ = [
    "IN_VAIN",
    "LOCKABLE",
    "MONITORS",
    "Track",
    "address_of",
    "by_due_times",
    "by_even_sleeps",
    "file_of",
    "latest",
    "may_be_due",
    "set_of",
    "tracks_of",
]

_MOST_INTERVALS = 1_000_000  # that are analysed, in some five seconds; of more, the latest

#: A thread that a time-out woke and that waits for the same again within this time only looked whether it
#: may go on: the interpreter lock of CPython is waited for in steps of 5 ms.
_LOOKED_NS = 150_000
#: A condition variable of glibc waits on two words 4 bytes apart, by turns.
_WORDS = ~7
#: Above an address: in which process, since two may use the same one for words of their own.
_PROCESS = 48
#: In place of both: the word is the lock of a file, and the rest its object.
_FILES = 1 << 62
#: Likewise, of a System V semaphore: the rest is the number of its set, which all processes share.
_SETS = 1 << 61
#: Likewise, a monitor of a Java virtual machine: the rest is the first of the threads that enter it.
MONITORS = 1 << 60
#: The object of a `Wait.LOOK` after which it sleeps again: who is waited for has not ended it yet.
IN_VAIN = -3
#: Waits that the holder of a lock may end; their objects are words.
LOCKABLE = frozenset((int(Wait.FUTEX), int(Wait.FILE_LOCK), int(Wait.SEMAPHORE)))


_PAGE = 4096  # memory is shared by whole pages
_FEWEST_WAKES = 5  # that tell which word of a process is another one's
_MOST_WAKES = 2000  # that are looked at
_ROUNDS = 30  # that must be seen
_IN_TIME = 0.9  # of the rounds, that have a sleep: who is too late for most of them is not paced
_UNEVEN_NS = 50_000  # by what the work must differ: a timer of Linux is late by as much
_REGULAR = 0.05  # of a round, by which rounds differ that an interval timer begins
_BY_ITSELF = 0.9  # of the time, that it works or sleeps: who waits for others has their pace
_HALF = 0.5
_WORKS, _SLEPT = 0.1, 0.05  # of the time: less of either says nothing of its pace


@dataclass
class Track:
    """One thread, interval by interval. All lists have one entry an interval, in the order of time.

    Attributes:
        looks: of each futex word how often it looked up from a wait for it, by a time-out.
        spun: ns that it ran in loops that wait; these are intervals of `Wait.SPIN`.
    """

    thread: int
    begin: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    state: list[int] = field(default_factory=list)
    wait: list[int] = field(default_factory=list)
    source: list[int] = field(default_factory=list)
    waker: list[int] = field(default_factory=list)
    object: list[int] = field(default_factory=list)
    sample: list[int] = field(default_factory=list)
    looks: Counter[int] = field(default_factory=Counter, kw_only=True)
    spun: int = field(default=0, kw_only=True)

    def at(self, time: int) -> int:
        """The index of the interval that covers the time just before `time`; -1 before the first."""
        found = bisect_left(self.begin, time) - 1
        return found if found >= 0 and self.end[found] >= time else (-1 if found < 0 else found)


def latest(schedule: Schedule, most: int = _MOST_INTERVALS) -> Schedule:
    """The last part of a schedule, of not many more intervals than these; the notes say of how long it is."""
    rows = schedule.intervals
    if len(rows) <= most:
        return schedule
    begin = int(np.partition(rows["begin"], len(rows) - most)[len(rows) - most])
    rows = rows[rows["end"] > begin].copy()
    rows["begin"] = np.maximum(rows["begin"], begin)
    seconds = (schedule.ended_ns - begin) / 1e9
    return replace(
        schedule,
        began_ns=begin,
        intervals=rows,
        threads=tuple(
            replace(one, began_ns=min(one.ended_ns, max(one.began_ns, begin))) for one in schedule.threads
        ),
        throttled_ns=round(schedule.throttled_ns * seconds / schedule.seconds),
        losses=schedule.losses.of_the_last(schedule.seconds, len(schedule.intervals), seconds),
    )


def file_of(word: int) -> int:
    """The object of a file whose lock a word stands for; -1 of a futex."""
    return word ^ _FILES if word & _FILES else -1


def set_of(word: int) -> int:
    """The set of System V semaphores that a word stands for; -1 of anything else."""
    return word ^ _SETS if word & _SETS else -1


def address_of(word: int) -> int:
    """The address of a futex word in its process."""
    return word & ((1 << _PROCESS) - 1)


def tracks_of(schedule: Schedule) -> list[Track]:
    """One track a thread, by its index.

    The object of a wait for a futex is its word: the address, made different in every process, but where a
    thread of another one has ended such a wait, as for words in shared memory, wherever these lie in each.
    """
    tracks = []
    pids = np.array([thread.pid for thread in schedule.threads], np.int64)
    number = np.unique(pids, return_inverse=True)[1].astype(np.int64)
    if len(number):
        number = np.where(number == number[0], 0, number + 1)
    one = _shared_words(schedule, pids, number)
    for thread in range(len(schedule.threads)):
        rows = schedule.of_thread(thread)
        rows = rows[rows["end"] > rows["begin"]]
        objects = rows["object"].astype(np.int64, copy=True)
        futex = (rows["wait"] == Wait.FUTEX) & (objects > 0)
        words = objects[futex] & _WORDS | number[thread] << _PROCESS
        objects[futex] = [one.get(word, word) for word in words.tolist()] if one else words
        filed = (rows["wait"] == Wait.FILE_LOCK) & (objects >= 0)
        objects[filed] |= _FILES
        objects[(rows["wait"] == Wait.SEMAPHORE) & (objects >= 0)] |= _SETS
        track = Track(
            thread,
            rows["begin"].tolist(),
            rows["end"].tolist(),
            rows["state"].tolist(),
            rows["wait"].tolist(),
            rows["source"].tolist(),
            rows["waker"].tolist(),
            objects.tolist(),
            rows["sample"].tolist(),
        )
        tracks.append(_paced(_joined(track)) if np.any(futex & (rows["source"] == Source.TIMER)) else track)
    return tracks


def by_due_times(track: Track) -> bool:
    """Whether a thread begins each round when that is due, and sleeps until then for what its work leaves.

    Its rounds are as long as each other then, though its work is not. Where the work is as even as they are,
    nothing tells that from sleeps of one length, and it is False.
    """
    of = _rounds(track)
    if of is None:
        return False
    if of.alarms:
        # Of an interval timer, where rounds are as long as each other. Who works for longer than an interval
        # is late for its next alarm, and waits for the one after it: for work of over half of the round.
        return of.whole <= _REGULAR * of.length and of.work_share < _HALF
    return of.work >= _UNEVEN_NS and of.whole <= of.work / 2


def may_be_due(track: Track) -> bool:
    """Whether a thread works and sleeps by turns, and nothing tells whether it sleeps until a time is due."""
    of = _rounds(track) or _late_rounds(track)
    if of is None or of.work_share < _WORKS or by_due_times(track) or by_even_sleeps(track):
        return False
    return of.sleep_share >= _SLEPT and of.sleep_share + of.work_share >= _BY_ITSELF


def by_even_sleeps(track: Track) -> bool:
    """Whether a thread sleeps for one length however long it works: to work faster makes its rounds shorter.

    Where its work is as even as its sleeps it may be due at its times as well, and it is False.
    """
    of = _rounds(track)
    return of is not None and not of.alarms and of.work >= _UNEVEN_NS and of.sleep <= of.work / 2


class _Spread(NamedTuple):
    """From the 10th to the 90th percentile, in ns: of a thread's rounds, and of their parts.

    Attributes:
        alarms: signals of a timer end the sleeps. length: of a round, the median.
        work_share, sleep_share: of the thread's time, that it runs or would, and that it sleeps so.
    """

    whole: float
    work: float
    sleep: float
    alarms: bool
    length: float
    work_share: float
    sleep_share: float


def _rounds(track: Track) -> _Spread | None:
    """Of a thread that sleeps in nearly each of its rounds; None of others."""
    slept = _sleeps(track)
    if int(slept.sum()) < _ROUNDS:
        return None
    rounds = np.diff(np.array(track.end, np.int64)[slept])
    one_sleep = rounds <= 1.5 * np.median(rounds)
    return (
        _spread_of(track, slept, one_sleep, np.zeros_like(rounds)) if one_sleep.mean() >= _IN_TIME else None
    )


def _late_rounds(track: Track) -> _Spread | None:
    """Of a thread that is too late for some of its due times: its rounds are whole numbers of the shortest.

    Whether it makes up for a round that it missed or leaves it out is not seen, so that nothing tells whether
    it would do more if it worked faster. `whole` is by what the rounds miss whole numbers; None of others.
    """
    slept = _sleeps(track)
    if int(slept.sum()) < _ROUNDS:
        return None
    rounds = np.diff(np.array(track.end, np.int64)[slept])
    short = rounds[rounds <= 1.5 * np.percentile(rounds, 10)]
    period = float(np.median(short))
    if len(short) < _ROUNDS or period <= 0:
        return None
    of = _spread_of(track, slept, rounds > 0, (np.maximum(1, np.round(rounds / period)) - 1) * period)
    # Sleeps of one length make rounds that miss whole numbers by as much as these sleeps differ, or more.
    return of if of.whole <= _REGULAR * period and of.whole <= of.sleep / 2 else None


def _sleeps(track: Track) -> np.ndarray[Any, Any]:
    """Which of a thread's intervals are sleeps that a timer ended."""
    wait = np.array(track.wait)
    slept = (np.array(track.state) == State.BLOCKED) & np.isin(wait, (Wait.TIMER, Wait.SIGNAL))
    found: np.ndarray[Any, Any] = slept & (np.array(track.source) == Source.TIMER)
    return found


def _spread_of(
    track: Track, slept: np.ndarray[Any, Any], kept: np.ndarray[Any, Any], missed: np.ndarray[Any, Any]
) -> _Spread:
    """The rounds that are kept, each from the end of a sleep to that of the next, less what it missed."""
    begin, end = np.array(track.begin, np.int64), np.array(track.end, np.int64)
    rounds, sleeps = np.diff(end[slept]), (end - begin)[slept][1:]
    parts = (rounds - missed, rounds - sleeps, sleeps)
    whole, work, sleep = (float(np.subtract(*np.percentile(one[kept], (90, 10)))) for one in parts)
    life = max(1, int(end[-1] - begin[0]))
    works = np.isin(np.array(track.state), (State.RUNNING, State.RUNNABLE))
    return _Spread(
        whole,
        work,
        sleep,
        bool((np.array(track.wait)[slept] == Wait.SIGNAL).mean() > 0.5),
        float(np.median(rounds)),
        float((end - begin)[works].sum()) / life,
        float((end - begin)[slept].sum()) / life,
    )


def _shared_words(
    schedule: Schedule, pids: np.ndarray[Any, Any], number: np.ndarray[Any, Any]
) -> dict[int, int]:
    """Words of shared memory: of a process's word the one that stands for it in all of them.

    A thread of another process has ended such a wait. The word may lie elsewhere in each process, but at the
    same place of a page. Of several that one is it for which the other thread waited last: it had the lock.
    """
    rows = schedule.intervals
    rows = rows[(rows["wait"] == Wait.FUTEX) & (rows["object"] > 0)]
    ended = rows[rows["waker"] >= 0]
    across = ended[pids[ended["thread"]] != pids[ended["waker"]]]
    if not across.size:
        return {}
    words = rows["object"].astype(np.int64) & _WORDS
    keys = words | number[rows["thread"]] << _PROCESS
    known = set(keys.tolist())
    first: dict[int, int] = {}

    def root(word: int) -> int:
        while first.setdefault(word, word) != word:
            word = first[word]
        return word

    def join(word: int, other: int) -> None:
        low, high = sorted((root(word), root(other)))
        first[high] = low

    shared = across["object"].astype(np.int64) & _WORDS
    for word in np.unique(shared).tolist():
        same = [word | one << _PROCESS for one in set(number.tolist())]
        for other in same:
            if other in known:
                join(same[0], other)
    mine = shared | number[across["thread"]] << _PROCESS
    theirs = number[across["waker"]] << _PROCESS
    for word, process in set(zip(mine.tolist(), theirs.tolist(), strict=True)):
        if (address_of(word) | process) in known:
            continue
        wakes = across[(mine == word) & (theirs == process)][:_MOST_WAKES]
        votes: Counter[int] = Counter()
        for waker in np.unique(wakes["waker"]).tolist():
            waited = (rows["thread"] == waker) & (words % _PAGE == address_of(word) % _PAGE)
            times, which = rows["end"][waited], keys[waited]
            at = np.searchsorted(times, wakes["end"][wakes["waker"] == waker]) - 1
            votes.update(which[at[at >= 0]].tolist())
        best, most = votes.most_common(1)[0] if votes else (-1, 0)
        if most >= _FEWEST_WAKES and most >= _IN_TIME * votes.total():
            join(word, best)
    return {word: root(word) for word in list(first)}


def _joined(track: Track) -> Track:
    """Looks up from a wait for a futex, made part of it."""
    kept, after = [True] * len(track.begin), 0
    looks: Counter[int] = Counter()
    for i, source in enumerate(track.source):
        if i < after or source != Source.TIMER or not _waits_for_a_futex(track, i):
            continue
        last = i
        while track.source[last] == Source.TIMER and (again := _again(track, last)) > 0:
            last = again
        track.end[i], track.source[i], track.waker[i] = track.end[last], track.source[last], track.waker[last]
        looks[track.object[i]] += last > i
        after = last + 1
        kept[i + 1 : after] = [False] * (last - i)
    if all(kept):
        return track
    columns = ("begin", "end", "state", "wait", "source", "waker", "object", "sample")
    joined = (list(compress(getattr(track, name), kept)) for name in columns)
    return Track(track.thread, *joined, looks=looks)


def _waits_for_a_futex(track: Track, i: int) -> bool:
    return track.state[i] == State.BLOCKED and track.wait[i] == Wait.FUTEX


def _paced(track: Track) -> Track:
    """Waits for a futex that their time-out ended for good, as what they are: sleeps."""
    for i, wait in enumerate(track.wait):
        if wait == Wait.FUTEX and track.state[i] == State.BLOCKED and track.source[i] == Source.TIMER:
            track.wait[i] = Wait.TIMER
    return track


def _again(track: Track, i: int) -> int:
    """The wait for the same word that follows a look at it; -1 without.

    To look takes the mutex that guards the word: a short wait for that one belongs to it.
    """
    looked = 0
    for j in range(i + 1, min(i + 12, len(track.begin))):
        if track.state[j] == State.UNSEEN:
            return -1
        futex = _waits_for_a_futex(track, j)
        if futex and track.object[j] == track.object[i] > 0:
            return j
        if track.state[j] == State.BLOCKED and not futex:
            return -1
        if track.state[j] != State.RUNNABLE:
            looked += track.end[j] - track.begin[j]
        if looked > _LOOKED_NS:
            return -1
    return -1
