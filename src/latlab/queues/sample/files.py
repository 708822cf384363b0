"""Finding counter files, and what stands in them, as plain values."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from latlab._core import queues as core

__all__ = ["PHASES", "Application", "applications", "counter_files", "counter_folders", "refused_folder"]

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
    """The folders to look into: this user's, and for root every user's."""
    own = Path(core.counter_folder())
    folders = [own]
    if os.getuid() == 0 and "LATLAB_COUNTERS" not in os.environ:
        with os.scandir(own.parent) as entries:  # several times a second, as below
            names = sorted(entry.name for entry in entries if entry.name.startswith("latlab-"))
        folders += [own.parent / name for name in names if name != own.name]
    return folders


def refused_folder() -> str:
    """Why applications publish nothing in the folder that LATLAB_COUNTERS names, or ""."""
    folder = os.environ.get("LATLAB_COUNTERS")
    if not folder or not Path(folder).exists():
        return ""
    status = Path(folder).stat()
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
        return ""
    return f"applications don't publish into {folder}: it is no folder of this user's alone (mode 0700)"


def counter_files() -> Iterator[Path]:
    """Every counter file that there is, without opening any."""
    for folder in counter_folders():
        try:
            with os.scandir(folder) as entries:  # several times a second: paths would cost most of it
                names = sorted(entry.name for entry in entries if entry.name.endswith(".counters"))
        except OSError:
            # Another user's folder that went away or that we may not read holds nothing for us.
            continue
        yield from (folder / name for name in names)


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
