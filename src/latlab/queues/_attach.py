"""`attach`: an application's queues as they are now."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from latlab.model.queues import QueueNow, Snapshot
from latlab.queues._follow import Follower, Target, require

__all__ = ["Attachment", "attach"]


class Attachment:
    """A view from outside; `look` as often as wanted. Safe from several threads.

    Rates are over the time since the look before.
    """

    def __init__(self, targets: Sequence[Target]) -> None:
        self._follower = Follower(targets)
        self._lock = threading.Lock()
        self._before: dict[int, tuple[int, int, int]] = {}
        self._high: dict[int, int] = {}
        self._follower.refresh()
        require(self._follower, targets)

    @property
    def alive(self) -> bool:
        """At least one of its processes lives."""
        with self._lock:
            self._follower.refresh()
            return bool(self._follower.live_processes)

    def look(self) -> Snapshot:
        """What every queue is now."""
        with self._lock:
            self._follower.refresh()
            now = [
                self._look_at(queue.number)
                for queue in self._follower.queues
                if queue.retired_ns is None and queue.complete
            ]
            return Snapshot(time.monotonic_ns(), tuple(now))

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
        )


def attach(targets: Target | Sequence[Target]) -> Attachment:
    """Look at an application's queues from outside.

    Args:
        targets: a process id, an application's name, or several of them.

    Raises:
        InputError: when no running application matches; it says which there are.
    """
    return Attachment((targets,) if isinstance(targets, int | str) else tuple(targets))
