"""Cuts one direction of a connection into messages, though only the first bytes of each call are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from latlab.requests.framing.message import UNKNOWN, Message, UnparsedError

__all__ = ["Cut", "Stream"]

_MOST_KEPT = 1 << 16


@dataclass(frozen=True, slots=True)
class Cut:
    """A request or an answer that is complete: the call in which it began, its kind and its length."""

    began: Any
    kind: str
    length: int


class Stream:
    """One direction.

    Args:
        message: the message at the beginning of some bytes, as `Framing.request`.

    Attributes:
        lost: where the next message begins isn't known, until `resume`.
        lost_kind: the kind of the message behind which that is so, where its beginning was seen.
        began: the call in which the open message began; None between two messages.
        bad: how often bytes didn't parse. good: complete requests or answers so far.
        parsed: how often a message's beginning was of the protocol, whether or not it tells the end.
    """

    def __init__(self, message: Callable[[bytes], Message | None]) -> None:
        self._message = message
        self.bad = self.good = self.parsed = 0
        self.resume()

    def resume(self) -> None:
        """The next call begins with a message."""
        self.lost = False
        self.lost_kind = ""
        self.began: Any = None
        self._known = b""
        self._skip = 0
        self._ends = self._asks = True
        self._kind = ""
        self._length = 0

    @property
    def unclear(self) -> bool:
        """Whether a message is open whose end isn't known."""
        return self.lost or (self.began is not None and not self._skip)

    def feed(self, call: Any, size: int, known: bytes) -> list[Cut]:
        """What a call completes: `size` bytes, of which the first are `known`."""
        found: list[Cut] = []
        if self.lost:
            return found
        if self._skip:
            taken = min(self._skip, size)
            self._skip -= taken
            size, known = size - taken, known[taken:]
            if self._skip:
                return found
            self._complete(found)
        hidden = size - len(known)  # they follow what is known
        self._known += known
        while self._known or hidden:
            if self.began is None:
                self.began = call
            try:
                message = self._message(self._known) if self._known else None
            except UnparsedError:
                self.bad += 1
                self._lose("")
                break
            self.parsed += message is not None
            if message is None or message.length == UNKNOWN:
                if hidden or len(self._known) > _MOST_KEPT:
                    self._lose(message.kind if message is not None else "")
                break
            self._take(message)
            over = max(0, message.length - len(self._known))
            self._known = self._known[message.length :]
            self._skip = max(0, over - hidden)
            hidden = max(0, hidden - over)
            if self._skip:
                break
            self._complete(found)
        return found

    def _take(self, message: Message) -> None:
        self._kind = self._kind or message.kind
        self._length += message.length
        self._ends, self._asks = message.ends, message.asks

    def _complete(self, found: list[Cut]) -> None:
        if self._ends and self._asks:
            found.append(Cut(self.began, self._kind, self._length))
            self.good += 1
        if self._ends or not self._asks:
            self._kind, self._length, self.began = "", 0, None

    def _lose(self, kind: str) -> None:
        self.lost = True
        self.lost_kind = self._kind or kind
        self._known = b""
