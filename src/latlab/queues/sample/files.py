"""Finding counter files, and what stands in them, as plain values."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from latlab._core import queues as core
from latlab.formats.trusted import all_users

__all__ = [
    "PHASES",
    "Application",
    "CounterFiles",
    "applications",
    "counter_files",
    "counter_folders",
    "refused_folder",
    "unread_users",
]

# Of a folder: whoever fills one must not keep us busy. Those of living processes come first, so that what
# thousands of killed ones left hides nobody.
_MOST_ENTRIES, _MOST_FILES = 65536, 4096
_TICK_NS = 100_000_000
PHASES = ("starting", "running", "stopping", "ended")


@dataclass(frozen=True)
class Application:
    """A counter file as it was found.

    Attributes:
        state: ready (its process lives), dead, other boot, or why it can't be read.
        application: the name that it gave itself; "" where the file can't be read.
        phase: starting, running, stopping or ended.
        queues: registered and not retired.
    """

    path: str
    state: str
    pid: int = 0
    process_start: int = 0
    application: str = ""
    phase: str = ""
    queues: int = 0
    stages: int = 0

    @property
    def live(self) -> bool:
        """Its process runs."""
        return self.state == "ready"

    def to_json(self) -> dict[str, Any]:
        """For `latlab queues list --json`."""
        return {**asdict(self), "live": self.live}


def counter_folders() -> list[Path]:
    """The folders to look into: this user's, and every user's where root asks for them (`--all-users`)."""
    own = Path(core.counter_folder())
    folders = [own]
    if all_users() and "LATLAB_COUNTERS" not in os.environ:
        folders += _others(own)
    return folders


def _others(own: Path) -> list[Path]:
    """Other users' folders: each is named by its owner's number, and belongs to that user."""
    found = []
    try:
        with os.scandir(own.parent) as entries:  # several times a second, as below
            for entry in entries:
                user = entry.name.removeprefix("latlab-")
                if entry.name == own.name or not entry.name.startswith("latlab-") or not user.isdecimal():
                    continue
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode) and str(status.st_uid) == user:
                    found.append(own.parent / entry.name)
    except OSError:  # no shared memory, or a folder that went away while we looked
        return []
    return sorted(found)


def unread_users() -> int:
    """How many other users publish counters that root hasn't asked for."""
    if os.geteuid() != 0 or all_users() or "LATLAB_COUNTERS" in os.environ:
        return 0
    return len(_others(Path(core.counter_folder())))


def refused_folder() -> str:
    """Why applications publish nothing in their folder (`LATLAB_COUNTERS`, or this user's own), or ""."""
    folder = Path(core.counter_folder())
    try:
        status = folder.lstat()
    except OSError:
        return _no_room_for(folder)  # an application makes it
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
        return ""
    whose = "" if status.st_uid == os.geteuid() else f", and belongs to user {status.st_uid}"
    return (
        f"applications don't publish into {folder}: it must be a folder of this user alone (mode 0700){whose}"
    )


def _no_room_for(folder: Path) -> str:
    """Why an application can't make its folder, or ""."""
    parent = folder.parent
    if os.access(parent, os.W_OK | os.X_OK):
        return ""
    what = "can't be written" if parent.is_dir() else "is not there"
    return (
        f"applications can't publish: {parent} {what}; name another folder by LATLAB_COUNTERS, for them too"
    )


def counter_files() -> Iterator[Path]:
    """Every counter file that there is, without opening any."""
    for folder in counter_folders():
        yield from _listed(folder)


def _listed(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:  # several times a second: paths would cost most of it
            names = [entry.name for entry in islice(entries, _MOST_ENTRIES) if _is_counters(entry.name)]
    except OSError:
        # Another user's folder that went away or that we may not read holds nothing for us.
        return []
    if len(names) > _MOST_FILES:
        names = sorted(names, key=_is_dead)[:_MOST_FILES]
    return [folder / name for name in sorted(names)]


class CounterFiles:
    """Calls give what `counter_files` does; a folder in which nothing came or went is not read again.

    Who looks several times a second would else spend most of its time on what dead applications left.
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[int, list[Path]]] = {}  # by folder: as it was changed last

    def __call__(self) -> Iterator[Path]:
        """Every counter file that there is."""
        folders = counter_folders()
        self._known = {folder: self._known[folder] for folder in folders if folder in self._known}
        for folder in folders:
            yield from self._in(folder)

    def _in(self, folder: Path) -> list[Path]:
        try:
            changed_ns = os.stat(folder).st_mtime_ns  # noqa: PTH116 (as above)
        except OSError:
            return []
        before = self._known.get(folder)
        if before is not None and before[0] == changed_ns:
            return before[1]
        found = _listed(folder)
        # What comes within a tick of the file system's clock does not change the time again.
        if not changed_ns <= time.time_ns() < changed_ns + _TICK_NS:
            self._known[folder] = changed_ns, found
        return found


def _is_counters(name: str) -> bool:
    """A name as applications give it: PID-START-NUMBER.counters. Any other could be told to a terminal."""
    parts = name.removesuffix(".counters").split("-")
    return name.endswith(".counters") and len(parts) == 3 and all(part.isdecimal() for part in parts)


def _is_dead(name: str) -> bool:
    return not os.path.exists(f"/proc/{name.partition('-')[0]}")  # noqa: PTH110


def applications() -> list[Application]:
    """Every counter file, live, dead or unreadable."""
    return [_look(path) for path in counter_files()]


def _look(path: Path) -> Application:
    reader = core.Reader(str(path))
    if not reader.readable:
        return Application(str(path), reader.state)
    header = reader.header()
    live = 2
    queues = [reader.queue(slot) for slot in range(reader.queue_count)]
    stages = [reader.stage(slot) for slot in range(reader.stage_count)]
    phase = reader.phase
    return Application(
        path=str(path),
        state=reader.state,
        pid=header["pid"],
        process_start=header["process_start"],
        application=reader.application,
        phase=PHASES[phase] if phase < len(PHASES) else str(phase),
        queues=sum(queue is not None and queue["state"] == live for queue in queues),
        stages=sum(stage is not None and stage["state"] == live for stage in stages),
    )
