"""The server behind the dashboard and the metrics."""

from __future__ import annotations

import threading

import pytest

from latlab.live.web import Server


def test_a_server_whose_thread_can_not_begin_says_why_and_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: Server, ready: threading.Event) -> None:
        raise ImportError("no file may be opened")

    monkeypatch.setattr(Server, "_run", refuse)
    server = Server({}, "127.0.0.1", 0, None)
    with pytest.raises(ImportError, match="no file may be opened"):
        server.start()
    server.stop()
