"""What an event loop's requests wait for while it serves others: a timer of its own, or something else. Pure.

A loop that serves many is rarely woken by its own time-out: another request comes a little earlier, and the
timer that is due by then is served with it. But in each wait a loop says for how long at most, which is when
its next timer is due. That one was due may be by chance, as it may be that an answer of another process was
read. So it is believed of requests of one kind and of like length together, nearly all of which went on when
a timer was due, while the loop mostly goes on when none is.

Who can go on does so when the loop comes round. So a request doesn't wait for others that are read after
that, and answered before it: they overtake it while it waits for something else.

And who waits for an answer of another process doesn't wait while the loop has nothing to do, and the threads
that answer it wait for what it will ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, State, Stretches, Wait
from latlab.stats.distributions import binomial_tail

__all__ = ["Loops"]

_UNIT_NS = 1_000_000  # of epoll_wait's time-out, to which a loop rounds up
_FEWEST = 5  # requests that are alike
_NEARLY_ALL = 0.9
_MOST_BY_CHANCE = 0.7  # of the loop's turns
_RARE = 1e-3  # p value
_ALIKE = 2.0  # times as long, or as short
_MOST_UNASKED = 0.25  # of a loop's waits
_FAR = np.iinfo(np.int64).max

Array = np.ndarray[Any, Any]
_NONE = np.zeros(0, np.int64)


class Loops:
    """The turns of threads that answer what they have read themselves.

    Args:
        rows: of REQUEST, all of them.
        asked: as of `Found`.
    """

    def __init__(self, schedule: Schedule, rows: Array, asked: Mapping[int, tuple[Array, Array]]) -> None:
        self._rows, self._schedule, self._asked = rows, schedule, asked
        self._by_timer = np.zeros(len(rows), bool)
        self._round = np.full(len(rows), _FAR)  # when its loop came round first, after it was read
        self._until = np.zeros(len(rows), np.int64)  # it couldn't go on before
        self._index = index = {one.tid: number for number, one in enumerate(schedule.threads)}
        self._waits = {index[tid]: Stretches(_turns(schedule, index[tid])) for tid in asked if tid in index}
        itself = rows["reader"] == rows["sender"]
        for tid in np.unique(rows["sender"][itself]).tolist():
            if tid in index:
                which = np.flatnonzero(itself & (rows["sender"] == tid))
                turns = _turns(schedule, index[tid])
                self._overtaken(turns, which)
                due = _due(schedule, index[tid], turns)
                if (due < _FAR).any():
                    self._judge(turns, due, schedule.ended_ns, which, asked.get(tid, (_NONE, _NONE))[0])

    def by_timer(self, index: int) -> bool:
        """Whether this request and those like it went on by a timer."""
        return bool(self._by_timer[index])

    def overtakes(self, other: int, index: int, until: int) -> bool:
        """Whether a request was not late by what its thread did for another one until then."""
        rows = self._rows
        return bool(
            until <= self._until[index]
            and rows["read"][other] >= self._round[index]
            and rows["answered"][other] < rows["answered"][index]
        )

    def unasked(self, thread: int, begin: int, end: int) -> bool:
        """Whether a loop mostly waited while none of those answered in this time had a question of its.

        Only of threads that serve one connection it is known when they have one: they wait for it alone.
        """
        times, tellers = self._asked[self._schedule.threads[thread].tid]
        low, high = np.searchsorted(times, [begin, end], side="right")
        peers = [self._index.get(teller, -1) for teller in np.unique(tellers[low:high]).tolist()]
        waits = _within(self._waits[thread], begin, end)
        waited = int((waits[1] - waits[0]).sum())
        free = waits
        for peer in peers:
            rows = self._schedule.of_thread(peer) if peer >= 0 else self._schedule.intervals[:0]
            idle = (rows["state"] == State.BLOCKED) & (rows["waker"] == thread)
            free = _both(free, rows[idle & np.isin(rows["wait"], (Wait.SOCKET, Wait.PIPE))])
        return bool(peers) and int((free[1] - free[0]).sum()) > _MOST_UNASKED * waited

    def _overtaken(self, turns: Array, which: Array) -> None:
        read, answered = self._rows["read"][which], self._rows["answered"][which]
        order = np.argsort(answered, kind="stable")
        ends = answered[order]
        latest = np.concatenate([[0], np.maximum.accumulate(read[order])])
        # It has come round when it has answered one, or waits: it has nothing to do then.
        for times in (ends, turns["begin"]):
            after = np.searchsorted(times, read, side="right")
            came = np.concatenate([times, [_FAR]])[after]
            self._round[which] = np.minimum(self._round[which], came)
        over, _, waited = _last_waits(turns, read, answered)
        self._until[which] = np.maximum(latest[np.searchsorted(ends, answered)], np.where(waited, over, 0))

    def _judge(self, turns: Array, due: Array, ended_ns: int, which: Array, told: Array) -> None:
        rows = self._rows[which]
        over = np.concatenate([turns["begin"][1:], [ended_ns]])
        by_chance = float(_timed(turns, due, over).mean())
        read_by_chance = float(_read(turns, told, over).mean())
        _, last, waited = _last_waits(turns, rows["read"], rows["answered"])
        timed = waited & _timed(turns[last], due[last], rows["answered"])
        told_then = waited & _read(turns[last], told, rows["answered"])
        # Of one that the loop had no time to wait in, only those like it may say something.
        asks = timed | (~waited & (self._until[which] > self._round[which]))
        took = rows["answered"] - rows["read"]
        for kind in np.unique(rows["kind"]).tolist():
            here = np.flatnonzero(rows["kind"] == kind)
            here = here[np.argsort(took[here], kind="stable")]
            length = took[here]
            low = np.searchsorted(length, length / _ALIKE)
            high = np.searchsorted(length, length * _ALIKE, side="right")
            among, timers, answers = (
                sums[high] - sums[low]
                for sums in (
                    np.concatenate([[0], np.cumsum(one[here])]) for one in (waited, timed, told_then)
                )
            )
            maybe = asks[here] & (among >= _FEWEST) & (timers >= _NEARLY_ALL * among)
            for at in np.flatnonzero(maybe).tolist():
                self._by_timer[which[here[at]]] = _more_than_chance(
                    int(timers[at]), int(among[at]), by_chance
                ) and not _more_than_chance(int(answers[at]), int(among[at]), read_by_chance)


def _turns(schedule: Schedule, thread: int) -> Array:
    """A thread's waits for whatever comes first."""
    rows = schedule.of_thread(thread)
    waits: Array = rows[(rows["state"] == State.BLOCKED) & np.isin(rows["wait"], (Wait.POLL, Wait.TIMER))]
    return waits


