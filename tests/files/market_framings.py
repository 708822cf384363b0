"""Market data of every framing, made by hand."""

from __future__ import annotations

import struct
from collections.abc import Sequence


def mold(first: int, *messages: bytes) -> bytes:
    blocks = b"".join(struct.pack(">H", len(m)) + m for m in messages)
    return b"SESSION001" + struct.pack(">QH", first, len(messages)) + blocks


def capture(link: int, header: bytes, payloads: Sequence[bytes | tuple[int, bytes]]) -> bytes:
    """Datagrams to port 2, or to the port that stands before them."""
    out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, link)
    for one in payloads:
        port, payload = one if isinstance(one, tuple) else (2, one)
        udp = struct.pack(">HHHH", 1, port, 8 + len(payload), 0) + payload
        ip = struct.pack(">BBHHHBBHII", 0x45, 0, 20 + len(udp), 0, 0, 9, 17, 0, 1, 2) + udp
        packet = header + ip
        out += struct.pack("<IIII", 1, 0, len(packet), len(packet)) + packet
    return out


def soup(data: bytes) -> bytes:
    out, at = b"\x00\x01H", 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        out += struct.pack(">H", size + 1) + b"S" + data[at + 2 : at + 2 + size]
        at += 2 + size
    return out


def units(count: int) -> bytes:
    out = b""
    for n in range(count):
        body = struct.pack("<BBI", 6, 0x20, 34_200 + n)
        body += struct.pack("<BBIQcI6sQB", 34, 0x21, n, n + 1, b"B", 100, b"ZVZZT ", 10_000 + 100 * n, 1)
        out += struct.pack("<HBBI", 8 + len(body), 2, 1, 1 + 2 * n) + body
    return out


def lines(count: int) -> bytes:
    return b"".join(
        b"S%08dA%012dB%06dSH    %010dY\n" % (28_800_000 + n, n, 100, 619_200) for n in range(count)
    )


def packed_capture(data: bytes) -> bytes:
    messages, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        messages.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    ether = bytes(12) + b"\x08\x00"
    return capture(1, ether, [mold(1 + i, *messages[i : i + 20]) for i in range(0, len(messages), 20)])
