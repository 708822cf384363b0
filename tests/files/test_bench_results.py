from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from latlab.formats.recording import open_recording

pytestmark = pytest.mark.long  # benchmarks as users run them, one after the other

FIXTURES = """
class Short:
    def run(self):
        sum(range(100))
class Long:
    def run(self):
        sum(range(1000))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("results")
    (out / "fixtures.py").write_text(FIXTURES)
    return out


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "latlab", "bench", *arguments]


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    return subprocess.run(
        command(*arguments), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def parsed(done: subprocess.CompletedProcess[str]) -> Mapping[str, Any]:
    assert done.stdout, done.stderr
    out: Mapping[str, Any] = json.loads(done.stdout)
    return out


AB = ("ab", "fixtures.py:Short", "fixtures.py:Long", "--effect", "5%", "--iterations", "20", "--json")


def test_a_verdict_is_made_again_bit_for_bit_from_the_raw_csv_or_the_recording_alone(folder: Path) -> None:
    first = bench(folder, *AB, "--seconds", "20", "--raw", "raw.csv", "-o", "recording")
    assert (parsed(first)["verdict"], first.returncode) == ("slower", 4)
    for source in ("raw.csv", "recording"):
        again = bench(folder, "compare", source, "--json")
        assert (again.stdout, again.returncode) == (first.stdout, 4)
    assert bench(folder, "compare", "raw.csv", "--html", "report.html").returncode == 4
    page = (folder / "report.html").read_text()
    assert all(f">{n}. " in page for n in range(1, 13))
    assert "Not said: add" in page
    assert page.count('class="figure"') == 5
    assert bench(folder, "compare", "raw.csv", "--markdown", "report.md").returncode == 4
    text = (folder / "report.md").read_text()
    assert [n for n in range(1, 13) if f"\n## {n}. " not in text] == []
    assert "](report-1.svg)" in text
    assert (folder / "report-1.svg").read_text().count("<rect") == 3
    both = bench(folder, "compare", "raw.csv", "raw.csv", "--html", "report.html")
    assert (both.returncode, "leave B out" in both.stderr) == (2, True)


def test_a_killed_run_keeps_its_pairs_and_goes_on(folder: Path) -> None:
    arguments = [*AB[:2], "fixtures.py:Short", *AB[3:], "--effect", "0.001%"]
    environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
    process = subprocess.Popen(
        command(*arguments, "--seconds", "60", "-o", "killed"), cwd=folder, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    series = folder / "killed" / "iterations.arrows"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not series.exists() or series.stat().st_size < 40_000):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = open_recording(folder / "killed")
    assert not kept.complete
    pairs = len(set(kept.series("iterations")["pair"].tolist()))
    assert pairs > 2
    half = parsed(bench(folder, "compare", "killed", "--json"))
    assert half["pairs"] >= 2
    more = str(pairs + 4)
    done = bench(
        folder, *arguments, "--resume", "killed", "-o", "resumed", "--pairs", more, "--seconds", "60"
    )
    assert half["pairs"] <= parsed(done)["pairs"] <= pairs + 4
    assert parsed(bench(folder, "compare", "resumed", "--json")) == parsed(done)
    other = bench(folder, *arguments, "--resume", "killed", "--seed", "5")
    assert (other.returncode, "another seed" in other.stderr) == (2, True)


def test_two_recordings_of_runs_are_compared_process_by_process(folder: Path) -> None:
    for name, fixture in (("one", "Short"), ("two", "Long")):
        few = ("--processes", "8", "--iterations", "20", "-o", name)
        assert bench(folder, "run", f"fixtures.py:{fixture}", *few).returncode == 0
    done = bench(folder, "compare", "one", "two", "--json")
    assert (parsed(done)["verdict"], done.returncode) == ("slower", 4)
    assert any("measured at different times" in w for w in parsed(done)["warnings"])
    assert bench(folder, "compare", "two", "one").returncode == 0


def test_a_recording_of_one_side_can_not_be_judged_alone(folder: Path) -> None:
    (folder / "foreign.json").write_text('{"a": 1}')
    bench(folder, "run", "fixtures.py:Short", "--processes", "2", "--iterations", "5", "-o", "alone")
    for arguments in (
        ("compare", "alone"),
        ("compare", "alone", "foreign.json"),
        ("history", "foreign.json"),
    ):
        done = bench(folder, *arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_the_study_measures_every_combination_once_a_block_and_recommends(folder: Path) -> None:
    done = bench(
        folder, "study", "fixtures.py:Short", "--factors", "scheduling,load,governor", "--blocks", "2",
        "--iterations", "20", "--json", "--html", "study.html",
    )  # fmt: skip
    found = parsed(done)
    page = (folder / "study.html").read_text()
    assert page.count('class="figure"') == 1
    assert all(f'"{row}"' in page for row in ("name", "q1", "median"))
    varied = {"scheduling", "load", "governor"} - set(found["unavailable"])
    assert "load" in varied
    assert len(found["combinations"]) >= 2
    assert all(set(row["levels"]) >= {"load"} for row in found["combinations"])
    assert all(
        row["processes"] == 2 for row in found["combinations"] if row["levels"].get("scheduling") != "fifo"
    )
    assert all(row["iqr"] >= 0 for row in found["combinations"])
    assert "least scatter" in found["recommendation"]
    (folder / "seeded.py").write_text(
        "class Seeded:\n"
        "    def __init__(self, seed=1):\n"
        "        self.size = 1000 if seed == 1 else 100_000\n"
        "    def run(self):\n"
        "        sum(range(self.size))\n"
    )
    inputs = ("--factors", "input", "--blocks", "2", "--iterations", "20", "--json")
    rows = parsed(bench(folder, "study", "seeded.py", *inputs))["combinations"]
    p50 = {row["levels"]["input"]: row["p50_ns"] for row in rows}
    assert p50["fresh"] > 10 * p50["fixed"]
    unseeded = bench(folder, "study", "fixtures.py:Short", *inputs)
    assert parsed(unseeded)["unavailable"] == {"input": "Short takes no parameter 'seed'"}
    unknown = bench(folder, "study", "fixtures.py:Short", "--factors", "moon")
    assert (unknown.returncode, "no factor moon" in unknown.stderr) == (2, True)


def test_a_run_that_keeps_going_spends_its_budget_of_pairs(folder: Path) -> None:
    done = bench(folder, *AB, "--keep-going", "--pairs", "24", "--seconds", "60")
    assert (parsed(done)["verdict"], parsed(done)["pairs"]) == ("slower", 24)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise ValueError('planned')", "it threw: ValueError: planned"),
        ("import time; time.sleep(50)", "has not ended within 3 s"),
        ("return 5", "different counts"),
    ],
)
def test_a_side_that_fails_only_when_it_takes_turns_is_named_and_no_verdict_given(
    folder: Path, body: str, words: str
) -> None:
    # The first call of a process is harmless, so that the pilot's first look at each side passes.
    (folder / "late.py").write_text(
        "import sys\n"
        "class Late:\n"
        "    calls = 0\n"
        "    counts_operations = True\n"
        "    def run(self):\n"
        "        self.calls += 1\n"
        "        if self.calls > 38:\n"
        f"            {body}\n"
        "        sum(range(20000))\n"
        "        return 1\n"
    )
    done = bench(
        folder,
        *("ab", "fixtures.py:Long", "late.py:Late", "--iterations", "60"),
        *("--seconds", "5", "--timeout", "3", "--json"),
    )
    assert (done.stdout, done.returncode in (1, 3)) == ("", True)
    assert words in done.stderr
    assert "late.py" in done.stderr


def test_on_request_both_sides_are_built_anew_for_each_block_and_their_variance_is_estimated(
    folder: Path,
) -> None:
    done = bench(
        folder, *AB, "--pairs", "4", "--keep-going", "--seconds", "60",
        "--build", "echo $LATLAB_BUILD >> builds.txt",
    )  # fmt: skip
    found = parsed(done)
    assert found["pairs"] == 4
    assert found["plan"]["build_deviation"] >= 0
    # Three builds for each of the pilot's two ways to run a pair, and one a block of two pairs.
    assert (folder / "builds.txt").read_text().split() == ["0", "1", "2", "0", "1", "2", "0", "1"]
    failed = bench(folder, *AB, "--build", "echo planned >&2; false")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "the build ended with 1: planned" in failed.stderr
