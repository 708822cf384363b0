"""The live page: an application's queues and stages over HTTP, to any number of browsers.

One thread looks and makes a frame; every browser gets the same frames as server-sent events (WHATWG HTML,
section 9.2). Nothing comes from the network but this server: the page holds its own style and script.
"""

from __future__ import annotations

import html
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any, Protocol
from urllib.parse import urlsplit

from latlab.live.access import bad_host, has_token
from latlab.model.queues.live import QueueNow, Snapshot
from latlab.reports.assets.files import asset
from latlab.reports.sections import topology

__all__ = ["Dashboard", "changes", "drawing", "frame", "mean_time_ns"]

_DRAWING_S = 1.0  # the drawing moves stages about, so it changes less often than the numbers
_MOST_DRAWN = 80  # queues: more make no drawing that one can read
_KEEP_ALIVE_S = 5.0
_MOST_STREAMS = 512  # browsers at once
_PATIENCE_S = 30.0  # with a browser that says nothing, or takes nothing
_CATCHES_UP_S = 0.5  # a look that judges takes longer than others: those after it make up for it


class Source(Protocol):
    """Something that can be looked at."""

    @property
    def alive(self) -> bool:
        """The application runs."""

    def look(self) -> Snapshot:
        """What it is now."""


class Event(Protocol):
    """Something that happened, as `latlab.queues.Happening` has it."""

    @property
    def t_ns(self) -> int:
        """When."""

    @property
    def kind(self) -> str:
        """What kind."""

    @property
    def what(self) -> str:
        """In words."""


def mean_time_ns(snapshot: Snapshot) -> float | None:
    """The mean time of an event in the pipeline, by Little's law: what is in it over what enters a second.

    None where nothing enters.
    """
    counted = [queue for queue in snapshot.queues if queue.kind not in ("pool", "socket")]
    drains = {queue.drain for queue in counted}
    entering = sum(queue.rate_in_hz for queue in counted if queue.source not in drains)
    inside = sum((queue.fill_low + queue.fill_high) / 2 for queue in counted)
    return inside / entering * 1e9 if entering > 0 else None


def frame(snapshot: Snapshot, happened: Sequence[Event], alive: bool) -> dict[str, Any]:
    """All that the page shows of one look, but for what stands in the topology."""
    return {
        "t": snapshot.t_ns,
        "whole": True,
        "alive": alive,
        "limits": snapshot.limiting_stage,
        "verdict": snapshot.verdict,
        "confidence": round(snapshot.confidence, 3),
        "mean_ns": mean_time_ns(snapshot),
        "latency": None
        if (e2e := snapshot.latency) is None
        else [*(e2e.p50_ns, e2e.p99_ns, e2e.p99_9_ns), e2e.events, e2e.window_s, e2e.full],
        "queues": [
            [
                *(queue.number, queue.fill_high, queue.high_water, round(queue.rate_in_hz)),
                *(round(queue.rate_out_hz), queue.dropped, queue.blocked),
            ]
            for queue in snapshot.queues
        ],
        "stages": [
            [
                *(stage.label, stage.state, _share(stage.busy), _share(stage.blocked)),
                *(round(stage.rate_hz), stage.waiting, stage.type),
            ]
            for stage in snapshot.stages
        ],
        "events": [[event.t_ns, event.kind, event.what] for event in happened],
    }


def _share(share: float | None) -> float | None:
    """As exactly as anybody reads it."""
    return None if share is None else round(share, 3)


