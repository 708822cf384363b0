"""What is told of requests by their parts: of the slow ones, of those for whom they waited. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from latlab.model.evidence.requests import TailPlace
from latlab.model.evidence.said import said
from latlab.model.requests import PartKind, RequestSpan, RequestWake
from latlab.model.schedule import Schedule, State
from latlab.requests.faults import Faults
from latlab.requests.parts.cutter import CROWD, LONGER, Cutter
from latlab.requests.parts.holders import Holders
from latlab.requests.parts.spent import Spent
from latlab.requests.parts.threads import Threads
from latlab.requests.parts.waits import DEEPEST, Waits
from latlab.requests.parts.workers import Workers
from latlab.requests.places import Places
from latlab.requests.where import function_of

__all__ = ["Account"]

Array = np.ndarray[Any, Any]

_MOST_OF_ALL = 0.4  # of what a request waits behind, that one other takes, to be what it is late by
_MOST_SPANS = 300  # of one request's timeline
_QUEUES: tuple[PartKind, ...] = ("receive-queue", "thread")


class Account:
    """Takes requests apart by a schedule.

    Args:
        schedule: of the server while it answered them.
        rows: of REQUEST, all of them. kinds: the names of their kinds.
        faults: pages that were missing to its threads.
        calls, asked, clients, pipes: as of `Found`.

    Attributes:
        ahead: by request, behind how many others it waited, of `causes`.
    """

    def __init__(
        self,
        schedule: Schedule,
        rows: Array,
        kinds: Sequence[str],
        faults: Faults | None = None,
        calls: Mapping[int, tuple[Array, Array]] | None = None,
        asked: Mapping[int, tuple[Array, Array]] | None = None,
        clients: frozenset[int] = frozenset(),
        pipes: frozenset[str] = frozenset(),
    ) -> None:
        self._schedule, self._requests = schedule, rows
        self._before = _done_before(rows)
        self._threads = threads = Threads(schedule)
        serving = {
            threads.index.get(int(tid), -1) for key in ("reader", "sender") for tid in np.unique(rows[key])
        }
        self._places = places = Places(schedule, serving)
        self._waits = waits = Waits(
            schedule, threads, places, calls if calls is not None else {}, clients, pipes,
            frozenset(serving),
        )  # fmt: skip
        self._workers = Workers(threads, rows)
        self._cutter = Cutter(
            schedule, threads, places, rows, kinds, self._before,
            faults if faults is not None else Faults(), asked if asked is not None else {}, clients,
            (waits, Holders(schedule, threads, places, waits, clients), self._workers),
        )  # fmt: skip
        self.ahead: dict[int, int] = {}
        self._beyond: list[tuple[int, int, int]] = []  # whose answer those waited for who had locks

    def of(self, index: int) -> Spent:
        """Nanoseconds of each part of one request; they sum to its time."""
        self._cutter.behind = False
        return self._cutter.apart(index)

    def held(self, index: int) -> Spent:
        """What those did who had the locks that a request waited for, while it waited."""
        self.of(index)
        found: Spent = {}
        self._cutter.elsewhere = []
        for holder, begin, end, _ in list(self._cutter.locks):
            self._cutter.did(found, holder, begin, end)
        self._beyond = self._cutter.elsewhere
        return found

    def through(self, index: int) -> Spent:
        """The parts of a request where a wait for a lock is what its holder does meanwhile, where known."""
        found = self.of(index)
        for holder, begin, end, where in list(self._cutter.locks):
            does: Spent = {}
            self._cutter.did(does, holder, begin, end)
            for key, ns in does.items():
                found[key] = found.get(key, 0.0) + ns
            found["lock", where] -= sum(does.values())
        return found

    def followed(self, index: int) -> Spent:
        """What threads of other processes did for which a request waited, while it waited."""
        self.of(index)
        found: Spent = {}
        waits, self._cutter.elsewhere = list(self._cutter.elsewhere), []
        for thread, begin, end in waits:
            self._cutter.did(found, thread, begin, end)
        self._beyond = self._cutter.elsewhere
        return found

    def beyond(self, index: int) -> Spent:
        """What another process did, followed to the end, that those waited for who had the locks."""
        self.held(index)
        return self._to_the_end(list(self._beyond))

    def further(self, index: int) -> Spent:
        """Likewise what the threads waited for that `followed` tells of."""
        self.followed(index)
        return self._to_the_end(list(self._beyond))

    def _to_the_end(self, waits: Sequence[tuple[int, int, int]]) -> Spent:
        found: Spent = {}
        for thread, begin, end in waits:
            self._follow(found, thread, begin, end, DEEPEST)
        return found

    def _follow(self, found: Spent, thread: int, begin: int, end: int, deep: int) -> None:
        """What a thread did; while it waited for another process, what the thread did that ended that."""
        for row, since, ns in self._threads.cut(thread, begin, end):
            blocked = deep and row["state"] == State.BLOCKED
            whom = (
                self._waits.whom("process", row) if blocked and self._waits.part(row)[0] == "process" else -1
            )
            if whom >= 0:
                self._follow(found, whom, since, since + ns, deep - 1)
            else:
                self._cutter.account(found, row, since, ns)

    def causes(self, index: int) -> Spent:
        """The same by what those did meanwhile for whom it waited: the reader, the worker.

        Who waits behind a request that computes is as late by that computation as the request itself. Who
        waits behind others, none of which takes most of that time, or long, is late by their number.
        """
        self._cutter.behind = True
        found = self._cutter.apart(index)
        ahead, longest = sum(self._cutter.ahead.values()), max(self._cutter.ahead.values(), default=0)
        alone = longest >= max(_MOST_OF_ALL * ahead, LONGER * self._cutter.owners.usual_ns)
        if alone or ahead <= sum(found.values()) / 2:
            return found
        queued = self._queued(index)
        runs = sum(ns for (kind, _), ns in queued.items() if kind == "running")
        # Who computes for long itself is preempted for long by others: it is late by what it computes.
        crowd = any(where == CROWD for _, where in queued)
        return found if crowd and runs >= LONGER * self._cutter.owners.usual_ns else queued

    def _queued(self, index: int) -> Spent:
        """The parts of one that waits behind many: before and after its reading it waits for one thread.

        It is named after the larger part: the wait in the receive queue, or for a thread after it was read.
        """
        own = self._requests["connection"]
        same = sum(ns for one, ns in self._cutter.ahead.items() if own[one] == own[index])
        mostly = 2 * same > sum(self._cutter.ahead.values())
        ahead = (
            sum(own[one] == own[index] for one in self._cutter.ahead) if mostly else len(self._cutter.ahead)
        )
        self._cutter.queued = True
        request, found = self._requests[index], self.of(index)
        self._cutter.queued = False
        waits = {
            kind: sum(ns for (one, place), ns in found.items() if one == kind and place) for kind in _QUEUES
        }
        queue = max(_QUEUES, key=lambda kind: waits[kind])
        sender = self._threads.index.get(int(request["sender"]), -1)
        where = ""
        if 2 * found.get(("thread", CROWD), 0.0) > sum(waits.values()):
            where = CROWD
        elif sender >= 0:
            where = said(TailPlace.BURST if mostly else TailPlace.MANY, name=self._threads.name(sender))
        self.ahead[index] = ahead
        merged: Spent = {}
        for (kind, place), ns in found.items():
            key = (queue, where) if kind in _QUEUES and place else (kind, place)
            merged[key] = merged.get(key, 0.0) + ns
        return merged

    def timeline(self, index: int) -> tuple[tuple[RequestSpan, ...], tuple[RequestWake, ...]]:
        """The parts of one request in their order, and who woke the threads that served it."""
        spent = self.of(index)
        spans = self._cutter.spans
        if len(spans) > _MOST_SPANS:
            longest = sorted(range(len(spans)), key=lambda at: spans[at].from_ns - spans[at].until_ns)
            spans = [spans[at] for at in sorted(longest[:_MOST_SPANS])]
        request = self._requests[index]
        serving = {self._threads.index.get(int(request[key]), -1) for key in ("reader", "sender")}
        arrived, wakes = int(request["arrived"]), self._schedule.wakes
        low, high = np.searchsorted(wakes["time"], [arrived, arrived + int(sum(spent.values())) + 1])
        found = [
            RequestWake(
                int(row["time"]) - arrived,
                self._threads.numbered(int(row["waker"])),
                self._threads.numbered(int(row["wakee"])),
            )
            for row in wakes[low:high]
            if int(row["wakee"]) in serving and row["waker"] >= 0
        ]
        return tuple(spans), tuple(found[:_MOST_SPANS])

    def taken_up(self) -> Array:
        """When the thread that answered each request began with it, where another one had read it."""
        begun = self._requests["read"].copy()
        for index in np.flatnonzero(self._requests["reader"] != self._requests["sender"]).tolist():
            request = self._requests[index]
            sender = self._threads.index.get(int(request["sender"]), -1)
            if sender >= 0:
                begun[index] = self._workers.taken_up(
                    sender, int(request["read"]), int(request["answered"]), int(self._before[index])
                )
        return begun

    def share_of(self, thread: int, begin: int, end: int, function: str) -> float | None:
        """Of the samples in a stretch in which a thread ran, those in a function; None without a sample."""
        taken = self._places.samples(thread, begin, end)
        return taken.count(function) / len(taken) if taken else None

    def share_of_kind(self, indices: Sequence[int], function: str) -> float:
        """Of the samples while these requests were worked on, those in a function; 0 without any."""
        inside = taken = 0
        for index in indices:
            request = self._requests[index]
            thread = self._threads.index.get(int(request["sender"]), -1)
            found = self._places.samples(thread, int(request["read"]), int(request["sent"] - request["held"]))
            taken += len(found)
            inside += found.count(function)
        return inside / taken if taken else 0.0

    def functions_of(self, indices: Iterable[int]) -> dict[str, float]:
        """Nanoseconds in each function of those requests, the largest first."""
        found: dict[str, float] = {}
        for index in indices:
            for (kind, where), ns in self.causes(index).items():
                function = function_of(where)
                if kind == "running" and function:
                    found[function] = found.get(function, 0.0) + ns
        return dict(sorted(found.items(), key=lambda one: -one[1]))

    def cpu_of(self, index: int) -> int:
        """The CPU on which a request was worked on first, or was to be; -1 where that wasn't seen."""
        request = self._requests[index]
        server = self._threads.index.get(int(request["sender"]), -1)
        for row, _, _ in self._threads.cut(
            server, int(request["read"]) - 1, int(request["sent"] - request["held"])
        ):
            if int(row["cpu"]) >= 0:
                return int(row["cpu"])
        return -1


def _done_before(rows: Array) -> Array:
    """When each request's answering thread had sent its answer before that one; 0 for never."""
    sent = rows["sent"] - rows["held"]
    order = np.lexsort((sent, rows["sender"]))
    before = np.zeros(len(rows), np.int64)
    same = rows["sender"][order][1:] == rows["sender"][order][:-1]
    before[order[1:]] = np.where(same, sent[order][:-1], 0)
    return before
