from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import latlab

COMPILERS = [c for c in ("g++", "clang++") if shutil.which(c)]
pytestmark = pytest.mark.skipif(
    not COMPILERS or platform.machine() != "x86_64", reason="needs a C++ compiler for x86-64"
)
CODE = """
#include <latlab/bench.hpp>
namespace bench = latlab::bench;
extern "C" void sum_left_out() { int sum = 0; for (int i = 0; i < 1000; ++i) sum += i * i; }
extern "C" void sum_kept(int n) { int sum = 0; for (int i = 0; i < n; ++i) sum += i * i * n;
  bench::do_not_optimize(sum); }
extern "C" int folded() { int x = 20; return x * 3; }
extern "C" int not_folded() { int x = 20; bench::do_not_optimize(x); return x * 3; }
extern "C" void stored_once(int* p) { *p = 1; *p = 2; }
extern "C" void stored_twice(int* p) { *p = 1; bench::clobber(); *p = 2; }
"""


@pytest.fixture(scope="module", params=COMPILERS)
def functions(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder: Path = tmp_path_factory.mktemp("assembly")
    (folder / "code.cpp").write_text(CODE)
    command = [request.param, "-O2", "-std=c++20", f"-I{latlab.get_include()}", "-S", "-masm=intel"]
    command += ["-fno-asynchronous-unwind-tables", "-fcf-protection=none", "code.cpp", "-o", "code.s"]
    subprocess.run(command, cwd=folder, check=True)
    # GCC writes DWORD and Clang dword, and Clang adds comments.
    text = re.sub(r"\s*#.*", "", (folder / "code.s").read_text()).lower()
    return dict(re.findall(r"^(\w+):\n(.*?)(?=^\s*\.size\s)", text, re.M | re.S))


def test_without_a_barrier_the_compiler_leaves_the_work_out(functions: dict[str, str]) -> None:
    assert "imul" not in functions["sum_left_out"]
    assert re.search(r"\b60\b", functions["folded"])
    assert functions["stored_once"].count("mov\tdword ptr [rdi]") == 1


def test_do_not_optimize_keeps_a_computation_whose_result_nobody_uses(functions: dict[str, str]) -> None:
    assert "imul" in functions["sum_kept"]


def test_do_not_optimize_hides_a_constant_from_the_optimiser(functions: dict[str, str]) -> None:
    assert not re.search(r"\b60\b", functions["not_folded"])
    assert re.search(r"\b20\b", functions["not_folded"])


def test_clobber_makes_a_pending_store_happen(functions: dict[str, str]) -> None:
    assert functions["stored_twice"].count("mov\tdword ptr [rdi]") == 2


def test_neither_barrier_calls_anything(functions: dict[str, str]) -> None:
    assert all("call" not in functions[name] for name in ("sum_kept", "not_folded", "stored_twice"))
