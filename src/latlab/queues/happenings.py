"""What happens in a running application, from one look at it to the next: drops, stalls, bursts, changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from latlab.model.queues.live import QueueNow, Snapshot

__all__ = ["Happening", "Happenings"]

_STALL_NS = 1_000_000_000  # without an event out, while some wait
_BURST_SHARE = 0.2  # of the capacity, at least …
_BURST_FACTOR = 10.0  # … and so many times the usual fill
_MEMORY = 0.98  # of the usual fill, from look to look


@dataclass(frozen=True, slots=True)
class Happening:
    """One of them.

    Attributes:
        kind: drop, stall, burst, appeared, gone or limit (another stage limits, or none does any more).
    """

    t_ns: int
    kind: str
    what: str


@dataclass(slots=True)
class _Seen:
    dropped: int
    out: int
    moved_ns: int
    usual: float
    stalled: bool = False
    burst: bool = False


class Happenings:
    """Fed with snapshots in order of time, tells what is new in each."""

    def __init__(self) -> None:
        self._queues: dict[int, _Seen] = {}
        self._names: dict[int, str] = {}
        self._limiting: str | None = None
        self._first = True

    def feed(self, snapshot: Snapshot) -> list[Happening]:
        """What has happened since the last one; the first tells nothing."""
        found: list[Happening] = []

        def tell(kind: str, what: str) -> None:
            found.append(Happening(snapshot.t_ns, kind, what))

        now = {queue.number: queue for queue in snapshot.queues}
        for number in self._queues.keys() - now.keys():
            tell("gone", f"{self._names[number]} is gone")
            del self._queues[number]
        for number, queue in now.items():
            self._names[number] = queue.name or f"queue {number}"
            seen = self._queues.get(number)
            if seen is None:
                usual = float(queue.fill_high)
                self._queues[number] = _Seen(queue.dropped, queue.total_out, snapshot.t_ns, usual)
                tell("appeared", f"{self._names[number]} appeared")
                continue
            self._look_at(queue, seen, snapshot.t_ns, tell)
        if snapshot.limiting_stage != self._limiting:
            self._limiting = snapshot.limiting_stage
            tell("limit", f"{self._limiting} limits" if self._limiting else "no stage limits any more")
        if self._first:
            self._first = False
            return []
        return found

    def _look_at(self, queue: QueueNow, seen: _Seen, t_ns: int, tell: Callable[[str, str], None]) -> None:
        name = self._names[queue.number]
        if queue.dropped > seen.dropped:
            tell("drop", f"{name} lost {queue.dropped - seen.dropped:,} events")
            seen.dropped = queue.dropped
        if queue.total_out != seen.out or queue.fill_low == 0:
            seen.out, seen.moved_ns, seen.stalled = queue.total_out, t_ns, False
        elif not seen.stalled and t_ns - seen.moved_ns >= _STALL_NS and queue.kind not in ("pool", "socket"):
            seen.stalled = True
            tell("stall", f"{name} holds {queue.fill_high:,} events, and none has left for a second")
        high = queue.kind != "pool" and queue.fill_low > _BURST_FACTOR * max(seen.usual, 1.0)
        if high and queue.capacity and queue.fill_low > _BURST_SHARE * queue.capacity:
            if not seen.burst:
                tell("burst", f"{name} rose to {queue.fill_low:,} of {queue.capacity:,}")
            seen.burst = True
        elif queue.fill_low <= 2 * max(seen.usual, 1.0):
            seen.burst = False
        seen.usual = _MEMORY * seen.usual + (1 - _MEMORY) * queue.fill_high
