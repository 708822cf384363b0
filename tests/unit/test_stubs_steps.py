"""What the steps of the method say of planted measurements."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.model.machine.environment import Environment
from latlab.model.stubs import StudyPoint, StudyResult, StudyRun
from latlab.reports.stubs.study_html import study_page
from latlab.stubs import forecast
from latlab.stubs.studies import steps as _steps
from latlab.stubs.studies.forecast import SPEEDUPS
from latlab.stubs.studies.runner import Unit, Units, combined, fastest, parts_of, rows_in_parallel, slowed
from latlab.stubs.studies.study import _widened

MS = 1_000_000
GAUGE = [80_000, 80_000, 80_000, 120_000]


def unit(calls: int, busy_ms: float, begin_ms: float, end_ms: float, blocked_ms: float = 0) -> Unit:
    row = [int(busy_ms * MS), int(blocked_ms * MS)]
    return Unit(np.array([row] * calls), int(begin_ms * MS), int(end_ms * MS))


def facts(units: Units, time: list[float], *, idle: float = 100, python: bool = False) -> _steps.Facts:
    """Rounds in which the system takes time[i] ms at each tenth."""
    points = [dict(zip(SPEEDUPS, (t * MS for t in time), strict=True)) for _ in range(8)]
    return _steps.Facts(
        units=units, python=python, t_sut=time[0] * MS, scatter=0.0, base=[time[0] * MS] * 8, points=points,
        idle=[(idle * MS, time[0] * MS)] * 8, fastest=1.0, system={}, waitless=False,
        usage=[(round(time[0] * MS), 90 * MS, 5 * MS)] * 8,
    )  # fmt: skip


def verdicts(found: _steps.Facts) -> dict[str, str]:
    result = forecast(found.points, baseline=found.base, name="cus")
    return {step.name: step.verdict for step in _steps.steps(found, result, None)}


def line(saved: float) -> list[float]:
    return [100 - saved * s for s in SPEEDUPS]


def test_a_component_alone_on_its_cpu_saves_what_it_takes() -> None:
    assert verdicts(facts({("a", 0): unit(10, 4, 0, 90)}, line(40)))["flat"] == "independent"


def test_a_component_beside_others_has_dependencies() -> None:
    assert verdicts(facts({("a", 0): unit(10, 4, 0, 90)}, line(15)))["flat"] == "dependent"


def test_a_system_that_saves_more_than_the_component_takes_is_an_anomaly() -> None:
    assert verdicts(facts({("a", 0): unit(10, 4, 0, 90)}, line(60)))["flat"] == "anomaly"


def test_calls_of_two_threads_that_exclude_each_other_are_no_anomaly() -> None:
    units = {("a", 0): unit(10, 4, 0, 90), ("a", 1): unit(10, 4, 1, 91)}
    assert verdicts(facts(units, line(80)))["flat"] == "serialised"


def test_threads_of_one_python_process_count_as_one() -> None:
    units = {("a", 0): unit(10, 4, 0, 90), ("a", 1): unit(10, 4, 1, 91)}
    assert verdicts(facts(units, line(80), python=True))["flat"] == "independent"


def test_processes_one_after_the_other_share_a_cpu() -> None:
    units = {("a", 0): unit(10, 4, 0, 40), ("b", 0): unit(10, 4, 50, 90)}
    assert rows_in_parallel(units, 2) == (80 * MS, 20)


def test_more_threads_than_cpus_share_them() -> None:
    units = {("a", i): unit(10, 4, 0, 90) for i in range(4)}
    assert rows_in_parallel(units, 2) == (80 * MS, 20)


@pytest.mark.parametrize(("idle", "says"), [(100, "nothing waits"), (70, "others ready"), (140, "anomaly")])
def test_a_component_that_sleeps_shows_whether_others_wait_for_its_cpu(idle: float, says: str) -> None:
    assert verdicts(facts({("a", 0): unit(10, 4, 0, 90)}, line(40), idle=idle))["idle"] == says


def test_that_none_of_it_pays_is_said_only_where_the_noise_leaves_no_gain() -> None:
    noise = np.random.default_rng(1).lognormal(0, 0.6, (8, len(SPEEDUPS) + 1)) * 100 * MS
    points = [dict(zip(SPEEDUPS, row[1:].tolist(), strict=True)) for row in noise]
    for one, says in (
        (points, "what it pays is not told from the noise"),
        ([dict.fromkeys(SPEEDUPS, 100.0 * MS)] * 8, "none of it pays"),
    ):
        found = forecast(one, baseline=[each[0.0] for each in one], name="cus")
        assert found.component_class == "none"
        assert found.curve[-1].interval[1] <= 1
        planted = facts({("a", 0): unit(10, 4, 0, 90)}, line(0))
        busy = next(step for step in _steps.steps(planted, found, None) if step.name == "busy")
        assert busy.text.startswith(says)


def test_an_interval_that_is_widened_keeps_its_two_sides() -> None:
    point = StudyPoint(speedup=1.0, gain=0.0, interval=(-0.1, 0.5), value=1.0, runs=8)
    assert _widened(point, 1.0, 0.1) == pytest.approx((-0.1, 0.5))
    assert _widened(replace(point, gain=0.9, interval=(0.6, 1.0)), 1.0, 0.5)[1] == 1.0


def test_waits_of_the_component_are_kept_and_said() -> None:
    found = verdicts(facts({("a", 0): unit(10, 4, 0, 90, blocked_ms=3)}, line(40)))
    assert found["waits"] == "kept"


def test_a_delay_that_lengthens_the_run_at_once_confirms_the_suspicion() -> None:
    walls = {part: [100.0 * MS + part * 40 * MS] * 4 for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    assert _steps.suspicion(walls, 40 * MS).verdict == "bottleneck"


def test_a_delay_that_costs_nothing_until_it_is_long_is_none_yet() -> None:
    walls = {part: [100.0 * MS + max(0, part - 0.6) * 40 * MS] * 4 for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    found = _steps.suspicion(walls, 40 * MS)
    assert (found.verdict, found.values["t_limit"]) == ("near", 0.75)


def test_a_call_that_does_not_follow_the_machine_takes_the_least_that_is_to_be_expected() -> None:
    measured: list[Units] = [{("a", 0): unit(2, 2, 0, 9)} for _ in range(3)]
    units, same, _ = combined(measured, GAUGE)
    assert same
    assert units["a", 0].times[:, 0].tolist() == [2 * MS, 2 * MS]


def test_threads_that_share_a_queue_of_calls_are_noticed() -> None:
    first: Units = {("a", 0): unit(3, 1, 0, 9), ("a", 1): unit(5, 1, 0, 9)}
    second: Units = {("a", 0): unit(4, 1, 0, 9), ("a", 1): unit(4, 1, 0, 9)}
    assert not combined([first, second], GAUGE)[1]


def as_code(text: str) -> str:
    """As a page has it: names between backticks set as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def test_the_page_carries_the_sentence_and_every_step() -> None:
    found = facts({("a", 0): unit(10, 4, 0, 90)}, line(40))
    result = forecast(found.points, baseline=found.base, name="cus")
    study = StudyResult(
        component="cus", component_class=result.component_class, t_cus_ns=40 * MS, t_cus_blocked_ns=0,
        t_sut_ns=100 * MS, t_limit=None, t_limit_interval=None, t_min_sut_ns=60 * MS,
        t_min_interval_ns=(59 * MS, 61 * MS), drift=0.0, drift_interval=(0.0, 0.0), calls=10, pays=1.0,
        curve=result.curve, sentence=result.sentence, takes_over=None,
        steps=_steps.steps(found, result, None), system={}, validated=True, warnings=(), rounds=8,
        seconds=1.0,
        runs=(StudyRun("off", 0.0, 0, 100 * MS, 0, 0), StudyRun("busy", 0.5, 0, 80 * MS, 0, 0)),
    )  # fmt: skip
    page = study_page(study, "latlab stubs study", Environment({}), 1).html()
    assert as_code(result.sentence) in page
    assert all(as_code(step.text) in page for step in study.steps if step.name != "conclusion")


