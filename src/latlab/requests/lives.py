"""TCP sockets by when they begin and end, since the next one may have the address of the last. Pure.

And by when the other end, where it is on this machine, had what was sent: a call that sends is over when the
bytes are in the socket, where TCP may keep them, for an acknowledgement (RFC 896) or for room.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Delivered", "Life", "Lives"]

# include/net/tcp_states.h
_ESTABLISHED, _SYN_SENT, _CLOSE = 1, 2, 7
_TCP = 6  # IPPROTO_TCP
_NEARLY_ALL = 0.9  # of the calls that something tells of, to believe who the other end is
_FEWEST = 3  # of these, where the ports don't tell it as well


@dataclass(frozen=True, slots=True)
class Life:
    """One connection at an address; `called`: it was called, and hasn't called itself."""

    time_ns: int
    called: bool
    port: int


class Lives:
    """Which connections each address stood for.

    Args:
        rows: as `Transfers.lives`; may be empty.

    Attributes:
        tell: the kernel tells when connections begin and end.
    """

    def __init__(self, rows: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._begun: dict[int, list[Life]] = {}
        self._ended: dict[int, int] = {}
        self._ends: dict[int, list[int]] = {}
        self._leaves: dict[int, list[int]] = {}
        self._ports: dict[int, list[tuple[int, tuple[int, int]]]] = {}
        keys = ("time_ns", "skaddr", "oldstate", "newstate", "sport")
        self.tell = bool(rows)
        if not rows:
            return
        for time, sk, old, new, port in zip(*(rows[key].tolist() for key in keys), strict=True):
            if old == _ESTABLISHED:
                self._leaves.setdefault(sk, []).append(time)
            if new == _ESTABLISHED:
                self._begun.setdefault(sk, []).append(Life(time, old != _SYN_SENT, port))
                self._ended.pop(sk, None)
            elif new == _CLOSE:
                self._ended[sk] = time
                self._ends.setdefault(sk, []).append(time)

        if "dport" in rows:
            begin = np.flatnonzero(rows["newstate"] == _ESTABLISHED)
            named = (rows[key][begin].tolist() for key in ("time_ns", "skaddr", "sport", "dport"))
            for time, sk, near, far in zip(*named, strict=True):
                self._ports.setdefault(sk, []).append((time, (near, far)))

    def leaves(self, sk: int, time_ns: int) -> int | None:
        """When the connection at this address begins to end; None where that wasn't seen."""
        return next((one for one in self._leaves.get(sk, ()) if one >= time_ns), None)

    def ports(self, sk: int, time_ns: int) -> tuple[int, int] | None:
        """Those of the connection at this address, its own one first; None where it was there before."""
        return next((ports for time, ports in reversed(self._ports.get(sk, [])) if time <= time_ns), None)

    def births(self, sk: int) -> list[int]:
        """When connections began at this address."""
        return [one.time_ns for one in self._begun.get(sk, ())]

    def of(self, sk: int, time_ns: int) -> Life | None:
        """The connection at this address at a time; None where it was there before, or isn't TCP's."""
        begun = self._begun.get(sk, [])
        at = bisect_right([one.time_ns for one in begun], time_ns)
        return begun[at - 1] if at else None

    def end(self, sk: int) -> int | None:
        """When the last connection at this address has ended; None while it hasn't."""
        return self._ended.get(sk)

    def end_after(self, sk: int, time_ns: int) -> int | None:
        """When the connection that was at this address at a time has ended; None where that wasn't seen.

        What a connection that was reset has received is read after its end: that is over at that time then.
        """
        begun = self._begun.get(sk, [])
        at = bisect_right([one.time_ns for one in begun], time_ns)
        began = begun[at - 1].time_ns if at else 0
        until = begun[at].time_ns if at < len(begun) else None
        ends = self._ends.get(sk, [])
        first = bisect_left(ends, began)
        if first == len(ends) or (until is not None and ends[first] > until):
            return until
        return max(ends[first], time_ns)

    def port(self, sk: int) -> int:
        """On which one at this address was called; 0 where none was."""
        return next((one.port for one in self._begun.get(sk, ()) if one.called), 0)

    def waiting(self, ports: Iterable[int]) -> list[int]:
        """Addresses whose last connection was called on one of these ports."""
        wanted = set(ports)
        return [sk for sk, begun in self._begun.items() if begun[-1].called and begun[-1].port in wanted]


class Delivered:
    """When the other end of a connection had what was sent, where that end is on this machine.

    What can go at once is put into the other end's queue while it is sent, by the thread that sends: that
    tells which socket this is. What comes there later had been kept.

    Args:
        ready: as `Transfers.ready`. calls: by thread, when its calls on all sockets ended, in order.
    """

    def __init__(
        self,
        ready: Mapping[str, np.ndarray[Any, Any]],
        calls: Mapping[int, np.ndarray[Any, Any]],
        lives: Lives,
        arrivals: Mapping[int, np.ndarray[Any, Any]],
    ) -> None:
        self._calls, self._lives, self._arrivals = calls, lives, arrivals
        self._by: dict[int, tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = {}
        if "tid" not in ready or "protocol" not in ready:
            return
        chosen = np.flatnonzero((ready["protocol"] == _TCP) & np.isin(ready["tid"], list(calls)))
        tids, times, sockets = (ready[key][chosen] for key in ("tid", "time_ns", "skaddr"))
        order = np.lexsort((times, tids))
        ids, starts = np.unique(tids[order], return_index=True)
        if len(ids):
            parts = (np.split(one[order], starts[1:]) for one in (times, sockets))
            self._by = {int(tid): (when, who) for tid, when, who in zip(ids, *parts, strict=True)}

    def other_end(self, sk: int, sends: Sequence[tuple[int, int]]) -> int | None:
        """Which socket the other end of a connection is, by its calls that send: their threads and times."""
        told: Counter[int] = Counter()
        for tid, time in sends:
            there = self._while_sending(tid, time)
            if there is not None:
                told[there[0]] += 1
        told.pop(sk, None)
        if not told:
            return None
        other, count = told.most_common(1)[0]
        if count < _NEARLY_ALL * told.total():
            return None
        last = sends[-1][1]
        here, there = self._lives.ports(sk, last), self._lives.ports(other, last)
        if here is not None and there is not None:
            return other if here == there[::-1] else None
        return other if count >= _FEWEST else None

    def _while_sending(self, tid: int, time: int) -> tuple[int, int] | None:
        """Where a thread put something last in its call that ended then, and when; None where nowhere."""
        if tid not in self._by:
            return None
        times, sockets = self._by[tid]
        at = int(times.searchsorted(time, side="right")) - 1
        calls = self._calls[tid]
        before = int(calls.searchsorted(time)) - 1
        if at < 0 or before < 0 or times[at] <= calls[before]:
            return None
        return int(sockets[at]), int(times[at])

    def at_once(self, other: int, tid: int, time: int) -> int:
        """When the other end had what a call sent that ended then.

        Mostly that is before: the other end is woken, and may run first where one CPU is left for both.
        """
        there = self._while_sending(tid, time)
        return there[1] if there is not None and there[0] == other else time

    def last(self, sk: int, other: int, sent: int, until: int | None) -> int:
        """When the last of what had been sent by then was there: `sent` itself where none was kept.

        Args:
            until: when more came in or went out; None where nothing did.
        """
        ends = self._lives.leaves(sk, sent)  # the end of a connection arrives likewise
        begins = next((one for one in self._lives.births(other) if one > sent), None)
        known = [one for one in (until, ends, begins) if one is not None]
        times = self._arrivals.get(other)
        if times is None or not known:
            return sent
        at = int(np.searchsorted(times, min(known))) - 1
        return max(sent, int(times[at])) if at >= 0 else sent
