"""A shield: everything else is moved off the measuring cores, and back.

With cgroup v2 (and its cpuset controller) the other groups are confined to the other cores; with v1 a cpuset
is made for the other cores, every task that may be moved goes there, and groups that stand beside it are
confined. Kernel threads that are bound stay. This process and those that it was started from (the shell) are
left out: what is measured next is started from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from latlab.errors import UnavailableError, UsageError
from latlab.model.evidence.machine import SettingCost, SettingUnknown, SettingValue
from latlab.model.evidence.said import said
from latlab.system.cpus import parse_cpu_list
from latlab.system.settings.setting import Finding, put, read_text, reason

__all__ = ["Shield", "ShieldSetting", "cpuset_version", "dissolve", "shielded"]

_GROUP = "latlab-others"
_PF_KTHREAD = 0x0020_0000


@dataclass(frozen=True)
class Shield:
    """What was moved.

    Attributes:
        version: of the cgroups, 1 or 2.
        others: the cores that everything else runs on now.
        moved: tasks (v1) and groups that were moved.
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
    raise UnavailableError(said(SettingUnknown.NO_CPUSET), remedy="boot with isolcpus=<cpus> in its place")


def dissolve(group: Path) -> None:
    """Give a v1 group's tasks back to its parent, and remove it; one that is gone is fine.

    Raises:
        UnavailableError: it can't be emptied.
    """
    # A task may fork while its group is emptied: a few rounds catch the children.
    before: list[str] | None = None
    for _ in range(10):
        tasks = read_text(group / "tasks").split() if (group / "tasks").exists() else []
        if not group.exists() or (tasks and tasks == before):
            break
        before = tasks
        for task in tasks:
            try:
                _join(group.parent, task)
            except UnavailableError:
                continue  # it has ended meanwhile
        try:
            group.rmdir()
        except OSError:
            continue
        return
    # A tree of plain files is never empty; it has no processes either.
    if group.exists() and (group.parent / "cgroup.procs").exists():
        raise UnavailableError(f"{group} can't be removed", remedy="run as root, or move its tasks by hand")


@dataclass(frozen=True)
class ShieldSetting:
    """Everything else off the measuring cores.

    Attributes:
        cpus: the measuring cores.
    """

    root: Path
    cpus: tuple[int, ...] = ()
    name: str = field(default="shield", init=False)
    _cost = said(SettingCost.SHIELD)

    def available(self) -> str | None:
        """Why it isn't possible; None where it is."""
        if not self.cpus:
            return said(SettingUnknown.NO_CPUS_NAMED)
        try:
            cpuset_version(self.root)
            self._others()
        except UnavailableError as error:
            return reason(error)
        return None

    def _others(self) -> list[int]:
        try:
            online = parse_cpu_list(read_text(self.root / "sys/devices/system/cpu/online"))
        except OSError as error:
            raise UnavailableError(said(SettingUnknown.NO_ONLINE_CPUS, why=error.strerror)) from None
        others = [cpu for cpu in online if cpu not in set(self.cpus)]
        if not others:
            raise UnavailableError(said(SettingUnknown.ALL_SHIELDED), remedy="name fewer with --cpus")
        return others

    def show(self) -> Finding:
        """How many tasks of others may run on the measuring cores."""
        why = self.available()
        if why is not None:
            return Finding(self.name, None, why, None, self._cost, "")
        chosen = ",".join(map(str, self.cpus))
        own = _lineage(self.root)
        free = [tid for tid in _user_tasks(self.root, set(self.cpus)) if tid not in own]
        command = f"sudo latlab system tune --apply --for jitter --cpus {chosen}" if free else ""
        value = said(SettingValue.TASKS_OF_OTHERS, tasks=len(free), cpus=chosen)
        return Finding(self.name, value, None, not free, self._cost, command)

    def files(self) -> dict[Path, str]:
        """The groups' cores, parents first, and the controller where it has to be enabled."""
        version, folder = cpuset_version(self.root)
        found = {path: read_text(path) or "\n" for path in self._beside(version, folder)}
        control = folder / "cgroup.subtree_control"
        if version == 2 and control.exists() and "cpuset" not in read_text(control).split():
            found[control] = "-cpuset"
        return found

    def groups(self) -> list[Path]:
        """The group of the others, of version 1."""
        version, folder = cpuset_version(self.root)
        return [folder / _GROUP] if version == 1 else []

    def _beside(self, version: int, folder: Path) -> list[Path]:
        """The cores' files of the groups that are not ours: of v2 the topmost, of v1 all, parents first."""
        own = _own_group(self.root, version)
        name = "cpuset.cpus" if version == 2 or (folder / "cpuset.cpus").exists() else "cpus"
        found = sorted(folder.glob(f"*/{name}") if version == 2 else folder.rglob(f"*/{name}"))
        topmost = {path: path.relative_to(folder).parts[0] for path in found}
        return [path for path in found if topmost[path] not in (own, _GROUP)]

    def write(self) -> None:
        """Confine the others.

        Raises:
            UnavailableError: no cpusets, no rights, or nothing could be moved.
        """
        self.confine()

    def confine(self) -> Shield:
        """As `write`, and say what was moved."""
        version, folder = cpuset_version(self.root)
        others = self._others()
        control = folder / "cgroup.subtree_control"
        if version == 2 and control.exists() and "cpuset" not in read_text(control).split():
            put(control, "+cpuset")
        moved = kept = 0
        beside = self._beside(version, folder)
        for path in reversed(beside):  # of v1 a child must lie within its parent: children first
            try:
                put(path, ",".join(map(str, others)))
                moved += 1
            except UnavailableError:
                kept += 1
        if version == 1:
            tasks, bound = _gather(folder, others, _lineage(self.root))
            moved, kept = moved + tasks, kept + bound
        if not moved and kept:
            raise UnavailableError("nothing could be confined", remedy="run as root")
        return Shield(version, tuple(others), moved, kept)