def changes(document: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """Of a frame, what a page that holds the one before doesn't know: rows that differ, and all but the rows.

    Where stages have come or gone it is the whole frame.
    """
    if [row[0] for row in document["stages"]] != [row[0] for row in before["stages"]]:
        return dict(document)
    rows = {}
    for name in ("queues", "stages"):
        known = {row[0]: row for row in before[name]}
        rows[name] = [row for row in document[name] if known.get(row[0]) != row]
    return {**document, **rows, "whole": False}


def drawing(snapshot: Snapshot) -> str:
    """The topology as SVG; "" where it is too large to be read."""
    queues = [queue for queue in snapshot.queues if queue.kind != "pool" and queue.source and queue.drain]
    if not queues or len(queues) > _MOST_DRAWN:
        return ""
    loads = {stage.label: stage.busy for stage in snapshot.stages}
    drains = {queue.drain for queue in queues}  # a source has no rate of its own: it takes nothing out
    rates = {stage.label: stage.rate_hz for stage in snapshot.stages if stage.label in drains}
    types = {stage.label: stage.type for stage in snapshot.stages}
    names = list(dict.fromkeys(name for queue in queues for name in (queue.source, queue.drain)))
    nodes = [
        topology.Node(
            name,
            f"{rates[name]:,.0f}/s" if name in rates else "",
            loads.get(name),
            # Of stages that are slow alike the type is named.
            snapshot.limiting_stage is not None and snapshot.limiting_stage in (name, types.get(name)),
        )
        for name in names
    ]
    edges = [topology.Edge(queue.source, queue.drain, _filled(queue), queue.fill_share) for queue in queues]
    return topology.draw(nodes, edges)


def _filled(queue: QueueNow) -> str:
    """The fill in words: "3 of 64, most 12"; of a queue without a bound "3, most 12"."""
    of = f" of {_short(queue.capacity)}" if queue.capacity else ""
    return f"{_short(queue.fill_high)}{of}, most {_short(queue.high_water)}"


def _short(number: int) -> str:
    """As the page's tables write it."""
    if number >= 1_000_000:
        return f"{number / 1e6:.1f} M"
    return f"{number / 1e3:.1f} k" if number >= 10_000 else f"{number:,}"


class _Server(ThreadingHTTPServer):
    """With room for many browsers that come at once: what waits beyond it is tried again a second later."""

    request_queue_size = 512


class Dashboard:
    """Looks, and serves what it saw.

    Args:
        source: what is looked at.
        happenings: tells what is new in a snapshot.
        title: of the page.
        per_second: looks a second.
        address: to listen at.
        port: likewise; 0 chooses one.
        token: that a browser must bring as ?token=…; None: none is asked for.
    """

    def __init__(
        self,
        source: Source,
        happenings: Callable[[Snapshot], Sequence[Event]],
        title: str,
        *,
        per_second: float = 10.0,
        address: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        self._source, self._happenings, self._period = source, happenings, 1.0 / per_second
        self._title, self._token, self._address = title, token, address
        self._streams = threading.BoundedSemaphore(_MOST_STREAMS)
        self._changed = threading.Condition()
        self._number = 0
        self._message = b""
        self._frame: dict[str, Any] = {}
        self._whole = b""  # of the last look, encoded when the first browser needs it
        self._described: tuple[Any, ...] = ()
        self._topology = b""
        self._svg = b""
        self._next_drawing = 0.0
        self._stop = threading.Event()
        dashboard = self

        class Handler(BaseHTTPRequestHandler):
            timeout = _PATIENCE_S

            def do_GET(self) -> None:
                dashboard._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
                """Requests are nobody's business but the browser's."""

        self._server = _Server((address, port), Handler)
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        """That it listens at."""
        return int(self._server.server_address[1])

    def run(self) -> None:
        """Serve until the application has ended and `stop` was called, or only that; blocks."""
        threading.Thread(target=self._server.serve_forever, name="latlab-http", daemon=True).start()
        try:
            following = time.monotonic()
            while not self._stop.is_set():
                self._look()
                following += self._period
                pause = following - time.monotonic()
                if pause < -_CATCHES_UP_S:
                    following -= pause  # too slow for the rate: the next one is due from now on
                self._stop.wait(max(0.0, pause))
        finally:
            self._server.shutdown()
            self._server.server_close()

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()

    def _look(self) -> None:
        snapshot = self._source.look()
        document = frame(snapshot, self._happenings(snapshot), self._source.alive)
        message = _event("frame", changes(document, self._frame)) if self._frame else b""
        described = tuple(
            (queue.number, queue.name, queue.source, queue.drain, queue.kind, queue.capacity)
            for queue in snapshot.queues
        )
        with self._changed:
            if described != self._described:
                self._described = described
                self._topology = _event("topology", described)
            if time.monotonic() >= self._next_drawing:
                self._next_drawing = time.monotonic() + _DRAWING_S
                svg = _event("drawing", drawing(snapshot))
                self._svg = self._svg if svg == self._svg else svg
            self._frame, self._whole, self._message = document, b"", message
            self._number += 1
            self._changed.notify_all()

    def _whole_message(self) -> bytes:
        """The last look as a page that knows nothing needs it; called with the condition held."""
        if not self._whole:
            self._whole = _event("frame", self._frame)
        return self._whole

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        url = urlsplit(handler.path)
        if bad_host(handler.headers, self._address):
            _send(handler, 421, "text/plain", b"this is another host: open the address that was printed\n")
        elif not has_token(handler.headers, handler.path, self._token):
            _send(handler, 403, "text/plain", b"a token is needed: open the address that was printed\n")
        elif url.path == "/":
            _send(handler, 200, "text/html", _page(self._title).encode())
        elif url.path == "/events":
            if not self._streams.acquire(blocking=False):
                _send(handler, 503, "text/plain", b"too many browsers look at once\n")
                return
            try:
                self._stream(handler)
            finally:
                self._streams.release()
        else:
            _send(handler, 404, "text/plain", b"there is nothing here\n")

    def _stream(self, handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Cache-Control", "no-store")
        handler.end_headers()
        sent, topology_sent, svg_sent = 0, b"", b""
        try:
            while not self._stop.is_set():
                with self._changed:
                    if self._number == sent:
                        self._changed.wait(_KEEP_ALIVE_S)
                    parts = []
                    # A page that is new, or missed a frame, or has new tables, needs all of it.
                    whole = sent == 0 or self._number != sent + 1 or self._topology is not topology_sent
                    if self._topology is not topology_sent:
                        parts.append(self._topology)
                        topology_sent = self._topology
                    if self._svg is not svg_sent:
                        parts.append(self._svg)
                        svg_sent = self._svg
                    if self._number == sent:
                        parts.append(b": still here\n\n")
                    else:
                        parts.append(self._whole_message() if whole else self._message)
                    sent = self._number
                handler.wfile.write(b"".join(parts))
                handler.wfile.flush()
        except (ConnectionError, TimeoutError):
            return  # the browser has gone


def _event(name: str, document: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n".encode()


def _page(title: str) -> str:
    """The page, whole: its markup and script lie beside this module."""
    text = (resources.files("latlab.live") / "dashboard.html").read_text(encoding="utf-8")
    for name, value in (
        ("STYLE", asset("page.css")),
        ("EARLY", asset("early.js")),
        ("TITLE", html.escape(title)),
    ):
        text = text.replace(f"%{name}%", value)
    return text


def _send(handler: BaseHTTPRequestHandler, status: int, kind: str, body: bytes) -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", f"{kind}; charset=utf-8")
    handler.send_header("Content-Length", str(len(body)))
    handler.send_header("Content-Security-Policy", "default-src 'self' 'unsafe-inline' data:")
    handler.send_header("X-Content-Type-Options", "nosniff")
    handler.send_header("Referrer-Policy", "no-referrer")  # the token stands in the address
    handler.end_headers()
    handler.wfile.write(body)
