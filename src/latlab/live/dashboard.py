"""The live page: an application's queues and stages over HTTP, to any number of browsers.

One thread looks and makes a frame; another (`latlab.live.web`) sends every browser the same frames as
server-sent events (WHATWG HTML, section 9.2). Nothing comes from the network but this server: the page holds
its own style and script.
"""

from __future__ import annotations

import html
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from tornado.iostream import IOStream, StreamClosedError

from latlab.formats.documents import dumps
from latlab.live.web import Handler, Server
from latlab.model.queues.live import Observable, QueueNow, Snapshot
from latlab.reports.assets.files import asset
from latlab.reports.sections import topology
from latlab.words import number, short

if TYPE_CHECKING:
    from latlab.queues import Happening

__all__ = ["Dashboard", "changes", "drawing", "frame", "mean_time_ns"]

_DRAWING_S = 1.0  # the drawing moves stages about, so it changes less often than the numbers
_MOST_DRAWN = 80  # queues: more make no drawing that one can read
_MOST_STREAMS = 512  # browsers at once
_PATIENCE_S = 30.0  # with a browser that takes nothing
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n"
    b"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
)
_FULL_HEAD = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Connection: close\r\n\r\n"
    b"too many browsers look at once\n"
)
_CATCHES_UP_S = 0.5  # a look that judges takes longer than others: those after it make up for it


def mean_time_ns(snapshot: Snapshot) -> float | None:
    """The mean time of an event in the pipeline, by Little's law: what is in it over what enters a second.

    None where nothing enters.
    """
    counted = [queue for queue in snapshot.queues if queue.kind not in ("pool", "socket")]
    drains = {queue.drain for queue in counted}
    entering = sum(queue.rate_in_hz for queue in counted if queue.source not in drains)
    inside = sum((queue.fill_low + queue.fill_high) / 2 for queue in counted)
    return inside / entering * 1e9 if entering > 0 else None


def frame(snapshot: Snapshot, happened: Sequence[Happening], alive: bool) -> dict[str, Any]:
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
            f"{number(rates[name])}/s" if name in rates else "",
            loads.get(name),
            # Of stages that are slow alike the type is named.
            snapshot.limiting_stage is not None and snapshot.limiting_stage in (name, types.get(name)),
        )
        for name in names
    ]
    edges = [
        topology.DrawnQueue(queue.source, queue.drain, _filled(queue), queue.fill_share) for queue in queues
    ]
    return topology.draw(nodes, edges)


def _filled(queue: QueueNow) -> str:
    """The fill in words: "3 of 64, most 12"; of a queue without a bound "3, most 12"."""
    of = f" of {short(queue.capacity)}" if queue.capacity else ""
    return f"{short(queue.fill_high)}{of}, most {short(queue.high_water)}"


class _Browser:
    """One that is connected: what it was told, and whether it still takes what was sent."""

    def __init__(self, stream: IOStream) -> None:
        self.stream = stream
        self.number = 0  # the last frame that it was told
        self.topology = self.svg = b""
        self.took_at = time.monotonic()

    def tell(self, message: bytes) -> None:
        """Send, and forget who has gone; nothing that was sent before is under way still."""
        if self.stream.closed():
            return
        # At once, to the socket: what the stream does to a write is most of what 200 browsers cost.
        try:
            sent = self.stream.socket.send(message)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.stream.close()
            return
        if sent < len(message):
            try:
                self.stream.write(memoryview(message)[sent:])
            except StreamClosedError:
                return


class _Page(Handler):
    def initialize(self, title: str) -> None:
        self._title = title

    def get(self) -> None:
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.finish(_page(self._title))


