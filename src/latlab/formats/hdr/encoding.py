"""HdrHistogram's binary encodings, versions 0 to 2, plain and compressed, of integer and of double
histograms.

An encoding is, in big-endian order (HdrHistogram's AbstractHistogram and DoubleHistogram):

    V0       cookie u32, digits u32, lowest u64, highest u64, total u64; counts
    V1, V2   cookie u32, length of counts u32, normalizing offset i32, digits u32, lowest u64, highest u64,
             ratio f64; counts
    compressed  cookie u32, length u32; one of the above, deflated
    double   cookie u32, digits u32, highest-to-lowest ratio u64; an integer histogram as above

Counts are words of 2, 4 or 8 bytes in V0 and V1 (the size stands in the cookie's second nibble), and ZigZag
LEB128 numbers in V2, where a negative one is a run of so many zeros.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.model.statistics.histogram import Bins, Histogram
from latlab.words import plural

__all__ = ["Decoded", "EncodingError", "decode", "encode"]

_PLAIN = {0x1C849308: 0, 0x1C849301: 1, 0x1C849303: 2}
_COMPRESSED = {0x1C849309: 0, 0x1C849302: 1, 0x1C849304: 2}
_DOUBLE = (0x0C72124E, 0x0C72124F)
_WORDS = {2: ">u2", 4: ">u4", 8: ">u8"}
_HEADERS = {0: struct.Struct(">IIQQQ"), 1: struct.Struct(">IIiIQQd"), 2: struct.Struct(">IIiIQQd")}
# A LEB128 number of 64 bits takes at most 9 bytes here: the ninth holds 8 bits.
_LONGEST_NUMBER = 9


class EncodingError(Exception):
    """Bytes that are no histogram; the message says what is wrong with them."""


@dataclass(frozen=True)
class Decoded:
    """A histogram, and what its integers stand for.

    Attributes:
        histogram: the counts.
        version: of the encoding.
        ratio: what an integer value is multiplied with: 1 but for double histograms.
    """

    histogram: Histogram
    version: int
    ratio: float = 1.0


def decode(data: bytes) -> Decoded:
    """Read a histogram of any version.

    Raises:
        EncodingError: for anything else.
    """
    cookie = _cookie(data)
    if cookie in _DOUBLE:
        if len(data) < 16:
            raise EncodingError("a double histogram without its header")
        return _decode_integers(data[16:])
    return _decode_integers(data)


def encode(histogram: Histogram) -> bytes:
    """A compressed V2 encoding. Counts beyond the bins have no place in it, and are left out.

    Raises:
        OverflowError: for a count beyond 2^63.
    """
    held = np.flatnonzero(histogram.counts)
    payload = _zigzag(histogram.counts[: held[-1] + 1].tolist()) if held.size else b""
    bins = histogram.bins
    header = _HEADERS[2].pack(0x1C849303 | 0x10, len(payload), 0, bins.digits, bins.lowest, bins.highest, 1.0)
    packed = zlib.compress(header + payload, 9)
    return struct.pack(">II", 0x1C849304 | 0x10, len(packed)) + packed


def _cookie(data: bytes) -> int:
    if len(data) < 8:
        raise EncodingError(f"{plural(len(data), 'byte')} are not a histogram")
    (cookie,) = struct.unpack_from(">I", data)
    return int(cookie)


def _base(cookie: int) -> int:
    return cookie & ~0xF0


def _decode_integers(data: bytes) -> Decoded:
    base = _base(_cookie(data))
    if base in _PLAIN:
        return _decode_plain(data)
    if base not in _COMPRESSED:
        raise EncodingError(f"unknown histogram header {_cookie(data):#010x}")
    (length,) = struct.unpack_from(">I", data, 4)
    if length > len(data) - 8:
        raise EncodingError(f"{length} compressed bytes are announced and {len(data) - 8} are there")
    header, rest = _inflate_header(data[8 : 8 + length], _HEADERS[_COMPRESSED[base]].size)
    bins = _header(header)[0]
    # What a valid one can hold at most, so that a few hostile bytes don't inflate to gigabytes.
    limit = bins.size * _LONGEST_NUMBER
    try:
        body = rest.decompress(rest.unconsumed_tail, limit)
    except zlib.error as error:
        raise EncodingError(f"the compressed counts are damaged ({error})") from None
    return _decode_plain(header + body)


def _inflate_header(packed: bytes, size: int) -> tuple[bytes, zlib._Decompress]:
    inflater = zlib.decompressobj()
    try:
        header = inflater.decompress(packed, size)
    except zlib.error as error:
        raise EncodingError(f"the compressed bytes are damaged ({error})") from None
    if len(header) < size:
        raise EncodingError("the compressed bytes end within the header")
    return header, inflater


def _header(data: bytes) -> tuple[Bins, int, int, int, float]:
    """Bins, version, length of the counts in bytes (-1: not stated), normalizing offset, ratio."""
    base = _base(_cookie(data))
    if base not in _PLAIN:
        raise EncodingError(f"unknown histogram header {_cookie(data):#010x}")
    version = _PLAIN[base]
    if len(data) < _HEADERS[version].size:
        raise EncodingError("the bytes end within the header")
    if version == 0:
        _, digits, lowest, highest, _total = _HEADERS[0].unpack_from(data)
        length, offset, ratio = -1, 0, 1.0
    else:
        _, length, offset, digits, lowest, highest, ratio = _HEADERS[version].unpack_from(data)
    try:
        bins = Bins(lowest, highest, digits)
    except ValueError as error:
        raise EncodingError(str(error)) from None
    return bins, version, length, offset, ratio


def _decode_plain(data: bytes) -> Decoded:
    bins, version, length, offset, ratio = _header(data)
    body = data[_HEADERS[version].size :]
    if length >= 0:
        if length > len(body):
            raise EncodingError(f"{plural(length, 'byte')} of counts are announced and {len(body)} are there")
        body = body[:length]
    found = _unzigzag(body, bins.size) if version == 2 else _words(body, (_cookie(data) & 0xF0) >> 4)
    if len(found) > bins.size:
        raise EncodingError(f"{len(found)} counts for {bins.size} bins")
    counts = np.zeros(bins.size, dtype=np.int64)
    counts[: len(found)] = found
    if counts.min() < 0:
        raise EncodingError("a count is negative")
    if abs(offset) >= bins.size:
        raise EncodingError(f"a normalizing offset of {offset} in {bins.size} bins")
    if offset:
        # Index i of the value lies at i - offset of the array (double histograms shift instead of copying).
        counts = np.roll(counts, offset)
    histogram = Histogram(bins.lowest, bins.highest, bins.digits, counts=counts)
    return Decoded(histogram, version, ratio if np.isfinite(ratio) and ratio > 0 else 1.0)


def _words(body: bytes, size: int) -> NDArray[np.int64]:
    if size not in _WORDS:
        raise EncodingError(f"counts in words of {plural(size, 'byte')}")
    whole = len(body) // size * size
    found = np.frombuffer(body[:whole], dtype=_WORDS[size])
    # A histogram's own array is longer than what it was written from: zeros at the end say nothing.
    held = np.flatnonzero(found)
    found = found[: held[-1] + 1] if held.size else found[:0]
    if found.size and int(found.max()) > 2**63 - 1:
        raise EncodingError("a count is negative")
    return found.astype(np.int64)


def _unzigzag(body: bytes, limit: int) -> list[int]:
    counts: list[int] = []
    at, end = 0, len(body)
    while at < end:
        value = shift = 0
        for place in range(_LONGEST_NUMBER):
            if at == end:
                raise EncodingError("the counts end within a number")
            byte = body[at]
            at += 1
            if place == _LONGEST_NUMBER - 1:
                value |= byte << shift
                break
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        number = (value >> 1) ^ -(value & 1)
        if number < 0:
            if len(counts) - number > limit:
                raise EncodingError(f"a run of {-number} zeros leaves the {limit} bins")
            counts += [0] * -number
        else:
            if len(counts) >= limit:
                raise EncodingError(f"more counts than the {limit} bins")
            counts.append(number)
    return counts


def _zigzag(counts: Iterable[int]) -> bytes:
    out = bytearray()
    zeros = 0
    for count in counts:
        if count == 0:
            zeros += 1
            continue
        if zeros:
            _put(out, -zeros)
            zeros = 0
        _put(out, count)
    if zeros:
        _put(out, -zeros)
    return bytes(out)


def _put(out: bytearray, number: int) -> None:
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"a count of {number} has no encoding")
    value = (number << 1) ^ (number >> 63)
    for _ in range(_LONGEST_NUMBER - 1):
        if value < 0x80:
            out.append(value)
            return
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
