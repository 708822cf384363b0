"""Settings applied, read back, kept where they help, and restored."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.unit.settings_made import CPU, noisy_machine, tree

from latlab.cli import system as cli
from latlab.errors import InputError, UnavailableError, UsageError
from latlab.system.settings.catalogue import check
from latlab.system.settings.masks import InterruptAffinity
from latlab.system.settings.measured import apply_measured
from latlab.system.settings.saved import Saved
from latlab.system.settings.tuning import Change, apply, restore, tuned


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    return noisy_machine(tmp_path / "noisy")


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


def test_a_debugfs_that_is_not_mounted_is_said_with_the_command(noisy: Path, tmp_path: Path) -> None:
    assert {one.name: one for one in check(noisy)}["fair server"].good is False
    missing = {one.name: one for one in check(tmp_path / "none")}["fair server"].unavailable
    assert missing == "debugfs is not mounted: sudo mount -t debugfs none /sys/kernel/debug"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_while_tune_writes_gives_everything_back(
    noisy: Path, tmp_path: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes().strip() for path in noisy.rglob("*") if path.is_file()}
    state = tmp_path / "state.json"
    read, write = os.pipe()

    def measure(cpus: Sequence[int]) -> float:
        os.write(write, b"x")
        time.sleep(60)
        return 1.0

    def measured(profile: str, *, cpus: Sequence[int]) -> list[Change]:
        return apply_measured(profile, root=noisy, cpus=cpus, state=state, measures={"": measure})

    monkeypatch.setattr(cli, "_measured", measured)
    monkeypatch.setattr("latlab.system.cpus.online_cpus", lambda: [0, 1, 2, 3])
    child = os.fork()
    if child == 0:
        try:
            cli.tune.main(["--apply", "--measure", "--for", "jitter", "--cpus", "2,3"], standalone_mode=False)
        except BaseException:  # noqa: BLE001 (a forked test must not run the rest of the suite)
            os._exit(1)
        os._exit(0)
    os.read(read, 1)
    os.kill(child, number)
    os.waitpid(child, 0)
    assert before == {path: path.read_bytes().strip() for path in noisy.rglob("*") if path.is_file()}
    assert not state.exists()
