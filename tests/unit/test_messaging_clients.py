from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from latlab.cli.messaging._options import axis_of
from latlab.errors import InputError, UsageError
from latlab.messaging import _recording, analyse, check, every_transport, load_workload
from latlab.messaging.products.product import amqp_refusal
from latlab.messaging.products.servers import Mqtt
from latlab.messaging.running.schedule import schedule, sizes_of
from latlab.messaging.running.shared import Body, SharedLayout, bodies_of
from latlab.model.messaging.options import settings_of
from latlab.model.messaging.results import Facts, Measurement, Settings, Side


def read(**given: Any) -> Settings:
    return settings_of({"transport": "mqtt", **given})


def test_a_password_can_be_kept_in_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("OF_MY_BROKER", "from the environment")
    assert read(password="itself").password == "itself"
    assert read(password=f"file:{tmp_path}/secret").password == "from a file"
    assert read(token="env:OF_MY_BROKER").token == "from the environment"
    for wrong in ("env:NOT_THERE_AT_ALL", f"file:{tmp_path}/none"):
        with pytest.raises(UsageError):
            read(password=wrong)


def test_secrets_are_in_no_text_of_the_settings() -> None:
    settings = read(user="me", password="sesame", token="token-4711")
    assert settings.to_json()["user"] == "me"
    assert (settings.to_json()["password"], settings.to_json()["token"]) == (None, None)
    assert "sesame" not in repr(settings)
    assert "token-4711" not in repr(settings)
    assert Settings.from_json(settings.to_json(secrets=True)) == settings


def test_a_recorded_command_line_has_no_secret() -> None:
    words = ["/usr/bin/latlab", "run", "--password", "sesame", "--token=4711", "--user", "me"]
    shown = shlex.split(_recording._without_secrets(words))
    assert shown == ["latlab", "run", "--password", "…", "--token=…", "--user", "me"]


def test_options_of_the_client_are_a_table_of_a_workload_file(tmp_path: Path) -> None:
    path = tmp_path / "load.toml"
    path.write_text('transport = "rabbitmq"\nsenders = 2\n[driver]\nconfirms = true\npipeline = 8\n')
    settings = load_workload(path)
    assert settings.driver == {"confirms": "yes", "pipeline": "8"}
    assert settings.senders == 2
    path.write_text('transport = "rabbitmq"\n[network]\nrate = 1\n')
    with pytest.raises(InputError, match="is a table"):
        load_workload(path)


def test_an_option_of_the_client_can_be_swept() -> None:
    assert axis_of("driver.qos=0,1,2") == ("driver.qos", ["0", "1", "2"])


def test_an_amqp_server_s_refusal_is_told_by_what_can_be_set() -> None:
    refused = ConnectionRefusedError("[Errno 111] Connect call failed")
    where = {"vhost": "shop"}
    words = "NOT_ALLOWED - vhost shop not found"
    assert amqp_refusal(OSError(words), where) == "the server has no vhost shop for this user"
    words = "Expected one of ['Connection.OpenOk'], got <Connection.Close object at 0x7fb9>"
    assert amqp_refusal(OSError(words), where) == "the server has no vhost shop for this user"
    words = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"
    assert amqp_refusal(OSError(words), where).startswith("the server does not take this user and password")
    assert amqp_refusal(refused, where) == str(refused)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"driver": {"qso": "1"}}, "no driver option 'qso'.*did you mean 'qos'"),
        ({"driver": {"qos": "3"}}, "it is 0 or 1 or 2"),
        ({"driver": {"inflight": "0"}}, "whole number from 1 on"),
        ({"transport": "ring", "driver": {"qos": "1"}}, "it has none"),
        ({"user": "me"}, "asks for no user.*--server"),
        ({"token": "t", "server": "here:1"}, "takes no --token"),
        ({"tls_ca": "ca.pem", "server": "here:1"}, "say --tls, too"),
        ({"tls": True, "tls_key": "k.pem", "server": "here:1"}, "say --tls-cert"),
        ({"transport": "tcp", "tls": True}, "takes no --tls"),
        ({"transport": "tcp", "senders": 2}, "joins one sender and one receiver"),
        ({"groups": 2}, "2 groups of 1 receivers"),
        ({"receivers": 0}, "at least 1"),
        ({"senders": 60, "receivers": 10}, "at most 64"),
        ({"senders": 2, "topology": "pingpong"}, "one sender and one receiver"),
        ({"senders": 2, "size": 2}, "need 4 bytes"),
        ({"transport": "redis-list", "receivers": 2, "groups": 2}, "goes to one receiver"),
        ({"transport": "redis-pubsub", "receivers": 2}, "say --groups 2"),
    ],
)
def test_what_a_client_does_not_take_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        check(Settings(**{"transport": "mqtt", **given}))
    assert re.search(message, f"{caught.value}; {caught.value.remedy}")


