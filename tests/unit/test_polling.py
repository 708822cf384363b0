"""Loops that only look, told from work by their instructions."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.system.kernel.binaries.elf_code import CodeFile
from latlab.system.kernel.polling import LOOKS, TAKES, Polling

pytest.importorskip("capstone")
elffile = pytest.importorskip("elftools.elf.elffile")

SOURCE = r"""
#include <atomic>
#include <chrono>
#include <ctime>
#include <sched.h>
std::atomic<int> a, b;
int numbers[1000];
struct Node { Node* next; };
volatile double kept;
extern "C" {
void spin_equal() { while (a.load() == b.load()) {} }
void spin_pause() { while (!a.load()) __builtin_ia32_pause(); }
void spin_resting() { while (!a.load()) for (int i = 0; i < 50; i++) __builtin_ia32_pause(); }
void spin_yield() { while (!a.load()) sched_yield(); }
void spin_mixed() {
  for (int n = 0; !a.load();) {
    if (++n < 100) __builtin_ia32_pause();
    else { sched_yield(); n = 0; }
  }
}
int spin_or_leave(int n) {
  for (;;) {
    while (a.load() < n) { if (b.load()) return 1; sched_yield(); }
    for (int i = 1; i < 1000; i++) kept = kept + i;
    n++;
  }
}
void work_and_yield() { for (int i = 0; i < 1000; i++) { kept = kept + 1; sched_yield(); } }
void rest() { for (int i = 0; i < 5000; i++) __builtin_ia32_pause(); }
void lock_exchange() { while (a.exchange(1)) while (a.load()) {} }
void lock_pausing() { while (a.exchange(1)) while (a.load()) __builtin_ia32_pause(); }
void lock_compare() { int none = 0; while (!a.compare_exchange_weak(none, 1)) none = 0; }
int sum() { int s = 0; for (int i = 0; i < 1000; i++) s += numbers[i]; return s; }
int chase(Node* n) { int c = 0; for (; n; n = n->next) c++; return c; }
void fill() { for (int i = 0; i < 1000; i++) numbers[i] = i; }
double work() { double s = 1; for (int i = 1; i < 1000; i++) s += 1 / (s + i); return s; }
unsigned mix() { unsigned x = 1; for (int i = 0; i < 1000; i++) x = x * 1664525 + 1013904223; return x; }
void count() { for (int i = 0; i < 1000; i++) kept = kept + 1; }
__attribute__((noinline)) void tick() { kept = kept + 1; }
void goes_on_before(int n) {
  if (__builtin_expect(n == 3, 1)) return tick();
  for (int i = 0; i < 1000; i++) kept = kept + i, kept = kept * 2, kept = kept - i, kept = kept / 3;
}
using Clock = std::chrono::steady_clock;
static __attribute__((noinline)) double seconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}
bool poll_chrono() {
  auto end = Clock::now() + std::chrono::seconds(1);
  while (!a.load()) if (Clock::now() > end) return false;
  return true;
}
bool poll_helper() {
  double end = seconds() + 1;
  while (!a.load()) if (seconds() > end) return false;
  return true;
}
bool poll_counter() {
  unsigned long end = __builtin_ia32_rdtsc() + 1000000;
  while (!a.load()) if (__builtin_ia32_rdtsc() > end) return false;
  return true;
}
struct Ring { std::atomic<unsigned long> head; };
Ring* ring;
bool poll_ring(unsigned long tail) {
  double end = seconds() + 1;
  while (ring->head.load() <= tail) if (seconds() > end) return false;
  return true;
}
void pass_time() { auto end = Clock::now() + std::chrono::seconds(1); while (Clock::now() < end) {} }
void pass_seconds() { double end = seconds() + 1; while (seconds() < end) {} }
void work_for() {
  double end = seconds() + 1;
  while (!a.load()) {
    kept = kept + 1;
    if (seconds() > end) break;
  }
}
double sum_for() {
  double s = 0;
  int i = 0;
  for (double end = seconds() + 1; seconds() < end && !a.load(); i = (i + 1) % 1000) s += numbers[i];
  return s;
}
}
int main() {}
"""


# Some distributions' compilers guard each function's stack, and mark where calls may go.
@pytest.fixture(scope="module", params=[(), ("-fstack-protector-all", "-fcf-protection")])
def program(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    folder = tmp_path_factory.mktemp("polling")
    (folder / "loops.cpp").write_text(SOURCE)
    command = [compiler, "-O2", *request.param, "-o", str(folder / "loops"), str(folder / "loops.cpp")]
    subprocess.run(command, check=True)
    return folder / "loops"


def functions(program: Path) -> Iterator[tuple[str, int, int]]:
    """Name, place in the file and size of each."""
    with program.open("rb") as file:
        elf = elffile.ELFFile(file)
        if elf["e_machine"] != "EM_X86_64":
            pytest.skip("x86-64 only")
        loads = [one for one in elf.iter_segments() if one["p_type"] == "PT_LOAD"]
        for symbol in elf.get_section_by_name(".symtab").iter_symbols():
            address, size = symbol["st_value"], symbol["st_size"]
            if symbol["st_info"]["type"] == "STT_FUNC" and size:
                yield next(
                    (symbol.name, address - one["p_vaddr"] + one["p_offset"], size)
                    for one in loads
                    if one["p_vaddr"] <= address < one["p_vaddr"] + one["p_filesz"]
                )


def kinds_in(program: Path, function: str, at_work: Path | None = None) -> set[str]:
    """Of all addresses of a function; of the same in another file, which may have no symbols."""
    ((at, size),) = [(place, size) for name, place, size in functions(program) if name == function]
    polling = Polling()
    return {polling.kind(str(at_work or program), at + i) for i in range(size)} - {""}


@pytest.mark.parametrize("function", ["spin_equal", "spin_pause", "spin_resting", "spin_yield", "spin_mixed"])
def test_a_loop_that_only_loads_from_one_place_looks(program: Path, function: str) -> None:
    assert kinds_in(program, function) == {LOOKS}


def test_what_leaves_a_loop_that_looks_is_no_part_of_it(program: Path) -> None:
    assert kinds_in(program, "spin_or_leave") == {LOOKS}


@pytest.mark.parametrize("function", ["poll_chrono", "poll_helper", "poll_counter", "poll_ring"])
def test_a_loop_that_looks_and_reads_the_clock_to_give_up_looks(program: Path, function: str) -> None:
    assert kinds_in(program, function) == {LOOKS}


@pytest.mark.parametrize("function", ["pass_time", "pass_seconds", "work_for", "sum_for"])
def test_what_only_reads_the_clock_or_works_until_a_time_is_no_polling(program: Path, function: str) -> None:
    assert kinds_in(program, function) == set()


def test_what_reads_the_clock_is_known_by_what_it_calls(program: Path) -> None:
    polling = Polling()
    clocks = {name: polling.reads_clock(str(program), place) for name, place, _ in functions(program)}
    assert {name for name, reads in clocks.items() if reads} == {"seconds"}


@pytest.mark.parametrize("function", ["lock_exchange", "lock_compare", "lock_pausing"])
def test_a_loop_around_an_atomic_exchange_takes_with_the_loop_inside(program: Path, function: str) -> None:
    assert kinds_in(program, function) == {TAKES}


@pytest.mark.parametrize(
    "function",
    [
        "sum",
        "chase",
        "fill",
        "work",
        "mix",
        "count",
        "rest",
        "work_and_yield",
        "goes_on_before",
    ],
)
def test_work_in_a_loop_is_no_polling(program: Path, function: str) -> None:
    assert kinds_in(program, function) == set()


@pytest.mark.parametrize(
    ("function", "kinds"), [("spin_pause", {LOOKS}), ("lock_exchange", {TAKES}), ("sum", set())]
)
def test_loops_of_a_stripped_program_are_told_apart(program: Path, function: str, kinds: set[str]) -> None:
    bare = program.with_name("bare")
    subprocess.run(["strip", "-o", str(bare), str(program)], check=True)
    code = CodeFile.read(str(bare))
    assert code is not None
    (begin,) = [place for name, place, _ in functions(program) if name == function]
    found = code.function(begin + 1)
    assert (code.name(begin), found is not None and found[1]) == ("", begin)
    assert kinds_in(program, function, bare) == kinds


def test_a_place_that_is_not_in_the_file_has_no_code(program: Path) -> None:
    code = CodeFile.read(str(program))
    assert code is not None
    assert (code.stub(-4096), code.stub(1 << 40), code.function(-1)) == (b"", b"", None)


def test_what_is_no_program_is_no_polling(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    assert Polling().kind(str(tmp_path / "text"), 3) == ""
    assert Polling().kind("[vdso]", 3) == ""
