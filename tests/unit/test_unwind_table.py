"""Where functions without names begin, on a file that is made by hand."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.system.kernel.binaries.elf_code import CodeFile
from latlab.system.kernel.binaries.symbols import AddressBook
from latlab.system.kernel.binaries.unwind_table import UnwindTable

BASE, TABLE = 0x401000, 0x402000  # of the code, and of the table, in memory
AT, TABLE_AT = 0x1000, 0x2000  # in the file


def binary(
    path: Path, *, form: bytes = bytes((1, 0x1B, 0x03, 0x3B)), begins: tuple[int, ...] = (0x10, 0x90)
) -> str:
    entries = b"".join(struct.pack("<ii", BASE + one - TABLE, 0) for one in begins)
    table = form + bytes(4) + struct.pack("<I", len(begins)) + entries
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, AT, BASE, BASE, 0x100, 0x100, 0x1000)
    unwind = struct.pack("<IIQQQQQQ", 0x6474E550, 4, TABLE_AT, TABLE, TABLE, len(table), len(table), 4)
    text = (header + load + unwind).ljust(AT, b"\0").ljust(TABLE_AT, b"\0") + table
    path.write_bytes(text)
    return str(path)


def test_a_place_belongs_to_the_function_that_begins_before_it(tmp_path: Path) -> None:
    table = UnwindTable.read(binary(tmp_path / "stripped"))
    assert table is not None
    first, second = (AT + 0x10, AT + 0x90), (AT + 0x90, AT + 0x100)
    assert [table.around(AT + one) for one in (0x10, 0x8F, 0x90, 0xFF)] == [first, first, second, second]


def test_what_lies_before_all_functions_or_outside_of_the_code_begins_nowhere(tmp_path: Path) -> None:
    table = UnwindTable.read(binary(tmp_path / "stripped"))
    assert table is not None
    assert (table.around(AT + 4), table.around(0x5000)) == (None, None)


def test_a_file_without_such_a_table_has_none(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no program")
    assert UnwindTable.read(str(text)) is None
    assert UnwindTable.read(str(tmp_path / "gone")) is None
    assert UnwindTable.read(binary(tmp_path / "other", form=bytes((1, 0, 0, 0)))) is None


def test_a_pipe_in_a_program_s_place_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "program (deleted)")
    assert UnwindTable.read(str(tmp_path / "program (deleted)")) is None
    assert CodeFile.read(str(tmp_path / "program (deleted)")) is None
    assert UnwindTable.read("/dev/zero") is None
    assert CodeFile.read("/dev/zero") is None


def test_a_table_that_claims_more_than_there_is_takes_no_memory(tmp_path: Path) -> None:
    path = Path(binary(tmp_path / "program"))
    data = bytearray(path.read_bytes())
    struct.pack_into("<Q", data, 64 + 56 + 32, 1 << 62)  # p_filesz of the second segment
    path.write_bytes(data)
    table = UnwindTable.read(str(path))
    assert table is not None
    assert table.around(AT + 0x10) == (AT + 0x10, AT + 0x90)


def claiming(path: Path, kind: int, entry: int = 24) -> None:
    """A program with a section that claims more than there is."""
    data = bytearray(Path(binary(path)).read_bytes())
    struct.pack_into("<Q", data, 40, len(data))  # e_shoff
    struct.pack_into("<HHH", data, 58, 64, 2, 0)  # e_shentsize, e_shnum, e_shstrndx
    table = struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, 0, 24, 0, 0, 8, 24)
    claims = struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, 0, 1 << 45, 0, 0, 8, entry)
    path.write_bytes(bytes(data) + table + claims)


@pytest.mark.parametrize("kind", [2, 4])  # SHT_SYMTAB, SHT_RELA
def test_a_section_that_claims_more_than_programs_have_is_not_read(tmp_path: Path, kind: int) -> None:
    claiming(tmp_path / "program", kind)
    assert CodeFile.read(str(tmp_path / "program")) is None


@pytest.mark.parametrize("entry", [0, 24])
def test_symbols_that_are_more_than_programs_have_are_not_read(tmp_path: Path, entry: int) -> None:
    claiming(program := tmp_path / "program", 2, entry)
    (process := tmp_path / "7").mkdir()
    (process / "exe").symlink_to(program)
    (process / "maps").write_text(f"401000-402000 r-xp 00001000 00:00 1 {program}\n")
    with pytest.raises(InputError, match="its symbols can't be read"):
        AddressBook(7, proc=tmp_path).address("orders")
