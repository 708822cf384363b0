"""Where a request's time went: the intervals of the threads that read and answered it, cut to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from latlab.model.requests import PartKind, RequestPart
from latlab.model.schedule import Schedule, Source, State, Wait

__all__ = ["Account", "merged"]

Spent = dict[tuple[PartKind, str], float]

_IDLE = (Wait.POLL, Wait.FUTEX, Wait.EVENTFD, Wait.PIPE, Wait.SOCKET)


class Account:
    """Takes requests apart by a schedule.

    Args:
        schedule: of the server while it answered them.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._index = {one.tid: index for index, one in enumerate(schedule.threads)}
        self._rows = {index: schedule.of_thread(index) for index in self._index.values()}
        self._foreign = {
            int(cpu): schedule.foreign[schedule.foreign["cpu"] == cpu]
            for cpu in np.unique(schedule.foreign["cpu"])
        }

    def of(self, request: Any, done_before: int) -> Spent:
        """Nanoseconds of each part of one request; they sum to its time.

        Args:
            request: a row of REQUEST.
            done_before: when its answering thread had sent its last answer before, 0 for never.
        """
        spent: Spent = {}
        arrived, read = int(request["arrived"]), int(request["read"])
        answered, sent = int(request["answered"]), int(request["sent"])
        reader, sender = (self._index.get(int(request[key]), -1) for key in ("reader", "sender"))
        self._waiting(spent, reader, arrived, read)
        begun = read
        if sender != reader and sender >= 0:
            begun = self._taken_up(sender, read, answered, done_before)
            self._add(spent, "thread", self._name(sender), begun - read)
        self._working(spent, sender if sender >= 0 else reader, begun, answered)
        self._add(spent, "send", "", sent - answered)
        return spent

    def _name(self, index: int) -> str:
        return self._schedule.threads[index].name

    @staticmethod
    def _add(spent: Spent, kind: PartKind, where: str, ns: int) -> None:
        if ns > 0:
            spent[kind, where] = spent.get((kind, where), 0.0) + ns

    def _cut(self, index: int, begin: int, end: int) -> Iterable[tuple[Any, int]]:
        """The intervals of a thread between two instants, each with how long it lies between them."""
        if index < 0 or end <= begin:
            return
        rows = self._rows[index]
        low = int(np.searchsorted(rows["end"], begin, side="right"))
        high = int(np.searchsorted(rows["begin"], end, side="left"))
        for row in rows[low:high]:
            yield row, min(int(row["end"]), end) - max(int(row["begin"]), begin)

    def _waiting(self, spent: Spent, reader: int, arrived: int, read: int) -> None:
        """In the receive queue: what the thread did that would read it."""
        known = 0
        for row, ns in self._cut(reader, arrived, read):
            known += ns
            if row["state"] == State.RUNNING:
                self._add(spent, "receive-queue", f"{self._name(reader)} was busy", ns)
            elif row["state"] == State.BLOCKED and int(row["wait"]) in (Wait.POLL, Wait.SOCKET):
                self._add(spent, "receive-queue", "", ns)  # it is being woken
            else:
                self._account(spent, row, ns)
        self._add(spent, "unexplained", "", read - arrived - known)

    def _working(self, spent: Spent, index: int, begin: int, end: int) -> None:
        known = 0
        for row, ns in self._cut(index, begin, end):
            known += ns
            self._account(spent, row, ns)
        self._add(spent, "unexplained", "", end - begin - known)

    def _account(self, spent: Spent, row: Any, ns: int) -> None:
        state = int(row["state"])
        if state == State.RUNNING:
            self._add(spent, "running", self._name(int(row["thread"])), ns)
        elif state == State.RUNNABLE:
            self._add(spent, "runnable", self._who_ran(row), ns)
        elif state == State.BLOCKED:
            kind, where = self._wait(row)
            self._add(spent, kind, where, ns)
        else:
            self._add(spent, "unexplained", "events were lost", ns)

    def _wait(self, row: Any) -> tuple[PartKind, str]:
        wait, waker, source = int(row["wait"]), int(row["waker"]), int(row["source"])
        thing = self._schedule.objects.get(int(row["object"]), "")
        woke = self._name(waker) if waker >= 0 else ""
        if wait == Wait.FUTEX and source != Source.TIMER:
            return "lock", f"futex {int(row['object']):#x}" + (f", released by {woke}" if woke else "")
        if wait in (Wait.DISK, Wait.SYNC):
            return "disk", "fsync" if wait == Wait.SYNC else thing
        if wait == Wait.FAULT:
            return "fault", ""
        if wait == Wait.TIMER or source == Source.TIMER:
            return "timer", ""
        if wait == Wait.STOPPED:
            return "process", "stopped by a signal"
        if wait == Wait.THROTTLED:
            return "runnable", "CPU quota"
        if wait in (Wait.PIPE, Wait.SOCKET, Wait.CHILD, Wait.POLL, Wait.EVENTFD):
            return "process", woke or thing
        if source == Source.DISK:
            return "disk", thing
        return "unexplained", ""

    def _who_ran(self, row: Any) -> str:
        """Who had the CPU, longest, while a thread of ours was runnable."""
        begin, end = int(row["begin"]), int(row["end"])
        best, name = 0, ""
        for foreign in self._foreign.values():
            low = int(np.searchsorted(foreign["end"], begin, side="right"))
            high = int(np.searchsorted(foreign["begin"], end, side="left"))
            for other in foreign[low:high]:
                ns = min(int(other["end"]), end) - max(int(other["begin"]), begin)
                if ns > best:
                    best, name = ns, self._schedule.foreign_names.get(int(other["tid"]), "")
        return f"{name} had the CPU" if name and best > (end - begin) / 4 else ""

    def _taken_up(self, sender: int, read: int, answered: int, done_before: int) -> int:
        """When the answering thread began with it: after its last answer, and after it was woken for it."""
        begun = max(read, min(done_before, answered))
        for row, _ in self._cut(sender, begun, answered):
            if int(row["begin"]) > begun:
                break
            if row["state"] == State.BLOCKED and int(row["wait"]) in _IDLE:
                return min(int(row["end"]), answered)
        return begun


def merged(spent: Sequence[Spent]) -> tuple[RequestPart, ...]:
    """The mean parts of several requests, the largest first."""
    if not spent:
        return ()
    total: Spent = {}
    for one in spent:
        for key, ns in one.items():
            total[key] = total.get(key, 0.0) + ns
    whole = sum(total.values()) or 1.0
    return tuple(
        RequestPart(kind, where, ns / len(spent), ns / whole)
        for (kind, where), ns in sorted(total.items(), key=lambda item: -item[1])
    )
