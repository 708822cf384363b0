"""Settings: found, applied, read back, restored; and shields.

Over 500 lines: one laid-out machine, on which each of them is tried.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
import pytest

from latlab.errors import InputError, UnavailableError, UsageError
from latlab.model.evidence.machine import SettingCost, SettingUnknown, SettingValue
from latlab.model.evidence.said import kind_of, values_of
from latlab.system.clocks import facts_of, recommend
from latlab.system.settings.catalogue import PROFILES, SOURCES, check, settings
from latlab.system.settings.masks import InterruptAffinity, mask_of, mask_text
from latlab.system.settings.measured import apply_measured
from latlab.system.settings.network import coalescing, energy_efficient_ethernet
from latlab.system.settings.probe import PROBES
from latlab.system.settings.saved import Saved
from latlab.system.settings.shield import cpuset_version, shielded
from latlab.system.settings.tuning import apply, plan, restore, tuned

CPU = "sys/devices/system/cpu"


def tree(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="latin-1")
    return root


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """A bare-metal machine with everything set wrongly."""
    return tree(
        tmp_path / "noisy",
        {
            f"{CPU}/online": "0-3\n",
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave\n",
            f"{CPU}/cpu1/cpufreq/scaling_governor": "performance\n",
            f"{CPU}/intel_pstate/no_turbo": "0\n",
            f"{CPU}/cpu0/topology/thread_siblings_list": "0,2\n",
            f"{CPU}/cpu1/topology/thread_siblings_list": "1,3\n",
            f"{CPU}/isolated": "\n",
            f"{CPU}/nohz_full": "(null)\n",
            f"{CPU}/vulnerabilities/meltdown": "Mitigation: PTI\n",
            f"{CPU}/vulnerabilities/mds": "Not affected\n",
            "proc/irq/30/smp_affinity_list": "0-3\n",
            "proc/irq/31/smp_affinity_list": "0\n",
            "proc/sys/kernel/sched_rt_runtime_us": "950000\n",
            "sys/kernel/debug/sched/fair_server/cpu0/runtime": "50000000\n",
            "sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
            "proc/swaps": "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n",
            "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
            "proc/sys/kernel/randomize_va_space": "2\n",
            "proc/sys/kernel/nmi_watchdog": "1\n",
            "proc/sys/kernel/numa_balancing": "1\n",
            "proc/sys/kernel/timer_migration": "1\n",
            "proc/loadavg": "7.00 5.00 1.00 9/300 12\n",
            "proc/stat": "cpu 1000 0 1000 100000 0 0 0 5000 0 0\n",
            "proc/self/timerslack_ns": "50000\n",
            f"{CPU}/cpu0/cpufreq/energy_performance_preference": "balance_power\n",
            f"{CPU}/cpu2/cpuidle/state0/disable": "0\n",
            f"{CPU}/cpu2/cpuidle/state1/disable": "0\n",
            f"{CPU}/cpu3/cpuidle/state2/disable": "0\n",
            f"{CPU}/cpu0/cpuidle/state1/disable": "0\n",
            f"{CPU}/cpu0/online": "1\n",
            f"{CPU}/cpu1/online": "1\n",
            "proc/cmdline": "quiet rcu_nocbs=1\n",
            "proc/irq/default_smp_affinity": "f\n",
            "proc/77/comm": "irqbalance\n",
            "sys/class/net/eth0/device/x": "",
            "sys/class/net/eth0/queues/rx-0/rps_cpus": "4\n",
            "sys/class/net/eth0/queues/tx-0/xps_cpus": "1\n",
            "sys/devices/virtual/workqueue/cpumask": "00000000,0000000f\n",
            "sys/devices/virtual/workqueue/writeback/cpumask": "f\n",
            "sys/kernel/mm/ksm/run": "1\n",
            "proc/sys/kernel/soft_watchdog": "1\n",
            "proc/sys/vm/stat_interval": "1\n",
            "proc/sys/kernel/perf_event_max_sample_rate": "100000\n",
            "proc/self/cgroup": "0::/box\n",
            "sys/fs/cgroup/box/cpu.max": "50000 100000\n",
            "dev/cpu_dma_latency": (2_000_000_000).to_bytes(4, "little").decode("latin-1"),
        },
    )


def test_every_wrong_setting_is_found_with_its_value_cost_and_command(noisy: Path) -> None:
    found = {one.name: one for one in check(noisy, [2, 3])}
    assert {name for name, one in found.items() if one.good is not False} == {
        "turbo",
        "shield",
        "interrupt coalescing",
        "energy-efficient Ethernet",
    }
    assert found["governor"].value == "powersave, performance"
    assert found["governor"].command.startswith("echo performance | sudo tee /sys/devices/system/cpu/cpu")
    assert found["interrupt affinity"].value == "1 of 2 may run on CPU 2,3"
    assert found["SMT siblings"].value == "CPU 0, CPU 1 share a core with CPU 2,3"
    assert found["C-states"].command == (
        "echo 1 | sudo tee /sys/devices/system/cpu/cpu2/cpuidle/state[1-9]*/disable"
        " /sys/devices/system/cpu/cpu3/cpuidle/state[1-9]*/disable"
    )
    assert found["C-states"].value == "idle states are enabled"
    kinds = {name: (kind_of(one.value or ""), kind_of(one.cost)) for name, one in found.items()}
    assert kinds["C-states"] == (SettingValue.IDLE_STATES, SettingCost.IDLE_STATES)
    assert kind_of(found["turbo"].unavailable or "") is SettingUnknown.NO_CPUFREQ
    assert values_of(found["network queues"].value or "") == {"count": 1, "whole": 2, "cpus": "2,3"}
    assert found["wake-up latency limit"].value == "none"
    assert found["network queues"].value == "1 of 2 hand packets to CPU 2,3"
    assert found["irqbalance"].value == "running (process 77)"
    assert found["RCU offload"].value == "CPU 1"
    assert found["mitigations"].value == "meltdown"
    assert found["CPU quota"].value == "50000 µs of each 100000 µs"
    assert found["transparent huge pages"].value == "always"
    assert all(one.cost and one.command for one in found.values() if one.good is False)


def test_every_setting_has_its_source_and_every_profile_names_settings() -> None:
    names = {setting.name for setting in settings()}
    assert names == set(SOURCES)
    assert {name for profile in PROFILES.values() for name in profile} <= names


@pytest.mark.parametrize(("measuring", "good"), [([3], True), ([1], False), ([1, 3], False), ([], True)])
def test_isolated_cores_are_no_good_for_a_measurement_on_others(
    measuring: list[int], good: bool, tmp_path: Path
) -> None:
    root = tree(
        tmp_path, {f"{CPU}/isolated": "3\n", f"{CPU}/nohz_full": "3\n", "proc/cmdline": "rcu_nocbs=3\n"}
    )
    found = {one.name: one for one in check(root, measuring)}
    assert (found["isolation and nohz"].good, found["RCU offload"].good) == (good, good)


@pytest.mark.parametrize(
    ("text", "cpus"), [("f", {0, 1, 2, 3}), ("00000002,00000001", {0, 33}), ("0", set())]
)
def test_a_mask_is_read_and_written_in_groups_of_32(text: str, cpus: set[int]) -> None:
    assert mask_of(text) == cpus
    assert mask_of(mask_text(cpus)) == cpus


def test_masks_lose_the_measuring_cores_and_siblings_go_offline_until_the_restore(
    noisy: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    apply("jitter", root=noisy, cpus=[2, 3], state=state)
    read = {
        name: (noisy / name).read_text()
        for name in (
            "sys/devices/virtual/workqueue/cpumask",
            "proc/irq/default_smp_affinity",
            "sys/class/net/eth0/queues/rx-0/rps_cpus",
            f"{CPU}/cpu0/online",
        )
    }
    assert list(read.values()) == ["3", "3", "3", "0"]
    restore(state=state)
    assert (noisy / "sys/devices/virtual/workqueue/cpumask").read_text() == "00000000,0000000f"
    assert (noisy / f"{CPU}/cpu0/online").read_text() == "1"


def test_only_the_measuring_cores_idle_states_are_closed(noisy: Path, tmp_path: Path) -> None:
    apply("messaging", root=noisy, cpus=[2, 3], state=tmp_path / "state.json")
    closed = {path.relative_to(noisy / CPU).parts[0:3:2]: path.read_text().strip()
              for path in (noisy / CPU).glob("cpu*/cpuidle/*/disable")}  # fmt: skip
    assert closed == {
        ("cpu2", "state0"): "0",
        ("cpu2", "state1"): "1",
        ("cpu3", "state2"): "1",
        ("cpu0", "state1"): "0",
    }


def test_a_card_that_holds_packets_back_or_sleeps_is_told(noisy: Path) -> None:
    def ask(card: str, command: int, words: int) -> tuple[int, ...]:
        told = [command, *[0] * (words - 1)]
        if command == 0x0E:
            told[1], told[5], told[10] = 50, 8, 1
        else:
            told[5] = 1
        return tuple(told)

    assert coalescing(noisy, ask) == ("eth0: received 50 µs, adaptive, sent 8 µs", False)
    assert energy_efficient_ethernet(noisy, ask) == ("eth0: on", False)
    assert coalescing(noisy, lambda *_: (0,) * 23) == ("eth0: received 0 µs, sent 0 µs", True)


def test_a_driver_that_tells_nothing_is_unavailable_and_not_good(noisy: Path) -> None:
    def ask(card: str, command: int, words: int) -> tuple[int, ...]:
        raise OSError(95, "Operation not supported")

    with pytest.raises(UnavailableError, match="the driver of eth0 does not tell it"):
        coalescing(noisy, ask)


def test_what_a_machine_lacks_is_said_and_not_skipped(tmp_path: Path) -> None:
    empty = check(tmp_path)
    assert len(empty) == len(check(Path("/")))
    assert all(one.unavailable and one.value is None for one in empty)
    assert "virtual machine" in str({one.name: one for one in empty}["governor"].unavailable)


def test_a_plan_writes_nothing(noisy: Path) -> None:
    before = {path: path.read_bytes() for path in noisy.rglob("*") if path.is_file()}
    outcomes = {change.name: change.outcome for change in plan("jitter", root=noisy, cpus=[2, 3])}
    assert outcomes["real-time limit"] == "planned"
    assert outcomes["turbo"] == "unavailable"
    assert before == {path: path.read_bytes() for path in noisy.rglob("*") if path.is_file()}


def test_settings_are_applied_read_back_and_restored(noisy: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    governor = noisy / CPU / "cpu0/cpufreq/scaling_governor"
    pages = noisy / "sys/kernel/mm/transparent_hugepage/enabled"
    changes = {change.name: change for change in apply("jitter", root=noisy, cpus=[2, 3], state=state)}
    assert changes["governor"].outcome == "applied"
    assert changes["governor"].detail == "reads performance"
    assert governor.read_text() == "performance"
    assert (noisy / "proc/irq/30/smp_affinity_list").read_text() == "0,1"
    assert (noisy / "proc/irq/31/smp_affinity_list").read_text() == "0\n"
    assert json.loads(state.read_text())["files"][str(governor)] == "powersave"
    restore(state=state)
    assert governor.read_text() == "powersave"
    assert pages.read_text() == "always"
    assert (noisy / "proc/irq/30/smp_affinity_list").read_text() == "0-3"
    assert not state.exists()


def test_what_somebody_changed_since_is_told_and_written_only_where_it_is_asked_for(
    noisy: Path, tmp_path: Path
) -> None:
    state, setting = tmp_path / "state.json", noisy / "proc/sys/kernel/numa_balancing"
    apply("jitter", root=noisy, cpus=[2, 3], state=state)
    setting.write_text("3\n")
    told = {change.name: change for change in restore(state=state)}
    assert setting.read_text() == "3\n"
    assert (told[str(setting)].outcome, told[str(setting)].before) == ("changed since", "3")
    assert told[str(setting)].detail == "it was changed after latlab wrote 0; --overwrite writes 1"
    assert (noisy / "proc/sys/kernel/nmi_watchdog").read_text() == "1"
    assert list(json.loads(state.read_text())["files"]) == [str(setting)]
    restore(state=state, overwrite=True)
    assert setting.read_text() == "1"
    assert not state.exists()


def test_what_somebody_changed_back_himself_is_restored_already(noisy: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    apply("jitter", root=noisy, cpus=[2, 3], state=state)
    (noisy / "proc/sys/kernel/numa_balancing").write_text("1\n")
    assert {change.outcome for change in restore(state=state)} == {"applied"}
    assert not state.exists()


@pytest.mark.parametrize("boot", ["", "another"], ids=["of version 1", "of version 2"])
def test_after_a_start_of_the_machine_nothing_is_written_back(boot: str, noisy: Path, tmp_path: Path) -> None:
    state, irq = tmp_path / "state.json", noisy / "proc/irq/30/smp_affinity_list"
    Saved({str(irq): "0-3"}, boot=boot, saved_at="2001-01-01T00:00:00Z").save(state)
    irq.write_text("2\n")  # another device's by now
    [change] = restore(state=state)
    assert (change.outcome, irq.read_text()) == ("ended", "2\n")
    assert change.detail == "the machine was started since: its settings are those of its start"
    assert not state.exists()


def test_a_state_of_an_earlier_boot_does_not_stop_the_next_apply(noisy: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    Saved({"/proc/irq/1/smp_affinity_list": "0-3"}, boot="another").save(state)
    apply("bench", root=noisy, state=state)
    assert Saved.load(state).of_this_boot()
    assert "/proc/irq/1/smp_affinity_list" not in Saved.load(state).files


def test_a_state_of_version_1_of_this_boot_is_restored(noisy: Path, tmp_path: Path) -> None:
    state, setting = tmp_path / "state.json", noisy / "proc/sys/kernel/numa_balancing"
    state.write_text(
        json.dumps({"schema": 1, "saved_at": "2999-01-01T00:00:00Z", "files": {str(setting): "1"}})
    )
    setting.write_text("0\n")
    assert [change.outcome for change in restore(state=state)] == ["applied"]
    assert setting.read_text() == "1"


def test_applying_twice_is_refused_since_the_first_state_would_be_lost(noisy: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    apply("bench", root=noisy, state=state)
    with pytest.raises(UsageError, match="latlab system restore"):
        apply("bench", root=noisy, state=state)
    with pytest.raises(UsageError), tuned("bench", root=noisy, state=state):
        pass
    assert state.exists()  # the block did not restore what it did not apply


def test_a_state_that_can_not_be_saved_stops_before_the_first_write(noisy: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnavailableError, match="nothing was changed"):
        apply("bench", root=noisy, state=tmp_path / "file" / "state.json")
    assert (noisy / "proc/sys/kernel/randomize_va_space").read_text() == "2\n"


def test_the_block_restores_after_an_exception(noisy: Path, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), tuned("bench", root=noisy, state=tmp_path / "s"):
        raise ZeroDivisionError
    assert (noisy / "proc/sys/kernel/randomize_va_space").read_text() == "2"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_signal_restores_and_after_a_kill_restore_does(noisy: Path, tmp_path: Path, number: int) -> None:
    state, setting = tmp_path / "s", noisy / "proc/sys/kernel/randomize_va_space"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with tuned("bench", root=noisy, state=state):
                os.write(write, b"x")
                time.sleep(60)
        except BaseException:  # noqa: BLE001 (a forked test must not run the rest of the suite)
            os._exit(1)
        os._exit(0)
    os.read(read, 1)
    assert setting.read_text() == "0"
    os.kill(child, number)
    os.waitpid(child, 0)
    if number == signal.SIGKILL:
        assert setting.read_text() == "0"
        restore(state=state)
    assert setting.read_text() == "2"
    assert not state.exists()


def test_a_damaged_state_is_named_and_nothing_to_restore_is_fine(tmp_path: Path) -> None:
    assert restore(state=tmp_path / "none") == []
    (tmp_path / "bad").write_text("{}")
    with pytest.raises(InputError, match="not a saved state"):
        restore(state=tmp_path / "bad")


def test_a_shield_moves_tasks_into_a_cpuset_and_back(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            f"{CPU}/online": "0-3\n",
            "sys/fs/cgroup/cpuset/cpuset.cpus": "0-3\n",
            "sys/fs/cgroup/cpuset/cpuset.mems": "0\n",
            "sys/fs/cgroup/cpuset/tasks": "11\n12\n",
            "sys/fs/cgroup/cpuset/latlab-others/tasks": "",
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
    root = tree(
        tmp_path,
        {
            f"{CPU}/online": "0-3\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu\n",
            "sys/fs/cgroup/system.slice.test/cpuset.cpus": "\n",
            "sys/fs/cgroup/user.slice.test/cpuset.cpus": "0-2\n",
        },
    )
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
    root = tree(
        tmp_path,
        {
            f"{CPU}/online": "0-3\n",
            "sys/fs/cgroup/cpuset/cpuset.cpus": "0-3\n",
            "sys/fs/cgroup/cpuset/cpuset.mems": "0\n",
            "sys/fs/cgroup/cpuset/tasks": tasks + "\n",
        },
    )
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
    root = tree(
        tmp_path,
        {
            f"{CPU}/online": "0-3\n",
            "sys/fs/cgroup/cgroup.controllers": "cpuset cpu\n",
            control: "cpu\n",
            "sys/fs/cgroup/user.slice/cpuset.cpus": "\n",
        },
    )
    with shielded([3], root=root):
        assert (root / control).read_text() == "+cpuset"
    assert (root / control).read_text() == "-cpuset"


def test_what_refuses_a_write_but_holds_the_former_value_already_is_restored(
    noisy: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    apply("bench", root=noisy, state=state)
    setting = noisy / "proc/sys/kernel/randomize_va_space"
    setting.unlink()
    setting.mkdir()  # can be neither read nor written
    assert {one.outcome for one in restore(state=state)} == {"applied", "refused"}
    assert list(json.loads(state.read_text())["files"]) == [str(setting)]
    setting.rmdir()
    setting.write_text("2\n")
    setting.chmod(0o444)
    assert restore(state=state) == []
    assert not state.exists()


def test_where_every_write_is_refused_nothing_is_left_to_restore(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, text: str, *, make: bool = False) -> None:
        raise UnavailableError(f"{path} can't be written")

    root = tree(tmp_path / "root", {"proc/sys/kernel/randomize_va_space": "2\n"})
    monkeypatch.setattr("latlab.system.settings.setting.put", refused)
    outcomes = {one.name: one.outcome for one in apply("bench", root=root, state=tmp_path / "s")}
    assert outcomes["address layout (ASLR)"] == "refused"
    assert not (tmp_path / "s").exists()


def test_an_apply_that_is_interrupted_gives_back_what_it_wrote(
    noisy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(InterruptAffinity, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        apply("jitter", root=noisy, cpus=[2, 3], state=tmp_path / "s")
    assert (noisy / CPU / "cpu0/cpufreq/scaling_governor").read_text() == "powersave"
    assert not (tmp_path / "s").exists()


def disturbance(root: Path, effects: dict[str, tuple[str, float]]) -> Callable[[Sequence[int]], float]:
    """Of a machine on which files have effects: by path the good value, and what it makes of the gaps."""
    random = np.random.default_rng(7)

    def measure(cpus: Sequence[int]) -> float:
        level = 1000.0 * float(random.lognormal(0.0, 0.05))
        for path, (good, factor) in effects.items():
            level *= factor if (root / path).read_text().strip() == good else 1.0
        return level

    return measure


def test_of_what_is_measured_only_what_helps_stays(noisy: Path, tmp_path: Path) -> None:
    kernel, vm = "proc/sys/kernel", "sys/kernel/mm"
    measure = disturbance(
        noisy,
        {
            f"{kernel}/soft_watchdog": ("0", 0.5),
            f"{vm}/ksm/run": ("0", 1.4),
            "proc/irq/30/smp_affinity_list": ("0,1", 1.0),
        },
    )
    state = tmp_path / "state.json"
    changes = apply_measured("jitter", root=noisy, cpus=[2, 3], state=state, measures={"": measure})
    found = {change.name: change for change in changes}
    assert found["soft watchdog"].outcome == "applied"
    assert found["soft watchdog"].detail.startswith("kernel's own work: it helps (gap time -")
    assert found["soft watchdog"].measured is not None
    assert found["soft watchdog"].measured["effect"] == pytest.approx(-0.5, abs=0.1)
    assert (found["same-page merging (KSM)"].outcome, found["interrupt affinity"].outcome) == (
        "taken back",
        "taken back",
    )
    assert found["same-page merging (KSM)"].detail.startswith("memory: it makes things worse")
    assert (noisy / f"{kernel}/soft_watchdog").read_text() == "0"
    assert (noisy / f"{vm}/ksm/run").read_text() == "1"
    assert (noisy / "proc/irq/30/smp_affinity_list").read_text() == "0-3"
    saved = Saved.load(state)
    assert saved.written[str(noisy / f"{kernel}/soft_watchdog")] == "0"
    assert str(noisy / f"{vm}/ksm/run") not in saved.files
    restore(state=state)
    assert (noisy / f"{kernel}/soft_watchdog").read_text() == "1"


def test_where_nothing_helps_nothing_is_left_written_or_to_restore(noisy: Path, tmp_path: Path) -> None:
    # A plain file does not choose among its words, as the kernel's does.
    (noisy / "sys/kernel/mm/transparent_hugepage/enabled").write_text("always")
    before = {path: path.read_bytes().strip() for path in noisy.rglob("*") if path.is_file()}
    state = tmp_path / "state.json"
    changes = apply_measured(
        "messaging", root=noisy, cpus=[2, 3], state=state, measures={"": disturbance(noisy, {})}
    )
    assert {change.outcome for change in changes} <= {"taken back", "unavailable", "good already"}
    assert before == {path: path.read_bytes().strip() for path in noisy.rglob("*") if path.is_file()}
    assert not state.exists()


def test_a_measurement_that_is_stopped_in_the_middle_gives_everything_back(
    noisy: Path, tmp_path: Path
) -> None:
    before = {path: path.read_bytes().strip() for path in noisy.rglob("*") if path.is_file()}
    calls = iter(range(30))

    def measure(cpus: Sequence[int]) -> float:
        if next(calls) == 29:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        apply_measured(
            "jitter", root=noisy, cpus=[2, 3], state=tmp_path / "state.json", measures={"": measure}
        )
    assert before == {path: path.read_bytes().strip() for path in noisy.rglob("*") if path.is_file()}
    assert not (tmp_path / "state.json").exists()


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


def test_a_debugfs_that_is_not_mounted_is_said_with_the_command(noisy: Path, tmp_path: Path) -> None:
    assert {one.name: one for one in check(noisy)}["fair server"].good is False
    missing = {one.name: one for one in check(tmp_path / "none")}["fair server"].unavailable
    assert missing == "debugfs is not mounted: sudo mount -t debugfs none /sys/kernel/debug"


def test_a_shield_needs_cpusets_and_a_core_for_the_others(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"{CPU}/online": "0\n"})
    with pytest.raises(UnavailableError, match="no cpuset"), shielded([0], root=root):
        pass
    tree(tmp_path, {"sys/fs/cgroup/cpuset/cpuset.cpus": "0\n"})
    with pytest.raises(UsageError, match="every CPU"), shielded([0], root=root):
        pass


def counting(values: list[int]) -> object:
    source = cycle(values)
    return lambda: next(source)


def test_a_clocks_step_and_its_steps_back_are_seen() -> None:
    at = 0

    def coarse() -> int:
        nonlocal at
        at += 1
        return at // 10 * 4_000_000

    seen = facts_of("coarse", "cpu time", coarse, "", readings=1000)
    assert (seen.quantum_ns, seen.monotonic) == (4e6, True)
    back = facts_of("back", "wall", counting([1, 5, 3]), "", readings=9)  # type: ignore[arg-type]
    assert not back.monotonic


def test_the_quantum_of_a_counter_is_found_though_its_reading_takes_several() -> None:
    random = np.random.default_rng(1)
    values = (np.cumsum(random.integers(3, 12, 200_000)) * 26).tolist()
    assert facts_of("tsc", "counter", counting(values), "", readings=5000).quantum_ns == 26.0  # type: ignore[arg-type]


def test_a_clock_that_steps_back_is_recommended_for_nothing() -> None:
    found = [
        facts_of("CLOCK_A", "monotonic", counting([5, 3]), "", readings=10),  # type: ignore[arg-type]
        facts_of("CLOCK_B", "monotonic", time.monotonic_ns, "", readings=10),
    ]
    assert recommend(found)["intervals in Python"] == "CLOCK_B"
