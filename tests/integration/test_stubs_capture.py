from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from latlab import stubs
from latlab.cli import main
from latlab.system import tracing


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reason = tracing.unavailable()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("captured")
    with pytest.raises(SystemExit) as left:
        main(["stubs", "capture", "-o", str(folder), "--", "sh", "-c", "sleep 0.05; sleep 0.02 & wait; true"])
    assert not left.value.code
    return folder


@pytest.mark.rights
def test_a_captured_shell_has_its_children_its_joins_and_its_sleeps(captured: Path) -> None:
    program = stubs.load_actions(captured)
    timeline = stubs.load_timeline(captured)
    assert len(program.threads) == 3
    assert [thread.parent for thread in timeline.threads] == [None, 0, 0]
    verbs = [[action.verb for action in program.threads[number]] for number in range(3)]
    assert verbs[0].count("create") == 2
    assert verbs[0].count("join") == 2
    assert max(action.amount for action in program.threads[1] if action.verb == "sleep") > 40_000_000


@pytest.mark.rights
def test_a_played_capture_keeps_the_budgets_and_the_order(captured: Path) -> None:
    program, timeline = stubs.load_actions(captured), stubs.load_timeline(captured)
    played = stubs.play(program)
    assert [thread.budget_ns for thread in played.threads] == [
        program.budgets_ns()[n] for n in sorted(program.threads)
    ]
    assert played.total_ns >= 70_000_000
    assert stubs.compare(timeline, played).missing == ()


@pytest.mark.rights
def test_an_emitted_c_program_compiles_and_ends(captured: Path, tmp_path: Path) -> None:
    source = tmp_path / "emitted.cpp"
    source.write_text(stubs.emit(stubs.load_actions(captured), "c++"))
    program = tmp_path / "emitted"
    built = subprocess.run(
        ["g++", "-O1", "-std=c++20", "-Wall", "-Werror", "-pthread", str(source), "-o", str(program)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True, timeout=60)
    assert float(done.stdout.split()[0]) > 70


@pytest.mark.rights
def test_an_emitted_python_program_runs(captured: Path, tmp_path: Path) -> None:
    source = tmp_path / "emitted.py"
    source.write_text(stubs.emit(stubs.load_actions(captured), "python"))
    done = subprocess.run(
        [sys.executable, str(source)], capture_output=True, text=True, check=True, timeout=60
    )
    assert float(done.stdout.split()[0]) > 70


def test_a_command_that_does_not_exist_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["stubs", "capture", "-o", str(tmp_path / "x"), "--", "no-such-command-here"])
    assert left.value.code == 2
    assert "no-such-command-here" in capsys.readouterr().err
