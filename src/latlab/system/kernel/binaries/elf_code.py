"""The functions of a program's file: their code, their names, and what they call. Read by pyelftools; x86-64.

All places are places in the file, as a sample's frame has them.
"""

from __future__ import annotations

import bisect
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from latlab.formats.trusted import open_observed
from latlab.system.kernel.binaries.unwind_table import UnwindTable

__all__ = ["SPOILED", "CodeFile"]

_MOST_BYTES = 1 << 16  # of a function
_MOST_SECTIONS = 1 << 17  # C++ with a section for each function has ten thousands
_MOST_SECTION_BYTES = 1 << 28  # of a table, unpacked: it is read whole
_MOST_FUNCTIONS = 1 << 20  # the largest browsers have that many
_STUB_BYTES = 16  # of an entry of the procedure linkage table
# Elf64_Sym and Elf64_Rela, little-endian: elf(5).
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_RELOCATION = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_STT_FUNC = 2
# What the readers of a file raise whose numbers lie.
SPOILED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError, zlib.error)


@dataclass(frozen=True)
class _Table:
    """A table of symbols with its names."""

    symbols: np.ndarray[Any, Any]
    names: bytes

    def name(self, index: int) -> str:
        begin = int(self.symbols["name"][index])
        return self.names[begin : self.names.find(b"\0", begin)].decode("utf-8", "replace")


