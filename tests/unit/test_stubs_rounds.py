"""The rounds of a study: which run belongs to which point, and what the runs of all variants share."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.errors import UsageError
from latlab.model.stubs import StudyRun
from latlab.stubs.studies import forecast
from latlab.stubs.studies import study as _study
from latlab.stubs.studies.question import StudyPlan
from latlab.stubs.studies.runner import Unit, Units

CALLS_NS = 40_000_000
IDLE_NS = 77_000_000  # an idle stub lets others run, so its runs are no busy stub's


class Lab:
    """Runs that take as long as they are told; their start takes 10 to 30 ms, whatever comes after it."""

    def __init__(self) -> None:
        self.plan = StudyPlan(component="c", kind="c++", rounds=8)
        self.flags: tuple[str, ...] = ()
        self.runs: list[StudyRun] = []
        self.segments: Any = None
        self._random = np.random.default_rng(3)

    def run(self, mode: str, speedup: float = 0.0, *, round_number: int = -1) -> StudyRun:
        start = int(self._random.uniform(10e6, 30e6))
        rest = IDLE_NS if mode == "idle" else round(CALLS_NS * (1 - speedup)) + 20_000_000
        self.segments = None if mode == "original" else np.array([start, rest])
        self.runs.append(StudyRun(mode, speedup, round_number, start + rest, 0, 0))
        return self.runs[-1]

    def left(self) -> int:
        return 0

    def function_ns(self) -> float:
        return 0.0


def measured() -> _study._Rounds:
    units = {("p", 0): Unit(np.array([[CALLS_NS, 0]]), 0, 1)}
    return _study._repeat(Lab(), units, time.monotonic() + 3_600.0, lambda _: None)  # type: ignore[arg-type]


def test_an_idle_stubs_run_is_no_point_of_the_curve() -> None:
    rounds = measured()
    assert all(one[0.0][1] == CALLS_NS + 20_000_000 for one in rounds.segments)
    assert len(rounds.idle) == 8


def test_what_comes_before_the_first_call_is_the_same_in_every_variant() -> None:
    rounds = measured()
    points, base = _study._in_parts(rounds)
    for point, unmodified in zip(points, base, strict=True):
        whole = float(np.sum(unmodified))
        for speedup, parts in point.items():
            assert whole - float(np.sum(parts)) == CALLS_NS - round(CALLS_NS * (1 - speedup))


class Beside:
    """A laboratory whose stubs take another time than its component: runs are slow by turns, for a while."""

    def __init__(self, stub_ns: int) -> None:
        self.plan = StudyPlan(component="c", kind="c++")
        self.flags: tuple[str, ...] = ("work=2.000000", "shared")
        self.kept = 0
        self._stub_ns, self._runs = stub_ns, 0

    def work_per_ns(self) -> float:
        return 2.0

    def measure(self) -> Units:
        return self._calls(10_000_000)

    def spent(self) -> Units:
        return self._calls(self._stub_ns)

    def keep(self, units: Units) -> None:
        self.kept += 1

    def _calls(self, ns: int) -> Units:
        self._runs += 1
        slow = 1.4 if self._runs <= 6 else 1.0
        return {("p", 0): Unit(np.array([[round(ns * slow), 0]] * 3), 0, 1)}


@pytest.mark.parametrize(("stub_ns", "work"), [(12_500_000, 1.6), (9_000_000, 2.0)])
def test_work_that_takes_longer_beside_others_becomes_less_and_never_more(stub_ns: int, work: float) -> None:
    lab = Beside(stub_ns)
    _study._set_right(lab, {}, float("inf"))  # type: ignore[arg-type]
    assert lab.flags == (f"work={work:.6f}", "shared")
    assert lab.kept == 5  # a measurement takes the place of the times that stubs simulate


def test_a_stub_that_spins_until_a_deadline_is_left_as_it_is() -> None:
    lab = Beside(12_500_000)
    lab.flags = ("shared",)
    _study._set_right(lab, {}, float("inf"))  # type: ignore[arg-type]
    assert (lab.flags, lab.kept) == (("shared",), 0)


def test_a_slow_systems_time_is_not_spent_on_its_stubs_work() -> None:
    lab = Beside(12_500_000)
    _study._set_right(lab, {}, 0.0)  # type: ignore[arg-type]
    assert lab.kept == 1
    assert lab.flags == ("work=1.600000", "shared")


def test_the_time_of_a_study_is_told_by_its_first_run() -> None:
    assert _study._takes(StudyPlan("a:b", seconds=20), 0.1) == "a run takes 100 ms: the study takes 20 s"
    assert "about 42 s, more than was given" in _study._takes(StudyPlan("a:b", seconds=20), 1.0)


def test_a_study_that_can_not_be_done_in_its_time_is_not_begun() -> None:
    with pytest.raises(UsageError, match="a run of the command takes 3 s") as refused:
        _study._takes(StudyPlan("a:b", seconds=20), 3.0)

    assert refused.value.remedy == "--seconds 126, or a smaller input"


def test_what_a_study_starts_with_is_seen_in_its_rounds_and_told_less_surely_by_few() -> None:
    rounds = _study._Rounds(base=[150.0, 156.0, 153.0, 151.0], original=[100.0, 103.0, 101.0, 102.0])
    part, unsure = _study._part(rounds)
    assert part == pytest.approx(1.5, abs=0.03)
    again = replace(rounds, base=rounds.base * 5, original=rounds.original * 5)
    assert _study._part(again)[1] < 0.6 * unsure
    assert forecast.few_rounds(4) > forecast.few_rounds(20) > 1
