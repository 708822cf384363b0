"""Settings that add noise: found, with value, cost and command; and planned."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.settings_made import CPU, noisy_machine, tree

from latlab.errors import UnavailableError
from latlab.model.evidence.machine import SettingCost, SettingUnknown, SettingValue
from latlab.model.evidence.said import kind_of, values_of
from latlab.system.settings.catalogue import PROFILES, SOURCES, check, settings
from latlab.system.settings.masks import mask_of, mask_text
from latlab.system.settings.network import coalescing, energy_efficient_ethernet
from latlab.system.settings.tuning import apply, plan, restore


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    return noisy_machine(tmp_path / "noisy")


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
    assert found["CPU quota"].value == "50 ms of each 100 ms"
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
    assert coalescing(noisy, lambda *_: (0,) * 23) == ("eth0: received 0 ns, sent 0 ns", True)


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
