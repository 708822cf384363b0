"""Shields: cores that other tasks are moved away from."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.unit.settings_made import CPU, tree

from latlab.errors import UnavailableError, UsageError
from latlab.system.settings.catalogue import check
from latlab.system.settings.probe import PROBES
from latlab.system.settings.shield import cpuset_version, shielded
from latlab.system.settings.tuning import apply, restore


def with_groups(root: Path, groups: dict[str, str]) -> Path:
    """A machine of four CPUs with these files of control groups."""
    return tree(
        root,
        {f"{CPU}/online": "0-3\n"} | {f"sys/fs/cgroup/{path}": text for path, text in groups.items()},
    )


def test_a_shield_moves_tasks_into_a_cpuset_and_back(tmp_path: Path) -> None:
    root = with_groups(
        tmp_path,
        {
            "cpuset/cpuset.cpus": "0-3\n",
            "cpuset/cpuset.mems": "0\n",
            "cpuset/tasks": "11\n12\n",
            "cpuset/latlab-others/tasks": "",
        },
    )
    group = root / "sys/fs/cgroup/cpuset/latlab-others"
    assert cpuset_version(root) == (1, root / "sys/fs/cgroup/cpuset")
    with shielded([2, 3], root=root) as shield:
        assert (shield.version, shield.others, shield.moved) == (1, (0, 1), 2)
        assert (group / "cpuset.cpus").read_text() == "0,1"
        assert (group / "tasks").read_text() == "11\n12\n"
    assert (root / "sys/fs/cgroup/cpuset/tasks").read_text() == "11\n12\n11\n12\n"  # written back, one a line


def test_a_shield_of_version_2_confines_the_other_groups_and_frees_them(tmp_path: Path) -> None:
    slices = {"system.slice.test/cpuset.cpus": "\n", "user.slice.test/cpuset.cpus": "0-2\n"}
    root = with_groups(tmp_path, {"cgroup.controllers": "cpuset cpu\n"} | slices)
    with shielded([3], root=root) as shield:
        assert (shield.version, shield.moved) == (2, 2)
        assert (root / "sys/fs/cgroup/user.slice.test/cpuset.cpus").read_text() == "0,1,2"
    assert (root / "sys/fs/cgroup/user.slice.test/cpuset.cpus").read_text() == "0-2"
    assert (root / "sys/fs/cgroup/system.slice.test/cpuset.cpus").read_text() == "\n"


def proc(root: Path, pid: int, parent: int, allowed: str, *, flags: int = 0) -> None:
    tree(
        root,
        {
            f"proc/{pid}/stat": f"{pid} (a name) S {parent} 0 0 0 -1 {flags} 0 0\n",
            f"proc/{pid}/status": f"Name: a\nCpus_allowed_list:\t{allowed}\n",
            f"proc/{pid}/task/{pid}/comm": "a\n",
        },
    )


def test_a_shield_leaves_out_this_process_and_what_it_was_started_from(tmp_path: Path) -> None:
    me, shell, other, kernel, elsewhere = os.getpid(), 900_001, 900_002, 900_003, 900_004
    tasks = "\n".join(map(str, (1, me, shell, other, kernel)))
    whole = {"cpuset.cpus": "0-3\n", "cpuset.mems": "0\n", "tasks": tasks + "\n"}
    root = with_groups(tmp_path, {f"cpuset/{name}": text for name, text in whole.items()})
    proc(root, me, shell, "0-3")
    proc(root, shell, 1, "0-3")
    proc(root, 1, 0, "0-3")
    proc(root, other, 1, "0-3")
    proc(root, kernel, 2, "0-3", flags=0x208040)
    proc(root, elsewhere, 1, "0-1")
    found = {one.name: one for one in check(root, [2, 3])}["shield"]
    assert found.value == "2 tasks of others may run on CPU 2,3"
    assert found.command == "sudo latlab system tune --apply --for jitter --cpus 2,3"
    state = tmp_path / "state.json"
    changes = {one.name: one.outcome for one in apply("jitter", root=root, cpus=[2, 3], state=state)}
    group = root / "sys/fs/cgroup/cpuset/latlab-others"
    assert changes["shield"] == "applied"
    assert (group / "tasks").read_text().split() == ["1", str(other), str(kernel)]
    assert json.loads(state.read_text())["groups"] == [str(group)]
    changes = {one.name: one.outcome for one in restore(state=state)}
    assert changes[str(group)] == "applied"
    assert (root / "sys/fs/cgroup/cpuset/tasks").read_text().split()[-3:] == ["1", str(other), str(kernel)]
    assert not state.exists()


def test_groups_beside_ours_are_confined_from_the_inside_out_and_our_own_is_not(tmp_path: Path) -> None:
    folder = "sys/fs/cgroup/cpuset"
    root = tree(
        tmp_path,
        {
            f"{CPU}/online": "0-3\n",
            "proc/self/cgroup": "3:cpuset:/mine/inner\n0::/\n",
            f"{folder}/cpuset.cpus": "0-3\n",
            f"{folder}/cpuset.mems": "0\n",
            f"{folder}/tasks": "",
            f"{folder}/mine/cpuset.cpus": "0-3\n",
            f"{folder}/docker/cpuset.cpus": "0-3\n",
            f"{folder}/docker/box/cpuset.cpus": "2-3\n",
        },
    )
    with shielded([3], root=root) as shield:
        assert shield.moved == 2
        assert (root / folder / "docker/box/cpuset.cpus").read_text() == "0,1,2"
        assert (root / folder / "mine/cpuset.cpus").read_text() == "0-3\n"
    assert (root / folder / "docker/box/cpuset.cpus").read_text() == "2-3"


def test_version_2_gets_its_controller_for_the_time_of_the_shield(tmp_path: Path) -> None:
    control = "sys/fs/cgroup/cgroup.subtree_control"
    groups = {"cgroup.controllers": "cpuset cpu\n", "user.slice/cpuset.cpus": "\n"}
    root = with_groups(tmp_path, groups | {"cgroup.subtree_control": "cpu\n"})
    with shielded([3], root=root):
        assert (root / control).read_text() == "+cpuset"
    assert (root / control).read_text() == "-cpuset"


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (13, 20, "no effect was detected"),
        (100, 20, "it helps"),
        (5, 50, "it does not help: there are more"),
        (0, 0, "there were none before either"),
    ],
)
def test_a_shield_s_probe_has_a_verdict(before: float, after: float, said: str) -> None:
    verdict = PROBES["shield"].verdict(before, after)
    assert verdict == (
        f"{said}: a measuring thread was preempted {before:.0f} times a second before, {after:.0f} after"
    )


def test_a_shield_needs_cpusets_and_a_core_for_the_others(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"{CPU}/online": "0\n"})
    with pytest.raises(UnavailableError, match="no cpuset"), shielded([0], root=root):
        pass
    tree(tmp_path, {"sys/fs/cgroup/cpuset/cpuset.cpus": "0\n"})
    with pytest.raises(UsageError, match="every CPU"), shielded([0], root=root):
        pass
