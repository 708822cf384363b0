"""What fills a machine, and who waits for a lock, planted in analyses."""

from __future__ import annotations

from typing import Any

import pytest

from latlab.lab.judge.demand import all_of_type, held_up, most_work
from latlab.model.diagnosis.pipeline import Latency, StageRow
from latlab.model.queues.analysis import Analysis, StageResult, Verdict

STAGES = {"market": ("market-a", "market-b"), "strategy": ("strategy-0",), "execution": ("execution-0",)}


def view(name: str, service_us: float, rate_hz: float) -> StageRow:
    ns = round(1000 * service_us)
    return StageRow(
        name=name,
        type=name.split("-", maxsplit=1)[0],
        events=1000,
        rate_hz=rate_hz,
        utilisation=None,
        cpu_cores=None,
        ready=None,
        blocked=None,
        run_queue=None,
        service_ns=Latency(100, ns, ns, ns, ns, ns),
    )


def result(label: str, **more: Any) -> StageResult:
    values: dict[str, Any] = {
        "inputs": (),
        "outputs": (),
        "ready": 1.0,
        "starved": 0.0,
        "blocked": 0.0,
        "utilisation": 1.0,
        "service_ns": 1000.0,
        "rate_hz": 1000.0,
        "cpu": 0.5,
        "run_queue": 0.5,
        **more,
    }
    return StageResult(label, **values)


def analysis(limiting: str | None, verdict: Verdict, *stages: StageResult) -> Analysis:
    return Analysis(limiting, verdict, 1.0, (), (), (), stages, 0, 1_000_000_000)


WORKS = (view("market-a", 2, 20e3), view("market-b", 2, 20e3))


def test_of_two_slow_stages_that_share_the_cpus_the_one_with_more_work_is_named() -> None:
    found = analysis("strategy-0", Verdict.SCHEDULER, result("strategy-0"), result("execution-0"))

    named = most_work(found, (*WORKS, view("strategy-0", 15, 27e3), view("execution-0", 30, 20e3)), STAGES)

    assert named is not None
    assert named.name == "execution"
    assert "execution needs 0.6 CPUs, strategy 0.405" in named.evidence


def test_where_all_need_as_much_the_cpus_stay_the_answer() -> None:
    found = analysis(None, Verdict.CPU, result("strategy-0"), result("execution-0"))

    assert (
        most_work(found, (*WORKS, view("strategy-0", 20, 27e3), view("execution-0", 26, 20e3)), STAGES)
        is None
    )


def test_one_instance_that_does_far_more_than_its_siblings_is_named_itself() -> None:
    found = analysis(None, Verdict.CPU, result("market-a"))
    slow = (view("market-a", 2, 20e3), view("market-b", 40, 20e3))

    named = most_work(found, (*slow, view("strategy-0", 1, 20e3)), STAGES)

    assert named is not None
    assert named.name == "market-b"


@pytest.mark.parametrize("verdict", [Verdict.NONE, Verdict.BURST])
def test_where_nothing_limits_work_alone_names_nobody(verdict: Verdict) -> None:
    found = analysis(None, verdict, result("strategy-0", ready=0.3))

    assert most_work(found, (*WORKS, view("strategy-0", 15, 27e3)), STAGES) is None


def test_a_stage_that_had_its_cpu_is_left_as_it_was_named() -> None:
    found = analysis("strategy-0", Verdict.STAGE, result("strategy-0", cpu=0.95, run_queue=0.05))

    assert (
        most_work(found, (*WORKS, view("strategy-0", 15, 27e3), view("execution-0", 30, 27e3)), STAGES)
        is None
    )


def test_a_victim_of_the_lock_is_not_named_but_who_holds_it() -> None:
    found = analysis(
        "b", Verdict.STAGE, result("a", cpu=0.8, run_queue=0.0), result("b", cpu=0.15, run_queue=0.0)
    )

    named = held_up(found)

    assert named is not None
    assert named.name == "a"


@pytest.mark.parametrize(
    "others",
    [
        pytest.param({"cpu": 0.1, "run_queue": 0.0}, id="a stage that sleeps beside idle ones"),
        pytest.param({"cpu": 0.8, "run_queue": 0.0, "ready": 0.1}, id="one that spins without work"),
    ],
)
def test_a_stage_that_waits_for_something_else_stays_named(others: dict[str, Any]) -> None:
    found = analysis("b", Verdict.STAGE, result("a", **others), result("b", cpu=0.1, run_queue=0.0))

    assert held_up(found) is None


def test_of_instances_that_need_as_long_for_an_event_the_type_is_named() -> None:
    views = (view("market-a", 30, 5e3), view("market-b", 31, 20e3))

    named = all_of_type("market-b", views, STAGES)

    assert named is not None
    assert named.name == "market"
    assert named.evidence == (
        "all 2 stages of type market need about as long for an event: 30 µs to 31 µs (p50, traced)"
    )


@pytest.mark.parametrize(
    ("label", "views"),
    [
        ("market-b", (view("market-a", 1, 20e3), view("market-b", 31, 20e3))),
        ("market-b", (view("market-b", 31, 20e3),)),
        ("strategy-0", (view("strategy-0", 31, 20e3),)),
        ("market", (view("market-a", 30, 20e3), view("market-b", 31, 20e3))),
    ],
    ids=["one is slow", "a sibling is not known", "it has no sibling", "it is a type already"],
)
def test_an_instance_stays_where_it_is_the_only_slow_one(label: str, views: tuple[StageRow, ...]) -> None:
    assert all_of_type(label, views, STAGES) is None
