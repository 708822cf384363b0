"""Redis by the native client: every kind, several connections, as people run their server."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.files.messaging_runs import partial_without, server_goes

from latlab.errors import UnavailableError
from latlab.messaging import analyse, conform, every_transport, measure, missing
from latlab.messaging.products.broker_processes import started
from latlab.messaging.running.processes import Child, free_port, wait_for_port
from latlab.model.messaging.results import Settings

pytestmark = pytest.mark.peer  # alone: `conform` judges how long a client takes

SECRET = "open&sesame=4711"


@pytest.fixture(autouse=True)
def _installed() -> None:
    need = missing(every_transport()["hiredis-list"])
    if need is not None:
        pytest.skip(f"hiredis-list did not run: {need}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server with a password."""
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    child = Child(["redis-server", *options, "--requirepass", SECRET], quiet=True)
    try:
        wait_for_port("127.0.0.1", port, child, 20.0)
        yield f"127.0.0.1:{port}"
    finally:
        child.close()


WAYS: list[tuple[str, dict[str, Any]]] = [
    ("hiredis-list", {}),
    ("hiredis-list", {"driver": {"pipeline": "16"}, "size": 1000}),
    ("hiredis-list", {"driver": {"prefetch": "1"}, "load": "rate", "rate_hz": 2000.0}),
    ("hiredis-list", {"topology": "pingpong", "messages": 300}),
    ("hiredis-pubsub", {"load": "rate", "rate_hz": 2000.0}),
    ("hiredis-stream", {"driver": {"pipeline": "4", "prefetch": "7"}, "size": 100_000}),
    ("hiredis-stream", {"driver": {"ack": "yes"}}),
    ("hiredis-stream", {"topology": "pingpong", "messages": 300}),
]


@pytest.mark.side_by_side
@pytest.mark.parametrize(("name", "more"), WAYS)
def test_every_message_comes_once_and_in_order(name: str, more: dict[str, Any]) -> None:
    measurement = measure(Settings(name, **{"messages": 1000, "timeout_s": 30.0, **more}))
    result = analyse(measurement)
    assert (result.partial, result.received, result.lost) == (None, more.get("messages", 1000), 0)
    assert (result.duplicated, result.reordered, result.corrupted) == (0, 0, 0)
    assert result.cpu.broker is not None
    assert (measurement.received_ns >= measurement.sent_ns).all()


@pytest.mark.side_by_side
def test_several_connections_lose_nothing_and_promise_no_order() -> None:
    driver = {"connections": "10", "pipeline": "3"}
    measurement = measure(Settings("hiredis-list", messages=5000, driver=driver, timeout_s=30.0))
    result = analyse(measurement)
    assert (result.partial, result.received, result.lost, result.corrupted) == (None, 5000, 0, 0)
    assert measurement.facts.ordered is False


@pytest.mark.parametrize("name", ["hiredis-list", "hiredis-pubsub", "hiredis-stream"])
def test_the_native_client_keeps_its_promises(name: str) -> None:
    assert [one for one in conform(Settings(name, timeout_s=30.0)) if one[1] is not None] == []


@pytest.mark.side_by_side
def test_a_password_opens_a_server_and_a_wrong_one_is_told_in_its_words(server: str) -> None:
    settings = Settings("hiredis-list", messages=200, server=server, timeout_s=30.0)
    assert analyse(measure(settings.with_(password=SECRET, user="default"))).received == 200
    assert analyse(measure(settings.with_(password=SECRET, driver={"db": "3"}))).received == 200
    with pytest.raises(UnavailableError, match="NOAUTH"):
        measure(settings)
    with pytest.raises(UnavailableError, match="WRONGPASS"):
        measure(settings.with_(password="wrong"))


@pytest.mark.side_by_side
def test_no_key_is_left_in_a_server() -> None:
    facts = every_transport()["hiredis-list"]
    with started(facts, Settings("hiredis-list")) as (address, _):
        assert address is not None
        server = f"{address[0]}:{address[1]}"
        for name in ("hiredis-list", "hiredis-stream"):
            measure(Settings(name, messages=500, server=server, timeout_s=30.0))
        import socket

        with socket.create_connection(address, timeout=5) as line:
            line.sendall(b"DBSIZE\r\n")
            assert line.recv(64) == b":0\r\n"


@pytest.mark.side_by_side
@server_goes
def test_a_server_that_ends_or_stands_still_ends_the_run_as_partial(
    number: signal.Signals, said: str
) -> None:
    partial_without("redis-server", "hiredis-list", number, said)
