"""One message of a protocol, as far as the first bytes that were captured of each call show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["UNKNOWN", "Framing", "Message", "UnparsedError"]

#: The length of a message whose end these bytes don't show.
UNKNOWN = -1


class UnparsedError(ValueError):
    """These bytes are not of the protocol."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message at the beginning of some bytes.

    Attributes:
        length: in bytes, which may be more than were given; UNKNOWN where these bytes don't tell.
        kind: of a request.
        ends: it ends a request or an answer; False of one that others follow.
        asks: False of a farewell, which nobody answers.
    """

    length: int
    kind: str = ""
    ends: bool = True
    asks: bool = True


class Framing(Protocol):
    """A protocol on one connection; it may remember what it has read there."""

    name: str

    def request(self, data: bytes) -> Message | None:
        """The message at the beginning of what came in; None when more bytes would tell.

        Raises:
            UnparsedError: it is none of this protocol.
        """

    def answer(self, data: bytes, asked: str) -> Message | None:
        """Likewise of what went out, in answer to a request of this kind ("" where none is open).

        Raises:
            UnparsedError: it is none of this protocol.
        """
