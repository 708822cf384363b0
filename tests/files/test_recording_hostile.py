"""Recordings in folders that others write, and what they may not do to whoever lists, reads or writes."""

from __future__ import annotations

import json
import os
import resource
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from latlab.errors import InputError, UsageError
from latlab.formats import documents
from latlab.formats.recording import RecordingWriter, make_empty_folder, open_recording
from latlab.formats.runs import export_run, find_runs
from latlab.system.environment import capture

EVE = 54321
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")


def recorded(path: Path, *, complete: bool = True) -> Path:
    writer = RecordingWriter(path, "queues", parameters={}, environment=capture(), seed=1)
    writer.append("fills", {"t_ns": np.arange(1000), "fill": np.arange(1000)})
    writer.put("answer", {"schema": 1, "sentence": "book limits."})
    writer.close() if complete else writer.abandon()
    return path


def given_to(user: int, path: Path) -> Path:
    for one in (path, *path.rglob("*")):
        os.chown(one, user, user, follow_symlinks=False)
    return path


def changed(path: Path, **values: object) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, **values}))


def linked_series(run: Path) -> None:
    (run / "fills.arrows").unlink()
    (run / "fills.arrows").symlink_to("/etc/passwd")


def linked_manifest(run: Path) -> None:
    (run / "recording.json").rename(run / "elsewhere")
    (run / "recording.json").symlink_to(run / "elsewhere")


def piped_series(run: Path) -> None:
    (run / "fills.arrows").unlink()
    os.mkfifo(run / "fills.arrows")


def piped_answer(run: Path) -> None:
    (run / "answer.json").unlink()
    os.mkfifo(run / "answer.json")


def sparse_series(run: Path) -> None:
    os.truncate(run / "fills.arrows", 1 << 40)


def sparse_document(run: Path) -> None:
    os.truncate(run / "answer.json", 1 << 40)


def claimed_body(run: Path) -> None:
    """A terabyte that a message's head claims, and a sparse file that has it."""
    with open(run / "fills.arrows", "r+b") as file:
        file.seek(0)
        whole = file.read()
        for at in range(0, len(whole) - 8, 8):  # every length of a body that there is
            if whole[at : at + 8] == (16000).to_bytes(8, "little"):
                file.seek(at)
                file.write((1 << 39).to_bytes(8, "little"))
    os.truncate(run / "fills.arrows", 1 << 40)


def nested(run: Path) -> None:
    (run / "answer.json").write_text('{"a":' * 100_000)


ATTACKS: dict[str, Callable[[Path], None]] = {
    one.__name__: one
    for one in (
        *(linked_series, linked_manifest, piped_series, piped_answer, sparse_series, sparse_document),
        *(claimed_body, nested),
    )
}


def read_whole(run: Path) -> None:
    found = open_recording(run)
    found.document("answer")
    found.series("fills")


@pytest.mark.parametrize("complete", [True, False], ids=["complete", "cut"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_recording_is_refused_in_one_line_and_takes_nothing(
    attack: str, complete: bool, tmp_path: Path
) -> None:
    run = recorded(tmp_path / "run", complete=complete)
    ATTACKS[attack](run)
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    find_runs(tmp_path)
    with pytest.raises(InputError) as refused:
        read_whole(run)
    assert "\n" not in str(refused.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB
    assert time.monotonic() - began < 10


@AS_ROOT
def test_root_reads_another_user_s_recording_only_where_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = given_to(EVE, recorded(tmp_path / "run"))
    monkeypatch.delenv("LATLAB_ALL_USERS", raising=False)
    with pytest.raises(InputError, match="belongs to user 54321; copy it, or as root set LATLAB_ALL_USERS=1"):
        open_recording(run)
    monkeypatch.setenv("LATLAB_ALL_USERS", "1")
    assert open_recording(run).series("fills").num_rows == 1000


@AS_ROOT
def test_root_reads_what_belongs_to_the_owner_of_the_folder_that_it_works_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(tmp_path / "home" / "run")
    given_to(EVE, tmp_path / "home")
    monkeypatch.delenv("LATLAB_ALL_USERS", raising=False)
    monkeypatch.chdir(tmp_path / "home")
    assert open_recording("run").kind == "queues"


@AS_ROOT
def test_a_folder_that_another_user_laid_out_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LATLAB_ALL_USERS", raising=False)
    (tmp_path / "run").mkdir()
    given_to(EVE, tmp_path / "run")
    with pytest.raises(UsageError, match="belongs to user 54321; name a new folder"):
        make_empty_folder(tmp_path / "run")


def test_a_document_is_not_written_through_a_link_that_lies_in_its_way(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / f".a.json.{os.getpid()}.part").symlink_to(tmp_path / "precious")
    documents.write(tmp_path / "a.json", {"schema": 1})
    assert (tmp_path / "precious").read_text() == "mine"
    assert documents.read(tmp_path / "a.json") == {"schema": 1}


def test_an_export_holds_nothing_that_a_link_points_to(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run")
    (tmp_path / "secret").write_text("{}")
    (run / "more.json").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match=r"more.json: is a symbolic link"):
        export_run(run, tmp_path / "run.tar")
    (run / "more.json").unlink()
    export_run(run, tmp_path / "run.tar")
    with tarfile.open(tmp_path / "run.tar") as archive:
        assert all(member.isreg() or member.isdir() for member in archive)


def test_what_steers_a_terminal_is_taken_out_of_names_and_answers(tmp_path: Path) -> None:
    run = recorded(tmp_path / "a\x1b[2Jb")
    changed(run / "answer.json", sentence="book \x1b]0;owned\x07limits\x9b31m.")
    changed(run / "recording.json", command="latlab \x1b[31m")
    (found,) = find_runs(tmp_path)
    assert (found.name, found.answer, found.command) == (
        "a?[2Jb",
        "book ?]0;owned?limits?31m.",
        "latlab ?[31m",
    )


def test_a_listing_is_not_stopped_by_depth_or_by_a_recording_that_can_not_be_read(tmp_path: Path) -> None:
    recorded(tmp_path / "good")
    recorded(tmp_path / "bad")
    (tmp_path / "bad" / "answer.json").write_text("[")
    recorded(tmp_path.joinpath(*["d"] * 40, "too-deep"))
    assert {run.name: bool(run.kind) for run in find_runs(tmp_path)} == {"good": True, "bad": False}
