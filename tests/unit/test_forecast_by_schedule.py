"""What a diagnosis of any program says of a faster part, by the simulation of its schedule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab._core import schedule as core
from latlab.lab.forecast.by_schedule import _told, by_schedule, scenarios_of
from latlab.model import schedule as layouts
from latlab.model.diagnosis.answer import Interval
from latlab.model.evidence.said import said
from latlab.model.evidence.threads import ThreadReason
from latlab.model.schedule import Frame, Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.model.simulation import Scenario, ScenarioPoint, ScheduleForecast
from latlab.model.threads import Code, Edge, Limit, LimitKind, LockUse, Role, ThreadFindings
from latlab.schedule.simulation.simulate import simulate

MS = 1_000_000


def schedule() -> Schedule:
    """A main thread waits for a worker of 100 ms."""
    rows = [
        (0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 0, 100 * MS, 1, 64, -1),
        (0, State.RUNNING, 0, Source.UNKNOWN, 0, 100 * MS, 102 * MS, -1, -1, -1),
        (1, State.RUNNING, 0, Source.UNKNOWN, 1, 0, 101 * MS, -1, -1, -1),
    ]
    threads = (
        ScheduledThread(100, 100, "app", "app", 0, 102 * MS, True),
        ScheduledThread(101, 100, "worker", "app", 0, 101 * MS, True, 0),
    )
    return Schedule(
        0, 102 * MS, (0, 1), threads, np.array(rows, layouts.INTERVAL), np.empty(0, layouts.WAKE),
        np.empty(0, layouts.FOREIGN),
        Losses("bpf"), exit_code=0,
    )  # fmt: skip


def sampled(function: str = "parse", times: int = 6) -> Schedule:
    """The same, of whose worker's ten samples so many are in a function."""
    samples = np.zeros(10, layouts.SAMPLE)
    samples["thread"], samples["running"] = 1, 1
    samples["time"] = np.arange(10) * 10 * MS
    samples["stack"] = [0] * times + [1] * (10 - times)
    frames = (Frame(function, "app.cpp", 3), Frame("main", "app.cpp", 9))
    return replace(schedule(), samples=samples, stacks=((0, 1), (1,)), frames=frames)


def findings(kind: LimitKind = LimitKind.THREAD, **of_worker: object) -> ThreadFindings:
    worker = Role("worker", 1, (100,), 0.99, 0.0, {}, 0.99, 0.98, threads=(1,))
    main = Role("app", 1, (100,), 0.02, 0.0, {"futex": 0.98}, 0.02, 0.02, threads=(0,))
    limit = Limit(kind, "worker", 0.9, 0.98, "worker limits.")
    roles = (replace(worker, **of_worker), main)  # type: ignore[arg-type]
    return ThreadFindings(limit, roles, (), (), {}, 0.1, 1, "bpf", 0.0, threads=("worker", "app"))


def test_the_role_that_limits_is_forecast_with_how_much_time_it_saves() -> None:
    made, why = by_schedule(schedule(), findings(), lambda line: None)

    assert why == ""
    assert [(one.method, one.stage, one.kind) for one in made] == [("schedule", "worker", "total")]
    assert made[0].sentence.startswith("Making worker faster pays off all the way")
    half = made[0].points[1].time_ns
    assert half is not None
    assert half.low is not None
    assert half.high is not None
    assert half.low < half.value < half.high


