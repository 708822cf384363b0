"""The timing of a market-data file: ITCH 5.0 with 2-byte lengths, packet captures, or one number a line.

Only times are read here, a few bytes of each message; prices and books are `latlab market`'s business.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from latlab.errors import InputError
from latlab.words import plural

_CAPTURE_MAGICS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}


def arrival_ns(path: str, limit: int) -> npt.NDArray[np.float64]:
    """Arrival times in ns, never falling, of up to `limit` messages of a file.

    Raises:
        InputError: for a file that can't be read, or that has no times.
    """
    try:
        raw = Path(path).read_bytes()
        data = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(path, f"can't be read ({getattr(error, 'strerror', None) or error})") from None
    if data[:4] in _CAPTURE_MAGICS:
        times = _capture(path, data, limit)
    elif data[:1] == b"\0" and len(data) > 13:
        times = _itch(path, data, limit)
    else:
        times = _lines(path, data, limit)
    if len(times) < 2:
        raise InputError(path, "has fewer than two messages, so no timing")
    at = np.array(times, dtype=np.float64)
    return np.maximum.accumulate(at - at[0])


def _itch(path: str, data: bytes, limit: int) -> list[int]:
    """ITCH 5.0: length (2 bytes, big endian), then type, locate, tracking number and 6 bytes of ns."""
    times: list[int] = []
    at = 0
    while at + 2 <= len(data) and len(times) < limit:
        (length,) = struct.unpack_from(">H", data, at)
        if length < 11:
            raise InputError(path, f"an ITCH message of {plural(length, 'byte')}", place=f"offset {at}")
        if at + 2 + length > len(data):
            break
        times.append(int.from_bytes(data[at + 7 : at + 13], "big"))
        at += 2 + length
    return times


def _capture(path: str, data: bytes, limit: int) -> list[int]:
    order, scale = _CAPTURE_MAGICS[data[:4]]
    times: list[int] = []
    at = 24
    while at + 16 <= len(data) and len(times) < limit:
        seconds, fraction, kept, _ = struct.unpack_from(f"{order}IIII", data, at)
        if kept > 0x40000:
            raise InputError(path, f"a packet of {plural(kept, 'byte')}", place=f"offset {at}")
        times.append(seconds * 1_000_000_000 + fraction * scale)
        at += 16 + kept
    return times


def _lines(path: str, data: bytes, limit: int) -> list[int]:
    """One arrival time in ns a line; or Cboe's ASCII PITCH, whose lines begin with ms since midnight."""
    times: list[int] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if len(times) >= limit:
            break
        text = line.strip().lstrip(b"S")
        if not text:
            continue
        digits = text if text.isdigit() else text[:8]
        if not digits.isdigit():
            remedy = "give an ITCH 5.0 file, a packet capture, ASCII PITCH or one time in ns a line"
            raise InputError(path, "has no time that latlab can read", place=f"line {number}", remedy=remedy)
        times.append(int(digits) * (1 if text.isdigit() else 1_000_000))
    return times
