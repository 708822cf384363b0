"""`pytest --latlab` in processes of its own, on tests as pytest-benchmark's users write them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import time
import pytest

def test_call(benchmark):
    assert benchmark(sorted, [3, 1, 2], reverse=True) == [3, 2, 1]
    assert benchmark.stats["min"] <= benchmark.stats.stats.mean <= benchmark.stats.stats.max

@pytest.mark.benchmark(group="sleeps")
def test_pedantic(benchmark):
    made = []
    def setup():
        made.append(1)
        return (0.002,), {}
    benchmark.extra_info["why"] = "because"
    benchmark.pedantic(time.sleep, setup=setup, rounds=3, warmup_rounds=1)
    assert len(made) == 4
    assert benchmark.stats["rounds"] == 3
    assert (benchmark.stats.name, benchmark.stats.group) == ("test_pedantic", "sleeps")
    assert benchmark.stats.stats.as_dict()["iqr_outliers"] == benchmark.stats.stats.iqr_outliers
    assert benchmark.stats.stats.min >= 0.002

@pytest.mark.parametrize("size", [10, 100])
def test_sizes(benchmark, size):
    assert benchmark(range, size) == range(size)

def test_woven(benchmark_weave, benchmark):
    benchmark_weave("textwrap.dedent")
    import textwrap
    assert textwrap.dedent("  x") == "x"
    assert benchmark.stats.stats.mean > 0

def test_put_back():
    import textwrap
    assert not hasattr(textwrap.dedent, "__wrapped__")

def test_counts(benchmark):
    calls = []
    benchmark.pedantic(calls.append, args=[1], iterations=10, rounds=2)
    assert len(calls) == 21
    with pytest.raises(ValueError):
        benchmark.pedantic(calls.append, rounds="x")

def test_counts_are_checked(benchmark):
    with pytest.raises(TypeError):
        benchmark.pedantic(len, args=[1], setup=lambda: ([1], {}))

@pytest.mark.benchmark(min_rounds=3000, max_time=0.01)
def test_rounds(benchmark):
    benchmark(int)
    assert benchmark.stats.stats.rounds >= 3000

def test_raises(benchmark):
    with pytest.raises(ValueError):
        benchmark(int, "x")

def test_plain():
    assert True
"""
# By a clock of its own, so that no load of the machine adds to what is compared.
TIMED = """
import random
import time
def test_one(benchmark, monkeypatch):
    now, uneven = [0], random.Random(1)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    def call():
        now[0] += int(DURATION * uneven.uniform(0.99, 1.01))
    benchmark.pedantic(call, rounds=40)
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTEST_ADDOPTS", "GITHUB_STEP_SUMMARY")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )


@pytest.mark.side_by_side
def test_tests_written_for_pytest_benchmark_run_unchanged(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "conftest.py").write_text(
        "def pytest_benchmark_update_json(config, benchmarks, output_json):\n    pass\n"
    )
    done = run(tmp_path, "--latlab", "--latlab-seconds", "0.1", "--strict-markers")
    assert done.returncode == 0, done.stdout
    assert "11 passed" in done.stdout
    assert "latlab" in done.stdout
    assert {"sleeps", "benchmarks"} <= set(done.stdout.splitlines())
    assert "test_sizes[100]" in done.stdout


@pytest.mark.side_by_side
def test_without_the_option_there_is_no_fixture_and_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_plain():\n    pass\n")
    done = run(tmp_path)
    assert (done.returncode, "latlab" in done.stdout.split("plugins:")[-1].split("collected")[-1]) == (
        0,
        False,
    )


@pytest.mark.side_by_side
def test_what_takes_twice_as_long_as_the_baseline_fails_the_session(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TIMED.replace("DURATION", "2_000_000"))
    for count in (1, 2):
        done = run(tmp_path, "--latlab", "--latlab-save-baseline", "b.json")
        assert done.returncode == 0, done.stdout
        assert len(json.loads((tmp_path / "b.json").read_text())["runs"]) == count
    same = run(tmp_path, "--latlab", "--latlab-baseline", "b.json", "--latlab-effect", "2%")
    assert same.returncode == 0, same.stdout
    (tmp_path / "test_it.py").write_text(TIMED.replace("DURATION", "4_000_000"))
    done = run(tmp_path, "--latlab", "--latlab-baseline", "b.json")
    assert (done.returncode, "test_it.py::test_one: slower" in done.stdout) == (1, True), done.stdout


@pytest.mark.side_by_side
@pytest.mark.parametrize(
    "option", [("-n", "2"), ("--latlab-baseline", "absent.json"), ("--latlab-effect", "much")]
)
def test_what_cannot_be_done_is_an_error_of_usage(tmp_path: Path, option: tuple[str, str]) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    assert run(tmp_path, "--latlab", *option).returncode == 4


@pytest.mark.side_by_side
def test_a_baseline_that_has_none_of_the_benchmarks_lets_nothing_pass(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    tests = "".join(f"def test_{name}(benchmark):\n    benchmark(len, [])\n" for name in ("one", "two"))
    (folder / "test_one.py").write_text(tests)
    few = ("--latlab", "--latlab-seconds", "0.05")
    assert run(folder, *few, "--latlab-save-baseline=other.json").returncode == 0
    (folder / "test_one.py").rename(folder / "test_two.py")
    done = run(folder, *few, "--latlab-baseline=other.json")
    assert done.returncode == 4
    assert "has none of these benchmarks; it holds test_one.py::test_one" in done.stdout


OPTIONS = """
def pytest_addoption(parser):  # as pytest-benchmark's plug-in
    for name in ("only", "skip", "disable", "autosave"):
        parser.addoption(f"--benchmark-{name}", action="store_true")
    parser.addoption("--benchmark-sort")
"""


@pytest.mark.side_by_side
def test_options_of_pytest_benchmark_are_honoured_or_said(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(OPTIONS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --benchmark-autosave\n")
    (tmp_path / "test_it.py").write_text(
        TESTS.replace('group="sleeps"', 'group="sleeps", min_rounds=9, timer=time.time')
    )
    few = ("--latlab", "--latlab-seconds", "0.05")
    said = run(tmp_path, *few, "--benchmark-sort=mean", "--benchmark-only")
    assert "9 passed, 2 skipped" in said.stdout
    assert "--benchmark-autosave, --benchmark-sort, benchmark(timer=…) not honoured" in said.stdout
    assert "--benchmark-only not" not in said.stdout
    assert "2 passed, 9 skipped" in run(tmp_path, *few, "--benchmark-skip").stdout
    plain = "def test_it(benchmark):\n    assert benchmark(int, '3') == 3\n    assert benchmark.disabled\n"
    (tmp_path / "test_it.py").write_text(plain)
    disabled = run(tmp_path, *few, "--benchmark-disable")
    assert "1 passed" in disabled.stdout
    assert "median" not in disabled.stdout
