"""A copy of a compiled file all of whose code and data lie a distance further: another placement of a build.

Where a function begins within a cache line is settled by the build, and an edit of something else moves it.
The loader can move a file by whole pages only; but every address in a position-independent file is relative
to its begin or is listed for the loader. So a copy whose listed addresses are all larger by the distance, and
whose content begins by the distance later, is the same program at another place within the lines. The copy
has one segment that may be read, written and run, since neighbours share pages once they are moved.

For x86-64 alone: there compilers let functions begin at multiples of 16 bytes, so that four distances draw
all places that a line has.
"""

from __future__ import annotations

import functools
import os
import random
import re
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

__all__ = ["PLACES", "Moving", "copied", "drawn", "moving", "moving_of"]

LINE, PAGE = 64, 4096
_STEP = 16  # where functions begin, and the alignment that SSE's moves need
PLACES = LINE // _STEP
_HEADER, _SEGMENT, _SECTION = (
    struct.Struct("<16sHHIQQQIHHHHHH"),
    struct.Struct("<IIQQQQQQ"),
    struct.Struct("<IIQQQQIIQQ"),
)
_SHARED, _X86_64 = 3, 62
_LOAD, _DYNAMIC, _INTERPRETER, _HEADERS, _TLS, _RELRO = 1, 2, 3, 6, 7, 0x6474E552
_RUN, _WRITE = 1, 2
_SYMBOLS, _ALL_SYMBOLS, _NO_BITS = 11, 2, 8
_ALLOCATED, _RUNS = 2, 4  # flags of a section
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1
_FUNCTION, _OF_THREADS = 2, 6
_SLOT, _RELATIVE, _INDIRECT = 7, 8, 37
# Entries of the dynamic section that hold an address (System V ABI and GNU's additions).
_ADDRESSES = {3, 4, 5, 6, 7, 12, 13, 17, 23, 25, 26, 32, 34, 36, 0x6FFFFEF5, 0x6FFFFEF6, 0x6FFFFEF7,
              0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE}  # fmt: skip
_ADDRESS_RANGE = range(0x6FFFFE00, 0x6FFFFF00)
_RELA, _RELA_SIZE, _JUMPS, _JUMPS_SIZE, _RELR, _RELR_SIZE, _GOT = 7, 8, 23, 2, 36, 35, 3
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
# AVX's and AVX-512's aligned moves, by their prefixes and opcodes: they fault where data lie by 16 alone.
# What looks like one and isn't makes the steps coarser and nothing worse.
_WIDE = re.compile(
    rb"(?:\xc5[\x7c-\x7f\xfc-\xff]|\xc4.[" + bytes(b for b in range(256) if b & 4 and b != 0x5C) + rb"]"
    rb"|\x62..[\x20-\x7f\xa0-\xff])[\x28\x29\x2b\x6f\x7f\xe7]",
    re.DOTALL,
)
# A program that looks where it lies would look beside its copy.
_LOOKS_AROUND = (b"$ORIGIN", b"${ORIGIN}", b"/proc/self/exe")


class _Unfit(Exception):
    """The file can't be moved."""


