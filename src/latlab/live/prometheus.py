"""Queues as Prometheus metrics over HTTP, by the client library of Prometheus.

A queue has seven series, whatever it holds; how many there may be in all is bounded, since a series a request
id has brought down more than one Prometheus.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from latlab.live.web import Handler, Server
from latlab.model.queues.live import Observable, QueueNow, Snapshot

__all__ = ["SERIES_PER_QUEUE", "exposition", "serve"]

_METRICS = (
    ("latlab_queue_fill", "gauge", "Events in the queue.", "fill_high"),
    ("latlab_queue_capacity", "gauge", "Capacity in events; 0: unbounded.", "capacity"),
    ("latlab_queue_high_water", "gauge", "Most events seen since this exporter attached.", "high_water"),
    ("latlab_queue_in_total", "counter", "Events put in.", "total_in"),
    ("latlab_queue_out_total", "counter", "Events taken out.", "total_out"),
    ("latlab_queue_dropped_total", "counter", "Events dropped because it was full.", "dropped"),
    ("latlab_queue_blocked_total", "counter", "Times that a producer waited because it was full.", "blocked"),
)
_SOCKET_METRICS = (
    ("latlab_socket_fill_bytes", "gauge", "Bytes in a socket's receive buffer.", "fill_high"),
    ("latlab_socket_capacity_bytes", "gauge", "Its size; 0: unknown.", "capacity"),
    ("latlab_socket_dropped_total", "counter", "Datagrams that found it full.", "dropped"),
)
SERIES_PER_QUEUE = len(_METRICS)
_LABELS = ("queue", "number", "source", "drain")


@dataclass(frozen=True)
class _Seen(Collector):
    """One look, for one scrape."""

    snapshot: Snapshot
    most_series: int

    def collect(self) -> Iterator[Metric]:
        """The families of metrics, each with a sample a queue."""
        sockets = [queue for queue in self.snapshot.queues if queue.kind == "socket"]
        queues = [queue for queue in self.snapshot.queues if queue.kind != "socket"]
        kept = queues[: self.most_series // SERIES_PER_QUEUE]
        room = self.most_series - len(kept) * SERIES_PER_QUEUE
        kept_sockets = sockets[: room // len(_SOCKET_METRICS)]
        for metric in _METRICS:
            yield _family(*metric, kept)
        for metric in _SOCKET_METRICS if kept_sockets else ():
            yield _family(*metric, kept_sockets)
        left_out = len(self.snapshot.queues) - len(kept) - len(kept_sockets)
        yield GaugeMetricFamily("latlab_queues_left_out", "Queues beyond the bound on series.", left_out)


def _family(name: str, kind: str, text: str, field: str, queues: Iterable[QueueNow]) -> Metric:
    family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(name, text, labels=_LABELS)
    for queue in queues:
        named = queue.name or f"queue-{queue.number}"
        family.add_metric([named, str(queue.number), queue.source, queue.drain], getattr(queue, field))
    return family


def exposition(snapshot: Snapshot, most_series: int) -> str:
    """The text that Prometheus scrapes.

    Args:
        most_series: at most so many; queues beyond it are left out and counted.
    """
    return generate_latest(_Seen(snapshot, most_series)).decode()


class _Metrics(Handler):
    def initialize(self, source: Observable, most_series: int) -> None:
        self._source, self._most_series = source, most_series

    def get(self) -> None:
        seen = self._source.look() if self._source.alive else Snapshot(time.monotonic_ns(), ())
        self.set_header("Content-Type", CONTENT_TYPE_LATEST)
        self.finish(exposition(seen, self._most_series))


def serve(source: Observable, address: str, port: int, most_series: int, token: str | None = None) -> Server:
    """A server of /metrics; the caller starts and stops it.

    When the application has ended its series end, too: Prometheus marks them stale.

    Args:
        port: 0: any that is free.
        token: that a request must bring; None: none is asked for.

    Raises:
        OSError: it can't listen there.
    """
    return Server(
        {"/metrics": (_Metrics, {"source": source, "most_series": most_series})}, address, port, token
    )
