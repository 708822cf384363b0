"""From bytes in and out of sockets to requests: from the arrival to the last byte out of the socket. Pure.

Over 400 lines: what belongs to which connection is decided by everything that is known of its address.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule
from latlab.requests.framing import candidates
from latlab.requests.lives import Delivered, Life, Lives
from latlab.requests.pairing import Call, Gaps, Pair, Pairing, answered_early, paired, without_pushed
from latlab.schedule import Transfers, is_pipe

__all__ = ["GIVEN_UP_NS", "NEVER", "REQUEST", "Found", "find_requests"]

#: A request: when it arrived, was read, was answered from and until; who read and who answered.
REQUEST = np.dtype(
    [
        ("arrived", np.int64),
        ("read", np.int64),  # NEVER while it was observed, as the two that follow
        ("answered", np.int64),
        ("sent", np.int64),  # of one without an answer: when its connection ended, or NEVER
        ("reader", np.int32),  # thread ids
        ("sender", np.int32),
        ("connection", np.int32),  # index into Found.connections
        ("kind", np.int32),  # index into Found.kinds
        ("bytes_in", np.int64),
        ("bytes_out", np.int64),
        ("seen", np.uint8),  # 1: its arrival was seen; 0: it is counted from its reading
        ("held", np.int64),  # of its time, from its last call until TCP had let go of what that sent
    ]
)

#: Who waits for so long for an answer that doesn't come waited for one.
GIVEN_UP_NS = 100_000_000
NEVER = np.iinfo(np.int64).max
_PEEK = 2  # MSG_PEEK: what is looked at is read again
_UNIX = 1  # AF_UNIX
_TCP = 6  # IPPROTO_TCP
_STANDARD = (0, 1)  # input and output
_ONE_WAY = 5  # calls
_HERE = ("127.", "[::1]", "[::ffff:127.", "unix ")  # addresses of connections on this machine
_NONE = np.zeros(0, np.int64)
_TELLING = (0.5, 0.99, 0.999)  # quantiles
_MATTERS = 0.1  # of a quantile
_BEGINNINGS = 8  # of requests, by which protocols are proposed

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Found:
    """The requests of all connections.

    Attributes:
        rows: of REQUEST, by arrival; with those that were not answered while it was observed.
        connections: their names. kinds: their names.
        framings: how many requests were told apart by which framing.
        uncounted: exchanges in which more requests may have come than are counted.
        overlapping: connections on which several requests were under way at once, in an unknown order.
        pushed: connections on which bytes went out, and none were seen to be read.
        unasked: how often bytes went out that belong to no answer, on connections with answers.
        unended: connections on which answers, or what is pushed after them, may be what goes out last: none
            of their requests are among the rows.
        calls: by thread, when its calls on all sockets ended, in order, and which of them answered.
        asked: by thread, when it read what it had asked others for, and which thread had sent that (-1: it
            isn't known). clients: threads that ask. pipes: those through which answers go.
    """

    rows: Array
    connections: tuple[str, ...]
    kinds: tuple[str, ...]
    framings: Mapping[str, int] = field(default_factory=dict)
    uncounted: int = 0
    calls: Mapping[int, tuple[Array, Array]] = field(default_factory=dict)
    asked: Mapping[int, tuple[Array, Array]] = field(default_factory=dict)
    clients: frozenset[int] = frozenset()
    pipes: frozenset[str] = frozenset()
    overlapping: int = 0
    pushed: int = 0
    unasked: int = 0
    unended: int = 0

    @property
    def framing(self) -> str:
        """That of most requests."""
        return max(self.framings, key=lambda one: self.framings[one]) if self.framings else "direction"


@dataclass(slots=True)
class _Connection:
    """The calls on a socket, each with its process and descriptor, and when it was last looked at."""

    calls: list[Call]
    pid: int
    descriptor: int
    looked_ns: int = 0


def find_requests(transfers: Transfers, schedule: Schedule | None = None) -> Found:
    """Pair what came in with what went out, connection by connection.

    Args:
        schedule: of the same time, by which what is pushed is told from answers.
    """
    sockets, times, tellers, inner, own = _arrivals_of(transfers)
    ready, told_by = _by_socket(sockets, times, times), _by_socket(sockets, times, tellers)
    within = _by_socket(sockets, times, inner)
    lives = Lives(transfers.lives)
    serving: list[tuple[int, _Connection, str, int | None]] = []
    asked: list[tuple[int, int, int]] = []
    questions: dict[int, list[tuple[int, int]]] = {}
    pushed = 0
    for sk, parts in _connections(transfers, (ready, told_by), lives).items():
        for number, one in enumerate(parts):
            name, serves = _named(transfers, one, lives.of(sk, one.calls[0].time_ns))
            pushed += len(one.calls) >= _ONE_WAY and not any(call.inward for call in one.calls)
            if not serves:
                arrivals = ready.get(sk, _NONE), told_by.get(sk, _NONE)
                asked += _read_there(one, *arrivals, _is_here(transfers, one))
                _add_questions(questions, one)
            elif not _one_way(one.calls):
                over = lives.end_after(sk, one.calls[-1].time_ns)
                if over is None and number < len(parts) - 1:  # the next one at this address has begun by then
                    over = parts[number + 1].calls[0].arrived_ns
                serving.append((sk, one, name, over))
    outer = [
        one
        for one in serving
        if not _from_within(one[1], ready.get(one[0], _NONE), within.get(one[0], _NONE))
        and not _asked_within(one[1], ready.get(one[0], _NONE), own.get(one[0], _NONE))
    ]
    rows: list[tuple[Any, ...]] = []
    names: list[str] = []
    kinds: dict[str, int] = {}
    framings: Counter[str] = Counter()
    uncounted = overlapping = unasked = 0
    clients: set[int] = set()
    # What processes of the server ask each other is part of what they are asked from outside.
    chosen = outer if outer else serving
    calls = _calls(transfers, [call for _, one, _, _ in chosen for call in one.calls if not call.inward])
    gaps = None
    if schedule is not None:
        gaps = Gaps(schedule, {tid: times for tid, (times, _) in calls.items()}, questions)
    delivered = Delivered(transfers.ready, {tid: times for tid, (times, _) in calls.items()}, lives, ready)
    unclear: dict[int, Pairing] = {}  # index of a connection: its requests with answers that end early
    for sk, one, name, over in chosen:
        told, inside = told_by.get(sk, _NONE), within.get(sk, _NONE)
        clients.update(
            np.unique(told[~inside.astype(bool)]).tolist()
        )  # a server's own delivers for others, too
        names.append(name)
        found = paired(one.calls, candidates(_beginnings(one.calls)))
        if gaps is not None and found.framing == "direction":
            kept = without_pushed(one.calls, gaps)
            if len(kept) < len(one.calls):
                unasked += len(one.calls) - len(kept)
                found = paired(kept, candidates(_beginnings(kept)))
            early = answered_early(kept, gaps) if found.framing == "direction" else kept
            if len(early) < len(kept):
                unclear[len(names) - 1] = Pairing(early, None)
        framings[found.framing] += len(found.pairs) + len(found.open)
        uncounted += found.uncounted
        overlapping += found.overlaps
        held = _held(sk, one, delivered)
        still = found.open if over is None else _given_up(found.open, over)
        waiting = _waiting(one, ready.get(sk), still) if over is None else []
        for pair in (*found.pairs, *still, *waiting):
            by_tcp = held.get(pair.sent.time_ns, 0) if pair.sent is not None else 0
            row = _row(pair, len(names) - 1, kinds.setdefault(pair.kind, len(kinds)), by_tcp)
            rows.append(row if over is None or pair.sent else (*row[:3], over, *row[4:]))
    for name, when in _not_accepted(transfers, ready, lives):
        names.append(name)
        pair = Pair(Call(when, True, -1, 0, b"", when, True), "not accepted yet", 0)
        rows.append(_row(pair, len(names) - 1, kinds.setdefault(pair.kind, len(kinds))))
    table = np.array(rows, REQUEST) if rows else np.zeros(0, REQUEST)
    unended = _matters(table, unclear)
    if unended:
        table = table[~np.isin(table["connection"], list(unclear))]
    return Found(
        table[np.argsort(table["arrived"], kind="stable")], tuple(names), tuple(kinds),
        {name: count for name, count in framings.items() if count}, uncounted, calls,
        _by_thread(asked), frozenset(clients), _pipes(transfers), overlapping,
        pushed, unasked, len(unclear) if unended else 0,
    )  # fmt: skip


def _add_questions(questions: dict[int, list[tuple[int, int]]], one: _Connection) -> None:
    """By thread, when it read what was asked on this connection, and when it was asked for the last time."""
    when = -1
    for call in one.calls:
        if not call.inward:
            when = call.time_ns
        else:
            questions.setdefault(call.tid, []).append((when, call.time_ns))


def _matters(table: Array, unclear: Mapping[int, Pairing]) -> bool:
    """Whether quantiles differ by whether answers end early on these connections."""
    if not unclear:
        return False
    answered = table[table["sent"] != NEVER]
    late = answered["sent"] - answered["arrived"]
    clear = ~np.isin(answered["connection"], list(unclear))
    short = [
        pair.sent.time_ns - pair.first.arrived_ns
        for one in unclear.values()
        for pair in one.pairs
        if pair.sent
    ]
    early = np.concatenate([late[clear], np.array(short, np.int64)])
    if not len(late) or not len(early):
        return False
    longer, shorter = (np.quantile(one, _TELLING, method="higher") for one in (late, early))
    return bool((longer > (1 + _MATTERS) * shorter).any())


def _calls(transfers: Transfers, answering: Sequence[Call]) -> dict[int, tuple[Array, Array]]:
    """Of each thread, when its calls ended, and whether each put an answer into a connection."""
    tables = [one for one in (transfers.received, transfers.sent) if len(one["time_ns"])]
    if not tables:
        return {}
    tids, times = (
        np.concatenate([one[key] for one in tables]).astype(np.int64) for key in ("tid", "time_ns")
    )
    mine = np.array([(one.tid, one.time_ns) for one in answering], np.int64).reshape(-1, 2)
    order = np.lexsort((times, tids))
    tids, times = tids[order], times[order]
    ids, starts = np.unique(tids, return_index=True)
    found = {}
    for tid, part in zip(ids.tolist(), np.split(times, starts[1:]), strict=True):
        found[tid] = (part, np.isin(part, mine[mine[:, 0] == tid, 1]))
    return found


def _pipes(transfers: Transfers) -> frozenset[str]:
    """Those through which something was sent; what any other pipe moves is not among the calls."""
    sent = transfers.sent
    if not len(sent["time_ns"]):
        return frozenset()
    ends = set(zip(sent["pid"].tolist(), sent["argument"].tolist(), strict=True))
    return frozenset(filter(is_pipe, (transfers.descriptors.get(end, "") for end in ends)))


def _held(sk: int, one: _Connection, delivered: Delivered) -> dict[int, int]:
    """By the time of a call that sent, how much later the other end had what had been sent then.

    Later where TCP kept it, up to the next call; earlier where it was there before the call came back.
    """
    sends = [(call.tid, call.time_ns) for call in one.calls if not call.inward]
    other = delivered.other_end(sk, sends) if sends else None
    if other is None:
        return {}
    found = {}
    for at, call in enumerate(one.calls):
        if call.inward:
            continue
        then = one.calls[at + 1] if at + 1 < len(one.calls) else None
        until = (then.arrived_ns if then.inward else then.time_ns) if then is not None else None
        had = call.time_ns
        if until is None or until > call.time_ns:
            had = delivered.last(sk, other, call.time_ns, until)
        if had == call.time_ns:
            had = delivered.at_once(other, call.tid, call.time_ns)
        found[call.time_ns] = had - call.time_ns
    return found


def _row(pair: Pair, connection: int, kind: int, held: int = 0) -> tuple[Any, ...]:
    first = pair.first
    read = NEVER if first.size < 0 else first.time_ns
    sent = max(pair.sent.time_ns + held, first.time_ns) if pair.sent else NEVER
    return (
        first.arrived_ns, read, min(pair.answered.time_ns, sent) if pair.answered else NEVER, sent, first.tid,
        pair.answered.tid if pair.answered else first.tid, connection, kind, pair.bytes_in, pair.bytes_out,
        int(first.seen), max(0, held),
    )  # fmt: skip


def _from_within(one: _Connection, times: Array, inner: Array) -> bool:
    """Whether what arrived on a connection came from the observed processes themselves.

    What arrived at its address at other times is another's, such as the answers to a client's end.
    """
    low = np.searchsorted(times, min(call.arrived_ns for call in one.calls))
    high = np.searchsorted(times, one.calls[-1].time_ns, side="right")
    return bool(high > low and inner[low:high].mean() > 1 / 2)


def _asked_within(one: _Connection, others: Array, own: Array) -> bool:
    """Whether observed processes put most of it into a unix socket, from before its first call to its last.

    What they did at other times is what they answered at the other end of a connection at the same address.
    """
    first, last = one.calls[0].time_ns, one.calls[-1].time_ns

    def while_it_was(times: Array) -> int:
        low, high = np.searchsorted(times, [first, last], side="right")
        return int(high - low) + int(low > 0)

    return len(own) > 0 and while_it_was(own) > while_it_was(others)


def _arrivals_of(transfers: Transfers) -> tuple[Array, Array, Array, Array, dict[int, Array]]:
    """The sockets and times of arrivals, who sent, and if that is observed.

    Without what observed processes put into unix sockets, which stands by itself: mostly it is an answer, in
    the client's end, whose address may become another connection's.
    """
    ready = transfers.ready
    sockets, times = ready["skaddr"], ready["time_ns"]
    own, unix = (np.zeros(len(times), bool) for _ in range(2))
    if "pid" in ready:
        own = np.isin(ready["pid"], np.fromiter(transfers.pids, np.int64))
    if "family" in ready:
        unix = own & (ready["family"] == _UNIX)
    tellers = ready["tid"] if "tid" in ready else np.full(len(times), -1)
    by_own = _by_socket(sockets[unix], times[unix], times[unix])
    return sockets[~unix], times[~unix], tellers[~unix], own[~unix], by_own


def _only_serves(transfers: Transfers, pid: int) -> bool:
    """Whether all internet sockets that are known of a process are at ports on which somebody listens."""
    inodes = [
        int(match[1])
        for (owner, _), link in transfers.descriptors.items()
        if owner == pid and (match := re.fullmatch(r"socket:\[(\d+)\]", link))
    ]
    known = [transfers.ends[inode][1] for inode in inodes if inode in transfers.ends]
    return bool(known) and all(known)


def _is_here(transfers: Transfers, one: _Connection) -> bool:
    """Whether the other end of a connection is on this machine: the kernel delivers while it is sent then."""
    link = transfers.descriptors.get((one.pid, one.descriptor), "")
    match = re.fullmatch(r"socket:\[(\d+)\]", link)
    end = transfers.ends.get(int(match[1])) if match else None
    return match is not None and (end is None or end[0].startswith(_HERE))


def _read_there(one: _Connection, times: Array, tellers: Array, here: bool) -> list[tuple[int, int, int]]:
    """Of a connection on which others are asked, each reading: by which thread, when, and who had sent it."""
    found = []
    for call in one.calls:
        if call.inward:
            at = int(np.searchsorted(times, call.time_ns, side="right")) - 1
            found.append((call.tid, call.time_ns, int(tellers[at]) if here and at >= 0 else -1))
    return found


def _by_thread(asked: Sequence[tuple[int, int, int]]) -> dict[int, tuple[Array, Array]]:
    rows = np.array(sorted(asked), np.int64).reshape(-1, 3)
    tids, starts = np.unique(rows[:, 0], return_index=True)
    parts = np.split(rows, starts[1:]) if len(tids) else []
    return {int(tid): (part[:, 1], part[:, 2]) for tid, part in zip(tids.tolist(), parts, strict=True)}


def _one_way(calls: list[Call]) -> bool:
    """Whether nobody is asked here: bytes come again and again, and nothing ever goes out."""
    return len(calls) >= _ONE_WAY and all(call.inward for call in calls)


def _not_accepted(
    transfers: Transfers, ready: Mapping[int, Array], lives: Lives
) -> Iterable[tuple[str, int]]:
    """Connections to a port of these processes on which bytes came, and that nobody has read from."""
    read = set(np.unique(transfers.received["sk"]).tolist()) if len(transfers.received["time_ns"]) else set()
    ports = {lives.port(sk) for sk in read} - {0}
    for sk in lives.waiting(ports):
        arrivals = ready.get(sk)
        began = lives.of(sk, NEVER)
        if sk in read or arrivals is None or began is None or lives.end(sk) is not None:
            continue
        after = int(np.searchsorted(arrivals, began.time_ns))
        if after < len(arrivals):
            yield f"port {began.port}, not accepted", int(arrivals[after])


def _given_up(still: Sequence[Pair], over_ns: int) -> list[Pair]:
    """Requests whose connection ended before they had an answer; a farewell has none, and is over at once."""
    return [pair for pair in still if over_ns - pair.first.arrived_ns >= GIVEN_UP_NS]


def _waiting(one: _Connection, arrivals: Array | None, still: list[Pair]) -> list[Pair]:
    """What arrived after the last look into the receive queue: nobody has read it."""
    if arrivals is None or not one.calls or any(not pair.answered for pair in still):
        return []  # of the connection a request is open already, for longer
    # Who only answers, and was never seen to look, looked before we did, or looks unseen.
    after = int(np.searchsorted(arrivals, one.looked_ns or one.calls[-1].time_ns, side="right"))
    if after == len(arrivals):
        return []
    reader = next((call.tid for call in reversed(one.calls) if call.inward), one.calls[-1].tid)
    when = int(arrivals[after])
    return [Pair(Call(when, True, -1, reader, b"", when, True), "not read yet", 0)]


def _connections(
    transfers: Transfers, arrivals: tuple[Mapping[int, Array], Mapping[int, Array]], lives: Lives
) -> dict[int, list[_Connection]]:
    """The connections that each socket stood for, one after the other.

    One ends where the next begins, or, where the kernel doesn't tell of that, where its end was read, or
    where another process reads what another thread sent.

    Args:
        arrivals: of each socket, and by whom.
    """
    ready, told_by = arrivals
    rows: dict[int, list[tuple[Any, ...]]] = {}
    tcp: set[int] = set()
    for table, inward in ((transfers.received, True), (transfers.sent, False)):
        if not len(table["time_ns"]):
            continue  # of nothing, no registers were read either
        payload = table.get("payload")
        width = payload.dtype.itemsize if payload is not None else 0
        if "protocol" in table:
            tcp.update(np.unique(table["sk"][table["protocol"] == _TCP]).tolist())
        bytes_of = payload.tobytes() if payload is not None else b""
        peeked = (table["flags"] & _PEEK != 0).tolist() if "flags" in table else [False] * len(table["ret"])
        captured = table["captured"].tolist() if "captured" in table else [0] * len(table["ret"])
        for at, (time, sk, size, tid, pid, descriptor) in enumerate(zip(
            *(table[key].tolist() for key in ("time_ns", "sk", "ret", "tid", "pid", "argument")), strict=True,
        )):  # fmt: skip
            if (size >= 0 or inward) and not peeked[at]:
                begin = at * width
                known = bytes_of[begin : begin + min(captured[at], max(0, size))]
                rows.setdefault(sk, []).append((time, inward, size, tid, pid, descriptor, known))
    found = {
        sk: _split(
            sorted(calls, key=lambda call: call[0]),
            ready.get(sk),
            lives.births(sk),
            told_by.get(sk) if sk not in tcp else None,
            tells=lives.tell and sk in tcp,
        )
        for sk, calls in rows.items()
    }
    for sk in found.keys() & tcp & ready.keys():
        for one in found[sk]:
            life = lives.of(sk, one.calls[0].time_ns)
            if life is not None and life.called:  # else it isn't known who asks
                _unseen_readings(one, ready[sk], life.time_ns)
    return found


def _unseen_readings(one: _Connection, arrivals: Array, began_ns: int) -> None:
    """Where no reading is seen though bytes came and others went out (splice), it is taken to be at once."""
    if any(call.inward for call in one.calls):
        return
    out = np.array([call.time_ns for call in one.calls])
    came = arrivals[(arrivals >= began_ns) & (arrivals < out[-1])]
    if len(came) < _ONE_WAY:
        return
    after = np.searchsorted(out, came)
    one.calls += [
        Call(when, True, 1, one.calls[at].tid, b"", when, True)
        for when, at in zip(came.tolist(), after.tolist(), strict=True)
    ]
    one.calls.sort(key=lambda call: call.time_ns)


def _split(
    calls: list[tuple[Any, ...]],
    arrivals: Array | None,
    births: list[int],
    tellers: Array | None = None,
    *,
    tells: bool,
) -> list[_Connection]:
    """Args: tells: the kernel tells of each connection at this address when it begins.

    tellers: whose each arrival is, where it doesn't: both ends are another's in the next connection.
    """
    found: list[_Connection] = []
    told = -1
    current: _Connection | None = None
    last_read, reading = 0, False
    coming = deque(births)
    for time, inward, size, tid, pid, descriptor, known in calls:
        while coming and coming[0] <= time:
            # Another connection at this address: nothing of it arrived before.
            last_read, reading = coming.popleft() - 1, False
            if current is not None and current.calls:
                found.append(current)
            current = None
        if current is None:
            current = _Connection([], pid, descriptor)
        if inward:
            current.looked_ns = time
        if size > 0:
            arrived, seen = (time, True) if not inward else _arrival(arrivals, last_read, time, reading)
            if inward and seen and arrivals is not None and tellers is not None:
                teller = int(tellers[np.searchsorted(arrivals, arrived)])
                if current.calls and pid != current.pid and -1 not in (told, teller) and teller != told:
                    found.append(current)
                    current = _Connection([], pid, descriptor, time)
                told = teller
            current.calls.append(Call(time, inward, size, tid, known, arrived, seen))
            reading = inward
        elif inward and size == 0 and not tells:  # else who has said all may be answered yet
            if current.calls:
                found.append(current)
            current = None
        if inward:
            # Also where it read the connection's end, or nothing: what arrived before that, such a look has
            # met, and what stands at the same address next may be another connection.
            last_read, reading = time, size > 0
    if current is not None and current.calls:
        found.append(current)
    return found


def _arrival(arrivals: Array | None, last_read: int, time: int, again: bool) -> tuple[int, bool]:
    """When what is read at `time` had arrived: the first time since the last reading, or else before it.

    What the last call has left, or what came while it read, had arrived before its end. That is believed only
    where it is read `again`, with no answer in between: else it would be a request that came too early.
    """
    if arrivals is None or not len(arrivals):
        return time, False
    low, high = np.searchsorted(arrivals, [last_read + 1, time + 1])
    if high > low:
        return int(arrivals[low]), True
    return (int(arrivals[high - 1]), True) if high and again else (time, False)


def _by_socket(sockets: Array, times: Array, values: Array) -> dict[int, Array]:
    """The values of each socket's arrivals, by their time."""
    if not len(sockets):
        return {}
    order = np.lexsort((times, sockets))
    sockets, values = sockets[order], values[order]
    ids, starts = np.unique(sockets, return_index=True)
    return {
        int(sk): part for sk, part in zip(ids.tolist(), np.split(values, starts[1:].tolist()), strict=True)
    }


def _beginnings(calls: list[Call]) -> list[bytes]:
    """The first bytes in after an answer, or at all."""
    found, before = [], False
    for call in calls:
        if call.inward and not before and call.known:
            found.append(call.known)
            if len(found) == _BEGINNINGS:
                break
        before = call.inward
    return found


def _named(transfers: Transfers, one: _Connection, life: Life | None) -> tuple[str, bool]:
    """Its name, and whether the observed process is the one that is asked on it."""
    link = transfers.descriptors.get((one.pid, one.descriptor), "")
    match = re.fullmatch(r"socket:\[(\d+)\]", link)
    end = transfers.ends.get(int(match[1])) if match else None
    place = f"descriptor {one.descriptor} of {one.pid}"
    if life is not None:  # who was called serves
        return (f"{end[0]} ({place})" if end is not None else f"port {life.port} ({place})"), life.called
    if is_pipe(link) and one.descriptor in _STANDARD:
        return place, True  # who is asked through its standard input, whichever call was the first we saw
    if one.descriptor < 0 and _only_serves(transfers, one.pid):  # which one it is isn't known
        return place, True
    # A server's end has the port on which somebody listens; else who gets bytes first is asked.
    return (f"{end[0]} ({place})", end[1]) if end is not None else (place, one.calls[0].inward)
