"""Two framings without a name: lines, and messages that begin with their own length."""

from __future__ import annotations

from latlab.requests.framing.message import Message, UnparsedError

__all__ = ["Lines", "Prefixed"]

_LONGEST_LINE = 1 << 16
_LONGEST_MESSAGE = 1 << 28


class Lines:
    """One line asks, one line answers."""

    name = "lines"

    def request(self, data: bytes) -> Message | None:
        """The request at the beginning; see `Framing`."""
        end = data.find(b"\n")
        if end < 0:
            if len(data) > _LONGEST_LINE:
                raise UnparsedError
            return None
        if any(byte < 9 for byte in data[:end]):
            raise UnparsedError
        return Message(end + 1, "line")

    def answer(self, data: bytes, asked: str) -> Message | None:
        """The answer at the beginning; see `Framing`."""
        return self.request(data)


class Prefixed:
    """The first four bytes are the length of what follows them, most significant byte first."""

    name = "prefixed"

    def request(self, data: bytes) -> Message | None:
        """The request at the beginning; see `Framing`."""
        if len(data) < 4:
            return None
        size = int.from_bytes(data[:4], "big")
        if not 0 < size <= _LONGEST_MESSAGE:
            raise UnparsedError
        return Message(size + 4, "message")

    def answer(self, data: bytes, asked: str) -> Message | None:
        """The answer at the beginning; see `Framing`."""
        return self.request(data)