def test_a_simulation_in_which_what_limits_does_not_help_is_not_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who spins for the worker, and waits for it in no call, is simulated as if that were work."""
    base = simulate(schedule())
    none = ScheduleForecast(Scenario("role", "worker", (1,)), "", "none", None, (), 101.0 * MS, None, 0)
    monkeypatch.setattr("latlab.lab.forecast.by_schedule.forecast", lambda *_, **__: (base, [none]))

    made, why = by_schedule(schedule(), findings(), lambda line: None)

    assert made == ()
    assert why.startswith("progress waited for worker 98.0 % of the time, and in the simulation it does not")


def test_what_go_s_threads_run_is_its_goroutines_work_and_no_forecast_of_its_scheduler() -> None:
    own = Role("goroutine main.post", 1, (100,), 0.9, 0.0, {}, 0.9, 0.9, entry="main.post")
    found = replace(findings(LimitKind.DISK), roles=(own, *findings().roles))
    assert [one.name for one in scenarios_of(schedule(), findings(LimitKind.DISK))] == ["worker"]
    assert scenarios_of(schedule(), found) == []


def test_what_the_budget_does_not_carry_is_left_out() -> None:
    made, why = by_schedule(schedule(), findings(), lambda line: None, over=lambda: True)

    assert made == ()
    assert why == "the time given was over"


def test_of_several_parts_those_that_are_done_in_time_are_told() -> None:
    asked: list[int] = []

    def counted() -> bool:
        asked.append(1)
        return False

    part = findings(code=(Code("parse", "app.c", 3, 0.6),))
    made, _ = by_schedule(sampled(), part, lambda line: None, counted)
    assert [one.stage for one in made] == ["worker", "parse in worker"]
    left = iter([False] * (len(asked) - 1) + [True])  # over before the very last simulation
    made, why = by_schedule(sampled(), part, lambda line: None, lambda: next(left))

    assert [one.stage for one in made] == ["worker"]
    assert "parse in worker" in why


def test_the_hottest_function_is_asked_where_it_is_a_part_of_its_role() -> None:
    part = findings(code=(Code("parse", "app.c", 3, 0.6),))
    whole = findings(code=(Code("parse", "app.c", 3, 0.99),))

    assert [one.kind for one in scenarios_of(schedule(), part)] == ["role", "function"]
    assert [one.kind for one in scenarios_of(schedule(), whole)] == ["role"]


def test_where_a_lock_limits_no_function_is_asked() -> None:
    # Of its time nobody knows how much is under the lock.
    found = findings(LimitKind.LOCK, code=(Code("parse", "app.c", 3, 0.6),))

    assert "function" not in [one.kind for one in scenarios_of(schedule(), found)]


def test_a_function_that_its_role_is_named_after_is_the_role() -> None:
    named = findings(code=(Code("worker", "app.c", 3, 0.6),))

    assert [one.kind for one in scenarios_of(schedule(), named)] == ["role"]


def test_where_a_role_waits_in_a_loop_nothing_is_forecast() -> None:
    made, why = by_schedule(schedule(), findings(blocked={"spinning": 0.3}), lambda line: None)

    assert made == ()
    assert "worker waits in a loop for 30" in why


def test_of_a_program_that_sleeps_and_then_ends_the_time_is_no_measure() -> None:
    given = schedule()
    rows = given.intervals.copy()
    rows["wait"][0], rows["source"][0], rows["waker"][0] = Wait.TIMER, Source.TIMER, -1
    sleeps = replace(given, intervals=rows)

    made, why = by_schedule(sleeps, findings(), lambda line: None)
    assert made == ()
    assert "ends 100 ms after it began to sleep" in why
    rows["thread"][2] = 0  # nobody works meanwhile
    asked = by_schedule(replace(sleeps, intervals=rows), findings(), lambda line: None)
    assert "began to sleep" not in asked[1]


def test_the_sleeps_of_a_role_that_mostly_sleeps_are_asked() -> None:
    asleep = findings(running=0.05, blocked={"timer": 0.9})

    assert [(one.kind, one.name) for one in scenarios_of(schedule(), asleep)] == [
        ("timer", "the sleeps of worker")
    ]


def test_what_can_not_be_simulated_says_why() -> None:
    unseen = replace(schedule(), losses=Losses("bpf", unseen_share=0.4))

    made, why = by_schedule(unseen, findings(), lambda line: None)

    assert made == ()
    assert "40 % of the threads' time" in why


def test_of_a_program_that_was_hardly_seen_nothing_is_forecast() -> None:
    short = replace(schedule(), ended_ns=3 * MS)
    assert by_schedule(short, findings(), lambda line: None) == ((), "it was observed for 3 ms only")


def test_a_lock_without_a_word_of_its_own_is_not_asked() -> None:
    def asked(address: int) -> list[str]:
        lock = LockUse("worker", address, 9, 9, 9, 0.9, ("worker",), ("worker",), ())
        found = replace(findings(LimitKind.LOCK), locks=(lock,))
        return [one.kind for one in scenarios_of(schedule(), found)]

    assert "lock" in asked(0x7000)
    assert "lock" not in asked(0)


def test_steps_that_the_core_refuses_make_no_forecast_and_end_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> dict[str, object]:
        raise ValueError("a step of a simulation is none")

    monkeypatch.setattr(core, "simulate", refuse)
    made, why = by_schedule(schedule(), findings(), lambda line: None)
    assert made == ()
    assert why == "what its threads did can't be simulated: a step of a simulation is none"


def test_a_function_of_c_plus_plus_is_asked_by_the_name_that_it_is_told_by() -> None:
    part = findings(code=(Code("feed::parse", "app.cpp", 3, 0.6),))
    made, why = by_schedule(sampled("feed::parse(char const*, unsigned long)"), part, lambda line: None)

    assert why == ""
    asked = made[1].points[1].time_ns
    assert asked is not None
    assert asked.value == pytest.approx(102 * MS - 0.5 * 0.6 * 101 * MS, rel=0.02)


def test_a_function_without_a_sample_is_not_said_to_be_of_no_use() -> None:
    part = findings(code=(Code("other", "app.cpp", 3, 0.6),))
    made, why = by_schedule(sampled(), part, lambda line: None)

    assert [one.stage for one in made] == ["worker"]
    assert "no sample" in why


def test_of_parts_that_do_not_wait_for_each_other_none_sets_the_time() -> None:
    made, why = by_schedule(schedule(), replace(findings(), apart=True), lambda line: None)

    assert made == ()
    assert "do not wait for each other" in why


def test_of_a_role_of_which_one_thread_limits_that_one_is_asked() -> None:
    found = findings(threads=(0, 1), count=2)
    late = replace(found, alone=1, limit=replace(found.limit, name="worker: late"))

    assert [(one.name, one.threads) for one in scenarios_of(schedule(), late)] == [("worker: late", (1,))]


@pytest.mark.parametrize(
    ("running", "why"), [(0.9, "worker, which limits, is not simulated"), (0.0, "nothing")]
)
def test_a_role_without_threads_of_its_own_that_works_is_not_said_to_take_no_time(
    running: float, why: str
) -> None:
    """As Go's: goroutines share the threads."""
    found = findings(running=running, threads=())
    only = replace(found, roles=found.roles[:1])
    assert by_schedule(schedule(), only, lambda line: None)[1].startswith(why)


