"""Where messages are sent: a file, SoupBinTCP, lines of MoldUDP64 or PITCH, and a server of re-requests."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

from latlab.errors import UnavailableError, UsageError
from latlab.market.files.output import create, unwritable
from latlab.market.wire.addresses import host_and_port, parse_udp
from latlab.system.beside import Beside

_MAX_PAYLOAD = 1_400
_END = 0xFFFF
PITCH_TIME = 0x20


class WireTarget(Protocol):
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
        try:
            self._file = self._context.__enter__()
        except OSError as error:
            raise unwritable(self.path, error) from error

    def send(self, message: bytes, lost: Sequence[bool] = ()) -> None:
        """Append the frame."""
        assert self._file is not None, "a dialect is spoken first"
        units = self._units
        try:
            self._file.write(
                units.number(message) if units is not None else len(message).to_bytes(2, "big") + message
            )
        except OSError as error:
            raise unwritable(self.path, error) from error

    def lose(self, message: bytes) -> None:
        """Nothing is written."""
        if self._units is not None:
            self._units.number(message)

    def close(self) -> None:
        """The file is whole."""
        whole, self._file = self._file, None
        if whole is not None:
            try:
                self._context.__exit__(None, None, None)
            except OSError as error:  # a full disk is met when the last bytes are written
                raise unwritable(self.path, error) from error

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
    """One or more UDP addresses that get the same packets.

    Attributes:
        carries: the one dialect that its protocol carries; "P" is PITCH, "I" ITCH.
        refusal: of the other one.
    """

    carries: ClassVar[str]
    refusal: ClassVar[str]

    def __init__(self, host: str, port: int, others: Sequence[tuple[str, int]], interface: str) -> None:
        self._addresses = [(host, port), *others]
        self.lines = len(self._addresses)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))

    def speak(self, dialect: str) -> None:
        """Its own dialect alone.

        Raises:
            UsageError: it is another.
        """
        if dialect != self.carries:
            raise UsageError(self.refusal)

    def _to_all(self, packet: bytes, lost: Sequence[bool] = ()) -> None:
        for line, address in enumerate(self._addresses):
            if not (lost and lost[line]):
                self._socket.sendto(packet, address)


class PitchTarget(_Lines):
    """One or more lines of PITCH sequenced units, unicast or multicast; where to as for `MoldTarget`."""

    carries = "P"
    refusal = "an ITCH input can't be replayed as PITCH; leave out protocol=pitch"

    def __init__(
        self, host: str, port: int, *, others: Sequence[tuple[str, int]] = (), interface: str = "0.0.0.0"
    ) -> None:
        super().__init__(host, port, others, interface)
        self._units = Units()

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

    carries = "I"
    refusal = "MoldUDP64 carries ITCH; replay PITCH to udp://HOST:PORT?protocol=pitch"

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


class RequestServer(Beside):
    """Answers MoldUDP64 requests from what a target keeps, in a thread of its own; a context manager.

    Args:
        target: whose messages.
        host: to bind to.
        port: 0 for any; see `address`.
    """

    def __init__(self, target: MoldTarget, host: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__()
        self._target = target
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((host, port))
        self._socket.settimeout(0.05)
        self.address: tuple[str, int] = self._socket.getsockname()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._socket.close()

    def _run(self) -> None:
        while not self._ended.is_set():
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


def target_of(url: str) -> WireTarget:
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
