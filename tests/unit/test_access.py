"""Who may read what is served."""

from __future__ import annotations

import pytest

from latlab.live.access import bad_host, has_token, link, new_token


@pytest.mark.parametrize("host", ["127.0.0.1:80", "localhost", "[::1]:9464", "10.0.0.7", "LOCALHOST:1"])
def test_addresses_and_names_of_this_machine_are_good(host: str) -> None:
    assert not bad_host({"Host": host}, "127.0.0.1")


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "a@b"]
)
def test_other_names_are_refused(host: str) -> None:
    assert bad_host({"Host": host}, "127.0.0.1")


def test_a_request_without_a_host_is_refused() -> None:
    assert bad_host({}, "127.0.0.1")


def test_the_token_comes_in_the_address_or_as_a_bearer_s() -> None:
    assert has_token({}, "/metrics?token=right", "right")
    assert has_token({"Authorization": "Bearer right"}, "/metrics", "right")


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/?token=wrong&token=right"])
def test_a_wrong_token_is_refused(path: str) -> None:
    assert not has_token({"Authorization": "Basic right"}, path, "right")


def test_tokens_differ_and_are_long() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 20


def test_a_link_holds_the_token() -> None:
    assert link("127.0.0.1", 80, "/", "t") == "http://127.0.0.1:80/?token=t"
    assert link("::1", 80, "/metrics", None) == "http://[::1]:80/metrics"
