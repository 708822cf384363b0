"""One answer of what queues and threads tell, on findings that are made by hand.

Over 400 lines: a test of each way in which queues and threads agree, or contradict each other.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.lab.diagnosis.applications.thread_capture import _labels
from latlab.lab.diagnosis.joined import contested, joined, waiting_for_feeders
from latlab.lab.diagnosis.lines import sentence_of
from latlab.model.diagnosis.answer import Answer, AnswerLine
from latlab.model.evidence.pipeline import RunDoubt
from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Analysis, Doubt, DoubtKind, StageResult, Verdict
from latlab.model.queues.observation import Observation, Queue, QueueKind
from latlab.model.threads import Code, Edge, Limit, LimitKind, LockUse, Role, ThreadFindings
from latlab.queues.judge.sentences import stopped_sentence
from latlab.queues.judge.stopped import Stopped

SLEEP = Limit(LimitKind.TIMER, "loader", 0.99, 0.8, "Bottleneck: the sleeps of loader.", ("it slept 80 %",))


def answer(verdict: str, *doubts: Doubt, stage: str | None = None) -> Answer:
    return Answer("python app.py", "No bottleneck.", stage, verdict, 0.0, (), (), (), (), doubts=doubts)


def findings(limit: Limit = SLEEP, *distrust: str) -> ThreadFindings:
    return ThreadFindings(limit, (), (), (), {}, 5.0, 1000, "bpf", 0.0, distrust)


def test_where_the_queues_name_nothing_the_threads_limit_is_the_answer() -> None:
    told = joined(answer(Verdict.NONE), findings())
    assert (told.limiting_stage, told.verdict, told.confidence) == ("loader", "timer", 0.99)
    assert told.sentence == SLEEP.sentence
    assert told.evidence[-1] == "its queues alone do not tell: No bottleneck."
    assert told.to_json()["limit"]["kind"] == "timer"


@pytest.mark.parametrize(
    ("progress", "edges", "verdict"),
    [
        ({"book: run": 0.5, "main: runnable": 0.3}, (), Verdict.UNKNOWN),
        ({"book: run": 0.3, "outside": 0.7}, (), Verdict.NONE),
        ({"book: timer": 0.9}, (Edge("main", "book", "futex", 9.0, 0.1),), Verdict.UNKNOWN),
        ({"main: timer": 0.9}, (Edge("main", "book", "futex", 9.0, 0.1),), Verdict.NONE),  # it paces the load
    ],
)
def test_a_program_whose_own_threads_take_the_time_does_not_wait_for_load(
    progress: dict[str, float], edges: tuple[Edge, ...], verdict: Verdict
) -> None:
    unsure = replace(SLEEP, kind=LimitKind.UNKNOWN, confidence=0.3)
    roles = (role("book", 0.3, 7, futex=0.3), role("main", 0.1, 7))
    threads = replace(findings(unsure), progress=progress, edges=edges, roles=roles)
    assert joined(answer(Verdict.NONE), threads).verdict == verdict


def test_a_stage_that_the_queues_name_stays() -> None:
    told = joined(answer(Verdict.STAGE, stage="book"), findings())
    assert (told.limiting_stage, told.verdict) == ("book", Verdict.STAGE)
    assert told.threads is not None
    assert told.to_json()["limit"]["name"] == "book"


def worker(name: str, busy: float) -> Role:
    return Role(name, 1, (7,), busy, 0.0, {"futex": 1 - busy}, 1.0, 0.5, threads=(1,))


def test_a_stage_whose_threads_had_far_less_work_than_another_one_leaves_the_name_to_that() -> None:
    limit = replace(SLEEP, kind=LimitKind.THREAD, name="glaze", sentence="Bottleneck: glaze.")
    threads = replace(findings(limit), roles=(worker("glaze", 0.9), worker("shape", 0.35)))
    told = joined(answer(Verdict.STAGE, stage="shape"), threads)
    assert (told.limiting_stage, told.sentence) == ("glaze", "Bottleneck: glaze.")
    threads = replace(threads, roles=(worker("glaze", 0.9), worker("shape", 0.7)))
    assert joined(answer(Verdict.STAGE, stage="shape"), threads).limiting_stage == "shape"


def test_a_stage_that_has_ended_does_not_pace_itself() -> None:
    asleep = replace(worker("taster", 0.02), blocked={"timer": 0.98})
    assert asleep.asleep
    told = joined(answer(Verdict.STOPPED, stage="taster"), replace(findings(), roles=(asleep,)))
    assert "sleeps" not in told.sentence
    assert told.to_json()["limit"]["kind"] == "thread"


@pytest.mark.parametrize(
    "threads",
    [
        findings(replace(SLEEP, confidence=0.94)),
        findings(replace(SLEEP, kind=LimitKind.UNKNOWN)),
        findings(replace(SLEEP, kind=LimitKind.LOAD)),
        findings(SLEEP, "40 % of its time was not seen"),
    ],
)
def test_threads_that_are_not_sure_name_nothing_either(threads: ThreadFindings) -> None:
    assert joined(answer(Verdict.UNKNOWN), threads).limiting_stage is None


def test_counts_that_contradict_each_other_stay_a_contradiction() -> None:
    doubt = Doubt(DoubtKind.MORE_OUT_THAN_IN, "book", value=7)
    told = joined(answer(Verdict.UNKNOWN, doubt), findings())
    assert (told.limiting_stage, told.doubts, told.trustworthy) == (None, (doubt,), False)


def test_a_doubt_that_threads_can_settle_is_settled() -> None:
    told = joined(answer(Verdict.UNKNOWN, Doubt(DoubtKind.BUSY_LOOP, "main", value=1.0)), findings())
    assert (told.limiting_stage, told.trustworthy) == ("loader", True)


def test_a_lock_is_named_though_some_of_those_who_wait_for_it_came_late() -> None:
    late = Doubt(DoubtKind.CAME_LATE, "ore", "stamp", 0.06)
    lock = replace(SLEEP, kind=LimitKind.LOCK, name="lock 0x40 in sell")
    assert joined(answer(Verdict.UNKNOWN, late), findings(lock)).limiting_stage == lock.name
    assert joined(answer(Verdict.UNKNOWN, late), findings()).limiting_stage is None


@pytest.mark.parametrize(("name", "verdict"), [("left, right", "cannot tell"), ("left, main", "timer")])
def test_the_sleeps_of_stages_that_the_queues_cannot_tell_apart_name_none(name: str, verdict: str) -> None:
    threads = findings(replace(SLEEP, name=name))
    told = joined(answer(Verdict.UNKNOWN), threads, contested=frozenset({"left", "right"}))
    assert told.verdict == verdict


def test_several_lines_of_which_one_has_a_name_stay() -> None:
    lines = (
        AnswerLine(("a",), "Bottleneck: a.", "a", Verdict.STAGE, 1.0, ()),
        AnswerLine(("b",), "No bottleneck.", None, Verdict.NONE, 1.0, ()),
    )
    assert joined(replace(answer(Verdict.UNKNOWN), lines=lines), findings()).lines == lines


def test_too_few_events_leave_it_to_the_threads_and_a_starved_sampler_to_nobody() -> None:
    few = replace(answer(Verdict.UNKNOWN), distrust=("60 events are too few to tell",))
    assert joined(few, findings()).limiting_stage == "loader"
    starved = ("the sampler was starved",)
    assert (
        joined(replace(answer(Verdict.UNKNOWN), distrust=starved), findings(), starved).limiting_stage is None
    )
    status = (said(RunDoubt.ENDED, status=1),)
    ended = joined(replace(answer(Verdict.UNKNOWN), distrust=status), findings(), status)
    assert (ended.limiting_stage, ended.distrust) == ("loader", status)


def role(name: str, running: float, pid: int, **blocked: float) -> Role:
    code = (Code("fetch", "app.py", 12, 1.0),)
    return Role(name, 1, (pid,), running, 0.0, blocked, running, 0.9, threads=(1,), code=code)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (role("book", 0.9, 7), "thread"),
        (role("book", 0.05, 7, timer=0.9), "timer"),
        (role("book", 0.9, 8), "process"),
    ],
)
def test_a_stage_that_the_queues_name_is_of_the_kind_that_its_threads_show(seen: Role, kind: str) -> None:
    threads = replace(findings(), roles=(seen,), root=7)
    told = joined(answer(Verdict.STAGE, stage="book"), threads)
    limit = told.to_json()["limit"]
    assert (limit["kind"], limit["name"], limit["code"][0]["function"]) == (kind, "book", "fetch")
    assert ("It sleeps 90.0 % of the time." in told.sentence) == (kind == "timer")


@pytest.mark.parametrize(
    ("name", "blocked", "told"), [("book", 0.5, "disk"), ("book", 0.1, "stage"), ("loader", 0.5, "stage")]
)
def test_a_stage_that_is_slow_since_the_disk_is_leaves_the_limit_to_the_disk(
    name: str, blocked: float, told: str
) -> None:
    disk = Limit(LimitKind.DISK, "/var/till.db", 0.99, 0.8, "Bottleneck: the disk (/var/till.db).")
    threads = replace(findings(disk), roles=(role(name, 0.3, 7, sync=blocked), role("book", 0.9, 7)), root=7)
    found = joined(answer(Verdict.STAGE, stage="book"), threads)
    assert found.verdict == told
    if told == "disk":
        assert found.evidence[-1] == "by its queues book limits, which waits for it 50.0 % of its time"


def test_a_lack_of_cpus_that_no_thread_felt_is_not_told() -> None:
    cpu = answer(Verdict.CPU)
    short = replace(
        findings(replace(SLEEP, kind=LimitKind.CPU, name="CPUs")), progress={"book: runnable": 0.4}
    )
    assert joined(cpu, short).verdict == Verdict.CPU
    enough = replace(findings(), progress={"book: run": 0.9, "book: runnable": 0.05})
    assert joined(cpu, enough).limiting_stage == "loader"
    unsure = replace(enough, limit=replace(SLEEP, kind=LimitKind.UNKNOWN))
    told = joined(cpu, unsure)
    assert (told.verdict, told.trustworthy) == (Verdict.UNKNOWN, False)
    assert "without one 5.0 % of the time" in told.sentence
    third = joined(cpu, replace(unsure, progress={"book: run": 0.65, "book: runnable": 0.35}))
    assert "CPUs were short for 35.0 % of the time" in third.sentence
    half = replace(unsure, progress={"book: run": 0.45, "book: runnable": 0.55})
    assert joined(cpu, half).verdict == Verdict.CPU


def test_a_lack_of_cpus_that_does_not_limit_by_the_threads_is_left_to_these() -> None:
    busy = replace(findings(), progress={"shrink: run": 0.7, "shrink: runnable": 0.25})
    assert joined(answer(Verdict.SCHEDULER), busy).limiting_stage == "loader"
    unsure = replace(busy, limit=replace(SLEEP, kind=LimitKind.UNKNOWN))
    assert joined(answer(Verdict.SCHEDULER), unsure).limiting_stage is None


@pytest.mark.parametrize(
    ("name", "held", "told"), [("lock 0x1", 10.0, True), ("lock 0x1", 2.0, False), ("GIL", 10.0, False)]
)
def test_a_stage_whose_threads_keep_a_lock_from_one_another_is_told_with_it(
    name: str, held: float, told: bool
) -> None:
    workers = Role("handle", 4, (1,), 0.01, 0.0, {"futex": 0.65}, 0.3, 0.9)
    lock = LockUse(name, 1, 1000, int(held * 1e9), 20_000_000, 0.9, ("handle",), ("handle", "main"))
    threads = replace(findings(), roles=(workers,), locks=(lock,))
    sentence = joined(answer(Verdict.STAGE, stage="handle"), threads).sentence
    assert ("wait for one another's lock 0x1" in sentence) == told
    assert ("50.0 % of the time" in sentence) == told


@pytest.mark.parametrize(
    ("share", "holders", "kind"),
    [(0.8, ("clerk",), "lock"), (0.3, ("clerk",), Verdict.STAGE), (0.8, ("main",), Verdict.STAGE)],
)
def test_a_stage_whose_threads_keep_from_one_another_what_limits_is_limited_by_that_lock(
    share: float, holders: tuple[str, ...], kind: str
) -> None:
    limit = Limit(LimitKind.LOCK, "lock 0x1 in print_page", 0.99, share, "Bottleneck: the lock.", ())
    clerks = Role("clerk", 4, (1,), 0.24, 0.22, {"futex": 0.53}, 0.5, 0.97)
    lock = LockUse(limit.name, 1, 9000, 9_000_000_000, 8_000_000, share, ("clerk",), holders)
    threads = replace(findings(limit), roles=(clerks,), locks=(lock,))
    told = joined(answer(Verdict.STAGE, stage="clerk"), threads)
    assert (told.verdict, told.limiting_stage) == (kind, limit.name if kind == "lock" else "clerk")


def test_stages_that_queues_can_not_tell_apart_are_not_told_apart_by_threads() -> None:
    told = joined(answer(Verdict.UNKNOWN), findings(), (), frozenset(("loader", "parse")))
    assert (told.limiting_stage, told.verdict) == (None, Verdict.UNKNOWN)
    assert joined(answer(Verdict.UNKNOWN), findings(), (), frozenset(("parse",))).limiting_stage == "loader"


def test_a_stage_that_waited_for_others_beside_its_queues_is_not_as_busy_as_they_say() -> None:
    stages = tuple(
        StageResult(name, (), (), 0.98, 0.0, 0.0, busy, 1e6, 200.0)
        for name, busy in (("decode", 0.98), ("translate", 0.97))
    )
    found = Analysis(None, Verdict.UNKNOWN, 0.0, (), (), (), stages, 0, 5 * 10**9)
    observation = Observation((), (), (), {}, {}, {}, {})
    roles = (role("decode", 0.01, 7, timer=0.65, futex=0.31), role("translate", 0.01, 7, timer=0.95))
    threads = replace(findings(), roles=roles)
    assert contested(found, observation, threads) == {"decode", "translate"}
    waits = (Edge("dedup", "decode", "futex", 200.0, 0.31),)
    assert contested(found, observation, replace(threads, edges=waits)) == frozenset()


def test_of_several_lines_each_says_of_its_own_stage_that_it_sleeps() -> None:
    lines = tuple(
        AnswerLine((name,), f"Bottleneck: {name}.", name, Verdict.STAGE, 1.0, ()) for name in ("a", "b")
    )
    asleep = role("a", 0.01, 7, timer=0.95)
    told = joined(
        replace(answer(Verdict.STAGE, stage="a"), lines=lines), replace(findings(), roles=(asleep,))
    )
    assert told.lines[0].sentence.startswith("Bottleneck: a. It sleeps")
    assert told.lines[1].sentence == "Bottleneck: b."


def test_a_stage_that_is_kept_from_running_is_short_of_cpus() -> None:
    limit = answer(Verdict.SCHEDULER, stage="presser").to_json()["limit"]
    assert (limit["kind"], limit["name"]) == ("cpu", "CPUs")


def test_a_disk_that_the_threads_wait_for_stays_before_a_queue_that_overflows_at_times() -> None:
    disk = replace(SLEEP, kind=LimitKind.DISK, name="disk")
    assert joined(answer(Verdict.BURST), findings(disk)).limiting_stage == "disk"
    assert joined(answer(Verdict.BURST), findings()).verdict == Verdict.BURST


@pytest.mark.parametrize(
    ("full", "share", "dropped", "named"),
    [(0.02, 0.9, (), "loader"), (0.3, 0.9, (), None), (0.02, 0.6, (), None), (0.02, 0.9, ("ore",), None)],
)
def test_a_queue_that_was_full_in_passing_says_nothing_against_what_nearly_all_progress_waited_for(
    full: float, share: float, dropped: tuple[str, ...], named: str | None
) -> None:
    threads = findings(replace(SLEEP, share=share))
    late = Doubt(DoubtKind.CAME_LATE, "ore", "stamp", 0.06)
    for seen in (answer(Verdict.BURST), answer(Verdict.UNKNOWN, late)):
        told = joined(replace(seen, losses=dropped), threads, overfull=full)
        assert told.limiting_stage == named


def test_what_the_queues_could_not_tell_is_no_evidence_for_what_the_threads_name() -> None:
    assert joined(answer(Verdict.UNKNOWN), findings()).evidence == SLEEP.evidence


def test_an_executor_that_limits_nothing_is_not_told_beside_the_line_that_waits_for_it() -> None:
    parse = AnswerLine(("parse", "save"), "Bottleneck: parse.", "parse", Verdict.STAGE, 1.0, ())
    calls = AnswerLine(("parse_page",), "No stage limits.", None, Verdict.NONE, 1.0, (), aside=True)
    assert sentence_of((parse, calls)) == "Bottleneck: parse."
    slow = replace(
        calls, sentence="Bottleneck: parse_page.", limiting_stage="parse_page", verdict=Verdict.STAGE
    )
    assert "parse_page: Bottleneck: parse_page." in sentence_of((parse, slow))
    assert "calls: No stage limits." in sentence_of((parse, replace(calls, stages=("calls",), aside=False)))


MANAGER = Role("manager", 1, (7,), 0.04, 0.22, {"poll": 0.7}, 0.3, 0.03, "app.py")


@pytest.mark.parametrize(("kind", "named"), [("poll", "hash_block"), ("lock", "manager")])
def test_a_stage_whose_thread_mostly_waits_for_others_is_not_named_for_its_queues(
    kind: str, named: str
) -> None:
    limit = Limit(LimitKind.PROCESS, "hash_block", 0.99, 0.8, "Bottleneck: hash_block.", ())
    waits = Edge("hash_block", "manager", kind, 200.0, 0.7)
    threads = replace(findings(limit), roles=(MANAGER,), edges=(waits,))
    told = joined(answer(Verdict.STAGE, stage="manager"), threads)
    assert told.limiting_stage == named
    unsure = joined(
        answer(Verdict.STAGE, stage="manager"), replace(threads, limit=replace(limit, confidence=0.5))
    )
    assert unsure.limiting_stage == (None if kind == "poll" else "manager")


@pytest.mark.parametrize(
    ("busy", "feeder", "waits", "named"),
    [
        (1.0, "tiny", 0.5, False),
        (0.7, "tiny", 0.5, True),
        (1.0, "tiny", 0.2, True),
        (1.0, "database", 0.5, True),  # what it asks for is its service
    ],
)
def test_a_stage_that_its_queues_have_busy_while_its_thread_waits_for_who_feeds_it_is_not_named(
    busy: float, feeder: str, waits: float, named: bool
) -> None:
    # As of a pool's thread that has results late, since another one has the interpreter's lock.
    stage = StageResult("manager", ("results",), (), 0.98, 0.0, 0.0, busy, 1e6, 200.0)
    found = Analysis("manager", Verdict.STAGE, 1.0, (), (), (), (stage,), 0, 5 * 10**9)
    results = Queue(0, "results", QueueKind.BOUNDED, 8, source_name="tiny", drain_name="manager")
    observation = Observation((results,), (), (), {}, {}, {}, {})
    threads = replace(findings(), roles=(MANAGER,), edges=(Edge(feeder, "manager", "pipe", 90.0, waits),))
    late = waiting_for_feeders(found, observation, threads)
    told = joined(answer(Verdict.STAGE, stage="manager"), threads, waiting=late)
    assert told.limiting_stage == ("manager" if named else "loader")


@pytest.mark.parametrize("named", [False, True])
def test_what_the_programs_do_that_a_stage_starts_is_its_work(named: bool) -> None:
    limit = Limit(LimitKind.PROCESS, "gzip", 0.99 if named else 0.5, 0.8, "Bottleneck: gzip.", ())
    edges = (Edge("gzip", "manager", "child", 90.0, 0.6), Edge("feed", "manager", "futex", 90.0, 0.1))
    threads = replace(findings(limit), roles=(MANAGER,), edges=edges)
    told = joined(answer(Verdict.STAGE, stage="manager"), threads)
    assert told.limiting_stage == ("gzip" if named else "manager")
    assert named or told.sentence.endswith("It waits for what it starts, gzip, 60.0 % of the time.")
    edges = (replace(edges[0], waiting=0.05), replace(edges[1], waiting=0.65))
    assert joined(answer(Verdict.STAGE, stage="manager"), replace(threads, edges=edges)).limiting_stage == (
        "gzip" if named else None
    )


@pytest.mark.parametrize("ended", [False, True])
def test_a_stage_whose_thread_has_ended_waits_for_no_cpu(ended: bool) -> None:
    told = stopped_sentence("manager", Stopped(0, 2_000_000_000, 10, ended), (0, 5_000_000_000))
    stopped = replace(answer(Verdict.STOPPED, stage="manager"), evidence=(told,))
    threads = replace(findings(), roles=(replace(MANAGER, runnable=0.4),))
    assert joined(stopped, threads).limiting_stage == ("manager" if ended else None)


def test_each_of_several_lines_is_withheld_where_its_stage_waits_for_others() -> None:
    lines = (
        AnswerLine(("feed", "manager"), "Bottleneck: manager.", "manager", Verdict.STAGE, 1.0, ()),
        AnswerLine(("book",), "Bottleneck: book.", "book", Verdict.STAGE, 1.0, ()),
    )
    threads = replace(findings(), roles=(MANAGER,), edges=(Edge("feed", "manager", "poll", 200.0, 0.7),))
    told = joined(replace(answer(Verdict.STAGE, stage="manager"), lines=lines), threads)
    assert [line.limiting_stage for line in told.lines] == [None, "book"]
    assert (told.limiting_stage, told.verdict, told.trustworthy) == (None, Verdict.UNKNOWN, False)
    assert "Bottleneck: book." in told.sentence
    assert "Bottleneck: manager." not in told.sentence


GIL = LockUse("GIL", 1, 2000, 4_000_000_000, 20_000_000, 0.6, ("manager",), ("manager", "main"))


def test_a_stage_that_waits_for_the_interpreter_lock_of_others_waits_for_others() -> None:
    limit = Limit(LimitKind.THREAD, "main", 0.99, 0.8, "Bottleneck: main.", ())
    edges = (Edge("main", "manager", "lock", 200.0, 0.5), Edge("hash", "manager", "pipe", 200.0, 0.2))
    threads = replace(findings(limit), roles=(MANAGER,), edges=edges, locks=(GIL,))
    assert joined(answer(Verdict.STAGE, stage="manager"), threads).limiting_stage == "main"
    other = replace(GIL, name="lock 0x1")
    told = joined(answer(Verdict.STAGE, stage="manager"), replace(threads, locks=(GIL, other)))
    assert told.limiting_stage == "manager"


def test_one_line_of_several_that_is_named_is_judged_by_the_interpreter_lock_too() -> None:
    lines = (
        AnswerLine(("manager",), "Bottleneck: manager.", "manager", Verdict.STAGE, 1.0, ()),
        AnswerLine(("idle",), "No bottleneck.", None, Verdict.NONE, 1.0, ()),
    )
    main = role("main", 0.8, 7)
    waits = replace(MANAGER, blocked={"futex": 0.6})
    threads = replace(findings(), roles=(main, waits), locks=(GIL,))
    told = joined(replace(answer(Verdict.STAGE, stage="manager"), lines=lines), threads)
    assert (told.limiting_stage, told.lines) == ("main", ())
    assert not any("alone do not tell" in one for one in told.evidence)
    unsure = replace(
        answer(Verdict.STAGE, stage="manager"), lines=lines, distrust=("the bottleneck is unknown",)
    )
    assert joined(unsure, threads).trustworthy


@pytest.mark.parametrize(("feeder", "named"), [("first", "loader"), ("loader", None)])
def test_threads_tell_who_limits_of_two_that_queues_can_not_tell_apart_if_each_has_its_own(
    feeder: str, named: str | None
) -> None:
    """As of coroutines: the loop's thread bears the name of one of them, and says nothing of either."""
    doubt = Doubt(DoubtKind.NEVER_BEHIND, "second", "first", 0.01)
    seen = replace(answer(Verdict.UNKNOWN), doubts=(doubt,))
    threads = replace(findings(), roles=(role(feeder, 0.1, 7), role("second", 0.1, 7)))
    assert joined(seen, threads).limiting_stage == named


