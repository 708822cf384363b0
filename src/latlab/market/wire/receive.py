"""Feeds off the wire: lines of MoldUDP64 or PITCH, arbitrated; of MoldUDP64, what all lost is asked for."""

from __future__ import annotations

import queue
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from latlab import words
from latlab._core.market import Transport
from latlab.errors import UnavailableError
from latlab.market.files.open import Piece, Pieces, Source, filling
from latlab.market.wire.addresses import UdpAddress, parse_udp

_MOST_ASKED = 0xFFFE
_ASK_AGAIN_S = 0.005
_BUFFER_BYTES = 64 << 20
_AT_ONCE = 256  # packets taken of a line before the frames are handed on
_WAITING = 1 << 16  # pieces that may wait for a slow reader


class MoldReceiver:
    """Receives lines (a primary, a secondary), arbitrates them, and asks for what none brought.

    Args:
        lines: (group or address, port) of each line.
        requests: the address of a request server, if there is one.
        interface: the address of the interface to join groups on.
        patience_s: how long to wait for what is missing before it counts as lost.
        protocol: ``mold`` (ITCH in MoldUDP64) or ``pitch`` (PITCH units, which can't be asked for).

    Raises:
        UnavailableError: a line can't be joined.
    """

    def __init__(
        self,
        lines: list[tuple[str, int]],
        *,
        requests: tuple[str, int] | None = None,
        interface: str = "0.0.0.0",
        patience_s: float = 1.0,
        protocol: str = "mold",
    ) -> None:
        self._transport = Transport(protocol)
        self._requests, self._patience_s = requests, patience_s
        self._session = b""
        self._sockets: list[socket.socket] = []
        try:
            for host, port in lines:
                self._sockets.append(_join(host, port, interface))
        except UnavailableError:
            self.close()
            raise
        self.addresses: list[tuple[str, int]] = [s.getsockname() for s in self._sockets]
        # Answers come to where the request was sent from, and a socket bound to a group doesn't get them.
        self._asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._asking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        self._sockets.append(self._asking)
        self.requested = 0

    def frames(self, *, idle_s: float = 1.0, over: threading.Event | None = None) -> Iterator[Piece]:
        """BinaryFILE frames, or whole PITCH units, as they come, in sequence.

        Args:
            idle_s: ends after a silence so long, and with the session.
            over: ends when it is set.
        """
        torn_at = 0.0
        torn = 0  # the first missing message when it was last looked
        asked: dict[int, float] = {}  # when, by a gap's first message
        heard_at = time.monotonic()
        while (now := time.monotonic()) - heard_at < idle_s and not (over is not None and over.is_set()):
            gaps = self._transport.missing()
            if gaps and gaps[0][0] != torn:
                torn, torn_at = gaps[0][0], now
            if gaps and now - torn_at > self._patience_s:
                self._transport.finish()
            elif gaps and self._requests is not None:
                asked = self._ask(self._requests, gaps, asked, now)
            # While something is missing the silence is not waited out: a request may have been lost.
            wait = _ASK_AGAIN_S if gaps else min(idle_s, 0.1)
            ready, _, _ = select.select(self._sockets, [], [], wait)
            for line in ready:
                if self._drain(line):
                    heard_at = time.monotonic()
            if len(taken := self._transport.take()):
                yield taken
            if self._transport.counts()["ends"] and not self._transport.missing():
                break
        self._transport.finish()
        if len(taken := self._transport.take()):
            yield taken

    def _ask(
        self, server: tuple[str, int], gaps: list[tuple[int, int]], asked: dict[int, float], now: float
    ) -> dict[int, float]:
        """Ask for every gap that was not asked for of late."""
        for first, count in gaps:
            if now - asked.get(first, 0.0) > _ASK_AGAIN_S:
                asked[first] = now
                self.requested += 1
                self._asking.sendto(
                    self._session + struct.pack(">QH", first, min(count, _MOST_ASKED)), server
                )
        return {first: asked[first] for first, _ in gaps}

    def _drain(self, line: socket.socket) -> int:
        for count in range(_AT_ONCE):
            try:
                packet = line.recv(65_535, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return count
            if len(packet) >= 10:
                self._session = packet[:10]
            self._transport.feed(np.frombuffer(packet, np.uint8))
        return _AT_ONCE

    def counts(self) -> dict[str, int]:
        """Packets, duplicates, gaps, lost and recovered messages."""
        return self._transport.counts()

    def close(self) -> None:
        """Leave the lines."""
        for line in self._sockets:
            line.close()


def _join(host: str, port: int, interface: str) -> socket.socket:
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        line.bind((host, port))
        if 224 <= int(host.split(".")[0]) <= 239:
            group = socket.inet_aton(host) + socket.inet_aton(interface)
            line.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
    except (OSError, ValueError) as error:
        line.close()
        raise UnavailableError(f"can't listen on {host}:{port}: {error}") from error
    return line


class LiveSource(Source):
    """A feed on the wire, as an input for every pass over files.

    Args:
        address: see `parse_udp`.
        copy: is given the frames too, as they come.

    Raises:
        UsageError: the address is none.
        UnavailableError: a line can't be joined.
    """

    live = True

    def __init__(self, address: str | UdpAddress, *, copy: Callable[[bytes], None] | None = None) -> None:
        self._address = parse_udp(address) if isinstance(address, str) else address
        self._copy = copy
        self.path, self.compression = Path(self._address.url), None
        self.framing = "units" if self._address.protocol == "pitch" else "binary"
        self.receiver = MoldReceiver(
            list(self._address.lines),
            requests=self._address.requests,
            interface=self._address.interface,
            patience_s=1.0 if self._address.requests else 0.1,
            protocol=self._address.protocol,
        )
        self._over = threading.Event()

    @contextmanager
    def pieces(self, size: int = 0) -> Iterator[Iterator[Piece]]:
        """Frames in sequence until the session ends; a thread of its own receives them."""
        yielded: Pieces = queue.Queue(_WAITING)
        thread = threading.Thread(target=self._receive, args=(yielded,), daemon=True)
        try:
            with filling(thread, yielded, self._over):
                yield self._drain(yielded)
        finally:
            self.receiver.close()

    def stop(self) -> None:
        """End as if the session had."""
        self._over.set()

    def transport_counts(self) -> dict[str, int]:
        """What the receiver counted."""
        return self.receiver.counts() | {"requested": self.receiver.requested}

    def _receive(self, yielded: Pieces) -> None:
        try:
            for piece in self.receiver.frames(idle_s=self._address.idle_s, over=self._over):
                yielded.put(piece)
            yielded.put(None)
        except OSError as error:
            yielded.put(error)

    def _drain(self, yielded: Pieces) -> Iterator[Piece]:
        heard = False
        while (piece := yielded.get()) is not None:
            if isinstance(piece, BaseException):
                raise UnavailableError(f"{self._address.url} can't be received: {piece}")
            heard = True
            if self._copy is not None:
                self._copy(piece.tobytes())
            yield piece
        if not heard and not self.receiver.counts()["packets"] and not self._over.is_set():
            seconds = self._address.idle_s
            raise UnavailableError(f"nothing came from {self._address.url} within {words.seconds(seconds)}")
