"""Where the time of requests went, of schedules that were written by hand.

Over 400 lines: one builder of schedules, and a test of each kind of part.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.model import schedule as layouts
from latlab.model.evidence.requests import NoTail
from latlab.model.evidence.said import kind_of
from latlab.model.schedule import Frame, Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.reports.requests.sentence import finding
from latlab.requests.connections import NEVER, REQUEST, Found
from latlab.requests.faults import Faults
from latlab.requests.judging.answer import tail_answer
from latlab.requests.judging.summary import summarise
from latlab.requests.parts import Account
from latlab.requests.places import Places
from latlab.stats.censored import censored_quantiles

SERVER, WORKER = 11, 12


def interval(thread: int, state: State, begin: int, end: int, cpu: int = -1, wait: Wait = Wait.NONE) -> Any:
    return (thread, state, wait, Source.UNKNOWN, cpu, begin, end, -1, -1, -1)


def schedule(intervals: list[Any], foreign: list[Any] = [], ended: int = 1_000) -> Schedule:  # noqa: B006
    threads = tuple(ScheduledThread(tid, 10, name, "server", 0, ended) for tid, name in
                    ((SERVER, "server"), (WORKER, "worker")))  # fmt: skip
    rows = np.array(sorted(intervals, key=lambda one: (one[0], one[5])), layouts.INTERVAL)
    return Schedule(
        0, ended, (0, 1), threads, rows, np.zeros(0, layouts.WAKE),
        np.array(foreign, layouts.FOREIGN),
        Losses("bpf"), foreign_names={77: "bystander", 78: "neighbour"},
    )  # fmt: skip


def request(arrived: int, read: int, sent: int, reader: int = SERVER, kind: int = 0) -> Any:
    return (arrived, read, sent, sent, reader, reader, 0, kind, 1, 1, 1, 0)


def spent(intervals: list[Any], foreign: list[Any], *requests: Any) -> dict[Any, float]:
    rows = np.array(list(requests), REQUEST)
    return Account(schedule(intervals, foreign), rows, ("GET", "KEYS")).of(0)


def test_who_had_the_cpu_is_who_ran_on_the_cpu_that_was_waited_for() -> None:
    waiting = [interval(0, State.RUNNABLE, 100, 200, cpu=1)]
    foreign = [(0, 100, 200, 77), (1, 100, 200, 78)]
    assert spent(waiting, foreign, request(100, 100, 200)) == {("runnable", "neighbour had the CPU"): 100}


def test_each_stretch_of_a_wait_for_a_cpu_is_told_by_who_had_it_then_or_that_nobody_had() -> None:
    waiting = [interval(0, State.RUNNABLE, 100, 200, cpu=1), interval(1, State.RUNNING, 130, 150, cpu=1)]
    foreign = [(0, 100, 200, 77), (1, 90, 125, 77), (1, 150, 180, 78)]
    assert spent(waiting, foreign, request(100, 100, 200)) == {
        ("runnable", "bystander had the CPU"): 25,
        ("runnable", "worker had the CPU"): 20,
        ("runnable", "neighbour had the CPU"): 30,
        ("runnable", "no thread had the CPU"): 25,
    }


def test_a_thread_of_the_program_itself_may_have_had_the_cpu() -> None:
    rows = [interval(0, State.RUNNABLE, 100, 200, cpu=1), interval(1, State.RUNNING, 90, 200, cpu=1)]
    assert spent(rows, [(0, 100, 200, 77)], request(100, 100, 200)) == {
        ("runnable", "worker had the CPU"): 100
    }


def test_a_thread_of_the_program_that_had_the_cpu_is_told_with_its_function_and_a_client_by_its_name() -> (
    None
):
    rows = [interval(0, State.RUNNABLE, 100, 200, cpu=1), interval(1, State.RUNNING, 90, 200, cpu=1)]
    seen = replace(
        schedule(rows), samples=np.array([(150, 1, 1, 0)], layouts.SAMPLE), stacks=((0,),),
        frames=(Frame("spin", "server.c"),),
    )  # fmt: skip
    table = np.array([request(100, 100, 200)], REQUEST)
    assert Account(seen, table, ("GET",)).of(0) == {("runnable", "worker in spin had the CPU"): 100}
    asks = Account(seen, table, ("GET",), clients=frozenset({WORKER}))
    assert asks.of(0) == {("runnable", "worker, which asks it, had the CPU"): 100}


def test_another_program_of_the_same_name_that_had_the_cpu_is_told_from_this_one() -> None:
    waiting = [interval(0, State.RUNNABLE, 100, 200, cpu=1)]
    seen = replace(schedule(waiting, [(1, 90, 210, 77)]), foreign_names={77: "server"})
    table = np.array([request(100, 100, 200)], REQUEST)
    assert Account(seen, table, ("GET",)).of(0) == {("runnable", "another server had the CPU"): 100}
    asks = Account(seen, table, ("GET",), clients=frozenset({77}))
    assert asks.of(0) == {("runnable", "another server, which asks it, had the CPU"): 100}


def test_nobody_is_named_where_the_cpu_that_was_waited_for_is_not_known() -> None:
    waiting = [interval(0, State.RUNNABLE, 100, 200, cpu=-1)]
    assert spent(waiting, [(0, 100, 200, 77)], request(100, 100, 200)) == {("runnable", ""): 100}


def test_a_request_in_the_queue_waits_for_the_one_that_its_reader_works_on() -> None:
    rows = [interval(0, State.RUNNING, 0, 300, cpu=0)]
    found = spent(rows, [], request(100, 210, 260), request(50, 90, 200, kind=1))
    assert found == {
        ("receive-queue", "server was busy with KEYS"): 100,
        ("receive-queue", "server was busy"): 10,
        ("running", "server"): 50,
    }


def test_who_waits_for_a_thread_to_be_made_waits_for_what_keeps_its_maker_from_that() -> None:
    rows = [
        interval(0, State.BLOCKED, 0, 120, wait=Wait.SOCKET),
        interval(0, State.RUNNABLE, 120, 500, cpu=1),
        interval(0, State.RUNNING, 500, 600, cpu=1),
        interval(1, State.RUNNING, 600, 700, cpu=0),
    ]
    seen = schedule(rows, [(1, 100, 500, 78)])
    made = replace(seen.threads[1], began_ns=600, parent=0)
    seen = replace(seen, threads=(seen.threads[0], made))
    asked = np.array([request(100, 650, 700, reader=WORKER)], REQUEST)
    assert Account(seen, asked, ("GET",)).of(0) == {
        ("thread", "worker, which was being started"): 120,
        ("runnable", "neighbour had the CPU"): 380,
        ("receive-queue", "worker was busy"): 50,
        ("running", "worker"): 50,
    }


EARLIER = "earlier requests of the same connection"


def batch(lengths: list[int]) -> Any:
    """One thread reads all at 0, works on each in turn, and answers each."""
    ends = np.cumsum(lengths).tolist()
    return np.array([request(0, at, end) for at, end in enumerate(ends)], REQUEST), ends


def test_a_request_that_was_read_waits_while_its_thread_works_on_the_others_that_it_has_read() -> None:
    rows, ends = batch([100, 100, 100])
    seen = schedule([interval(0, State.RUNNING, 0, 300, cpu=0)])
    assert Account(seen, rows, ("GET",)).of(2) == {
        ("receive-queue", f"server was busy with {EARLIER}"): 2,
        ("thread", f"server was busy with {EARLIER}"): ends[1] - 2,
        ("running", "server"): 100,
    }


def test_who_waits_behind_one_is_late_by_what_that_does_and_who_waits_behind_many_by_their_number() -> None:
    seen = schedule([interval(0, State.RUNNING, 0, 900, cpu=0)])
    one, _ = batch([700, 50, 50, 50, 50])
    assert Account(seen, one, ("GET",)).causes(4) == {("running", "server"): 900}
    many, _ = batch([180, 180, 180, 180, 180])
    many["connection"] = np.arange(5)
    assert Account(seen, many, ("GET",)).causes(4) == {
        ("thread", "server was busy with many that came before"): 720,
        ("running", "server"): 180,
    }
    alike, _ = batch([180, 180, 180])  # one that takes no longer than others is only one more
    alike["connection"] = np.arange(3)
    assert Account(seen, alike, ("GET",)).causes(2) == {
        ("thread", "server was busy with many that came before"): 360,
        ("running", "server"): 180,
    }


def test_who_waits_for_a_cpu_that_other_requests_of_the_program_have_is_late_by_their_number() -> None:
    rows = [interval(0, State.RUNNING, 100, 820, cpu=0), interval(1, State.RUNNABLE, 100, 820, cpu=0)]
    seen = schedule([*rows, interval(1, State.RUNNING, 820, 1_000, cpu=0)])
    others = [request(at, at, at + 179) for at in (100, 280, 460, 640)]
    table = np.array([*others, request(100, 100, 1_000, reader=WORKER)], REQUEST)
    table["connection"] = np.arange(5)
    account = Account(seen, table, ("GET",))
    assert account.of(4) == {("runnable", "server had the CPU"): 720, ("running", "worker"): 180}
    crowd = "its threads had the CPUs for many other requests"
    assert account.causes(4) == {
        ("thread", crowd): 716, ("runnable", "server had the CPU"): 4, ("running", "worker"): 180,
    }  # fmt: skip
    assert account.ahead == {4: 4}
    # Preempted in the middle it is the same; but who computes for long is late by that.
    begins, ends = (
        interval(1, State.RUNNING, since, until, cpu=0) for since, until in ((90, 100), (820, 1_000))
    )
    assert Account(schedule([*rows, begins, ends]), table, ("GET",)).causes(4) == account.causes(4)
    computes = [interval(1, State.RUNNING, since, until, cpu=0) for since, until in ((90, 100), (820, 1_500))]
    table["sent"][4] = table["answered"][4] = 1_500
    found = Account(schedule([*rows, *computes], ended=1_500), table, ("GET",)).causes(4)
    assert found == {("running", "preempted meanwhile"): 720, ("running", "worker"): 680}
    table["sent"][4] = table["answered"][4] = 1_000
    # Of one that has it for long, and of work for no request, it is told who has it.
    table["sent"][0], alone = 820, np.array([table[0], table[4]])
    alone["answered"] = alone["sent"]
    assert Account(seen, alone, ("GET",)).causes(1)["runnable", "server had the CPU"] == 720
    assert Account(seen, table[4:], ("GET",)).causes(0)["runnable", "server had the CPU"] == 720


def test_a_burst_on_one_connection_is_told_as_such_by_the_name_of_the_part_that_it_waits_in() -> None:
    seen = schedule([interval(0, State.RUNNING, 0, 900, cpu=0)])
    burst, _ = batch([180, 180, 180, 180, 180])
    account = Account(seen, burst, ("GET",))
    found = account.causes(4)
    assert found == {
        ("thread", f"server was busy with {EARLIER}, which came in a burst"): 720, ("running", "server"): 180,
    }  # fmt: skip
    assert account.ahead == {4: 4}
    waits = {kind for kind, where in account.of(4) if where.startswith("server was busy")}
    assert waits == {"thread", "receive-queue"}  # each was read a little after the one before


def test_running_is_told_by_the_functions_that_were_sampled() -> None:
    samples = np.array([(150, 0, 1, 0), (180, 0, 1, 1)], layouts.SAMPLE)
    seen = replace(
        schedule([interval(0, State.RUNNING, 0, 300, cpu=0)]), samples=samples, stacks=((0, 1), (1,)),
        frames=(Frame("sort"), Frame("void serve(int)")),
    )  # fmt: skip
    rows = np.array([request(100, 100, 200)], REQUEST)
    assert Account(seen, rows, ("GET",)).of(0) == {
        ("running", "server in sort"): 50,
        ("running", "server in serve"): 50,
    }


def found(rows: list[Any], kinds: tuple[str, ...] = ("request",)) -> Found:
    return Found(np.array(rows, REQUEST), ("a",), kinds, {"direction": len(rows)})


IDLE = [interval(0, State.RUNNING, 0, 1_000, cpu=0), interval(1, State.BLOCKED, 0, 1_000)]


def test_a_request_without_answer_counts_as_at_least_so_long() -> None:
    rows = [request(at, at, at + 10) for at in range(99)] + [request(300, 300, NEVER)]
    told = summarise(found(rows), schedule(IDLE), 0)
    assert (told.requests, told.still_open, told.longest_open_ns) == (99, 1, 700)
    assert (told.p50_ns, told.p99_ns, told.max_ns, told.at_least) == (10, 10, 700, ("p999_ns", "max_ns"))
    assert (told.slowest[0].ns, told.slowest[0].still_open) == (700, True)


def test_of_goroutines_it_is_said_why_their_waits_are_not_seen_and_what_tells_them() -> None:
    rows = [request(at, at, at + (100 if at % 9 == 0 else 10)) for at in range(10, 900)]
    unseen = schedule([])
    assert kind_of(summarise(found(rows), unseen, 0).answer.withheld) is NoTail.NOT_SEEN
    go = replace(unseen, frames=(Frame("main.stock"), Frame("runtime.goexit.abi0")))
    assert kind_of(summarise(found(rows), go, 0).answer.withheld) is NoTail.GOROUTINES


@pytest.mark.parametrize(("apart", "withheld"), [(0, NoTail.GOROUTINES_TOGETHER), (5_000_000, None)])
def test_of_goroutines_that_end_together_a_timer_is_not_said_to_be_what_each_of_them_waits_for(
    apart: int, withheld: NoTail | None
) -> None:
    """One of them may sleep, with a lock that the others wait for."""
    ms, rows, intervals = 1_000_000, [], []
    for each in range(60):
        began = (each + 1) * 100 * ms
        for connection in range(6):
            rows.append(
                (began, began, began + 1_000, began + 1_000, SERVER, SERVER, connection, 0, 1, 1, 1, 0)
            )
        slept, ended = began + 10 * ms, began + 40 * ms
        intervals.append((0, State.BLOCKED, Wait.FUTEX, Source.TIMER, -1, slept, ended, -1, 0x40, -1))
        for connection in range(2):
            sent = ended + connection * apart
            rows.append((slept, slept, sent, sent, SERVER, SERVER, connection, 0, 1, 1, 1, 0))
    seen = schedule(intervals, ended=7_000 * ms)
    go = replace(seen, frames=(Frame("main.stock"), Frame("runtime.goexit.abi0")))
    asked = Found(np.array(sorted(rows), REQUEST), tuple("abcdef"), ("request",), {"lines": len(rows)})
    told = summarise(asked, go, 0).answer
    assert (told.kind, kind_of(told.withheld) if told.withheld else None) == ("timer", withheld)
    assert not summarise(asked, seen, 0).answer.withheld


def test_what_comes_at_the_address_of_a_connection_whose_process_has_ended_is_not_waited_for() -> None:
    rows = [request(at, at, at + 10) for at in range(99)] + [request(600, NEVER, NEVER, reader=WORKER)]
    gone = schedule([interval(0, State.RUNNING, 0, 1_000), interval(1, State.RUNNING, 0, 500)])
    ended = replace(gone.threads[1], pid=20, ended=True, ended_ns=500)
    assert summarise(found(rows), gone, 0).still_open == 1
    gone = replace(gone, threads=(gone.threads[0], ended))
    assert summarise(found(rows), gone, 0).still_open == 0
    # Another thread of its process may read it yet.
    shared = replace(gone, threads=(gone.threads[0], replace(ended, pid=gone.threads[0].pid)))
    assert summarise(found(rows), shared, 0).still_open == 1


def test_a_function_that_several_call_is_told_by_whom_and_one_that_one_calls_by_itself() -> None:
    frames = tuple(
        Frame(name, module="/bin/server") for name in ("steps", "compact", "apply", "parse", "serve")
    )
    stacks = ((0, 1, 4), (0, 2, 4), (3, 4))
    samples = np.array([(at, 0, 1, at % 3) for at in range(9)], layouts.SAMPLE)
    places = Places(replace(schedule(IDLE), samples=samples, stacks=stacks, frames=frames), [0])
    told = [places.function(stack) for stack in range(3)]
    assert told == ["steps, called by compact", "steps, called by apply", "parse"]


def test_a_program_that_only_asks_is_told_from_one_that_nobody_asks() -> None:
    asks = replace(found([]), asked={SERVER: (np.array([5]), np.array([-1]))})
    assert "observe the process that answers" in finding(summarise(asks, schedule(IDLE), 0))
    assert "received none" in finding(summarise(found([]), schedule(IDLE), 0))


def test_kinds_beyond_fifty_are_pooled_with_their_number() -> None:
    rows = [request(at, at, at + 10, kind=at % 80) for at in range(400)]
    told = summarise(found(rows, tuple(f"k{number}" for number in range(80))), schedule(IDLE), 0)
    assert (len(told.kinds), told.kinds[-1].name, told.pooled_kinds) == (50, "other", 31)
    assert sum(kind.count for kind in told.kinds) == 400


@pytest.mark.parametrize(
    ("values", "still", "said"),
    [
        ([1, 2, 3, 4], [0, 0, 0, 0], [(2, False), (4, False)]),
        ([1, 2, 3, 9], [0, 0, 0, 1], [(2, False), (9, True)]),
        ([1, 1, 1, 9], [1, 1, 1, 0], [(9, False), (9, False)]),  # what was cut short early says little
        ([5, 5], [1, 1], [(5, True), (5, True)]),
    ],
)
def test_quantiles_allow_for_what_had_not_ended(values: list[int], still: list[int], said: Any) -> None:
    assert censored_quantiles(values, still, (0.5, 0.99)) == said


LOCK: Any = {("lock", "futex 0x10"): 900.0, ("running", "server"): 100.0}
USUAL: Any = {("running", "server"): 100.0}


def test_the_part_that_makes_slow_requests_longer_is_the_answer() -> None:
    said = tail_answer([LOCK] * 9 + [USUAL], [USUAL] * 50)
    assert (said.withheld, said.kind, said.where) == ("", "lock", "futex 0x10")
    assert (said.slow, said.of_slow, said.median, said.of_median) == (9, 10, 0, 50)


@pytest.mark.parametrize(
    ("tail", "median", "why"),
    [
        ([LOCK] * 3, [USUAL] * 50, "too few slow requests"),
        ([USUAL] * 10, [USUAL] * 50, "hardly longer"),
        ([LOCK] * 5 + [{("disk", "a"): 1000.0}] * 5, [USUAL] * 50, "no single part"),
        ([{("unexplained", ""): 1000.0}] * 10, [USUAL] * 50, "not seen"),
        ([LOCK] * 10, [LOCK] * 20 + [{("running", "server"): 10.0}] * 30, "median requests show the same"),
    ],
)
def test_an_answer_that_does_not_hold_is_withheld(tail: Any, median: Any, why: str) -> None:
    assert why in tail_answer(tail, median).withheld


def test_a_timeline_has_the_parts_in_their_order_and_who_woke_its_thread() -> None:
    made = replace(
        schedule([interval(0, State.RUNNING, 100, 130), interval(0, State.BLOCKED, 130, 190, wait=Wait.TIMER),
                  interval(0, State.RUNNING, 190, 200)]),
        wakes=np.array([(190, 1, 0, 0, 0), (500, 1, 0, 0, 0)], layouts.WAKE),
    )  # fmt: skip
    rows = np.array([request(100, 100, 200)], REQUEST)
    spans, wakes = Account(made, rows, ("GET",)).timeline(0)
    assert [(one.kind, one.from_ns, one.until_ns) for one in spans] == [
        ("running", 0, 30), ("timer", 30, 90), ("running", 90, 100),
    ]  # fmt: skip
    assert {one.thread for one in spans} == {"server 11"}
    assert [(one.at_ns, one.waker, one.thread) for one in wakes] == [(90, "worker 12", "server 11")]


def futex(begin: int, end: int, word: int, source: Source) -> Any:
    return (0, State.BLOCKED, Wait.FUTEX, source, -1, begin, end, -1, word, -1)


def test_a_lock_that_is_asked_for_again_after_a_time_out_is_waited_for() -> None:
    again = [futex(100, 150, 64, Source.TIMER), futex(160, 200, 68, Source.THREAD)]
    assert set(spent(again, [], request(100, 100, 200))) == {("lock", "futex 0x40"), ("lock", "futex 0x44"),
                                                             ("unexplained", "")}  # fmt: skip
    alone = [futex(100, 200, 64, Source.TIMER)]
    assert set(spent(alone, [], request(100, 100, 200))) == {("timer", "")}


def test_a_lock_of_a_file_is_a_lock_with_the_file_and_who_had_it() -> None:
    waits = [(0, State.BLOCKED, Wait.FILE_LOCK, Source.THREAD, -1, 100, 200, 1, 3, -1)]
    made = replace(schedule(waits), objects={3: "/srv/cards.index"})
    found = Account(made, np.array([request(100, 100, 200)], REQUEST), ("GET",)).of(0)
    assert found == {("lock", "file lock on /srv/cards.index, held by worker"): 100}


@pytest.mark.parametrize(
    ("wait", "source", "thing", "pid", "said"),
    [
        (Wait.DISK, Source.THREAD, 3, 10, ("lock", "a kernel lock of /srv/log, held by worker")),
        (Wait.DISK, Source.THREAD, -1, 10,
         ("lock", "a kernel lock, such as its memory's, held by worker")),
        (Wait.FAULT, Source.THREAD, -1, 10, ("lock", "a kernel lock of its memory, held by worker")),
        (Wait.DISK, Source.THREAD, -1, 20, ("process", "worker")),  # as vfork waits for its child's exec
        (Wait.DISK, Source.DISK, 3, 10, ("disk", "/srv/log")),
        (Wait.FAULT, Source.DISK, -1, 10, ("fault", "")),
        (Wait.SYNC, Source.THREAD, 3, 10, ("disk", "fsync")),
    ],
)  # fmt: skip
def test_an_uninterruptible_wait_that_a_thread_of_the_program_ends_is_not_the_disks(
    wait: Wait, source: Source, thing: int, pid: int, said: Any
) -> None:
    waits = [(0, State.BLOCKED, wait, source, -1, 100, 200, 1 if source == Source.THREAD else -1, thing, -1)]
    seen = replace(schedule(waits), objects={3: "/srv/log"})
    seen = replace(seen, threads=(seen.threads[0], replace(seen.threads[1], pid=pid)))
    assert Account(seen, np.array([request(100, 100, 200)], REQUEST), ("GET",)).of(0) == {said: 100}


def test_pages_that_a_running_thread_touches_first_are_a_part_at_their_usual_price() -> None:
    rows = np.array([request(100, 100, 200)], REQUEST)
    running = schedule([interval(0, State.RUNNING, 100, 200)])
    many = Faults({SERVER: np.arange(100, 200, 10)}, cost_ns=7.0)
    place = "pages that were touched for the first time"
    assert Account(running, rows, ("GET",), many).of(0) == {("fault", place): 70, ("running", "server"): 30}
    few = Faults({SERVER: np.array([150]), WORKER: np.arange(100, 200)}, cost_ns=5.0)
    assert Account(running, rows, ("GET",), few).of(0) == {("running", "server"): 100}


def test_what_missing_pages_cost_is_never_more_than_the_time_in_which_they_came() -> None:
    assert Faults({SERVER: np.arange(50)}, cost_ns=1_000.0).ns(SERVER, 0, 60) == 60
    assert Faults({SERVER: np.arange(50)}, cost_ns=1_000.0).ns(WORKER, 0, 60) == 0


def test_a_collection_of_garbage_is_named_where_the_interpreter_has_symbols() -> None:
    made = replace(
        schedule([interval(0, State.RUNNING, 100, 200)]),
        samples=np.array([(150, 0, 1, 0)], layouts.SAMPLE),
        stacks=((0, 1),),
        frames=(Frame("gc_collect_main"), Frame("handle", "app.py", 3)),
    )
    found = Account(made, np.array([request(100, 100, 200)], REQUEST), ("GET",)).of(0)
    assert found == {("running", "server in the interpreter's garbage collection"): 100}


def test_a_wait_for_a_cpu_is_an_answer_only_where_who_had_it_is_known() -> None:
    usual: Any = [{("running", ""): 10.0}] * 50
    known: Any = [{("running", ""): 10.0, ("runnable", "neighbour had the CPU"): 100.0}] * 10
    unknown: Any = [{("running", ""): 10.0, ("runnable", ""): 100.0}] * 10
    assert (tail_answer(known, usual).withheld, tail_answer(known, usual).where) == (
        "",
        "neighbour had the CPU",
    )
    assert "latlab's own work" in tail_answer(unknown, usual).withheld


def test_of_the_slow_ones_only_those_that_are_long_must_agree() -> None:
    usual: Any = [{("running", ""): 10.0}] * 50
    hardly: Any = [{("running", ""): 14.0}] * 8
    assert tail_answer([{("running", ""): 10.0, ("lock", "a"): 500.0}] * 8 + hardly, usual).kind == "lock"
    longest: Any = [{("running", ""): 10.0, ("lock", "a"): 9_000.0}] + [
        {("running", ""): 10.0, ("disk", "b"): 300.0}
    ] * 9
    assert tail_answer(longest, usual).withheld == "no single part makes most of them longer"


def test_a_quota_that_stopped_the_program_is_named_and_not_who_had_the_cpu_meanwhile() -> None:
    ms = 1_000_000
    waiting = [interval(0, State.RUNNABLE, 0, 60 * ms, cpu=1), interval(1, State.RUNNABLE, 10 * ms, 60 * ms)]
    limited = replace(schedule(waiting, ended=100 * ms), quota="10 ms in each 100 ms", throttled_ns=60 * ms)
    rows = np.array([request(0, 0, 60 * ms), request(0, 0, 60 * ms, WORKER)], REQUEST)
    said = {("runnable", "CPU quota of 10 ms in each 100 ms"): 60.0 * ms}
    assert Account(limited, rows, ("GET",)).of(0) == said
    neighbour = replace(limited, foreign=np.array([(1, 0, 60 * ms, 78)], layouts.FOREIGN))
    assert Account(neighbour, rows, ("GET",)).of(0) == said
    seldom = replace(neighbour, throttled_ns=20 * ms)
    either = "a CPU quota of 10 ms in each 100 ms stopped it, or others had the CPU"
    assert Account(seldom, rows, ("GET",)).of(0) == {("runnable", either): 60.0 * ms}
    never = replace(neighbour, throttled_ns=0)
    assert Account(never, rows, ("GET",)).of(0) == {("runnable", "neighbour had the CPU"): 60.0 * ms}


def test_a_long_wait_for_a_cpu_that_nobody_has_is_the_quotas() -> None:
    ms = 1_000_000
    waiting = [interval(0, State.RUNNABLE, 0, 60 * ms, cpu=1)]
    rows = np.array([request(0, 0, 60 * ms)], REQUEST)
    alone = schedule(waiting, ended=100 * ms)
    assert Account(alone, rows, ("GET",)).of(0) == {("runnable", "no thread had the CPU"): 60.0 * ms}
    limited = replace(alone, quota="10 ms in each 100 ms", throttled_ns=1 * ms)
    assert Account(limited, rows, ("GET",)).of(0) == {
        ("runnable", "CPU quota of 10 ms in each 100 ms"): 60.0 * ms
    }


def test_time_that_what_observes_had_the_cpu_is_told_and_is_nobodys_cause() -> None:
    waiting = [interval(0, State.RUNNABLE, 100, 200, cpu=1)]
    seen = replace(schedule(waiting), watching=np.array([(1, 90, 210, 5)], layouts.FOREIGN))
    rows = np.array([request(100, 100, 200)], REQUEST)
    assert Account(seen, rows, ("GET",)).of(0) == {("runnable", "latlab had the CPU"): 100}
    usual: Any = [{("running", ""): 10.0}] * 50
    slow: Any = [{("running", ""): 10.0, ("lock", "a"): 50.0, ("runnable", "latlab had the CPU"): 90.0}] * 10
    assert (tail_answer(slow, usual).kind, tail_answer(slow, usual).share) == ("lock", 1.0)


def test_who_has_no_cpu_for_longer_than_it_computes_is_not_late_by_its_computation() -> None:
    usual: Any = [{("running", "a in f"): 10.0}] * 50
    slow: Any = [{("running", "a in f"): 300.0, ("runnable", ""): 700.0}] * 10
    behind: Any = [{("running", "a in f"): 300.0, ("running", "preempted meanwhile"): 700.0}] * 10
    assert "no single thread" in tail_answer(slow, usual, behind, usual).withheld
    slow = [{("running", "a in f"): 450.0, ("lock", "l"): 200.0, ("runnable", ""): 350.0}] * 10
    behind = [
        {("running", "a in f"): 450.0, ("lock", "l"): 200.0, ("running", "preempted meanwhile"): 350.0}
    ] * 10
    assert tail_answer(slow, usual, behind, usual).where == "a in f"


def test_who_waits_for_a_lock_does_through_its_holder_what_that_one_does() -> None:
    rows = [
        (0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 100, 200, 1, 0x40, -1),
        interval(1, State.RUNNABLE, 90, 180, cpu=1),
        interval(1, State.RUNNING, 180, 200, cpu=1),
    ]
    account = Account(
        schedule(rows, [(1, 90, 180, 78)]), np.array([request(100, 100, 200)], REQUEST), ("GET",)
    )
    lock: Any = ("lock", "futex 0x40, held by worker")
    assert account.of(0) == {lock: 100}
    assert account.through(0) == {
        lock: 0, ("runnable", "neighbour had the CPU"): 80, ("running", "worker"): 20,
    }  # fmt: skip


def test_what_ended_a_wait_for_many_descriptors_has_no_name_of_its_own() -> None:
    polled = (0, State.BLOCKED, Wait.POLL, Source.NETWORK, -1, 100, 200, -1, 5, -1)
    rows = np.array([request(100, 100, 200)], REQUEST)
    for thing, said in (
        ("anon_inode:[eventpoll]", ""),
        ("tcp 127.0.0.1:1 - 127.0.0.1:2", "tcp 127.0.0.1:1 - 127.0.0.1:2"),
    ):
        made = replace(schedule([polled]), objects={5: thing})
        assert Account(made, rows, ("GET",)).of(0) == {("process", said): 100}


def loop_that_waits(last: Any) -> Schedule:
    """A loop that reads at 100, is woken by a client at 150, and goes on with its request at 300."""
    rows = [
        interval(0, State.RUNNING, 0, 110, cpu=0),
        (0, State.BLOCKED, Wait.POLL, Source.NETWORK, -1, 110, 150, 1, 5, -1),
        interval(0, State.RUNNING, 150, 160, cpu=0),
        last,
        interval(0, State.RUNNING, 300, 400, cpu=0),
        interval(1, State.BLOCKED, 0, 400),
    ]
    return schedule(rows, ended=400)


def test_what_an_event_loop_waits_for_is_what_lets_it_go_on_with_a_request() -> None:
    rows = np.array([request(100, 100, 320)], REQUEST)
    by_client = (0, State.BLOCKED, Wait.POLL, Source.NETWORK, -1, 160, 300, 1, 5, -1)
    by_timer = (0, State.BLOCKED, Wait.TIMER, Source.TIMER, -1, 160, 300, -1, 5, -1)
    read = {SERVER: (np.array([305]), np.array([77]))}  # from a peer that is called bystander

    def waited(last: Any, asked: Any) -> dict[Any, float]:
        seen = loop_that_waits(last)
        found = Account(seen, rows, ("GET",), asked=asked, clients=frozenset({WORKER})).of(0)
        return {key: ns for key, ns in found.items() if key[0] != "running"}

    assert waited(by_client, read) == {("process", "bystander"): 180}
    assert waited(by_timer, {}) == {("timer", ""): 180}
    assert waited(by_timer, read) == {("process", "bystander"): 180}
    assert waited(by_client, {}) == {("unexplained", "what the event loop waited for"): 180}


def test_a_wait_is_told_with_the_function_in_which_it_began() -> None:
    samples = np.array([(100, 0, 0, 0), (500, 0, 0, 1)], layouts.SAMPLE)
    sleeps = [(0, State.BLOCKED, Wait.TIMER, Source.TIMER, -1, at, at + 100, -1, -1, sample)
              for at, sample in ((100, 0), (300, -1))]  # fmt: skip
    syncs = [(0, State.BLOCKED, Wait.SYNC, Source.DISK, -1, 500, 600, -1, -1, 1)]
    seen = replace(
        schedule([*sleeps, *syncs]), samples=samples, stacks=((0, 1, 3), (2, 3)),
        frames=(Frame("__nanosleep", module="/lib/libc.so.6"), Frame("check(int)", module="/bin/server"),
                Frame("record", module="/bin/server"), Frame("serve", module="/bin/server")),
    )  # fmt: skip
    rows = np.array([request(at, at, at + 100) for at in (100, 300, 500)], REQUEST)
    account = Account(seen, rows, ("GET",))
    assert account.of(0) == account.of(1) == {("timer", "in check"): 100}
    assert account.of(2) == {("disk", "fsync, in record"): 100}
    library = replace(seen, frames=(Frame("__nanosleep", module="/lib/libc.so.6"),) * 4)
    assert Account(library, rows, ("GET",)).of(0) == {("timer", ""): 100}


def test_interrupts_that_a_running_threads_cpu_served_are_a_part() -> None:
    seen = replace(
        schedule([interval(0, State.RUNNING, 100, 300, cpu=0)]),
        interrupted=np.array([(0, 100, 300, 80)], layouts.INTERRUPTED),
    )
    rows = np.array([request(100, 100, 200)], REQUEST)
    assert Account(seen, rows, ("GET",)).of(0) == {
        ("interrupt", "interrupts that its CPU served"): 40,
        ("running", "server"): 60,
    }


def test_the_interpreters_lock_has_its_name_whichever_of_its_words_is_waited_for() -> None:
    waits = [(0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, at, at + 100, 1, 0x40, sample)
             for at, sample in ((100, 0), (300, -1))]  # fmt: skip
    seen = replace(
        schedule(waits), samples=np.array([(100, 0, 0, 0)], layouts.SAMPLE), stacks=((0, 1),),
        frames=(Frame("take_gil", module="/usr/bin/python3"), Frame("serve", "server.py")),
    )  # fmt: skip
    rows = np.array([request(300, 300, 400)], REQUEST)
    assert Account(seen, rows, ("GET",)).of(0) == {("lock", "the interpreter's lock in serve"): 100}


def test_a_lock_of_which_one_stack_is_of_the_next_wait_is_not_the_interpreters() -> None:
    waits = [(0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, at, at + 100, 1, 0x40, sample)
             for at, sample in ((100, 0), (300, 1), (500, 1))]  # fmt: skip
    seen = replace(
        schedule(waits), samples=np.array([(100, 0, 0, 0), (300, 0, 0, 1)], layouts.SAMPLE),
        stacks=((0, 1), (1,)),
        frames=(Frame("take_gil", module="/usr/bin/python3"), Frame("serve", "server.py")),
    )  # fmt: skip
    rows = np.array([request(300, 300, 400)], REQUEST)
    ((kind, where),) = Account(seen, rows, ("GET",)).of(0)
    assert (kind, "futex 0x40" in where) == ("lock", True)


def test_what_the_kernel_computes_to_make_data_durable_is_the_disks_time() -> None:
    seen = replace(
        schedule([interval(0, State.RUNNING, 0, 300, cpu=0)]),
        samples=np.array([(150, 0, 1, 0)], layouts.SAMPLE), stacks=((0, 1),),
        frames=(Frame("fsync", module="/lib/libc.so.6"), Frame("record", module="/bin/server")),
    )  # fmt: skip
    rows = np.array([request(100, 100, 200)], REQUEST)
    assert Account(seen, rows, ("GET",)).of(0) == {("disk", "fsync, in record"): 100}


def test_who_had_a_lock_is_found_behind_others_that_waited_for_it() -> None:
    threads = tuple(ScheduledThread(tid, 10, f"t{tid}", "server", 0, 400) for tid in (11, 12, 13))
    waits = [(at, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 100, 300 + at, at + 1, 0x40, -1)
             for at in (0, 1)]  # fmt: skip
    rows = [*waits, interval(2, State.RUNNING, 0, 400, cpu=0)]
    rows += [interval(at, State.RUNNING, 0, 100, cpu=1) for at in (0, 1)]
    rows += [interval(at, State.RUNNING, 300 + at, 400, cpu=1) for at in (0, 1)]
    seen = replace(schedule(rows, ended=400), threads=threads)
    account = Account(seen, np.array([request(100, 100, 300)], REQUEST), ("GET",))
    assert account.of(0) == {("lock", "futex 0x40, held by t13"): 200}
    assert account.held(0) == {("running", "t13"): 200}


def test_a_worker_that_idles_has_not_taken_a_request_up_and_one_that_waits_for_a_lock_has() -> None:
    queue, table = 0x100, 0x900
    rows: list[Any] = [interval(0, State.RUNNING, 0, 2_000, cpu=0)]
    handled = []
    for at in range(0, 1_000, 100):  # it waits for work while each is read, and answers 20 later
        rows.append(interval(1, State.RUNNING, at, at + 30, cpu=1))
        rows.append((1, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, at + 30, at + 100, 0, queue, -1))
        handled.append((at + 90, at + 90, at + 120, at + 120, SERVER, WORKER, 0, 0, 1, 1, 1, 0))
    # The last one is read while it works, after which it waits for work, and then for a lock.
    rows += [interval(1, State.RUNNING, 1_000, 1_030, cpu=1),
             (1, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 1_030, 1_200, 0, queue + 4, -1),
             interval(1, State.RUNNING, 1_200, 1_210, cpu=1),
             (1, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 1_210, 1_500, 0, table, -1),
             interval(1, State.RUNNING, 1_500, 2_000, cpu=1)]  # fmt: skip
    handled.append((1_025, 1_025, 1_510, 1_510, SERVER, WORKER, 0, 0, 1, 1, 1, 0))
    account = Account(schedule(rows, ended=2_000), np.array(handled, REQUEST), ("GET",))
    assert account.of(10) == {
        ("thread", "worker"): 175,
        ("running", "worker"): 20,
        ("lock", f"futex {table:#x}, held by server"): 290,
    }


@pytest.mark.parametrize(
    ("stack", "part"),
    [
        (("pthread_cond_wait", "take", "serve(int)"), ("runnable", "neighbour had the CPU")),
        (("__lll_lock_wait", "pthread_mutex_lock", "take"), ("lock", "futex 0x40 in take, held by server")),
        # Of who was told, and waits for the mutex again.
        (("__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait", "take"),
         ("lock", "futex 0x40 in take, held by server")),
    ],
)  # fmt: skip
def test_a_reader_that_waits_to_be_told_waits_for_who_tells_it_and_for_no_lock(
    stack: tuple[str, ...], part: tuple[str, str]
) -> None:
    """As where one thread looks for what has arrived, and others read it: that one had no CPU."""
    rows = [(1, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 50, 190, 0, 0x40, 0),
            interval(1, State.RUNNING, 190, 220, cpu=0),
            interval(0, State.RUNNABLE, 90, 190, cpu=1)]  # fmt: skip
    library = ("__lll", "pthread", "__pthread")
    frames = tuple(
        Frame(one, module="/lib/libc.so.6" if one.startswith(library) else "/srv/desk") for one in stack
    )
    seen = replace(
        schedule(rows, [(1, 90, 190, 78)]), samples=np.array([(50, 1, 0, 0)], layouts.SAMPLE),
        stacks=(tuple(range(len(frames))),), frames=frames,
    )  # fmt: skip
    asked = np.array([request(100, 190, 220, reader=WORKER)], REQUEST)
    assert Account(seen, asked, ("GET",)).of(0) == {part: 90, ("running", "worker"): 30}


@pytest.mark.parametrize("serves", [False, True])
def test_who_waits_at_a_condition_for_a_worker_waits_for_what_that_one_does_and_for_no_lock(
    serves: bool,
) -> None:
    """Unless that one answers requests, too: it may have put back what they share, such as a connection."""
    rows = [(0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 100, 200, 1, 0x40, 0),
            interval(0, State.RUNNING, 200, 210, cpu=0),
            interval(1, State.RUNNING, 90, 200, cpu=1)]  # fmt: skip
    seen = replace(
        schedule(rows), samples=np.array([(100, 0, 0, 0), (150, 1, 1, 1)], layouts.SAMPLE),
        stacks=((0, 1), (2,)),
        frames=(Frame("pthread_cond_wait", module="/lib/libc.so.6"), Frame("order", module="/srv/desk"),
                Frame("bake", module="/srv/desk")),
    )  # fmt: skip
    asked = [request(100, 100, 210)] + [request(0, 20, 30, reader=WORKER)] * serves
    account = Account(seen, np.array(asked, REQUEST), ("GET",))
    waited = ("lock", "futex 0x40 in order, held by worker in bake") if serves else ("thread", "worker")
    assert account.of(0) == {waited: 100, ("running", "server"): 10}
    if not serves:
        assert account.causes(0)["running", "worker in bake"] == 100


def test_a_template_of_the_library_that_is_inlined_is_told_as_the_function_that_it_is_in() -> None:
    waits = [(0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 100, 200, -1, 0x40, 0)]
    header = "/usr/include/c++/12/condition_variable"
    seen = replace(
        schedule(waits), samples=np.array([(100, 0, 0, 0)], layouts.SAMPLE), stacks=((0, 1, 2, 3),),
        frames=(Frame("pthread_cond_wait", module="/lib/libc.so.6"),
                Frame("wait<take()::<lambda()> >", header, module="/srv/desk"),
                Frame("take", "desk.cpp", module="/srv/desk"),
                Frame("serve(int)", "desk.cpp", module="/srv/desk")),
    )  # fmt: skip
    rows = np.array([request(100, 100, 200)], REQUEST)
    assert Account(seen, rows, ("GET",)).of(0) == {("lock", "futex 0x40 in take"): 100}


def test_who_has_the_interpreters_lock_is_who_runs_also_where_time_outs_cut_the_wait() -> None:
    ms, word = 1_000_000, 0x40
    threads = tuple(ScheduledThread(tid, 10, name, "server", 0, 20 * ms)
                    for tid, name in ((11, "server"), (12, "cruncher"), (13, "other")))  # fmt: skip
    samples = np.array([(at, 1, 1, 1) for at in range(ms // 2, 20 * ms, ms)], layouts.SAMPLE)
    samples[0] = (0, 0, 0, 0)
    begins = [0, 5 * ms, 10 * ms]
    waits = [(0, State.BLOCKED, Wait.FUTEX, Source.TIMER, -1, at, at + 5 * ms - 1_000, -1, word,
              0 if at == 0 else -1) for at in begins]  # fmt: skip
    looks = [interval(0, State.RUNNING, at + 5 * ms - 1_000, at + 5 * ms, cpu=1) for at in begins]
    # The last one to let go has not had it before.
    last = (0, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 15 * ms, 19 * ms, 2, word, -1)
    looks += [interval(0, State.RUNNING, 19 * ms, 20 * ms, cpu=1), interval(2, State.BLOCKED, 0, 20 * ms)]
    rows = [*waits, *looks, last, interval(1, State.RUNNING, 0, 20 * ms, cpu=0)]
    seen = replace(
        schedule(rows, ended=20 * ms), threads=threads, samples=samples, stacks=((0, 1), (2,)),
        frames=(Frame("take_gil", module="/usr/bin/python3"), Frame("serve", "server.py"),
                Frame("crunch", "server.py")),
    )  # fmt: skip
    account = Account(seen, np.array([request(0, 0, 19 * ms)], REQUEST), ("GET",))
    waited = "the interpreter's lock in serve, held by cruncher in crunch"
    assert account.of(0)["lock", waited] == pytest.approx(19 * ms, rel=0.01)
    held = account.held(0)
    assert held["running", "cruncher in crunch"] > 0.8 * 19 * ms
    assert {where for _, where in held} <= {"cruncher in crunch", "cruncher"}


@pytest.mark.parametrize(
    ("wait", "waker", "clients", "part"),
    [
        (Wait.PIPE, -1, (), ("process", "fifo:/log")),
        (Wait.POLL, 1, (), ("thread", "worker")),
        # Of a loop that doesn't look at it nothing is known; nor is it late by who asks something else.
        (Wait.POLL, -1, (), ("receive-queue", "")),
        (Wait.POLL, 1, (WORKER,), ("receive-queue", "")),
        (Wait.SOCKET, 1, (WORKER,), ("receive-queue", "")),
    ],
)
def test_a_reader_whose_wait_an_arrival_does_not_end_waits_for_something_else(
    wait: Wait, waker: int, clients: tuple[int, ...], part: Any
) -> None:
    ms = 1_000_000
    row = (0, State.BLOCKED, wait, Source.THREAD, -1, 0, 30 * ms, waker, 0, -1)
    made = replace(schedule([row], ended=40 * ms), objects={0: "fifo:/log"})
    asked = np.array([request(5 * ms, 30 * ms, 30 * ms)], REQUEST)
    assert Account(made, asked, ("GET",), clients=frozenset(clients)).of(0) == {part: 25 * ms}
    # It is being woken.
    soon = np.array([request(30 * ms - 500, 30 * ms, 30 * ms)], REQUEST)
    assert Account(made, soon, ("GET",)).of(0) == {("receive-queue", ""): 500}


def apart(made: Schedule) -> Schedule:
    """The worker is another process's."""
    server, worker = made.threads
    return replace(made, threads=(server, replace(worker, pid=20)))


