"""The native clients of RabbitMQ and NATS: their layouts, what they are told, and how a server is greeted."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.files.plugin_headers import compiles

from latlab.errors import UsageError
from latlab.messaging import check, every_transport
from latlab.messaging.judging.looks import threads_of_library
from latlab.messaging.running.ways import clients, greetings
from latlab.model.messaging.results import Settings

# Our struct, the one of librabbitmq, its members.
LAYOUTS = [
    row.split(" ", 2)
    for row in (
        "Bytes amqp_bytes_t len bytes",
        "Value amqp_field_value_t kind value",
        "Entry amqp_table_entry_t key value",
        "Table amqp_table_t num_entries entries",
        "Properties amqp_basic_properties_t _flags headers delivery_mode timestamp cluster_id",
        "Message amqp_message_t properties body pool",
        "Envelope amqp_envelope_t channel delivery_tag redelivered routing_key message",
        "Method amqp_method_t id decoded",
        "Reply amqp_rpc_reply_t reply_type reply library_error",
        "Frame amqp_frame_t frame_type channel payload",
        "Ack amqp_basic_ack_t delivery_tag multiple",
        "Close amqp_connection_close_t reply_code reply_text",
    )
]
NUMBERS = {
    "kTimeout": "AMQP_STATUS_TIMEOUT", "kNormal": "AMQP_RESPONSE_NORMAL", "kAck": "AMQP_BASIC_ACK_METHOD",
    "kLibrary": "AMQP_RESPONSE_LIBRARY_EXCEPTION", "kServer": "AMQP_RESPONSE_SERVER_EXCEPTION",
    "kNack": "AMQP_BASIC_NACK_METHOD", "kChannelClose": "AMQP_CHANNEL_CLOSE_METHOD",
    "kConnectionClose": "AMQP_CONNECTION_CLOSE_METHOD", "kPlain": "AMQP_SASL_METHOD_PLAIN",
    "kDeliveryMode": "AMQP_BASIC_DELIVERY_MODE_FLAG", "kMethodFrame": "AMQP_FRAME_METHOD",
    "kAccessRefused": "AMQP_ACCESS_REFUSED", "kNotFound": "AMQP_NOT_FOUND", "kNotAllowed": "AMQP_NOT_ALLOWED",
    "kSuccess": "AMQP_REPLY_SUCCESS",
}  # fmt: skip
STATUSES = {
    "kOk": "NATS_OK", "kNoServer": "NATS_NO_SERVER", "kAuthentication": "NATS_CONNECTION_AUTH_FAILED",
    "kNotPermitted": "NATS_NOT_PERMITTED", "kMaxPayload": "NATS_MAX_PAYLOAD", "kNoMemory": "NATS_NO_MEMORY",
    "kTimeout": "NATS_TIMEOUT",
}  # fmt: skip


def test_what_is_declared_of_librabbitmq_is_what_the_installed_header_has(tmp_path: Path) -> None:
    ours = "latlab::rabbitmq::"
    checks = [
        f"static_assert(offsetof({theirs}, {one}) == offsetof({ours}{name}, {one}));"
        for name, theirs, members in LAYOUTS
        for one in members.split()
    ]
    whole = ("Bytes", "Value", "Entry", "Table", "Properties", "Method", "Reply")
    checks += [f"static_assert(sizeof({t}) == sizeof({ours}{n}));" for n, t, _ in LAYOUTS if n in whole]
    # What the library fills may be larger here, and never smaller.
    filled = ("Message", "Envelope", "Frame")
    checks += [f"static_assert(sizeof({t}) <= sizeof({ours}{n}));" for n, t, _ in LAYOUTS if n in filled]
    checks += [
        f"static_assert(static_cast<long>({t}) == static_cast<long>({ours}{n}));" for n, t in NUMBERS.items()
    ]
    includes = "#include <amqp.h>\n#include <amqp_framing.h>\n#include <rabbitmq_library.hpp>\n"
    compiles(includes + "\n".join(checks), "amqp.h", "librabbitmq-dev", tmp_path)


def test_the_statuses_of_nats_are_those_of_the_installed_header(tmp_path: Path) -> None:
    checks = [f"static_assert({t} == latlab::nats::{n});" for n, t in STATUSES.items()]
    includes = "#include <nats/nats.h>\n#include <nats_library.hpp>\n"
    compiles(includes + "\n".join(checks), "nats/nats.h", "libnats-dev", tmp_path)


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("librabbitmq", {"driver": {"prefech": "5"}}, "did you mean 'prefetch'"),
        ("librabbitmq", {"driver": {"queue-type": "lazy"}}, "classic.*quorum"),
        ("librabbitmq", {"tls": True}, "takes no --tls; it takes user, password, vhost"),
        ("libnats", {"vhost": "/a"}, "takes no --vhost; it takes user, password, token"),
        ("libnats", {"receivers": 2}, "joins one sender and one receiver"),
        ("libnats", {"size": 2 << 20}, "at most"),
    ],
)
def test_what_a_native_client_does_not_take_is_refused(
    name: str, given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "library", lambda _name: "here.so")
    with pytest.raises(UsageError) as caught:
        check(Settings(**{"transport": name, "server": "here:1", **given}))
    assert re.search(message, f"{caught.value}; {caught.value.remedy}")


def test_each_plug_in_is_told_what_its_product_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "library", lambda _name: "here.so")
    given: dict[str, Any] = {"user": "me", "password": "a&b", "vhost": "/app 1", "token": "t=1"}
    wanted = {"librabbitmq": ("vhost", "/app 1"), "libnats": ("token", "t=1")}
    for name, (key, value) in wanted.items():
        facts = every_transport()[name]
        client = clients.Client(Settings(name, **given), facts, ("::1", 7), server=object())
        told = {name: values[0] for name, values in parse_qs(client.options()).items()}
        assert (told[key], told["password"], "kind" in told) == (value, "a&b", False)
        assert client.path.is_file()


def test_of_nats_every_thread_that_was_not_there_before_carries_messages() -> None:
    watched = threads_of_library("nats", before=[])
    assert watched is not None
    assert len(watched()) >= 1
    before = watched()
    again = threads_of_library("nats", before)
    assert again is not None
    assert [path for path in again() if path in before] == []
    assert threads_of_library("hiredis", before) is None


Greeting = Callable[[tuple[str, int], Settings], str | None]


def greeted(greeting: Greeting, settings: Settings, *answers: bytes) -> tuple[str | None, list[bytes]]:
    """What is said of a server that answers so, and what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.settimeout(10)
                if greeting is greetings.nats:
                    line.sendall(b'INFO {"server_id":"x"}\r\n')
                for answer in answers:
                    asked.append(line.recv(4096))
                    line.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        said = greeting(server.getsockname(), settings)
        thread.join(10)
    return said, asked


