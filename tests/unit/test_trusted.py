"""The door to files of others: what is opened, what is refused, and what a file that shrinks gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latlab.errors import InputError
from latlab.formats.trusted import TrustedFile

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's file")


def test_a_file_of_one_s_own_is_read_by_copies(tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(b"0123456789")
    with TrustedFile(tmp_path / "own") as file:
        assert file.size == 10
        assert file.read(2, 3) == b"234"


def test_a_file_that_becomes_shorter_gives_what_is_left(tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(bytes(100))
    with TrustedFile(tmp_path / "own") as file:
        os.truncate(tmp_path / "own", 30)
        assert len(file.read(0, 100)) == 30


def test_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with pytest.raises(InputError, match="is a symbolic link"):
        TrustedFile(tmp_path / "link")


def test_a_pipe_is_refused_without_waiting_for_its_other_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is not a regular file"):
        TrustedFile(tmp_path / "pipe")


def test_an_absent_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        TrustedFile(tmp_path / "none")


@AS_ROOT
def test_another_user_s_file_is_root_s_only_where_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").write_bytes(b"x")
    os.chown(tmp_path / "other", 12345, 12345)
    monkeypatch.delenv("LATLAB_ALL_USERS", raising=False)
    with pytest.raises(InputError, match="belongs to user 12345; copy it, or as root add --all-users"):
        TrustedFile(tmp_path / "other")
    monkeypatch.setenv("LATLAB_ALL_USERS", "1")
    with TrustedFile(tmp_path / "other") as file:
        assert file.read(0, 1) == b"x"


@AS_ROOT
def test_a_file_must_be_the_named_owner_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").write_bytes(b"x")
    os.chown(tmp_path / "other", 12345, 12345)
    monkeypatch.setenv("LATLAB_ALL_USERS", "1")
    with pytest.raises(InputError, match="belongs to user 12345, not to user 12346"):
        TrustedFile(tmp_path / "other", owner=12346)