def test_where_what_limits_cannot_be_asked_an_innocent_part_is_not_told_either() -> None:
    found = findings()
    made, why = by_schedule(
        schedule(), replace(found, limit=replace(found.limit, name="server")), lambda line: None
    )

    assert made == ()
    assert why.startswith("server, which limits, is not simulated")


@pytest.mark.parametrize(("kind", "told"), [("timer", True), ("role", False)])
def test_sleeps_are_forecast_as_long_as_there_are_as_many(kind: Any, told: bool) -> None:
    """One run doesn't tell a wait from the pace of a program that ends at a time of the clock."""
    points = (ScenarioPoint(1.0, Interval(20.0 * MS)),)
    one = ScheduleForecast(Scenario(kind, "worker", (1,)), "", "total", None, points, 80.0 * MS, None, 0)
    sentence = _told(one, simulate(schedule()), schedule(), findings()).sentence
    assert ("if it sleeps as often as now" in sentence) == told
    assert "pays off all the way" in sentence


def test_a_part_whose_end_is_open_says_how_far_it_is_told() -> None:
    point = ScenarioPoint(0.5, Interval(60.0 * MS, 55.0 * MS, 65.0 * MS))
    asked = Scenario("role", "worker", (1,))
    own = Interval(102.0 * MS)
    one = ScheduleForecast(asked, "", "open", own, (point,), 101.0 * MS, None, None)
    told = _told(one, simulate(schedule()), schedule(), findings())

    assert told.sentence == (
        "Making worker 50 % faster takes 60 ms in place of 102 ms, 41.2 % less; how far it pays beyond that "
        "is not known"
    )
    assert told.kind == "open"


def test_where_a_lock_limits_no_part_is_said_to_be_of_no_use() -> None:
    found = findings(LimitKind.LOCK)
    idle = Role("idle", 1, (100,), 0.5, 0.0, {}, 0.5, 0.9, threads=(0,))
    made, why = by_schedule(schedule(), replace(found, roles=(idle,)), lambda line: None)

    assert made == ()
    assert "no faster part helps" in why


def beside(limits: float = 0.1, running: float = 0.06, **blocked: float) -> ThreadFindings:
    """What limits always works, beside a role that sleeps between pieces of work."""
    found = findings()
    blocked = {"timer": 0.9, **blocked}
    feed = Role("feed", 1, (101,), running, 0.0, blocked, 0.96, limits, threads=(0,))
    return replace(found, roles=(found.roles[0], feed))


def test_what_never_waits_for_a_source_of_its_own_pace_may_only_lose_less() -> None:
    """Datagrams that a receiver is too slow for are dropped: the feed takes its time whatever it does."""
    made, why = by_schedule(schedule(), beside(), lambda line: None)

    assert made == ()
    assert why.startswith("feed sleeps between pieces of work and waits for no other thread")


