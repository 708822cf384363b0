"""Queues as OpenTelemetry metrics: observable instruments, which are asked when somebody collects.

The instruments and their attributes are those of the Prometheus endpoint, under dotted names; a queue's place
in the topology is in its attributes, and the number of series is bounded alike.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from latlab.live.prometheus import SERIES_PER_QUEUE
from latlab.model.queues.live import Observable, QueueNow, Snapshot

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, Observation

__all__ = ["instruments"]

# Name, unit, description, field of `QueueNow`, whether it only grows.
_QUEUE = (
    ("latlab.queue.fill", "{event}", "Events in the queue.", "fill_high", False),
    ("latlab.queue.capacity", "{event}", "Capacity; 0: unbounded.", "capacity", False),
    ("latlab.queue.high_water", "{event}", "Most events seen.", "high_water", False),
    ("latlab.queue.in", "{event}", "Events put in.", "total_in", True),
    ("latlab.queue.out", "{event}", "Events taken out.", "total_out", True),
    ("latlab.queue.dropped", "{event}", "Events dropped because it was full.", "dropped", True),
    ("latlab.queue.blocked", "1", "Times that a producer waited because it was full.", "blocked", True),
)
_SOCKET = (
    ("latlab.socket.fill", "By", "Bytes in a socket's receive buffer.", "fill_high", False),
    ("latlab.socket.capacity", "By", "Its size; 0: unknown.", "capacity", False),
    ("latlab.socket.dropped", "{datagram}", "Datagrams that found it full.", "dropped", True),
)


class _Shared:
    """One look for all instruments of a collection: they are asked one after another, and should agree."""

    def __init__(self, source: Observable, most_series: int, fresh_seconds: float) -> None:
        self._source = source
        self._most_queues = most_series // SERIES_PER_QUEUE
        self._fresh_seconds = fresh_seconds
        self._at = 0.0
        self._last: Snapshot | None = None
        self._lock = threading.Lock()

    def queues(self, sockets: bool) -> list[QueueNow]:
        with self._lock:
            if self._last is None or time.monotonic() - self._at > self._fresh_seconds:
                self._last = self._source.look()
                self._at = time.monotonic()
            chosen = [queue for queue in self._last.queues if (queue.kind == "socket") == sockets]
            return chosen[: self._most_queues]


def instruments(
    meter: Meter, source: Observable, *, most_series: int = 2000, fresh_seconds: float = 0.1
) -> None:
    """Register the instruments of an application's queues and sockets.

    Args:
        meter: of the application's meter provider.
        source: an attachment.
        most_series: at most so many; queues beyond it are left out.
        fresh_seconds: a look serves all instruments that are asked so soon after it.
    """
    shared = _Shared(source, most_series, fresh_seconds)
    for rows, sockets in ((_QUEUE, False), (_SOCKET, True)):
        for name, unit, text, field, grows in rows:
            make = meter.create_observable_counter if grows else meter.create_observable_gauge
            make(name, callbacks=[_callback(shared, field, sockets)], unit=unit, description=text)


def _callback(
    shared: _Shared, field: str, sockets: bool
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(_: CallbackOptions) -> Iterable[Observation]:
        from opentelemetry.metrics import Observation

        for queue in shared.queues(sockets):
            attributes: dict[str, Any] = {
                "queue": queue.name or f"queue-{queue.number}",
                "number": queue.number,
                "source": queue.source,
                "drain": queue.drain,
            }
            yield Observation(getattr(queue, field), attributes)

    return observe