def test_the_output_of_a_child_is_waited_for_and_is_no_answer_that_is_being_sent() -> None:
    reading = (0, State.BLOCKED, Wait.PIPE, Source.THREAD, -1, 100, 900, 1, 0, -1)
    made = apart(replace(schedule([reading]), objects={0: "pipe:[7]"}))
    rows = np.array([request(100, 100, 900)], REQUEST)
    calls = {SERVER: (np.array([900]), np.array([True]))}  # what it called next on a socket was the answer
    assert Account(made, rows, ("GET",), calls=calls).of(0) == {("process", "worker"): 800}
    found = Account(made, rows, ("GET",), calls=calls, pipes=frozenset(("pipe:[7]",))).of(0)
    assert found == {("send", "to the client"): 800}


@pytest.mark.parametrize("wait", [Wait.POLL, Wait.EVENTFD, Wait.SOCKET])
def test_a_wait_that_a_thread_of_the_same_process_ends_is_for_what_that_does(wait: Wait) -> None:
    waiting = (0, State.BLOCKED, wait, Source.THREAD, -1, 110, 300, 1, 5, -1)
    sleeping = (1, State.BLOCKED, Wait.TIMER, Source.TIMER, -1, 0, 290, -1, -1, -1)
    running = [interval(0, State.RUNNING, 100, 110, cpu=0), interval(0, State.RUNNING, 300, 320, cpu=0)]
    seen = schedule([*running, waiting, sleeping, interval(1, State.RUNNING, 290, 320, cpu=1)], ended=320)
    rows = np.array([request(100, 100, 320)], REQUEST)
    assert Account(seen, rows, ("GET",)).of(0) == {("running", "server"): 30, ("thread", "worker"): 190}
    assert Account(seen, rows, ("GET",)).causes(0) == {
        ("running", "server"): 30,
        ("timer", ""): 180,
        ("running", "worker"): 10,
    }
    # Of another process it is told what it did; and a network's interrupt may deliver for somebody else.
    account = Account(apart(seen), rows, ("GET",))
    assert account.of(0)["process", "worker"] == 190
    assert account.followed(0) == {("timer", ""): 180, ("running", "worker"): 10}
    by_network = (*waiting[:3], Source.NETWORK, *waiting[4:])
    delivered = schedule([*running, by_network, sleeping, interval(1, State.RUNNING, 290, 320)], ended=320)
    assert Account(delivered, rows, ("GET",)).of(0)["process", "worker"] == 190


