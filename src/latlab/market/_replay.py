"""Feeds on the wire: paced replay, MoldUDP64 senders, re-requests, and a receiver that recovers gaps."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from latlab._core.market import Transport
from latlab.errors import InputError, UnavailableError, UsageError
from latlab.market._source import Source

_SPIN_NS = 300_000  # sleep up to here before a message is due, then spin: a sleep ends some 60 us late
_MAX_PAYLOAD = 1_400
_END = 0xFFFF
_ASK_AGAIN_S = 0.001


@dataclass(frozen=True)
class ReplayReport:
    """What a replay did.

    Args:
        messages: sent.
        dropped: not sent, as planted.
        seconds: from the first to the last.
        error_p50_ns: how much later than planned the messages went: median.
        error_p99_ns: 99th percentile.
        error_max_ns: the worst.
    """

    messages: int
    dropped: int
    seconds: float
    error_p50_ns: int
    error_p99_ns: int
    error_max_ns: int


class Target(Protocol):
    """Where messages go."""

    def send(self, message: bytes) -> None:
        """One message, without its length."""

    def lose(self, message: bytes) -> None:
        """A message that is lost on purpose."""

    def close(self) -> None:
        """The session is over."""


class FileTarget:
    """A BinaryFILE."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._file = Path(path).open("wb")  # noqa: SIM115 - closed by close()

    def send(self, message: bytes) -> None:
        """Append the frame."""
        self._file.write(len(message).to_bytes(2, "big") + message)

    def lose(self, message: bytes) -> None:
        """Nothing is written."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TcpTarget:
    """SoupBinTCP sequenced data, to whoever listens at an address."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, message: bytes) -> None:
        """One sequenced data packet."""
        self._socket.sendall((len(message) + 1).to_bytes(2, "big") + b"S" + message)

    def lose(self, message: bytes) -> None:
        """Nothing is sent."""

    def close(self) -> None:
        """End of session."""
        self._socket.sendall(b"\x00\x01Z")
        self._socket.close()


class MoldTarget:
    """A MoldUDP64 line, unicast or multicast; keeps what was sent for a `RequestServer`.

    Args:
        host: the group or address.
        port: of it.
        session: ten characters.
        keep: how many of the latest messages can be asked for again.
    """

    def __init__(self, host: str, port: int, *, session: str = "LATLAB0001", keep: int = 1 << 20) -> None:
        self.session = session.encode("ascii").ljust(10)[:10]
        self.sequence = 1
        self.kept: dict[int, bytes] = {}
        self._keep, self._address = keep, (host, port)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)

    def send(self, message: bytes) -> None:
        """One packet of one message."""
        packet = self.session + struct.pack(">QHH", self.sequence, 1, len(message)) + message
        self._socket.sendto(packet, self._address)
        self._remember(message)

    def lose(self, message: bytes) -> None:
        """Use up its sequence number; the message can still be asked for."""
        self._remember(message)

    def heartbeat(self) -> None:
        """Tell the next sequence number, so that a receiver learns of a loss at the end."""
        self._socket.sendto(self.session + struct.pack(">QH", self.sequence, 0), self._address)

    def close(self) -> None:
        """A heartbeat, then the end of the session; more than once, since nobody can ask for them again."""
        for _ in range(3):
            self.heartbeat()
            self._socket.sendto(self.session + struct.pack(">QH", self.sequence, _END), self._address)
            time.sleep(0.02)
        self._socket.close()

    def _remember(self, message: bytes) -> None:
        self.kept[self.sequence] = message
        self.kept.pop(self.sequence - self._keep, None)
        self.sequence += 1


