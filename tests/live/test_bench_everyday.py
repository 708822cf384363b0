"""What a user meets at once: suites, threads, CPUs, outputs, failures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import latlab

FIXTURES = """
import threading, time
class Good:
    def run(self):
        sum(range(100))
class Raises:
    def run(self):
        raise ValueError("planned")
class PingPong:
    def run(self):
        turn = [0]
        def side(me):
            for _ in range(3):
                while turn[0] != me:
                    pass
                turn[0] = 1 - me
        threads = [threading.Thread(target=side, args=(i,)) for i in (0, 1)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
class Answers:
    def run(self):
        return 1000
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("everyday")
    (out / "one.py").write_text(FIXTURES)
    (out / "two.py").write_text(FIXTURES.replace("range(100)", "range(1000)"))
    # Without the threads, whose runs take as long as the system's turns: a suite would spend its time on
    # them.
    begin, end = FIXTURES.index("class PingPong"), FIXTURES.index("class Answers")
    for name in ("one", "two"):
        whole = (out / f"{name}.py").read_text()
        (out / f"short_{name}.py").write_text(whole.replace(FIXTURES[begin:end], ""))
    return out


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "latlab", "bench", *arguments],
        cwd=folder,
        env={**os.environ, "XDG_STATE_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


FEW = ("--iterations", "20", "--processes", "2", "--json")


@pytest.mark.side_by_side
def test_a_fixture_that_raises_loses_nothing_of_the_others(folder: Path) -> None:
    done = bench(folder, "run", "one.py", *FEW)
    document = json.loads(done.stdout)
    names = [b["name"] for b in document["benchmarks"]]
    assert (names, done.returncode) == (["Good", "PingPong", "Answers"], 1)
    assert [one["name"] for one in document["failed"]] == ["Raises"]
    assert "one.py:Raises: it threw: ValueError: planned" in done.stderr


@pytest.mark.side_by_side
def test_threads_that_spin_for_one_another_end_and_are_not_measured_at_real_time_priority(
    folder: Path,
) -> None:
    done = bench(folder, "run", "one.py:PingPong", *FEW, "--timeout", "60")
    (found,) = json.loads(done.stdout)["benchmarks"]
    assert "threads" in found["context"]
    assert not {"fifo", "pinned"} & set(found["context"])


SPINNING = """
#include <atomic>
#include <latlab/bench.hpp>
#include <thread>
static void answer(std::atomic<int>& turn, int times) {
  for (int i = 0; i < times;) if (turn.load() == 1) { turn.store(0); ++i; }
}
static void ask(std::atomic<int>& turn) { turn.store(1); while (turn.load() == 1) {} }
struct Kept {
  std::atomic<int> turn{0};
  std::thread other{[this] { answer(turn, 1 << 30); }};
  Kept() { other.detach(); }
  void run() { ask(turn); }
};
struct Started {
  void run() {
    std::atomic<int> turn{0};
    std::thread other{[&] { answer(turn, 5); }};
    for (int i = 0; i < 5; ++i) ask(turn);
    other.join();
  }
};
LATLAB_BENCHMARK(Kept)
LATLAB_BENCHMARK(Started)
"""


@pytest.mark.side_by_side
@pytest.mark.parametrize("fixture", ["Kept", "Started"])
def test_compiled_threads_that_only_spin_are_seen_and_end(folder: Path, fixture: str) -> None:
    (folder / "spinning.cpp").write_text(SPINNING)
    subprocess.run(
        ["g++", "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{latlab.get_include()}", "spinning.cpp", "-o",
         "spinning.so"],
        cwd=folder, check=True,
    )  # fmt: skip
    done = bench(folder, "run", f"spinning.so:{fixture}", *FEW, "--timeout", "60")
    (found,) = json.loads(done.stdout)["benchmarks"]
    assert "threads" in found["context"]
    assert not {"fifo", "pinned"} & set(found["context"])


@pytest.mark.side_by_side
def test_a_number_that_run_returns_is_no_count_of_operations_unless_declared(folder: Path) -> None:
    (found,) = json.loads(bench(folder, "run", "one.py:Answers", *FEW).stdout)["benchmarks"]
    assert found["operations"] == 1


@pytest.mark.side_by_side
def test_an_absent_cpu_and_an_output_that_cannot_be_written_are_errors_before_measuring(
    folder: Path,
) -> None:
    absent = bench(folder, "run", "one.py:Good", "--cpus", "4000")
    assert (absent.returncode, "no CPU 4000" in absent.stderr) == (2, True)
    for option in ("--raw", "--html"):
        done = bench(folder, "ab", "one.py:Good", "two.py:Good", option, "nowhere/x")
        assert (done.returncode, "can't be written" in done.stderr) == (2, True)


@pytest.mark.side_by_side
def test_a_failing_command_shows_its_own_standard_error(folder: Path) -> None:
    done = bench(folder, "--", "sh", "-c", "echo planned >&2; exit 7")
    assert (done.returncode, "exit status 7" in done.stderr, "planned" in done.stderr) == (1, True, True)


def test_of_a_suite_each_comparison_has_its_verdict_and_the_failed_one_is_named(folder: Path) -> None:
    done = bench(
        folder, "ab", "short_one.py", "short_two.py",
        "--pairs", "30", "--iterations", "20", "--seconds", "30", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    verdicts = {c["name"]: c["verdict"] for c in found["comparisons"]}
    assert (verdicts.pop("Good"), done.returncode) == ("slower", 4)
    assert list(verdicts) == ["Answers"]
    assert [f["name"] for f in found["failed"]] == ["Raises"]


@pytest.mark.side_by_side
def test_the_order_of_the_sides_differs_from_run_to_run_and_a_seed_fixes_it(folder: Path) -> None:
    few = ("ab", "one.py:Good", "one.py:Good", "--pairs", "2", "--iterations", "10", "--json")
    seeds = []
    for name, more in (("a.csv", ()), ("b.csv", ()), ("c.csv", ("--seed", "7"))):
        bench(folder, *few, "--raw", name, *more)
        meta = json.loads((folder / name).read_text().splitlines()[1].removeprefix("# "))
        seeds.append(meta["asked"]["seed"])
    assert seeds[0] != seeds[1]
    assert seeds[2] == 7


SWEPT = """
import threading
class Square:
    def __init__(self, size):
        self.values = [0] * size
    def run(self):
        for _ in self.values:
            for _ in self.values:
                pass
class Pool:
    def __init__(self, threads=1):
        self.threads = threads
    def run(self):
        pool = [threading.Thread(target=sum, args=(range(1000),)) for _ in range(self.threads)]
        for one in pool:
            one.start()
        for one in pool:
            one.join()
"""


def test_sizes_say_how_the_time_grows_and_threads_are_measured_alike(folder: Path) -> None:
    (folder / "swept.py").write_text(SWEPT)
    done = bench(folder, "run", "swept.py:Square", "--sizes", "32,64,128,512,1k", *FEW)
    (found,) = json.loads(done.stdout)["growth"]
    assert (found["name"], len(found["p50_ns"])) == ("Square", 5)
    done = bench(folder, "run", "swept.py:Pool", "--threads", "1,2", *FEW)
    document = json.loads(done.stdout)
    assert [t["threads"] for t in document["threads"]] == [[1, 2]]
    assert {"fifo", "pinned"} & {c for b in document["benchmarks"] for c in b["context"]} == set()
    refused = bench(folder, "--threads", "1,2", "--", "true")
    assert (refused.returncode, "are parameters of fixtures" in refused.stderr) == (2, True)
    if found["error"] is not None and not found["laws"]:
        pytest.skip(f"the machine's speed changed between sizes: {found['why']}")
    assert "n²" in found["laws"], found


COUNTED = """
class Lists:
    items_per_run = 50
    def run(self):
        return [bytearray(10_000) for _ in range(50)]
"""
COUNTED_CPP = """
#include <latlab/bench.hpp>
#include <vector>
struct Vectors {
  void run() { std::vector<int> v(100); latlab::bench::do_not_optimize(v.data()); }
  double bytes_per_run() const { return 400; }
};
LATLAB_BENCHMARK(Vectors)
"""


def test_allocations_switches_and_rates_are_counted_and_cold_caches_are_a_row_of_their_own(
    folder: Path,
) -> None:
    (folder / "counted.py").write_text(COUNTED)
    done = bench(folder, "run", "counted.py", *FEW, "--cold")
    assert done.returncode == 0, done.stderr
    warm, cold = json.loads(done.stdout)["benchmarks"]
    assert (warm["name"], cold["name"]) == ("Lists", "Lists (cold)")
    assert 100 <= warm["costs"]["allocations"] < 200  # an object and its bytes
    assert {"voluntary_switches", "minor_faults"} <= warm["costs"].keys()
    assert warm["rates"]["items_per_s"] > 0
    if "instructions" not in warm["costs"]:
        assert done.stderr.count("no hardware counters") == 1


@pytest.mark.side_by_side
@pytest.mark.peer
def test_allocations_of_cpp_fixtures_are_counted_by_a_preloaded_library(folder: Path) -> None:
    if (compiler := shutil.which("g++")) is None:
        pytest.skip("needs g++")
    (folder / "counted.cpp").write_text(COUNTED_CPP)
    flags = ["-std=c++20", "-O2", "-shared", "-fPIC", f"-I{latlab.get_include()}"]
    subprocess.run([compiler, *flags, "counted.cpp", "-o", "counted.so"], cwd=folder, check=True)
    (one,) = json.loads(bench(folder, "run", "counted.so", *FEW).stdout)["benchmarks"]
    assert one["costs"]["allocations"] == pytest.approx(1, abs=0.1)
    assert one["costs"]["allocated_bytes"] == pytest.approx(400, abs=40)
    assert one["rates"]["bytes_per_s"] > 0


STOPPED = """
import os, pathlib, signal, subprocess
class Stopped:
    def run(self):
        if not pathlib.Path("seen").exists():
            pathlib.Path("seen").touch()
            subprocess.Popen(["sh", "-c", f"sleep 5; kill -CONT {os.getpid()}"])
            os.kill(os.getpid(), signal.SIGSTOP)
        sum(range(100))
"""


@pytest.mark.side_by_side
def test_a_process_that_was_stopped_is_measured_again_and_spends_no_time_limit(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(STOPPED)
    done = bench(tmp_path, "run", "stopped.py", "--seconds", "1", "--timeout", "4", "--json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "seen").exists()
    assert json.loads(done.stdout)["benchmarks"][0]["summary"]["max"] < 1e9


@pytest.mark.side_by_side
def test_a_command_comes_before_other_ordinary_work(tmp_path: Path) -> None:
    def run(*options: str) -> tuple[bool, set[str]]:
        (tmp_path / "nice.txt").unlink(missing_ok=True)
        done = bench(tmp_path, "run", *options, "--json", "--", "sh", "-c", "nice >> nice.txt")
        assert done.returncode == 0, done.stderr
        (one,) = json.loads(done.stdout)["benchmarks"]
        return "nice" in one["context"], set((tmp_path / "nice.txt").read_text().split())

    said, found = run("--seconds", "0.2")
    assert said == ("-20" in found)
    assert said or os.geteuid() != 0
    assert run("--seconds", "0.2", "--scheduling", "other") == (
        False,
        {str(os.getpriority(os.PRIO_PROCESS, 0))},
    )


AWAITED = """
import asyncio, time
class Awaited:
    async def run(self):
        kept = [bytearray(100) for _ in range(10)]
        await asyncio.sleep(0)
class Prepared:
    async def set_up(self):
        self.made = [bytearray(100) for _ in range(1000)]
    async def run(self):
        kept = bytearray(100)
class Slow:
    def run(self):
        time.sleep(2.5)
"""


def test_coroutines_costs_are_counted_and_of_slow_runs_it_is_said_why_not(folder: Path) -> None:
    (folder / "awaited.py").write_text(AWAITED)
    done = bench(folder, "run", "awaited.py", "--iterations", "1", "--processes", "1", "--json")
    found = {b["name"]: b for b in json.loads(done.stdout)["benchmarks"]}
    assert 20 <= found["Awaited"]["costs"]["allocations"] < 80
    assert found["Prepared"]["costs"]["allocations"] < 100
    assert (found["Slow"]["costs"], "a run takes 2.5 s" in found["Slow"]["costs_why"]) == ({}, True)
