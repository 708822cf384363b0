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
from latlab.bench.processes.process import measure_once, measure_pair

# run() tells where it lies as its number of operations.
NATIVE = """
#include <latlab/bench.hpp>
#include <memory>
static int here;
struct Code {
  static constexpr bool counts_operations = true;
  std::uint64_t run() { return 1 + (reinterpret_cast<std::uintptr_t>(&here) >> 12) % 1'000'000'007; }
};
struct Heap {
  static constexpr bool counts_operations = true;
  std::unique_ptr<int> data = std::make_unique<int>(1);
  std::uint64_t run() { return 1 + (reinterpret_cast<std::uintptr_t>(data.get()) >> 4) % 1'000'000'007; }
};
LATLAB_BENCHMARK(Code)
LATLAB_BENCHMARK(Heap)
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
    command = [compiler, "-O1", "-std=c++20", "-shared", "-fPIC", f"-I{latlab.get_include()}"]
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
