"""Suites of other tools, run as they are: asv's and Google Benchmark's."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.live.test_bench_everyday import FEW, bench

ASV = """
import time
made = []
def setup(*values):
    made.append(values)
def time_plain():
    sum(range(100))
class Suite:
    params = [[10, 1000], ["a", None]]
    param_names = ["size", "kind"]
    def setup_cache(self):
        return {"cached": 1}
    def setup(self, cache, size, kind):
        assert cache == {"cached": 1}
        assert kind in ("a", None)
        self.values = list(range(size))
    def time_sum(self, cache, size, kind):
        sum(self.values)
    def mem_list(self, cache, size, kind):
        return self.values
class Once:
    number = 1
    def setup(self):
        self.left = [1]
    def time_pop(self):
        self.left.pop()
class Elsewhere:
    params = [1, 2]
    def setup(self, value):
        if value == 2:
            raise NotImplementedError("not here")
    def time_any(self, value):
        pass
class ElsewhereOnce(Elsewhere):
    number = 1
"""


def test_asvs_benchmarks_run_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(ASV)
    done = bench(tmp_path, "run", "suite.py", *FEW, "--seconds", "2")
    document = json.loads(done.stdout)
    found = {b["name"]: b["summary"]["p50"] for b in document["benchmarks"]}
    elsewhere = [f"{name}.time_any[param1={{}}]" for name in ("Elsewhere", "ElsewhereOnce")]
    assert sorted(document["skipped"]) == [*(name.format(2) for name in elsewhere), "Suite.mem_list"]
    assert "Suite.mem_list: skipped: mem_* measures no time; run it with asv" in done.stderr
    assert "skipped: its setup raised NotImplementedError: not here" in done.stderr
    assert {found.pop(name.format(1)) > 0 for name in elsewhere} == {True}
    sizes = [f"Suite.time_sum[kind={kind},size={size}]" for size in (10, 1000) for kind in ("a", None)]
    assert (sorted(found), done.returncode) == (sorted(["time_plain", "Once.time_pop", *sizes]), 0), (
        done.stderr
    )
    assert found[sizes[3]] > 3 * found[sizes[1]]


PACKAGE = {
    "asv.conf.json": '{"version": 1, // comments\n "benchmark_dir": "suite",}',
    "suite/__init__.py": "from . import common\n",
    "suite/common.py": "class Benchmark:\n    number = 1\n    params = [1, 2]\n",
    "suite/one.py": """
from .common import Benchmark
class Work(Benchmark):
    def setup(self, times):
        open("made", "w").close()
    def time_it(self, times):
        sum(range(1000 * times))
    def teardown(self, times):
        import os
        os.remove("made")
""",
    "suite/raw.py": "def timeraw_import():\n    return 'import colorsys; colorsys.rgb_to_hls(0, 0, 0)'\n",
    "suite/broken.py": "import nowhere\n",
    "suite/below/__init__.py": "",
    "suite/below/two.py": "from ..common import Benchmark\ndef TimeIt():\n    sum(range(100))\n",
}


@pytest.mark.side_by_side
def test_a_folder_of_asvs_whose_modules_import_one_another_runs_as_it_is(tmp_path: Path) -> None:
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    done = bench(tmp_path, "run", ".", *FEW)
    found = {b["name"]: b["summary"]["p50"] for b in json.loads(done.stdout)["benchmarks"]}
    works = ["one.Work.time_it[param1=1]", "one.Work.time_it[param1=2]"]
    assert sorted(found) == ["below.two.TimeIt", *works, "raw.timeraw_import"], done.stderr
    assert "suite/broken.py" in done.stderr
    assert "No module named 'nowhere'" in done.stderr
    assert found[works[1]] > 1.3 * found[works[0]]
    assert 10e3 < found["raw.timeraw_import"] < 10e6  # without the interpreter's start
    assert not (tmp_path / "made").exists()
    some = bench(tmp_path, "run", "suite:one.Work", *FEW)
    assert sorted(b["name"] for b in json.loads(some.stdout)["benchmarks"]) == works
    assert some.returncode == 0
    alone = bench(tmp_path, "run", "suite/one.py", *FEW)
    assert alone.returncode == 0, alone.stderr


GOOGLE = """
#include <benchmark/benchmark.h>
static void spin(benchmark::State& state) {
  for (auto _ : state) for (long i = 0; i < SCALE * state.range(0); ++i) benchmark::DoNotOptimize(i);
}
BENCHMARK(spin)->Arg(100)->Arg(1000);
static void broken(benchmark::State& state) { state.SkipWithError("planned"); for (auto _ : state) {} }
BENCHMARK(broken);
BENCHMARK_MAIN();
"""


@pytest.mark.peer
def test_google_benchmarks_programs_run_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "google.cpp").write_text(GOOGLE)
    for name, scale in (("google1", 1), ("google3", 3)):
        command = ["g++", "-O2", f"-DSCALE={scale}", "google.cpp", "-o", name, "-lbenchmark", "-lpthread"]
        if subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0:
            pytest.skip("Google Benchmark is not installed (libbenchmark-dev)")
    done = bench(tmp_path, "run", "./google1", "--processes", "2", "--seconds", "1", "--json")
    names = [b["name"] for b in json.loads(done.stdout)["benchmarks"]]
    assert (names, done.returncode) == (["spin/100", "spin/1000"], 1)
    assert "it reported: planned" in done.stderr
    done = bench(tmp_path, "ab", "./google1:spin/1000", "./google3:spin/1000", "--seconds", "20", "--json")
    found = json.loads(done.stdout)
    assert (found["name"], found["verdict"], done.returncode) == ("spin/1000", "slower", 4), done.stderr


def test_an_interrupted_suite_tells_what_it_has_measured(tmp_path: Path) -> None:
    (tmp_path / "suite.py").write_text(
        "import os, signal\n"
        "def time_first():\n    sum(range(100))\n"
        "def time_second():\n    os.kill(PARENT, signal.SIGINT)\n"
        "def time_third():\n    pass\n".replace("PARENT", "os.getppid()")
    )
    done = bench(tmp_path, "run", "suite.py", *FEW[:-1])
    assert "time_first" in done.stdout
    assert "time_third" not in done.stdout
    assert "interrupted after 1 of 3 benchmarks" in done.stderr
    assert done.returncode != 0
