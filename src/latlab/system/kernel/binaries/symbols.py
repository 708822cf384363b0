"""Where a running program's variables are: ELF symbols (pyelftools) and /proc/PID/maps (proc(5))."""

from __future__ import annotations

import re
from pathlib import Path

from latlab.errors import InputError, MissingExtraError
from latlab.formats.trusted import open_observed
from latlab.system.kernel.binaries.elf_code import SPOILED

__all__ = ["AddressBook", "plain_name"]

_MOST_SYMBOLS = 1 << 22
_NESTED = re.compile(r"_ZN(?P<parts>(?:K?L?\d+\w+)+)E$")


def plain_name(symbol: str) -> str:
    """A variable's name as its source spells it: "trading::orders" of "_ZN7trading6ordersE".

    Only what variables need of the mangling (Itanium C++ ABI, 5.1): plain and nested names, static ones, and
    anonymous namespaces, which are left out. Anything else stays as it is.
    """
    rest = ""
    if (match := _NESTED.match(symbol)) or (match := re.match(r"_ZL(?P<parts>\d+\w+)$", symbol)):
        rest = match["parts"]
    parts = []
    while match := re.match(r"K?L?(\d+)", rest):
        end = match.end() + int(match[1])
        parts.append(rest[match.end() : end])
        rest = rest[end:]
    parts = [part for part in parts if part != "_GLOBAL__N_1"]
    return symbol if rest or not parts else "::".join(parts)


class AddressBook:
    """The addresses of a running process's variables.

    Args:
        pid: the process.
        proc: for tests.
    """

    def __init__(self, pid: int, *, proc: Path = Path("/proc")) -> None:
        self._folder = proc / str(pid)
        self._name = f"process {pid}"
        self._symbols: dict[str, dict[str, int]] = {}

    def address(self, symbol: str, module: str = "") -> int:
        """Of a variable, in the process.

        Args:
            symbol: as the source spells it, with its namespaces, or as the linker does.
            module: file name of the shared library (or its beginning) that has it; "" for the program itself.

        Raises:
            InputError: where there is none of this name; it says what is near.
            MissingExtraError: without pyelftools.
        """
        path = self._module(module)
        if path not in self._symbols:
            self._symbols[path] = self._read(path)
        found = self._symbols[path]
        if symbol not in found:
            import difflib

            near = difflib.get_close_matches(symbol, found, n=3)
            remedy = f"similar names: {', '.join(near)}" if near else "is it stripped? 'nm -C' lists symbols"
            raise InputError(path, f"has no variable '{symbol}'", remedy=remedy)
        return found[symbol]

    def _module(self, module: str) -> str:
        if not module:
            try:
                return str((self._folder / "exe").readlink())
            except OSError as error:
                raise InputError(self._name, f"can't be looked into ({error.strerror})") from None
        for _, _, path in self._maps():
            if Path(path).name.startswith(module):
                return path
        raise InputError(self._name, f"has loaded no '{module}'")

    def _maps(self) -> list[tuple[int, int, str]]:
        """(address, offset in the file, path) of every mapping of a file, in the order of the addresses."""
        try:
            lines = (self._folder / "maps").read_text(errors="surrogateescape").splitlines()
        except OSError as error:
            raise InputError(self._name, f"its maps can't be read ({error.strerror})") from None
        rows = [line.split(maxsplit=5) for line in lines]
        return [
            (int(row[0].split("-")[0], 16), int(row[2], 16), row[5])
            for row in rows
            if len(row) == 6 and row[5].startswith("/")
        ]

    def _read(self, path: str) -> dict[str, int]:
        try:
            from elftools.common.exceptions import ELFError
            from elftools.elf.elffile import ELFFile
            from elftools.elf.sections import SymbolTableSection
        except ModuleNotFoundError as error:
            raise MissingExtraError("pyelftools", "address") from error
        # Through /proc: the file may have been replaced, or lie in another mount namespace.
        reachable = self._folder / "root" / path.lstrip("/")
        if path == self._module(""):
            reachable = self._folder / "exe"
        found: dict[str, int] = {}
        try:
            with open_observed(reachable) as file:
                elf = ELFFile(file)
                base = 0
                if elf["e_type"] == "ET_DYN":  # position independent: the lowest mapping holds its beginning
                    first = min(s["p_vaddr"] for s in elf.iter_segments() if s["p_type"] == "PT_LOAD")
                    lowest = min(at - offset for at, offset, mapped in self._maps() if mapped == path)
                    base = lowest - (first & ~0xFFF)
                for section in elf.iter_sections():
                    if not isinstance(section, SymbolTableSection):
                        continue
                    if section.num_symbols() > _MOST_SYMBOLS:
                        raise ValueError("it claims more of them than programs have")
                    for symbol in section.iter_symbols():
                        if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_value"]:
                            at = base + symbol["st_value"]
                            found.setdefault(symbol.name, at)
                            found.setdefault(plain_name(symbol.name), at)
        except (OSError, ELFError, *SPOILED) as error:
            raise InputError(path, f"its symbols can't be read ({error})") from None
        return found
