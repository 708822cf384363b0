"""Do the CPUs work at one speed?"""

import os

import pytest

from latlab.lab.forecast.one_speed import varied
from latlab.system.core_speed import CoreSpeed


def seen(*looks: list[int]) -> CoreSpeed:
    speed = CoreSpeed(range(len(looks)))
    for cpu, took in enumerate(looks):
        speed.looks[cpu] += took
    return speed


def test_cpus_of_one_speed_are_not_worth_a_word() -> None:
    assert seen([100, 101, 99, 100] * 10, [100] * 40).varied() is None


def test_a_core_that_is_shared_for_a_quarter_of_the_time_is_said_to_be() -> None:
    found = seen([100, 100, 100, 180] * 10, [100] * 40).varied()
    assert found is not None
    slow, times, looks = found
    assert (slow, looks) == (0.125, 80)
    assert times == pytest.approx(1.8)
    assert "took 1.8 × longer in 12 % of 80 checks" in varied(*found)


def test_cpus_of_different_kinds_are_held_against_themselves() -> None:
    assert seen([100] * 40, [200] * 40).varied() is None


def test_one_long_look_is_no_finding() -> None:
    assert seen([100] * 39 + [500]).varied() is None


def test_few_looks_say_nothing() -> None:
    assert seen([100, 180] * 9).varied() is None


def test_a_look_leaves_the_thread_where_it_may_run(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.sched_getaffinity(0)
    where = []

    def gauge(_: int, loops: int) -> list[int]:
        where.append(os.sched_getaffinity(0))
        return [7 * cpu + 3 for cpu in range(loops)]

    monkeypatch.setattr("latlab.system.core_speed.native.gauge", gauge)
    speed = CoreSpeed(sorted(before))
    speed.look()
    assert where == [{cpu} for cpu in sorted(before)]
    assert speed.looks == {cpu: [3] for cpu in before}
    assert os.sched_getaffinity(0) == before


def test_a_cpu_that_may_not_be_chosen_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("latlab.system.core_speed.native.gauge", lambda _, loops: [5] * loops)
    here = min(os.sched_getaffinity(0))
    speed = CoreSpeed([here, 1_000_000])
    speed.look()
    assert speed.looks == {here: [5], 1_000_000: []}
    assert speed.varied() is None
