"""Which protocols a connection may speak, by the bytes with which requests on it begin."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.requests.framing.http import Http
from latlab.requests.framing.message import Framing, UnparsedError
from latlab.requests.framing.plain import Lines, Prefixed
from latlab.requests.framing.postgresql import PostgreSql
from latlab.requests.framing.resp import Resp

__all__ = ["candidates"]


def candidates(beginnings: Sequence[bytes]) -> list[Framing]:
    """Those of which at least half of these beginnings of requests may be, the most telling first.

    Whether all of the connection agrees is for its pairing to say.
    """
    found: list[Framing] = []
    for make in (Http, Resp, PostgreSql, Prefixed, Lines):
        framing: Framing = make()
        may = sum(_may(framing, one) for one in beginnings)
        if may and 2 * may >= len(beginnings):
            found.append(make())
    return found


def _may(framing: Framing, data: bytes) -> bool:
    try:
        framing.request(data)
    except UnparsedError:
        return False
    return bool(data)