def test_facts_are_read_back_with_the_options_of_the_client() -> None:
    from dataclasses import asdict

    for facts in every_transport().values():
        assert Facts.from_json(asdict(facts)) == facts
    old = asdict(every_transport()["mqtt"])
    for name in ("access", "driver", "many"):
        old.pop(name)
    assert Facts.from_json(old).driver == ()


def test_each_word_that_processes_share_has_one_place() -> None:
    layout = SharedLayout(total=10, senders=2, receivers=3, groups=2, stalls=1)
    places = [layout.sent, layout.confirmed, layout.received(0), layout.received(1), layout.stalled]
    words = [word for place in places for word in range(place.start, place.stop)]
    blocks = [layout.sender(0), layout.sender(1), *(layout.receiver(i) for i in range(3))]
    words += [word for block in blocks for word in range(block, block + 11)]
    assert len(words) == len(set(words))
    assert (min(words) > 2, max(words) + 1) == (True, layout.words)


@pytest.mark.parametrize("behind", [0, 1, 7, 65_534])
def test_a_confirmation_of_mqtt_finds_its_message_when_numbers_begin_again(behind: int) -> None:
    found: list[int] = []
    end = Mqtt()
    end.confirmed, end._acknowledged = found.append, 0
    for index in (65_534, 65_535, 131_070, 200_000):
        end._sent = index + behind
        end._published(None, None, index % 65_535 + 1)
    assert found == [65_534, 65_535, 131_070, 200_000]


def measured(settings: Settings, **more: Any) -> Measurement:
    sent = np.arange(settings.total) * 1000
    values: dict[str, Any] = {
        "sent_ns": sent, "received_ns": sent + 500, "intended_ns": None, "kernel_ns": None,
        "sender": Side(count=settings.total), "receiver": Side(count=settings.total),
        "sender_samples": np.zeros((0, 3), dtype=np.int64),
        "receiver_samples": np.zeros((0, 5), dtype=np.int64), "broker_cpu_ns": None, "process_cpu_ns": 0,
        "foreign_cpu_ns": None, "elapsed_ns": 1, "network_bytes": None, "ticks_hz": 1e9,
        "harness_ns": (1.0, 1.0, 1.0), "bytes_per_message": 16.0, "locked": True, "wait": "block",
        **more,
    }  # fmt: skip
    return Measurement(settings=settings, facts=every_transport()["mqtt"], **values)


def test_a_message_is_received_when_the_last_group_has_it_and_each_group_has_a_latency() -> None:
    settings = Settings("mqtt", messages=100, receivers=3, groups=2)
    sent = np.arange(100) * 1000
    fast, slow = sent + 100, sent + 400
    slow[7] = -1
    together = np.where(slow < 0, -1, slow)
    result = analyse(
        measured(
            settings, received_ns=together, deliveries_ns=(fast, slow),
            receivers=(Side(count=60), Side(count=99), Side(count=40)),
        )
    )  # fmt: skip
    assert (result.received, result.lost) == (99, 1)
    first, second = result.groups
    assert (first.received, first.lost, second.received, second.lost) == ((60, 40), 0, (99,), 1)
    assert first.latency is not None
    assert second.latency is not None
    assert (first.latency.maximum, second.latency.minimum) == (100, 400)


def test_senders_that_take_turns_are_no_clock_that_steps() -> None:
    settings = Settings("mqtt", messages=100, senders=2)
    sent = np.arange(100) * 1000
    sent[1::2] -= 50_000  # the second sender is ahead
    sent -= sent.min()
    result = analyse(measured(settings, sent_ns=sent, received_ns=sent + 500))
    assert (result.clock_steps, result.identity_violations, result.verdict.period) == (0, 0, None)
    assert result.sending_throughput.messages_per_s is not None


def test_confirmations_are_counted_and_have_a_latency() -> None:
    settings = Settings("mqtt", messages=90, warmup=10)
    confirmed = np.arange(100) * 1000 + 300
    confirmed[50] = -1
    result = analyse(measured(settings, confirmed_ns=confirmed))
    assert result.confirm_latency is not None
    assert (result.confirm_latency.count, result.confirm_latency.maximum, result.unconfirmed) == (89, 300, 1)