@pytest.mark.parametrize("wakes", [True, False])
def test_of_sleepers_that_do_not_wake_each_other_no_shorter_sleeps_are_forecast(wakes: bool) -> None:
    limit = Limit(LimitKind.TIMER, "maker, poller", 0.99, 0.8, "", ())
    found = replace(
        beside(), limit=limit, edges=(Edge("maker", "poller", "futex", 90.0, 0.5),) if wakes else ()
    )
    _, why = by_schedule(schedule(), found, lambda line: None)
    assert ("do not wake each other" in why) == (not wakes)


@pytest.mark.parametrize(("others", "told"), [(0.02, (0.2, 0.5, 0.8, 1.0)), (0.3, (0.2,)), (0.6, ())])
def test_beside_others_that_want_the_interpreters_lock_no_role_is_forecast_for_much_shorter_rounds(
    others: float, told: tuple[float, ...]
) -> None:
    found = findings()
    feed = Role("feed", 1, (100,), others, 0.0, {"futex": 1 - others}, others, 0.0)
    gil = LockUse("GIL", 64, 90, MS, MS, 0.02, ("worker", "feed"), ("worker", "feed"))
    made, why = by_schedule(
        schedule(), replace(found, roles=(*found.roles, feed), locks=(gil,)), lambda line: None
    )
    assert tuple(point.speedup for one in made for point in one.points) == told
    assert ("the interpreter's lock" in why) == (not told)


def replace_paced(found: ThreadFindings) -> ThreadFindings:
    return replace(found, roles=tuple(replace(one, paced=one.may_be_due) for one in found.roles))


def test_of_who_may_sleep_until_a_time_is_due_no_faster_work_is_forecast() -> None:
    sleepy = findings(may_be_due=True, running=0.7, blocked={"timer": 0.3})
    made, why = by_schedule(schedule(), sleepy, lambda line: None)
    assert made == ()
    assert why.startswith("worker works and sleeps by turns")
    _, why = by_schedule(schedule(), replace_paced(sleepy), lambda line: None)
    assert why.startswith("worker begins each round when that is due")
    made, _ = by_schedule(schedule(), findings(running=0.7, blocked={"timer": 0.3}), lambda line: None)
    assert made[0].stage == "worker"


@pytest.mark.parametrize(
    "found",
    [beside(running=0.001), beside(limits=0.0), beside(socket=0.08)],
    ids=["a heartbeat", "what no progress waits for", "a source that waits for room"],
)
def test_a_sleeper_that_sets_no_pace_keeps_no_forecast_back(found: ThreadFindings) -> None:
    made, _ = by_schedule(schedule(), found, lambda line: None)
    assert [one.stage for one in made if one.kind != "none"] == ["worker"]


@pytest.mark.parametrize(
    ("kind", "spent", "told"),
    [(LimitKind.THREAD, 0.5, True), (LimitKind.THREAD, 0.01, False), (LimitKind.UNKNOWN, 0.5, False)],
)
def test_that_a_part_does_not_help_is_told_where_that_is_news(
    monkeypatch: pytest.MonkeyPatch, kind: LimitKind, spent: float, told: bool
) -> None:
    """Not of what takes next to no time, nor of each of several that are alike."""
    base = simulate(schedule())
    points = (ScenarioPoint(1.0, Interval(50.0 * MS)),)
    own = ScheduleForecast(Scenario("role", "worker", (1,)), "", "total", None, points, 101.0 * MS, None, 0)
    other = ScheduleForecast(
        Scenario("timer", "the sleeps of app", (0,)), "", "none", None, points, spent * 102 * MS, None, 0
    )
    monkeypatch.setattr("latlab.lab.forecast.by_schedule.forecast", lambda *_, **__: (base, [own, other]))

    made, _ = by_schedule(schedule(), findings(kind), lambda line: None)
    assert ("the sleeps of app" in [one.stage for one in made]) == told


@pytest.mark.parametrize(("source", "kind", "told"), [
    ("app", "lock", False), ("app", "futex", True), ("worker", "lock", True),
])  # fmt: skip
def test_how_often_a_faster_thread_meets_who_holds_a_lock_is_not_forecast(
    source: str, kind: str, told: bool
) -> None:
    found = replace(findings(), edges=(Edge(source, "worker", kind, 100.0, 0.2),))
    made, why = by_schedule(schedule(), found, lambda line: None)
    assert bool(made) is told
    if not told:
        assert why.startswith("worker waits 20.0 % of its time for a lock that app holds")


def test_waits_of_pythons_switch_interval_are_not_simulated_as_sleeps() -> None:
    why = said(ThreadReason.SWITCH_INTERVALS, name="app", holder="worker")
    limit = Limit(LimitKind.UNKNOWN, "", 0.0, 0.0, "no name", why_not=(why,))
    assert by_schedule(schedule(), replace(findings(), limit=limit), lambda line: None) == ((), why)
