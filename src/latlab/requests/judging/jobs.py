"""Requests as jobs that can be simulated: what each needs of its threads, of CPUs, locks and time. Pure.

Each request is a thread of the simulation, born when it arrived. It takes its server's thread as one takes a
token, works as long as that thread ran for it, sleeps as long as it waited for what lies outside (a disk, a
timer, a peer), and waits for whoever let a lock go to get there. It never waits for a CPU or behind another
request by itself: the simulation makes these waits. Arrivals stay where they were (an open loop).

The reader's time belongs to the request that it has read last, and before an answer to that answer; a loop
that waits for many connections lets go of its token meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Stretches, Wait
from latlab.requests.connections import NEVER
from latlab.schedule.simulation.build import allowed_cpus, strangers_of
from latlab.schedule.simulation.steps import Deed, Steps

__all__ = ["Change", "Jobs", "Pools"]

Array = np.ndarray[Any, Any]
_IDLE = (Wait.POLL, Wait.FUTEX, Wait.EVENTFD, Wait.PIPE, Wait.SOCKET)
_NONE = np.zeros(0, np.int64)
_MOST_WAKE_NS = 100_000
_READ, _SENT = 0, 1
# Phases of a request: 0 until its reader has it, 1 behind that; 2 until its worker has it, 3 behind that; 4
# until it is sent, 5 behind that. Before the reader or the worker has it, they may idle.
_BEFORE = (0, 2)


@dataclass(frozen=True)
class Change:
    """What is made faster: shares of the time that are left.

    Attributes:
        held: of the time for which locks are held that somebody waits for. lock: which word; -1 for all.
        run: the share of a stretch of running that is left, by (request, thread, begin, end); None: 1.
    """

    held: float = 1.0
    lock: int = -1
    run: Callable[[int, int, int, int], float] | None = None


@dataclass(frozen=True)
class Pools:
    """Who takes requests: a token's number for each thread, and how many of each there are."""

    of: Mapping[int, int]
    tokens: tuple[int, ...]


class _Post(NamedTuple):
    """A lock is let go: when, which gate that opens, since when it was waited for, and the lock's word."""

    time: int
    gate: int
    since: int
    word: int


