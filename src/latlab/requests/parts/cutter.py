"""Where one request's time went: the intervals of the threads that read and answered it, cut to it. Pure.

Over 400 lines: one cut of a request's time into kinds, which must cover it without overlap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.evidence.requests import TailPlace
from latlab.model.evidence.said import said
from latlab.model.requests import PartKind, RequestSpan
from latlab.model.schedule import Schedule, State, Stretches, Wait
from latlab.requests.faults import Faults
from latlab.requests.loops import Loops
from latlab.requests.occupants import Occupants
from latlab.requests.owners import NOBODY, Owners
from latlab.requests.parts.holders import Holders
from latlab.requests.parts.spent import PREEMPTED, Spent
from latlab.requests.parts.threads import Threads
from latlab.requests.parts.waits import AGAIN_NS, DEEPEST, TO_CLIENT, Waits
from latlab.requests.parts.workers import IDLE, Workers
from latlab.requests.places import Places
from latlab.requests.where import held_by, ran_in, waited_in

__all__ = ["CROWD", "LONGER", "Cutter"]

Array = np.ndarray[Any, Any]

LONGER = 2.0  # times as long as usual, to be what a request is late by
_FEW_INTERRUPTS = 0.05  # of the time that a thread ran, below which interrupts are not told apart
_FEW_FAULTS = 0.05  # of the time that a thread ran, below which missing pages are not told apart
_EARLIER = "earlier requests of the same connection"
_KEPT_BY_TCP = "kept in its socket by TCP after the last write: for an acknowledgement, or for room"
_BY_LOOP = "what the event loop waited for"
CROWD = said(TailPlace.CROWD)
_KEPT = "kept by the program while its threads had nothing to do"
_LOOPS_TIMER = "a timer of the event loop"
_LOOPS = (Wait.POLL, Wait.TIMER)
_IDLE_READING = (Wait.POLL, Wait.SOCKET, Wait.PIPE)
_LOST = "events were lost"
_SAMPLED = "between the windows in which events were taken"
_NOT_SEEN = "a switch of its thread was not seen, though no event was lost"
_NONE = np.zeros(0, np.int64)


class Cutter:
    """Takes one request apart.

    Args:
        rows: of REQUEST, all of them. kinds: the names of their kinds. before: when each one's answering
            thread had sent its answer before that one.
        faults: pages that were missing to its threads.
        asked, clients: as of `Found`.

    Attributes:
        behind: what a request waits for behind others is told as what those do. queued: a CPU that the
            program's own threads had for other requests is waited for as these threads are.
        owners: for which request threads work. occupants: who had the CPUs.
        spans: the parts of the last request in their order. ahead: others that it waits behind, and for how
            long. locks: who had which one that it waited for, when. elsewhere: whose answer it waited for.
    """

    def __init__(
        self,
        schedule: Schedule,
        threads: Threads,
        places: Places,
        rows: Array,
        kinds: Sequence[str],
        before: Array,
        faults: Faults,
        asked: Mapping[int, tuple[Array, Array]],
        clients: frozenset[int],
        judges: tuple[Waits, Holders, Workers],
    ) -> None:
        self._schedule, self._threads, self._places = schedule, threads, places
        self._requests, self._kinds, self._before = rows, kinds, before
        self._faults, self._asked, self._clients = faults, asked, clients
        self._waits, self._holders, self._workers = judges
        self._names = {one.tid: one.name for one in schedule.threads}
        self._unseen_state = _unseen(schedule)
        turns = schedule.interrupted
        self._interrupts = {
            thread: Stretches(turns[turns["thread"] == thread])
            for thread in np.unique(turns["thread"]).tolist()
        }
        self.occupants = Occupants(schedule, self._holders.doing, clients)
        self.owners = Owners(rows)
        self._loops = Loops(schedule, rows, asked)
        self._lane, self._at = "", 0
        self._which = NOBODY  # the request that is taken apart
        self.behind = self.queued = False
        self.spans: list[RequestSpan] = []
        self.ahead: dict[int, int] = {}
        self.locks: list[tuple[int, int, int, str]] = []
        self.elsewhere: list[tuple[int, int, int]] = []

    def did(self, found: Spent, thread: int, begin: int, end: int) -> None:
        """What a thread did in a stretch."""
        for row, since, ns in self._threads.cut(thread, begin, end):
            self.account(found, row, since, ns)

    def apart(self, index: int) -> Spent:
        """Nanoseconds of each part of one request; they sum to its time."""
        spent: Spent = {}
        self.locks, self.elsewhere, self.ahead, self._which = [], [], {}, index
        request, done_before = self._requests[index], int(self._before[index])
        arrived, read = int(request["arrived"]), int(request["read"])
        answered, held = int(request["answered"]), int(request["held"])
        sent = int(request["sent"]) - held
        reader, sender = (self._threads.index.get(int(request[key]), -1) for key in ("reader", "sender"))
        self.spans, self._lane, self._at = [], self._threads.numbered(reader), 0
        self._waiting(spent, reader, arrived, read)
        begun = read
        if sender != reader and sender >= 0:
            begun = self._workers.taken_up(sender, read, answered, done_before)
            self._lane = self._threads.numbered(sender)
            self._for_a_thread(spent, reader, sender, read, begun)
        self._working(spent, sender if sender >= 0 else reader, begun, answered)
        self._sending(spent, sender, answered, sent)
        self._add(spent, "send", _KEPT_BY_TCP, held)
        return spent

    def _for_a_thread(self, spent: Spent, reader: int, sender: int, read: int, begun: int) -> None:
        """From its reading until another thread took it up.

        While that one and the reader idle, for longer than handing it over takes, no thread was lacking: the
        program kept it. What for, is known where a timer woke the thread, or one that woke it at once.
        """
        kept: list[tuple[int, int]] = []
        last = None
        for row, since, ns in self._threads.cut(sender, read, begun):
            if row["state"] == State.BLOCKED and int(row["wait"]) in (*IDLE, Wait.TIMER):
                kept += self._workers.idle(reader, since, since + ns) if ns > AGAIN_NS else []
                last = row
        if sum(end - begin for begin, end in kept) < (begun - read) / 2 or last is None:
            kept = []
        at = read
        for begin, end in [*kept, (begun, begun)]:
            if self.behind:
                self._meanwhile(spent, sender, at, begin)
            else:
                self._add(spent, "thread", self._threads.name(sender), begin - at)
            if last is not None and self._waits.woken_by_timer(last):
                self._add(spent, "timer", "", end - begin)
            else:
                self._add(spent, "unexplained", _KEPT, end - begin)
            at = end

    def _sending(self, spent: Spent, sender: int, answered: int, sent: int) -> None:
        """From the first byte of its answer to the last: what isn't sending is told as such.

        Who compresses while it sends, or sleeps between two pieces, is not late by its client.
        """
        known = 0
        for row, since, ns in self._threads.cut(sender, answered, sent):
            known += ns
            if row["state"] == State.RUNNING and self._computes(sender, since, ns):
                self._running(spent, sender, since, ns)
            elif row["state"] == State.BLOCKED and row["wait"] != Wait.POLL and not self._sends(row):
                self.account(spent, row, since, ns)
            else:
                self._add(spent, "send", TO_CLIENT, ns)
        self._add(spent, "send", TO_CLIENT, sent - answered - known)

    def _computes(self, thread: int, begin: int, ns: int) -> bool:
        """Whether a thread was sampled mostly outside of calls that send, and not at work for others."""
        taken = self._places.stacks(thread, begin, begin + ns)
        others = sum(
            until - since
            for owner, since, until in self.owners.cut(self._schedule.threads[thread].tid, begin, begin + ns)
            if owner not in (NOBODY, self._which)
        )
        return others < ns / 2 and 2 * sum(self._places.computes(one) for one in taken) > len(taken)

    def _sends(self, row: Any) -> bool:
        """Whether a wait is for room in the connection, or isn't known."""
        return self._waits.part(row)[0] in ("send", "unexplained")

    def _add(self, spent: Spent, kind: PartKind, where: str, ns: int) -> None:
        if ns <= 0:
            return
        spent[kind, where] = spent.get((kind, where), 0.0) + ns
        last = self.spans[-1] if self.spans else None
        begin, self._at = self._at, self._at + ns
        if last is not None and (last.thread, last.kind, last.where) == (self._lane, kind, where):
            self.spans[-1] = replace(last, until_ns=self._at)
        else:
            self.spans.append(RequestSpan(self._lane, kind, where, begin, self._at))

    def _waiting(self, spent: Spent, reader: int, arrived: int, read: int, deep: int = DEEPEST) -> None:
        """In the receive queue: what the thread did that would read it.

        Of one that had nothing to do, and was told by another thread to read, what that one did.
        """
        known = 0
        made = self._schedule.threads[reader] if reader >= 0 else None
        if made is not None and made.parent >= 0 and made.began_ns > arrived:
            known = min(made.began_ns, read) - arrived
            self._made(spent, made.parent, made.name, arrived, arrived + known)
        for row, since, ns in self._threads.cut(reader, arrived, read):
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
                self.account(spent, row, since, ns)
        self._add(spent, "unexplained", "", read - arrived - known)

    def _is_to_be_told(self, row: Any, begin: int, ns: int) -> bool:
        """Whether a thread that works for no request waits until another one has something for it."""
        if row["state"] != State.BLOCKED or not (
            self._places.awaits_news(row) and self._waits.of_its_own(row)
        ):
            return False
        tid = self._schedule.threads[int(row["thread"])].tid
        idle = sum(
            until - since
            for owner, since, until in self.owners.cut(tid, begin, begin + ns)
            if owner == NOBODY
        )
        return 2 * idle > ns

    def _made(self, spent: Spent, maker: int, name: str, begin: int, end: int) -> None:
        """Until the reading thread was there: what kept the one that made it from that, else its making."""
        starting, known = f"{name}, which was being started", 0
        for row, since, ns in self._threads.cut(maker, begin, end):
            known += ns
            idles = row["state"] == State.BLOCKED and int(row["wait"]) in _IDLE_READING
            if row["state"] != State.RUNNING and not idles:
                self.account(spent, row, since, ns)
            else:
                self._add(spent, "thread", starting, ns)
        self._add(spent, "thread", starting, end - begin - known)

    def _waits_elsewhere(self, row: Any, ns: int) -> bool:
        """Whether a reader waits for something else, since what has arrived would have ended its wait.

        Such as a log that is a full pipe, or a peer that a loop asks and waits for.
        """
        if ns <= AGAIN_NS:
            return False
        waker = int(row["waker"])
        if waker >= 0 and self._schedule.threads[waker].tid in self._clients:
            return row["wait"] != Wait.POLL and self._waits.answers(row)
        return row["wait"] != Wait.POLL or waker >= 0

    def _busy(self, spent: Spent, reader: int, begin: int, end: int) -> None:
        """While the reading thread ran: for which request that it had read before."""
        one = self._schedule.threads[reader]
        for owner, since, until in self.owners.cut(one.tid, begin, end):
            if self.behind:
                self._before_it(owner, until - since)
                self._running(spent, reader, since, until - since)
            else:
                with_it = f" with {self._busy_with(owner)}" if owner not in (NOBODY, self._which) else ""
                self._add(spent, "receive-queue", f"{one.name} was busy{with_it}", until - since)

    def _working(self, spent: Spent, index: int, begin: int, end: int) -> None:
        known = 0
        rows = list(self._threads.cut(index, begin, end))
        waits = [row for row, _, _ in rows if row["state"] == State.BLOCKED and row["wait"] in _LOOPS]
        polls = any(row["wait"] == Wait.POLL for row in waits)
        on = self._let_go_on(index, waits[-1], end) if polls else self._unseen()
        for row, since, ns in rows:
            known += ns
            if row["state"] in (State.RUNNING, State.RUNNABLE) and self._which != NOBODY:
                self._shared(spent, index, row, since, ns, on)
            elif polls and row["state"] == State.BLOCKED and self._for_many(row, on):
                self._waited_for(spent, *on, self._waits.whom(on[0], waits[-1]), since, ns)
            else:
                self.account(spent, row, since, ns)
        self._add(spent, "unexplained", "", end - begin - known)

    def _shared(
        self, spent: Spent, thread: int, row: Any, begin: int, ns: int, on: tuple[PartKind, str]
    ) -> None:
        """While the thread ran that has read it, or was to: for it, or for another that it has read, too."""
        one = self._schedule.threads[thread]
        for owner, since, until in self.owners.cut(one.tid, begin, begin + ns):
            mine = owner in (self._which, NOBODY)
            if not mine and self._overtakes(owner, until, until - since):
                self._add(spent, *on, until - since)
            elif row["state"] == State.RUNNABLE:
                self.account(spent, row, since, until - since)
            elif mine:
                self._running(spent, thread, since, until - since)
            elif self.behind:
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
        return ns <= LONGER * self.owners.usual_ns and self._loops.overtakes(other, self._which, until)

    def _before_it(self, other: int, ns: int) -> None:
        if other not in (NOBODY, self._which):
            self.ahead[other] = self.ahead.get(other, 0) + ns

    def _for_many(self, row: Any, on: tuple[PartKind, str]) -> bool:
        """Whether a wait is an event loop's, for others as well: it is for what the request waits for."""
        polled = row["wait"] == Wait.POLL or (
            row["wait"] == Wait.TIMER and on[0] == "process" and int(row["object"]) >= 0
        )
        return polled and self._waits.part(row)[0] in ("process", "thread", "timer")

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
            return ("process", name) if name else self._waits.part(row)
        waker = int(row["waker"])
        if row["wait"] == Wait.POLL and waker >= 0 and self._schedule.threads[waker].tid in self._clients:
            return "unexplained", _BY_LOOP  # a client that asks lets no other go on
        return self._waits.part(row)

    def _meanwhile(self, spent: Spent, index: int, begin: int, end: int) -> None:
        """What another thread did in this time, without following it any further."""
        for owner, since, until in self.owners.cut(self._schedule.threads[index].tid, begin, end):
            self._before_it(owner, until - since)
        kept = self.behind, self._which
        self.behind, self._which = False, NOBODY
        self._working(spent, index, begin, end)
        self.behind, self._which = kept

    def _running(self, spent: Spent, thread: int, begin: int, ns: int) -> None:
        """By the functions in which it was sampled meanwhile; without a sample none is named."""
        name = self._threads.name(thread)
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
                self._add(spent, "disk", waited_in("fsync", function), each)
            else:
                self._add(spent, "running", ran_in(name, function), each)
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

    def account(self, spent: Spent, row: Any, begin: int, ns: int) -> None:
        """Add what a thread did in a stretch of one of its intervals."""
        state = int(row["state"])
        if state == State.RUNNING:
            self._running(spent, int(row["thread"]), begin, ns)
        elif state == State.RUNNABLE:
            if self.behind and not self.occupants.by_quota(row) and self._waits.preempted(row):
                for _, since, until, own in self.occupants.of(row, begin, begin + ns):
                    self._for_others(own, since, until)
                self._add(spent, "running", PREEMPTED, ns)  # who computes for long shares the CPU meanwhile
            else:
                for who, since, until, own in self.occupants.of(row, begin, begin + ns):
                    others = self._for_others(own, since, until)
                    self._add(spent, "thread", CROWD, others if self.queued else 0)
                    self._add(spent, "runnable", who, until - since - (others if self.queued else 0))
        elif state == State.BLOCKED:
            kind, where = self._waits.part(row)
            if kind == "lock":
                self._for_a_lock(spent, row, where, begin, begin + ns)
            else:
                self._waited_for(spent, kind, where, self._waits.whom(kind, row), begin, ns)
        else:
            self._add(spent, "unexplained", self._unseen_state, ns)

    def _for_others(self, own: int, begin: int, end: int) -> int:
        """For how long a thread of the program's, which had the CPU, worked for other requests."""
        whole = 0
        if own >= 0 and self._which != NOBODY:
            for owner, since, until in self.owners.cut(self._schedule.threads[own].tid, begin, end):
                if owner not in (NOBODY, self._which):
                    whole += until - since
                    if self.behind:
                        self._before_it(owner, until - since)
        return whole

    def _for_a_lock(self, spent: Spent, row: Any, where: str, begin: int, end: int) -> None:
        for holder, since, until in self._holders.by(row, begin, end, DEEPEST):
            held = held_by(where, self._holders.named(holder, since, until)) if holder >= 0 else where
            if holder >= 0:
                self.locks.append((holder, since, until, held))
            self._add(spent, "lock", held, until - since)

    def _waited_for(self, spent: Spent, kind: PartKind, where: str, whom: int, begin: int, ns: int) -> None:
        """Waiting, for what a thread does meanwhile where it waits for one."""
        if kind == "process" and whom >= 0:
            self.elsewhere.append((whom, begin, begin + ns))
        if kind == "thread" and whom >= 0 and self.behind:
            self._meanwhile(spent, whom, begin, begin + ns)
        else:
            self._add(spent, kind, where, ns)


def _unseen(schedule: Schedule) -> str:
    """Why it isn't known what a thread did."""
    if schedule.losses.events:
        return _LOST
    return _SAMPLED if len(schedule.losses.windows) > 1 else _NOT_SEEN
