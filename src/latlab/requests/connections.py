"""From bytes in and out of sockets to requests: from the first byte in to the last byte out. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.requests.framing import kind_of
from latlab.schedule import Transfers

__all__ = ["REQUEST", "Found", "find_requests"]

#: A request: when it arrived, was read, was answered from and until; who read and who answered.
REQUEST = np.dtype(
    [
        ("arrived", np.int64),
        ("read", np.int64),
        ("answered", np.int64),
        ("sent", np.int64),
        ("reader", np.int32),  # thread ids
        ("sender", np.int32),
        ("connection", np.int32),  # index into Found.connections
        ("kind", np.int32),  # index into Found.kinds
        ("bytes_in", np.int64),
        ("bytes_out", np.int64),
        ("seen", np.uint8),  # 1: its arrival was seen; 0: it is counted from its reading
    ]
)


@dataclass(frozen=True)
class Found:
    """The requests of all connections.

    Attributes:
        rows: of REQUEST, by arrival.
        connections: their names. kinds: their names. framing: that of most requests.
        transfers: of each connection, when bytes went in or out: (time, +bytes in or -bytes out).
        unanswered: requests that were read and not answered while it was observed.
    """

    rows: np.ndarray[Any, Any]
    connections: tuple[str, ...]
    kinds: tuple[str, ...]
    framing: str
    unanswered: int


def find_requests(transfers: Transfers) -> Found:
    """Pair what came in with what went out, connection by connection."""
    calls = _calls(transfers)
    ready = _by_socket(transfers.ready["skaddr"], transfers.ready["time_ns"])
    rows: list[tuple[Any, ...]] = []
    connections: list[str] = []
    kinds: dict[str, int] = {}
    framings: dict[str, int] = {}
    unanswered = 0
    for sk, calls_of in calls.items():
        name, serves = _connection(transfers, calls_of)
        if not serves:
            continue
        connections.append(name)
        arrivals = ready.get(sk, np.zeros(0, np.int64))
        unanswered += _pair(calls_of, arrivals, len(connections) - 1, rows, kinds, framings)
    table = np.array(rows, REQUEST) if rows else np.zeros(0, REQUEST)
    framing = max(framings, key=lambda one: framings[one]) if framings else "direction"
    return Found(
        table[np.argsort(table["arrived"], kind="stable")],
        tuple(connections),
        tuple(kinds),
        framing,
        unanswered,
    )


def _calls(transfers: Transfers) -> dict[int, list[tuple[Any, ...]]]:
    """Of each socket its calls in order: (time, in?, bytes, tid, pid, descriptor, payload)."""
    parts = []
    for table, inward in ((transfers.received, True), (transfers.sent, False)):
        good = table["ret"] > 0
        parts.append((table, inward, np.flatnonzero(good)))
    found: dict[int, list[tuple[Any, ...]]] = {}
    for table, inward, rows in parts:
        payload = table["payload"] if inward and "payload" in table else None
        for row, time, sk, size, tid, pid, descriptor in zip(
            rows.tolist(), table["time_ns"][rows].tolist(), table["sk"][rows].tolist(),
            table["ret"][rows].tolist(), table["tid"][rows].tolist(), table["pid"][rows].tolist(),
            table["argument"][rows].tolist(), strict=True,
        ):  # fmt: skip
            data = bytes(payload[row]) if payload is not None else b""
            found.setdefault(sk, []).append((time, inward, size, tid, pid, descriptor, data))
    for calls in found.values():
        calls.sort(key=lambda call: call[0])
    return found


def _by_socket(sockets: np.ndarray[Any, Any], times: np.ndarray[Any, Any]) -> dict[int, np.ndarray[Any, Any]]:
    if not len(sockets):
        return {}
    order = np.lexsort((times, sockets))
    sockets, times = sockets[order], times[order]
    ids, starts = np.unique(sockets, return_index=True)
    return {
        int(sk): part for sk, part in zip(ids.tolist(), np.split(times, starts[1:].tolist()), strict=True)
    }


def _connection(transfers: Transfers, calls: list[tuple[Any, ...]]) -> tuple[str, bool]:
    """Its name, and whether the observed process is the one that is asked on it."""
    _, inward, _, _, pid, descriptor, _ = calls[0]
    link = transfers.descriptors.get((pid, descriptor), "")
    match = re.fullmatch(r"socket:\[(\d+)\]", link)
    end = transfers.ends.get(int(match[1])) if match else None
    name = f"{end[0]} (descriptor {descriptor} of {pid})" if end else f"descriptor {descriptor} of {pid}"
    # A server's end has the port on which somebody listens; else who gets bytes first is asked.
    return name, end[1] if end is not None else inward


def _pair(
    calls: list[tuple[Any, ...]],
    arrivals: np.ndarray[Any, Any],
    connection: int,
    rows: list[tuple[Any, ...]],
    kinds: dict[str, int],
    framings: dict[str, int],
) -> int:
    """The requests of one connection; returns how many remain unanswered (0 or 1)."""
    last_read = 0
    at, count = 0, len(calls)
    while at < count and not calls[at][1]:  # an answer whose request was before our time
        at += 1
    while at < count:
        first = at
        while at < count and calls[at][1]:
            at += 1
        answer = at
        while at < count and not calls[at][1]:
            at += 1
        if answer == at:
            return 1
        time, _, size, reader, _, _, payload = calls[first]
        low, high = np.searchsorted(arrivals, [last_read + 1, time + 1])
        seen = bool(high > low)
        framing, kind = kind_of(payload, size)
        framings[framing] = framings.get(framing, 0) + 1
        rows.append((
            int(arrivals[low]) if seen else time, time, calls[answer][0], calls[at - 1][0], reader,
            calls[answer][3], connection, kinds.setdefault(kind, len(kinds)),
            sum(call[2] for call in calls[first:answer]), sum(call[2] for call in calls[answer:at]),
            int(seen),
        ))  # fmt: skip
        last_read = calls[answer - 1][0]
    return 0
