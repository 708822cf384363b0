"""A shield: everything else is moved off the measuring cores, and back.

With cgroup v2 (and its cpuset controller) the other groups are confined to the other cores; with v1 two
cpusets are made, and every task that may be moved goes into the one without the measuring cores. Kernel
threads that are bound stay.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from latlab.errors import UnavailableError, UsageError
from latlab.system.settings import put
from latlab.system.tracing import parse_cpu_list

__all__ = ["Shield", "cpuset_version", "shielded"]

_GROUP = "latlab-others"


@dataclass(frozen=True)
class Shield:
    """What was moved.

    Attributes:
        version: of the cgroups, 1 or 2.
        others: the cores that everything else runs on now.
        moved: tasks (v1) or groups (v2) that were moved.
        kept: those that could not be: kernel threads that are bound to a core.
    """

    version: int
    others: tuple[int, ...]
    moved: int
    kept: int


def cpuset_version(root: Path = Path("/")) -> tuple[int, Path]:
    """The version of the cgroups that hold the cpuset controller, and its folder.

    Raises:
        UnavailableError: there is none.
    """
    unified = root / "sys/fs/cgroup"
    try:
        if "cpuset" in (unified / "cgroup.controllers").read_text().split():
            return 2, unified
    except OSError:
        pass
    legacy = unified / "cpuset"
    for name in ("cpuset.cpus", "cpus"):
        if (legacy / name).exists():
            return 1, legacy
    raise UnavailableError(
        "there is no cpuset controller here", remedy="boot with isolcpus=<cpus> in its place"
    )


@contextmanager
def shielded(cpus: Sequence[int], *, root: Path = Path("/")) -> Iterator[Shield]:
    """Keep everything but this process off `cpus` inside the block.

    Raises:
        UsageError: no CPU is named, or none is left for the others.
        UnavailableError: no cpusets, or no rights.
    """
    if not cpus:
        raise UsageError("no CPU is named to shield")
    version, folder = cpuset_version(root)
    online = parse_cpu_list((root / "sys/devices/system/cpu/online").read_text())
    others = [cpu for cpu in online if cpu not in set(cpus)]
    if not others:
        raise UsageError("every CPU is to be shielded: none is left for the others", remedy="name fewer")
    if version == 2:
        with _unified(folder, others) as (moved, kept):
            yield Shield(2, tuple(others), moved, kept)
    else:
        with _legacy(folder, others, root) as (moved, kept):
            yield Shield(1, tuple(others), moved, kept)


@contextmanager
def _unified(folder: Path, others: Sequence[int]) -> Iterator[tuple[int, int]]:
    own = _own_group()
    groups = [p for p in sorted(folder.iterdir()) if p.is_dir() and (p / "cpuset.cpus").exists()]
    before = {}
    kept = 0
    try:
        for group in groups:
            if own is not None and own.startswith(f"/{group.name}"):
                kept += 1  # our own group: confining it would confine us
                continue
            text = (group / "cpuset.cpus").read_text().strip()
            try:
                put(group / "cpuset.cpus", ",".join(map(str, others)))
                before[group / "cpuset.cpus"] = text
            except UnavailableError:
                kept += 1
        if groups and not before:
            raise UnavailableError("no group could be confined", remedy="run as root")
        yield len(before), kept
    finally:
        for path, text in before.items():
            put(path, text or "\n")


def _own_group() -> str | None:
    try:
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                return line[3:]
    except OSError:
        return None
    return None


@contextmanager
def _legacy(folder: Path, others: Sequence[int], root: Path) -> Iterator[tuple[int, int]]:
    prefix = "cpuset." if (folder / "cpuset.cpus").exists() else ""
    group = folder / _GROUP
    try:
        group.mkdir(exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"{group} can't be made ({error.strerror})", remedy="run as root") from None
    moved: list[str] = []
    try:
        _set(group / f"{prefix}cpus", ",".join(map(str, others)))
        _set(group / f"{prefix}mems", (folder / f"{prefix}mems").read_text().strip())
        own = {str(os.getpid()), *(p.name for p in (root / "proc/self/task").glob("*"))}
        kept = 0
        for task in (folder / "tasks").read_text().split():
            if task in own:
                continue
            try:
                _set(group / "tasks", task)
                moved.append(task)
            except UnavailableError:
                kept += 1
        yield len(moved), kept
    finally:
        # New children of moved tasks are in the group too: everything that is in it goes back.
        for task in (group / "tasks").read_text().split() if (group / "tasks").exists() else ():
            try:
                _set(folder / "tasks", task)
            except UnavailableError:
                continue  # it has ended meanwhile
        try:
            group.rmdir()
        except OSError:
            pass  # a task was forked into it just now; the empty shield is taken down by the next one


def _set(path: Path, text: str) -> None:
    try:
        with open(path, "a") as file:
            file.write(text + "\n")
    except OSError as error:
        raise UnavailableError(f"{path} can't be written ({error.strerror})", remedy="run as root") from None
