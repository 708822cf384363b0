"""PostgreSQL's protocol, version 3 (its manual, "Frontend/Backend Protocol", "Message Formats")."""

from __future__ import annotations

import re

from latlab.requests.framing.message import Message, UnparsedError
from latlab.words import printable

__all__ = ["PostgreSql", "fingerprint"]

_ASKS = b"BCDEFHPQSXcdfp"  # types of messages that a client sends
_ANSWERS = b"123CDEGHIKNRSTVWZAcdnstv"
_STARTUP = 0x0003_0000
_SSL, _GSS = 80877103, 80877104  # is encryption to be had? The answer is one byte
_NEGOTIATES, _REFUSED = "negotiate encryption", b"N"
# A password is answered, and the end of a COPY, which has had its first answer already.
_NAMED = {b"F": "function call", b"p": "authentication", b"c": "copy", b"f": "copy"}
_LONGEST_MESSAGE = 1 << 30
_QUOTED = re.compile(r"'(?:[^']|'')*'?|\$\$.*?(?:\$\$|\Z)", re.DOTALL)
_NUMBER = re.compile(r"(?<![\w$])-?\d+(?:\.\d+)?\b")
_LIST = re.compile(r"\?(?:\s*,\s*\?)+")
_SPACE = re.compile(r"\s+")
_LONGEST = 60


class PostgreSql:
    """A request is a simple query, or what comes up to a Sync; its answer ends with ReadyForQuery."""

    name = "postgresql"

    def __init__(self) -> None:
        self._statements: dict[str, str] = {}

    def request(self, data: bytes) -> Message | None:
        """The request at the beginning; see `Framing`."""
        if data[:1] == b"\0":
            return _startup(data)
        size = _size(data, _ASKS)
        if size is None:
            return None
        sort, body = data[:1], data[5 : size + 1]
        kind = ""
        if sort == b"Q":
            kind = fingerprint(_text(body))
        elif sort == b"P":  # parse: the statement's name, then the query
            kind = fingerprint(_text(body.partition(b"\0")[2]))
            self._statements[_text(body)] = kind
        elif sort == b"B":  # bind: the portal's name, then the statement's
            name = _text(body.partition(b"\0")[2])
            kind = self._statements.get(name) or f"execute {name}".strip()
        else:
            kind = _NAMED.get(sort, "")
        return Message(size + 1, kind, ends=sort in b"QSFpcf", asks=sort != b"X")

    def answer(self, data: bytes, asked: str) -> Message | None:
        """The answer at the beginning; see `Framing`."""
        if asked == _NEGOTIATES:
            if data[:1] not in (b"", _REFUSED):
                raise UnparsedError  # encrypted from here on
            return Message(1) if data else None
        size = _size(data, _ANSWERS)
        return None if size is None else Message(size + 1, ends=data[:1] == b"Z")


def _startup(data: bytes) -> Message | None:
    if len(data) < 8:
        return None
    size, code = int.from_bytes(data[:4], "big"), int.from_bytes(data[4:8], "big")
    if size == 8 and code in (_SSL, _GSS):
        return Message(size, _NEGOTIATES)
    if not 8 <= size <= 10_000 or code != _STARTUP:
        raise UnparsedError
    return Message(size, "connect")


def _size(data: bytes, types: bytes) -> int | None:
    if not data:
        return None
    if data[:1] not in types:
        raise UnparsedError
    if len(data) < 5:
        return None
    size = int.from_bytes(data[1:5], "big")
    if not 4 <= size < _LONGEST_MESSAGE or (data[:1] in b"SZH" and size > 1 << 16):
        raise UnparsedError
    return size


def _text(body: bytes) -> str:
    return body.partition(b"\0")[0].decode("utf-8", errors="replace")


def fingerprint(query: str) -> str:
    """A query without its values: numbers and texts become "?", lists of them one."""
    plain = _SPACE.sub(" ", _NUMBER.sub("?", _QUOTED.sub("?", query)))
    return printable(_LIST.sub("?, …", plain).strip().rstrip(";")[:_LONGEST]) or "query"