def test_a_recording_keeps_groups_and_confirmations(tmp_path: Path) -> None:
    settings = Settings("mqtt", messages=100, receivers=2, groups=2, driver={"qos": "1"}, password="sesame")
    sent = np.arange(100) * 1000
    m = measured(
        settings, deliveries_ns=(sent + 1, sent + 2), confirmed_ns=sent + 3, senders=(Side(count=1),),
        receivers=(Side(count=2), Side(count=3)),
    )  # fmt: skip
    path = os.fspath(tmp_path / "kept")
    _recording.save_run(path, m, result={})
    back = _recording.load_run(path)
    assert back.settings == settings.with_(password=None)
    assert [part.tolist() for part in back.deliveries_ns] == [(sent + 1).tolist(), (sent + 2).tolist()]
    assert back.confirmed_ns is not None
    assert back.confirmed_ns.tolist() == (sent + 3).tolist()
    assert (back.senders, back.receivers, back.facts) == (m.senders, m.receivers, m.facts)


OPENMESSAGING = """
name: 1 topic / 16 partitions / 100b
topics: 1
partitionsPerTopic: 16
keyDistributor: "NO_KEY"
messageSize: 100
payloadFile: "payload/payload-100b.data"
subscriptionsPerTopic: 2  # each has every message
consumerPerSubscription: 3
producersPerTopic: 4
producerRate: 500
consumerBacklogSizeGB: 0
testDurationMinutes: 2
warmupDurationMinutes: 1
"""


def test_a_workload_of_the_openmessaging_benchmark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "one.yaml"
    path.write_text(OPENMESSAGING)
    s = load_workload(path, transport="mqtt")
    assert (s.size, s.senders, s.receivers, s.groups) == (100, 4, 6, 2)
    assert (s.load, s.rate_hz, s.messages, s.warmup) == ("rate", 500.0, 60_000, 30_000)
    path.write_text("producerRate: 0\ntestDurationMinutes: 0.5\n")
    fast = load_workload(path, transport="mqtt")
    assert (fast.load, fast.duration_s, fast.size) == ("max", 30.0, 1024)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("topics: 100\n", "one topic"),
        ("consumerBacklogSizeGB: 10\n", "no backlog"),
        ("messageSze: 100\n", "did you mean 'messageSize'"),
        ("messageSize: large\n", "large is not a number"),
        ("- a\n- b\n", "not a key"),
        ("a:\n  b: 1\n", "not a key of"),
    ],
)
def test_what_no_run_can_do_of_an_openmessaging_workload_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "one.yml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_workload(path, transport="mqtt")
    assert message in f"{caught.value}; {caught.value.remedy}"


def test_rates_by_schedule_follow_one_another() -> None:
    settings = read(steps="1k:100ms,5k:100ms,500:100ms")
    assert (settings.load, settings.total, settings.warmup) == ("steps", 650, 65)
    due = schedule(settings).due_ns(settings.total)
    assert [due[0], due[99], due[100], due[599], due[600], due[649]] == [
        0, 99e6, 100e6, 199.8e6, 200e6, 298e6,
    ]  # fmt: skip
    assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    "given", [{"steps": "1k"}, {"steps": "0:1s"}, {"steps": "1k:1s", "rate": ["5"]}, {"steps": "9:-1s"}]
)
def test_steps_without_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        read(**given)


def test_sizes_are_drawn_by_weight_and_each_message_has_its_own() -> None:
    settings = read(sizes="64:3,1k:1", messages="4000")
    sizes = sizes_of(settings)
    assert sizes is not None
    assert set(sizes.tolist()) == {64, 1000}
    assert 0.2 < np.mean(sizes == 1000) < 0.3
    assert settings.size == 1000
    bodies = bodies_of(settings)
    for number in (0, 1, 2, 3999):
        message = bytes(bodies.message(number))
        assert (len(message), bodies.number(message, 0)) == (sizes[number], number)
    other = 64 if sizes[5] == 1000 else 1000
    assert bodies.number(bytes(Body(other).message(5)), 5) is None
    assert Settings.from_json(settings.to_json()) == settings


@pytest.mark.parametrize(
    "given",
    [{"sizes": "64:x"}, {"sizes": "64:0"}, {"sizes": "4:1,64:1"}, {"sizes": "64:1", "transport": "tcp"}],
)
def test_sizes_without_sense_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        check(read(**given))


def test_throughput_in_bytes_is_of_the_sizes_that_were_drawn() -> None:
    settings = Settings("mqtt", messages=1000, size=1000, sizes=((64, 3.0), (1000, 1.0)))
    sizes = sizes_of(settings)
    assert sizes is not None
    found = analyse(measured(settings)).sending_throughput
    assert found.messages_per_s is not None
    assert found.bytes_per_s == pytest.approx(found.messages_per_s * sizes.mean())
