"""TCP sockets by when they begin and end, since the next one may have the address of the last. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Life", "Lives"]

# include/net/tcp_states.h
_ESTABLISHED, _SYN_SENT, _CLOSE = 1, 2, 7


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
        keys = ("time_ns", "skaddr", "oldstate", "newstate", "sport")
        self.tell = bool(rows)
        if not rows:
            return
        for time, sk, old, new, port in zip(*(rows[key].tolist() for key in keys), strict=True):
            if new == _ESTABLISHED:
                self._begun.setdefault(sk, []).append(Life(time, old != _SYN_SENT, port))
                self._ended.pop(sk, None)
            elif new == _CLOSE:
                self._ended[sk] = time
                self._ends.setdefault(sk, []).append(time)

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
