"""RabbitMQ and NATS by their native clients: as people run their server, and when it ends or stands still."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.files.messaging_runs import partial_without, server_goes

from latlab.errors import UnavailableError
from latlab.messaging import analyse, conform, every_transport, measure, missing
from latlab.messaging.products.broker_processes import started
from latlab.messaging.running.processes import Child, free_port, wait_for_port
from latlab.messaging.running.ways import clients
from latlab.model.messaging.results import Settings

aio_pika = pytest.importorskip("aio_pika")
pytestmark = pytest.mark.peer  # alone: `conform` judges how long a client takes

TOKEN = "open&sesame=4711%"
WAYS: list[tuple[str, dict[str, Any]]] = [
    ("librabbitmq", {}),
    ("librabbitmq", {"driver": {"confirms": "yes", "pipeline": "16"}, "size": 1000}),
    ("librabbitmq", {"driver": {"ack": "yes", "prefetch": "7", "durable": "yes", "persistent": "yes"}}),
    ("librabbitmq", {"driver": {"confirms": "yes", "queue-type": "quorum"}, "messages": 200}),
    ("librabbitmq", {"size": 300_000, "messages": 100}),
    ("librabbitmq", {"topology": "pingpong", "messages": 200}),
    ("libnats", {}),
    ("libnats", {"driver": {"asap": "no"}, "size": 1000}),
    ("libnats", {"size": 1 << 20, "messages": 50, "load": "rate", "rate_hz": 100.0}),
    ("libnats", {"topology": "pingpong", "messages": 200}),
]


def need(name: str) -> None:
    what = missing(every_transport()[name])
    if what is not None:
        pytest.skip(f"{name} did not run: {what}")


@pytest.fixture(scope="module")
def rabbitmq() -> Iterator[str]:
    """One server for all: it takes seconds to start."""
    need("librabbitmq")
    with started(every_transport()["librabbitmq"], Settings("librabbitmq")) as (address, _):
        assert address is not None
        yield f"{address[0]}:{address[1]}"


@pytest.fixture
def nats() -> Iterator[str]:
    """A server that asks for a token."""
    need("libnats")
    port = free_port()
    child = Child(["nats-server", "-a", "127.0.0.1", "-p", str(port), "--auth", TOKEN], quiet=True)
    try:
        wait_for_port("127.0.0.1", port, child, 20.0)
        yield f"127.0.0.1:{port}"
    finally:
        child.close()


@pytest.fixture
def access(request: pytest.FixtureRequest) -> Any:
    """By transport, a server and what opens it."""

    def found(name: str) -> dict[str, Any]:
        if name == "librabbitmq":
            return {"server": request.getfixturevalue("rabbitmq"), "user": "guest", "password": "guest"}
        return {"server": request.getfixturevalue("nats"), "token": TOKEN}

    return found


@pytest.mark.side_by_side
@pytest.mark.parametrize(("name", "more"), WAYS)
def test_every_message_comes_once_and_in_order(name: str, more: dict[str, Any], access: Any) -> None:
    settings = Settings(name, **{"messages": 1000, "timeout_s": 30.0, **access(name), **more})
    measurement = measure(settings)
    result = analyse(measurement)
    assert (result.partial, result.received, result.lost) == (None, settings.messages, 0)
    assert (result.duplicated, result.reordered, result.corrupted) == (0, 0, 0)
    assert result.cpu.broker is not None
    assert (measurement.received_ns >= measurement.sent_ns).all()


@pytest.mark.parametrize("name", ["librabbitmq", "libnats"])
def test_the_native_client_keeps_its_promises(name: str, access: Any) -> None:
    settings = Settings(name, timeout_s=30.0, **access(name))
    assert [one for one in conform(settings) if one[1] is not None] == []


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        ("librabbitmq", {"password": "wrong"}, "ACCESS_REFUSED"),
        ("librabbitmq", {"vhost": "/nowhere"}, "NOT_ALLOWED.*/nowhere"),
        ("libnats", {"token": "wrong"}, "Authorization Violation"),
        ("libnats", {"token": None}, "Authorization Violation"),
    ],
)
def test_who_is_refused_hears_it_in_the_server_s_own_words(
    name: str, wrong: dict[str, Any], said: str, access: Any
) -> None:
    with pytest.raises(UnavailableError, match=said):
        measure(Settings(name, messages=10, **{**access(name), **wrong}))


def test_no_queue_is_left_in_a_server(rabbitmq: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A passive declaration finds one that is left."""
    told: list[str] = []
    asked = clients.Client.options

    def options(client: clients.Client) -> str:
        told.append(asked(client))
        return told[-1]

    monkeypatch.setattr(clients.Client, "options", options)
    measure(Settings("librabbitmq", messages=300, server=rabbitmq, timeout_s=30.0))
    host, _, port = rabbitmq.rpartition(":")
    keys = [parse_qs(options)["key"][0] for options in told]
    assert keys

    async def left(name: str) -> bool:
        async with await aio_pika.connect(host=host, port=int(port)) as line:
            channel = await line.channel()
            try:
                await channel.declare_queue(name, passive=True)
            except aio_pika.exceptions.ChannelNotFoundEntity:
                return False
            return True

    names = [f"{key}-{number}" for key in keys for number in range(100)]  # of the ends of this process
    assert [name for name in names if asyncio.run(left(name))] == []


@pytest.mark.side_by_side
@server_goes
def test_a_server_that_ends_or_stands_still_ends_the_run_as_partial(
    number: signal.Signals, said: str
) -> None:
    need("libnats")
    partial_without("nats-server", "libnats", number, said)
