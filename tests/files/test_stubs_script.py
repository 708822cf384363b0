"""A component in the script itself, which no import brings in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from latlab.errors import UsageError
from latlab.stubs.components.trace import read
from latlab.stubs.studies.question import StudyPlan, plan_of
from latlab.stubs.studies.sameness.outside import record

STEP = "def step(n):\n    return n * n\n"
MAIN = "if __name__ == '__main__':\n"
CALLS = MAIN + "    print(sum(step(i) for i in range(9)))\n"

# The component, the program's file, what is started, and how often the component is called.
SCRIPTS = {
    "by the script's name": ("app:step", "app.py", STEP + CALLS, ["app.py"], 9),
    "as __main__": ("__main__:step", "app.py", STEP + CALLS, ["app.py"], 9),
    "in a folder": ("app:step", "tools/app.py", STEP + CALLS, ["tools/app.py", "app"], 9),
    "as a module": ("app:step", "app.py", STEP + CALLS, ["-m", "app"], 9),
    "as a module of a package": ("tools.app:step", "tools/app.py", STEP + CALLS, ["-m", "tools.app"], 9),
    "of a command's text": ("__main__:step", "app.py", "", ["-c", STEP + CALLS], 9),
    "a method": (
        "app:Step.of", "app.py",
        "class Step:\n    def of(self, n):\n        return n\n" + MAIN + "    print(Step().of(3))\n",
        ["app.py"], 1,
    ),
    "kept in a table before it is called": (
        "app:step", "app.py", STEP + "table = {'s': step}\n" + MAIN + "    table['s'](4)\n", ["app.py"], 1,
    ),
    "in a thread": (
        "app:step", "app.py",
        "import threading\n" + STEP + MAIN
        + "    one = threading.Thread(target=lambda: print(step(3)))\n    one.start()\n    one.join()\n",
        ["app.py"], 1,
    ),
    "in processes that are spawned": (
        "app:step", "app.py",
        "import multiprocessing\n" + STEP + MAIN
        + "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        + "        print(pool.map(step, range(8)))\n",
        ["app.py"], 8,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SCRIPTS)
def test_a_component_of_the_script_itself_is_recorded(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    component, file, text, started, calls = SCRIPTS[case]
    monkeypatch.chdir(tmp_path)
    place = tmp_path / file
    place.parent.mkdir(exist_ok=True)
    place.write_text(text)
    count, _ = record(component, [sys.executable, *started], tmp_path / "stub.trace")
    assert count == calls
    assert component in {found.name for found in read(tmp_path / "stub.trace")}


def test_the_program_is_no_longer_followed_when_the_component_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each of its calls would take longer."""
    monkeypatch.chdir(tmp_path)
    text = STEP + MAIN + "    import sys\n    assert sys.gettrace() is None\n    print(step(3))\n"
    (tmp_path / "app.py").write_text(text)
    assert record("app:step", [sys.executable, "app.py"], tmp_path / "stub.trace")[0] == 1


def test_a_script_that_does_not_have_it_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text("import sys\nassert sys.gettrace() is None\n")
    with pytest.raises(UsageError, match="never called"):
        record("app:step", [sys.executable, "app.py"], tmp_path / "stub.trace")


def test_a_study_takes_a_component_in_place_of_a_file(tmp_path: Path) -> None:
    assert plan_of("app:Step.of") == StudyPlan("app:Step.of")
    file = tmp_path / "study.toml"
    file.write_text('component = "app:step"\nseconds = 3\n')
    assert plan_of(file) == StudyPlan("app:step", seconds=3)


def test_a_name_that_is_neither_says_both_ways() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "latlab", "stubs", "study", "app.step", "--", sys.executable, "app.py"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "give a component as module:function, or a study's file (TOML)" in done.stderr
