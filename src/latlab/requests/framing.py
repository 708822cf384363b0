"""What kind of request the first bytes on a connection are: RESP, HTTP/1.1, PostgreSQL. Pure.

RESP: redis.io, "Redis serialization protocol"; HTTP/1.1: RFC 9112; PostgreSQL: its manual, "Message Formats".
"""

from __future__ import annotations

import re

__all__ = ["kind_of"]

_RESP = re.compile(rb"\*\d+\r\n\$\d+\r\n([A-Za-z]{2,20})\r\n")
_INLINE = re.compile(rb"(PING|GET|SET|INCR|QUIT|INFO)\b[^/]*\r\n")
_HTTP = re.compile(rb"(GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH) ([^ \r\n]+) ?(?:HTTP/1\.[01])?")
_TEXT = re.compile(r"'(?:[^']|'')*'?")
_NUMBER = re.compile(r"\b\d+(?:\.\d+)?\b")
_SPACE = re.compile(r"\s+")
_LONGEST = 60


def kind_of(payload: bytes, length: int) -> tuple[str, str]:
    """(framing, kind) of a request by its first bytes.

    Args:
        payload: the first bytes, zero-padded.
        length: how many were read in all.
    """
    data = payload[: max(0, min(length, len(payload)))]
    if found := _RESP.match(data):
        return "resp", found[1].decode("ascii").upper()
    if found := _HTTP.match(data):
        path = found[2].decode("ascii", errors="replace").partition("?")[0]
        return "http", f"{found[1].decode()} {_NUMBER.sub('#', path)[:_LONGEST]}"
    if found := _INLINE.match(data):
        return "resp", found[1].decode("ascii")
    if len(data) >= 6 and data[:1] in b"QPBE" and 4 <= int.from_bytes(data[1:5], "big") < 1 << 24:
        return "postgresql", _query(data)
    return "direction", "request"


def _query(data: bytes) -> str:
    """The fingerprint of a query without its values; of a prepared one its name."""
    body = data[5:]
    if data[:1] == b"P":  # parse: the statement's name, then the query
        body = body.partition(b"\0")[2]
    elif data[:1] in b"BE":  # bind, execute: the portal's name, then the statement's
        name = body.partition(b"\0")[2].partition(b"\0")[0].decode("utf-8", errors="replace")
        return f"execute {name}".strip()
    text = body.partition(b"\0")[0].decode("utf-8", errors="replace")
    return _SPACE.sub(" ", _NUMBER.sub("?", _TEXT.sub("?", text))).strip()[:_LONGEST] or "query"
