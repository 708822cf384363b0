"""Queues as Prometheus metrics, in the text exposition format, over HTTP.

A queue has seven series, whatever it holds; how many there may be in all is bounded, since a series a request
id has brought down more than one Prometheus.
"""

from __future__ import annotations

import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Protocol
from urllib.parse import urlsplit

from latlab.live.access import bad_host, has_token
from latlab.model.queues.live import Snapshot

__all__ = ["SERIES_PER_QUEUE", "exposition", "serve"]

_METRICS = (
    ("latlab_queue_fill", "gauge", "Events in the queue.", "fill_high"),
    ("latlab_queue_capacity", "gauge", "Capacity in events; 0: unbounded.", "capacity"),
    ("latlab_queue_high_water", "gauge", "Most events seen since this exporter attached.", "high_water"),
    ("latlab_queue_in_total", "counter", "Events put in.", "total_in"),
    ("latlab_queue_out_total", "counter", "Events taken out.", "total_out"),
    ("latlab_queue_dropped_total", "counter", "Events lost since it was full.", "dropped"),
    ("latlab_queue_blocked_total", "counter", "Times that a producer waited since it was full.", "blocked"),
)
_SOCKET_METRICS = (
    ("latlab_socket_fill_bytes", "gauge", "Bytes in a socket's receive buffer.", "fill_high"),
    ("latlab_socket_capacity_bytes", "gauge", "Its size; 0: unknown.", "capacity"),
    ("latlab_socket_dropped_total", "counter", "Datagrams that found it full.", "dropped"),
)
SERIES_PER_QUEUE = len(_METRICS)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Looks(Protocol):
    """Something that can be looked at: an attachment."""

    @property
    def alive(self) -> bool:
        """The application runs."""

    def look(self) -> Snapshot:
        """What it is now."""


def exposition(snapshot: Snapshot, most_series: int) -> str:
    """The text that Prometheus scrapes.

    Args:
        most_series: at most so many; queues beyond it are left out and counted.
    """
    sockets = [queue for queue in snapshot.queues if queue.kind == "socket"]
    queues = [queue for queue in snapshot.queues if queue.kind != "socket"]
    kept = queues[: most_series // SERIES_PER_QUEUE]
    kept_sockets = sockets[: (most_series - len(kept) * SERIES_PER_QUEUE) // len(_SOCKET_METRICS)]
    lines = []
    for (name, kind, text, field), those in (
        *((metric, kept) for metric in _METRICS),
        *((metric, kept_sockets) for metric in _SOCKET_METRICS if kept_sockets),
    ):
        lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        for queue in those:
            labels = ",".join(
                f'{key}="{_escaped(value)}"'
                for key, value in (
                    ("queue", queue.name or f"queue-{queue.number}"),
                    ("number", str(queue.number)),
                    ("source", queue.source),
                    ("drain", queue.drain),
                )
            )
            lines.append(f"{name}{{{labels}}} {getattr(queue, field)}")
    lines += [
        "# HELP latlab_queues_left_out Queues beyond the bound on series.",
        "# TYPE latlab_queues_left_out gauge",
        f"latlab_queues_left_out {len(snapshot.queues) - len(kept) - len(kept_sockets)}",
    ]
    return "\n".join(lines) + "\n"


def serve(
    source: Looks, address: str, port: int, most_series: int, token: str | None = None
) -> ThreadingHTTPServer:
    """A server of /metrics; the caller runs it.

    When the application has ended its series end, too: Prometheus marks them stale.

    Args:
        port: 0: any that is free.
        token: that a request must bring; None: none is asked for.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 30.0

        def do_GET(self) -> None:
            if bad_host(self.headers, address):
                self.send_error(421, "this is another host")
                return
            if not has_token(self.headers, self.path, token):
                self.send_error(403, "a token is needed: see the address that was printed")
                return
            if urlsplit(self.path).path != "/metrics":
                self.send_error(404, "see /metrics")
                return
            seen = source.look() if source.alive else Snapshot(time.monotonic_ns(), ())
            body = exposition(seen, most_series).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Scrapes are no news."""

    return ThreadingHTTPServer((address, port), Handler)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
