"""Folders for what a run needs and nobody keeps: named by the process that made them, and removed with it.

A process that is killed removes nothing. So each folder's name says who made it (the process id, its start
time, its pid namespace): the next run removes those of dead processes, and `latlab clean` lists and removes
them, as it does the counter files of dead applications. Of those the next run leaves the latest, which may be
looked at still, and what is a part of the counts of a queue between processes.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "Leftover", "folders", "leftovers", "process_start", "remove", "remove_what_is_dead", "scratch",
    "scratch_name", "shared_memory",
]  # fmt: skip

_NAME = re.compile(r"latlab-([a-z]+)-(\d+)-(\d+)-(\d+)\.\w[\w.]*")
_MOST_COUNTERS = 64  # of dead applications: every observer reads them all as it begins
_COUNTERS = re.compile(r"(\d+)-(\d+)-\d+\.counters")


@dataclass(frozen=True)
class Leftover:
    """What a dead process left.

    Attributes:
        purpose: what it was for: run, demo, counters and so on.
        size_bytes: that removing it frees.
    """

    path: Path
    purpose: str
    pid: int
    size_bytes: int


def shared_memory() -> str | None:
    """The folder of memory that looks like files, where it can be written; else the usual temporary one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK | os.X_OK) else None


def folders() -> list[Path]:
    """Where scratch folders are made."""
    found = [Path(tempfile.gettempdir()), Path("/dev/shm")]
    return [folder for folder in dict.fromkeys(found) if folder.is_dir()]


def scratch_name(purpose: str) -> str:
    """How the name of a folder or a file begins that goes with this process, however that ends."""
    return f"latlab-{purpose}-{_namespace()}-{os.getpid()}-{process_start(os.getpid())}."


@contextmanager
def scratch(purpose: str, *, shared: bool = False) -> Iterator[Path]:
    """A folder of this user's alone, removed at the end; those of dead processes are removed first.

    Args:
        purpose: one word of small letters, a part of the name.
        shared: in shared memory, where it can be.

    Raises:
        OSError: there is no room, or no right to make one.
    """
    remove_what_is_dead()
    with tempfile.TemporaryDirectory(
        prefix=scratch_name(purpose), dir=shared_memory() if shared else None, ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)


def leftovers() -> list[Leftover]:
    """What dead processes of this user left, of this boot and pid namespace or an earlier boot."""
    found = [left for folder in folders() for left in _scratch_in(folder)]
    own = Path(os.environ.get("LATLAB_COUNTERS") or f"/dev/shm/latlab-{os.geteuid()}")
    for name, status in _entries(own):
        match = _COUNTERS.fullmatch(name)
        if match and stat.S_ISREG(status.st_mode) and _dead(int(match[1]), int(match[2])):
            found.append(Leftover(own / name, "counters", int(match[1]), status.st_blocks * 512))
    return found


def remove_what_is_dead() -> None:
    """Remove what dead processes of this user left; of their counters the latest stay."""
    counters = []
    for left in leftovers():
        if left.purpose == "counters":
            counters.append(left)
        else:
            remove(left)
    if len(counters) > _MOST_COUNTERS:
        made = {left.path: _made_ns(left.path) for left in counters}
        counters.sort(key=lambda left: made[left.path])
        for left in counters[:-_MOST_COUNTERS]:
            if not _has_shares(left.path):
                remove(left)


def _made_ns(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except OSError:  # another start removed it
        return 0


def _has_shares(path: Path) -> bool:
    """Whether it counts a queue between processes, others of which may live."""
    from latlab._core import queues as core

    reader = core.Reader(str(path))
    if not reader.readable:
        return False
    queues = (reader.queue(slot) for slot in range(reader.queue_count))
    return any(queue is not None and queue["identity"] for queue in queues)


def _scratch_in(folder: Path) -> Iterator[Leftover]:
    for name, status in _entries(folder):
        match = _NAME.fullmatch(name)
        if match is None or not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
            continue  # files are a product's, which has names of ours for what it makes
        if int(match[2]) != _namespace():
            continue  # a container's that shares the folder: its processes are not ours to judge
        if _dead(int(match[3]), int(match[4])):
            size = _size(folder / name) if stat.S_ISDIR(status.st_mode) else status.st_blocks * 512
            yield Leftover(folder / name, match[1], int(match[3]), size)


def _entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """This user's entries of a folder; none where it can't be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                status = _status(entry)
                if status is not None and status.st_uid == os.geteuid():
                    yield entry.name, status
    except OSError:
        return


def _status(entry: os.DirEntry[str]) -> os.stat_result | None:
    try:
        return entry.stat(follow_symlinks=False)
    except OSError:  # it went away meanwhile
        return None


def _size(folder: Path) -> int:
    total = 0
    for name, status in _entries(folder):
        total += _size(folder / name) if stat.S_ISDIR(status.st_mode) else status.st_blocks * 512
    return total


def remove(left: Leftover) -> bool:
    """Remove it; whether it is gone. No link is followed out of it."""
    try:
        if left.path.is_dir() and not left.path.is_symlink():
            shutil.rmtree(left.path)
        else:
            left.path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def process_start(pid: int) -> int:
    """Field 22 of /proc/PID/stat: with the process id, a process until the machine starts again; 0: none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _dead(pid: int, start: int) -> bool:
    return process_start(pid) != start


def _namespace() -> int:
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0