@pytest.mark.parametrize(
    ("ran", "limits", "waits", "named"),
    [
        (0.935, 0.56, 0.43, "main"),  # as it folds what six downloads bring, of which each sleeps
        (0.6, 0.56, 0.43, "download"),  # has time left
        (0.9, 0.42, 0.46, "main"),  # also where more of the progress waits for them
        (0.935, 0.2, 0.43, "download"),  # isn't what the progress does
        (0.935, 0.56, 0.1, "download"),  # which hardly waits for it
    ],
)
def test_a_stage_that_sleeps_does_not_limit_a_thread_that_has_no_time_left(
    ran: float, limits: float, waits: float, named: str
) -> None:
    main = replace(role("main", ran, 7), limits=limits)
    sleeps = replace(role("download", 0.01, 7), count=6, limits=1 - limits)
    sleeps = replace(sleeps, blocked={"timer": 0.95 - waits, "futex": waits})
    lock = replace(GIL, share=0.44, waiters=("download", "main"), holders=("download", "main"))
    threads = replace(findings(), roles=(main, sleeps), locks=(lock,))
    assert joined(answer(Verdict.STAGE, stage="download"), threads).limiting_stage == named


@pytest.mark.parametrize(("busy", "named"), [(0.96, "worker"), (0.1, "sem")])
def test_a_pool_does_not_limit_a_thread_that_works_all_the_time(busy: float, named: str) -> None:
    limit = replace(SLEEP, kind=LimitKind.THREAD, name="worker", sentence="Bottleneck: worker.")
    threads = replace(findings(limit), roles=(worker("worker", busy),))
    assert joined(answer(Verdict.POOL, stage="sem"), threads).limiting_stage == named


