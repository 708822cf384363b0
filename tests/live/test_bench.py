from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import latlab

PY = """
import asyncio, os, time
report = {"context": "a test of the tests"}
class Sum:
    counts_operations = True
    parameters = {"size": [10, 100]}
    def __init__(self, size=10):
        self.numbers = list(range(size))
    def run(self):
        sum(self.numbers)
        return len(self.numbers)
class Prepared:
    def set_up(self):
        self.ready = 1
    def run(self):
        self.ready -= 1
    def tear_down(self):
        assert self.ready == 0
        print("this must not get into the results")
class Coroutine:
    async def run(self):
        await asyncio.sleep(0)
class Throws:
    def run(self):
        raise ValueError("planned")
class Hangs:
    def run(self):
        time.sleep(100)
class Strays:
    def run(self):
        os.sched_setaffinity(0, {})
class Uneven:
    counts_operations = True
    count = 0
    def run(self):
        self.count += 1
        return self.count
class Leaves:
    def run(self):
        os._exit(0)
class Demotes:
    def run(self):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
class Needs:
    def __init__(self, size):
        pass
    def run(self):
        pass
class Backwards:
    counts_operations = True
    async def run(self):
        return -1
class Eats:
    def run(self):
        taken = []
        while True:
            taken.append(bytearray(1 << 24))
def function():
    return "not a count"
"""
CPP = """
#include <latlab/bench.hpp>
#include <stdexcept>
namespace bench = latlab::bench;
struct Loop {
  std::uint64_t size;
  explicit Loop(const bench::Parameters& p) : size(p.get("size", 100)) {}
  void run() { for (std::uint64_t i = 0; i < size; ++i) bench::do_not_optimize(i); }
};
struct Throws { void run() { throw std::runtime_error("planned"); } };
struct Uneven {
  static constexpr bool counts_operations = true;
  int count = 0;
  int run() { return ++count; }
};
LATLAB_BENCHMARK(Loop)
LATLAB_BENCHMARK(Throws)
LATLAB_BENCHMARK(Uneven)
LATLAB_BENCHMARK_REPORT("why", "it is \\"quoted\\"")
extern "C" int c_function() { return 1; }
"""
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench")
    (out / "fixtures.py").write_text(PY)
    (out / "fixtures.cpp").write_text(CPP)
    (out / "program.cpp").write_text(
        "#include <latlab/bench_runner.hpp>\nstruct Nothing { void run() {} };\n"
        "LATLAB_BENCHMARK(Nothing)\nLATLAB_BENCHMARK_MAIN()\n"
    )
    if COMPILER is not None:
        base = [COMPILER, "-O2", "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{latlab.get_include()}"]
        shared = ["-shared", "-fPIC", "fixtures.cpp", "-o", "fixtures.so"]
        for rest in (shared, ["program.cpp", "-o", "program"]):
            subprocess.run([*base, *rest], cwd=out, check=True)
    return out


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    return subprocess.run(
        [sys.executable, "-m", "latlab", "bench", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def document(done: subprocess.CompletedProcess[str]) -> Mapping[str, Any]:
    assert done.stdout, done.stderr
    out: Mapping[str, Any] = json.loads(done.stdout)
    assert out["schema"] == 1
    return out


FEW = ("--iterations", "30", "--processes", "2")


def measured(folder: Path, *arguments: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = document(bench(folder, "run", *arguments, "--json", *FEW))["benchmarks"][0]
    return found


@pytest.mark.side_by_side
def test_a_fixture_is_measured_for_each_of_its_parameters_without_a_mean(folder: Path) -> None:
    found = document(bench(folder, "run", "fixtures.py:Sum", "--json", *FEW))["benchmarks"]
    assert [b["name"] for b in found] == ["Sum[size=10]", "Sum[size=100]"]
    assert [b["operations"] for b in found] == [10, 100]
    summary = found[0]["summary"]
    assert list(summary) == ["count", "min", "p25", "p50", "p75", "p90", "p99", "p99.9", "max"]
    assert summary["count"] == 60
    assert 0 < summary["min"] <= summary["p50"] <= summary["max"]
    # A batch of an operation so short has runs beside it that are timed one by one, enough for a tail.
    assert found[0]["one_by_one"] >= 200
    assert summary["p75"] > 0
    assert 0 < summary["p90"] <= summary["p99"] <= summary["max"]
    assert (summary["p99.9"] is None) == (found[0]["one_by_one"] < 1000)
    single = document(bench(folder, "run", "fixtures.py:Sum", "--batch", "1", "--json", *FEW))["benchmarks"]
    assert (single[0]["one_by_one"], single[0]["summary"]["p99.9"]) == (0, None)
    assert "mean" in measured(folder, "fixtures.py:function", "--mean")["summary"]


@pytest.mark.side_by_side
def test_set_up_and_tear_down_surround_each_iteration_and_coroutines_run(folder: Path) -> None:
    for name in ("Prepared", "Coroutine", "function"):
        done = bench(folder, "run", f"fixtures.py:{name}", "--json", *FEW)
        assert (done.returncode, document(done)["benchmarks"][0]["summary"]["count"]) == (0, 60), done.stderr


@pytest.mark.side_by_side
@needs_compiler
def test_shared_objects_c_functions_and_programs_are_driven_by_the_same_runner(folder: Path) -> None:
    for name in ("fixtures.so:Loop", "fixtures.so:c_function", "./program"):
        found = document(bench(folder, "run", name, "--json", *FEW))["benchmarks"][0]
        assert found["summary"]["count"] == 60
        assert found["batch"] > 1
        assert found["clock"]["quantum_ns"] > 0
        assert found["clock"]["read_ns"] > 0


@pytest.mark.side_by_side
@needs_compiler
def test_the_authors_words_in_a_shared_object_stand_in_its_recording(folder: Path) -> None:
    bench(folder, "run", "fixtures.so:Loop", "--raw", "words.csv", *FEW)
    meta = json.loads((folder / "words.csv").read_text().splitlines()[1].removeprefix("# "))
    assert meta["report"] == {"why": 'it is "quoted"'}


@needs_compiler
def test_a_loop_of_a_thousand_times_as_many_steps_takes_much_longer(folder: Path) -> None:
    one, other = (
        measured(folder, "fixtures.so:Loop", "--size", size)["summary"]["min"] for size in ("100", "100000")
    )
    assert 100 < other / one < 10_000


@pytest.mark.smoke
def test_a_command_is_measured_after_two_dashes(folder: Path) -> None:
    found = document(bench(folder, "--json", "--processes", "3", "--", "true"))["benchmarks"][0]
    assert (found["name"], found["summary"]["count"]) == ("true", 3)


@pytest.mark.side_by_side
def test_csv_has_its_lines_after_the_hash_lines_and_no_header(folder: Path) -> None:
    lines = bench(folder, "run", "fixtures.py:Prepared", "--csv", *FEW).stdout.splitlines()
    values = [line for line in lines if not line.startswith("#")]
    assert lines[0].startswith("# ")
    assert len(values) == 60
    assert lines[-60:] == values
    name, value = values[0].split(",")
    assert name == "Prepared"
    assert float(value) > 0


@pytest.mark.side_by_side
@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("Throws", 1, "ValueError: planned (line"),
        ("Hangs", 1, "has not ended within 1.5 s"),
        ("Strays", 1, "it threw"),
        ("Uneven", 3, "run() returned different counts"),
        ("Eats", 1, "memory limit was reached"),
        ("Leaves", 1, "ended before it wrote its result"),
        ("Demotes", 3, "changed its own scheduling"),
        ("Needs", 1, "missing 1 required positional argument: 'size'\n"),
        ("Backwards", 1, "a number of operations above 0"),
        ("Nonsense", 2, "no such fixture or function"),
    ],
)
def test_a_bad_fixture_is_one_clear_line_and_no_number(
    folder: Path, name: str, code: int, words: str
) -> None:
    timeout = "1.5" if name == "Hangs" else "60"
    memory = ("--memory", "600000000") if name == "Eats" else ()
    done = bench(folder, "run", f"fixtures.py:{name}", "--timeout", timeout, *memory)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor only")
def test_a_fixture_that_changes_its_affinity_is_not_trusted(folder: Path) -> None:
    first, *_, last = sorted(os.sched_getaffinity(0))
    (folder / "strays.py").write_text(
        f"import os\nclass Strays:\n    def run(self):\n        os.sched_setaffinity(0, {{{first}}})\n"
    )
    done = bench(folder, "run", "strays.py", "--cpus", str(last))
    assert (done.returncode, done.stdout) == (3, "")
    assert "changed its own affinity" in done.stderr


@pytest.mark.side_by_side
@needs_compiler
def test_bad_native_fixtures_and_commands_are_one_line_too(folder: Path) -> None:
    for name, words in (("Throws", "it threw: planned"), ("Uneven", "different counts"), ("x", "no such")):
        done = bench(folder, "run", f"fixtures.so:{name}")
        assert (done.returncode != 0, words in done.stderr, done.stdout) == (True, True, "")
    for command in (("--", "false"), ("--", "no-such-program")):
        done = bench(folder, *command)
        assert (done.returncode != 0, len(done.stderr.splitlines())) == (True, 1)


@needs_compiler
@pytest.mark.smoke
def test_a_side_that_does_three_times_the_work_is_slower_with_exit_code_4(folder: Path) -> None:
    (folder / "more.cpp").write_text(CPP.replace('"size", 100', '"size", 1000'))
    base = [str(COMPILER), "-O2", "-std=c++20", f"-I{latlab.get_include()}", "-shared", "-fPIC"]
    subprocess.run([*base, "more.cpp", "-o", "more.so"], cwd=folder, check=True)
    arguments = ["ab", "fixtures.so:Loop", "more.so:Loop", "--effect", "1%", "--seconds", "10"]
    arguments += ["--iterations", "30"]
    done = bench(folder, *arguments, "--json", "--raw", "raw.csv", "-o", "recording")
    found = document(done)
    assert (found["verdict"], done.returncode) == ("slower", 4)
    assert found["interval"][0] > 1
    assert found["p_value"] <= 0.05
    assert found["pairs"] == found["needed_pairs"] >= 7
    assert found["shifts"][-1]["withheld"]
    # exchanged, it is faster, and no regression
    done = bench(folder, "ab", arguments[2], arguments[1], *arguments[3:], "--json")
    assert (document(done)["verdict"], done.returncode) == ("faster", 0)


def test_two_commands_are_compared_and_too_few_pairs_are_inconclusive_with_exit_code_3(folder: Path) -> None:
    done = bench(folder, "ab", "true", "true", "--pairs", "2", "--json")
    found = document(done)
    assert (found["verdict"], done.returncode, found["pairs"]) == ("inconclusive", 3, 2)
    assert found["needed_pairs"] > 2
    assert "more pairs" in found["why"]


def test_a_null_control_counts_what_it_calls_different(folder: Path) -> None:
    few = ("--comparisons", "2", "--pairs", "2", "--iterations", "20")
    done = bench(folder, "aa", "fixtures.py:function", *few, "--json")
    found = document(done)
    assert (found["comparisons"], found["called_different"], found["rate"]) == (2, 0, 0.0)
    assert 0.7 < found["upper95"] < 0.8


def test_a_host_that_failed_its_null_control_is_refused_verdicts(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from latlab.bench.measuring import control as _control

    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    _control.remember(_control.control_of(20, 14, 0.05), "a map")
    done = bench(folder, "ab", "true", "true", "--pairs", "2", "--json")
    _control.path().unlink()
    found = document(done)
    assert (found["verdict"], done.returncode) == ("refused", 3)
    assert "failed its null control: it called 14 of 20" in found["why"]
