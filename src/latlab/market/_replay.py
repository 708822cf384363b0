"""Feeds onto the wire: paced replay, MoldUDP64 and PITCH senders, and a server of re-requests."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol

import numpy as np

from latlab._core.market import Transport
from latlab.errors import InputError, UnavailableError, UsageError
from latlab.market._open import host_and_port, parse_udp, source_of
from latlab.market._output import create, guard

_SPIN_NS = 300_000  # sleep up to here before a message is due, then spin: a sleep ends some 60 us late
_MAX_PAYLOAD = 1_400
_END = 0xFFFF
_PITCH_TIME = 0x20


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

    lines: int
    """How many times each message is sent, by a way of its own."""

    def speak(self, dialect: str) -> None:
        """Be told what comes: I (ITCH) or P (binary PITCH, each message behind its unit's number)."""

    def send(self, message: bytes, lost: Sequence[bool] = ()) -> None:
        """One message, without its length; not on the lines on which it is lost on purpose."""

    def lose(self, message: bytes) -> None:
        """A message that is lost on every line."""

    def close(self) -> None:
        """The session is over."""


class Units:
    """Numbers PITCH messages, each in a sequenced unit of its own."""

    def __init__(self) -> None:
        self._next: dict[int, int] = {}

    def number(self, message: bytes) -> bytes:
        """The unit of a message that stands behind its unit's number."""
        unit = message[0]
        sequence = self._next.setdefault(unit, 1)
        self._next[unit] += 1
        return struct.pack("<HBBI", 7 + len(message), 1, unit, sequence) + message[1:]

    def heartbeats(self) -> list[bytes]:
        """What tells the next number of each unit."""
        return [struct.pack("<HBBI", 8, 0, unit, sequence) for unit, sequence in self._next.items()]


class FileTarget:
    """A BinaryFILE, or PITCH units one behind the other."""

    lines = 1

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._context = create(self.path)  # it takes its name when it is closed
        self._file: IO[bytes] | None = None
        self._units: Units | None = None

    def speak(self, dialect: str) -> None:
        """Frames of the one kind or of the other."""
        self._units = Units() if dialect == "P" else None
        self._file = self._context.__enter__()

    def send(self, message: bytes, lost: Sequence[bool] = ()) -> None:
        """Append the frame."""
        assert self._file is not None, "a dialect is spoken first"
        if self._units is not None:
            self._file.write(self._units.number(message))
        else:
            self._file.write(len(message).to_bytes(2, "big") + message)

    def lose(self, message: bytes) -> None:
        """Nothing is written."""
        if self._units is not None:
            self._units.number(message)

    def close(self) -> None:
        """The file is whole."""
        if self._file is not None:
            self._context.__exit__(None, None, None)
        self._file = None

    def discard(self, error: BaseException) -> None:
        """It will not be whole: what was there before stays."""
        if self._file is not None:
            with suppress(BaseException):
                self._context.__exit__(type(error), error, error.__traceback__)
        self._file = None


class TcpTarget:
    """SoupBinTCP sequenced data, to whoever listens at an address."""

    lines = 1

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def speak(self, dialect: str) -> None:
        """ITCH alone.

        Raises:
            UsageError: it is PITCH.
        """
        if dialect != "I":
            raise UsageError(
                "SoupBinTCP carries ITCH; replay PITCH to udp://HOST:PORT?protocol=pitch or a file"
            )

    def send(self, message: bytes, lost: Sequence[bool] = ()) -> None:
        """One sequenced data packet."""
        self._socket.sendall((len(message) + 1).to_bytes(2, "big") + b"S" + message)

    def lose(self, message: bytes) -> None:
        """Nothing is sent."""

    def close(self) -> None:
        """End of session."""
        self._socket.sendall(b"\x00\x01Z")
        self._socket.close()


class _Lines:
    """One or more UDP addresses that get the same packets."""

    def __init__(self, host: str, port: int, others: Sequence[tuple[str, int]], interface: str) -> None:
        self._addresses = [(host, port), *others]
        self.lines = len(self._addresses)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))

    def _to_all(self, packet: bytes, lost: Sequence[bool] = ()) -> None:
        for line, address in enumerate(self._addresses):
            if not (lost and lost[line]):
                self._socket.sendto(packet, address)


