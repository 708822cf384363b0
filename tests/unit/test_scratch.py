"""Scratch folders: whose they are, and what becomes of those of dead processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from latlab.system import scratch as module
from latlab.system.scratch import (
    leftovers,
    process_start,
    remove,
    remove_what_is_dead,
    scratch,
    scratch_name,
)


@pytest.fixture(autouse=True)
def only_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "folders", lambda: [tmp_path])
    monkeypatch.setattr(module, "shared_memory", lambda: str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def left_by_a_dead_process(folder: Path, purpose: str = "run") -> Path:
    """What a run leaves that is killed in the middle."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    start = process_start(ended.pid)
    ended.wait()
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    made = folder / f"latlab-{purpose}-{namespace}-{ended.pid}-{start}.abc"
    made.mkdir(mode=0o700)
    (made / "link").write_bytes(bytes(100_000))
    return made


def test_a_folder_is_this_user_s_alone_and_gone_at_the_end() -> None:
    with scratch("run") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert f"-{os.getpid()}-{process_start(os.getpid())}." in folder.name
    assert not folder.exists()


def test_the_next_start_removes_what_a_killed_run_left(tmp_path: Path) -> None:
    left = left_by_a_dead_process(tmp_path)
    with scratch("run"):
        assert not left.exists()


def test_files_of_a_killed_run_in_the_open_are_removed_too(tmp_path: Path) -> None:
    folder = left_by_a_dead_process(tmp_path, "iceoryx")
    left = tmp_path / f"{folder.name}_1122.dynamic"
    left.write_bytes(b"x")
    ours = tmp_path / f"{scratch_name('iceoryx')}0_1122.dynamic"
    ours.write_bytes(b"x")
    remove_what_is_dead()
    assert [path.name for path in tmp_path.iterdir()] == [ours.name]


def test_the_folder_of_a_live_process_stays() -> None:
    with scratch("run") as first, scratch("run"):
        assert first.is_dir()
        assert [one.path for one in leftovers() if one.purpose == "run"] == []


def test_a_leftover_tells_what_it_takes(tmp_path: Path) -> None:
    left = left_by_a_dead_process(tmp_path, "demo")
    (found,) = [one for one in leftovers() if one.purpose == "demo"]
    assert found.path == left
    assert 100_000 <= found.size_bytes < 200_000


def test_a_folder_of_another_pid_namespace_stays(tmp_path: Path) -> None:
    left = left_by_a_dead_process(tmp_path)
    namespace = str(Path("/proc/self/ns/pid").stat().st_ino)
    other = left.rename(left.with_name(left.name.replace(namespace, "1")))
    with scratch("run"):
        assert other.is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's")
def test_another_user_s_folder_stays(tmp_path: Path) -> None:
    left = left_by_a_dead_process(tmp_path)
    os.chown(left, 12345, 12345)
    with scratch("run"):
        assert left.is_dir()


def test_a_link_in_a_leftover_s_place_is_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    left = left_by_a_dead_process(tmp_path)
    (left / "way").symlink_to(kept)
    (found,) = [one for one in leftovers() if one.purpose == "run"]
    assert remove(found)
    assert (kept / "file").read_text() == "mine"
    (tmp_path / left.name).symlink_to(kept)
    assert [one for one in leftovers() if one.purpose == "run"] == []


def left_counters(folder: Path, count: int, *, between_processes: bool) -> list[Path]:
    """Counter files of killed processes, the oldest first."""
    code = (
        "import os, sys\n"
        "from latlab._core import counting\n"
        "counting.set_application('killed')\n"
        f"slot = counting.Slot(name='q', capacity=8, sides=5, identity={7 if between_processes else 0})\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "LATLAB_COUNTERS": str(folder)}, check=False
    )
    (made,) = folder.glob("*.counters")
    size, content = made.stat().st_size, made.read_bytes().rstrip(b"\0")
    pid, start, _ = made.name.split("-")
    made.unlink()
    found = [folder / f"{pid}-{start}-{number}.counters" for number in range(count)]
    for age, path in enumerate(found):
        path.write_bytes(content)
        os.truncate(path, size)  # the rest is a hole: 70 whole copies take seconds
        path.chmod(0o600)
        os.utime(path, ns=(age, age))
    return found


def test_of_dead_applications_counters_the_next_start_leaves_the_latest(counters: Path) -> None:
    found = left_counters(counters, 70, between_processes=False)
    with scratch("run"):
        assert [path.exists() for path in found] == [False] * 6 + [True] * 64
    assert {one.path for one in leftovers()} == set(found[6:])


def test_what_is_a_part_of_the_counts_between_processes_stays(counters: Path) -> None:
    found = left_counters(counters, 66, between_processes=True)
    with scratch("run"):
        assert all(path.exists() for path in found)
