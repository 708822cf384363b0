"""A captured schedule as steps that can be simulated: work, deeds and what they wait for. Pure.

What a thread waited for is kept, how long it waited is not: a wait for another thread ends when that one gets
to where it woke it, and one whose cause came before isn't waited at all (the replay of wait-for edges, as in
wPerf: Zhou et al., OSDI 2018). A wait for a CPU is left out altogether: the simulated scheduler makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, Source, State

__all__ = ["Deed", "Steps", "naps_only", "steps_of"]

Array = np.ndarray[Any, Any]

_POLL_WORK_NS = 200_000  # less work than this between two naps: a loop that only looks whether it may go on
_MOST_WAKE_NS = 100_000  # more is not a wake-up, but a wait for a CPU
_POLLS = 5  # so many naps make a loop
_PERIODIC = 0.25  # of the naps' spread is left in their ends' distances, where a thread keeps a period
_PINNED_TURNS = 20
_PINNED_SHARE = 0.5  # of its waiting for a CPU another one was idle


class Deed(IntEnum):
    """What a thread does behind the work of a step; as in native/core/schedule/simulation.hpp."""

    POST = 0
    WAIT = 1
    SLEEP = 2
    UNTIL = 3
    START = 4
    JOIN = 5
    LOCK = 6
    UNLOCK = 7
    HALT = 8
    EXIT = 9
    NONE = 10


@dataclass(frozen=True)
class Steps:
    """All threads' steps, one thread behind another; times in ns from the beginning of the schedule.

    Attributes:
        first: of thread t the steps are first[t] to first[t + 1].
        work: before the deed. wait: the `Wait` of a step that blocks, and `object` on what.
        recorded: when the deed was done. born: by thread, -1 where another one starts it.
        allowed: by thread, a bit for each CPU; 0: all.
        cost: by thread, virtual run time of the scheduler for each ns: the more, the less is it preferred.
        own: so many threads are the program's; those behind them are strangers, one for each CPU of each.
        wake_ns: from a wake-up to running on an idle CPU.
        slice_ns, behind_ns: of the scheduler; see native/core/schedule/simulation.hpp.
    """

    first: Array
    work: Array
    deed: Array
    argument: Array
    recorded: Array
    wait: Array
    object: Array
    born: Array
    allowed: Array
    cost: Array
    own: int
    cpus: int
    wake_ns: int
    slice_ns: int = 3_000_000
    behind_ns: int = 1_000_000

    @property
    def thread(self) -> Array:
        """The thread of each step."""
        return np.repeat(np.arange(len(self.born)), np.diff(self.first))

    def beside(self, ours: int, others: int) -> Steps:
        """The same with these costs of a nanosecond of run time."""
        return self.changed(
            cost=np.where(np.arange(len(self.born)) < self.own, ours, others).astype(np.int64)
        )

    def changed(self, **columns: Any) -> Steps:
        """The same with other columns."""
        return replace(self, **columns)


@dataclass
class _Part:
    """Steps in the making, in any order."""

    thread: Array
    time: Array
    deed: Any
    argument: Any
    rank: int
    wait: Any = 0
    object: Any = -1


class _Places:
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


def steps_of(schedule: Schedule) -> Steps:
    """The steps that a schedule is made of."""
    places = _Places(schedule)
    rows = schedule.intervals
    zero = schedule.began_ns
    threads = len(schedule.threads)
    ends = np.array([one.ended_ns for one in schedule.threads], np.int64)
    begins = np.array([one.began_ns for one in schedule.threads], np.int64)
    parents = np.array([one.parent for one in schedule.threads], np.int64)
    blocked = np.flatnonzero((rows["state"] == State.BLOCKED) & (rows["end"] < ends[rows["thread"]]))
    parts = _waits(schedule, places, blocked)
    born = np.where(parents >= 0, -1, np.maximum(begins - zero, 0))
    made = np.flatnonzero(parents >= 0)
    parts.append(_Part(parents[made], begins[made], Deed.START, made, 1))
    everybody = np.arange(threads)
    parts.append(_Part(everybody, ends, Deed.NONE, 0, 4))
    columns = _joined(parts)
    columns["work"] = places.work(columns["thread"], columns["time"])
    index = {cpu: place for place, cpu in enumerate(schedule.cpus)}
    strangers, where = _strangers(schedule, index)
    columns = {key: np.concatenate([value, strangers[key]]) for key, value in columns.items()}
    order = np.lexsort((columns["rank"], columns["time"], columns["thread"]))
    columns = {key: value[order] for key, value in columns.items()}
    first = np.searchsorted(columns["thread"], np.arange(threads + len(where) + 1))
    before = np.concatenate([[0], columns["work"][:-1]])
    before[first[:-1][first[:-1] < len(before)]] = 0
    return Steps(
        first.astype(np.int64), np.maximum(columns["work"] - before, 0), columns["deed"].astype(np.uint8),
        columns["argument"], columns["time"] - zero, columns["wait"], columns["object"],
        np.concatenate([born, np.zeros(len(where))]).astype(np.int64),
        np.concatenate([_allowed(schedule, index), where]), np.ones(threads + len(where), np.int64),
        threads, max(1, len(schedule.cpus)),
        _wake_ns(schedule),
    )  # fmt: skip


def _joined(parts: list[_Part]) -> dict[str, Array]:
    def column(name: str) -> Array:
        whole = [
            np.broadcast_to(np.asarray(getattr(part, name), np.int64), part.thread.shape) for part in parts
        ]
        return np.concatenate(whole)

    return {name: column(name) for name in ("thread", "time", "deed", "argument", "rank", "wait", "object")}


def _waits(schedule: Schedule, places: _Places, blocked: Array) -> list[_Part]:
    """Everything that blocks, and the posts that let go."""
    rows = schedule.intervals[blocked]
    zero = schedule.began_ns
    waker = rows["waker"].astype(np.int64)
    by_thread = (waker >= 0) & np.isin(rows["source"], (Source.THREAD, Source.NETWORK))
    by_thread &= waker != rows["thread"]
    by_thread &= places.interval(np.maximum(waker, 0), rows["end"]) >= 0
    slots = np.arange(len(rows))
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
    parts = [_Part(thread, rows["begin"], deed, argument, 3, wait, rows["object"])]
    looked = np.flatnonzero(join >= 0)
    parts.append(_Part(thread[looked], rows["begin"][looked], Deed.JOIN, join[looked], 2, wait[looked]))
    giver, when = waker[by_thread], rows["end"][by_thread]
    # Who woke somebody while it was blocked itself (an interrupt did it for it) had done its part before.
    inside = np.maximum(places.interval(giver, when), 0)
    asleep = schedule.intervals["state"][inside] == State.BLOCKED
    when = np.where(asleep, schedule.intervals["begin"][inside], when)
    parts.append(
        _Part(giver, when, Deed.POST, slots[by_thread], 0, wait[by_thread], rows["object"][by_thread])
    )
    parts.append(_halts(schedule, rows, timed, by_thread))
    return parts


def _polls(
    schedule: Schedule, places: _Places, rows: Array, timed: Array, by_thread: Array
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
    last = len(rows) - 1
    while last >= 0:
        first = last
        same = rows["object"][last]
        while first > 0 and goes_on[first - 1] and timed[first - 1] and rows["object"][first - 1] == same:
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


def _halts(schedule: Schedule, rows: Array, timed: Array, by_thread: Array) -> _Part:
    """A thread that naps until it is told to end ends when somebody waits for that."""
    naps = np.bincount(rows["thread"][timed], minlength=len(schedule.threads))
    who, when, whom = [], [], []
    for place in np.flatnonzero(by_thread & (naps[np.maximum(rows["waker"], 0)] >= _POLLS)).tolist():
        row = rows[place]
        other = int(row["waker"])
        end = schedule.threads[other].ended_ns
        if not schedule.threads[other].ended or abs(end - int(row["end"])) > 1_000_000:
            continue
        its = timed & (rows["thread"] == other)
        nap = float(np.median((rows["end"] - rows["begin"])[its]))
        if row["end"] - row["begin"] <= 1.5 * nap and naps_only(schedule, other):
            who.append(int(row["thread"]))
            when.append(int(row["begin"]))
            whom.append(other)
    return _Part(np.array(who, np.int64), np.array(when, np.int64), Deed.HALT, np.array(whom, np.int64), 2)


def _strangers(schedule: Schedule, index: dict[int, int]) -> tuple[dict[str, Array], Array]:
    """Other programs' threads as such that compete: each wakes when it had a CPU, for as long."""
    rows = schedule.foreign
    rows = rows[np.isin(rows["cpu"], list(index)) & (rows["end"] > rows["begin"])]
    rows = rows[np.lexsort((rows["begin"], rows["cpu"], rows["tid"]))]
    pairs, which = np.unique(np.stack([rows["tid"], rows["cpu"]], axis=1), axis=0, return_inverse=True)
    thread = len(schedule.threads) + which.reshape(-1).astype(np.int64)
    length = rows["end"] - rows["begin"]
    done = np.cumsum(length)
    first = np.searchsorted(thread, len(schedule.threads) + np.arange(len(pairs)))
    done -= (done - length)[first[which.reshape(-1)]] if len(rows) else 0
    parts = {
        "thread": (thread, thread),
        "time": (rows["begin"], rows["end"]),
        "deed": (np.full(len(rows), int(Deed.UNTIL)), np.full(len(rows), int(Deed.NONE))),
        "argument": (rows["begin"] - schedule.began_ns, np.zeros(len(rows), np.int64)),
        "rank": (np.full(len(rows), 5), np.full(len(rows), 4)),
        "wait": (np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)),
        "object": (np.full(len(rows), -1), np.full(len(rows), -1)),
        "work": (done - length, done),
    }
    where = [np.uint64(1) << np.uint64(index[cpu]) if index[cpu] < 64 else 0 for cpu in pairs[:, 1].tolist()]
    return {key: np.concatenate(value) for key, value in parts.items()}, np.array(where, np.uint64)


