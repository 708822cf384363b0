"""The trivial broker on another host: `serve` answers there, `RemoteBroker` asks for one from here.

One TCP connection a run controls it, with one JSON object a line: the run asks for a broker, the host answers
with the ports of its two sockets, the run connects, the host starts its broker and says "ready"; at the end
the run says "end" and hears what the broker counted. The broker ends with the connection. There is no
authentication: listen where you trust who can connect.
"""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Callable
from typing import Any

from latlab.errors import LatlabError, UnavailableError, UsageError
from latlab.formats.documents import dumps
from latlab.messaging.running import processes as _processes
from latlab.messaging.running.ways.links import Link
from latlab.model.messaging.results import Settings
from latlab.words import plural

TRANSPORTS = ("tcp", "tcp-nagle", "udp")
_VERSION = 1
_HANDSHAKE_S = 10.0
_KEYS = {"version", "transport", "size", "wait", "stalls", "faults", "work_ns", "both_ways", "reply_port"}


def address_of(text: str) -> tuple[str, int]:
    """Read HOST:PORT.

    Raises:
        UsageError: for anything else.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or not int(port) < 65536:
        raise UsageError(f"'{text}' is not an address", remedy="write HOST:PORT")
    return host, int(port)


def _socket(transport: str) -> socket.socket:
    kind = socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM
    return socket.socket(socket.AF_INET, kind)


def _ready(s: socket.socket, transport: str) -> socket.socket:
    s.settimeout(None)
    if transport != "udp":
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(transport == "tcp"))
    return s


class _Lines:
    """JSON objects over the controlling connection, one a line."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rwb")

    def say(self, **document: Any) -> None:
        self._file.write(dumps(document).encode() + b"\n")
        self._file.flush()

    def hear(self) -> dict[str, Any] | None:
        line = self._file.readline(65536)
        found = json.loads(line) if line.endswith(b"\n") else None
        return found if isinstance(found, dict) else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


class RemoteBroker:
    """A broker on the host at `settings.broker`; `out` and `in_` are this side's ends of its two hops.

    Raises:
        UnavailableError: when nobody answers there.
        LatlabError: when the other side refuses.
    """

    def __init__(self, settings: Settings, wait: str) -> None:
        assert settings.broker is not None
        self.address = settings.broker
        transport = settings.transport
        host, port = address_of(settings.broker)
        self._stack = contextlib.ExitStack()
        try:
            control = self._stack.enter_context(socket.create_connection((host, port), _HANDSHAKE_S))
            self._control = control
            self._lines = _Lines(control)
            self._stack.callback(self._lines.close)
            back = self._stack.enter_context(_socket(transport))
            if transport == "udp":
                back.bind((control.getsockname()[0], 0))
            both_ways = settings.topology == "pingpong" and transport != "udp"
            self._lines.say(
                version=_VERSION, transport=transport, size=settings.size, wait=wait,
                stalls=list(settings.stalls), faults=dict(settings.faults), work_ns=settings.broker_delay_ns,
                both_ways=both_ways, reply_port=back.getsockname()[1] if transport == "udp" else 0,
            )  # fmt: skip
            ports = self._heard("ports")
            out = self._stack.enter_context(_socket(transport))
            out.settimeout(_HANDSHAKE_S)
            out.connect((host, ports[0]))
            if transport != "udp" and not both_ways:
                back.settimeout(_HANDSHAKE_S)
                back.connect((host, ports[1]))
            self._heard("ready")
            out = _ready(out, transport)
            back = out if both_ways else _ready(back, transport)
            control.settimeout(_HANDSHAKE_S)
        except (OSError, ValueError) as error:
            self.close()
            why = getattr(error, "strerror", None) or error
            remedy = "start 'latlab messaging broker --listen HOST:PORT' there"
            raise UnavailableError(f"no broker at {settings.broker}: {why}", remedy=remedy) from None
        except LatlabError:
            self.close()
            raise
        kind = "datagram" if transport == "udp" else "stream"
        o, i = out.fileno(), back.fileno()
        self.link = Link(f"{kind}:{o}", f"{kind}:{i}")

    def _heard(self, key: str) -> Any:
        answer = self._lines.hear()
        if answer is None:
            raise LatlabError(f"the broker at {self.address} hung up")
        if "refused" in answer:
            raise LatlabError(f"the broker at {self.address} refused: {answer['refused']}")
        return answer.get(key)

    def local_address(self) -> str:
        """The address of this host towards the broker's."""
        return str(self._control.getsockname()[0])

    def gone(self) -> bool:
        """Whether the controlling connection has ended, and with it the broker."""
        import select

        return bool(select.select([self._control], [], [], 0)[0])

    def end(self) -> dict[str, int]:
        """End the broker: {"forwarded", "cpu_ns"}, or nothing where it has gone."""
        with contextlib.suppress(OSError, ValueError):
            self._lines.say(end=True)
            answer = self._lines.hear()
            if answer is not None and "cpu_ns" in answer:
                return {name: int(answer[name]) for name in ("forwarded", "cpu_ns")}
        return {}

    def close(self) -> None:
        """Give up all connections; the other side ends its broker."""
        self._stack.close()


