"""`latlab runs` over a folder of recordings."""

from __future__ import annotations

import json
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.files import started

from latlab.errors import ExitCode, InputError, UsageError
from latlab.formats.recording import RecordingWriter
from latlab.formats.runs import export_run, find_runs, remove_run
from latlab.model.diagnosis.answer import Answer
from latlab.model.machine.environment import Environment
from latlab.system.environment import capture


@pytest.fixture(scope="module")
def environment() -> Environment:
    return capture()


def recorded(path: Path, kind: str, environment: Environment, *, complete: bool = True) -> Path:
    writer = RecordingWriter(path, kind, parameters={}, environment=environment, seed=1)
    writer.append("fills", {"t_ns": np.arange(3), "fill": np.array([1, 2, 3])})
    writer.put("answer", {"schema": 1, "sentence": "book limits. It is slow."})
    if complete:
        writer.close()
    else:
        writer.abandon()
    return path


latlab = partial(started.latlab, "runs")


def test_recordings_are_found_wherever_they_lie_and_say_their_state(
    tmp_path: Path, environment: Environment
) -> None:
    recorded(tmp_path / "a", "queues", environment)
    recorded(tmp_path / "deep" / "b", "jitter", environment, complete=False)
    recorded(tmp_path / "a" / "inside", "queues", environment)
    (tmp_path / "other").mkdir()

    found = {run.name: (run.kind, run.state, run.answer) for run in find_runs(tmp_path)}

    assert found == {
        "a": ("queues", "complete", "book limits. It is slow."),
        "deep/b": ("jitter", "not complete", "book limits. It is slow."),
    }


def test_a_damaged_recording_is_listed_with_what_is_wrong(tmp_path: Path, environment: Environment) -> None:
    path = recorded(tmp_path / "a", "queues", environment)
    (path / "recording.json").write_text("{")

    (found,) = find_runs(tmp_path)

    assert found.kind == ""
    assert "recording.json" in found.state


def test_the_table_says_damaged_and_the_reason_stands_below_it(
    tmp_path: Path, environment: Environment
) -> None:
    path = recorded(tmp_path / "a", "queues", environment)
    (path / "recording.json").write_text("{")

    done = latlab("list", str(tmp_path))

    assert done.returncode == 0
    assert "damaged" in done.stdout
    assert "not JSON" not in done.stdout
    assert "recording.json: offset" in done.stderr


def test_a_file_in_place_of_a_folder_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = latlab("list", str(tmp_path / "file"))

    assert done.returncode == 1
    assert done.stderr.startswith(f"latlab: {tmp_path / 'file'}: is not a folder; ")


def test_an_export_opens_without_us(tmp_path: Path, environment: Environment) -> None:
    path = recorded(tmp_path / "a", "queues", environment)

    export_run(path, tmp_path / "a.tar.gz")

    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        member = archive.extractfile("a/fills.csv")
        assert member is not None
        assert member.read().decode().splitlines() == ["t_ns,fill", "0,1", "1,2", "2,3"]
        assert "a/answer.json" in archive.getnames()


def test_an_export_holds_the_recordings_inside(tmp_path: Path, environment: Environment) -> None:
    path = recorded(tmp_path / "a", "diagnosis", environment)
    recorded(path / "observation", "queues", environment)

    export_run(path, tmp_path / "a.tar")

    with tarfile.open(tmp_path / "a.tar") as archive:
        assert {"a/fills.csv", "a/observation/fills.csv"} <= set(archive.getnames())


def test_an_export_overwrites_nothing(tmp_path: Path, environment: Environment) -> None:
    path = recorded(tmp_path / "a", "queues", environment)
    (tmp_path / "a.tar").write_text("mine")

    with pytest.raises(UsageError, match="exists already"):
        export_run(path, tmp_path / "a.tar")


def test_what_is_no_recording_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()

    with pytest.raises(InputError, match="not a recording"):
        remove_run(tmp_path / "precious")

    assert (tmp_path / "precious").exists()


def test_the_command_line_lists_and_removes(tmp_path: Path, environment: Environment) -> None:
    path = recorded(tmp_path / "a", "queues", environment)

    listed = latlab("list", str(tmp_path), "--json")
    removed = latlab("remove", "--yes", str(path))

    assert [run["name"] for run in json.loads(listed.stdout)["runs"]] == ["a"]
    assert removed.returncode == ExitCode.OK, removed.stderr
    assert not path.exists()


def test_exports_and_removals_are_told_to_machines(tmp_path: Path, environment: Environment) -> None:
    path, archive = recorded(tmp_path / "a", "queues", environment), tmp_path / "a.tar.gz"

    exported = json.loads(latlab("export", str(path), "-o", str(archive), "--json").stdout)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    removed = json.loads(latlab("remove", "--yes", "--json", str(path)).stdout)

    assert exported == {"schema": 1, "archive": str(archive), "bytes": archive.stat().st_size}
    assert removed == {"schema": 1, "removed": [{"path": str(path), "bytes": size}]}


def test_a_comparison_is_told_to_machines_by_the_tool_that_makes_it(
    tmp_path: Path, environment: Environment
) -> None:
    paths = []
    for name in ("a", "b"):
        answer = Answer("x", "book limits.", "book", "stage", 1.0, (), (), (), ())
        with RecordingWriter(tmp_path / name, "diagnosis", parameters={}, environment=environment) as writer:
            writer.put("answer", answer.to_json())
        paths.append(str(tmp_path / name))

    done = latlab("compare", *paths, "--json")

    assert done.returncode == ExitCode.OK, done.stderr
    assert json.loads(done.stdout)["limiting_before"] == "book"


def test_recordings_of_two_kinds_are_not_compared(tmp_path: Path, environment: Environment) -> None:
    one, two = (
        recorded(tmp_path / "a", "queues", environment),
        recorded(tmp_path / "b", "jitter", environment),
    )

    done = latlab("compare", str(one), str(two))

    assert done.returncode == ExitCode.USAGE
    assert "nothing to compare" in done.stderr