def test_nats_is_greeted_with_what_opens_it_and_its_refusal_is_told() -> None:
    settings = Settings("libnats", user="me", password="p'1")
    said, asked = greeted(greetings.nats, settings, b"PONG\r\n")
    assert said is None
    told = json.loads(asked[0].split(b"\r\n")[0].removeprefix(b"CONNECT "))
    assert (told["user"], told["pass"], "auth_token" in told) == ("me", "p'1", False)
    said, _ = greeted(greetings.nats, settings, b"-ERR 'Authorization Violation'\r\n")
    assert said == "answers CONNECT with: Authorization Violation"


def method(number: int, arguments: bytes) -> bytes:
    content = struct.pack(">HH", 10, number) + arguments
    return struct.pack(">BHI", 1, 0, len(content)) + content + b"\xce"


def close(code: int, text: str) -> bytes:
    return method(50, struct.pack(">HB", code, len(text)) + text.encode() + bytes(4))


START, TUNE, OPEN_OK, CLOSE_OK = (
    method(10, b"\0\x09"),
    method(30, bytes(8)),
    method(41, b"\0"),
    method(51, b""),
)


@pytest.mark.parametrize(
    ("answers", "wanted"),
    [
        ((START, TUNE, OPEN_OK, CLOSE_OK), None),
        ((START, close(403, "ACCESS_REFUSED - no")), "answers with: ACCESS_REFUSED - no"),
        ((START, TUNE, close(530, "NOT_ALLOWED - no such")), "answers with: NOT_ALLOWED - no such"),
        ((START, b""), "closes the connection without a reason"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "is not an AMQP 0-9-1 server: it closes the connection"),
        ((b"AMQP\0\0\x09\x01",), "is not an AMQP 0-9-1 server: it closes the connection"),
    ],
)
def test_amqp_is_greeted_by_its_handshake(answers: tuple[bytes, ...], wanted: str | None) -> None:
    settings = Settings("librabbitmq", user="me", password="p", vhost="/app")
    said, asked = greeted(greetings.amqp, settings, *answers)
    assert said == wanted
    assert asked[0] == b"AMQP\0\0\x09\x01"
    if len(answers) > 1:
        assert b"\0me\0p" in asked[1]
    if len(answers) > 2:
        assert b"\x04/app" in asked[2]