class PitchTarget(_Lines):
    """One or more lines of PITCH sequenced units, unicast or multicast.

    Args:
        host: the group or address.
        port: of it.
        others: the addresses of further lines (a secondary), which get the same packets.
        interface: the address of the interface that multicast leaves by.
    """

    def __init__(
        self, host: str, port: int, *, others: Sequence[tuple[str, int]] = (), interface: str = "0.0.0.0"
    ) -> None:
        super().__init__(host, port, others, interface)
        self._units = Units()

    def speak(self, dialect: str) -> None:
        """PITCH alone.

        Raises:
            UsageError: it is ITCH.
        """
        if dialect != "P":
            raise UsageError("an ITCH input can't be replayed as PITCH; leave out protocol=pitch")

    def send(self, message: bytes, lost: Sequence[bool] = ()) -> None:
        """One unit of one message, on each line."""
        self._to_all(self._units.number(message), lost)

    def lose(self, message: bytes) -> None:
        """Use up its sequence number."""
        self._units.number(message)

    def close(self) -> None:
        """Heartbeats, so that a receiver learns of a loss at the end."""
        for _ in range(3):
            for heartbeat in self._units.heartbeats():
                self._to_all(heartbeat)
            time.sleep(0.02)
        self._socket.close()


class MoldTarget(_Lines):
    """One or more MoldUDP64 lines, unicast or multicast; keeps what was sent for a `RequestServer`.

    Args:
        host: the group or address.
        port: of it.
        others: the addresses of further lines (a secondary), which get the same packets.
        interface: the address of the interface that multicast leaves by.
        session: ten characters.
        keep: how many of the latest messages can be asked for again.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        others: Sequence[tuple[str, int]] = (),
        interface: str = "0.0.0.0",
        session: str = "LATLAB0001",
        keep: int = 1 << 20,
    ) -> None:
        super().__init__(host, port, others, interface)
        self.session = session.encode("ascii").ljust(10)[:10]
        self.sequence = 1
        self.kept: dict[int, bytes] = {}
        self._keep = keep
        self.linger_s = 0.0

    def speak(self, dialect: str) -> None:
        """ITCH alone.

        Raises:
            UsageError: it is PITCH.
        """
        if dialect != "I":
            raise UsageError("MoldUDP64 carries ITCH; replay PITCH to udp://HOST:PORT?protocol=pitch")

    def send(self, message: bytes, lost: Sequence[bool] = ()) -> None:
        """One packet of one message, on each line."""
        packet = self.session + struct.pack(">QHH", self.sequence, 1, len(message)) + message
        self._to_all(packet, lost)
        self._remember(message)

    def lose(self, message: bytes) -> None:
        """Use up its sequence number; the message can still be asked for."""
        self._remember(message)

    def heartbeat(self) -> None:
        """Tell the next sequence number, so that a receiver learns of a loss at the end."""
        self._to_all(self.session + struct.pack(">QH", self.sequence, 0))

    def close(self) -> None:
        """A heartbeat, then the end of the session; more than once, since nobody can ask for them again.

        For `linger_s` more heartbeats tell what was sent, so that it can be asked for.
        """
        until = time.monotonic() + self.linger_s
        while time.monotonic() < until:
            self.heartbeat()
            time.sleep(0.02)
        for _ in range(3):
            self.heartbeat()
            self._to_all(self.session + struct.pack(">QH", self.sequence, _END))
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


def target_of(url: str) -> Target:
    """``udp://GROUP:PORT`` (MoldUDP64, or PITCH; see `parse_udp`), ``tcp://HOST:PORT`` (SoupBinTCP), a file.

    Raises:
        UsageError: the address is none.
        UnavailableError: nobody listens there.
    """
    kind, _, address = url.partition("://")
    if not address:
        return FileTarget(url)
    try:
        if kind == "udp":
            udp = parse_udp(url)
            (host, port), *others = udp.lines
            if udp.protocol == "pitch":
                return PitchTarget(host, port, others=others, interface=udp.interface)
            return MoldTarget(host, port, others=others, interface=udp.interface)
        if kind == "tcp":
            host, port = host_and_port(address, url)
            return TcpTarget(host, port)
    except OSError as error:
        raise UnavailableError(f"can't send to {url}: {error}") from error
    raise UsageError(f"a target is udp://HOST:PORT, tcp://HOST:PORT or a file, not '{url}'")


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
    """Send the messages of an input at planned times.

    Args:
        path: as for `census`; ITCH or binary PITCH in any framing.
        target: see `target_of`.
        fixed_ns: between messages.
        burst: (messages, ns): so many at once, every so many ns.
        speed: the feed's own time stamps, so much faster: microbursts are kept. None of the three: as fast as
            it goes.
        loss: the share of messages that are dropped, at random, on each line of the target by itself.
        seed: of the losses.
        limit: at most so many messages.

    Returns:
        The report; an early message is impossible, so its errors are how late messages went.

    Raises:
        InputError: the input is bad.
        UsageError: arguments that exclude each other or are out of range.
    """
    if isinstance(target, FileTarget):
        guard([path], [target.path])
    with closing(target), _discarding(target):
        if sum(x is not None for x in (fixed_ns, burst, speed)) > 1:
            raise UsageError("a fixed delay, bursts and a speed exclude each other")
        if not 0 <= loss <= 1 or (speed is not None and speed <= 0) or (burst is not None and burst[0] < 1):
            raise UsageError("a loss is between 0 and 1, a speed positive, a burst of at least one message")
        chance = random.Random(seed)
        late: list[int] = []
        sent = dropped = 0
        begin = clock()
        first_ns: int | None = None
        for ts_ns, message in _messages(path, target.speak):
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
                # Even a spin gives way, so that a server of requests in this process is heard.
                sleep(max(0, due - now - _SPIN_NS) / 1e9)
                now = clock() - begin
            lost = [chance.random() < loss for _ in range(target.lines)] if loss else ()
            if lost and all(lost):
                target.lose(message)
                dropped += 1
                continue
            target.send(message, lost)
            sent += 1
            if due or fixed_ns is not None or burst is not None or speed is not None:
                late.append(now - due)
        seconds = (clock() - begin) / 1e9
        errors = np.sort(np.array(late or [0]))
        p50, p99 = (int(errors[max(0, -int(-q * len(errors) // 1) - 1)]) for q in (0.5, 0.99))
        return ReplayReport(sent, dropped, seconds, p50, p99, int(errors[-1]))


@contextmanager
def _discarding(target: Target) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        if isinstance(target, FileTarget):
            target.discard(error)
        raise


def _messages(
    path: str | PathLike[str], speak: Callable[[str], None]
) -> Generator[tuple[int, bytes], None, None]:
    """Time and bytes of each message, whatever carries it; of PITCH behind its unit's number."""
    source = source_of(path)
    transport = None if source.framing == "binary" else Transport(source.framing)
    dialect, rest, seconds = "", b"", dict[int, int]()
    errors: list[tuple[int, str]] = []

    def frames(data: bytes) -> Generator[tuple[int, bytes], None, bytes]:
        nonlocal dialect
        if not dialect:
            dialect = "I" if transport is None else transport.dialect.strip("\0")
            if dialect not in ("", "I", "P"):
                raise InputError(path, "is ASCII PITCH", remedy="only ITCH and binary PITCH can be replayed")
            if dialect:
                speak(dialect)
        rest = yield from _timed(data, seconds if dialect == "P" else None)
        return rest

    with source.pieces() as pieces:
        for piece in pieces:
            if transport is not None:
                transport.feed(piece)
                errors = transport.errors()
                piece = transport.take(strict=True)
            rest = yield from frames(rest + piece.tobytes())
            if errors:
                break
    if transport is not None:
        if not errors:
            transport.finish()
            errors = transport.errors()
            rest = yield from frames(rest + transport.take(strict=True).tobytes())
        if errors:
            raise InputError(path, errors[0][1], place=f"offset {errors[0][0]}")
        if not dialect:
            raise InputError(path, "holds neither ITCH nor PITCH messages")
    if rest:
        raise InputError(path, f"ends inside a message: {len(rest)} bytes are not a whole frame")


def _timed(data: bytes, seconds: dict[int, int] | None) -> Generator[tuple[int, bytes], None, bytes]:
    """Time and bytes of each frame; seconds: of PITCH, each unit's latest."""
    at = 0
    while at + 2 <= len(data):
        end = at + 2 + int.from_bytes(data[at : at + 2], "big")
        if end > len(data):
            break
        message = data[at + 2 : end]
        if seconds is None and len(message) >= 11:
            yield int.from_bytes(message[5:11], "big"), message
        elif seconds is not None and len(message) >= 7:
            unit, ns = message[0], int.from_bytes(message[3:7], "little")
            if message[2] == _PITCH_TIME:
                seconds[unit], ns = ns, 0
            yield seconds.get(unit, 0) * 1_000_000_000 + ns, message
        at = end
    return data[at:]
