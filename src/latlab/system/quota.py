"""Quotas of control groups, of CPUs and of disks, and what those of CPUs did to processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from latlab.words import duration, rate

__all__ = ["QuotaWatch", "Throttling", "cpu_throttling", "disk_limit"]

_FIND_S = 1.0
_FOLDERS_S = 5.0  # in which a group may get its first quota's file
# What version 2 calls a limit, the file that version 1 has it in, and of what it is.
_LIMITS = (
    ("rbps", "read_bps_device", "B", "read"),
    ("wbps", "write_bps_device", "B", "written"),
    ("riops", "read_iops_device", "reads", ""),
    ("wiops", "write_iops_device", "writes", ""),
)


@dataclass(frozen=True)
class Throttling:
    """What a CPU quota did so far.

    Attributes:
        quota: as a text: "30 ms in each 100 ms".
        count: how often it stopped the group.
        time_ns: for how long, summed over CPUs.
        group: the folder of the control group.
    """

    quota: str
    count: int
    time_ns: int
    group: str = field(default="", compare=False)

    def since(self, before: Throttling | None) -> Throttling:
        """What it did after `before`."""
        if before is None:
            return self
        return Throttling(self.quota, self.count - before.count, self.time_ns - before.time_ns, self.group)


def cpu_throttling(root: Path = Path("/"), pid: int | str = "self") -> Throttling | None:
    """What the CPU quota of a process's cgroup, or of one around it, did so far; None without a quota.

    Of several the innermost is taken. Version 1 and version 2 are read.
    """
    return _strictest(root, _folders(root, _read(root / f"proc/{pid}/cgroup")))


def _folders(root: Path, groups: str) -> list[tuple[Path, str]]:
    """By what /proc says of a process's groups: which may have a quota of CPUs, innermost first; its file."""
    found = []
    for line in groups.splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mounts, quota_file = [root / "sys/fs/cgroup"], "cpu.max"
        elif "cpu" in controllers.split(","):
            mounts = [root / f"sys/fs/cgroup/{name}" for name in (controllers, "cpu", "cpu,cpuacct")]
            quota_file = "cpu.cfs_quota_us"
        else:
            continue
        inner = Path(path.lstrip("/"))
        folders = [mount / part for part in (inner, *inner.parents) for mount in mounts]
        found += [(folder, quota_file) for folder in folders if (folder / quota_file).exists()]
    return found


def _strictest(root: Path, folders: Iterable[tuple[Path, str]]) -> Throttling | None:
    """What the first of them with a quota did so far."""
    for folder, quota_file in folders:
        words = _read(folder / quota_file).split() + _read(folder / "cpu.cfs_period_us").split()
        if not words or words[0] in ("max", "-1"):
            continue
        each = [duration(1e3 * int(word)) for word in words[:2]]
        found = _counted(folder, " in each ".join(each), str(folder.relative_to(root)))
        if found is not None:
            return found
    return None


def disk_limit(root: Path = Path("/"), pid: int | str = "self") -> str:
    """What a process's cgroup, or one around it, lets it have of disks: "40 MB/s read, of vda"; "" for all.

    Of several the innermost is taken. Version 1 and version 2 are read.
    """
    for line in _read(root / f"proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "blkio"):
            continue
        mount, inner = root / "sys/fs/cgroup" / controllers, Path(path.lstrip("/"))
        for folder in (mount / part for part in (inner, *inner.parents)):
            found: dict[str, list[str]] = {}
            for name, file, unit, way in _LIMITS:
                for device, value in _limits_in(folder, name, file):
                    found.setdefault(device, []).append(f"{rate(value, unit)} {way}".rstrip())
            if found:
                return "; ".join(
                    f"{', '.join(told)}, of {_disk(root, device)}" for device, told in found.items()
                )
    return ""


def _limits_in(folder: Path, name: str, file: str) -> list[tuple[str, float]]:
    """Of each device the limit of this name."""
    found = []
    for line in _read(folder / "io.max").splitlines():
        device, *words = line.split()
        values = dict(word.split("=", 1) for word in words if "=" in word)
        if values.get(name, "max") != "max":
            found.append((device, float(values[name])))
    for line in _read(folder / f"blkio.throttle.{file}").splitlines():
        device, _, value = line.partition(" ")
        found.append((device, float(value)))
    return found


def _disk(root: Path, device: str) -> str:
    """A disk's name, by its numbers."""
    try:
        return (root / "sys/dev/block" / device).resolve(strict=True).name
    except OSError:
        return f"device {device}"


def _counted(folder: Path, quota: str, group: str) -> Throttling | None:
    stat = dict(row.split() for row in _read(folder / "cpu.stat").splitlines() if row.count(" ") == 1)
    if "nr_throttled" not in stat:
        return None
    # Version 2 counts µs, version 1 ns.
    time_ns = int(stat.get("throttled_time", 0)) or 1000 * int(stat.get("throttled_usec", 0))
    return Throttling(quota, int(stat["nr_throttled"]), time_ns, group)


class QuotaWatch:
    """What the quotas of a program's control groups did while it was watched; processes may change groups.

    Args:
        clock: seconds. root: of the file system.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, root: Path = Path("/")) -> None:
        """Nothing seen yet."""
        self._first: dict[str, Throttling] = {}
        self._last: dict[str, Throttling] = {}
        self._groups: dict[int, tuple[float, Throttling | None]] = {}  # when it was looked for last
        self._clock, self._root = clock, root
        self._disks: dict[str, str] = {}  # by what /proc says of a process's groups
        self._folders: dict[str, tuple[float, list[tuple[Path, str]]]] = {}  # by the same

    def look(self, pids: Iterable[int]) -> None:
        """Read the counts of these processes' groups, which are asked for once a second.

        Looking for a group's folders opens dozens of files, which costs an observed program more than all
        else that is looked at beside it: that is done every few seconds.
        """
        now = self._clock()
        looked: set[str] = set()
        known = {}
        for pid in pids:
            at, found = self._groups.get(pid, (-_FIND_S, None))
            if now - at >= _FIND_S:
                groups = _read(self._root / f"proc/{pid}/cgroup")
                at, found = now, _strictest(self._root, self._folders_of(groups, now))
                if groups not in self._disks:
                    self._disks[groups] = disk_limit(self._root, pid)
            elif found is not None and found.group not in looked:
                found = _counted(self._root / found.group, found.quota, found.group)
            known[pid] = (at, found)
            if found is not None and found.group not in looked:
                looked.add(found.group)
                self._first.setdefault(found.group, found)
                self._last[found.group] = found
        self._groups = known

    def _folders_of(self, groups: str, now: float) -> list[tuple[Path, str]]:
        at, folders = self._folders.get(groups, (-_FOLDERS_S, []))
        if now - at >= _FOLDERS_S:
            folders = _folders(self._root, groups)
            self._folders[groups] = (now, folders)
        return folders

    @property
    def disk(self) -> str:
        """What a group lets its processes have of disks, as of `disk_limit`; "" where several differ."""
        told = {one for one in self._disks.values() if one}
        return told.pop() if len(told) == 1 else ""

    @property
    def worst(self) -> Throttling | None:
        """Of the group that was stopped for longest, what was seen; None where no quota stopped anything."""
        seen = [last.since(self._first[group]) for group, last in self._last.items()]
        return max((one for one in seen if one.count > 0), key=lambda one: one.time_ns, default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
