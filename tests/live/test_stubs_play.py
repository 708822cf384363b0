from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.files.started import called, took_emitted

from latlab import stubs
from latlab.stubs.loads import calibrate as _calibrate
from latlab.stubs.timelines import play as _play
from latlab.stubs.timelines.actions import Action


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    return called(capsys, "stubs", *arguments)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command fails with."""
    code, out, err = run(capsys, *arguments)
    assert (code, out, err.count("\n")) == (1, "", 1)
    return err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0.actions").write_text("run 300\ncreate 1\nwait half\nrun 100\njoin 1\n")
    (tmp_path / "1.actions").write_text("repeat 2\nrun 200\nend\nsignal half\nsleep 2000\n")
    return tmp_path


def result(late_ns: int, run_ns: int = 1_000_000) -> dict[str, Any]:
    """What the native player returns of one thread that was asked for a millisecond."""
    nothing = np.zeros(0, np.int64)
    row = {"run_ns": run_ns, "budget_ns": 1_000_000, "late_ns": late_ns, "finished": True}
    row |= dict.fromkeys(("blocked_ns", "ready_ns", "start_ns", "end_ns", "switches", "faults"), 0)
    whole = {"total_ns": 1_000_000, "refused": False, "awake": True, "timed_out": False}
    return {**whole, "threads": [{**row, "slices": nothing, "events": nothing}]}


@pytest.mark.parametrize(
    ("results", "plays", "run_ns"),
    [
        ([result(5_000)], 1, 1_000_000),
        ([result(400_000), result(5_000, 1_000_001)], 2, 1_000_001),
        ([result(0, 1_300_000), result(5_000, 1_000_002)], 2, 1_000_002),
        ([result(90_000, 1_000_003), *([result(400_000)] * 5)], 6, 1_000_003),
    ],
    ids=["undisturbed", "late", "overspent", "never undisturbed"],
)
def test_a_disturbed_play_is_repeated_and_the_least_disturbed_told(
    results: list[dict[str, Any]], plays: int, run_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    priorities: list[int] = []

    def played(*arguments: Any) -> dict[str, Any]:
        priorities.append(arguments[5])
        return results[len(priorities) - 1]

    monkeypatch.setattr("latlab.stubs.timelines.play.native.play", played)
    monkeypatch.setattr(_play, "_others_run", lambda: False)
    program = stubs.Program({0: (Action("run", amount=1_000_000),)})

    found = stubs.play(program)

    high, fifo = (_play.PRIORITIES.index(name) for name in ("high", "fifo"))
    assert priorities == [high, fifo, high, fifo, high, fifo][:plays]
    assert found.threads[0].run_ns == run_ns
    assert any(f"of {plays} runs" in note for note in found.notes) == (plays > 1)


EVERY_VERB = {
    "0": "run 200\ncreate 1\ncreate 2\nlock door\nrun 100\nunlock door\nwait half\nready 50\njoin 1\n"
    "join 2\n",
    "1": "ready 100\nrepeat 3\nlock door\nrun 50\nunlock door\nend\nsignal half\nmemory 200000\nrun 100\n"
    "exit\nrun 20\n",
    "2": "sleep 1000\nio write 100000 8192\nio fsync\nio read 100000\nmemory 0\n",
}  # fmt: skip


@pytest.fixture
def every_verb(tmp_path: Path) -> Path:
    for name, text in EVERY_VERB.items():
        (tmp_path / f"{name}.actions").write_text(text)
    return tmp_path


@pytest.mark.parametrize("pace", ["schedule", "free"])
def test_every_verb_is_played_and_each_thread_gets_its_budget(every_verb: Path, pace: str) -> None:
    played = stubs.play(stubs.load_actions(every_verb), pace=pace)
    assert [thread.budget_ns for thread in played.threads] == [300_000, 270_000, 0]
    assert all(thread.run_ns >= thread.budget_ns * 0.95 for thread in played.threads)
    assert played.order == ("create 1", "create 2", "join 1", "join 2")
    assert played.thread(2).end_ns - played.thread(2).start_ns >= 950_000
    assert played.thread(1).end_ns <= played.total_ns


@pytest.mark.side_by_side
def test_every_verb_is_emitted_as_c_that_builds_and_ends(every_verb: Path, tmp_path: Path) -> None:
    source, program = tmp_path / "emitted.cpp", tmp_path / "emitted"
    source.write_text(stubs.emit(stubs.load_actions(every_verb), "c++"))
    command = ["g++", "-O1", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-pthread", str(source)]
    built = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert float(done.stdout.split()[0]) >= 0.95


@pytest.mark.side_by_side
def test_every_verb_is_emitted_as_python_that_runs(every_verb: Path, tmp_path: Path) -> None:
    assert took_emitted(every_verb, tmp_path) >= 0.95


@pytest.mark.side_by_side
def test_a_thread_can_be_replaced_by_another_action_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, result = tmp_path / "stub.txt", tmp_path / "result"
    other.write_text("signal half\nrun 7\n")
    arguments = ("edit", str(folder), "--thread", "1", "--replace", str(other), "-o", str(result))
    assert run(capsys, *arguments)[0] == 0
    assert stubs.load_actions(result).budgets_ns() == {0: 400_000, 1: 7_000}


@pytest.mark.side_by_side
def test_a_replacement_that_leaves_a_wait_without_its_signal_is_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "stub.txt"
    other.write_text("run 7\n")
    arguments = ("edit", str(folder), "--thread", "1", "--replace", str(other), "-o", str(tmp_path / "r"))
    assert "no thread signals 'half'" in refused(capsys, *arguments)


@pytest.mark.side_by_side
def test_a_negative_time_is_one_line_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0.actions").write_text("run 5\nsleep -3\n")
    said = refused(capsys, "play", str(tmp_path))
    assert "line 2" in said
    assert "negative" in said


def test_both_timelines_are_drawn_with_a_row_for_each_thread(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = folder / "page.html"
    run(capsys, "play", str(folder), "-o", str(folder / "a"))
    run(capsys, "play", str(folder), "-o", str(folder / "b"))
    assert run(capsys, "compare", str(folder / "a"), str(folder / "b"), "--html", str(page))[0] == 0
    text = page.read_text()
    assert text.count("<svg") == 2
    assert text.count(">1 of 0</text>") == 2
    assert text.count("<title>running") >= 4
    assert text.count("<title>blocked") >= 2


def test_played_threads_keep_order_and_get_their_budgets(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "play", str(folder), "--json", "-o", str(folder / "played"))
    assert code == 0
    result = json.loads(out)
    zero, one = result["threads"]
    assert (zero["id"], zero["parent"], one["id"], one["parent"]) == (0, None, 1, 0)
    assert zero["run_ns"] >= 400_000
    assert one["run_ns"] >= 400_000
    assert one["start_ns"] >= 300_000
    assert zero["end_ns"] >= one["start_ns"] + 400_000 + 1_900_000
    assert result["total_ns"] == max(zero["end_ns"], one["end_ns"])


@pytest.mark.smoke
def test_a_timeline_compared_with_itself_has_no_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, out, _ = run(capsys, "play", str(folder), "--json")
    file = folder / "played.json"
    file.write_text(out)
    code, out, _ = run(capsys, "compare", str(file), str(file), "--json")
    result = json.loads(out)
    assert code == 0
    assert result["total_error"] == 0
    assert [thread["end_error"] for thread in result["threads"]] == [0, 0]


@pytest.mark.side_by_side
def test_a_cycle_of_joins_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0.actions").write_text("create 1\njoin 1\n")
    (tmp_path / "1.actions").write_text("join 0\n")
    assert "cycle" in refused(capsys, "play", str(tmp_path))


@pytest.mark.side_by_side
def test_a_program_that_never_ends_is_given_up_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Two take what is posted once: which of them waits for ever is known when it is played, and not before.
    (tmp_path / "0.actions").write_text("create 1\nsignal x\nwait x\njoin 1\n")
    (tmp_path / "1.actions").write_text("wait x\n")
    code, _, err = run(capsys, "play", str(tmp_path), "--timeout", "0.2")
    assert (code, "threads 0" in err) == (1, True)


@pytest.mark.side_by_side
def test_an_edited_folder_asks_for_the_scaled_budget(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = folder / "faster"
    assert run(capsys, "edit", str(folder), "--thread", "1", "--scale", "0.5", "-o", str(other))[0] == 0
    assert stubs.load_actions(other).budgets_ns() == {0: 400_000, 1: 200_000}


@pytest.mark.side_by_side
def test_the_perfetto_export_holds_every_slice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = folder / "trace.json"
    _, out, _ = run(capsys, "play", str(folder), "--json", "--perfetto", str(trace))
    slices = sum(len(thread["slices"]) for thread in json.loads(out)["threads"])
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == slices


def test_calibration_says_what_is_held_and_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--kind", "sleep-plain", "--time", "200", "--tolerance", "1e-9", "--seconds", "0.01"]
    code, out, _ = run(capsys, "calibrate", "--json", *chosen)
    result = json.loads(out)
    assert result["schema"] == 1
    assert [row["condition"] for row in result["rows"]] == ["idle", "competitor"]
    # A plain sleep is always late by more than 0.1 us: with no tolerance it can't be held.
    assert result["refused"]
    assert code == 3


@pytest.mark.side_by_side
def test_a_kind_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "calibrate", "--kind", "spin-quantum")
    assert code == 2
    assert "spin-cpu" in err


def test_cache_stubs_are_calibrated_by_what_an_access_costs(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "calibrate", "--json", "--kind", "cache", "--time", "500", "--seconds", "0.01")
    caches = json.loads(out)["caches"]
    levels = len(caches) // 2
    assert [one["condition"] for one in caches] == ["idle"] * levels + ["competitor"] * levels
    assert (caches[0]["level"], caches[levels - 1]["level"]) == ("L1", "memory")
    # Main memory takes several times as long as the first level, on any machine.
    assert caches[levels - 1]["access_ns"] > 2 * caches[0]["access_ns"]


def test_every_kind_is_calibrated_idle_and_beside_a_competitor(capsys: pytest.CaptureFixture[str]) -> None:
    kinds = ("io-read", "io-write", "io-delay", "network", "global-cpu", "global-memory", "global-disk")
    chosen = [word for kind in kinds for word in ("--kind", kind)]
    _, out, _ = run(capsys, "calibrate", "--json", *chosen, "--time", "5000", "--seconds", "0.02")
    rows = json.loads(out)["rows"]
    assert {(row["kind"], row["condition"]) for row in rows} == {
        (kind, condition) for kind in kinds for condition in ("idle", "competitor")
    }
    assert all(row["p99_error_ns"] >= row["p50_error_ns"] for row in rows)


def test_the_caches_of_this_machine_set_the_working_sets(tmp_path: Path) -> None:
    for index, (level, kind, size) in enumerate(
        [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2048K")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    assert _calibrate._working_sets(tmp_path) == {"L1": 24 << 10, "L2": 1 << 20, "memory": 8 << 20}
    assert _calibrate._working_sets(tmp_path / "none") == _calibrate.WORKING_SETS
