"""The door to files of others: what is opened, what is refused, and what a file that shrinks gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from latlab.errors import InputError, UsageError
from latlab.formats.documents import write_text
from latlab.formats.hdr.hlog import LogWriter
from latlab.formats.trusted import (
    TrustedFile,
    check_own_folder,
    make_own_folder,
    open_observed,
    to_write,
)

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
    with pytest.raises(InputError, match=r"there is no such file$"):
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


EVE = 12345


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder as /tmp is, with a file of ours beside it that is to stay as it is."""
    (tmp_path / "precious").write_text("ours")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    return tmp_path / "shared"


def wrote(path: Path) -> None:
    with open(path, "w", opener=to_write) as file:
        file.write("a result")


@AS_ROOT
@pytest.mark.parametrize("way", [wrote, lambda path: LogWriter(path).close()], ids=["opener", "hlog"])
def test_nothing_is_written_through_a_link_that_somebody_else_laid(shared: Path, way: object) -> None:
    assert callable(way)
    link = shared / "out"
    link.symlink_to(shared.parent / "precious")
    os.lchown(link, EVE, EVE)
    with pytest.raises(PermissionError, match=f"a link there belongs to user {EVE}"):
        way(link)
    assert (shared.parent / "precious").read_text() == "ours"


@AS_ROOT
def test_a_file_or_pipe_of_somebody_else_in_a_shared_folder_is_not_written_into(shared: Path) -> None:
    (shared / "file").write_text("theirs")
    os.mkfifo(shared / "pipe")
    for name in ("file", "pipe"):
        os.chown(shared / name, EVE, EVE)
        with pytest.raises(PermissionError, match=f"what is there belongs to user {EVE}"):
            wrote(shared / name)
    with pytest.raises(PermissionError):
        write_text(shared / "pipe", "a result")


@AS_ROOT
def test_a_link_to_a_link_of_somebody_else_is_looked_at_to_its_end(shared: Path) -> None:
    (shared / "theirs").symlink_to(shared.parent / "precious")
    os.lchown(shared / "theirs", EVE, EVE)
    (shared.parent / "ours").symlink_to("shared/theirs")
    with pytest.raises(PermissionError):
        wrote(shared.parent / "ours")
    assert (shared.parent / "precious").read_text() == "ours"


def test_links_of_our_own_are_written_through(shared: Path) -> None:
    (shared / "latest").symlink_to("../precious")
    wrote(shared / "latest")
    assert (shared.parent / "precious").read_text() == "a result"
    (shared / "new").symlink_to("made")
    wrote(shared / "new")
    assert (shared / "made").read_text() == "a result"


def test_a_shorter_result_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a result of before, which was longer")
    wrote(tmp_path / "out")
    assert (tmp_path / "out").read_text() == "a result"


def test_links_in_a_ring_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="Too many levels"):
        wrote(tmp_path / "a")


def test_a_folder_that_all_may_write_is_not_taken_for_ours(tmp_path: Path) -> None:
    make_own_folder(tmp_path / "parts")
    make_own_folder(tmp_path / "parts")
    (tmp_path / "parts").chmod(0o777)
    with pytest.raises(UsageError, match="every user may write it"):
        make_own_folder(tmp_path / "parts")


@AS_ROOT
def test_a_folder_that_somebody_else_laid_is_not_taken_for_ours(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    os.chown(tmp_path / "parts", EVE, EVE)
    (tmp_path / "link").symlink_to(tmp_path)
    os.lchown(tmp_path / "link", EVE, EVE)
    for name in ("parts", "link"):
        with pytest.raises(UsageError, match=f"belongs to user {EVE}"):
            check_own_folder(tmp_path / name)


def test_a_program_s_file_is_opened_through_links_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"code")
    (tmp_path / "link").symlink_to(tmp_path / "program")
    with open_observed(tmp_path / "link") as file:
        assert file.read() == b"code"
    os.mkfifo(tmp_path / "pipe")
    for other in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match="is not a regular file"):
            open_observed(other)
