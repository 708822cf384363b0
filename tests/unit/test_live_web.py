"""The server behind the dashboard and the metrics."""

from __future__ import annotations

import http.client
import threading

import pytest

from latlab.live.web import Server, refusal


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


def _asked(accept: str, path: str) -> tuple[int, str, str]:
    """The status, the type and the text of an answer to a request that brings no token."""
    server = Server({}, "127.0.0.1", 0, "secret")
    server.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        connection.request("GET", path, headers={"Accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read().decode()
    finally:
        server.stop()


def test_a_browser_without_the_token_is_shown_a_page_with_a_title_and_a_language() -> None:
    status, kind, text = _asked("text/html,application/xhtml+xml,*/*;q=0.8", "/")
    assert (status, kind) == (403, "text/html; charset=utf-8")
    assert '<html lang="en">' in text
    assert "<title>latlab: A token is needed</title>" in text
    assert "<p>Open the address that was printed.</p>" in text
    assert "width=device-width" in text
    assert "secret" not in text


def test_a_program_without_the_token_is_told_in_one_line() -> None:
    told = (403, "text/plain; charset=utf-8", "a token is needed: open the address that was printed\n")
    assert _asked("*/*", "/metrics") == told


def test_what_a_refusal_says_is_no_markup() -> None:
    assert "&lt;b&gt;" in refusal("<b>: x")
    assert "<b>" not in refusal("<b>: x")
