"""RESP, the protocol of Redis (redis.io, "Redis serialization protocol specification", versions 2 and 3)."""

from __future__ import annotations

import re

from latlab.requests.framing.message import UNKNOWN, Message, UnparsedError

__all__ = ["Resp"]

# A command of a module has a dot or an underscore in its name: JSON.GET, FT._LIST, CMS.INITBYDIM2.
_WORD = re.compile(rb"[A-Za-z][A-Za-z0-9._|:-]{0,39}\Z")
_INLINE = re.compile(rb"([A-Za-z][A-Za-z0-9._|:-]{0,39})(?:[ \t][^\r\n]*)?\r?\n")
_LONGEST_LINE = 1024
_MOST_ITEMS = 1 << 20
# What is pushed later, or answered more than once, or not at all: answers don't follow requests then.
_PUSHED = frozenset(("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "MONITOR", "SYNC", "PSYNC", "CLIENT|REPLY"))
_SIMPLE = b"+-:_,#("
_BULK = b"$=!"
_MANY = b"*~>%|"
_DOUBLE = b"%|"  # maps: two items each


class Resp:
    """Commands as arrays of bulk strings, or inline."""

    name = "resp"

    def request(self, data: bytes) -> Message | None:
        """The request at the beginning; see `Framing`."""
        if not data:
            return None
        if data[:1] != b"*":
            return self._inline(data)
        head = _number(data, 1)
        if head is None:
            return None
        count, at = head
        if count < 0 or count > _MOST_ITEMS:
            raise UnparsedError
        kind = ""
        for item in range(count):
            if at >= len(data):
                return Message(UNKNOWN, kind)
            if data[at : at + 1] != b"$":
                raise UnparsedError
            bulk = _number(data, at + 1)
            if bulk is None:
                return Message(UNKNOWN, kind)
            size, at = bulk
            if size < 0:
                raise UnparsedError
            if item == 0:
                if at + size > len(data):
                    return None
                kind = self._kind(data[at : at + size])
            if data[at + size : at + size + 2] not in (b"", b"\r", b"\r\n"):
                raise UnparsedError
            at += size + 2
        return Message(at, kind)

    @staticmethod
    def _kind(word: bytes) -> str:
        if not _WORD.match(word):
            raise UnparsedError
        kind = word.decode("ascii").upper()
        if kind in _PUSHED:
            raise UnparsedError
        return kind

    def _inline(self, data: bytes) -> Message | None:
        found = _INLINE.match(data)
        if found is not None:
            return Message(found.end(), self._kind(found[1]))
        if b"\n" in data or len(data) > _LONGEST_LINE or not data[:1].isalpha():
            raise UnparsedError
        return None

    def answer(self, data: bytes, asked: str) -> Message | None:
        """The answer at the beginning; see `Framing`."""
        end = _reply(data, 0, 0)
        if end is None:
            return None
        if data[:1] == b">":
            return Message(end, ends=False)  # pushed, not an answer
        return Message(end) if end >= 0 else Message(UNKNOWN)


def _number(data: bytes, at: int) -> tuple[int, int] | None:
    """The decimal number from `at` to the line's end, and where the next begins; None: not all there."""
    end = data.find(b"\r\n", at)
    digits = data[at : end if end >= 0 else len(data)]
    if not re.fullmatch(rb"-?\d{0,12}\r?", digits):
        raise UnparsedError
    if end < 0:
        return None
    if not digits.strip(b"-"):
        raise UnparsedError
    return int(digits), end + 2


def _reply(data: bytes, at: int, depth: int) -> int | None:
    """Where the value that begins at `at` ends; None: more is needed; UNKNOWN: these bytes don't tell."""
    if at >= len(data):
        return None if at == len(data) else UNKNOWN
    sort = data[at : at + 1]
    if sort in _SIMPLE:
        end = data.find(b"\n", at)
        return None if end < 0 else end + 1
    if sort in _BULK:
        bulk = _number(data, at + 1)
        if bulk is None:
            return None
        size, begin = bulk
        return begin if size < 0 else begin + size + 2
    if sort not in _MANY or depth > 8:
        raise UnparsedError
    head = _number(data, at + 1)
    if head is None:
        return None
    count, place = head
    for _ in range(max(0, count) * (2 if sort in _DOUBLE else 1)):
        if place > len(data):
            return UNKNOWN
        end_of = _reply(data, place, depth + 1)
        if end_of is None or end_of == UNKNOWN:
            return end_of
        place = end_of
    return place
