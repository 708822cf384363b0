"""What is said of a process that can't be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.lab.diagnosis.applications.running import require_running
from latlab.schedule.tree import among_all


def written(
    proc: Path, pid: int, *, process: int, state: str = "S", flags: int = 0, name: str = "app"
) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "status").write_text(f"Name:\t{name}\nTgid:\t{process}\nPid:\t{pid}\n")
    (proc / str(pid) / "stat").write_text(f"{pid} ({name}) {state} 1 1 1 0 -1 {flags} 0 0\n")


def test_a_process_that_runs_is_fine(tmp_path: Path) -> None:
    written(tmp_path, 7, process=7, name="a) (b")
    require_running(7, tmp_path)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"process": 5}, "app is a thread of process 5"),
        ({"process": 7, "flags": 0x00208040}, "app is a thread of the kernel: it runs no program"),
        ({"process": 7, "state": "Z"}, "app has ended, and only its parent has yet to notice"),
    ],
)
def test_what_is_no_running_process_is_told_as_what_it_is(
    tmp_path: Path, wanted: dict[str, object], said: str
) -> None:
    written(tmp_path, 7, **wanted)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=said) as told:
        require_running(7, tmp_path)
    assert told.value.remedy


def test_a_number_that_nobody_has_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no process with this id"):
        require_running(7, tmp_path)


def test_a_namespace_of_its_own_is_known_by_its_number(tmp_path: Path) -> None:
    assert not among_all(str(tmp_path))
    assert among_all(str(tmp_path / "gone"))