class RequestServer:
    """Answers MoldUDP64 requests from what a target keeps, in a thread of its own; a context manager.

    Args:
        target: whose messages.
        host: to bind to.
        port: 0 for any; see `address`.
    """

    def __init__(self, target: MoldTarget, host: str = "127.0.0.1", port: int = 0) -> None:
        self._target = target
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, port))
        self._socket.settimeout(0.05)
        self.address: tuple[str, int] = self._socket.getsockname()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> RequestServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                request, sender = self._socket.recvfrom(64)
            except TimeoutError:
                continue
            if len(request) != 20 or request[:10] != self._target.session:
                continue
            sequence, count = struct.unpack(">QH", request[10:])
            blocks, size = [], 0
            for number in range(sequence, sequence + count):
                message = self._target.kept.get(number)
                if message is None or size + len(message) + 2 > _MAX_PAYLOAD:
                    break
                blocks.append(struct.pack(">H", len(message)) + message)
                size += len(blocks[-1])
            if blocks:
                header = self._target.session + struct.pack(">QH", sequence, len(blocks))
                self._socket.sendto(header + b"".join(blocks), sender)


class MoldReceiver:
    """Receives MoldUDP64 lines (a primary, a secondary), arbitrates them, and asks for what none of them
    brought.

    Args:
        lines: (group or address, port) of each line.
        requests: the address of a request server, if there is one.
        interface: the address of the interface to join groups on.

    Raises:
        UnavailableError: a line can't be joined.
    """

    def __init__(
        self,
        lines: list[tuple[str, int]],
        *,
        requests: tuple[str, int] | None = None,
        interface: str = "0.0.0.0",
    ) -> None:
        self._transport = Transport("mold")
        self._requests = requests
        self._session = b""
        self._sockets = [self._join(host, port, interface) for host, port in lines]
        self.addresses: list[tuple[str, int]] = [s.getsockname() for s in self._sockets]

    @staticmethod
    def _join(host: str, port: int, interface: str) -> socket.socket:
        line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            line.bind((host, port))
            if 224 <= int(host.split(".")[0]) <= 239:
                group = socket.inet_aton(host) + socket.inet_aton(interface)
                line.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        except (OSError, ValueError) as error:
            line.close()
            raise UnavailableError(f"can't listen at {host}:{port}: {error}") from error
        return line

    def frames(self, *, idle_s: float = 1.0) -> Iterator[npt.NDArray[np.uint8]]:
        """BinaryFILE frames as they come, in sequence; ends with the session or a silence so long."""
        import select

        asked_at, heard_at = 0.0, time.monotonic()
        while time.monotonic() - heard_at < idle_s:
            first, count = self._transport.missing()
            if count and self._requests is not None and time.monotonic() - asked_at > _ASK_AGAIN_S:
                asked_at = time.monotonic()
                request = self._session + struct.pack(">QH", first, min(count, _END - 1))
                self._sockets[0].sendto(request, self._requests)
            # While something is missing the silence is not waited out: the request may have been lost.
            ready, _, _ = select.select(self._sockets, [], [], _ASK_AGAIN_S if count else idle_s)
            for line in ready:
                packet = line.recv(65_535)
                heard_at = time.monotonic()
                self._session = packet[:10]
                self._transport.feed(np.frombuffer(packet, np.uint8))
            if len(taken := self._transport.take()):
                yield taken
            if self._transport.counts()["ends"] and not self._transport.missing()[1]:
                break
        self._transport.finish()
        if len(taken := self._transport.take()):
            yield taken

    def counts(self) -> dict[str, int]:
        """Packets, duplicates, gaps, lost and recovered messages."""
        return self._transport.counts()

    def close(self) -> None:
        """Leave the lines."""
        for line in self._sockets:
            line.close()


def target_of(url: str) -> Target:
    """``udp://GROUP:PORT`` (MoldUDP64), ``tcp://HOST:PORT`` (SoupBinTCP) or a file's name.

    Raises:
        UsageError: the address is none.
        UnavailableError: nobody listens there.
    """
    kind, _, address = url.partition("://")
    if not address:
        return FileTarget(url)
    host, _, port = address.rpartition(":")
    if kind not in ("udp", "tcp") or not host or not port.isdigit():
        raise UsageError(f"a target is udp://HOST:PORT, tcp://HOST:PORT or a file, not '{url}'")
    try:
        return MoldTarget(host, int(port)) if kind == "udp" else TcpTarget(host, int(port))
    except OSError as error:
        raise UnavailableError(f"can't send to {url}: {error}") from error