def _last_waits(turns: Array, read: Array, answered: Array) -> tuple[Array, Array, Array]:
    """Of each request when the last wait before its answer ended, which one it is, and if there was one."""
    if not len(turns):
        return np.zeros(len(read), np.int64), np.zeros(len(read), np.int64), np.zeros(len(read), bool)
    last = np.searchsorted(turns["begin"], answered) - 1
    over = turns["end"][last]
    return over, last, (last >= 0) & (over > read) & (over <= answered)


_Spans = tuple[Array, Array]  # when they begin and end, in order, none of which overlap


def _within(turns: Stretches, begin: int, end: int) -> _Spans:
    rows = turns.between(begin, end)
    return np.maximum(rows["begin"], begin), np.minimum(rows["end"], end)


def _both(spans: _Spans, rows: Array) -> _Spans:
    """Where these spans and these intervals are at one time."""
    begins, ends, turns = [], [], Stretches(rows)
    for begin, end in zip(*(one.tolist() for one in spans), strict=True):
        part = _within(turns, begin, end)
        begins.append(part[0])
        ends.append(part[1])
    return (np.concatenate(begins), np.concatenate(ends)) if begins else spans


def _due(schedule: Schedule, thread: int, turns: Array) -> Array:
    """When the loop's next timer was due at the latest as it began to wait; far away where it has none."""
    own = schedule.deadlines[schedule.deadlines["thread"] == thread]
    if not len(own):
        return np.full(len(turns), _FAR)
    at = np.minimum(np.searchsorted(own["begin"], turns["begin"]), len(own) - 1)
    return np.where(own["begin"][at] == turns["begin"], own["due"][at], _FAR)


def _timed(turns: Array, due: Array, until: Array) -> Array:
    """Whether a timer was due from the end of each wait until then, or right before."""
    timed: Array = (turns["wait"] == Wait.TIMER) | (due - _UNIT_NS <= until)
    return timed


def _read(turns: Array, told: Array, until: Array) -> Array:
    """Whether an answer of another process was read from the end of each wait until then."""
    return np.searchsorted(told, until, side="right") > np.searchsorted(told, turns["end"], side="right")


def _more_than_chance(hits: int, among: int, by_chance: float) -> bool:
    """Whether nearly all of these, and more than by chance."""
    return (
        hits >= _NEARLY_ALL * among
        and by_chance <= _MOST_BY_CHANCE
        and binomial_tail(hits, among, by_chance) < _RARE
    )
