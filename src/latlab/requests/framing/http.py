"""HTTP/1.1 (RFC 9112), and what of a URL makes a kind of request."""

from __future__ import annotations

import re

from latlab.requests.framing.message import UNKNOWN, Message, UnparsedError
from latlab.words import printable

__all__ = ["Http", "path_kind"]

_REQUEST = re.compile(rb"([A-Z][A-Z-]{2,15}) ([^ \r\n]+)(?: HTTP/1\.[01]\r\n)?")
_WHOLE_LINE = re.compile(rb"[A-Z][A-Z-]{2,15} [^ \r\n]+ HTTP/1\.[01]\r\n")
_METHODS = (
    b"GET ", b"POST ", b"PUT ", b"DELETE ", b"HEAD ", b"OPTIONS ", b"PATCH ", b"CONNECT ", b"TRACE ",
    b"PROPFIND ", b"REPORT ", b"MKCOL ", b"COPY ", b"MOVE ", b"LOCK ", b"UNLOCK ", b"PURGE ",
)  # fmt: skip
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,15})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding:", re.IGNORECASE)
_UPGRADED = 101

_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_HEX = re.compile(r"(?<![0-9a-zA-Z])(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}(?![0-9a-zA-Z])")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_TOKEN = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_.~=%-]{20,}\Z")
_LONGEST = 60


def path_kind(target: str) -> str:
    """A request's target without what tells one request from another: numbers, ids, and all of its query.

    A number in a segment, a hexadecimal id, a UUID and a long token become "#".
    """
    path = re.sub(r"\Ahttps?://[^/]*", "", target).partition("?")[0].partition("#")[0] or "/"
    return printable("/".join(_segment(one) for one in path.split("/"))[:_LONGEST])


def _segment(text: str) -> str:
    if re.fullmatch(r"v\d{1,2}", text):
        return text  # the version of an API is no id
    if _TOKEN.match(text) and not _UUID.search(text):
        return "#"
    return _NUMBER.sub("#", _HEX.sub("#", _UUID.sub("#", text)))


class Http:
    """Requests with their bodies by Content-Length; one in chunks ends where these bytes don't tell."""

    name = "http"

    def request(self, data: bytes) -> Message | None:
        """The request at the beginning; see `Framing`."""
        if not data:
            return None
        if data[:2] == b"\r\n":  # section 2.2: an empty line before a request is to be overlooked
            return Message(2, ends=False)
        if not data.startswith(_METHODS):
            if any(method.startswith(data) for method in _METHODS):
                return None
            raise UnparsedError
        if b"\r\n" in data and not _WHOLE_LINE.match(data):
            raise UnparsedError
        found = _REQUEST.match(data)
        if found is None:
            return None
        kind = f"{found[1].decode('ascii')} {path_kind(found[2].decode('utf-8', errors='replace'))}"
        head = data.find(b"\r\n\r\n")
        if head < 0:
            return Message(UNKNOWN, kind)
        body = _body(data[: head + 4])
        return Message(UNKNOWN if body < 0 else head + 4 + body, kind)

    def answer(self, data: bytes, asked: str) -> Message | None:
        """The answer at the beginning; see `Framing`."""
        status = _STATUS.match(data)
        if status is None:
            if len(data) < 13 and b"HTTP/1.".startswith(data[:7]):
                return None
            raise UnparsedError
        code = int(status[1])
        head = data.find(b"\r\n\r\n")
        if head < 0 or code == _UPGRADED:
            return Message(UNKNOWN)
        if code < 200:
            return Message(head + 4, ends=False)
        if asked.startswith("HEAD ") or code in (204, 304):
            return Message(head + 4)
        length = _LENGTH.search(data[: head + 4])
        if length is None or _CHUNKED.search(data[: head + 4]):
            return Message(UNKNOWN)
        return Message(head + 4 + int(length[1]))


def _body(head: bytes) -> int:
    if _CHUNKED.search(head):
        return UNKNOWN
    length = _LENGTH.search(head)
    return int(length[1]) if length is not None else 0
