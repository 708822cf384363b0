"""The two processes of a pair lie alike, and one pair not like the next."""

from __future__ import annotations

import ctypes
import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest

import latlab
from latlab import bench
from latlab.bench.processes.process import draws_places, measure_once, measure_pair

# run() tells where it lies as its number of operations.
NATIVE = """
#include <latlab/bench.hpp>
#include <memory>
static int here;
struct Code {
  static constexpr bool counts_operations = true;
  std::uint64_t run() { return 1 + (reinterpret_cast<std::uintptr_t>(&here) >> 12) % 1'000'000'007; }
};
struct Line {  // where its function begins within a line of the cache, in steps of 16 bytes
  static constexpr bool counts_operations = true;
  __attribute__((noinline)) static void function() { latlab::bench::clobber(); }
  std::uint64_t run() { return 1 + (reinterpret_cast<std::uintptr_t>(&function) >> 4) % 4; }
};
struct Heap {
  static constexpr bool counts_operations = true;
  std::unique_ptr<int> data = std::make_unique<int>(1);
  std::uint64_t run() { return 1 + (reinterpret_cast<std::uintptr_t>(data.get()) >> 4) % 1'000'000'007; }
};
LATLAB_BENCHMARK(Code)
LATLAB_BENCHMARK(Heap)
LATLAB_BENCHMARK(Line)
"""
PYTHON = """
class Object:
    counts_operations = True
    def __init__(self):
        self.data = [[i] for i in range(10)]
    def run(self):
        return 1 + id(self.data[5]) % 1_000_000_007
class Constant:
    counts_operations = True
    def __init__(self):
        self.data = (1.5, "a constant that nobody reads")
    def run(self):
        return 1 + id(self.__dict__) % 16384
class Hash:
    counts_operations = True
    def run(self):
        return 1 + hash("a") % 1_000_000_007
"""
ASK = 0xFFFFFFFF


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("layout")
    (out / "fixtures.py").write_text(PYTHON)
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    (out / "fixtures.cpp").write_text(NATIVE)
    command = [compiler, "-O2", "-std=c++20", "-shared", "-fPIC", f"-I{latlab.get_include()}"]
    subprocess.run([*command, str(out / "fixtures.cpp"), "-o", str(out / "fixtures.so")], check=True)
    return out


def settings(turn: int) -> bench.Settings:
    return dataclasses.replace(bench.default_settings(), iterations=4, warmup=0, batch=1, turn=turn)


@pytest.mark.parametrize("turn", [0, 2])
@pytest.mark.parametrize("fixture", ["so:Code", "so:Heap", "py:Hash", "py:Object"])
def test_the_processes_of_a_pair_have_one_layout_and_pairs_have_others(
    folder: Path, fixture: str, turn: int
) -> None:
    target = bench.settle(bench.parse(str(folder / f"fixtures.{fixture}")))
    pairs = [measure_pair(target, target, settings(turn)) for _ in range(4)]
    if "placed" not in pairs[0][0].context:
        pytest.skip("this machine doesn't let a process choose its addresses")
    assert [a.operations - b.operations for a, b in pairs] == [0] * 4
    assert len({a.operations for a, _ in pairs}) >= 3


def test_a_process_alone_lies_where_the_kernel_puts_it_and_so_does_what_latlab_starts_later(
    folder: Path,
) -> None:
    before = ctypes.CDLL(None).personality(ctypes.c_ulong(ASK))
    target = bench.settle(bench.parse(str(folder / "fixtures.so:Code")))
    measure_pair(target, target, settings(2))
    assert "placed" not in measure_once(target, settings(0)).context
    assert ctypes.CDLL(None).personality(ctypes.c_ulong(ASK)) == before


def test_the_same_object_of_a_python_fixture_lies_anywhere_in_its_page(folder: Path) -> None:
    target = bench.settle(bench.parse(str(folder / "fixtures.py:Constant")))
    pairs = [measure_pair(target, target, settings(2)) for _ in range(8)]
    if "placed" not in pairs[0][0].context:
        pytest.skip("this machine doesn't let a process choose its addresses")
    assert len({a.operations for a, _ in pairs}) >= 6


@pytest.mark.parametrize("turn", [0, 2])
def test_four_pairs_place_a_function_everywhere_in_a_line_and_both_sides_alike(
    folder: Path, turn: int
) -> None:
    target = bench.settle(bench.parse(str(folder / "fixtures.so:Line")))
    if draws_places(target, target, settings(0)) != (True, True):
        pytest.skip("this machine's files can't be moved")
    moved = dataclasses.replace(settings(turn), moved=True)
    pairs = [measure_pair(target, target, moved, place) for place in range(4)]
    assert [a.operations - b.operations for a, b in pairs] == [0] * 4
    assert sorted(a.operations for a, _ in pairs) == [1, 2, 3, 4]
    assert len({measure_pair(target, target, settings(turn), p)[0].operations for p in range(4)}) == 1


MAIN = """
#include <cstdint>
#include <cstdio>
#include <cstdlib>
__attribute__((noinline)) static void function() { asm volatile(""); }
int main(int, char** argv) {
  if (std::FILE* out = std::fopen(std::getenv("LATLAB_TEST_PLACES"), "a")) {
    std::fprintf(out, "%s %d\\n", argv[0], int((reinterpret_cast<std::uintptr_t>(&function) >> 4) % 4));
    std::fclose(out);
  }
}
"""


def test_a_compiled_command_is_placed_anew_and_keeps_its_name(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = shutil.which("g++") or "clang++"
    (folder / "main.cpp").write_text(MAIN)
    subprocess.run([compiler, "-O2", "-fPIE", "-pie", folder / "main.cpp", "-o", folder / "main"], check=True)
    out = folder / "places"
    monkeypatch.setenv("LATLAB_TEST_PLACES", str(out))
    target = bench.parse(str(folder / "main"))
    free = dataclasses.replace(settings(0), cpu=None, priority=0, iterations=1)
    if draws_places(target, target, free) != (True, True):
        pytest.skip("this machine's files can't be moved")
    out.unlink()
    for place in range(4):
        measure_pair(target, target, dataclasses.replace(free, moved=True), place)
    lines = [line.split() for line in out.read_text().splitlines()]
    assert {name for name, _ in lines} == {str(folder / "main")}
    assert sorted(place for _, place in lines) == [str(p) for p in range(4) for _ in "AB"]


def test_only_what_two_builds_or_two_fixtures_of_one_place_differently_is_placed_anew(folder: Path) -> None:
    def plan(a: str, b: str, build: str | None = None) -> str:
        one, other = (bench.settle(bench.parse(str(folder / name))) for name in (a, b))
        asked = bench.Asked(seconds=0.3, seed=1, max_pairs=4, build=build)
        return bench.run_ab(one, other, settings(0), asked, bench.Recorder(), control=False)[1].why

    shutil.copy(folder / "fixtures.so", folder / "other.so")
    line = bench.parse(str(folder / "fixtures.so:Line"))
    if draws_places(line, line, settings(0)) != (True, True):
        pytest.skip("this machine's files can't be moved")
    another = "another placement"
    assert another in plan("fixtures.so:Code", "other.so:Code")
    assert another in plan("fixtures.so:Code", "fixtures.so:Heap")
    assert another not in plan("fixtures.so:Code", "fixtures.so:Code")
    assert another not in plan("fixtures.so:Code", "other.so:Code", build="true")
    assert another not in plan("fixtures.py:Object", "fixtures.py:Constant")