@dataclass(frozen=True)
class Moving:
    """A file that can be moved.

    Attributes:
        step: distances are multiples of this: what the file's own alignment allows.
        draws_lines: whether such distances draw every place within a line that another build might have.
    """

    data: bytes
    step: int
    draws_lines: bool

    def copy(self, distance: int) -> bytes:
        """The file with all that it holds a distance further (rounded down to a step)."""
        return _moved(self.data, PAGE + distance // self.step * self.step)


@functools.lru_cache(maxsize=8)
def _moving(path: Path, _changed: int, _size: int) -> Moving | None:
    return moving_of(path.read_bytes())


def moving(path: Path) -> Moving | None:
    """How the file at a path can be moved now; None where it can't."""
    found = path.stat()
    return _moving(path, found.st_mtime_ns, found.st_size)


def copied(path: Path, distance: int) -> int | None:
    """The descriptor of a file in memory that holds a path's content a distance further; None if it can't."""
    how = moving(path)
    if how is None:
        return None
    copy = os.memfd_create(path.name)
    with open(copy, "wb", closefd=False) as file:
        file.write(how.copy(distance))
    return copy


def drawn(place: int) -> int:
    """A distance: of four consecutive places each is another within a line, in a line that chance draws."""
    return LINE * random.randrange(PAGE // LINE) + _STEP * (place % PLACES)


def moving_of(data: bytes) -> Moving | None:
    """How a file can be moved; None where it can't.

    A file that isn't position independent can't, nor one that lists addresses in a way that isn't known here.
    """
    try:
        _moved(data, PAGE)
        code, other = _alignments(data)
    except (_Unfit, struct.error, ValueError, IndexError):
        return None
    fine = other <= _STEP or (other <= 2 * _STEP and not _moves_wide(data))
    step = max(_STEP, code, 0 if fine else other)
    if step > PAGE // 2:
        return None
    # Functions that begin anywhere, or that are moved by larger steps than they are aligned to, aren't drawn.
    return Moving(data, step, _STEP <= code == step and _are_aligned(data))


def _alignments(data: bytes) -> tuple[int, int]:
    """The largest alignment of code, and of the rest."""
    code, rest = 1, 1
    for _, _, flags, address, _, _, _, _, alignment, _ in _sections(data):
        if flags & _ALLOCATED and address:
            if flags & _RUNS:
                code = max(code, alignment)
            else:
                rest = max(rest, alignment)
    return code, rest


def _are_aligned(data: bytes) -> bool:
    """Whether most functions that have a name begin at a step (parts split off for rare cases don't)."""
    aligned = count = 0
    for section in _sections(data):
        if section[1] in (_SYMBOLS, _ALL_SYMBOLS):
            symbols = np.frombuffer(data, _SYMBOL, section[5] // _SYMBOL.itemsize, section[4])
            functions = symbols["value"][
                ((symbols["info"] & 15) == _FUNCTION) & (symbols["section"] != _UNDEFINED)
            ]
            aligned += int((functions % _STEP == 0).sum())
            count += len(functions)
    return 2 * aligned >= count


def _moves_wide(data: bytes) -> bool:
    """Whether its code may have moves that fault where data lie by 16 bytes alone."""
    return any(
        section[2] & _RUNS
        and section[1] != _NO_BITS
        and _WIDE.search(data, section[4], section[4] + section[5]) is not None
        for section in _sections(data)
    )


def _sections(data: bytes) -> list[tuple[int, ...]]:
    header = _HEADER.unpack_from(data)
    at, size, count = header[6], header[11], header[12]
    if not at or size != _SECTION.size:
        raise _Unfit
    return [_SECTION.unpack_from(data, at + i * size) for i in range(count)]


def _segments(data: bytes) -> list[list[int]]:
    header = _HEADER.unpack_from(data)
    identity, kind, machine, at, size, count = (
        header[0],
        header[1],
        header[2],
        header[5],
        header[9],
        header[10],
    )
    if identity[:6] != b"\x7fELF\x02\x01" or (kind, machine) != (_SHARED, _X86_64) or size != _SEGMENT.size:
        raise _Unfit
    return [list(_SEGMENT.unpack_from(data, at + i * size)) for i in range(count)]


def _check(data: bytes, segments: list[list[int]]) -> None:
    kinds = [s[0] for s in segments]
    loads = [s for s in segments if s[0] == _LOAD]
    program = _INTERPRETER in kinds
    writable = [s for s in loads if s[1] & _WRITE]
    runnable = [s for s in loads if s[1] & _RUN]
    if not loads or kinds.count(_DYNAMIC) != 1 or loads[0][2] != 0 or loads[0][3] != 0:
        raise _Unfit
    # Only the last segment's zeros can be left to the loader. What is written beside code slows it down.
    near = any(r[3] < w[3] + w[6] + PAGE and w[3] < r[3] + r[6] + PAGE for r in runnable for w in writable)
    if near or any(s[5] != s[6] for s in loads[:-1]):
        raise _Unfit
    if any(word in data for word in (_LOOKS_AROUND if program else _LOOKS_AROUND[:2])):
        raise _Unfit
    # A program knows its thread variables' distances, which follow from where their initial values lie.
    if program and any(s[0] == _TLS and s[7] > _STEP for s in segments):
        raise _Unfit


def _moved(data: bytes, by: int) -> bytes:
    segments = _segments(data)
    _check(data, segments)
    loads = [s for s in segments if s[0] == _LOAD]
    image = bytearray(by + max(s[3] + s[5] for s in loads))
    for _, _, offset, address, _, size, _, _ in loads:
        image[by + address : by + address + size] = data[offset : offset + size]
    _move_addresses(data, image, segments, by)
    end = by + max(s[3] + s[6] for s in loads)
    kept = [s for s in segments if s[0] not in (_LOAD, _RELRO)]
    headers = [[_LOAD, 7, 0, 0, 0, len(image), end, PAGE]]
    # The headers' own entry has to come before what is loaded.
    for segment in kept:
        kind, flags, _, address, _, in_file, in_memory, alignment = segment
        empty = in_memory == 0
        if kind == _HEADERS:
            size = _SEGMENT.size * (1 + len(kept))
            headers.insert(0, [kind, flags, _HEADER.size, _HEADER.size, _HEADER.size, size, size, alignment])
            continue
        where = 0 if empty else address + by
        headers.append([kind, flags, where, where, where, in_file, in_memory, alignment])
    header = list(_HEADER.unpack_from(data))
    header[4] += by if header[4] else 0
    header[5], header[6], header[10], header[12], header[13] = _HEADER.size, 0, len(headers), 0, 0
    packed = _HEADER.pack(*header) + b"".join(_SEGMENT.pack(*h) for h in headers)
    image[: len(packed)] = packed
    return bytes(image)


def _move_addresses(data: bytes, image: bytearray, segments: list[list[int]], by: int) -> None:
    """Make all addresses that are listed for the loader larger."""
    (dynamic,) = (s for s in segments if s[0] == _DYNAMIC)
    words = np.frombuffer(image, dtype="<u8", count=dynamic[5] // 8, offset=by + dynamic[3])
    tags: dict[int, int] = {}
    for index in range(0, len(words) - 1, 2):
        tag, value = int(words[index]), int(words[index + 1])
        if tag == 0:
            break
        tags[tag] = value
        if tag in _ADDRESSES:
            words[index + 1] += np.uint64(by)
        elif tag in _ADDRESS_RANGE:
            raise _Unfit

    def table(at: int, size: int, kind: npt.DTypeLike) -> npt.NDArray[np.void]:
        return np.frombuffer(image, dtype=kind, count=size // np.dtype(kind).itemsize, offset=by + at)

    def grow(addresses: npt.NDArray[np.uint64]) -> None:
        """Add the distance to the words at these addresses."""
        for address in addresses.tolist():
            (value,) = struct.unpack_from("<Q", image, by + address)
            if value:
                struct.pack_into("<Q", image, by + address, value + by)

    for section in _sections(data):
        if section[1] == _SYMBOLS:
            symbols = table(section[3], section[5], _SYMBOL)
            placed = (symbols["value"] != 0) & (symbols["section"] != _ABSOLUTE)
            placed |= (symbols["section"] != _UNDEFINED) & (symbols["section"] != _ABSOLUTE)
            placed &= (symbols["info"] & 15) != _OF_THREADS
            symbols["value"][placed] += np.uint64(by)
    if _RELR in tags:
        listed = _packed(table(tags[_RELR], tags[_RELR_SIZE], "<u8"), by)  # type: ignore[arg-type]
        grow(listed)
    tables = [(tags[a], tags[b]) for a, b in ((_RELA, _RELA_SIZE), (_JUMPS, _JUMPS_SIZE)) if a in tags]
    # A table of jumps may be a part of the other: no entry may be moved twice.
    if len(tables) == 2 and tables[0][0] <= tables[1][0] < sum(tables[0]):
        tables = tables[:1]
    for at, size in tables:
        entries = table(at, size, _RELOCATION)
        kinds = entries["info"] & np.uint64(0xFFFFFFFF)
        grow(entries["offset"][kinds == _SLOT])
        entries["addend"][(kinds == _RELATIVE) | (kinds == _INDIRECT)] += by
        entries["offset"] += np.uint64(by)
    if _GOT in tags:
        (first,) = struct.unpack_from("<Q", image, by + tags[_GOT])
        if first == dynamic[3]:
            struct.pack_into("<Q", image, by + tags[_GOT], first + by)


def _packed(entries: npt.NDArray[np.uint64], by: int) -> npt.NDArray[np.uint64]:
    """The addresses that a packed table of relocations lists; those that it holds itself are moved."""
    found: list[int] = []
    at = 0
    for index, entry in enumerate(entries.tolist()):
        if entry % 2 == 0:
            found.append(entry)
            at = entry + 8
            entries[index] += np.uint64(by)
        else:
            found += [at + 8 * bit for bit in range(63) if entry >> (bit + 1) & 1]
            at += 63 * 8
    return np.array(found, dtype=np.uint64)
