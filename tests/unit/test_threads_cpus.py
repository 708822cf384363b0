"""What is limited by CPUs, by a quota, or by who else has them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.threads_made import MS, Made, found_in, named_in

from latlab.lab.diagnosis.about_program import bound_to
from latlab.model.schedule import Source, State, Wait
from latlab.model.threads import LimitKind
from latlab.threads import analyse


def test_a_thread_that_has_no_cpu_half_of_the_time_is_limited_by_the_neighbour() -> None:
    made = Made()
    made.without_cpu(made.thread("app"), 5)
    made.foreign += [(0, (at + 5) * MS, (at + 10) * MS, 9) for at in range(0, 1000, 10)]
    kind, name = named_in(made)
    assert kind is LimitKind.CPU
    assert "neighbour" in name


def test_more_threads_than_cpus_are_limited_by_the_cpus() -> None:
    made = Made()
    made.thread("app")
    for thread in [made.thread(f"worker-{i}") for i in range(4)]:
        for i in range(50):
            early = (thread % 2) * 10
            made.run(thread, 20 * i + early, 20 * i + early + 10)
            at = 20 * i + 10 - early
            made.ready(thread, at, at + 10)
    assert named_in(made) == (LimitKind.CPU, "CPUs")


def competing(*shares: tuple[float, float]) -> Made:
    """Workers on two CPUs: of each the shares that it runs and that it has no CPU; else it sleeps."""
    made = Made()
    made.thread("app")
    for ran, ready in shares:
        thread = made.thread(f"worker-{len(made.names)}")
        for i in range(33):
            at, on, off = 30 * i, 30 * ran, 30 * (ran + ready)
            made.run(thread, at, at + on)
            made.ready(thread, at + on, at + off)
            if off < 30:
                made.wait(thread, at + off, at + 30, on=Wait.TIMER, source=Source.TIMER)
    return made


def test_as_many_threads_that_compute_as_there_are_cpus_limit_and_not_the_cpus() -> None:
    assert named_in(competing((0.78, 0.22), (0.78, 0.22), (0.25, 0.02))) == (LimitKind.THREAD, "worker")


def test_threads_that_wait_for_a_cpu_while_cpus_are_idle_want_no_more_of_them() -> None:
    # As those that are woken by one that works on, each on the CPU of its waker.
    made = competing(*[(0.25, 0.55)] * 4)
    made.rows = [(*row[:4], row[0] % 2, *row[5:]) if row[1] == State.RUNNING else row for row in made.rows]
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "the CPUs were idle" in limit.sentence
    schedule = made.schedule()
    looked = replace(schedule, losses=replace(schedule.losses, method="proc"))
    assert "idle" not in analyse(looked).limit.sentence  # who else had them isn't seen there


def test_where_a_cpu_and_a_faster_thread_would_both_help_neither_is_named() -> None:
    limit = found_in(competing(*[(0.64, 0.22)] * 3)).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "another CPU or a faster 3 × worker would help" in limit.sentence


def test_threads_that_take_the_only_cpu_that_they_may_use_from_each_other_lack_cpus() -> None:
    made = Made()
    made.thread("app")
    # Of a low priority, with a lock that another one wants, beside one that computes.
    low, middle = made.thread("low"), made.thread("middle")
    for at in range(0, 1000, 10):
        made.run(low, at, at + 1)
        made.ready(low, at + 1, at + 10)
        made.ready(middle, at, at + 1)
        made.run(middle, at + 1, at + 10)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.CPU, "CPUs")


@pytest.mark.parametrize("idle", [0, 6])
def test_a_housekeeper_that_sleeps_beside_those_that_work_does_not_limit(idle: int) -> None:
    # As the thread of a virtual machine that wakes each of many idle ones once, when the program ends.
    made = Made()
    main, keeper = made.thread("app"), made.thread("keeper")
    workers = [made.thread("left"), made.thread("right")]
    for number in range(idle):
        made.wait(made.thread(f"idle {chr(97 + number)}"), 0, 1000, keeper, item=16384 + 64 * number)
    made.wait(main, 0, 1000, keeper, item=1)
    made.wait(keeper, 0, 999, on=Wait.TIMER, source=Source.TIMER)
    made.run(keeper, 999, 1000)
    for worker in workers:
        made.run(worker, 0, 450)
        made.wait(worker, 450, 1000, keeper, item=8192)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "they hardly depend on it" in limit.sentence


@pytest.mark.parametrize(("busy", "kind"), [(False, LimitKind.PROCESS), (True, LimitKind.CPU)])
def test_a_cpu_that_wakes_up_for_a_thread_is_no_lack_of_cpus(busy: bool, kind: LimitKind) -> None:
    made = Made()
    client, server = made.thread("client"), made.thread("server", pid=200)
    for at in range(0, 1000, 10):
        made.wait(client, at, at + 7, server, on=Wait.SOCKET)
        made.ready(client, at + 7, at + 9)
        made.run(client, at + 9, at + 10)
        made.ready(server, at, at + 3)
        made.run(server, at + 3, at + 7)
        made.wait(server, at + 7, at + 10, client, on=Wait.SOCKET)
        if busy:
            made.foreign += [(0, at * MS, (at + 3) * MS, 9), (0, (at + 7) * MS, (at + 9) * MS, 9)]
    assert found_in(made).limit.kind is kind


def test_a_lack_of_cpus_that_nobody_was_seen_to_cause_has_no_name() -> None:
    made = Made()
    made.without_cpu(made.thread("app"), 5)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "who had them was not seen" in limit.sentence


def test_the_neighbour_is_who_had_the_cpu_that_the_program_may_use() -> None:
    """Somebody else has all of another CPU, which an affinity keeps it from."""
    made = Made()
    worker = made.thread("app")
    made.without_cpu(worker, 5)
    made.rows = [(*row[:4], 0 if row[1] == State.RUNNING else -1, *row[5:]) for row in made.rows]
    made.foreign += [(0, (at + 5) * MS, (at + 10) * MS, 9) for at in range(0, 1000, 10)]
    made.foreign += [(1, 0, 1000 * MS, 8)]
    seen = replace(made.schedule(), foreign_names={9: "near", 8: "far"})
    limit = analyse(seen).limit
    assert (limit.kind, limit.name) == (LimitKind.CPU, "CPUs (neighbour near)")
    assert not any("far" in line for line in limit.evidence)


def test_a_quota_is_told_from_a_neighbour() -> None:
    made = Made()
    made.turns(made.thread("app"), 30, period=100, on=Wait.THROTTLED, source=Source.TIMER)
    assert named_in(made) == (LimitKind.CPU, "CPU quota")


def test_of_two_equal_stages_the_one_without_a_cpu_is_not_named_for_it() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("parse"), made.thread("book")
    for i in range(100):
        at = 10 * i
        made.run(first, at, at + 7)
        made.ready(first, at + 7, at + 9.9)
        made.wait(first, at + 9.9, at + 10, last)
    made.turns(last, 6.9, first)
    assert found_in(made).limit.kind is LimitKind.UNKNOWN


def test_a_thread_that_spins_is_not_taken_for_the_one_that_works() -> None:
    made = Made()
    made.thread("app")
    spins, works = made.thread("spins"), made.thread("works")
    made.run(spins, 0, 1000)
    made.run(works, 0, 1000)
    made.stack(spins, "sched_yield", "pop", times=50)
    made.stack(works, "compute", "book", times=50)
    found = found_in(made)
    assert (found.limit.kind, found.limit.name.split(" ")[0]) == (LimitKind.THREAD, "works")
    assert [role.name.split(" ")[0] for role in found.roles if role.spins] == ["spins"]


def test_a_quota_that_stopped_the_group_is_why_there_was_no_cpu() -> None:
    made = Made()
    made.without_cpu(made.thread("app"), 30, period=100)
    schedule = replace(made.schedule(), quota="30 ms in each 100 ms", throttled_ns=700 * MS)
    limit = analyse(schedule).limit
    assert (limit.kind, limit.name) == (LimitKind.CPU, "CPU quota")
    assert "30 ms in each 100 ms" in limit.sentence


def test_a_function_with_spin_in_its_name_may_work() -> None:
    made = Made()
    made.thread("app")
    works = made.thread("carrier")
    made.run(works, 0, 1000)
    made.stack(works, "weave", "spin_yarn", "carrier", times=50)
    made.frames[:] = [replace(one, module="/usr/bin/mill") for one in made.frames]
    found = found_in(made)
    assert (found.limit.kind, found.limit.name.split(" ")[0]) == (LimitKind.THREAD, "carrier")


def test_who_lacks_cpus_and_leaves_one_idle_is_bound_to_the_others() -> None:
    made = Made()
    made.without_cpu(made.thread("app"), 5)
    made.foreign += [(0, (at + 5) * MS, (at + 10) * MS, 9) for at in range(0, 1000, 10)]
    told = bound_to(made.schedule())
    assert told is not None
    assert "ran on CPU 0 only, while CPU 1 was idle 100.0 % of the time" in told

    made.foreign.append((1, 0, 700 * MS, 9))
    assert bound_to(made.schedule()) is None  # the other CPU is a neighbour's
    schedule = made.schedule()
    schedule.intervals["cpu"][::4] = 1
    assert bound_to(replace(schedule, foreign=schedule.foreign[:0])) is None  # it uses both


def test_who_lacks_cpus_after_each_wait_for_the_disk_is_told_both() -> None:
    made = Made()
    made.thread("app")
    writer = made.thread("committer")
    for at in range(0, 1000, 10):
        made.run(writer, at, at + 1)
        made.wait(writer, at + 1, at + 3, on=Wait.SYNC, source=Source.DISK, item=-1)
        made.ready(writer, at + 3, at + 10)
        made.foreign += [(0, (at + 3) * MS, (at + 10) * MS, 9)]
    limit = found_in(made).limit
    assert limit.kind is LimitKind.CPU
    assert "committer waits for the disk, too, 20.0 % of its time" in limit.sentence


def test_threads_of_which_one_sleeps_while_the_others_wait_for_it_take_turns() -> None:
    made = Made()
    made.thread("app")
    users = [made.thread(f"http-{i}") for i in range(3)]
    for at in range(0, 990, 30):
        for one, user in enumerate(users):
            begin = at + 10 * one
            made.wait(user, max(0, begin - 20), begin, users[one - 1], item=4096 * (one + 1))
            made.wait(user, begin, begin + 9, on=Wait.TIMER, source=Source.TIMER, item=-1)
            made.run(user, begin + 9, begin + 10)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "http")
    assert "3 × http wait for each other, each 65.0 % of its time" in limit.sentence
    assert "slept 29.7 %, and waited for others 67.0 %" in limit.evidence[0]
