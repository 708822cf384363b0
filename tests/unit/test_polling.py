"""Loops that only look, told from work by their instructions."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from latlab.system.kernel.polling import LOOKS, TAKES, Polling

pytest.importorskip("capstone")
elffile = pytest.importorskip("elftools.elf.elffile")

SOURCE = r"""
#include <atomic>
std::atomic<int> a, b;
int numbers[1000];
struct Node { Node* next; };
volatile double kept;
extern "C" {
void spin_equal() { while (a.load() == b.load()) {} }
void spin_pause() { while (!a.load()) __builtin_ia32_pause(); }
void lock_exchange() { while (a.exchange(1)) while (a.load()) {} }
void lock_compare() { int none = 0; while (!a.compare_exchange_weak(none, 1)) none = 0; }
int sum() { int s = 0; for (int i = 0; i < 1000; i++) s += numbers[i]; return s; }
int chase(Node* n) { int c = 0; for (; n; n = n->next) c++; return c; }
void fill() { for (int i = 0; i < 1000; i++) numbers[i] = i; }
double work() { double s = 1; for (int i = 1; i < 1000; i++) s += 1 / (s + i); return s; }
unsigned mix() { unsigned x = 1; for (int i = 0; i < 1000; i++) x = x * 1664525 + 1013904223; return x; }
void count() { for (int i = 0; i < 1000; i++) kept = kept + 1; }
}
int main() {}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("polling")
    (folder / "loops.cpp").write_text(SOURCE)
    subprocess.run([compiler, "-O2", "-o", str(folder / "loops"), str(folder / "loops.cpp")], check=True)
    return folder / "loops"


def kinds_in(program: Path, function: str) -> set[str]:
    with program.open("rb") as file:
        elf = elffile.ELFFile(file)
        if elf["e_machine"] != "EM_X86_64":
            pytest.skip("x86-64 only")
        (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name(function)
        address, size = symbol["st_value"], symbol["st_size"]
        at = next(
            address - one["p_vaddr"] + one["p_offset"]
            for one in elf.iter_segments()
            if one["p_type"] == "PT_LOAD" and one["p_vaddr"] <= address < one["p_vaddr"] + one["p_filesz"]
        )
    polling = Polling()
    return {polling.kind(str(program), at + i) for i in range(size)} - {""}


@pytest.mark.parametrize("function", ["spin_equal", "spin_pause"])
def test_a_loop_that_only_loads_from_one_place_looks(program: Path, function: str) -> None:
    assert kinds_in(program, function) == {LOOKS}


@pytest.mark.parametrize("function", ["lock_exchange", "lock_compare"])
def test_a_loop_around_an_atomic_exchange_takes_with_the_loop_inside(program: Path, function: str) -> None:
    assert kinds_in(program, function) == {TAKES}


@pytest.mark.parametrize("function", ["sum", "chase", "fill", "work", "mix", "count"])
def test_work_in_a_loop_is_no_polling(program: Path, function: str) -> None:
    assert kinds_in(program, function) == set()


def test_what_is_no_program_is_no_polling(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    assert Polling().kind(str(tmp_path / "text"), 3) == ""
    assert Polling().kind("[vdso]", 3) == ""