def _gather(folder: Path, others: Sequence[int], own: set[int]) -> tuple[int, int]:
    """Make the others' group of v1 and move every task there: how many moved, and how many could not."""
    prefix = "cpuset." if (folder / "cpuset.cpus").exists() else ""
    group = folder / _GROUP
    try:
        group.mkdir(exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"{group} can't be made ({error.strerror})", remedy="run as root") from None
    put(group / f"{prefix}cpus", ",".join(map(str, others)), make=True)
    put(group / f"{prefix}mems", read_text(folder / f"{prefix}mems"), make=True)
    moved = kept = 0
    for task in read_text(folder / "tasks").split():
        if int(task) in own:
            continue
        try:
            _join(group, task)
            moved += 1
        except UnavailableError:
            kept += 1
    return moved, kept


def _join(group: Path, task: str) -> None:
    try:
        with open(group / "tasks", "a") as file:
            file.write(task + "\n")
    except OSError as error:
        raise UnavailableError(f"{group}/tasks can't be written ({error.strerror})") from None


def _stat(root: Path, pid: str) -> list[str]:
    """The words of a task's stat after its name: state, parent, …, the flags as the 7th."""
    try:
        return (root / "proc" / pid / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def _lineage(root: Path) -> set[int]:
    """The threads of this process and of those that it was started from, but for the first one."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 1:
        found |= {pid, *(int(p.name) for p in (root / f"proc/{pid}/task").glob("[0-9]*"))}
        words = _stat(root, str(pid))
        pid = int(words[1]) if len(words) > 1 else 0
    return found


def _user_tasks(root: Path, cpus: set[int]) -> list[int]:
    """The processes, but for the kernel's own, that may run on one of `cpus`."""
    found = []
    for folder in (root / "proc").glob("[0-9]*"):
        words = _stat(root, folder.name)
        if len(words) < 7 or int(words[6]) & _PF_KTHREAD or words[0] == "Z":
            continue
        try:
            status = (folder / "status").read_text(errors="replace")
        except OSError:
            continue
        for line in status.splitlines():
            if line.startswith("Cpus_allowed_list:") and cpus & set(parse_cpu_list(line.partition(":")[2])):
                found.append(int(folder.name))
    return found


def _own_group(root: Path, version: int) -> str | None:
    """The topmost part of the path of our own group, which must not be confined."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if (version == 2 and controllers == "") or (version == 1 and "cpuset" in controllers.split(",")):
            return path.strip("/").split("/")[0] or None
    return None


@contextmanager
def shielded(cpus: Sequence[int], *, root: Path = Path("/")) -> Iterator[Shield]:
    """Keep everything but this process and its ancestors off `cpus` inside the block.

    Raises:
        UsageError: no CPU is named, or none is left for the others.
        UnavailableError: no cpusets, or no rights.
    """
    if not cpus:
        raise UsageError("no CPU is named to shield")
    setting = ShieldSetting(root, tuple(cpus))
    cpuset_version(root)
    if set(parse_cpu_list(read_text(root / "sys/devices/system/cpu/online"))) <= set(cpus):
        raise UsageError(said(SettingUnknown.ALL_SHIELDED), remedy="name fewer")
    before, groups = setting.files(), setting.groups()
    try:
        yield setting.confine()
    finally:
        for path, text in before.items():
            try:
                put(path, text)
            except UnavailableError:
                if path.exists():  # else the group has ended meanwhile
                    raise
        for group in groups:
            dissolve(group)
