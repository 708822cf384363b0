"""`latlab stubs edit` on action files whose threads share a CPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latlab import stubs
from latlab.cli import main
from latlab.model.stubs import Timeline, TimelineThread


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two threads that took turns on one CPU, and the one that waits for them."""
    place = tmp_path / "captured"
    place.mkdir()
    (place / "0.actions").write_text("create 1\ncreate 2\njoin 1\njoin 2\n")
    (place / "1.actions").write_text("run 3000\nready 3000\nrun 3000\nready 3000\nrun 3000\n")
    (place / "2.actions").write_text("ready 3000\nrun 3000\nready 3000\nrun 3000\nready 3000\nrun 3000\n")
    rows = tuple(TimelineThread(n, None if n == 0 else 0, 9, f"t{n}", 0, 0, 0, 0, 0) for n in range(3))
    stubs.save_timeline(Timeline("captured", 18_000_000, rows, cpus=1), place)
    return place


def edit(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as left:
        main(["stubs", "edit", *arguments])
    return int(left.value.code or 0), capsys.readouterr().out


def test_an_edit_tells_how_long_the_program_takes_then_and_keeps_its_timeline(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "faster"
    code, out = edit(capsys, str(folder), "--thread", "1", "--scale", "0.5", "-o", str(other), "--json")
    told = json.loads(out)

    assert (code, told["schema"], told["simulated"], told["cpus"]) == (0, 1, True, 1)
    assert told["before_ns"] == 18_000_000
    assert told["after_ns"] == pytest.approx(13_500_000, rel=0.01)  # all of the work, on one CPU
    assert stubs.load_timeline(other).total_ns == told["after_ns"]
    assert stubs.load_actions(other).budgets_ns() == {0: 0, 1: 4_500_000, 2: 9_000_000}


def test_an_edit_whose_time_is_not_known_says_why_and_ends_with_3(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "2.actions").write_text("run 9000\nready 40\nrun 9000\n")  # more than one CPU can do meanwhile
    code, out = edit(capsys, str(folder), "--thread", "1", "--scale", "0.5", "-o", str(tmp_path / "f"))

    assert code == 3
    assert out.startswith("cannot tell how long the program takes with the change: ")
