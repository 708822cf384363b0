"""A server is asked once in plain words whether it lets us in: an errno of a plug-in would not tell why not.

Each greeting returns None, or what the server has against us, in its own words.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

from latlab.formats.documents import dumps
from latlab.model.messaging.results import Settings

__all__ = ["amqp", "nats", "redis"]

_SECONDS = 5.0


def redis(address: tuple[str, int], settings: Settings) -> str | None:
    """By the commands AUTH, SELECT and PING."""
    user, password = settings.user or "", settings.password or ""
    commands = [["AUTH", *([user] if user else []), password]] if user or password else []
    commands += [["SELECT", settings.driver.get("db", "0")], ["PING"]]
    with socket.create_connection(address, timeout=_SECONDS) as line, line.makefile("rb") as answers:
        for words in commands:
            parts = [f"${len(w.encode())}\r\n{w}\r\n" for w in words]
            line.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
            answer = answers.readline(4096).decode(errors="replace").strip()
            if not answer.startswith("+"):
                said = answer.removeprefix("-").rstrip(".") or "nothing"
                return f"answers {words[0]} with: {said}"
    return None


def nats(address: tuple[str, int], settings: Settings) -> str | None:
    """By CONNECT and PING, after its INFO."""
    with socket.create_connection(address, timeout=_SECONDS) as line, line.makefile("rb") as answers:
        verb, _, _ = answers.readline(1 << 16).partition(b" ")
        if verb != b"INFO":
            return "is not a NATS server: it does not begin with INFO"
        asked: dict[str, Any] = {"verbose": False, "pedantic": False, "lang": "c", "version": "1"}
        given = {"user": settings.user, "pass": settings.password, "auth_token": settings.token}
        asked |= {name: value for name, value in given.items() if value is not None}
        line.sendall(b"CONNECT " + dumps(asked).encode() + b"\r\nPING\r\n")
        answer = answers.readline(1 << 16).decode(errors="replace").strip()
    said = answer.removeprefix("-ERR").strip().strip("'")
    return None if answer == "PONG" else f"answers CONNECT with: {said or 'nothing'}"


# Of the class "connection".
_START, _START_OK, _TUNE, _TUNE_OK = (10, 10), (10, 11), (10, 30), (10, 31)
_OPEN, _OPEN_OK, _CLOSE = (10, 40), (10, 41), (10, 50)


def amqp(address: tuple[str, int], settings: Settings) -> str | None:
    """By the handshake of AMQP 0-9-1: Start, Tune and Open."""
    user = settings.user or "guest"
    password = (settings.password or "") if settings.user else "guest"
    with socket.create_connection(address, timeout=_SECONDS) as line, line.makefile("rb") as answers:
        line.sendall(b"AMQP\x00\x00\x09\x01")
        if (start := _method(answers)) is None:
            return "is not an AMQP 0-9-1 server: it closes the connection"
        if start[0] != _START:
            return "is not an AMQP 0-9-1 server: it does not begin with Start"
        # A client that can be told why it is refused says so.
        able = _short("authentication_failure_close") + b"t\x01"
        properties = _long(_short("capabilities") + b"F" + _long(able))
        secret = _long(f"\0{user}\0{password}".encode())
        line.sendall(_frame(_START_OK, properties + _short("PLAIN") + secret + _short("en_US")))
        answer = _method(answers)
        if answer is not None and answer[0] == _TUNE:
            opening = _short(settings.vhost or "/") + b"\x00\x00"
            line.sendall(_frame(_TUNE_OK, answer[1][:8]) + _frame(_OPEN, opening))
            answer = _method(answers)
        if answer is None:
            return "closes the connection without a reason"
        if answer[0] == _CLOSE:
            length = answer[1][2]
            return f"answers with: {answer[1][3 : 3 + length].decode(errors='replace')}"
        if answer[0] != _OPEN_OK:
            return "does not open the connection"
        line.sendall(_frame(_CLOSE, struct.pack(">H", 200) + _short("") + bytes(4)))
        _method(answers)
    return None


def _short(text: str) -> bytes:
    return bytes([len(text.encode())]) + text.encode()


def _long(content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + content


def _frame(method: tuple[int, int], arguments: bytes) -> bytes:
    content = struct.pack(">HH", *method) + arguments
    return struct.pack(">BHI", 1, 0, len(content)) + content + b"\xce"


def _method(answers: Any) -> tuple[tuple[int, int], bytes] | None:
    """The next method frame of the connection: which, and its arguments; None at the end."""
    head = answers.read(7)
    if len(head) < 7 or head[0] != 1:
        return None
    (length,) = struct.unpack(">I", head[3:])
    content = answers.read(min(length, 1 << 20) + 1)
    if len(content) < 5:
        return None
    return (int.from_bytes(content[:2], "big"), int.from_bytes(content[2:4], "big")), content[4:-1]