class _Job:
    """The steps of one request in the making."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, int, int, int]] = []  # work, deed, argument, delay
        self.work = 0.0
        self.token = -1
        self.sent = -1  # index of the step with which it was sent

    def do(self, deed: Deed, argument: int, delay: int = 0) -> None:
        self.steps.append((self.work, int(deed), argument, delay))
        self.work = 0.0

    def take(self, token: int) -> None:
        if self.token != token:
            self.release()
            self.do(Deed.WAIT, token)
            self.token = token

    def release(self) -> None:
        if self.token >= 0:
            self.do(Deed.POST, self.token)
        self.token = -1


class Jobs:
    """The requests of a schedule, ready to be simulated.

    Args:
        schedule: of the server. rows: of REQUEST, those that were answered, by arrival.
        begun: when its sender took up each that another thread had read.
    """

    def __init__(self, schedule: Schedule, rows: Array, begun: Array) -> None:
        self._schedule, self.rows, self._begun = schedule, rows, begun
        self._index = {one.tid: index for index, one in enumerate(schedule.threads)}
        self._of = {index: Stretches(schedule.of_thread(index)) for index in self._index.values()}
        self._events = self._events_of()
        self._pieces_of = self._pieces()
        self._waits = self._lock_waits()
        self._wake_ns = self._usual_wake()

    @property
    def servers(self) -> tuple[int, ...]:
        """The threads that read or answer."""
        return tuple(self._events)

    def own_pools(self) -> Pools:
        """As it is: one token a thread; of threads that only take up what another has read, one pool."""
        handed = {
            self._index.get(int(row["sender"]), -1) for row in self.rows if row["sender"] != row["reader"]
        }
        readers = {self._index.get(int(tid), -1) for tid in np.unique(self.rows["reader"])}
        workers = sorted(handed - readers - {-1})
        of = dict.fromkeys(workers, 0)
        tokens = [len(workers)] if workers else []
        for thread in self._events:
            if thread not in of:
                of[thread] = len(tokens)
                tokens.append(1)
        return Pools(of, tuple(tokens))

    def _events_of(self) -> dict[int, list[tuple[int, int, int]]]:
        found: dict[int, list[tuple[int, int, int]]] = {}
        for number, row in enumerate(self.rows):
            reader, sender = (self._index.get(int(row[key]), -1) for key in ("reader", "sender"))
            if reader < 0 or sender < 0 or row["sent"] == NEVER:
                continue
            found.setdefault(reader, []).append((int(row["read"]), _READ, number))
            if sender != reader:
                found.setdefault(sender, []).append((int(self._begun[number]), _READ, number))
            found.setdefault(sender, []).append((int(row["sent"] - row["held"]), _SENT, number))
        for events in found.values():
            events.sort()
        return found

    def _lock_waits(self) -> dict[int, tuple[Array, list[_Post]]]:
        """By thread that let go of locks in what it did for requests: when, and what that ended."""
        self._gates: dict[tuple[int, int], tuple[int, bool]] = {}
        covered: dict[int, list[tuple[int, int]]] = {}
        for pieces in self._pieces_of:
            for _, begin, end, thread in pieces:
                covered.setdefault(thread, []).append((begin, end))
        spans = {thread: np.array(sorted(each), np.int64) for thread, each in covered.items()}
        found: dict[int, list[_Post]] = {}
        number = 0
        for thread in self._events:
            rows = self._of[thread].rows
            mine = rows[(rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.FUTEX)]
            for row in mine[(mine["source"] != Source.TIMER) & (mine["waker"] >= 0)]:
                holder, end = int(row["waker"]), int(row["end"])
                span = spans.get(holder)
                at = int(np.searchsorted(span[:, 0], end, side="right")) - 1 if span is not None else -1
                served = span is not None and at >= 0 and end < span[at, 1]
                self._gates[thread, int(row["begin"])] = (number, served)
                if served:
                    post = _Post(end, number, int(row["begin"]), int(row["object"]))
                    found.setdefault(holder, []).append(post)
                number += 1
        self._first_token = number
        return {
            thread: (np.array(sorted(post.time for post in posts), np.int64), sorted(posts))
            for thread, posts in found.items()
        }

    def _usual_wake(self) -> int:
        """From an arrival at a thread that idles to its running where a CPU is free: the lower quartile."""
        found = []
        for row in self.rows[:: max(1, len(self.rows) // 2_000)]:
            thread = self._index.get(int(row["reader"]), -1)
            if thread < 0:
                continue
            rows, arrived = self._of[thread].rows, int(row["arrived"])
            at = int(self._of[thread].ends.searchsorted(arrived))
            if at < len(rows) and rows["state"][at] == State.BLOCKED and rows["begin"][at] <= arrived:
                ran = at + 1
                while ran < len(rows) and rows["state"][ran] != State.RUNNING:
                    ran += 1
                if ran < len(rows):
                    found.append(int(rows["begin"][ran]) - arrived)
        return min(_MOST_WAKE_NS, int(np.quantile(found, 0.25))) if found else 0

    def steps(self, pools: Pools, change: Change | None = None) -> tuple[Steps, Array]:
        """What the simulation runs, and of each request the step with which it is sent (-1: none)."""
        change = change if change is not None else Change()
        jobs = []
        for number, pieces in enumerate(self._pieces_of):
            job = _Job()
            job.do(Deed.SLEEP, self._wake_ns)
            sent = int(self.rows["sent"][number] - self.rows["held"][number])
            sender = self._index.get(int(self.rows["sender"][number]), -1)
            last: tuple[int, int] | None = None
            for phase, begin, end, thread in pieces:
                if last is not None and last[0] == thread and begin > last[1]:
                    job.release()
                    if self._polled(thread, last[1], begin):
                        job.do(Deed.SLEEP, begin - last[1])
                job.take(self._first_token + pools.of[thread])
                self._piece(job, number, thread, begin, end, change, phase in _BEFORE)
                last = (thread, end)
                if end == sent and job.sent < 0 and thread == sender:
                    job.do(Deed.NONE, 0)
                    job.sent = len(job.steps) - 1
            job.release()
            jobs.append(job)
        return self._assembled(jobs, self.rows["arrived"], pools)

    def _pieces(self) -> list[list[tuple[int, int, int, int]]]:
        """Of each request the stretches of threads' time that are its own: phase, begin, end, thread."""
        found: list[list[tuple[int, int, int, int]]] = [[] for _ in self.rows]
        for thread, events in self._events.items():
            before, previous = self._schedule.began_ns, -1
            for place, (time, kind, number) in enumerate(events):
                after = events[place + 1][0] if place + 1 < len(events) else self._schedule.ended_ns
                later = 2 if thread != self._index[int(self.rows["reader"][number])] else 0
                if kind == _READ:
                    idle = self._idles(thread, before, time)
                    if idle is not None:
                        if previous >= 0 and idle > before:  # what follows an answer is that request's
                            found[previous].append((5, before, idle, thread))
                        before = idle
                    found[number].append((later, before, time, thread))
                    handed = self._handed(number, thread)
                    stop = self._idles(thread, time, after, first=True) if handed else None
                    found[number].append((later + 1, time, after if stop is None else stop, thread))
                    before = after
                else:
                    if time > before or previous != number:
                        found[number].append((4, before, time, thread))
                    before = time
                previous = number
        for pieces in found:
            pieces.sort()
        return found

    def _handed(self, number: int, thread: int) -> bool:
        """Whether another thread goes on with what this one has read."""
        row = self.rows[number]
        return row["reader"] != row["sender"] and thread == self._index[int(row["reader"])]

    def _idles(self, thread: int, begin: int, end: int, first: bool = False) -> int | None:
        """When a thread begins its last (or first) wait for work in a stretch; None where it has none."""
        found = None
        for row, from_ns, _ in self._cut(thread, begin, end):
            if row["state"] == State.BLOCKED and int(row["wait"]) in _IDLE:
                found = from_ns
                if first:
                    break
        return found

    def _polled(self, thread: int, begin: int, end: int) -> bool:
        return any(
            row["state"] == State.BLOCKED and row["wait"] == Wait.POLL
            for row, _, _ in self._cut(thread, begin, end)
        )

    def _cut(self, thread: int, begin: int, end: int) -> Iterator[tuple[Any, int, int]]:
        for row in self._of[thread].between(begin, end):
            yield row, max(begin, int(row["begin"])), min(end, int(row["end"]))

    def _piece(
        self, job: _Job, number: int, thread: int, begin: int, end: int, change: Change, waiting: bool
    ) -> None:
        """A stretch of a thread's time; while it is `waiting` for the request, what idles is left out."""
        times, posts = self._waits.get(thread, (_NONE, []))
        place = int(np.searchsorted(times, begin)) if posts else 0
        for row, from_ns, until in self._cut(thread, begin, end):
            at = from_ns
            state = int(row["state"])
            while place < len(posts) and posts[place][0] < until:
                when, gate, since, word = posts[place]
                left = change.held if change.lock in (-1, word) else 1.0
                if when > at and state in (State.RUNNING, State.UNSEEN):
                    job.work += (when - at) * (left if since < when else 1.0)
                    at = when
                job.do(Deed.POST, gate)
                place += 1
            length = until - at
            if state in (State.RUNNING, State.UNSEEN):
                left = change.run(number, thread, at, until) if change.run is not None else 1.0
                job.work += length * left * self._held(posts, place, at, until, change)
            elif state == State.BLOCKED:
                self._blocked(job, thread, row, from_ns, until, change, waiting, posts, place)

    def _held(self, posts: list[_Post], place: int, at: int, until: int, change: Change) -> float:
        """What is left of a stretch in which a lock is held that somebody waits for."""
        if change.held == 1.0 or place >= len(posts):
            return 1.0
        when, _, since, word = posts[place]
        if change.lock not in (-1, word) or since >= until:
            return 1.0
        inside = max(0, min(until, when) - max(at, since)) / max(1, until - at)
        return 1.0 - inside * (1.0 - change.held)

    def _blocked(
        self, job: _Job, thread: int, row: Any, begin: int, end: int, change: Change, waiting: bool,
        posts: list[_Post], place: int,
    ) -> None:  # fmt: skip
        wait = int(row["wait"])
        if waiting and wait in _IDLE:
            return
        gate = self._gates.get((thread, int(row["begin"])))
        if gate is not None and begin == int(row["begin"]):
            number, served = gate
            if served:
                job.do(Deed.WAIT, number)
            else:
                left = change.held if change.lock in (-1, int(row["object"])) else 1.0
                until = begin + int((end - begin) * left)
                job.do(Deed.UNTIL, until - self._schedule.began_ns)
            return
        if waiting:
            job.do(Deed.UNTIL, end - self._schedule.began_ns)
            return
        length = int((end - begin) * self._held(posts, place, begin, end, change))
        if wait == Wait.POLL:  # the loop serves others meanwhile
            token = job.token
            job.release()
            job.do(Deed.SLEEP, length)
            job.take(token)
        else:
            job.do(Deed.SLEEP, length)

    def _assembled(self, jobs: list[_Job], arrived: Array, pools: Pools) -> tuple[Steps, Array]:
        schedule = self._schedule
        zero = schedule.began_ns
        index = {cpu: place for place, cpu in enumerate(schedule.cpus)}
        steps: list[tuple[float, int, int, int]] = []
        first, sent = [0], np.full(len(jobs), -1, np.int64)
        for number, job in enumerate(jobs):
            if job.sent >= 0:
                sent[number] = len(steps) + job.sent
            steps += job.steps
            if job.work:
                steps.append((job.work, int(Deed.NONE), 0, 0))
            first.append(len(steps))
        starts = [
            (0.0, int(Deed.POST), self._first_token + pool, 0)
            for pool, count in enumerate(pools.tokens)
            for _ in range(count)
        ]
        steps += starts
        first.append(len(steps))
        masks = allowed_cpus(schedule, index)
        job_masks = [masks[max(0, self._index.get(int(tid), 0))] for tid in self.rows["sender"]]
        # Everybody else who has a CPU, own threads without requests among them, wakes when he did.
        rest = strangers_of(schedule, index, [one for one in self._index.values() if one not in self._events])
        columns = np.array([one[:3] for one in steps], float)
        work, deed, argument = (np.rint(columns[:, at]).astype(np.int64) for at in range(3))
        begins = np.concatenate([first, len(steps) + rest.first[1:]]).astype(np.int64)
        deeds = np.concatenate([deed, rest.deed]).astype(np.uint8)
        nothing = np.zeros(len(deeds), np.int64)
        made = Steps(
            begins, np.concatenate([work, rest.work]), deeds, np.concatenate([argument, rest.argument]),
            nothing, nothing, nothing - 1,
            np.concatenate([np.maximum(arrived - zero, 0), np.zeros(1 + len(rest.allowed), np.int64)]),
            np.concatenate([np.array(job_masks, np.uint64), np.zeros(1, np.uint64), rest.allowed]),
            np.ones(len(begins) - 1, np.int64), nothing, len(jobs), max(1, len(schedule.cpus)), 0,
        )  # fmt: skip
        return made, sent
