from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from latlab.jitter import analyse, measure
from latlab.model.machine.jitter import WarningKind
from latlab.system.kernel.tracing import unavailable

CPU = max(os.sched_getaffinity(0))
VANDAL = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(15, b"vandal", 0, 0, 0)
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.005)
    until = time.perf_counter_ns() + 300_000
    while time.perf_counter_ns() < until:
        pass
"""


def latlab(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "latlab", "jitter", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.smoke
def test_json_accounts_for_the_wall_time_to_the_tick() -> None:
    document = json.loads(latlab("--cpus", str(CPU), "-r", "0.2", "--json").stdout)
    [core] = document["cores"]
    assert document["schema"] == 1
    assert all(one["total_ns"] >= one["max_ns"] > 0 for one in document["sources"])
    assert core["pure_ticks"] + core["bridge_ticks"] + core["gap_ticks"] == core["wall_ticks"]
    assert core["wall_ns"] > 0.15e9
    assert 0 < core["min_ns"] <= core["p50_ns"] <= core["p99_ns"] <= core["p99.9_ns"] <= core["max_ns"]
    assert core["min_ns"] * core["counter_hz"] / 1e9 >= core["quantum_ticks"] - 0.5


@pytest.mark.rights
@pytest.mark.skipif(unavailable() is not None or os.geteuid() != 0, reason="needs root and tracing rights")
def test_a_planted_disturber_is_found_and_named() -> None:
    vandal = subprocess.Popen([sys.executable, "-c", VANDAL, str(CPU)])
    try:
        time.sleep(0.3)
        if vandal.poll() is not None:
            pytest.skip("no real-time policy is allowed here, and an ordinary disturber isn't always seen")
        document = json.loads(latlab("--cpus", str(CPU), "-r", "1", "--json").stdout)
    finally:
        vandal.kill()
        vandal.wait()
    found = [one for one in document["sources"] if one["name"] == "vandal"]
    assert [one["kind"] for one in found] == ["thread"]
    assert found[0]["layer"] == "other threads"
    assert found[0]["count"] > 20
    assert document["attributed"] > 0.5


@pytest.mark.side_by_side
def test_without_tracing_it_is_said_that_gaps_have_no_sources() -> None:
    done = latlab("--cpus", str(CPU), "-r", "0.1", "--no-trace", "--json")
    document = json.loads(done.stdout)
    assert document["attributed"] is None
    assert any("not joined" in text for text in document["warnings"])


@pytest.mark.side_by_side
def test_the_classic_view_has_the_originals_size_and_its_outlier_file(tmp_path: Path) -> None:
    out = tmp_path / "outliers"
    done = latlab("--classic", "-r", "1", "-f", str(out), "-o", "100")
    lines = done.stdout.splitlines()
    assert len(lines) == 28
    assert max(map(len, lines)) <= 80
    assert lines[10].split()[2] == "50"  # after the time and its unit
    rows = [line.split(",") for line in out.read_text().splitlines()]
    assert 0 < len(rows) <= 100
    assert all(float(y) > 0 for _, y in rows)


@pytest.mark.side_by_side
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-r", "0"], 2, "more than 0"),
        (["-k", "5", "-m", "10"], 2, "is not over min"),
        (["-b", "21"], 2, "can't be halved"),
        (["--cpus", "4095"], 2, "this machine runs no CPU 4095"),
        (["--cpus", "x"], 2, "not a CPU list"),
        (["-f", "/nowhere/out"], 2, "/nowhere/out can't be written"),
        (["--core-to-core", "--cpus", "0"], 2, "two cores"),
        (["--task", "no_such_module_here:f", "-r", "60"], 2, "can't be imported"),
        (["--task", "no-such-program-here", "-r", "60"], 2, "not a program that can be run"),
        (["--task", "", "-r", "60"], 2, "the task is empty"),
        (["periods", "/nowhere/file"], 1, "there is no such file; give lines"),
        (["compare", "/nowhere/a", "/nowhere/b"], 1, "/nowhere/a"),
    ],
)
def test_what_can_not_be_done_is_said_in_one_line(arguments: list[str], code: int, said: str) -> None:
    done = latlab(*arguments, code=code)
    assert said in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.side_by_side
def test_an_export_that_can_not_be_written_does_not_take_the_result_with_it() -> None:
    done = latlab("--cpus", str(CPU), "-r", "0.1", "--json", "--html", "/proc/page.html", code=2)
    assert json.loads(done.stdout)["cores"][0]["deltas"] > 0
    assert "/proc/page.html: can't be written" in done.stderr


@pytest.mark.side_by_side
def test_a_refused_core_does_not_lose_the_others() -> None:
    """As one that goes offline: what is not there is refused by the command line before anything runs."""
    found = analyse(measure([CPU, 4095], 0.1))
    assert [core.cpu for core in found.cores] == [CPU]
    assert [warning.kind for warning in found.warnings] == [WarningKind.CPU_REFUSED]


@pytest.mark.side_by_side
def test_runs_are_recorded_merged_and_compared(tmp_path: Path) -> None:
    first, both = tmp_path / "a", tmp_path / "both"
    latlab("--cpus", str(CPU), "-r", "0.2", "--output", str(first), "--json")
    merged = json.loads(latlab("merge", str(first), str(first), "-o", str(both), "--json").stdout)
    one = json.loads(latlab("merge", str(first), "--json").stdout)
    assert sum(core["deltas"] for core in merged["cores"]) == 2 * one["cores"][0]["deltas"]
    assert len(json.loads(latlab("merge", str(both), "--json").stdout)["cores"]) == 2
    same = json.loads(latlab("compare", str(first), str(first), "--json").stdout)
    assert {change["verdict"] for change in same["changes"]} == {"no change"}


@pytest.mark.side_by_side
def test_every_export_is_written(tmp_path: Path) -> None:
    names = ("html", "hlog", "hgrm", "cyclictest", "sysjitter")
    options = [word for name in names for word in (f"--{name}", str(tmp_path / name))]
    done = latlab("--cpus", str(CPU), "-r", "0.1", "--spectrum", *options)
    assert "CPU" in done.stdout
    assert all((tmp_path / name).stat().st_size > 100 for name in names if name != "sysjitter")
    assert (tmp_path / "html").read_text().lower().startswith("<!doctype html>")
    assert json.loads((tmp_path / "cyclictest").read_text())["num_threads"] == 1


@pytest.mark.side_by_side
def test_a_study_measures_each_condition_in_a_random_order() -> None:
    document = json.loads(latlab("study", "--cpus", str(CPU), "-r", "0.05", "--rounds", "1", "--json").stdout)
    names = {row["condition"] for row in document["runs"]}
    assert names == {f"CPU {CPU}", "thread slept before", "four times as long", "SCHED_FIFO"}


@pytest.mark.side_by_side
def test_a_beat_in_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("".join(f"{k * 10.0 + 1},{5}\n" for k in range(300)))
    document = json.loads(latlab("periods", str(path), "--json").stdout)
    [one] = document["periods"]
    assert one["period_ns"] == pytest.approx(1e7, rel=1e-6)
    assert one["phase_ns"] == pytest.approx(1e6, rel=1e-3)


@pytest.mark.smoke
def test_a_task_is_shown_beside_the_machine() -> None:
    document = json.loads(latlab("--cpus", str(CPU), "--task", "true", "-r", "0.2", "--json").stdout)
    assert document["task"] == "true"
    assert document["cores"][-1]["p50_ns"] > document["cores"][0]["p50_ns"]
    assert "task: time:time" in latlab("--cpus", str(CPU), "--task", "time:time", "-r", "0.1").stdout


@pytest.mark.side_by_side
def test_an_interrupt_keeps_what_was_measured() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "latlab", "jitter", "--cpus", str(CPU), "-r", "60", "--json", "--no-trace"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The collector's threads bear a name: only then is it measuring.
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and "latlab-jitter" not in _threads(process.pid):
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    document = json.loads(stdout)
    assert document["cores"][0]["deltas"] > 0
    assert "stopped by the user" in stderr


@pytest.mark.side_by_side
def test_live_prints_a_document_a_run_until_it_is_interrupted() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "latlab", "jitter", "--cpus", str(CPU), "-r", "0.1", "--live", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    documents = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert [one["cores"][0]["cpu"] for one in documents] == [CPU] * 3
    assert all(one["cores"][0]["deltas"] > 0 for one in documents)


def _threads(pid: int) -> set[str]:
    names = set()
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        try:
            names.add(path.read_text().strip())
        except OSError:
            continue
    return names
