"""Where a request's time went: the intervals of the threads that read and answered it, cut to it. Pure.

Over 400 lines: one cut of a request's time into kinds, which must cover it without overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.requests import PartKind, RequestPart, RequestSpan, RequestWake
from latlab.model.schedule import Schedule, Source, State, Wait
from latlab.requests.faults import Faults
from latlab.schedule.code.names import plain

__all__ = ["PREEMPTED", "Account", "Spent", "merged"]

Array = np.ndarray[Any, Any]
Spent = dict[tuple[PartKind, str], float]

#: Of `Account.causes`: without a CPU in the middle of what a thread runs.
PREEMPTED = "preempted meanwhile"
_LEAST_STOP_NS = 1_000_000  # of a wait that a quota may be the cause of
_MOSTLY, _SOMETIMES = 0.7, 0.2  # of such waits, that it explains
_FEW_FAULTS = 0.05  # of the time that a thread ran, below which missing pages are not told apart
_COLLECTS = (
    "gc_collect_",
    "_PyGC_Collect",
    "PyGC_Collect",
    "_PyGC_CollectNoFail",
)  # CPython, Modules/gcmodule.c
_ONE_CONDITION = 64  # bytes
_AGAIN_NS = 1_000_000
_MOST_SPANS = 300  # of one request's timeline
_IDLE_READING = (Wait.POLL, Wait.SOCKET, Wait.PIPE)
_IDLE = (Wait.POLL, Wait.FUTEX, Wait.EVENTFD, Wait.PIPE, Wait.SOCKET)


class Account:
    """Takes requests apart by a schedule.

    Args:
        schedule: of the server while it answered them.
        rows: of REQUEST, all of them. kinds: the names of their kinds.
        faults: pages that were missing to its threads.
        calls: as `Found.calls`.
    """

    def __init__(
        self,
        schedule: Schedule,
        rows: Array,
        kinds: Sequence[str],
        faults: Faults | None = None,
        calls: Mapping[int, tuple[Array, Array]] | None = None,
    ) -> None:
        self._schedule = schedule
        self._calls = calls if calls is not None else {}
        self._faults = faults if faults is not None else Faults()
        self._requests, self._kinds = rows, kinds
        self._before = _done_before(rows)
        self._reads = _reads(rows)
        self._index = {one.tid: index for index, one in enumerate(schedule.threads)}
        self._rows = {index: schedule.of_thread(index) for index in self._index.values()}
        self._turns = _turns(schedule)
        self._stopped = _stopped_by_quota(schedule)
        self._samples = _samples(schedule)
        self._spans: list[RequestSpan] = []
        self._lane, self._at = "", 0
        self._behind = False
        self._locks: list[tuple[int, int, int]] = []  # of the last request: who let go, and when

    def of(self, index: int) -> Spent:
        """Nanoseconds of each part of one request; they sum to its time."""
        self._behind = False
        return self._apart(index)

    def held(self, index: int) -> Spent:
        """What those did who had the locks that a request waited for, while it waited."""
        self.of(index)
        found: Spent = {}
        for holder, begin, end in list(self._locks):
            self._meanwhile(found, holder, begin, end)
        return found

    def causes(self, index: int) -> Spent:
        """The same by what those did meanwhile for whom it waited: the reader, the worker.

        Who waits behind a request that computes is as late by that computation as the request itself.
        """
        self._behind = True
        return self._apart(index)

    def _apart(self, index: int) -> Spent:
        spent: Spent = {}
        self._locks = []
        request, done_before = self._requests[index], int(self._before[index])
        arrived, read = int(request["arrived"]), int(request["read"])
        answered, sent = int(request["answered"]), int(request["sent"])
        reader, sender = (self._index.get(int(request[key]), -1) for key in ("reader", "sender"))
        self._spans, self._lane, self._at = [], self._numbered(reader), 0
        self._waiting(spent, reader, arrived, read)
        begun = read
        if sender != reader and sender >= 0:
            begun = self._taken_up(sender, read, answered, done_before)
            self._lane = self._numbered(sender)
            if self._behind:
                self._meanwhile(spent, sender, read, begun)
            else:
                self._add(spent, "thread", self._name(sender), begun - read)
        self._working(spent, sender if sender >= 0 else reader, begun, answered)
        self._add(spent, "send", "", sent - answered)
        return spent

    def timeline(self, index: int) -> tuple[tuple[RequestSpan, ...], tuple[RequestWake, ...]]:
        """The parts of one request in their order, and who woke the threads that served it."""
        spent = self.of(index)
        spans = self._spans
        if len(spans) > _MOST_SPANS:
            longest = sorted(range(len(spans)), key=lambda at: spans[at].from_ns - spans[at].until_ns)
            spans = [spans[at] for at in sorted(longest[:_MOST_SPANS])]
        request = self._requests[index]
        serving = {self._index.get(int(request[key]), -1) for key in ("reader", "sender")}
        arrived, wakes = int(request["arrived"]), self._schedule.wakes
        low, high = np.searchsorted(wakes["time"], [arrived, arrived + int(sum(spent.values())) + 1])
        found = [
            RequestWake(
                int(row["time"]) - arrived,
                self._numbered(int(row["waker"])),
                self._numbered(int(row["wakee"])),
            )
            for row in wakes[low:high]
            if int(row["wakee"]) in serving and row["waker"] >= 0
        ]
        return tuple(spans), tuple(found[:_MOST_SPANS])

    def _name(self, index: int) -> str:
        return self._schedule.threads[index].name

    def taken_up(self) -> Array:
        """When the thread that answered each request began with it, where another one had read it."""
        begun = self._requests["read"].copy()
        for index in np.flatnonzero(self._requests["reader"] != self._requests["sender"]).tolist():
            request = self._requests[index]
            sender = self._index.get(int(request["sender"]), -1)
            if sender >= 0:
                begun[index] = self._taken_up(
                    sender, int(request["read"]), int(request["answered"]), int(self._before[index])
                )
        return begun

    def share_of(self, thread: int, begin: int, end: int, function: str) -> float | None:
        """Of the samples in a stretch in which a thread ran, those in a function; None without a sample."""
        times, stacks = self._samples.get(thread, (_NONE, _NONE))
        low, high = np.searchsorted(times, [begin, end])
        if low == high:
            return None
        return sum(self._function(stack) == function for stack in stacks[low:high].tolist()) / int(high - low)

    def share_of_kind(self, indices: Sequence[int], function: str) -> float:
        """Of the samples while these requests were worked on, those in a function; 0 without any."""
        inside = taken = 0
        for index in indices:
            request = self._requests[index]
            thread = self._index.get(int(request["sender"]), -1)
            times, stacks = self._samples.get(thread, (_NONE, _NONE))
            low, high = np.searchsorted(times, [int(request["read"]), int(request["sent"])])
            taken += int(high - low)
            inside += sum(self._function(stack) == function for stack in stacks[low:high].tolist())
        return inside / taken if taken else 0.0

    def functions_of(self, indices: Iterable[int]) -> dict[str, float]:
        """Nanoseconds in each function of those requests, the largest first."""
        found: dict[str, float] = {}
        for index in indices:
            for (kind, where), ns in self.causes(index).items():
                name, _, function = where.rpartition(" in ")
                if kind == "running" and name:
                    found[function] = found.get(function, 0.0) + ns
        return dict(sorted(found.items(), key=lambda one: -one[1]))

    def cpu_of(self, index: int) -> int:
        """The CPU on which a request was worked on first, or was to be; -1 where that wasn't seen."""
        request = self._requests[index]
        server = self._index.get(int(request["sender"]), -1)
        for row, _, _ in self._cut(server, int(request["read"]) - 1, int(request["sent"])):
            if int(row["cpu"]) >= 0:
                return int(row["cpu"])
        return -1

    def _numbered(self, index: int) -> str:
        return f"{self._name(index)} {self._schedule.threads[index].tid}" if index >= 0 else ""

    def _add(self, spent: Spent, kind: PartKind, where: str, ns: int) -> None:
        if ns <= 0:
            return
        spent[kind, where] = spent.get((kind, where), 0.0) + ns
        last = self._spans[-1] if self._spans else None
        begin, self._at = self._at, self._at + ns
        if last is not None and (last.thread, last.kind, last.where) == (self._lane, kind, where):
            self._spans[-1] = replace(last, until_ns=self._at)
        else:
            self._spans.append(RequestSpan(self._lane, kind, where, begin, self._at))

    def _cut(self, index: int, begin: int, end: int) -> Iterable[tuple[Any, int, int]]:
        """The intervals of a thread between two instants, with since when and how long each is."""
        if index < 0 or end <= begin:
            return
        rows = self._rows[index]
        low = int(np.searchsorted(rows["end"], begin, side="right"))
        high = int(np.searchsorted(rows["begin"], end, side="left"))
        for row in rows[low:high]:
            from_ns = max(int(row["begin"]), begin)
            yield row, from_ns, min(int(row["end"]), end) - from_ns

    def _waiting(self, spent: Spent, reader: int, arrived: int, read: int) -> None:
        """In the receive queue: what the thread did that would read it."""
        known = 0
        made = self._schedule.threads[reader] if reader >= 0 else None
        if made is not None and made.parent >= 0 and made.began_ns > arrived:
            known = min(made.began_ns, read) - arrived
            self._add(spent, "thread", f"{made.name}, which was being started", known)
        for row, since, ns in self._cut(reader, arrived, read):
            known += ns
            if row["state"] == State.RUNNING:
                self._busy(spent, reader, since, since + ns)
            elif row["state"] == State.BLOCKED and int(row["wait"]) in _IDLE_READING:
                self._add(spent, "receive-queue", "", ns)  # it is being woken
            else:
                self._account(spent, row, since, ns)
        self._add(spent, "unexplained", "", read - arrived - known)

    def _busy(self, spent: Spent, reader: int, begin: int, end: int) -> None:
        """While the reading thread ran: for which request that it had read before.

        A thread that reads one request after the other works on the one that it has read last.
        """
        name, at = self._name(reader), begin
        times, which = self._reads.get(self._schedule.threads[reader].tid, (_NONE, _NONE))
        place = int(np.searchsorted(times, begin, side="right")) - 1
        while at < end:
            until = min(end, int(times[place + 1])) if place + 1 < len(times) else end
            other = ""
            if place >= 0:
                row = self._requests[which[place]]
                until = min(until, int(row["sent"])) if int(row["sent"]) > at else until
                if int(row["sent"]) > at:
                    other = f" with {self._kinds[int(row['kind'])]}"
            if self._behind:
                self._running(spent, reader, at, until - at)
            else:
                self._add(spent, "receive-queue", f"{name} was busy{other}", until - at)
            at = until
            if place + 1 < len(times) and at >= int(times[place + 1]):
                place += 1

    def _working(self, spent: Spent, index: int, begin: int, end: int) -> None:
        known = 0
        waits: list[
            tuple[Any, int]
        ] = []  # of a loop over many connections: who answered this one, it saw last
        for row, since, ns in self._cut(index, begin, end):
            known += ns
            if row["state"] == State.BLOCKED and row["wait"] == Wait.POLL and row["source"] != Source.TIMER:
                waits.append((row, ns))
            self._account(spent, row, since, ns)
        if waits:
            self._rename(spent, waits)
        self._add(spent, "unexplained", "", end - begin - known)

    def _rename(self, spent: Spent, waits: Sequence[tuple[Any, int]]) -> None:
        """An event loop is woken for others as well: a request's peer is the one that woke it last."""
        _, last = self._wait(waits[-1][0])
        for row, ns in waits[:-1]:
            kind, where = self._wait(row)
            if kind == "process" and where != last and spent.get((kind, where), 0.0) >= ns:
                spent[kind, where] -= ns
                spent[kind, last] = spent.get((kind, last), 0.0) + ns
        for key in [key for key, ns in spent.items() if ns <= 0]:
            del spent[key]

    def _meanwhile(self, spent: Spent, index: int, begin: int, end: int) -> None:
        """What another thread did in this time, without following it any further."""
        behind, self._behind = self._behind, False
        self._working(spent, index, begin, end)
        self._behind = behind

    def _running(self, spent: Spent, thread: int, begin: int, ns: int) -> None:
        """By the functions in which it was sampled meanwhile; without a sample none is named."""
        name = self._name(thread)
        missing = self._faults.ns(self._schedule.threads[thread].tid, begin, ns)
        if missing > _FEW_FAULTS * ns:
            self._add(spent, "fault", "pages that were touched for the first time", missing)
            ns -= missing
        times, stacks = self._samples.get(thread, (_NONE, _NONE))
        low, high = np.searchsorted(times, [begin, begin + ns])
        for stack in stacks[low:high].tolist():
            function = self._function(stack)
            self._add(spent, "running", f"{name} in {function}" if function else name, ns // (high - low))
        self._add(spent, "running", name, ns - (high - low) * (ns // (high - low)) if high > low else ns)

    def _function(self, stack: int) -> str:
        """The innermost function of the program's own language."""
        frames = [self._schedule.frames[index] for index in self._schedule.stacks[stack]]
        if any(one.function.startswith(_COLLECTS) for one in frames):
            return "the interpreter's garbage collection"
        python = [one for one in frames if one.file.endswith(".py")]
        return next((plain(one.function) for one in python or frames if one.function), "")

    def _account(self, spent: Spent, row: Any, begin: int, ns: int) -> None:
        state = int(row["state"])
        if state == State.RUNNING:
            self._running(spent, int(row["thread"]), begin, ns)
        elif state == State.RUNNABLE:
            who = self._who_ran(row)
            if self._behind and not who.startswith("CPU quota") and self._preempted(row):
                self._add(spent, "running", PREEMPTED, ns)  # who computes for long shares the CPU meanwhile
            else:
                self._add(spent, "runnable", who, ns)
        elif state == State.BLOCKED:
            kind, where = self._wait(row)
            if kind == "lock" and int(row["waker"]) >= 0:
                self._locks.append((int(row["waker"]), begin, begin + ns))
            self._add(spent, kind, where, ns)
        else:
            self._add(spent, "unexplained", "events were lost", ns)

    def _wait(self, row: Any) -> tuple[PartKind, str]:
        wait, waker, source = int(row["wait"]), int(row["waker"]), int(row["source"])
        thing = self._schedule.objects.get(int(row["object"]), "")
        woke = self._name(waker) if waker >= 0 else ""
        if wait == Wait.FUTEX and (source != Source.TIMER or self._waits_on(row)):
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
        if wait in (Wait.PIPE, Wait.SOCKET) and self._answers(row):
            return "send", ""
        if wait in (Wait.PIPE, Wait.SOCKET, Wait.CHILD, Wait.POLL, Wait.EVENTFD):
            return "process", woke or ("" if thing.startswith("anon_inode:") else thing)  # of many, no name
        if source == Source.DISK:
            return "disk", thing
        return "unexplained", ""

    def _preempted(self, row: Any) -> bool:
        """Whether a thread that is ready had run until then."""
        rows = self._rows[int(row["thread"])]
        at = int(np.searchsorted(rows["begin"], int(row["begin"])))
        return at > 0 and bool(rows["state"][at - 1] == State.RUNNING)

    def _answers(self, row: Any) -> bool:
        """Whether the call in which a thread waited put an answer into a connection: it was full."""
        times, answers = self._calls.get(self._schedule.threads[int(row["thread"])].tid, (_NONE, _NONE))
        at = int(np.searchsorted(times, int(row["end"])))
        return at < len(times) and bool(answers[at])

    def _waits_on(self, row: Any) -> bool:
        """Whether a wait that its time-out ended goes on: who only looks up waits for the same word again.

        A condition variable's words lie beside each other, and take turns (glibc's has two groups).
        """
        rows = self._rows[int(row["thread"])]
        at = int(np.searchsorted(rows["begin"], int(row["begin"])))
        for other in rows[at + 1 : at + 4]:
            if other["state"] == State.BLOCKED:
                return (
                    int(other["wait"]) == Wait.FUTEX
                    and abs(int(other["object"]) - int(row["object"])) < _ONE_CONDITION
                    and int(other["begin"]) - int(row["end"]) < _AGAIN_NS
                )
        return False

    def _who_ran(self, row: Any) -> str:
        """Who had the CPU that a thread of ours waited for, longest; "" where that isn't known."""
        begin, end = int(row["begin"]), int(row["end"])
        if self._stopped >= _SOMETIMES and end - begin >= _LEAST_STOP_NS:
            # A thread that a quota stops stays runnable, whoever has the CPU meanwhile.
            return f"CPU quota of {self._schedule.quota}" if self._stopped >= _MOSTLY else ""
        turns = self._turns.get(int(row["cpu"]))
        if turns is None:
            return ""
        low = int(np.searchsorted(turns["end"], begin, side="right"))
        high = int(np.searchsorted(turns["begin"], end, side="left"))
        had: dict[str, int] = {}
        for turn in turns[low:high]:
            name = self._who(turn)
            ns = min(int(turn["end"]), end) - max(int(turn["begin"]), begin)
            had[name] = had.get(name, 0) + ns
        best = max(had, key=lambda name: had[name], default="")
        return f"{best} had the CPU" if best and had[best] > (end - begin) / 2 else ""

    def _who(self, turn: Any) -> str:
        if turn["thread"] >= 0:
            return self._name(int(turn["thread"]))
        return self._schedule.foreign_names.get(int(turn["tid"]), "")

    def _taken_up(self, sender: int, read: int, answered: int, done_before: int) -> int:
        """When the answering thread began with it: after its last answer, and after it was woken for it."""
        begun = max(read, min(done_before, answered))
        for row, _, _ in self._cut(sender, begun, answered):
            if int(row["begin"]) > begun:
                break
            if row["state"] == State.BLOCKED and int(row["wait"]) in _IDLE:
                return min(int(row["end"]), answered)
        return begun


def _done_before(rows: Array) -> Array:
    """When each request's answering thread had sent its answer before that one; 0 for never."""
    order = np.lexsort((rows["sent"], rows["sender"]))
    before = np.zeros(len(rows), np.int64)
    same = rows["sender"][order][1:] == rows["sender"][order][:-1]
    before[order[1:]] = np.where(same, rows["sent"][order][:-1], 0)
    return before


def _samples(schedule: Schedule) -> dict[int, tuple[Array, Array]]:
    """Of each thread, when it was sampled running, and its stacks."""
    rows = schedule.samples[schedule.samples["running"] == 1]
    rows = rows[np.lexsort((rows["time"], rows["thread"]))]
    threads, starts = np.unique(rows["thread"], return_index=True)
    parts = np.split(rows, starts[1:]) if len(rows) else []
    return {
        int(thread): (part["time"], part["stack"])
        for thread, part in zip(threads.tolist(), parts, strict=True)
    }


def _reads(rows: Array) -> dict[int, tuple[Array, Array]]:
    """Of each reading thread, when it read which request, in order."""
    order = np.lexsort((rows["read"], rows["reader"]))
    tids, starts = np.unique(rows["reader"][order], return_index=True)
    return {
        int(tid): (rows["read"][part], part)
        for tid, part in zip(tids.tolist(), np.split(order, starts[1:]), strict=True)
    } if len(rows) else {}  # fmt: skip


_NONE = np.zeros(0, np.int64)
_TURN = np.dtype([("begin", np.int64), ("end", np.int64), ("thread", np.int64), ("tid", np.int64)])


def _stopped_by_quota(schedule: Schedule) -> float:
    """A quota's part of the time in which a thread of ours was runnable without a CPU."""
    if not schedule.quota:
        return 0.0
    ours = [index for index, one in enumerate(schedule.threads) if not one.peer]
    rows = schedule.intervals[np.isin(schedule.intervals["thread"], ours)]
    waited = rows[(rows["state"] == State.RUNNABLE) & (rows["end"] - rows["begin"] >= _LEAST_STOP_NS)]
    order = np.argsort(waited["begin"], kind="stable")
    begin, end = waited["begin"][order], np.maximum.accumulate(waited["end"][order])
    before = np.concatenate([begin[:1], end[:-1]])
    together = int(np.maximum(end - np.maximum(begin, before), 0).sum())
    return schedule.throttled_ns / together if together else 0.0


def _turns(schedule: Schedule) -> dict[int, np.ndarray[Any, Any]]:
    """Who had each CPU, ours and strangers, in order."""
    ours = schedule.intervals[
        (schedule.intervals["state"] == State.RUNNING) & (schedule.intervals["cpu"] >= 0)
    ]
    foreign = schedule.foreign
    turns = np.zeros(len(ours) + len(foreign), _TURN)
    for key in ("begin", "end"):
        turns[key] = np.concatenate([ours[key], foreign[key]])
    turns["thread"] = np.concatenate([ours["thread"], np.full(len(foreign), -1)])
    turns["tid"] = np.concatenate([np.full(len(ours), -1), foreign["tid"]])
    cpus = np.concatenate([ours["cpu"], foreign["cpu"]])
    order = np.argsort(turns["begin"], kind="stable")
    return {int(cpu): turns[order][cpus[order] == cpu] for cpu in np.unique(cpus).tolist()}


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
