"""Where a program's functions without names begin: by the table for unwinding, which stripping leaves.

That is `.eh_frame_hdr`: a sorted table with one entry a function (Linux Standard Base, "Exception Frames").
"""

from __future__ import annotations

import struct
from typing import Any, Self

import numpy as np

from latlab.formats.trusted import open_observed

__all__ = ["UnwindTable"]

_ELF64 = b"\x7fELF\x02\x01"  # of little-endian machines
_HEADER = struct.Struct("<32xQ12xHHHH")  # Elf64_Ehdr: e_phoff, e_ehsize, e_phentsize, e_phnum, e_shentsize
_SEGMENT = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr
_LOAD, _EH_FRAME = 1, 0x6474E550
_FORM = bytes((1, 0x1B, 0x03, 0x3B))  # version 1; places relative to the table: what every linker writes
_MOST_SEGMENTS = 64
_MOST_BYTES = 1 << 26  # of a table: eight million functions
_AT = 12  # bytes before the entries


class UnwindTable:
    """The beginnings of an ELF file's functions. All places are places in the file.

    Args:
        begins: sorted addresses.
        loads: (address, place in the file, bytes) of each loaded segment.
    """

    def __init__(self, begins: np.ndarray[Any, Any], loads: list[tuple[int, int, int]]) -> None:
        self._begins, self._loads = begins, loads

    @classmethod
    def read(cls, path: str) -> Self | None:
        """The table of a file; None where the file is missing, is not ELF, or has no table."""
        try:
            with open_observed(path) as file:
                start = file.read(64)
                if not start.startswith(_ELF64) or len(start) < 64:
                    return None
                at, _, size, count, _ = _HEADER.unpack_from(start)
                if size != _SEGMENT.size or count > _MOST_SEGMENTS:
                    return None
                file.seek(at)
                segments = list(_SEGMENT.iter_unpack(file.read(size * count)))
                table = next((one for one in segments if one[0] == _EH_FRAME), None)
                if table is None:
                    return None
                _, _, offset, address, _, bytes_, _, _ = table
                file.seek(offset)
                raw = file.read(min(bytes_, _MOST_BYTES))
        except (OSError, OverflowError, ValueError, struct.error):
            return None
        if len(raw) < _AT or raw[:4] != _FORM:
            return None
        entries = np.frombuffer(
            raw, "<i4", min(2 * int.from_bytes(raw[8:12], "little"), (len(raw) - _AT) // 8 * 2), _AT
        )
        loads = [(one[3], one[2], one[5]) for one in segments if one[0] == _LOAD]
        return cls(np.sort(entries[::2].astype(np.int64) + address), loads)

    def around(self, place: int) -> tuple[int, int] | None:
        """The beginning of the function around a place, and of the next one; None where that isn't known."""
        for address, at, size in self._loads:
            if at <= place < at + size:
                here = place - at + address
                index = int(np.searchsorted(self._begins, here, side="right"))
                if index == 0 or self._begins[index - 1] < address:
                    return None
                following = self._begins[index] if index < len(self._begins) else address + size
                return int(self._begins[index - 1]) - address + at, min(int(following) - address, size) + at
        return None
