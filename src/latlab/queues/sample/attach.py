"""`attach`: an application's queues as they are now."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from latlab.model.queues.live import QueueNow, Snapshot, StageNow
from latlab.model.queues.observation import HOLDS_LOOP, QueueKind
from latlab.queues.sample.follow import Follower, Target, require
from latlab.queues.sample.sockets import Row, SocketFollower

__all__ = ["Attachment", "attach"]

_STATES = ("idle", "busy", "blocked")
_NO_PART_OF_THE_WAY = (QueueKind.POOL, QueueKind.BIDIRECTIONAL)
_SOCKETS_NS = 1_000_000_000  # how often a process without sockets is asked for some: /proc is slow to read


class Attachment:
    """A view from outside; `look` as often as wanted. Safe from several threads.

    Rates and shares are over the time since the look before. The kernel's receive buffers of the
    application's sockets are among its queues, with bytes for events.
    """

    def __init__(self, targets: Sequence[Target], *, exclude: tuple[str, ...] = ()) -> None:
        self._follower = Follower(targets)
        self._sockets = SocketFollower(self._follower)
        self._exclude = frozenset(exclude)
        self._lock = threading.Lock()
        self._before: dict[int, tuple[int, int, int]] = {}
        self._stages_before: dict[int, tuple[int, int, int]] = {}
        self._high: dict[int, int] = {}
        self._next_sockets_ns = 0
        self._follower.refresh()
        require(self._follower, targets)

    @property
    def alive(self) -> bool:
        """At least one of its processes lives."""
        with self._lock:
            self._follower.refresh()
            return bool(self._follower.live_processes)

    @property
    def pids(self) -> tuple[int, ...]:
        """Of its processes that live, as of the last look."""
        with self._lock:
            return tuple(process.pid for process in self._follower.live_processes)

    def look(self) -> Snapshot:
        """What every queue and stage is now."""
        with self._lock:
            self._follower.refresh()
            queues = [
                self._look_at(queue.number)
                for queue in self._follower.queues
                if queue.retired_ns is None and queue.complete and queue.name not in self._exclude
            ]
            sockets = self._look_at_sockets()
            stages = self._look_at_stages(queues)  # of the application: bytes are no events
            now = [*(s for s in sockets if s.name not in self._exclude), *queues]
            return Snapshot(time.monotonic_ns(), tuple(now), stages)

    def _look_at_sockets(self) -> list[QueueNow]:
        now = time.monotonic_ns()
        if now < self._next_sockets_ns:
            return []
        _, rows = self._sockets.look()
        if not rows:
            self._next_sockets_ns = now + _SOCKETS_NS
        return [self._socket(row) for row in rows]

    def _look_at(self, number: int) -> QueueNow:
        queue = self._follower.queues[number]
        t_ns = time.monotonic_ns()
        came, out_low, out_high, dropped, blocked, _ = self._follower.counts(number)
        before_ns, before_in, before_out = self._before.get(number, (t_ns, came, out_high))
        self._before[number] = (t_ns, came, out_high)
        seconds = max(t_ns - before_ns, 1) / 1e9
        high = max(0, came - out_low)
        self._high[number] = max(self._high.get(number, 0), high)
        return QueueNow(
            number=number,
            name=queue.name,
            kind=str(queue.kind),
            source=queue.source,
            drain=queue.drain,
            capacity=queue.capacity,
            fill_low=max(0, came - out_high),
            fill_high=high,
            high_water=self._high[number],
            total_in=came,
            total_out=out_high,
            dropped=dropped,
            blocked=blocked,
            rate_in_hz=(came - before_in) / seconds,
            rate_out_hz=(out_high - before_out) / seconds,
            group=queue.group,
            implementation=queue.implementation,
        )

    def _socket(self, row: Row) -> QueueNow:
        _, number, fill, capacity, dropped = row
        socket = self._sockets.sockets[number]
        key = -1 - number  # queues have the numbers from 0 on
        self._high[key] = max(self._high.get(key, 0), fill)
        process = self._follower.processes[socket.process]
        return QueueNow(
            number=key,
            name=socket.name,
            kind=str(QueueKind.SOCKET),
            source="network",
            drain=socket.drain or process.application,
            capacity=capacity,
            fill_low=fill,
            fill_high=fill,
            high_water=self._high[key],
            total_in=0,
            total_out=0,
            dropped=dropped,
            blocked=0,
            rate_in_hz=0.0,
            rate_out_hz=0.0,
            implementation=f"kernel, inode {socket.inode}",
        )

    def _look_at_stages(self, queues: Sequence[QueueNow]) -> tuple[StageNow, ...]:
        """The registered stages, and those that are only ends of queues, in the order of the flow."""
        own: dict[str, StageNow] = {}
        for number, (at, busy, blocked, _, _, state, _), _ in self._follower.stage_times():
            registered = self._follower.stages[number]
            if registered.type == HOLDS_LOOP:
                continue
            before = self._stages_before.get(number, (at, busy, blocked))
            self._stages_before[number] = (at, busy, blocked)
            passed = at - before[0]
            own[registered.label] = StageNow(
                label=registered.label,
                type=registered.type,
                group=registered.group,
                state=_STATES[state] if state < len(_STATES) else "",
                busy=(busy - before[1]) / passed if passed > 0 else None,
                blocked=(blocked - before[2]) / passed if passed > 0 else None,
                rate_hz=0.0,
                waiting=0,
            )
        # A pool's objects flow back: it is not part of the way that events take.
        way = [queue for queue in queues if queue.kind not in _NO_PART_OF_THE_WAY]
        labels = in_flow_order([(queue.source, queue.drain) for queue in way])
        aside = [queue for queue in queues if queue.kind in _NO_PART_OF_THE_WAY]
        others = [*own, *(end for queue in aside for end in (queue.source, queue.drain))]
        by_drain: dict[str, list[QueueNow]] = {}
        for queue in way:
            by_drain.setdefault(queue.drain, []).append(queue)
        found = []
        for label in dict.fromkeys([*labels, *(label for label in others if label in own)]):
            drained = by_drain.get(label, [])
            rate_hz = sum(queue.rate_out_hz for queue in drained)
            waiting = sum(queue.fill_high for queue in drained)
            if label in own:
                found.append(replace(own[label], rate_hz=rate_hz, waiting=waiting))
            else:  # most stages of a large application are only ends of queues
                found.append(StageNow(label, "", "", "", None, None, rate_hz, waiting))
        return tuple(found)


def in_flow_order(edges: Sequence[tuple[str, str]]) -> list[str]:
    """Stages so that a source stands before its drains; where they form a circle, as they come."""
    return list(_in_flow_order(tuple(edges)))


@lru_cache(maxsize=16)  # a topology changes seldom, and is looked at ten times a second
def _in_flow_order(edges: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    left = dict.fromkeys(end for edge in edges for end in edge if end)
    order: list[str] = []
    while left:
        fed = {drain for source, drain in edges if source in left and drain in left and source != drain}
        ready = [stage for stage in left if stage not in fed] or [next(iter(left))]
        order += ready
        for stage in ready:
            del left[stage]
    return tuple(order)


def attach(targets: Target | Sequence[Target]) -> Attachment:
    """Look at an application's queues from outside.

    Args:
        targets: a process id, an application's name, or several of them.

    Raises:
        InputError: when no running application matches; it says which there are.
    """
    return Attachment((targets,) if isinstance(targets, int | str) else tuple(targets))