def _wake_ns(schedule: Schedule) -> int:
    """What a wake-up takes where a CPU is free: the lower quartile of the times from a wake-up to running."""
    rows = schedule.intervals
    if len(rows) < 2:
        return 0
    woken = (
        (rows["state"][1:] == State.RUNNABLE)
        & (rows["state"][:-1] == State.BLOCKED)
        & (rows["thread"][1:] == rows["thread"][:-1])
    )
    length = (rows["end"] - rows["begin"])[1:][woken]
    return min(_MOST_WAKE_NS, int(np.quantile(length, 0.25, method="inverted_cdf"))) if len(length) else 0


def _allowed(schedule: Schedule, index: dict[int, int]) -> Array:
    """Threads that never left a CPU, though they waited for it while another was free, may use no other."""
    rows = schedule.intervals
    allowed = np.zeros(len(schedule.threads), np.uint64)
    if len(index) < 2:
        return allowed
    running = rows[(rows["state"] == State.RUNNING) & (rows["cpu"] >= 0)]
    for thread in range(len(schedule.threads)):
        low, high = np.searchsorted(running["thread"], [thread, thread + 1])
        cpus = np.unique(running["cpu"][low:high])
        if high - low < _PINNED_TURNS or len(cpus) != 1 or index.get(int(cpus[0]), 64) >= 64:
            continue
        mine = schedule.of_thread(thread)
        waiting = mine[mine["state"] == State.RUNNABLE]
        length = float((waiting["end"] - waiting["begin"]).sum())
        busy = _busy_elsewhere(schedule, waiting, int(cpus[0]), len(index))
        if length > 1_000_000 and busy < (1 - _PINNED_SHARE) * length:
            allowed[thread] = np.uint64(1) << np.uint64(index[int(cpus[0])])
    return allowed


def _busy_elsewhere(schedule: Schedule, waiting: Array, cpu: int, cpus: int) -> float:
    """For how long in these intervals all other CPUs were busy, nearly: their busy time by their number."""
    rows = schedule.intervals
    busy = rows[(rows["state"] == State.RUNNING) & (rows["cpu"] != cpu)]
    begin = np.concatenate([busy["begin"], schedule.foreign["begin"][schedule.foreign["cpu"] != cpu]])
    end = np.concatenate([busy["end"], schedule.foreign["end"][schedule.foreign["cpu"] != cpu]])
    edges = np.concatenate([begin, end])
    change = np.concatenate([np.ones(len(begin)), -np.ones(len(end))])
    order = np.argsort(edges, kind="stable")
    edges, level = edges[order], np.cumsum(change[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(edges))]) if len(edges) else np.zeros(1)
    if not len(edges):
        return 0.0

    def until(time: Array) -> Array:
        at = np.searchsorted(edges, time, "right") - 1
        inside = np.maximum(at, 0)
        return np.where(at >= 0, area[inside] + level[inside] * (time - edges[inside]), 0.0)

    return float((until(waiting["end"]) - until(waiting["begin"])).sum()) / (cpus - 1)