class CodeFile:
    """An ELF file's functions.

    Args:
        loads: (address, end, place in the file) of each loaded segment.
        tables: of symbols.
        fixed: (address, end) of each segment that isn't written.
        relocations: each with the table that its symbols are of.
        unwound: where functions begin, also those without a symbol.
    """

    def __init__(
        self,
        path: str,
        loads: Sequence[tuple[int, int, int]],
        fixed: Sequence[tuple[int, int]],
        tables: Sequence[_Table],
        relocations: Sequence[tuple[np.ndarray[Any, Any], _Table]],
        unwound: UnwindTable | None = None,
    ) -> None:
        self._path, self._loads, self._fixed = path, loads, fixed
        self._tables, self._relocations = tables, relocations
        found = {row[:2]: row for number, table in enumerate(tables) for row in self._rows(number, table)}
        self._functions = sorted(found.values())
        self._begins = [one[0] for one in self._functions]
        self._unwound = unwound
        self._slots: dict[int, str] | None = None

    @classmethod
    def read(cls, path: str) -> CodeFile | None:
        """None of what is no such file, can't be read, or is larger than programs are."""
        from elftools.common.exceptions import ELFError
        from elftools.elf.constants import P_FLAGS
        from elftools.elf.elffile import ELFFile
        from elftools.elf.relocation import RelocationSection
        from elftools.elf.sections import SymbolTableSection

        try:
            with open_observed(path) as file:
                elf = ELFFile(file)
                if elf["e_machine"] != "EM_X86_64":
                    return None
                loads = [
                    (one["p_vaddr"], one["p_vaddr"] + one["p_filesz"], one["p_offset"])
                    for one in elf.iter_segments()
                    if one["p_type"] == "PT_LOAD"
                ]
                fixed = [
                    (one["p_vaddr"], one["p_vaddr"] + one["p_memsz"])
                    for one in elf.iter_segments()
                    if one["p_type"] == "PT_LOAD" and not one["p_flags"] & P_FLAGS.PF_W
                ]
                tables: dict[int, _Table] = {}
                relocations = []
                if elf.num_sections() > _MOST_SECTIONS:
                    return None
                sections = list(elf.iter_sections())
                for number, section in enumerate(sections):
                    if isinstance(section, SymbolTableSection):
                        names = _whole(elf.get_section(section["sh_link"]))
                        tables[number] = _Table(np.frombuffer(_whole(section), _SYMBOL), names)
                for section in sections:
                    if isinstance(section, RelocationSection) and section["sh_link"] in tables:
                        rows = np.frombuffer(_whole(section), _RELOCATION)
                        relocations.append((rows, tables[section["sh_link"]]))
                unwound = UnwindTable.read(path)
                return cls(path, loads, fixed, tuple(tables.values()), relocations, unwound)
        except (OSError, ELFError, *SPOILED):
            return None  # gone, or no ELF file: nothing is known of its loops

    def _rows(self, number: int, table: _Table) -> list[tuple[int, int, int, int]]:
        """Begin, end, number of the table and of the symbol of each function."""
        symbols = table.symbols
        of_code = (symbols["info"] & 15 == _STT_FUNC) & (symbols["size"] > 0)
        of_code &= symbols["size"] <= _MOST_BYTES
        found: list[tuple[int, int, int, int]] = []
        for low, high, at in self._loads:
            index = np.flatnonzero(of_code & (symbols["value"] >= low) & (symbols["value"] < high))
            index = index[: _MOST_FUNCTIONS - len(found)]
            begins = symbols["value"][index].astype(np.int64) - low + at
            ends = begins + symbols["size"][index].astype(np.int64)
            found += [
                (begin, end, number, which)
                for begin, end, which in zip(begins.tolist(), ends.tolist(), index.tolist(), strict=True)
            ]
        return found

    def function(self, place: int) -> tuple[bytes, int] | None:
        """The code of the function around a place, and where it begins; of a stripped one, too."""
        one = self._around(place)
        if one is not None:
            return _bytes(self._path, one[0], one[1]), one[0]
        bounds = None if self._unwound is None else self._unwound.around(place)
        if bounds is None or bounds[1] - bounds[0] > _MOST_BYTES:
            return None
        return _bytes(self._path, *bounds), bounds[0]

    def name(self, place: int) -> str:
        """Of the function that begins at a place, as the linker spells it; "" without one."""
        one = self._around(place)
        return self._tables[one[2]].name(one[3]) if one is not None and one[0] == place else ""

    def stub(self, place: int) -> bytes:
        """The code at a place that belongs to no function: an entry of the procedure linkage table."""
        # What is read as code may be data, and its targets anywhere.
        inside = any(at <= place < at + high - low for low, high, at in self._loads)
        if not inside or self._around(place) is not None:
            return b""
        return _bytes(self._path, place, place + _STUB_BYTES)

    def slot(self, place: int, distance: int) -> str:
        """The function at which the word points that an instruction names by its distance; "" if unknown.

        Args:
            place: behind the instruction.
            distance: from there, in memory.
        """
        for low, high, at in self._loads:
            if at <= place < at + high - low:
                return self._linked().get(place - at + low + distance, "")
        return ""

    def constant(self, place: int, distance: int) -> bool:
        """Whether the word that an instruction names by its distance can't be written."""
        for low, high, at in self._loads:
            if at <= place < at + high - low:
                address = place - at + low + distance
                return any(begin <= address < end for begin, end in self._fixed)
        return False

    def _linked(self) -> Mapping[int, str]:
        """Address of each word that the linker fills -> the function that it then points at."""
        if self._slots is None:
            self._slots = {}
            for rows, table in self._relocations:
                which = (rows["info"] >> np.uint64(32)).astype(np.int64)
                for offset, index in zip(rows["offset"][which > 0].tolist(), which[which > 0].tolist(),
                                         strict=True):  # fmt: skip
                    if index < len(table.symbols):
                        self._slots[offset] = table.name(index)
        return self._slots

    def _around(self, place: int) -> tuple[int, int, int, int] | None:
        i = bisect.bisect_right(self._begins, place) - 1
        return self._functions[i] if i >= 0 and place < self._functions[i][1] else None


def _whole(section: Any) -> bytes:
    """What a section holds, unpacked.

    Raises:
        ValueError: it claims more than any has.
    """
    if section.data_size > _MOST_SECTION_BYTES:
        raise ValueError("a section of more bytes than are read")
    return bytes(section.data())


@lru_cache(maxsize=256)
def _bytes(path: str, begin: int, end: int) -> bytes:
    try:
        with open_observed(path) as file:
            file.seek(begin)
            return file.read(end - begin)
    except (OSError, OverflowError, ValueError):
        return b""  # it has gone meanwhile, or its numbers lie
