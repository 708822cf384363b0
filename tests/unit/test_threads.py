"""What limits, on schedules that are made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.threads_made import MS, SECOND, Made, found_in, named_in, pipeline

from latlab.model.schedule import Source, State, Wait
from latlab.model.threads import LimitKind
from latlab.threads import analyse
from latlab.threads._tracks import latest


def test_the_stage_that_all_others_wait_for_is_the_bottleneck() -> None:
    limit = found_in(pipeline(fast=2, slow=10)).limit
    assert (limit.kind, limit.name) == (LimitKind.THREAD, "book")
    assert limit.share > 0.95
    assert limit.confidence > 0.95


def test_of_more_turns_than_are_analysed_the_latest_are_and_the_notes_say_so() -> None:
    whole = pipeline(fast=2, slow=10).schedule()
    part = latest(whole, 150)
    assert 150 <= len(part.intervals) < len(whole.intervals)
    assert int(part.intervals["begin"].min()) == part.began_ns > whole.began_ns
    assert part.losses.notes[-1].startswith("of 1 s with 301 turns the last ")
    assert analyse(part).limit.name == "book"


def test_a_main_thread_that_only_waits_for_the_end_has_no_voice() -> None:
    made = pipeline(fast=2, slow=10)
    made.rows = [row for row in made.rows if row[0] != 0]
    made.wait(0, 0, 1000, on=Wait.TIMER, source=Source.TIMER)
    assert found_in(made).limit.name == "book"


def test_two_stages_that_are_equally_slow_are_not_named() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("parse"), made.thread("book")
    made.turns(first, 9.9, last)
    made.turns(last, 9.8, first)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.UNKNOWN, "")
    assert "parse" in limit.sentence
    assert "book" in limit.sentence


def test_two_that_take_turns_are_not_named() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("ask"), made.thread("reply")
    made.in_turn(first, last, 5)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "in turn" in limit.sentence


def test_a_program_that_sleeps_between_its_steps_paces_itself() -> None:
    made = Made()
    made.turns(made.thread("ticker"), 1, on=Wait.TIMER, source=Source.TIMER)
    assert named_in(made) == (LimitKind.TIMER, "ticker")


def test_of_several_that_sleep_whichever_leads_nothing_is_short() -> None:
    made = Made()
    for name in ("lamp", "horn"):
        made.turns(made.thread(name), 1, on=Wait.TIMER, source=Source.TIMER)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "lamp, horn")
    assert limit.sentence.startswith("No resource is short")


@pytest.mark.parametrize(
    ("on", "source", "kind"),
    [
        (Wait.SYNC, Source.DISK, LimitKind.DISK),
        (Wait.POLL, Source.THREAD, LimitKind.LOAD),
        (Wait.FUTEX, Source.TIMER, LimitKind.TIMER),
    ],
    ids=["its disk", "strangers: work", "a time-out that nobody waits on after: a sleep"],
)
def test_a_program_of_one_thread_is_limited_by_what_it_waits_for(
    on: Wait, source: Source, kind: LimitKind
) -> None:
    made = Made()
    made.turns(made.thread("server"), 1, on=on, source=source)
    assert found_in(made).limit.kind is kind


def test_a_program_in_which_nothing_happens_waits_for_work() -> None:
    made = Made()
    main = made.thread("server")
    made.wait(main, 0, 1000, on=Wait.POLL, source=Source.UNKNOWN)
    assert found_in(made).limit.kind is LimitKind.LOAD


def test_the_one_late_worker_is_named_and_not_its_role() -> None:
    made = Made()
    main = made.thread("app")
    workers = [made.thread(f"worker-{i}") for i in range(4)]
    for i in range(10):
        at = 100 * i
        made.wait(main, at, at + 100, workers[2])
        for worker in workers:
            until = at + (100 if worker == workers[2] else 30)
            made.run(worker, at, until)
            if until < at + 100:
                made.wait(worker, until, at + 100, workers[2])
    assert named_in(made) == (LimitKind.THREAD, "worker-2")


@pytest.mark.parametrize(("turns", "late"), [(13, False), (18, True)])
def test_of_two_that_take_the_long_part_by_turns_the_more_frequent_is_no_late_one(
    turns: int, late: bool
) -> None:
    made = Made()
    main = made.thread("app")
    workers = [made.thread("work", pid=200 + i) for i in range(2)]
    for i in range(20):
        at, longer = 50 * i, workers[0 if i * turns % 20 < turns else 1]
        made.wait(main, at, at + 50, longer)
        for worker in workers:
            until = at + (50 if worker == longer else 10)
            made.run(worker, at, until)
            made.wait(worker, until, at + 50, main)
    limit = found_in(made).limit
    assert limit.name == ("work (pid 200)" if late else "work")
    assert limit.share == pytest.approx(0.9 if late else 1.0, abs=0.05)
    assert f"waited for it {limit.share:.1%}"[:-2] in limit.sentence.replace(" %", "%")


def test_a_slow_child_is_another_process() -> None:
    made = Made()
    main, child = made.thread("client"), made.thread("server", pid=200)
    made.parents[child] = main
    made.in_turn(main, child, 1, on=Wait.SOCKET, item=3)
    assert named_in(made) == (LimitKind.PROCESS, "server")


def test_a_server_that_waits_for_its_client_waits_for_work() -> None:
    made = Made()
    main, client = made.thread("server"), made.thread("client", pid=200)
    made.in_turn(main, client, 1, on=Wait.SOCKET, item=3)
    found = analyse(made.schedule(), listens=frozenset({100}))
    assert found.limit.kind is LimitKind.LOAD


def test_a_program_that_asks_a_server_of_its_own_which_sleeps_has_work() -> None:
    made = Made()
    main, server = made.thread("app"), made.thread("backend", pid=200)
    made.parents[server] = main
    for at in range(0, 1000, 10):
        made.run(main, at, at + 0.1)
        made.wait(main, at + 0.1, at + 10, server, on=Wait.SOCKET, item=3)
        made.wait(server, at, at + 0.1, main, on=Wait.SOCKET, item=3)
        made.wait(server, at + 0.1, at + 9.9, on=Wait.TIMER, source=Source.TIMER)
        made.run(server, at + 9.9, at + 10)
    limit = analyse(made.schedule(), listens=frozenset({200})).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "backend")


def test_many_short_lives_that_wait_for_the_disk_have_their_name_in_what_is_told() -> None:
    made = Made()
    main = made.thread("copy.sh")
    for number in range(50):
        child = made.thread("dd", pid=200 + number)
        made.parents[child] = main
        made.run(child, 20 * number, 20 * number + 2)
        made.wait(child, 20 * number + 2, 20 * number + 20, on=Wait.DISK, source=Source.DISK)
        made.wait(main, 20 * number, 20 * number + 20, child, on=Wait.CHILD, item=-1)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.DISK
    assert "50 × dd" in limit.evidence[0]


def test_who_holds_a_file_s_lock_in_the_kernel_limits_and_not_the_disk() -> None:
    made = Made()
    holder, waiter = made.thread("scribe"), made.thread("reader")
    made.in_turn(holder, waiter, 9.8, on=Wait.DISK)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.THREAD, "scribe")


def test_threads_that_keep_a_file_from_each_other_while_they_write_to_memory_are_no_disk() -> None:
    made = Made()
    one, other = made.thread("scribe"), made.thread("scribe")
    made.in_turn(one, other, 5, on=Wait.DISK)
    for thread in (one, other):
        made.stack(thread, "__pwrite64", "scribe", times=50)
    assert found_in(made).limit.kind is not LimitKind.DISK


@pytest.mark.parametrize(("source", "kind"), [(Source.DISK, LimitKind.DISK), (Source.TIMER, LimitKind.TIMER)])
def test_what_is_asked_of_io_uring_is_told_by_what_ended_the_wait(source: Source, kind: LimitKind) -> None:
    made = Made()
    main = made.thread("app")
    made.turns(main, 0.5, on=Wait.IO_URING, source=source, item=-1)
    assert found_in(made).limit.kind is kind


def test_what_was_not_seen_is_not_guessed() -> None:
    made = Made()
    main = made.thread("app")
    made.run(main, 0, 500)
    made.rows.append((main, State.UNSEEN, 0, 0, -1, 500 * MS, 1000 * MS, -1, -1, -1))
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "could not be seen" in limit.sentence


def test_a_moment_is_too_short_for_an_answer() -> None:
    made = Made(seconds=0.05)
    made.run(made.thread("app"), 0, 50)
    assert found_in(made).limit.kind is LimitKind.UNKNOWN


def test_edges_say_who_ends_whose_waits_how_often() -> None:
    edge = found_in(pipeline(fast=2, slow=10)).edges[0]
    assert (edge.source, edge.to, edge.kind, edge.per_second) == ("book", "parse", "futex", 100.0)
    assert edge.waiting == pytest.approx(0.8)


def test_the_shares_of_the_progress_sum_to_one() -> None:
    assert sum(found_in(pipeline(fast=2, slow=10)).progress.values()) == pytest.approx(1.0, abs=0.01)


def test_who_only_supervises_and_kills_at_the_end_does_not_limit() -> None:
    made = Made()
    shell, timer = made.thread("bash", 100), made.thread("timeout", 101)
    main, worker = made.thread("pigz", 102), made.thread("pigz", 102)
    made.wait(shell, 0, 1000, timer, on=Wait.CHILD)
    made.wait(timer, 0, 1000, source=Source.TIMER, on=Wait.SIGNAL)
    made.wait(main, 0, 999, timer)
    made.run(main, 999, 1000)
    made.run(worker, 0, 1000)
    made.parents.update({timer: shell, main: timer, worker: main})
    limit = found_in(made).limit
    # Who waits for the one process that it started is a wrapper: what limits is a thread of the program.
    assert (limit.kind, limit.name) == (LimitKind.THREAD, "pigz: thread")


def test_a_main_thread_that_works_like_its_workers_is_one_of_them() -> None:
    made = Made()
    main, worker = made.thread("app"), made.thread("app")
    for thread, name in ((main, "main"), (worker, "start_thread")):
        made.run(thread, 0, 990)
        made.wait(thread, 990, 1000, 1 - thread)
        made.stack(thread, "search", "explore", name, times=40)
    assert [(one.name, one.count) for one in found_in(made).roles] == [("explore", 2)]


@pytest.mark.parametrize("uneven", [True, False])
def test_a_thread_that_works_and_then_sleeps_for_some_time_limits_with_both(uneven: bool) -> None:
    made = Made()
    book = made.thread("book")
    at, turn = 0.0, 0
    while at + 11 < 1000:
        work = (4.0 if turn % 2 else 6.0) if uneven else 5.0
        made.run(book, at, at + work)
        made.wait(book, at + work, at + work + 5, on=Wait.TIMER, source=Source.TIMER)
        at += work + 5
        turn += 1
    limit = found_in(made).limit
    if not uneven:  # each round may as well begin when that is due
        assert limit.kind is LimitKind.UNKNOWN
        return
    assert (limit.kind, limit.name) == (LimitKind.THREAD, "book")
    assert "which sleeps" in limit.sentence
    assert any("slept" in line for line in limit.evidence)


@pytest.mark.parametrize(("due", "kind"), [(True, LimitKind.TIMER), (False, LimitKind.THREAD)])
def test_who_sleeps_until_its_next_round_is_due_paces_itself_however_much_it_works(
    due: bool, kind: LimitKind
) -> None:
    made = Made()
    main, keeper = made.thread("app"), made.thread("keeper")
    made.wait(main, 0, 1000, source=Source.UNKNOWN, item=1)
    at, works = 0.0, np.random.default_rng(7).uniform(4.5, 7.0, 200)
    for work in works.tolist():
        sleep = 10.0 - work if due else 4.25
        if at + work + sleep > 1000:
            break
        made.run(keeper, at, at + work)
        made.wait(keeper, at + work, at + work + sleep, on=Wait.TIMER, source=Source.TIMER)
        at += work + sleep
    found = found_in(made)
    assert found.limit.kind is kind
    if due:
        assert found.limit.name == "keeper"
        assert found.limit.sentence.startswith("No resource is short: keeper paces itself.")
        assert found.limit.share > 0.95


@pytest.mark.parametrize(
    ("on", "work", "sleep", "told"),
    [
        # An interval timer's alarms come as often however long the work takes; of sleeps nothing tells.
        (Wait.SIGNAL, (2.0, 2.0), (5.0, 5.0), (True, False)),
        (Wait.SIGNAL, (5.0, 5.0), (2.0, 2.0), (False, True)),  # it may miss every other alarm
        (Wait.TIMER, (2.0, 2.0), (5.0, 5.0), (False, True)),
        (Wait.TIMER, (1.0, 3.0), (6.0, 4.0), (True, False)),
        (Wait.TIMER, (1.0, 3.0), (5.0, 5.0), (False, False)),
        (Wait.SIGNAL, (1.0, 3.0), (5.0, 5.0), (False, True)),
    ],
)
def test_who_is_paced_by_due_times_or_may_be(
    on: Wait, work: tuple[float, float], sleep: tuple[float, float], told: tuple[bool, bool]
) -> None:
    made = Made()
    beat, at, turn = made.thread("beat"), 0.0, 0
    while at + 8 < 1000:
        made.run(beat, at, at + work[turn % 2])
        made.wait(
            beat, at + work[turn % 2], at + work[turn % 2] + sleep[turn % 2], on=on, source=Source.TIMER
        )
        at, turn = at + work[turn % 2] + sleep[turn % 2], turn + 1
    (role,) = found_in(made).roles
    assert (role.paced, role.may_be_due) == told


def test_a_program_with_a_thread_that_waits_for_its_child_is_no_supervisor() -> None:
    made = Made()
    main, watcher, site = made.thread("app"), made.thread("waitpid-0"), made.thread("site", 200)
    made.parents.update({watcher: main, site: watcher})
    made.in_turn(main, site, 9, on=Wait.SOCKET, item=0)
    made.wait(watcher, 0, 1000, site, on=Wait.CHILD)
    found = found_in(made)
    assert found.root == 100
    assert (found.limit.kind, found.limit.name) == (LimitKind.THREAD, "app")


@pytest.mark.parametrize(
    ("second", "kind"), [(9.2, LimitKind.UNKNOWN), (4.0, LimitKind.TIMER), (0.0, LimitKind.TIMER)]
)
def test_of_two_that_sleep_in_the_same_rhythm_and_are_as_slow_none_is_named(
    second: float, kind: LimitKind
) -> None:
    made = Made()
    reader, writer, keeper = made.thread("reader"), made.thread("writer"), made.thread("keeper")
    for at in range(0, 1000, 10):
        # The writer takes what the reader has made, while that sleeps for the next one.
        made.run(reader, at, at + 0.5)
        made.wait(reader, at + 0.5, at + 10, on=Wait.TIMER, source=Source.TIMER)
        made.run(writer, at, at + 0.5)
        made.wait(writer, at + 0.5, at + 0.5 + second, on=Wait.TIMER, source=Source.TIMER)
        made.wait(writer, at + 0.5 + second, at + 10, reader)
    made.run(keeper, 0, 1)
    made.wait(keeper, 1, 999, on=Wait.TIMER, source=Source.TIMER)
    made.wait(keeper, 999, 1000, reader)
    limit = found_in(made).limit
    assert limit.kind is kind
    if kind is LimitKind.TIMER:
        assert limit.name == "reader"
    else:
        assert "same rhythm" in limit.sentence


@pytest.mark.parametrize(("second", "named"), [(9.2, False), (4.0, True)])
def test_of_two_processes_that_sleep_in_the_same_rhythm_and_are_as_slow_none_is_named(
    second: float, named: bool
) -> None:
    made = Made()
    main, reader, writer = made.thread("app"), made.thread("reader", 101), made.thread("writer", 102)
    for at in range(0, 1000, 10):
        made.run(reader, at, at + 0.5)
        made.wait(reader, at + 0.5, at + 9.9, on=Wait.TIMER, source=Source.TIMER)
        made.wait(reader, at + 9.9, at + 10, main, on=Wait.PIPE)
        made.wait(main, at, at + 9.9, reader, on=Wait.PIPE)
        made.run(main, at + 9.9, at + 10)
        made.run(writer, at, at + 0.5)
        made.wait(writer, at + 0.5, at + 0.5 + second, on=Wait.TIMER, source=Source.TIMER)
        made.wait(writer, at + 0.5 + second, at + 10, reader, on=Wait.PIPE)
    limit = analyse(made.schedule(), root=100).limit
    assert limit.name == ("reader" if named else "")
    assert named or "same rhythm" in limit.sentence


def test_shares_above_the_whole_withhold_every_name() -> None:
    made = Made()
    made.turns(made.thread("ticker"), 1, on=Wait.TIMER, source=Source.TIMER)
    schedule = made.schedule()
    (ticker,) = schedule.threads
    assert analyse(schedule).limit.kind is LimitKind.TIMER
    short = replace(ticker, ended_ns=ticker.began_ns + SECOND // 2)
    limit = analyse(replace(schedule, threads=(short,))).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "longer than they lived" in limit.sentence
