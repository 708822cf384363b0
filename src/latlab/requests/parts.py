"""Where a request's time went: the intervals of the threads that read and answered it, cut to it. Pure.

Over 400 lines: one cut of a request's time into kinds, which must cover it without overlap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.evidence.requests import HELD_BY, TailPlace
from latlab.model.evidence.said import said
from latlab.model.requests import PartKind, RequestPart, RequestSpan, RequestWake
from latlab.model.schedule import Schedule, Source, State, Stretches, Wait
from latlab.requests.connections import NEVER
from latlab.requests.faults import Faults
from latlab.requests.loops import Loops
from latlab.requests.occupants import Occupants
from latlab.requests.owners import NOBODY, Owners
from latlab.requests.places import Places

__all__ = ["PREEMPTED", "Account", "Spent", "merged"]

Array = np.ndarray[Any, Any]
Spent = dict[tuple[PartKind, str], float]

#: Of `Account.causes`: without a CPU in the middle of what a thread runs.
PREEMPTED = "preempted meanwhile"
# Of what a request waits behind, that one other takes, and times as long as usual, to be what it is late by.
_MOST_OF_ALL, _LONGER = 0.4, 2.0
_FEW_INTERRUPTS = 0.05  # likewise
_FEW_FAULTS = 0.05  # of the time that a thread ran, below which missing pages are not told apart
_ONE_CONDITION = 64  # bytes
_AGAIN_NS = 1_000_000
_OFTEN_IDLE = 0.1  # of the readings of its requests that a worker waits for a word, for that to be its idling
_MOST_PIECES = 200  # of one wait: CPython's threads look up every 5 ms
_DEEPEST = 16  # who waits for who waits for a lock
_MOST_SPANS = 300  # of one request's timeline
_EARLIER = "earlier requests of the same connection"
_KERNELS = "a kernel lock"
_TO_CLIENT = "to the client"
_KEPT_BY_TCP = "kept in its socket by TCP after the last write: for an acknowledgement, or for room"
_LOST = "events were lost"
_SAMPLED = "between the windows in which events were taken"
_NOT_SEEN = "a switch of its thread was not seen, though no event was lost"
_BY_LOOP = "what the event loop waited for"
_KEPT = "kept by the program while its threads had nothing to do"
_LOOPS_TIMER = "a timer of the event loop"
_LOOPS = (Wait.POLL, Wait.TIMER)
_QUEUES: tuple[PartKind, ...] = ("receive-queue", "thread")
_PLACED = ("lock", "disk", "timer", "process")  # kinds of waits that have a place in the code
_IDLE_READING = (Wait.POLL, Wait.SOCKET, Wait.PIPE)
_FOR_OTHERS = (Wait.PIPE, Wait.SOCKET, Wait.CHILD, Wait.POLL, Wait.EVENTFD)
_IDLE = (Wait.POLL, Wait.FUTEX, Wait.EVENTFD, Wait.PIPE, Wait.SOCKET)


class Account:
    """Takes requests apart by a schedule.

    Args:
        schedule: of the server while it answered them.
        rows: of REQUEST, all of them. kinds: the names of their kinds.
        faults: pages that were missing to its threads.
        calls, asked, clients, pipes: as of `Found`.
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
        self._schedule = schedule
        self._asked, self._clients = (asked if asked is not None else {}), clients
        self._pipes = pipes
        self._calls = calls if calls is not None else {}
        self._faults = faults if faults is not None else Faults()
        self._requests, self._kinds = rows, kinds
        self._before = _done_before(rows)
        self._index = {one.tid: index for index, one in enumerate(schedule.threads)}
        self._names = {one.tid: one.name for one in schedule.threads}
        serving = {
            self._index.get(int(tid), -1) for key in ("reader", "sender") for tid in np.unique(rows[key])
        }
        self._places = Places(schedule, serving)
        self._unseen_state = _unseen(schedule)
        turns = schedule.interrupted
        self._interrupts = {
            thread: Stretches(turns[turns["thread"] == thread])
            for thread in np.unique(turns["thread"]).tolist()
        }
        self._turns = {index: Stretches(schedule.of_thread(index)) for index in self._index.values()}
        self._occupants = Occupants(schedule, self._doing)
        self._idle_words = self._words_of_idling()
        self._owners = Owners(rows)
        self._loops = Loops(schedule, rows, self._asked)
        self._spans: list[RequestSpan] = []
        self._lane, self._at = "", 0
        self._behind = False
        self._which = NOBODY  # the request that is taken apart
        self.ahead: dict[int, int] = {}  # by request, behind how many others it waited, of `causes`
        self._ahead: dict[int, int] = {}  # others that it waits behind, and for how long
        self._locks: list[tuple[int, int, int, str]] = []  # of the last request: who had which one, when
        self._elsewhere: list[tuple[int, int, int]] = []  # likewise: whose answer it waited for
        self._beyond: list[tuple[int, int, int]] = []  # likewise: whose answer those waited for who had locks

    def of(self, index: int) -> Spent:
        """Nanoseconds of each part of one request; they sum to its time."""
        self._behind = False
        return self._apart(index)

    def held(self, index: int) -> Spent:
        """What those did who had the locks that a request waited for, while it waited."""
        self.of(index)
        found: Spent = {}
        self._elsewhere = []
        for holder, begin, end, _ in list(self._locks):
            self._did(found, holder, begin, end)
        self._beyond = self._elsewhere
        return found

    def through(self, index: int) -> Spent:
        """The parts of a request where a wait for a lock is what its holder does meanwhile, where known."""
        found = self.of(index)
        for holder, begin, end, where in list(self._locks):
            does: Spent = {}
            self._did(does, holder, begin, end)
            for key, ns in does.items():
                found[key] = found.get(key, 0.0) + ns
            found["lock", where] -= sum(does.values())
        return found

    def followed(self, index: int) -> Spent:
        """What threads of other processes did for which a request waited, while it waited."""
        self.of(index)
        found: Spent = {}
        waits, self._elsewhere = list(self._elsewhere), []
        for thread, begin, end in waits:
            self._did(found, thread, begin, end)
        self._beyond = self._elsewhere
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
            self._follow(found, thread, begin, end, _DEEPEST)
        return found

    def _follow(self, found: Spent, thread: int, begin: int, end: int, deep: int) -> None:
        """What a thread did; while it waited for another process, what the thread did that ended that."""
        for row, since, ns in self._cut(thread, begin, end):
            blocked = deep and row["state"] == State.BLOCKED
            whom = self._whom("process", row) if blocked and self._wait(row)[0] == "process" else -1
            if whom >= 0:
                self._follow(found, whom, since, since + ns, deep - 1)
            else:
                self._account(found, row, since, ns)

    def _did(self, found: Spent, thread: int, begin: int, end: int) -> None:
        """What a thread did in a stretch."""
        for row, since, ns in self._cut(thread, begin, end):
            self._account(found, row, since, ns)

    def _held_by(self, row: Any, begin: int, end: int, deep: int) -> list[tuple[int, int, int]]:
        """Who had a lock in each stretch of a wait for it, since when and until when; -1: not known.

        Who let go last may have waited for it, too, until shortly before: then another one had it.
        """
        holder, waits = self._holder(row, begin, end), int(row["thread"])
        if holder < 0 or not deep:
            return [(holder, begin, end)]
        found: list[tuple[int, int, int]] = []
        for other, since, ns in self._cut(holder, begin, end):
            lock = other["state"] == State.BLOCKED and self._waited(other)[0] == "lock"
            stretch = (
                self._held_by(other, since, since + ns, deep - 1) if lock else [(holder, since, since + ns)]
            )
            for who, first, last in stretch:
                who = who if who not in (-1, waits) else holder
                if found and found[-1][0] == who:
                    found[-1] = (who, found[-1][1], last)
                else:
                    found.append((who, first, last))
        if not found:
            return [(holder, begin, end)]
        # What isn't known of a holder is a part of its turn.
        edges = [begin, *(since for _, since, _ in found[1:]), end]
        return [(who, edges[at], edges[at + 1]) for at, (who, _, _) in enumerate(found)]

    def _holds(self, holder: int, begin: int, end: int) -> str:
        """Who has a lock in a stretch, and in which function, where it was sampled there mostly."""
        taken = Counter(one for one in self._places.samples(holder, begin, end) if one)
        function, number = taken.most_common(1)[0] if taken else ("", 0)
        return f"{self._name(holder)} in {function}" if 2 * number > taken.total() else self._name(holder)

    def clients(self) -> frozenset[str]:
        """Names of the threads that ask, where these are known."""
        stranger = self._occupants.stranger
        return frozenset(self._names.get(tid) or stranger(tid) for tid in self._clients) - {""}

    def causes(self, index: int) -> Spent:
        """The same by what those did meanwhile for whom it waited: the reader, the worker.

        Who waits behind a request that computes is as late by that computation as the request itself. Who
        waits behind others, none of which takes most of that time, or long, is late by their number.
        """
        self._behind = True
        found = self._apart(index)
        ahead, longest = sum(self._ahead.values()), max(self._ahead.values(), default=0)
        alone = longest >= max(_MOST_OF_ALL * ahead, _LONGER * self._owners.usual_ns)
        return self._queued(index) if ahead > sum(found.values()) / 2 and not alone else found

    def _queued(self, index: int) -> Spent:
        """The parts of one that waits behind many: before and after its reading it waits for one thread.

        It bears the name of what most of that is: what lies in the queue, or has been read and waits.
        """
        own = self._requests["connection"]
        same = sum(ns for one, ns in self._ahead.items() if own[one] == own[index])
        mostly = 2 * same > sum(self._ahead.values())
        ahead = sum(own[one] == own[index] for one in self._ahead) if mostly else len(self._ahead)
        request, found = self._requests[index], self.of(index)
        waits = {
            kind: sum(ns for (one, place), ns in found.items() if one == kind and place) for kind in _QUEUES
        }
        queue = max(_QUEUES, key=lambda kind: waits[kind])
        sender = self._index.get(int(request["sender"]), -1)
        where = (
            said(TailPlace.BURST if mostly else TailPlace.MANY, name=self._name(sender))
            if sender >= 0
            else ""
        )
        self.ahead[index] = ahead
        merged: Spent = {}
        for (kind, place), ns in found.items():
            key = (queue, where) if kind in _QUEUES and place else (kind, place)
            merged[key] = merged.get(key, 0.0) + ns
        return merged

    def _apart(self, index: int) -> Spent:
        spent: Spent = {}
        self._locks, self._elsewhere, self._ahead, self._which = [], [], {}, index
        request, done_before = self._requests[index], int(self._before[index])
        arrived, read = int(request["arrived"]), int(request["read"])
        answered, held = int(request["answered"]), int(request["held"])
        sent = int(request["sent"]) - held
        reader, sender = (self._index.get(int(request[key]), -1) for key in ("reader", "sender"))
        self._spans, self._lane, self._at = [], self._numbered(reader), 0
        self._waiting(spent, reader, arrived, read)
        begun = read
        if sender != reader and sender >= 0:
            begun = self._taken_up(sender, read, answered, done_before)
            self._lane = self._numbered(sender)
            self._for_a_thread(spent, reader, sender, read, begun)
        self._working(spent, sender if sender >= 0 else reader, begun, answered)
        self._sending(spent, sender, answered, sent)
        self._add(spent, "send", _KEPT_BY_TCP, held)
        return spent

    def _doing(self, thread: int, begin: int, end: int) -> str:
        """Who had a CPU, of the program's own also in which function, but for clients."""
        one = self._schedule.threads[thread]
        outside = one.peer or one.tid in self._clients
        return one.name if outside else self._holds(thread, begin, end)

    def _for_a_thread(self, spent: Spent, reader: int, sender: int, read: int, begun: int) -> None:
        """From its reading until another thread took it up.

        While that one and the reader idle, for longer than handing it over takes, no thread was lacking: the
        program kept it. What for, is known where a timer woke the thread, or one that woke it at once.
        """
        kept: list[tuple[int, int]] = []
        last = None
        for row, since, ns in self._cut(sender, read, begun):
            if row["state"] == State.BLOCKED and int(row["wait"]) in (*_IDLE, Wait.TIMER):
                kept += self._idle(reader, since, since + ns) if ns > _AGAIN_NS else []
                last = row
        if sum(end - begin for begin, end in kept) < (begun - read) / 2 or last is None:
            kept = []
        at = read
        for begin, end in [*kept, (begun, begun)]:
            if self._behind:
                self._meanwhile(spent, sender, at, begin)
            else:
                self._add(spent, "thread", self._name(sender), begin - at)
            if last is not None and self._woken_by_timer(last):
                self._add(spent, "timer", "", end - begin)
            else:
                self._add(spent, "unexplained", _KEPT, end - begin)
            at = end

    def _idle(self, thread: int, begin: int, end: int) -> list[tuple[int, int]]:
        """When a thread waited for work in this stretch; all of it where nothing is known of the thread."""
        found, known = [], 0
        for row, since, ns in self._cut(thread, begin, end):
            known += ns
            if row["state"] == State.BLOCKED and int(row["wait"]) in (*_IDLE, Wait.TIMER):
                found.append((since, since + ns))
        return found if known else [(begin, end)]

    def _woken_by_timer(self, row: Any) -> bool:
        """Whether a timer ended a wait, or the wait of who ended it, a thread of its process, just before.

        That is how runtimes with threads of their own go on (Go's, Tokio's): who looks after the timers hands
        what is due to another thread.
        """
        for _ in range(_DEEPEST):
            if row["source"] == Source.TIMER:
                return True
            if not self._of_its_own(row):
                return False
            waits = self._turns[int(row["waker"])].rows
            waits = waits[(waits["state"] == State.BLOCKED) & (waits["end"] <= row["end"])]
            if not len(waits) or int(row["end"]) - int(waits["end"][-1]) > _AGAIN_NS:
                return False
            row = waits[-1]
        return False

    def _sending(self, spent: Spent, sender: int, answered: int, sent: int) -> None:
        """From the first byte of its answer to the last: what isn't sending is told as such.

        Who compresses while it sends, or sleeps between two pieces, is not late by its client.
        """
        known = 0
        for row, since, ns in self._cut(sender, answered, sent):
            known += ns
            if row["state"] == State.RUNNING and self._computes(sender, since, ns):
                self._running(spent, sender, since, ns)
            elif row["state"] == State.BLOCKED and row["wait"] != Wait.POLL and not self._sends(row):
                self._account(spent, row, since, ns)
            else:
                self._add(spent, "send", _TO_CLIENT, ns)
        self._add(spent, "send", _TO_CLIENT, sent - answered - known)

    def _computes(self, thread: int, begin: int, ns: int) -> bool:
        """Whether a thread was sampled mostly outside of calls that send, and not at work for others."""
        taken = self._places.stacks(thread, begin, begin + ns)
        others = sum(
            until - since
            for owner, since, until in self._owners.cut(self._schedule.threads[thread].tid, begin, begin + ns)
            if owner not in (NOBODY, self._which)
        )
        return others < ns / 2 and 2 * sum(self._places.computes(one) for one in taken) > len(taken)

    def _sends(self, row: Any) -> bool:
        """Whether a wait is for room in the connection, or isn't known."""
        return self._wait(row)[0] in ("send", "unexplained")

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
        taken = self._places.samples(thread, begin, end)
        return taken.count(function) / len(taken) if taken else None

    def share_of_kind(self, indices: Sequence[int], function: str) -> float:
        """Of the samples while these requests were worked on, those in a function; 0 without any."""
        inside = taken = 0
        for index in indices:
            request = self._requests[index]
            thread = self._index.get(int(request["sender"]), -1)
            found = self._places.samples(thread, int(request["read"]), int(request["sent"] - request["held"]))
            taken += len(found)
            inside += found.count(function)
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
        for row, _, _ in self._cut(server, int(request["read"]) - 1, int(request["sent"] - request["held"])):
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
        for row in self._turns[index].between(begin, end):
            from_ns = max(int(row["begin"]), begin)
            yield row, from_ns, min(int(row["end"]), end) - from_ns

    def _waiting(self, spent: Spent, reader: int, arrived: int, read: int, deep: int = _DEEPEST) -> None:
        """In the receive queue: what the thread did that would read it.

        Of one that had nothing to do, and was told by another thread to read, what that one did.
        """
        known = 0
        made = self._schedule.threads[reader] if reader >= 0 else None
        if made is not None and made.parent >= 0 and made.began_ns > arrived:
            known = min(made.began_ns, read) - arrived
            self._made(spent, made.parent, made.name, arrived, arrived + known)
        for row, since, ns in self._cut(reader, arrived, read):
            known += ns
            if row["state"] == State.RUNNING:
                self._busy(spent, reader, since, since + ns)
            elif deep and self._is_to_be_told(row, since, ns):
                self._waiting(spent, int(row["waker"]), since, since + ns, deep - 1)
            elif (
                row["state"] == State.BLOCKED
                and int(row["wait"]) in _IDLE_READING
                and not self._waits_elsewhere(row, ns)
            ):
                self._add(spent, "receive-queue", "", ns)  # it is being woken
            else:
                self._account(spent, row, since, ns)
        self._add(spent, "unexplained", "", read - arrived - known)

    def _is_to_be_told(self, row: Any, begin: int, ns: int) -> bool:
        """Whether a thread that works for no request waits until another one has something for it."""
        if row["state"] != State.BLOCKED or not (self._places.awaits_news(row) and self._of_its_own(row)):
            return False
        tid = self._schedule.threads[int(row["thread"])].tid
        idle = sum(
            until - since
            for owner, since, until in self._owners.cut(tid, begin, begin + ns)
            if owner == NOBODY
        )
        return 2 * idle > ns

    def _made(self, spent: Spent, maker: int, name: str, begin: int, end: int) -> None:
        """Until the reading thread was there: what kept the one that made it from that, else its making."""
        starting, known = f"{name}, which was being started", 0
        for row, since, ns in self._cut(maker, begin, end):
            known += ns
            idles = row["state"] == State.BLOCKED and int(row["wait"]) in _IDLE_READING
            if row["state"] != State.RUNNING and not idles:
                self._account(spent, row, since, ns)
            else:
                self._add(spent, "thread", starting, ns)
        self._add(spent, "thread", starting, end - begin - known)

    def _waits_elsewhere(self, row: Any, ns: int) -> bool:
        """Whether a reader waits for something else, since what has arrived would have ended its wait.

        Such as a log that is a full pipe, or a peer that a loop asks and waits for.
        """
        if ns <= _AGAIN_NS:
            return False
        waker = int(row["waker"])
        if waker >= 0 and self._schedule.threads[waker].tid in self._clients:
            return row["wait"] != Wait.POLL and self._answers(row)
        return row["wait"] != Wait.POLL or waker >= 0

    def _busy(self, spent: Spent, reader: int, begin: int, end: int) -> None:
        """While the reading thread ran: for which request that it had read before."""
        one = self._schedule.threads[reader]
        for owner, since, until in self._owners.cut(one.tid, begin, end):
            if self._behind:
                self._before_it(owner, until - since)
                self._running(spent, reader, since, until - since)
            else:
                with_it = f" with {self._busy_with(owner)}" if owner not in (NOBODY, self._which) else ""
                self._add(spent, "receive-queue", f"{one.name} was busy{with_it}", until - since)

    def _working(self, spent: Spent, index: int, begin: int, end: int) -> None:
        known = 0
        rows = list(self._cut(index, begin, end))
        waits = [row for row, _, _ in rows if row["state"] == State.BLOCKED and row["wait"] in _LOOPS]
        polls = any(row["wait"] == Wait.POLL for row in waits)
        on = self._let_go_on(index, waits[-1], end) if polls else self._unseen()
        for row, since, ns in rows:
            known += ns
            if row["state"] in (State.RUNNING, State.RUNNABLE) and self._which != NOBODY:
                self._shared(spent, index, row, since, ns, on)
            elif polls and row["state"] == State.BLOCKED and self._for_many(row, on):
                self._waits(spent, *on, self._whom(on[0], waits[-1]), since, ns)
            else:
                self._account(spent, row, since, ns)
        self._add(spent, "unexplained", "", end - begin - known)

    def _shared(
        self, spent: Spent, thread: int, row: Any, begin: int, ns: int, on: tuple[PartKind, str]
    ) -> None:
        """While the thread ran that has read it, or was to: for it, or for another that it has read, too."""
        one = self._schedule.threads[thread]
        for owner, since, until in self._owners.cut(one.tid, begin, begin + ns):
            mine = owner in (self._which, NOBODY)
            if not mine and self._overtakes(owner, until, until - since):
                self._add(spent, *on, until - since)
            elif row["state"] == State.RUNNABLE:
                self._account(spent, row, since, until - since)
            elif mine:
                self._running(spent, thread, since, until - since)
            elif self._behind:
                self._before_it(owner, until - since)
                self._running(spent, thread, since, until - since)
            else:
                self._add(
                    spent, "thread", f"{one.name} was busy with {self._busy_with(owner)}", until - since
                )

    def _busy_with(self, other: int) -> str:
        """What another request is to this one: an earlier one of its connection, or of a kind."""
        same = self._requests["connection"][other] == self._requests["connection"][self._which]
        earlier = self._which != NOBODY and other < self._which
        return _EARLIER if same and earlier else self._kinds[int(self._requests["kind"][other])]

    def _overtakes(self, other: int, until: int, ns: int) -> bool:
        """Whether it wasn't late by this. What takes long may be its own: who computes isn't always known."""
        return ns <= _LONGER * self._owners.usual_ns and self._loops.overtakes(other, self._which, until)

    def _before_it(self, other: int, ns: int) -> None:
        if other not in (NOBODY, self._which):
            self._ahead[other] = self._ahead.get(other, 0) + ns

    def _for_many(self, row: Any, on: tuple[PartKind, str]) -> bool:
        """Whether a wait is an event loop's, for others as well: it is for what the request waits for."""
        polled = row["wait"] == Wait.POLL or (
            row["wait"] == Wait.TIMER and on[0] == "process" and int(row["object"]) >= 0
        )
        return polled and self._wait(row)[0] in ("process", "thread", "timer")

    def _unseen(self) -> tuple[PartKind, str]:
        """What a request waited for that others overtook, in a loop that was never idle meanwhile."""
        timer = self._which != NOBODY and self._loops.by_timer(self._which)
        return ("timer", _LOOPS_TIMER) if timer else ("unexplained", _BY_LOOP)

    def _let_go_on(self, thread: int, row: Any, end: int) -> tuple[PartKind, str]:
        """What a loop waited for, by its last wait before an answer: a timer, or a peer that it then read."""
        if self._which != NOBODY and self._loops.by_timer(self._which):
            return "timer", _LOOPS_TIMER
        times, tellers = self._asked.get(self._schedule.threads[thread].tid, (_NONE, _NONE))
        low, high = np.searchsorted(times, [int(row["end"]), end], side="right")
        if high > low:
            teller = int(tellers[high - 1])
            name = self._names.get(teller) or self._schedule.foreign_names.get(teller, "")
            if self._which != NOBODY and self._loops.unasked(
                thread, int(self._requests["read"][self._which]), int(times[high - 1])
            ):
                return "unexplained", _BY_LOOP
            return ("process", name) if name else self._wait(row)
        waker = int(row["waker"])
        if row["wait"] == Wait.POLL and waker >= 0 and self._schedule.threads[waker].tid in self._clients:
            return "unexplained", _BY_LOOP  # a client that asks lets no other go on
        return self._wait(row)

    def _meanwhile(self, spent: Spent, index: int, begin: int, end: int) -> None:
        """What another thread did in this time, without following it any further."""
        for owner, since, until in self._owners.cut(self._schedule.threads[index].tid, begin, end):
            self._before_it(owner, until - since)
        kept = self._behind, self._which
        self._behind, self._which = False, NOBODY
        self._working(spent, index, begin, end)
        self._behind, self._which = kept

    def _running(self, spent: Spent, thread: int, begin: int, ns: int) -> None:
        """By the functions in which it was sampled meanwhile; without a sample none is named."""
        name = self._name(thread)
        served = self._interrupted(thread, begin, ns)
        if served > _FEW_INTERRUPTS * ns:
            self._add(spent, "interrupt", "interrupts that its CPU served", served)
            ns -= served
        missing = self._faults.ns(self._schedule.threads[thread].tid, begin, ns)
        if missing > _FEW_FAULTS * ns:
            self._add(spent, "fault", "pages that were touched for the first time", missing)
            ns -= missing
        taken = self._places.stacks(thread, begin, begin + ns)
        for stack in taken:
            function, each = self._places.function(stack), ns // len(taken)
            if self._places.durable(stack):
                self._add(spent, "disk", f"fsync, in {function}" if function else "fsync", each)
            else:
                self._add(spent, "running", f"{name} in {function}" if function else name, each)
        self._add(spent, "running", name, ns % len(taken) if taken else ns)

    def _interrupted(self, thread: int, begin: int, ns: int) -> int:
        """Of a stretch in which a thread ran, what interrupts took: their share of its turn."""
        own = self._interrupts.get(thread)
        at = int(own.ends.searchsorted(begin, "right")) if own is not None else 0
        if own is None or at == len(own.rows):
            return 0
        turn = own.rows[at]
        inside = min(int(turn["end"]), begin + ns) - max(int(turn["begin"]), begin)
        return int(turn["ns"] * max(0, inside) / max(1, int(turn["end"]) - int(turn["begin"])))

    def _account(self, spent: Spent, row: Any, begin: int, ns: int) -> None:
        state = int(row["state"])
        if state == State.RUNNING:
            self._running(spent, int(row["thread"]), begin, ns)
        elif state == State.RUNNABLE:
            if self._behind and not self._occupants.by_quota(row) and self._preempted(row):
                self._add(spent, "running", PREEMPTED, ns)  # who computes for long shares the CPU meanwhile
            else:
                for who, had in self._occupants.of(row, begin, begin + ns):
                    self._add(spent, "runnable", who, had)
        elif state == State.BLOCKED:
            kind, where = self._wait(row)
            if kind == "lock":
                self._for_a_lock(spent, row, where, begin, begin + ns)
            else:
                self._waits(spent, kind, where, self._whom(kind, row), begin, ns)
        else:
            self._add(spent, "unexplained", self._unseen_state, ns)

    def _for_a_lock(self, spent: Spent, row: Any, where: str, begin: int, end: int) -> None:
        for holder, since, until in self._held_by(row, begin, end, _DEEPEST):
            held = f"{where}{HELD_BY}{self._holds(holder, since, until)}" if holder >= 0 else where
            if holder >= 0:
                self._locks.append((holder, since, until, held))
            self._add(spent, "lock", held, until - since)

    def _whom(self, kind: PartKind, row: Any) -> int:
        """The thread that ended a wait for another thread, or for another process; -1: not known."""
        if kind not in ("thread", "process") or row["wait"] == Wait.STOPPED:
            return -1
        return int(row["waker"])

    def _waits(self, spent: Spent, kind: PartKind, where: str, whom: int, begin: int, ns: int) -> None:
        """Waiting, for what a thread does meanwhile where it waits for one."""
        if kind == "process" and whom >= 0:
            self._elsewhere.append((whom, begin, begin + ns))
        if kind == "thread" and whom >= 0 and self._behind:
            self._meanwhile(spent, whom, begin, begin + ns)
        else:
            self._add(spent, kind, where, ns)

    def _of_its_own(self, row: Any) -> bool:
        """Whether a thread of the same process ended a wait by itself, such as one that a loop gave work."""
        waker, own = int(row["waker"]), self._schedule.threads[int(row["thread"])]
        if waker < 0 or row["source"] != Source.THREAD:
            return False
        other = self._schedule.threads[waker]
        return other.pid == own.pid and other.tid not in self._clients

    def _wait(self, row: Any) -> tuple[PartKind, str]:
        """The part that a wait is, and its place: what was waited for, and in which function."""
        kind, where = self._waited(row)
        placed = kind in _PLACED and row["wait"] not in (Wait.POLL, Wait.STOPPED)
        if placed and (function := self._places.waiting(row)):
            between = ", " if where and kind != "lock" else " " if where else ""
            return kind, f"{where}{between}in {function}"
        return kind, where

    def _waited(self, row: Any) -> tuple[PartKind, str]:
        wait, waker, source = int(row["wait"]), int(row["waker"]), int(row["source"])
        thing = self._schedule.objects.get(int(row["object"]), "")
        woke = self._name(waker) if waker >= 0 else ""
        if wait == Wait.FUTEX and (
            source != Source.TIMER or self._places.interpreters(row) or self._waits_on(row)
        ):
            return "lock", self._places.lock(row)
        if wait in (Wait.SEMAPHORE, Wait.FILE_LOCK):
            named = f"file lock on {thing}" if thing else "file lock"
            named = f"System V semaphore {int(row['object'])}" if wait == Wait.SEMAPHORE else named
            return "lock", named
        if wait in (Wait.DISK, Wait.FAULT) and source == Source.THREAD and waker >= 0:
            return self._in_the_kernel(row, thing)
        if wait in (Wait.DISK, Wait.SYNC):
            return "disk", "fsync" if wait == Wait.SYNC else thing
        if wait == Wait.FAULT:
            return "fault", ""
        if wait == Wait.TIMER or source == Source.TIMER:
            return "timer", ""
        if wait == Wait.STOPPED:
            return "process", said(TailPlace.STOPPED)
        if wait == Wait.THROTTLED:
            return "runnable", "CPU quota"
        # A pipe of another kind, such as a child's output, is not among the calls.
        sends = wait == Wait.SOCKET or (wait == Wait.PIPE and thing in self._pipes)
        if sends and self._answers(row):
            return "send", _TO_CLIENT
        if wait in _FOR_OTHERS and self._of_its_own(row):
            return "thread", woke
        if wait in _FOR_OTHERS:
            return "process", woke or ("" if thing.startswith("anon_inode:") else thing)  # of many, no name
        if source == Source.DISK:
            return "disk", thing
        return "unexplained", ""

    def _in_the_kernel(self, row: Any, thing: str) -> tuple[PartKind, str]:
        """An uninterruptible wait that a thread of the program ended: no disk does that.

        A file and a process's memory have a lock (i_rwsem, mmap_lock); vfork waits for the child's exec.
        """
        waker = self._schedule.threads[int(row["waker"])]
        if waker.pid != self._schedule.threads[int(row["thread"])].pid and not thing:
            return "process", waker.name
        of = thing or ("its memory" if row["wait"] == Wait.FAULT else "")
        return "lock", f"{_KERNELS} of {of}" if of else f"{_KERNELS}, such as its memory's"

    def _preempted(self, row: Any) -> bool:
        """Whether a thread that is ready had run until then."""
        turns = self._turns[int(row["thread"])]
        at = int(turns.begins.searchsorted(row["begin"]))
        return at > 0 and bool(turns.rows["state"][at - 1] == State.RUNNING)

    def _answers(self, row: Any) -> bool:
        """Whether the call in which a thread waited put an answer into a connection: it was full."""
        times, answers = self._calls.get(self._schedule.threads[int(row["thread"])].tid, (_NONE, _NONE))
        at = int(np.searchsorted(times, int(row["end"])))
        return at < len(times) and bool(answers[at])

    def _waits_on(self, row: Any) -> bool:
        """Whether a wait that its time-out ended goes on: who only looks up waits for the same word again.

        A condition variable's words lie beside each other, and take turns (glibc's has two groups).
        """
        return self._again(row) is not None

    def _again(self, row: Any) -> Any:
        """The wait for the same word that follows one that its time-out ended; None where none does."""
        turns = self._turns[int(row["thread"])]
        at = int(turns.begins.searchsorted(row["begin"]))
        for other in turns.rows[at + 1 : at + 4]:
            if other["state"] == State.BLOCKED:
                again = (
                    int(other["wait"]) == Wait.FUTEX
                    and abs(int(other["object"]) - int(row["object"])) < _ONE_CONDITION
                    and int(other["begin"]) - int(row["end"]) < _AGAIN_NS
                )
                return other if again else None
        return None

    def _holder(self, row: Any, begin: int, end: int) -> int:
        """Who had a lock that a thread waits for, in this stretch of its wait; -1: not known.

        Who lets go at last has had it. But the interpreter's goes round while one waits: who runs has it, or
        was taken off its CPU.
        """
        if not self._places.interpreters(row):
            return self._released(row)
        waits = int(row["thread"])
        pid = self._schedule.threads[waits].pid
        ran = {
            index: sum(ns for one, _, ns in self._cut(index, begin, end) if self._at_work(one))
            for index, other in enumerate(self._schedule.threads)
            if other.pid == pid and index != waits
        }
        most = max(ran, key=lambda index: ran[index], default=-1)
        return most if most >= 0 and ran[most] > (end - begin) / 2 else -1

    def _at_work(self, row: Any) -> bool:
        """Whether a thread runs, or was taken off its CPU."""
        return row["state"] == State.RUNNING or (row["state"] == State.RUNNABLE and self._preempted(row))

    def _released(self, row: Any) -> int:
        """Who let go of what a thread waited for, at last, where time-outs cut its wait; -1: not known."""
        for _ in range(_MOST_PIECES):
            if int(row["waker"]) >= 0 or row["source"] != Source.TIMER or (again := self._again(row)) is None:
                break
            row = again
        return int(row["waker"])

    def _taken_up(self, sender: int, read: int, answered: int, done_before: int) -> int:
        """When the answering thread began with it: after its last answer, and after it was woken for it."""
        begun = max(read, min(done_before, answered))
        first = True
        for row, _, _ in self._cut(sender, begun, answered):
            if row["state"] == State.BLOCKED and int(row["wait"]) in _IDLE:
                waits = first and int(row["begin"]) <= begun
                if waits or self._waits_for_work(row):
                    begun = min(int(row["end"]), answered)
                first = False
        return begun

    def _waits_for_work(self, row: Any) -> bool:
        """Whether a thread waits for the same word here as it mostly does while the next request is read."""
        word = int(row["object"])
        words = self._idle_words.get(int(row["thread"]), ())
        return int(row["wait"]) == Wait.FUTEX and any(abs(word - one) < _ONE_CONDITION for one in words)

    def _words_of_idling(self) -> dict[int, list[int]]:
        """By thread that answers what others read, the words that it waits for when these read."""
        found: dict[int, list[int]] = {}
        rows = self._requests
        for tid in np.unique(rows["sender"][rows["sender"] != rows["reader"]]).tolist():
            thread = self._index.get(tid, -1)
            if thread < 0:
                continue
            read = rows["read"][(rows["sender"] == tid) & (rows["reader"] != tid) & (rows["read"] != NEVER)]
            turns = self._turns[thread]
            at = np.minimum(turns.ends.searchsorted(read, "right"), len(turns.rows) - 1)
            then = turns.rows[at] if len(turns.rows) else turns.rows
            waits = then["object"][(then["state"] == State.BLOCKED) & (then["wait"] == Wait.FUTEX)]
            words, counts = np.unique(waits, return_counts=True)
            found[thread] = words[counts >= _OFTEN_IDLE * len(read)].tolist()
        return found


def _unseen(schedule: Schedule) -> str:
    """Why it isn't known what a thread did."""
    if schedule.losses.events:
        return _LOST
    return _SAMPLED if len(schedule.losses.windows) > 1 else _NOT_SEEN


def _done_before(rows: Array) -> Array:
    """When each request's answering thread had sent its answer before that one; 0 for never."""
    sent = rows["sent"] - rows["held"]
    order = np.lexsort((sent, rows["sender"]))
    before = np.zeros(len(rows), np.int64)
    same = rows["sender"][order][1:] == rows["sender"][order][:-1]
    before[order[1:]] = np.where(same, sent[order][:-1], 0)
    return before


_NONE = np.zeros(0, np.int64)


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