def serve(listen: str, *, told: Callable[[str], None] = lambda _: None, runs: int | None = None) -> None:
    """Answer runs on other hosts, one after the other, until interrupted.

    Args:
        listen: HOST:PORT; port 0 takes a free one.
        told: hears of the address, of every run and of what went wrong.
        runs: end after so many; None for never.

    Raises:
        UsageError: for an address that is none.
        UnavailableError: when it can't be listened at.
    """
    host, port = address_of(listen)
    try:
        server = socket.create_server((host, port))
    except OSError as error:
        raise UnavailableError(f"can't listen on {listen}: {error.strerror or error}") from None
    with server:
        told(f"listening at {host}:{server.getsockname()[1]}")
        while runs is None or runs > 0:
            control, peer = server.accept()
            with control:
                try:
                    told(f"{peer[0]}: {_one(control, host, peer[0])}")
                except (OSError, ValueError, KeyError, TypeError, LatlabError) as error:
                    told(f"{peer[0]}: {error}")
            runs = None if runs is None else runs - 1


def _one(control: socket.socket, host: str, peer: str) -> str:
    """One run: what it came to, in words."""
    control.settimeout(_HANDSHAKE_S)
    lines = _Lines(control)
    with contextlib.ExitStack() as stack:
        stack.callback(lines.close)
        order = lines.hear()
        wrong = _wrong(order)
        if order is None or wrong is not None:
            lines.say(refused=wrong)
            return f"refused: {wrong}"
        transport, both_ways = order["transport"], bool(order["both_ways"])
        ends = [stack.enter_context(_socket(transport)) for _ in range(2)]
        for end in ends:
            end.settimeout(_HANDSHAKE_S)
            end.bind((host, 0))
            if transport != "udp":
                end.listen(1)
        lines.say(ports=[end.getsockname()[1] for end in ends])
        if transport == "udp":
            ends[1].connect((peer, int(order["reply_port"])))
        else:
            ends = [stack.enter_context(end.accept()[0]) for end in ends[: 1 if both_ways else 2]]
        ends = [_ready(end, transport) for end in ends]
        fds = [ends[0].fileno(), ends[-1].fileno()]
        kind = "datagram" if transport == "udp" else "stream"
        size = int(order["size"])
        words = [f"size={size}", "batch=256" if size <= 65536 else "batch=1", "sample=0"]
        words += [f"poll={int(order['wait'] == 'poll')}", f"work={int(order['work_ns'])}"]
        words += [f"stall={int(n)}:{int(ns)}" for n, ns in order["stalls"]]
        words += [f"{name}={int(every)}" for name, every in order["faults"].items()]
        program = _processes.native_program("broker")
        child = _processes.Child(
            [program, *(f"{kind}:{fd}" for fd in fds), *words], pass_fds=sorted(set(fds))
        )
        stack.callback(child.close)
        child.expect("ready")
        for end in ends:
            end.close()
        lines.say(ready=True)
        control.settimeout(None)
        lines.hear()  # "end", or the end of the connection
        child.close()
        said = dict(word.split("=", 1) for word in child.last_words.split() if "=" in word)
        counted = {name: int(said.get(name, 0)) for name in ("forwarded", "cpu_ns")}
        with contextlib.suppress(OSError):
            lines.say(**counted)
        return f"{counted['forwarded']} messages of {plural(size, 'byte')} over {transport} forwarded"


def _wrong(order: dict[str, Any] | None) -> str | None:
    if order is None or not order.keys() >= _KEYS:
        return "not a request that is understood"
    if order["version"] != _VERSION:
        return f"version {order['version']}, and this is {_VERSION}"
    if order["transport"] not in TRANSPORTS:
        return f"transport {order['transport']}"
    if not 1 <= int(order["size"]) <= 64 << 20:
        return f"messages of {plural(order['size'], 'byte')}"
    if not set(order["faults"]) <= {"drop", "repeat", "swap", "damage"}:
        return "an unknown fault"
    return None
