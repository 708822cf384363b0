"""A server of a few pages, by tornado: requests that name another host or bring no token are refused.

It listens as soon as it is made, and answers on a thread of its own between `start` and `stop`.
"""

from __future__ import annotations

import asyncio
import html
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from latlab.live.access import bad_host, has_token
from latlab.reports.assets.files import asset

__all__ = ["Handler", "Server", "refusal"]

_BACKLOG = 512  # room for many browsers that come at once: what waits beyond it is tried again a second later
_PATIENCE_S = 30.0  # with a browser that says nothing
_MOST_BYTES = 1 << 16  # of a request
_POLICY = "default-src 'self' 'unsafe-inline' data:"

# What goes wrong with a request is the browser's to tell: the terminal belongs to who started the command.
logging.getLogger("tornado").addHandler(logging.NullHandler())
logging.getLogger("tornado").propagate = False


class Handler(RequestHandler):
    """What every page has: the refusals, and headers that keep it from other pages."""

    def set_default_headers(self) -> None:
        """Nobody guesses what it is, keeps it, or learns the token that stands in its address."""
        self.set_header("Content-Security-Policy", _POLICY)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Referrer-Policy", "no-referrer")
        self.set_header("Server", "latlab")
        self.set_header(
            "Connection", "close"
        )  # a page is asked for once; who waits for another takes a place

    def prepare(self) -> None:
        """Refuse who names another host or brings no token."""
        given: Mapping[str, str] = self.request.headers
        if bad_host(given, self.settings["address"]):
            raise HTTPError(421, reason="this is another host: open the address that was printed")
        if not has_token(given, self.request.uri or "", self.settings["token"]):
            raise HTTPError(403, reason="a token is needed: open the address that was printed")

    def write_error(self, status_code: int, **_: Any) -> None:
        """In one line, without a trace; as a page for a browser."""
        del status_code
        if "text/html" in self.request.headers.get("Accept", ""):
            self.set_header("Content-Type", "text/html; charset=utf-8")
            self.finish(refusal(self._reason))
            return
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(f"{self._reason}\n")


def refusal(reason: str) -> str:
    """A small page that says why there is none.

    Args:
        reason: what is wrong, and after a colon what to do.
    """
    what, _, remedy = (html.escape(part) for part in reason.partition(": "))
    what = what[:1].upper() + what[1:]
    told = f"<p>{remedy[:1].upper()}{remedy[1:]}.</p>" if remedy else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>latlab: {what}</title><link rel="icon" href="data:,"><style>{asset("page.css")}</style>'
        f"<script>{asset('early.js')}</script>"
        f"</head><body><main><header><h1>{what}</h1></header>{told}</main></body></html>\n"
    )


class _Nothing(Handler):
    def get(self) -> None:
        raise HTTPError(404, reason="there is nothing here")


class Server:
    """Serves handlers by path.

    Args:
        pages: a handler, and what it is made with, by its path.
        token: that a request must bring; None: none is asked for.

    Raises:
        OSError: it can't listen there.
    """

    def __init__(
        self,
        pages: Mapping[str, tuple[type[Handler], dict[str, Any]]],
        address: str,
        port: int,
        token: str | None,
    ) -> None:
        self._sockets = bind_sockets(port, address, backlog=_BACKLOG)
        if port == 0:
            # "localhost" is two addresses, each of which would get a port of its own.
            for one in self._sockets[1:]:
                one.close()
            del self._sockets[1:]
        self._application = Application(
            [(path, *page) for path, page in pages.items()],
            default_handler_class=_Nothing,
            log_function=lambda _: None,
            address=address,
            token=token,
        )
        self._loop: IOLoop | None = None
        self._thread: threading.Thread | None = None
        self._refused: Exception | None = None

    @property
    def port(self) -> int:
        """That it listens at."""
        return int(self._sockets[0].getsockname()[1])

    def start(self) -> None:
        """Answer, on a thread of its own.

        Raises:
            Exception: what kept the thread from beginning; an OSError where no more files may be opened.
        """
        ready = threading.Event()
        self._thread = threading.Thread(target=self._begun, args=(ready,), name="latlab-http", daemon=True)
        self._thread.start()
        ready.wait()
        if self._refused is not None:
            raise self._refused

    def _begun(self, ready: threading.Event) -> None:
        try:
            self._run(ready)
        except Exception as error:  # who waits for `ready` would wait for ever
            if ready.is_set():
                raise
            self._refused, self._loop = error, None
            ready.set()

    def _run(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        self._loop = IOLoop.current()
        server = HTTPServer(
            self._application,
            max_header_size=_MOST_BYTES,
            max_body_size=_MOST_BYTES,
            max_buffer_size=2 * _MOST_BYTES,
            idle_connection_timeout=_PATIENCE_S,
            body_timeout=_PATIENCE_S,
        )
        server.add_sockets(self._sockets)
        ready.set()
        self._loop.start()
        server.stop()
        self._loop.run_sync(server.close_all_connections)
        self._loop.close(all_fds=True)

    def do(self, work: Callable[[], None]) -> None:
        """Do something on the thread that answers."""
        if self._loop is not None:
            self._loop.add_callback(work)

    def stop(self) -> None:
        """End; who is connected is cut off."""
        if self._loop is None or self._thread is None:
            for one in self._sockets:
                one.close()
            return
        self._loop.add_callback(self._loop.stop)
        self._thread.join()
