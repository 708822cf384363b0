"""CPU quotas of control groups, and what they did to processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from latlab.words import duration

__all__ = ["QuotaWatch", "Throttling", "cpu_throttling"]

_FIND_S = 1.0


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
    for line in _read(root / f"proc/{pid}/cgroup").splitlines():
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
        for folder in folders:
            words = _read(folder / quota_file).split() + _read(folder / "cpu.cfs_period_us").split()
            if not words or words[0] in ("max", "-1"):
                continue
            each = [duration(1e3 * int(word)) for word in words[:2]]
            found = _counted(folder, " in each ".join(each), str(folder.relative_to(root)))
            if found is not None:
                return found
    return None


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

    def look(self, pids: Iterable[int]) -> None:
        """Read the counts of these processes' groups, whose folders are looked for once a second.

        Looking for them opens dozens of files, which costs an observed program more than all else that is
        looked at beside it.
        """
        now = self._clock()
        looked: set[str] = set()
        known = {}
        for pid in pids:
            at, found = self._groups.get(pid, (-_FIND_S, None))
            if now - at >= _FIND_S:
                at, found = now, cpu_throttling(self._root, pid)
            elif found is not None and found.group not in looked:
                found = _counted(self._root / found.group, found.quota, found.group)
            known[pid] = (at, found)
            if found is not None and found.group not in looked:
                looked.add(found.group)
                self._first.setdefault(found.group, found)
                self._last[found.group] = found
        self._groups = known

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