def replay(
    path: str | PathLike[str],
    target: Target,
    *,
    fixed_ns: int | None = None,
    burst: tuple[int, int] | None = None,
    speed: float | None = None,
    loss: float = 0.0,
    seed: int = 0,
    limit: int | None = None,
    clock: Callable[[], int] = time.perf_counter_ns,
    sleep: Callable[[float], None] = time.sleep,
) -> ReplayReport:
    """Send the messages of an ITCH input at planned times.

    Args:
        path: as for `census`; ITCH in any framing.
        target: see `target_of`.
        fixed_ns: between messages.
        burst: (messages, ns): so many at once, every so many ns.
        speed: the feed's own time stamps, so much faster: microbursts are kept. None of the three: as fast as
            it goes.
        loss: the share of messages that are dropped, at random.
        seed: of the losses.
        limit: at most so many messages.

    Returns:
        The report; an early message is impossible, so its errors are how late messages went.

    Raises:
        InputError: the input is bad.
        UsageError: arguments that exclude each other or are out of range.
    """
    with closing(target):
        if sum(x is not None for x in (fixed_ns, burst, speed)) > 1:
            raise UsageError("a fixed delay, bursts and a speed exclude each other")
        if not 0 <= loss <= 1 or (speed is not None and speed <= 0) or (burst is not None and burst[0] < 1):
            raise UsageError("a loss is between 0 and 1, a speed positive, a burst of at least one message")
        chance = random.Random(seed)
        late: list[int] = []
        sent = dropped = 0
        begin = clock()
        first_ns: int | None = None
        for ts_ns, message in _messages(path):
            count = sent + dropped
            if limit is not None and count >= limit:
                break
            first_ns = ts_ns if first_ns is None else first_ns
            due = 0
            if fixed_ns is not None:
                due = count * fixed_ns
            elif burst is not None:
                due = count // burst[0] * burst[1]
            elif speed is not None:
                due = int((ts_ns - first_ns) / speed)
            now = clock() - begin
            while now < due:
                if due - now > _SPIN_NS:
                    sleep((due - now - _SPIN_NS) / 1e9)
                now = clock() - begin
            if loss and chance.random() < loss:
                target.lose(message)
                dropped += 1
                continue
            target.send(message)
            sent += 1
            if due or fixed_ns is not None or burst is not None or speed is not None:
                late.append(now - due)
        seconds = (clock() - begin) / 1e9
        errors = np.sort(np.array(late or [0]))
        p50, p99 = (int(errors[max(0, -int(-q * len(errors) // 1) - 1)]) for q in (0.5, 0.99))
        return ReplayReport(sent, dropped, seconds, p50, p99, int(errors[-1]))


def _messages(path: str | PathLike[str]) -> Iterator[tuple[int, bytes]]:
    """Time and bytes of each ITCH message, whatever carries it."""
    source = Source(path)
    transport = None if source.framing == "binary" else Transport(source.framing)
    rest = b""
    with source.pieces() as pieces:
        for piece in pieces:
            if transport is not None:
                transport.feed(piece)
                piece = transport.take()
            rest = yield from _frames(rest + piece.tobytes())
    if transport is not None:
        if transport.dialect != "I":
            raise InputError(path, "is no ITCH input", remedy="only ITCH can be replayed")
        transport.finish()
        rest = yield from _frames(rest + transport.take().tobytes())
    if rest:
        raise InputError(path, f"ends inside a message: {len(rest)} bytes are no whole frame")


def _frames(data: bytes) -> Generator[tuple[int, bytes], None, bytes]:
    at = 0
    while at + 2 <= len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data):
            break
        message = data[at + 2 : end]
        if len(message) >= 11:
            yield int.from_bytes(message[5:11], "big"), message
        at = end
    return data[at:]
