"""What the processes of a Python run share: one memory of 64-bit words, and the message's bytes.

The memory holds a header, a block of counts for each process, and then by message, in ticks of the one clock
that all share: when it was sent, when its sender learned that the server has it, when each group of receivers
had it; and when each planted stall began and ended. Each word has one writer.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from latlab.model.messaging.results import Settings

GO, BASE, STOP = 0, 1, 2
_HEADER, _BLOCK = 8, 16
# Words of a process's block.
READY, COUNT, DONE, CPU, DUPLICATED, REORDERED, CORRUPTED, FAULTS, VOLUNTARY, INVOLUNTARY, CONFIRMS = range(
    11
)


@dataclass(frozen=True, slots=True)
class SharedLayout:
    """Where everything is, in words."""

    total: int
    senders: int = 1
    receivers: int = 1
    groups: int = 1
    stalls: int = 0

    @classmethod
    def of(cls, settings: Settings) -> SharedLayout:
        """Of a run."""
        return cls(
            settings.total, settings.senders, settings.receivers, settings.groups, len(settings.stalls)
        )

    def sender(self, number: int = 0) -> int:
        """The block of a sender."""
        return _HEADER + _BLOCK * number

    def receiver(self, number: int = 0) -> int:
        """The block of a receiver."""
        return _HEADER + _BLOCK * (self.senders + number)

    @property
    def sent(self) -> slice:
        """When each message was sent."""
        return self._series(0)

    @property
    def confirmed(self) -> slice:
        """When the server confirmed each message."""
        return self._series(1)

    def received(self, group: int = 0) -> slice:
        """When a group had each message."""
        return self._series(2 + group)

    @property
    def stalled(self) -> slice:
        """When each stall began and ended."""
        at = self._series(2 + self.groups).start
        return slice(at, at + 2 * self.stalls)

    @property
    def words(self) -> int:
        """All of it."""
        return int(self.stalled.stop)

    def _series(self, number: int) -> slice:
        at = _HEADER + _BLOCK * (self.senders + self.receivers) + number * self.total
        return slice(at, at + self.total)


class Body:
    """The same bytes as the native loop's: number, checksum, room for a broker's times, a pattern."""

    def __init__(self, size: int) -> None:
        import zlib

        self.size = size
        self.width = 4 if size >= 4 else 2 if size >= 2 else 1
        self._crc = zlib.crc32
        self._from = 16 if size >= 16 else min(size, 8)
        self.data = bytearray((i * 197 + 31) & 255 for i in range(min(size, 4096)))
        self.data *= -(-size // len(self.data))
        del self.data[size:]
        if size >= 16:
            self.data[8:16] = bytes(8)
        self._sum = self._crc(self.data[self._from :])
        self._view = memoryview(self.data)

    def message(self, number: int) -> memoryview:
        """The numbered message."""
        self.stamp(number)
        return self._view

    def stamp(self, number: int) -> None:
        """Number the body."""
        if self.size >= 8:
            struct.pack_into("<II", self.data, 0, number, (self._sum + number * 2654435761) & 0xFFFFFFFF)
        else:
            self.data[: self.width] = (number & ((1 << 8 * self.width) - 1)).to_bytes(self.width, "little")

    def number(self, message: bytes | memoryview, expected: int) -> int | None:
        """The number of a message; None where it is damaged or not ours."""
        if len(message) != self.size:
            return None
        if self.size >= 8:
            number, check = struct.unpack_from("<II", message)
            whole = (self._crc(message[self._from :]) + number * 2654435761) & 0xFFFFFFFF == check
            return number if whole else None
        if bytes(message[self.width :]) != bytes(self.data[self.width :]):
            return None
        low = int.from_bytes(message[: self.width], "little")
        if self.width == 4:
            return low
        mask = (1 << 8 * self.width) - 1
        ahead = (low - expected) & mask
        return expected + ahead if ahead <= mask // 2 else expected - (mask + 1 - ahead)


class Bodies:
    """Messages of several sizes, each with its own."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._bodies = {size: Body(size) for size in set(sizes)}

    def message(self, number: int) -> memoryview:
        """The numbered message."""
        return self._bodies[self._sizes[number]].message(number)

    def number(self, message: bytes | memoryview, expected: int) -> int | None:
        """The number of a message; None where it is damaged, not ours, or of another one's size."""
        body = self._bodies.get(len(message))
        found = None if body is None else body.number(message, expected)
        right = found is not None and found < len(self._sizes) and self._sizes[found] == len(message)
        return found if right else None


def bodies_of(settings: Settings) -> Body | Bodies:
    """The messages of a run."""
    from latlab.messaging.running.schedule import sizes_of

    sizes = sizes_of(settings)
    return Body(settings.size) if sizes is None else Bodies(sizes.tolist())