class _Events(Handler):
    def initialize(self, add: Callable[[_Browser], bool]) -> None:
        self._add = add

    def get(self) -> None:
        # The connection is ours from here on: a frame to 200 browsers is one write each, and nothing else.
        stream = self.detach()
        browser = _Browser(stream)
        if self._add(browser):
            browser.tell(_STREAM_HEAD)
        else:
            browser.tell(_FULL_HEAD)
            stream.close()


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
        source: Observable,
        happenings: Callable[[Snapshot], Sequence[Happening]],
        title: str,
        *,
        per_second: float = 10.0,
        address: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        self._source, self._happenings, self._period = source, happenings, 1.0 / per_second
        self._browsers: set[_Browser] = set()
        self._number = 0
        self._message = b""
        self._frame: dict[str, Any] = {}
        self._whole = b""  # of the last look, encoded when the first browser needs it
        self._described: tuple[Any, ...] = ()
        self._topology = b""
        self._svg = b""
        self._next_drawing = 0.0
        self._stop = threading.Event()
        pages: dict[str, tuple[type[Handler], dict[str, Any]]] = {
            "/": (_Page, {"title": title}),
            "/events": (_Events, {"add": self._add}),
        }
        self._server = Server(pages, address, port, token)

    @property
    def port(self) -> int:
        """That it listens at."""
        return self._server.port

    def run(self) -> None:
        """Serve until `stop` was called; blocks."""
        self._server.start()
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
            self._server.stop()

    def stop(self) -> None:
        """End `run`, from any thread."""
        self._stop.set()

    def _look(self) -> None:
        """On the thread that looks: everything is made here, and told on the thread that answers."""
        snapshot = self._source.look()
        document = frame(snapshot, self._happenings(snapshot), self._source.alive)
        message = _event("frame", changes(document, self._frame)) if self._frame else b""
        described = tuple(
            (queue.number, queue.name, queue.source, queue.drain, queue.kind, queue.capacity)
            for queue in snapshot.queues
        )
        topology = self._topology if described == self._described else _event("topology", described)
        svg = self._svg
        if time.monotonic() >= self._next_drawing:
            self._next_drawing = time.monotonic() + _DRAWING_S
            drawn = _event("drawing", drawing(snapshot))
            svg = svg if drawn == svg else drawn
        self._described = described

        def tell() -> None:
            self._frame, self._whole, self._message = document, b"", message
            self._topology, self._svg = topology, svg
            self._number += 1
            for browser in tuple(self._browsers):
                self._tell(browser)

        self._server.do(tell)

    def _add(self, browser: _Browser) -> bool:
        if len(self._browsers) >= _MOST_STREAMS:
            return False
        self._browsers.add(browser)
        browser.stream.set_close_callback(lambda: self._browsers.discard(browser))
        if self._number:
            self._server.do(lambda: self._tell(browser))
        return True

    def _tell(self, browser: _Browser) -> None:
        """What a browser doesn't know yet; one that still takes the last frames is left out of this one."""
        now = time.monotonic()
        if browser.stream.writing():
            if now - browser.took_at > _PATIENCE_S:
                browser.stream.close()
            return
        browser.took_at = now
        if browser.number == self._number:
            return
        parts = []
        # A page that is new, or missed a frame, or has new tables, needs all of it.
        whole = self._number != browser.number + 1 or browser.number == 0
        if self._topology is not browser.topology:
            parts.append(self._topology)
            browser.topology, whole = self._topology, True
        if self._svg is not browser.svg:
            parts.append(self._svg)
            browser.svg = self._svg
        parts.append(self._whole_message() if whole else self._message)
        browser.number = self._number
        browser.tell(parts[0] if len(parts) == 1 else b"".join(parts))

    def _whole_message(self) -> bytes:
        """The last look as a page that knows nothing needs it."""
        if not self._whole:
            self._whole = _event("frame", self._frame)
        return self._whole


def _event(name: str, document: Any) -> bytes:
    return f"event: {name}\ndata: {dumps(document)}\n\n".encode()


def _page(title: str) -> str:
    """The page, whole: its markup, look and script lie beside this module."""
    folder = resources.files("latlab.live")
    text, look, script = (
        (folder / f"dashboard.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    parts = {
        "STYLE": asset("page.css"),
        "LOOK": look,
        "EARLY": asset("early.js"),
        "SCRIPT": script,
        "TITLE": html.escape(title),
    }
    return re.sub("%([A-Z]+)%", lambda found: parts[found[1]], text)