def test_work_is_slowed_with_the_machine_and_a_spin_to_a_deadline_is_not() -> None:
    work: list[Any] = [{("a", 0): unit(10, busy, 0, 90)} for busy in (4, 4, 6, 4)]
    spin: list[Any] = [{("a", 0): unit(10, busy, 0, 90)} for busy in (4, 4.02, 4, 4.01)]
    assert slowed(work, GAUGE)
    assert not slowed(spin, GAUGE)


def test_work_takes_what_it_takes_in_the_fast_mode() -> None:
    units, same, works = combined([{("a", 0): unit(3, busy, 0, 90)} for busy in (4, 6, 6, 4)], GAUGE)
    assert same
    assert works
    assert units["a", 0].busy_ns == 12 * MS


def test_the_fast_mode_of_several_runs_is_that_of_each_call() -> None:
    one: Units = {("a", 0): Unit(np.array([[4 * MS, 0], [7 * MS, 0]]), 0, 1)}
    other: Units = {("a", 0): Unit(np.array([[6 * MS, 0], [5 * MS, 0]]), 0, 1)}
    assert fastest([one, other]) == 9 * MS
    unlike: Units = {("a", 0): unit(1, 10, 0, 9)}
    assert fastest([one, unlike]) == 10 * MS  # no call of one is a call of the other


def test_parts_are_long_enough_to_be_compared() -> None:
    run = np.array([MS, MS, MS // 2, 5 * MS, 10, MS])
    assert parts_of([run, run]).tolist() == [0, 2, 4]
