"""One connection: which bytes out answer which bytes in. Pure.

Where a protocol was recognised, requests and answers are cut by it and matched in their order, so that each
request of a pipelined batch counts. Where what was captured doesn't show an end, the change of direction
stands for it: the bytes in up to the first byte out are then counted by their answers, or else as one, and
that their number isn't known is counted too.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, Source, State, Stretches, Wait
from latlab.requests.framing import Cut, Framing, Message, Stream
from latlab.requests.framing.message import UNKNOWN

__all__ = ["Call", "Gaps", "Pair", "Pairing", "answered_early", "paired", "without_pushed"]

_LEAST_GOOD = 0.9  # of what is cut, for a protocol to be believed
_LEAST_PLAIN = 5  # exchanges of a framing without a name, all of which must agree
_PLAIN = ("lines", "prefixed")
_WORDS = "resp"  # whose requests may be mere words, as any line is: its answers must be its own
_HTTP2 = b"PRI * HTTP/2.0"
# Of exchanges, in which not as many were answered as asked; how many these are at least, and of how many.
_OVERLAPS, _FEW_OVERLAPS, _LEAST_EXCHANGES = 0.01, 3, 20
_AS_MANY = 0.01
_NOT_CAPTURED = "request of a batch, not captured"  # counted by their answers
_NAMES = {"lines": "request", "prefixed": "request"}
_NEARLY_ALL, _RARELY = 0.9, 0.5  # of exchanges
_FEWEST_PUSHED = 3  # exchanges with pushed bytes, to say whose they are
_MAY_BE_FULL = 16 << 10  # bytes out, from which a loop may wait for room in the connection
_MOSTLY = 0.5  # of the time between two pieces
_FOR_WORK = (Wait.POLL, Wait.SOCKET, Wait.PIPE, Wait.EVENTFD, Wait.TIMER, Wait.FUTEX)
_PLAIN_SLEEP = -1  # object of a sleep; what else its time-out ended waited for something
_NOTHING: np.ndarray[Any, Any] = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Call:
    """Bytes in or out.

    Attributes:
        time_ns: at its end. arrived_ns: when what it read had arrived, itself where that wasn't seen.
        known: the first bytes of `size`.
    """

    time_ns: int
    inward: bool
    size: int
    tid: int
    known: bytes
    arrived_ns: int
    seen: bool


@dataclass(slots=True)
class Pair:
    """A request, and its answer where there is one."""

    first: Call  # in which it began
    kind: str
    bytes_in: int
    answered: Call | None = None
    sent: Call | None = None
    bytes_out: int = 0


class _Unframed:
    """By the change of direction alone."""

    name = "direction"

    def request(self, data: bytes) -> Message | None:
        """The request at the beginning; see `Framing`."""
        return Message(UNKNOWN, "request")

    def answer(self, data: bytes, asked: str) -> Message | None:
        """The answer at the beginning; see `Framing`."""
        return Message(UNKNOWN)


class Pairing:
    """Pairs the calls of one connection by one framing, or by the change of direction when it is None.

    Attributes:
        pairs: in the order in which they were answered. open: not answered while it was observed.
        uncounted: exchanges in which more requests may have come than were counted.
        by_direction: exchanges that were told apart by the change of direction.
        framing: its name.
        overlaps: several requests were under way at once, and in which order they were answered isn't known.
    """

    def __init__(self, calls: Sequence[Call], framing: Framing | None) -> None:
        self.framing = framing.name if framing is not None else "direction"
        self._by_framing = framing is not None
        self._protocol: Framing = framing if framing is not None else _Unframed()
        self._in = Stream(self._protocol.request)
        self._out = Stream(lambda data: self._protocol.answer(data, self._asked()))
        self._queue: deque[Pair] = deque()
        self._since: list[Call] = []  # calls in since the last answer
        self._run: list[Call] = []  # calls out since the last call in
        self._extra = self._unasked = self._left_over = self._deepest = 0
        self._exchanges = self._unequal = self._named = 0
        self._came = self._went = 0
        self.pairs: list[Pair] = []
        self.uncounted = self.by_direction = 0
        self.overlaps = False
        for call in calls:
            if call.inward:
                if self._run:
                    self._turn()
                self._read(call)
            elif self._since or self._queue or self._in.began is not None:
                self._write(call)
        if self._run:
            self._turn()
        self.open = list(self._queue)
        if self._in.began is not None:
            self.open.append(Pair(self._in.began, self._name(self._in.lost_kind), 0))

    @property
    def believed(self) -> bool:
        """Whether the connection agrees with the framing."""
        good, bad = self._in.good + self._out.good, self._in.bad + self._out.bad
        if not self._by_framing:
            return True
        if not self._in.good + self._named:
            return False
        if bad > (1 - _LEAST_GOOD) * (good + bad) or self._unasked:
            return False
        if self.framing == _WORDS and self.pairs and not self._out.parsed:
            return False
        if self.framing in _PLAIN:
            return (
                self._exchanges >= _LEAST_PLAIN
                and not (bad or self.by_direction or self._unequal)
                and self._in.good > 0
            )
        # Without pipelining nothing may be left over when the next request comes.
        return not (self._left_over and self._deepest <= 1)

    @property
    def out_of_step(self) -> bool:
        """Whether a framing without a name finds as many answers as requests, but not turn by turn."""
        came, went = self._in.good, self._out.good
        return (
            self.framing in _PLAIN
            and not (self._in.bad or self._out.bad or self.by_direction)
            and self._exchanges >= _LEAST_EXCHANGES
            and self._unequal >= max(_FEW_OVERLAPS, _OVERLAPS * self._exchanges)
            and abs(came - went) <= max(1, _AS_MANY * came)
        )

    def _asked(self) -> str:
        return self._queue[0].kind if self._queue else ""

    def _name(self, kind: str) -> str:
        return _NAMES.get(self.framing, kind or "request")

    def _read(self, call: Call) -> None:
        self._since.append(call)
        for cut in self._in.feed(call, call.size, call.known):
            self._queue.append(Pair(cut.began, self._name(cut.kind), cut.length))
            self._came += 1
        self._deepest = max(self._deepest, len(self._queue))

    def _write(self, call: Call) -> None:
        self._run.append(call)
        for cut in self._out.feed(call, call.size, call.known):
            self._went += 1
            self._answer(cut, call)

    def _answer(self, cut: Cut, last: Call) -> None:
        if self._queue:
            pair = self._queue.popleft()
        elif self._in.lost:
            # The beginning of the first one may have been captured, that of the others was not.
            kind = self._in.lost_kind if not self._extra else _NOT_CAPTURED
            self._extra += 1
            pair = Pair(self._in.began, kind or _NOT_CAPTURED, 0)
        else:
            self._unasked += 1
            return
        pair.answered, pair.sent, pair.bytes_out = cut.began, last, cut.length
        self.pairs.append(pair)

    def _turn(self) -> None:
        """An answer has ended, as far as the direction says it."""
        self._exchanges += 1
        # What was not captured of a batch is counted by its answers.
        self._unequal += self._went < self._came if self._in.lost else self._came != self._went
        self._came = self._went = 0
        if self._in.lost or (self._in.began is not None and not self._by_framing):
            self._named += bool(self._in.lost_kind)
            if not self._extra:
                size = sum(call.size for call in self._since) - sum(one.bytes_in for one in self._queue)
                self._queue.append(Pair(self._in.began, self._name(self._in.lost_kind), max(0, size)))
            # Answers that were cut have counted them; without these, there may have been more than one.
            if self._by_framing and (self._out.unclear or not self._extra):
                self.uncounted += 1
            self._in.resume()
        if self._out.unclear:
            self.by_direction += 1
            first, last = self._run[0], self._run[-1]
            size = sum(call.size for call in self._run)
            for pair in self._queue:
                pair.answered, pair.sent, pair.bytes_out = first, last, size
                self.pairs.append(pair)
            self._queue.clear()
            self._out.resume()
        self._left_over += bool(self._queue)
        self._extra = 0
        self._since, self._run = [], []


def paired(calls: Sequence[Call], framings: Sequence[Framing]) -> Pairing:
    """By the first of the framings with which the connection agrees, else by the change of direction."""
    overlaps = bool(calls) and calls[0].known.startswith(_HTTP2)
    for framing in framings:
        found = Pairing(calls, framing)
        if found.believed:
            return found
        overlaps = overlaps or found.out_of_step
    found = Pairing(calls, None)
    found.overlaps = overlaps
    return found


class Gaps:
    """What threads waited for between two pieces that went out.

    Args:
        calls: as of `Found`.
        asked: by thread, of what it read that had been asked of others: when that was asked, and when it was
            read.
    """

    def __init__(
        self,
        schedule: Schedule,
        calls: Mapping[int, np.ndarray[Any, Any]],
        asked: Mapping[int, Sequence[tuple[int, int]]],
    ) -> None:
        index = {one.tid: number for number, one in enumerate(schedule.threads)}
        self._index, self._calls, self._asked = index, calls, asked
        self._waits_of: dict[int, Stretches] = {}
        self._schedule = schedule

    def by_itself(self, tid: int, begin: int, end: int, readers: set[int]) -> tuple[bool, bool]:
        """Whether a thread went on by a timer or by others than these, and whether one of them woke it."""
        given = {self._index[one] for one in readers if one in self._index}
        itself = handed = False
        for row in self._waits(tid, begin, end):
            if row["source"] == Source.TIMER or row["wait"] == Wait.TIMER:
                itself = True
            elif int(row["waker"]) in given:
                handed = True
            elif row["wait"] != Wait.FUTEX or row["waker"] >= 0:
                itself = True
        return itself, handed

    def for_work(self, first: Call, then: Call, since: int, sent: int) -> bool:
        """Whether an answer may have ended with its first call: who sent it, or goes on, waited for work.

        Args:
            since: when the request was read. sent: bytes of its answer until then.
        """
        if first.tid != then.tid:
            waits = self._waits(then.tid, first.time_ns, then.time_ns)
            took = sum(
                min(int(row["end"]), then.time_ns) - max(int(row["begin"]), first.time_ns) for row in waits
            )
            return took > _MOSTLY * (then.time_ns - first.time_ns)
        for row in self._waits(first.tid, first.time_ns, then.time_ns):
            end, wait = int(row["end"]), int(row["wait"])
            if wait == Wait.POLL or (wait == Wait.TIMER and row["object"] != _PLAIN_SLEEP):
                full = sent >= _MAY_BE_FULL and wait == Wait.POLL and row["source"] != Source.TIMER
                if not full and not self._told(first.tid, end, then.time_ns, since):
                    return True
            elif wait == Wait.SOCKET:
                times = self._calls.get(first.tid, _NOTHING)
                at = int(np.searchsorted(times, end))
                ends = int(times[at]) if at < len(times) else then.time_ns
                if ends < then.time_ns and not self._told(first.tid, end, then.time_ns, since):
                    return True  # else it waited for room
        return False

    def _told(self, tid: int, begin: int, end: int, since: int) -> bool:
        """Whether a thread read then what the process had asked another for on behalf of a request."""
        return any(begin <= read <= end and since <= when for when, read in self._asked.get(tid, ()))

    def _waits(self, tid: int, begin: int, end: int) -> Any:
        """The waits that ended in a stretch, of those that may be for work."""
        if tid not in self._waits_of:
            index = self._index.get(tid, -1)
            rows = self._schedule.of_thread(index) if index >= 0 else self._schedule.intervals[:0]
            blocked = rows["state"] == State.BLOCKED
            self._waits_of[tid] = Stretches(rows[blocked & np.isin(rows["wait"], _FOR_WORK)])
        waits = self._waits_of[tid]
        low, high = waits.ends.searchsorted([begin, end], side="right")
        return waits.rows[low:high]


def _exchanges(calls: Sequence[Call]) -> list[tuple[list[Call], list[Call]]]:
    """What came in, and what went out until more came."""
    found: list[tuple[list[Call], list[Call]]] = []
    for call in calls:
        if call.inward and (not found or found[-1][1]):
            found.append(([], []))
        if found:
            found[-1][0 if call.inward else 1].append(call)
    return found


def without_pushed(calls: Sequence[Call], gaps: Gaps) -> list[Call]:
    """Without what threads push that never read the connection, and that nobody who does told to.

    Only where who reads it answers nearly each request itself. A thread that is handed requests is woken by
    who reads them, or sends as much for each of them.
    """
    readers = {call.tid for call in calls if call.inward}
    exchanges = [one for one in _exchanges(calls) if one[1]]
    other = [[call for call in out if call.tid not in readers] for _, out in exchanges]
    pushed = [(out[0], len(out)) for out in other if out]
    answers = sum(len(mine) < len(out) for mine, (_, out) in zip(other, exchanges, strict=True))
    if len(pushed) < _FEWEST_PUSHED or answers < _NEARLY_ALL * len(exchanges):
        return list(calls)
    often = Counter(map(len, other)).most_common(1)[0]
    if often[0] and often[1] >= _NEARLY_ALL * len(exchanges):
        return list(calls)
    before: dict[int, int] = {}
    told = []
    first = {id(call) for call, _ in pushed}
    for call in calls:
        if not call.inward and call.tid not in readers:
            if id(call) in first:
                told.append(gaps.by_itself(call.tid, before.get(call.tid, 0), call.time_ns, readers))
            before[call.tid] = call.time_ns
    if sum(itself for itself, _ in told) < _NEARLY_ALL * len(told) or sum(
        handed for _, handed in told
    ) > _RARELY * len(told):
        return list(calls)
    return [call for call in calls if call.inward or call.tid in readers]


def answered_early(calls: Sequence[Call], gaps: Gaps) -> list[Call]:
    """Each answer only until who sends it waited for work, from where on it may be pushed.

    A thread that goes on with it because who read it woke that thread, nearly each time, sends its rest.
    """
    exchanges = _exchanges(calls)
    handed = [
        gaps.by_itself(call.tid, came[0].time_ns, call.time_ns, {came[-1].tid, before.tid})[1]
        for came, out in exchanges
        for before, call in pairwise(out)
        if call.tid != before.tid
    ]
    rest = sum(handed) >= _NEARLY_ALL * len(handed)
    found: list[Call] = []
    for came, out in exchanges:
        found += came
        sent = 0
        for at, call in enumerate(out):
            before = out[at - 1]
            may_end = at and (call.tid == before.tid or not rest)
            if may_end and gaps.for_work(before, call, came[-1].time_ns, sent):
                break
            found.append(call)
            sent += call.size
    return found
