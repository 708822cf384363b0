from __future__ import annotations

import json
from pathlib import Path

import pytest

from latlab import stubs
from latlab.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(["stubs", *arguments])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0.actions").write_text("run 300\ncreate 1\nwait half\nrun 100\njoin 1\n")
    (tmp_path / "1.actions").write_text("repeat 2\nrun 200\nend\nsignal half\nsleep 2000\n")
    return tmp_path


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


def test_a_cycle_of_joins_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0.actions").write_text("create 1\njoin 1\n")
    (tmp_path / "1.actions").write_text("join 0\n")
    code, out, err = run(capsys, "play", str(tmp_path))
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "cycle" in err


def test_a_program_that_never_ends_is_given_up_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "0.actions").write_text("signal x\nwait x\nwait x\n")
    code, _, err = run(capsys, "play", str(tmp_path), "--timeout", "0.2")
    assert code == 1
    assert "threads 0" in err


def test_an_edited_folder_asks_for_the_scaled_budget(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = folder / "faster"
    assert run(capsys, "edit", str(folder), "--thread", "1", "--scale", "0.5", "-o", str(other))[0] == 0
    assert stubs.load_actions(other).budgets_ns() == {0: 400_000, 1: 200_000}


def test_the_perfetto_export_holds_every_slice(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = folder / "trace.json"
    _, out, _ = run(capsys, "play", str(folder), "--json", "--perfetto", str(trace))
    slices = sum(len(thread["slices"]) for thread in json.loads(out)["threads"])
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(event["ph"] == "X" for event in events) == slices


def test_calibration_says_what_is_held_and_what_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--kind", "sleep-plain", "--time", "200", "--tolerance", "0", "--seconds", "0.01"]
    code, out, _ = run(capsys, "calibrate", "--json", *chosen)
    result = json.loads(out)
    assert result["schema"] == 1
    assert [row["condition"] for row in result["rows"]] == ["idle", "competitor"]
    # A plain sleep is always late by more than 0.1 us: with no tolerance it can't be held.
    assert result["refused"]
    assert code == 3


def test_a_kind_that_does_not_exist_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "calibrate", "--kind", "spin-quantum")
    assert code == 2
    assert "spin-cpu" in err
