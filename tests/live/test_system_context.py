from __future__ import annotations

import os
from pathlib import Path

import pytest

from latlab.errors import UnavailableError, UsageError
from latlab.system.settings.context import ConditionsWarning, measuring

ABSENT = 1 << 12  # a CPU that no machine of ours has


def slack() -> str:
    return Path("/proc/self/timerslack_ns").read_text().strip()


@pytest.mark.smoke
def test_conditions_hold_inside_and_the_former_ones_come_back() -> None:
    allowed = os.sched_getaffinity(0)
    before = (slack(), os.sched_getscheduler(0))
    cpu = max(allowed)
    with measuring(cpus=[cpu], scheduling="batch", timer_slack_ns=1000) as conditions:
        assert os.sched_getaffinity(0) == {cpu}
        assert (slack(), os.sched_getscheduler(0)) == ("1000", os.SCHED_BATCH)
    assert conditions.applied == {"cpus": str(cpu), "timer slack": "1 µs", "scheduling": "batch"}
    assert conditions.failed == {}
    assert (slack(), os.sched_getscheduler(0)) == before
    assert os.sched_getaffinity(0) == allowed


def test_they_come_back_after_an_exception_too() -> None:
    before = slack()
    with pytest.raises(ZeroDivisionError), measuring(timer_slack_ns=1000):
        raise ZeroDivisionError
    assert slack() == before


def test_a_refused_affinity_is_ignored_warned_of_or_an_error() -> None:
    with measuring(cpus=[ABSENT]) as conditions:
        assert "cpus" in conditions.failed
    with (
        pytest.warns(ConditionsWarning, match="cpus 4096 was refused"),
        measuring(cpus=[ABSENT], on_failure="warn"),
    ):
        pass
    with (
        pytest.raises(UnavailableError, match=r"cpus 4096 was refused .*latlab system show"),
        measuring(cpus=[ABSENT], on_failure="error"),
    ):
        pass


def test_an_error_gives_back_what_was_already_taken() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(UnavailableError), measuring(cpus=[min(before)], on_failure="error", io_class=None):
        raise UnavailableError("x")
    assert os.sched_getaffinity(0) == before


@pytest.mark.rights
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_real_time_locked_memory_and_disk_class_hold_and_are_given_back() -> None:
    with measuring(scheduling="fifo", priority=3, lock_memory=True, io_class="realtime") as conditions:
        if "scheduling" not in conditions.failed:
            assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == (os.SCHED_FIFO, 3)
        if "memory" not in conditions.failed:
            assert "VmLck:\t       0 kB" not in Path("/proc/self/status").read_text()
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    assert "VmLck:\t       0 kB" in Path("/proc/self/status").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        {"cpus": []},
        {"scheduling": "fifo", "priority": 100},
        {"scheduling": "nonsense"},
        {"priority": 20},
        {"timer_slack_ns": 0},
        {"on_failure": "perhaps"},
        {"io_class": "fast"},
    ],
)
def test_senseless_conditions_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(UsageError), measuring(**arguments):  # type: ignore[arg-type]
        pass