def test_what_another_process_did_that_was_waited_for_is_told() -> None:
    def waiting(length: float) -> list[dict[Any, float]]:
        return [{("process", "helper"): length}] * 20

    said = tail_answer(waiting(900.0), waiting(10.0), followed=[{("timer", "in main"): 890.0}] * 20)
    assert (said.kind, said.holder) == ("process", "timer (in main)")


def test_a_request_that_no_thread_works_on_while_all_idle_does_not_wait_for_a_thread() -> None:
    ms = 1_000_000
    idle = (1, State.BLOCKED, Wait.FUTEX, Source.THREAD, -1, 0, 20 * ms, 0, 64, -1)
    polls = (0, State.BLOCKED, Wait.POLL, Source.TIMER, -1, 2_000, 20 * ms - 3_000, -1, 5, -1)
    ran = [interval(0, State.RUNNING, 0, 2_000, cpu=0), interval(0, State.RUNNING, 20 * ms - 3_000, 21 * ms)]
    answers = interval(1, State.RUNNING, 20 * ms, 21 * ms, cpu=1)
    one = request(1_000, 1_000, 20 * ms + 10_000)
    one = (*one[:5], WORKER, *one[6:])
    rows = np.array([one], REQUEST)

    def waited(polled: Any) -> dict[Any, float]:
        return Account(schedule([*ran, idle, polled, answers], ended=21 * ms), rows, ("GET",)).of(0)

    # Its timer woke the loop, and the loop the worker, as the runtimes of Go and Tokio do.
    assert waited(polls) == {
        ("thread", "worker"): 4_000,
        ("timer", ""): 20 * ms - 5_000,
        ("running", "worker"): 10_000,
    }
    by_network = (*polls[:3], Source.NETWORK, *polls[4:])
    assert (
        waited(by_network)["unexplained", "kept by the program while its threads had nothing to do"]
        == 20 * ms - 5_000
    )
    busy = interval(0, State.RUNNING, 2_000, 20 * ms - 3_000, cpu=0)  # the reader works, and hands over late
    assert set(waited(busy)) == {("thread", "worker"), ("running", "worker")}


