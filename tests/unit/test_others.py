"""How much of the machine others used beside a run, and who."""

import subprocess
import sys

import pytest

from latlab.lab.judge import foreign_load as _others
from latlab.lab.judge.foreign_load import Others

BURN = (
    "import time; print(flush=True)\nwhile time.process_time() < {seconds}: pass\nprint(flush=True); input()"
)


class Machine:
    """Seconds, as the kernel would count them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = self.busy = self.stolen = self.ours = 0.0
        self.times: dict[tuple[int, float], tuple[str, float]] = {(10, 0.0): ("hog", 100.0)}
        monkeypatch.setattr("latlab.lab.judge.foreign_load.time.monotonic", lambda: self.clock)
        monkeypatch.setattr(_others, "_machine", lambda: (self.busy, self.stolen))
        monkeypatch.setattr(_others, "_ours", lambda: self.ours)
        monkeypatch.setattr(_others, "_times", lambda: dict(self.times))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def test_what_the_run_used_is_not_others(machine: Machine) -> None:
    others = Others()
    machine.clock, machine.busy, machine.ours = 2.0, 3.0, 3.1  # (ticks miss some of it)
    others.end()
    assert others.cpus == 0
    assert others.processes == ()


def test_a_process_that_can_be_seen_counts_by_its_own_time(machine: Machine) -> None:
    others = Others()
    machine.clock, machine.busy, machine.ours = 2.0, 3.8, 3.1
    machine.times = {(10, 0.0): ("hog", 101.0), (11, 5.0): ("late", 0.2), (12, 5.0): ("idle", 0.001)}
    others.end()
    assert others.cpus == pytest.approx(1.201 / 2)
    assert [(one.name, one.cpus) for one in others.processes] == [("hog", 0.5), ("late", 0.1)]
    assert not others.unseen
    assert others.took(2) == "other processes took 0.6 of 2 CPUs (hog, process 10, 0.5)"


def test_what_the_hypervisor_stole_was_used_by_others(machine: Machine) -> None:
    others = Others()
    machine.clock, machine.busy, machine.ours, machine.stolen = 2.0, 3.0, 3.0, 0.4
    others.end()
    assert others.cpus == pytest.approx(0.2)
    assert others.unseen
    assert others.took(2) == "the hypervisor took 0.2 of 2 CPUs"


def test_busy_time_of_nobody_that_can_be_seen_counts_too(machine: Machine) -> None:
    others = Others()
    machine.clock, machine.busy, machine.ours = 2.0, 3.0, 2.0
    others.end()
    assert others.cpus == pytest.approx(0.5)
    assert others.processes == ()


def test_of_two_children_the_one_that_goes_on_is_found() -> None:
    others = Others()
    ended, goes_on = (
        subprocess.Popen(
            [sys.executable, "-c", BURN.format(seconds=0.3)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(2)
    )
    try:
        for process in (ended, goes_on):
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.readline()
        ended.communicate(b"\n")
        others.end()
        found = {one.pid for one in others.processes}
        assert goes_on.pid in found
        assert ended.pid not in found
    finally:
        goes_on.communicate(b"\n")
