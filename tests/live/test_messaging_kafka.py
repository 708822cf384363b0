"""Kafka's client against the mock cluster that librdkafka brings: messages arrive; no time is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from latlab.errors import UnavailableError
from latlab.messaging import analyse, measure
from latlab.messaging.products.kafka import Kafka, _common
from latlab.messaging.running.transport import TransportClosed
from latlab.model.messaging.results import Result, Settings

pytestmark = pytest.mark.side_by_side

kafka = pytest.importorskip("confluent_kafka", reason="Kafka's client is not installed")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    holder = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = holder.list_topics(timeout=20).brokers.values()
    yield f"{broker.host}:{broker.port}"
    del holder


def run(server: str, **given: Any) -> Result:
    settings = {"messages": 150, "warmup": 10, "load": "rate", "rate_hz": 500.0, "timeout_s": 30.0, **given}
    return analyse(measure(Settings("kafka", server=server, **settings)))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_messages_arrive_numbered_and_whole_and_are_confirmed_where_acknowledgements_are_asked_for(
    server: str, acks: str
) -> None:
    result = run(server, driver={"acks": acks, "pipeline": "5"}, size=1000)

    assert (result.partial, result.received, result.lost) == (None, 150, 0)
    assert (result.corrupted, result.duplicated, result.reordered) == (0, 0, 0)
    if acks == "0":
        assert result.confirm_latency is None
    else:
        assert (result.confirm_latency is not None, result.unconfirmed) == (True, 0)


def test_each_group_of_one_receiver_has_every_message(server: str) -> None:
    result = run(server, senders=2, receivers=2, groups=2)

    assert [group.received for group in result.groups] == [(160,), (160,)]
    assert (result.received, result.lost) == (150, 0)


def test_request_and_reply_go_through_the_server(server: str) -> None:
    result = run(server, topology="pingpong", messages=20, warmup=2, load="max", rate_hz=0.0)

    assert (result.partial, result.received) == (None, 20)


def test_without_a_server_of_one_s_own_it_says_what_to_give() -> None:
    with pytest.raises(UnavailableError, match="no kafka is started here") as caught:
        measure(Settings("kafka", messages=10))
    assert "--server" in str(caught.value.remedy)


def test_a_message_that_was_not_taken_ends_the_sender() -> None:
    class Error:
        def str(self) -> str:
            return "Broker: not enough replicas"

    end = Kafka()
    end._over, end._sent, end._outstanding, end._waits = None, 1, 1, True
    end._delivered(0, Error())

    with pytest.raises(TransportClosed, match="not enough replicas"):
        end.send(memoryview(b"next"))


def test_user_password_and_certificates_are_what_the_client_takes() -> None:
    where: dict[str, Any] = {
        "host": "::1", "port": 9093, "user": "me", "password": "secret", "tls": True, "ca": "ca.pem",
        "cert": "mine.pem", "key": None, "unverified": True,
    }  # fmt: skip

    told = _common(where)

    assert told["bootstrap.servers"] == "[::1]:9093"
    assert (told["security.protocol"], told["sasl.mechanism"]) == ("sasl_ssl", "PLAIN")
    assert (told["sasl.username"], told["sasl.password"]) == ("me", "secret")
    assert (told["ssl.ca.location"], told["ssl.key.location"]) == ("ca.pem", "mine.pem")
    assert told["enable.ssl.certificate.verification"] is False
    assert kafka.Producer(_common({**where, "ca": None, "cert": None})) is not None  # it knows these options