def test_what_the_users_of_a_pool_do_stands_beside_how_long_they_wait_for_it() -> None:
    why = said(QueueEvidence.POOL_ALONE, pool="conns", empty=0.9, stage="handler", waits=0.6)
    seen = replace(answer(Verdict.POOL, stage="conns"), evidence=(why,))
    users = replace(worker("handler", 0.02), blocked={"futex": 0.6, "timer": 0.36}, count=8)
    told = joined(seen, replace(findings(), roles=(users,)))
    assert "8 × handler ran 2.0 % of the time" in told.evidence[1]
    assert "slept 36.0 %, and waited for others 62.0 %" in told.evidence[1]
    code = Code("query", "pool.py", 5, 0.9)
    told = replace(told, threads=replace(findings(), roles=(replace(users, code=(code,)),)))
    limit = told.to_json()["limit"]
    assert (limit["kind"], limit["name"], limit["code"][0]["function"]) == ("lock", "conns", "query")


def test_who_first_puts_into_a_queue_that_several_fill_is_not_called_by_all_of_them() -> None:
    alone = Queue(0, "out", QueueKind.BOUNDED, 8, source_name="http", drain_name="save", producer_tid=7)
    both = replace(alone, number=1, name="todo", source_name="main + http", producer_tid=3, consumer_tid=9)
    observation = Observation((alone, both), (), (), {}, {})
    assert _labels(observation, {}) == {7: "http", 9: "save"}
    assert _labels(observation, {"save": "saves", "other": "others"}) == {7: "http", 9: "saves"}
