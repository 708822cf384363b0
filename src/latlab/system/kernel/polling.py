"""Which sampled addresses lie in loops that only look whether something has changed.

Such a loop loads from places that it doesn't move, compares and jumps back: it makes no progress by itself.
One that tries to take a word by an atomic exchange is a lock that spins. Read from the program's file with
capstone and pyelftools, where these are installed; x86-64.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["LOOKS", "TAKES", "Polling"]

LOOKS = "looks"
TAKES = "takes"

_MOST_INSTRUCTIONS = 48  # of a loop that only looks
_MOST_LONG = 15 * _MOST_INSTRUCTIONS  # bytes of it
_MOST_BYTES = 1 << 16  # of a function
# Who reads the clock again and again may look, or be at work for so long: that is left open.
_FREE = ("cmp", "test", "nop", "pause", "endbr64", "lfence", "mfence", "tpause")
_CHEAP = ("mov", "movzx", "movsx", "movsxd", "movabs", "xor", "and", "or", "not", "shl", "shr", "sar", "bt",
          "lea", "add", "sub", "inc", "dec", "neg", "cdqe", "cltq")  # fmt: skip
_ATOMIC = (
    "xchg",
    "cmpxchg",
    *(f"lock {name}" for name in ("cmpxchg", "bts", "btr", "or", "and", "xadd", "xchg")),
)
# Elf64_Sym, little-endian: elf(5).
_SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
_STT_FUNC = 2


class Polling:
    """Looks at addresses in files; remembers what it has read. Finds nothing where a tool is missing."""

    def __init__(self) -> None:
        try:
            import capstone
            import elftools  # noqa: F401
        except ModuleNotFoundError:
            self._capstone: Any = None
        else:
            self._capstone = capstone
        self._files: dict[str, _File | None] = {}

    @property
    def missing(self) -> bool:
        """Whether loops can't be told from work, for want of capstone or pyelftools."""
        return self._capstone is None

    def kind(self, module: str, offset: int) -> str:
        """LOOKS, TAKES or "" for the innermost frame of a running sample.

        Args:
            offset: of the address in the file.
        """
        if self._capstone is None or not module.startswith("/"):
            return ""
        if module not in self._files:
            self._files[module] = _File.read(module)
        file = self._files[module]
        found = None if file is None else file.function(offset)
        return "" if found is None else _judged(self._capstone, *found, offset)


class _File:
    """An ELF file's functions, by their place in the file."""

    def __init__(self, path: str, bounds: Iterable[tuple[int, int]]) -> None:
        self._path = path
        self._bounds = sorted(set(bounds))
        self._begins = [begin for begin, _ in self._bounds]

    @classmethod
    def read(cls, path: str) -> _File | None:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
        from elftools.elf.sections import SymbolTableSection

        try:
            with open(path, "rb") as file:
                elf = ELFFile(file)
                if elf["e_machine"] != "EM_X86_64":
                    return None
                loads = [
                    (one["p_vaddr"], one["p_vaddr"] + one["p_filesz"], one["p_offset"])
                    for one in elf.iter_segments()
                    if one["p_type"] == "PT_LOAD"
                ]
                bounds = []
                for section in elf.iter_sections():
                    if not isinstance(section, SymbolTableSection):
                        continue
                    symbols = np.frombuffer(section.data(), _SYMBOL)
                    of_code = symbols["info"] & 15 == _STT_FUNC
                    symbols = symbols[of_code & (symbols["size"] > 0) & (symbols["size"] <= _MOST_BYTES)]
                    for low, high, at in loads:
                        inside = symbols[(symbols["value"] >= low) & (symbols["value"] < high)]
                        begins = inside["value"].astype(np.int64) - low + at
                        bounds += list(
                            zip(
                                begins.tolist(),
                                (begins + inside["size"].astype(np.int64)).tolist(),
                                strict=True,
                            )
                        )
                return cls(path, bounds)
        except (OSError, ELFError, ValueError):
            return None  # gone, or no ELF file: nothing is known of its loops

    def function(self, offset: int) -> tuple[bytes, int] | None:
        """The code of the function around a place in the file, and where it begins."""
        i = bisect.bisect_right(self._begins, offset) - 1
        if i < 0 or offset >= self._bounds[i][1]:
            return None
        begin, end = self._bounds[i]
        return _bytes(self._path, begin, end), begin


