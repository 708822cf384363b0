"""An independent, slow book: plain dictionaries, every level summed again at every message."""

from __future__ import annotations

import struct
from collections.abc import Iterator


def frames(data: bytes) -> Iterator[bytes]:
    at = 0
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        yield data[at + 2 : at + 2 + size]
        at += 2 + size


def slow_inside(data: bytes) -> list[str]:
    """The lines that `market inside` must write."""
    orders: dict[int, tuple[int, bytes, int, int]] = {}  # ref: locate, side, price, quantity
    names: dict[int, str] = {}
    last: dict[int, tuple[int, ...]] = {}
    lines = []
    for m in frames(data):
        if not m or m[:1] not in b"RAFECXDU":
            continue
        kind, locate, ts = m[:1], int.from_bytes(m[1:3], "big"), int.from_bytes(m[5:11], "big")
        if kind == b"R":
            names[locate] = m[11:19].decode().strip()
            continue
        ref = int.from_bytes(m[11:19], "big")
        if kind in b"AF":
            qty, price = struct.unpack(">I8xI", m[20:36])
            orders.setdefault(ref, (locate, m[19:20], price, qty))
            names.setdefault(locate, m[24:32].decode().strip())
        elif ref in orders:
            locate, side, price, standing = orders.pop(ref)
            left = standing - int.from_bytes(m[19:23], "big") if kind in b"ECX" else 0
            if left > 0:
                orders[ref] = (locate, side, price, left)
            if kind == b"U":
                new, qty, price = struct.unpack(">QII", m[19:35])
                orders.setdefault(new, (locate, side, price, qty))
        now = best(orders, locate)
        if now != last.get(locate, (0, 0, 0, 0)):
            last[locate] = now
            lines.append(f"{ts} {locate} {names[locate]} " + " ".join(map(str, now)))
    return lines


def best(orders: dict[int, tuple[int, bytes, int, int]], locate: int) -> tuple[int, ...]:
    """Bid price, quantity, offer price, quantity of one symbol."""
    levels: dict[bytes, dict[int, int]] = {b"B": {}, b"S": {}}
    for its, side, price, qty in orders.values():
        if its == locate and qty:
            levels[side][price] = levels[side].get(price, 0) + qty
    bid = max(levels[b"B"], default=0)
    offer = min(levels[b"S"], default=0)
    return (bid, levels[b"B"].get(bid, 0), offer, levels[b"S"].get(offer, 0))
