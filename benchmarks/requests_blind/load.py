"""What the clients of these servers share: requests, and a log of `sent_ns,latency_ns` (CLOCK_MONOTONIC).

A client is run as `client.py ADDRESS SECONDS LOG`; an address that begins with "/" is a unix socket's.
"""

from __future__ import annotations

import asyncio
import collections
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import BinaryIO

_AT_THE_END_S = 0.3  # for the last answers


def in_turn(
    ask: Callable[[int], bytes],
    connections: int,
    pause_s: float,
    take: Callable[[BinaryIO], object] = lambda stream: stream.readline(),
) -> None:
    """Each connection asks, takes the answer, and pauses, exponentially distributed.

    Args:
        ask: the request of a number.
        take: reads one answer.
    """
    address, seconds, log = _asked()
    rows: list[tuple[int, int]] = []

    def one(seed: int) -> None:
        rng = random.Random(seed)
        connection = _connected(address)
        stream = connection.makefile("rb")
        number = seed * 100_000
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            number += 1
            request = ask(number)
            sent = time.monotonic_ns()
            connection.sendall(request)
            if take(stream) == b"":
                break
            rows.append((sent, time.monotonic_ns() - sent))
            time.sleep(rng.expovariate(1 / pause_s))

    threads = [threading.Thread(target=one, args=(k + 1,)) for k in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _write(log, rows)


def at_rate(
    send: Callable[[list[Line], int, random.Random], int], connections: int, rate_hz: float, seed: int
) -> None:
    """Requests of a line each at Poisson times, whether or not the ones before were answered.

    Args:
        send: sends what is due on some of the lines, from the number after the one given; the last number.
    """
    address, seconds, log = _asked()
    rows: list[tuple[int, int]] = []

    async def load() -> None:
        loop = asyncio.get_running_loop()
        made = [
            await loop.create_connection(lambda: Line(rows), "127.0.0.1", int(address))
            for _ in range(connections)
        ]
        lines, rng, number = [line for _, line in made], random.Random(seed), 0
        began = due = time.monotonic()
        while due < began + seconds:
            due += rng.expovariate(rate_hz)
            await asyncio.sleep(max(0, due - time.monotonic()))
            number = send(lines, number, rng)
        await asyncio.sleep(_AT_THE_END_S)

    asyncio.run(load())
    _write(log, rows)


class Line(asyncio.Protocol):
    """A connection whose answers come in the order of its requests."""

    def __init__(self, rows: list[tuple[int, int]]) -> None:
        self._rows = rows
        self._under_way: collections.deque[int] = collections.deque()
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep what requests are written to."""
        self._transport = transport

    def send(self, text: bytes) -> None:
        """One request."""
        self._under_way.append(time.monotonic_ns())
        self._transport.write(text)  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Some answers, the last perhaps in part."""
        now = time.monotonic_ns()
        *replies, self._rest = (self._rest + data).split(b"\n")
        for _ in replies:
            sent = self._under_way.popleft()
            self._rows.append((sent, now - sent))


def _asked() -> tuple[str, float, str]:
    return sys.argv[1], float(sys.argv[2]), sys.argv[3]


def _connected(address: str) -> socket.socket:
    if address.startswith("/"):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(address)
        return connection
    connection = socket.create_connection(("127.0.0.1", int(address)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _write(log: str, rows: list[tuple[int, int]]) -> None:
    with open(log, "w", encoding="ascii") as file:
        file.writelines(f"{sent},{latency}\n" for sent, latency in sorted(rows))
