"""Names that are withheld or put right: stages within what times may be wrong by, pools that somebody else
filled, times that stand in two files, two applications at once, and the interpreter's lock."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.test_queues_gate import both, line

from latlab.lab.diagnosis.interpreter_lock import by_interpreter_lock
from latlab.lab.diagnosis.joined import joined
from latlab.model.diagnosis.answer import Answer
from latlab.model.queues.analysis import Verdict
from latlab.model.queues.observation import Process, Queue, QueueKind, Stage
from latlab.model.threads import Limit, LimitKind, LockUse, Role, ThreadFindings
from latlab.queues import analyse
from latlab.queues.judge.measures.series import _with_pools
from latlab.queues.judge.measures.threads import stage_times, told_threads
from latlab.queues.judge.ranking import rank
from latlab.queues.sample.load import _told_apart


def busy(*shares: float) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(3).normal(1.0, 0.01, (len(shares), 96))
    return np.array(shares)[:, None] * draws, np.ones((len(shares), 96))


def test_a_lead_within_what_the_times_may_be_wrong_by_names_nobody() -> None:
    work, per = busy(0.94, 0.90, 0.2)
    assert rank(work, per, loaded=True).named == 0
    close = rank(work, per, loaded=True, error=np.full(3, 0.04))
    assert (close.named, close.reason, close.close) == (None, "cannot tell", True)
    assert rank(*busy(0.94, 0.70, 0.2), loaded=True, error=np.full(3, 0.04)).named == 0


def test_stages_that_take_turns_are_told_apart_only_where_equal_ones_would_seldom_lead_so() -> None:
    # 40 events heavy for the one, then 40 for the other: 5.5 turns of the one, 4.5 of the other.
    turns = np.arange(96) // 9 % 2 == 0
    work = np.stack([np.where(turns, 0.98, 0.1), np.where(turns, 0.1, 0.98), np.full(96, 0.01)])
    found = rank(work, np.ones((3, 96)), loaded=True)
    assert found.lead > 0.05
    assert (found.named, found.reason) == (None, "cannot tell")


def queue(number: int, source: str, drain: str, capacity: int = 8, **more: Any) -> Queue:
    return Queue(
        number, f"q{number}", QueueKind.BOUNDED, capacity, source_name=source, drain_name=drain, **more
    )


def counts(*ends: int) -> np.ndarray:
    return np.array([[0, end] for end in ends])


def test_a_queue_that_another_filled_once_and_its_drain_gives_back_to_is_a_pool() -> None:
    made = [queue(0, "main", "handler", 30), queue(1, "main + handler", "handler", 2)]
    found = _with_pools(made, counts(1000, 1002), counts(1000, 1000))
    assert [one.kind for one in found] == [QueueKind.BOUNDED, QueueKind.POOL]
    assert found[1].source == "handler"


def test_a_queue_of_what_is_tried_again_is_no_pool() -> None:
    alone = [queue(0, "main + fetch", "fetch", 0)]
    assert _with_pools(alone, counts(1200), counts(1200))[0].kind == QueueKind.BOUNDED
    beside = [queue(0, "main + fetch", "fetch", 0), queue(1, "main", "fetch")]
    assert _with_pools(beside, counts(300, 1000), counts(300, 1000))[0].kind == QueueKind.BOUNDED


def test_what_a_stage_waits_for_in_two_files_of_its_process_is_no_work() -> None:
    seconds = np.arange(0, 11) * 10**9
    observation = replace(
        line(2),
        processes=(Process(0, 7, 1, "app"), Process(1, 7, 1, "app", 1)),
        stages=(Stage(0, "", "price", process=0), Stage(1, "", "price", process=1)),
        stage_times={
            "t_ns": np.tile(seconds, 2),
            "stage": np.repeat([0, 1], 11),
            # It waits for 30 % of the time at queues of the one file, for 50 % at those of the other.
            "busy_ns": np.concatenate([seconds * 0.7, seconds * 0.5]).astype(np.int64),
            "events": np.tile(np.arange(11) * 100, 2),
            "transitions": np.tile(np.arange(11) * 100, 2),
        },
    )
    told = stage_times(observation, np.array([0, 10 * 10**9]))
    assert told["price"] == pytest.approx([2.0])


def test_tasks_that_tell_times_and_no_events_are_each_a_worker_of_their_stage() -> None:
    seconds = np.arange(0, 11) * 10**9
    observation = replace(
        line(2),
        stages=tuple(Stage(number, "", "price") for number in range(3)),
        stage_times={
            "t_ns": np.tile(seconds, 3),
            "stage": np.repeat(np.arange(3), 11),
            "busy_ns": np.tile(seconds // 2, 3),
            "events": np.ones(33, np.int64),
            "transitions": np.tile(np.arange(11) * 100, 3),
        },
    )
    assert told_threads(observation) == {"price": 3}


def test_stages_of_one_name_in_two_applications_are_told_apart() -> None:
    queues = (
        queue(0, "main", "parse", processes=(0,)),
        queue(1, "main", "parse", processes=(1,)),
        queue(2, "other", "store", processes=(1,)),
    )
    stages = {0: Stage(0, "", "parse", process=0), 1: Stage(1, "", "parse", process=1)}
    processes = {0: Process(0, 7, 1, "app.py"), 1: Process(1, 9, 1, "app.py")}
    told, named = _told_apart(queues, stages, processes, {0, 1, 2})
    assert [one.drain for one in told] == ["parse (app.py 7)", "parse (app.py 9)", "store"]
    assert [one.name for one in told] == ["q0 (app.py 7)", "q1 (app.py 9)", "q2"]
    assert [one.label for one in named.values()] == ["parse (app.py 7)", "parse (app.py 9)"]


def test_each_of_the_stages_that_fill_one_queue_is_told_apart_by_its_application() -> None:
    queues = tuple(
        queue(4 * app + number, source, drain, processes=(app,))
        for app in (0, 1)
        for number, (source, drain) in enumerate(
            [("router", "eu"), ("router", "us"), ("eu + us", "reporter"), (f"only-{app}", "writer")]
        )
    )
    processes = {0: Process(0, 7, 1, "app.py"), 1: Process(1, 9, 1, "app.py")}
    told, _ = _told_apart(queues, {}, processes, set(range(8)))
    assert told[2].sources == ("eu (app.py 7)", "us (app.py 7)")
    assert told[6].sources == ("eu (app.py 9)", "us (app.py 9)")
    assert (told[3].source, told[7].source) == ("only-0", "only-1")


@pytest.mark.parametrize("moved", [{0}, {0, 1}])
def test_processes_that_share_a_queue_are_one_application(moved: set[int]) -> None:
    queues = (queue(0, "main", "parse", processes=(0, 1)), queue(1, "main", "parse", processes=(1,)))
    processes = {0: Process(0, 7, 1, "app.py"), 1: Process(1, 9, 1, "app.py")}
    assert _told_apart(queues, {}, processes, moved)[0] == queues


def test_a_line_that_ended_before_another_is_judged_by_its_own_time() -> None:
    observation = both(line(2, load=1.5), line(1, load=1.5))
    sweeps = observation.sweeps["t_ns"]
    half = int(sweeps[len(sweeps) // 2])
    queues = tuple(
        replace(one, retired_ns=half) if number < len(observation.queues) // 2 else one
        for number, one in enumerate(observation.queues)
    )
    found = analyse(replace(observation, queues=queues))
    short, long = sorted(found.lines, key=lambda one: one.to_ns)
    assert (short.verdict, short.limiting_stage) == (Verdict.STAGE, "stage-2")
    assert short.to_ns <= half < long.to_ns


GIL = LockUse("GIL", 0, 2000, 5 * 10**9, 10**7, 0.9, ("parse", "store"), ("parse", "store"))
LIMIT = Limit(LimitKind.LOCK, "GIL", 1.0, 0.9, "Bottleneck: the interpreter lock (GIL).", ("it is held",))


def threads(*roles: Role) -> ThreadFindings:
    return ThreadFindings(LIMIT, roles, (), (GIL,), {}, 5.0, 1000, "bpf", 0.0)


def role(name: str, running: float, limits: float, **blocked: float) -> Role:
    return Role(name, 1, (7,), running, 0.0, blocked, running, limits)


def answer(verdict: Verdict, stage: str | None) -> Answer:
    return Answer("python app.py", "No bottleneck.", stage, verdict, 1.0, (), (), (), ())


def test_who_waits_for_the_interpreters_lock_leaves_the_name_to_who_needs_it_most() -> None:
    seen = threads(role("parse", 0.93, 0.93), role("store", 0.02, 0.03, futex=0.84))
    told = by_interpreter_lock(answer(Verdict.STAGE, "store"), seen)
    assert told is not None
    assert (told.limiting_stage, told.verdict) == ("parse", Verdict.STAGE)
    assert "store is as busy by its queues, and waits for that lock" in told.sentence


def test_a_stage_that_runs_for_what_it_needs_stays_named_beside_the_lock() -> None:
    seen = threads(role("parse", 0.93, 0.93), role("store", 0.02, 0.03, futex=0.84))
    assert by_interpreter_lock(answer(Verdict.STAGE, "parse"), seen) is None


def test_who_needs_the_lock_for_itself_alone_limits_by_what_it_computes() -> None:
    # One process of a line: its feeder waits for the lock for long, and has next to nothing to do with it.
    seen = threads(role("parse", 0.93, 0.93), role("feeder", 0.02, 0.03, futex=0.84))
    lock = replace(GIL, waiters=("parse", "feeder"), holders=("parse", "feeder"))
    computes = replace(LIMIT, kind=LimitKind.PROCESS, name="parse", sentence="Bottleneck: parse.")
    told = by_interpreter_lock(answer(Verdict.NONE, None), replace(seen, locks=(lock,), limit=computes))
    assert told is not None
    assert (told.limiting_stage, told.sentence) == ("parse", "Bottleneck: parse.")


def test_where_all_need_the_lock_alike_the_lock_is_told() -> None:
    seen = threads(role("parse", 0.4, 0.5, futex=0.55), role("store", 0.4, 0.4, futex=0.55))
    told = by_interpreter_lock(answer(Verdict.STAGE, "store"), seen)
    assert told is not None
    assert (told.limiting_stage, told.verdict) == ("GIL", "lock")
    unsure = replace(seen, limit=replace(LIMIT, confidence=0.5))
    told = by_interpreter_lock(answer(Verdict.STAGE, "store"), unsure)
    assert told is not None
    assert (told.limiting_stage, told.verdict, told.trustworthy) == (None, Verdict.UNKNOWN, False)


def test_an_interpreters_lock_that_nobody_runs_under_is_not_told() -> None:
    idle = threads(role("source", 0.01, 0.7), role("store", 0.02, 0.01, pipe=0.6))
    assert joined(answer(Verdict.NONE, None), idle).verdict == Verdict.NONE
    busy = threads(role("parse", 0.45, 0.5, futex=0.5), role("store", 0.4, 0.4, futex=0.55))
    assert joined(answer(Verdict.NONE, None), busy).limiting_stage == "GIL"


def test_a_stage_that_had_no_cpu_is_not_told_as_stopped() -> None:
    stopped = answer(Verdict.STOPPED, "pair")
    kept = replace(threads(replace(role("pair", 0.01, 0.2), runnable=0.5)), locks=())
    told = joined(stopped, kept)
    assert (told.limiting_stage, told.verdict, told.trustworthy) == (None, Verdict.UNKNOWN, False)
    assert joined(stopped, threads(role("pair", 0.01, 0.2))).verdict == Verdict.STOPPED