def test_pages_that_a_computation_touches_first_are_part_of_it_where_neither_decides() -> None:
    def computing(length: float) -> dict[Any, float]:
        return {("running", "server in make"): length / 2, ("fault", "pages"): length / 2}

    said = tail_answer([computing(900.0)] * 20, [computing(10.0)] * 20)
    assert (said.withheld, said.kind, said.where) == ("", "running", "server in make")


def test_who_computes_or_sleeps_between_the_pieces_of_an_answer_is_not_late_by_its_client() -> None:
    def of(state: State, function: str, wait: Wait = Wait.NONE, source: Source = Source.UNKNOWN) -> Any:
        middle = (0, state, wait, source, -1, 200, 800, -1, -1, -1)
        rows = [interval(0, State.RUNNING, 100, 200, cpu=0), middle, interval(0, State.RUNNING, 800, 900)]
        frames = (Frame(function, module="/lib/libc.so.6" if function == "send" else "/lib/libz.so.1"),)
        seen = replace(
            schedule(rows), samples=np.array([(300, 0, 1, 0)], layouts.SAMPLE), stacks=((0,),), frames=frames
        )
        one = request(100, 100, 900)
        one = (*one[:2], 200, *one[3:])
        spent = Account(seen, np.array([one], REQUEST), ("GET",)).of(0)
        return {key: ns for key, ns in spent.items() if ns > 300}

    assert of(State.RUNNING, "deflate") == {("running", "server in deflate"): 600}
    assert ("running", "server") in of(State.RUNNING, "")  # of a library without symbols
    assert of(State.RUNNING, "send") == {("send", "to the client"): 700}
    assert of(State.BLOCKED, "", Wait.POLL) == {("send", "to the client"): 700}
    assert of(State.BLOCKED, "", Wait.TIMER, Source.TIMER) == {("timer", ""): 600}


@pytest.mark.parametrize(
    ("losses", "where"),
    [
        (Losses("bpf", events=3), "events were lost"),
        (Losses("bpf", windows=((0, 50), (300, 400))), "between the windows in which events were taken"),
        (Losses("bpf", breaks=1), "a switch of its thread was not seen, though no event was lost"),
    ],
)
def test_what_is_not_known_of_a_thread_is_told_by_why(losses: Losses, where: str) -> None:
    seen = replace(schedule([interval(0, State.UNSEEN, 100, 200)]), losses=losses)
    assert Account(seen, np.array([request(100, 100, 200)], REQUEST), ("GET",)).of(0) == {
        ("unexplained", where): 100
    }
