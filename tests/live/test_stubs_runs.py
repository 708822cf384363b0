"""Runs of a study that fail, that do not end, and those before it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from latlab.errors import InputError, LatlabError
from latlab.stubs import StudyPlan
from latlab.stubs.studies import runner
from latlab.stubs.studies.study import require_place

WORK = "def step(i): return i * i\n"
FAILS = """import os, sys, work
number = len(open("count").read())
open("count", "a").write("x")
for i in range(3): work.step(i)
sys.exit(7 if number in FAILING else 0)
"""
WAITS = """import threading, work
thread = threading.Thread(target=work.done.wait)
thread.start()
work.step(1)
thread.join()
"""


Lab = Callable[..., runner.Lab]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Of a program and what it works with, in a folder of their own."""

    def made(app: str, work: str = WORK) -> runner.Lab:
        (tmp_path / "work.py").write_text(work)
        (tmp_path / "app.py").write_text(app)
        (tmp_path / "count").write_text("")
        (tmp_path / "lab").mkdir()
        return runner.Lab([sys.executable, "app.py"], StudyPlan("work:step"), tmp_path / "lab")

    monkeypatch.chdir(tmp_path)
    return made


@pytest.mark.side_by_side
def test_a_run_that_fails_among_several_is_repeated_and_counted(lab: Lab) -> None:
    runs = lab(FAILS.replace("FAILING", "(4,)"))
    for _ in range(6):
        runs.run("original")
    assert (len(runs.runs), len(runs.failed)) == (6, 1)
    assert "exit code 7" in runs.failed[0]


@pytest.mark.side_by_side
def test_a_command_that_fails_each_time_it_is_tried_is_refused(lab: Lab) -> None:
    runs = lab(FAILS.replace("FAILING", "(0, 1, 5, 6, 7, 8, 9)"))
    with pytest.raises(LatlabError, match="exit code 7"):
        runs.run("original")
    for _ in range(3):
        runs.run("original")
    with pytest.raises(LatlabError, match="exit code 7"):
        runs.run("original")


def test_a_component_that_others_wait_for_does_not_hang_the_study(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_LEAST_LIMIT_S", 3.0)
    monkeypatch.setattr(runner, "_LIMIT", 1.0)
    runs = lab(WAITS, "import threading\ndone = threading.Event()\ndef step(i): done.set(); return i\n")
    runs.run("original")
    runs.run("record")
    with pytest.raises(LatlabError, match="did not end within"):
        runs.run("flat")


@pytest.mark.side_by_side
def test_a_place_that_cannot_be_written_is_refused_before_a_study(tmp_path: Path) -> None:
    require_place(tmp_path / "new" / "folder")
    assert not (tmp_path / "new").exists()
    with pytest.raises(InputError, match="can't be written"):
        require_place("/proc/no/such")


@pytest.mark.side_by_side
def test_a_dry_run_tells_calls_determinism_state_and_time(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(
        "class C:\n n = 0\n def step(self, i):\n  self.n += i\n  return self.n\n"
    )
    (tmp_path / "app.py").write_text("import work\nc = work.C()\nfor i in range(9): c.step(i)\nprint(c.n)\n")
    (tmp_path / "study.toml").write_text('component = "work:C.step"\nseconds = 30\n')
    done = subprocess.run(
        [sys.executable, "-m", "latlab", "stubs", "study", "study.toml", "--dry-run", "--json",
         "--", sys.executable, "app.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["calls"], told["threads"], told["processes"], told["keeps"]) == (9, 1, 1, ["self.n"])
    assert told["deterministic"] in (True, None)  # None: the machine was too slow for a second recording
    assert told["least_seconds"] > 0