@lru_cache(maxsize=256)
def _bytes(path: str, begin: int, end: int) -> bytes:
    with Path(path).open("rb") as file:
        file.seek(begin)
        return file.read(end - begin)


@lru_cache(maxsize=4096)
def _judged(capstone: Any, code: bytes, begin: int, offset: int) -> str:
    """What the smallest loop around an address does; one that looks, in one that takes, is part of that."""
    around = sorted(
        (high - low, low, high) for low, high in _loops(capstone, code, begin) if low <= offset <= high
    )
    kinds = []
    for length, low, high in around:
        kinds.append(_kind_of_loop(capstone, code, begin, low, high) if length <= _MOST_LONG else "")
        if not kinds[0]:
            return ""
    return "" if not kinds else TAKES if TAKES in kinds else LOOKS


@lru_cache(maxsize=512)
def _loops(capstone: Any, code: bytes, begin: int) -> tuple[tuple[int, int], ...]:
    """Where each loop of a function begins, and the jump that ends it.

    Read without details: a function of an interpreter has ten thousand instructions, and a detailed one
    costs as much as twenty plain ones.
    """
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    found = set()
    for address, _, name, operands in reader.disasm_lite(code, begin):
        if name.startswith(("j", "loop")) and operands.startswith("0x") and int(operands, 16) <= address:
            found.add((int(operands, 16), address))
    return tuple(sorted(found))


@lru_cache(maxsize=4096)
def _kind_of_loop(capstone: Any, code: bytes, begin: int, low: int, high: int) -> str:
    reader = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    reader.detail = True
    # The jump itself is up to six bytes long.
    body = [one for one in reader.disasm(code[low - begin : high - begin + 15], low) if one.address <= high]
    return _kind_of(capstone, body) if len(body) <= _MOST_INSTRUCTIONS else ""


def _kind_of(capstone: Any, body: list[Any]) -> str:
    moving = _moving(capstone, body)
    loads = takes = False
    for one in body:
        name = f"{one.mnemonic}"
        if capstone.CS_GRP_CALL in one.groups or capstone.CS_GRP_RET in one.groups:
            return ""
        if capstone.CS_GRP_JUMP in one.groups:
            continue
        atomic = name in _ATOMIC
        if not atomic and name not in _FREE and name not in _CHEAP:
            return ""
        for operand in one.operands:
            if operand.type != capstone.CS_OP_MEM or name in ("lea", "nop"):
                continue
            base, index = one.reg_name(operand.mem.base), one.reg_name(operand.mem.index)
            stack = base in ("rsp", "rbp")
            moved = any(_whole(reg) in moving for reg in (base, index) if reg)
            stores = bool(operand.access & capstone.CS_AC_WRITE)
            if moved or (stores and not atomic and not stack):
                return ""
            loads = loads or not stack
            takes = takes or atomic
    return TAKES if takes else LOOKS if loads else ""


def _moving(capstone: Any, body: list[Any]) -> set[str]:
    """Registers that may differ from turn to turn, but for what is only loaded from the same place again."""
    writers: dict[str, list[Any]] = {}
    for one in body:
        for reg in one.regs_access()[1]:
            name = _whole(one.reg_name(reg))
            if name != "flags":
                writers.setdefault(name, []).append(one)
    moving = set(writers)

    def steady(one: Any) -> bool:
        if one.mnemonic not in ("mov", "movzx", "movsxd", "lea", "movabs"):
            return False
        return not any(_whole(one.reg_name(reg)) in moving for reg in one.regs_access()[0])

    while True:
        still = {name for name in moving if not all(steady(one) for one in writers[name])}
        if still == moving:
            return moving
        moving = still


def _whole(register: str) -> str:
    """One name for all widths of a register."""
    if register in ("rflags", "eflags"):
        return "flags"
    if match := re.fullmatch(r"r(\d+)[dwb]?", register):
        return f"r{match[1]}"
    short = register.lstrip("re") if register[:1] in "re" else register
    return short[:1] + "x" if re.fullmatch(r"[abcd][xlh]", short) else short.removesuffix("l")
