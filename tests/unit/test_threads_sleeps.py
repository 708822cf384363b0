"""Sleeps between looks at what another thread does are waits for that one."""

from __future__ import annotations

import pytest
from tests.unit.threads_made import MS, Made, found_in, named_in

from latlab.model.schedule import Source, Wait
from latlab.model.threads import LimitKind

GIL = 1 << 20


def polls(made: Made, thread: int, worker: int, looks: int, *, every: float, done: float) -> None:
    """It hands on work of so many ms, and looks so often whether that is done: each time after a sleep."""
    whole, at = 0.1 + looks * every, 0.0
    while at + whole < 1000:
        made.wakes.append((int(at * MS) + 1, thread, worker, 0, Source.THREAD))
        made.run(thread, at, at + 0.1)
        for i in range(looks):
            begin = at + 0.1 + i * every
            made.wait(thread, begin, begin + every - 0.02, on=Wait.TIMER, source=Source.TIMER, item=-1)
            made.run(thread, begin + every - 0.02, begin + every)
        made.run(worker, at, at + done)
        made.wait(worker, at + done, at + whole, thread)
        at += whole


def polling(made: Made, name: str) -> float:
    role = found_in(made).role(name)
    assert role is not None
    return role.blocked.get("polling", 0.0)


def test_who_looks_between_sleeps_waits_for_whom_it_looks_at() -> None:
    made = Made()
    main, crunch = made.thread("app"), made.thread("crunch")
    polls(made, main, crunch, 4, every=10.0, done=36.0)
    assert named_in(made) == (LimitKind.THREAD, "crunch")
    role = found_in(made).role("app")
    assert role is not None
    assert role.blocked["polling"] == pytest.approx(0.9, abs=0.1)
    assert role.blocked["timer"] == pytest.approx(0.1, abs=0.05)


def test_who_waits_for_many_children_one_after_the_other_waits_for_all_of_them() -> None:
    made = Made()
    main = made.thread("app")
    for at in range(0, 1000, 50):
        child = made.thread("render", pid=200 + at)
        made.parents[child] = main
        made.wakes.append((int(at * MS) + 1, main, child, 0, Source.THREAD))
        made.run(main, at, at + 2)
        for i in range(12):
            made.wait(main, at + 2 + 4 * i, at + 5.9 + 4 * i, on=Wait.TIMER, source=Source.TIMER, item=-1)
            made.run(main, at + 5.9 + 4 * i, at + 6 + 4 * i)
        made.run(child, at + 2, at + 47)
    assert polling(made, "app") > 0.8


def test_who_takes_a_lock_to_look_has_not_done_anything() -> None:
    """As under the interpreter's lock: to look takes it from who works, which waits for it meanwhile."""
    made = Made()
    main, grade = made.thread("app"), made.thread("grade")
    for at in range(0, 1000, 50):
        made.wakes.append((int(at * MS) + 1, main, grade, 0, Source.THREAD))
        made.run(main, at, at + 0.1)
        for i in range(1, 5):
            low = at + 10 * i
            made.wait(main, low - 9.9, low - 4, on=Wait.TIMER, source=Source.TIMER, item=-1)
            made.wait(main, low - 4, low, grade, item=GIL)
            made.run(main, low, low + 0.1)
            made.wakes.append((int((low + 0.05) * MS), main, grade, 0, Source.THREAD))
            made.run(grade, low - 9.9, low)
            made.wait(grade, low, low + 0.05, main, item=GIL)
            made.run(grade, low + 0.05, low + 0.1)
        made.wait(main, at + 40.1, at + 50, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.run(grade, at + 40.1, at + 46)
        made.wait(grade, at + 46, at + 50, main, item=8192)
    assert named_in(made) == (LimitKind.THREAD, "grade")


def test_a_clock_whose_tenth_tick_hands_on_work_sleeps() -> None:
    """Whom it hands work to has done it long before the next tenth tick."""
    made = Made()
    main, crunch = made.thread("app"), made.thread("crunch")
    polls(made, main, crunch, 10, every=5.0, done=18.0)
    assert named_in(made) == (LimitKind.TIMER, "app")


def test_a_clock_that_hands_on_nearly_as_much_work_as_it_leaves_time_for_sleeps() -> None:
    """The work ends in the last sleep each time; but that there are five of them says who begins the next."""
    made = Made()
    main, crunch = made.thread("app"), made.thread("crunch")
    polls(made, main, crunch, 5, every=1.0, done=4.5)
    assert polling(made, "app") == 0


def test_who_sleeps_whatever_the_others_do_sleeps() -> None:
    """Another thread's work ends in each of its sleeps, also in those of which nothing comes."""
    made = Made()
    main, busy = made.thread("app"), made.thread("busy")
    polls(made, main, busy, 10, every=5.0, done=1.0)
    made.rows = [row for row in made.rows if row[0] == main]
    for at in range(0, 1000, 4):
        made.run(busy, at, at + 1)
        made.wait(busy, at + 1, at + 4, on=Wait.TIMER, source=Source.TIMER, item=-1)
    assert polling(made, "app") == 0


def test_who_fills_the_queue_of_one_that_sleeps_for_each_item_waits_for_that_one() -> None:
    """What it takes from the queue wakes who fills it, but where that one was late, and did not wait yet."""
    made = Made()
    shard, feeds = made.thread("shard"), made.thread("feeds")
    for at in range(0, 1000, 25):
        made.wakes.append((int(at * MS) + 1, shard, feeds, 0, Source.THREAD))
        for i in range(2):
            made.run(shard, at + 12.5 * i, at + 12.5 * i + 0.1)
            made.wait(
                shard, at + 12.5 * i + 0.1, at + 12.5 * (i + 1), on=Wait.TIMER, source=Source.TIMER, item=-1
            )
        made.ready(feeds, at, at + 12)
        made.run(feeds, at + 12, at + 12.6)
        made.wait(feeds, at + 12.6, at + 25, shard)
    assert polling(made, "shard") == 0


def test_a_short_sleep_before_a_long_one_tells_nothing() -> None:
    """As of Python's `sched`, which yields after each event: whom it gives work to ends in the long one."""
    made = Made()
    main, crunch = made.thread("app"), made.thread("crunch")
    for at in range(0, 1000, 20):
        made.wakes.append((int(at * MS) + 1, main, crunch, 0, Source.THREAD))
        made.run(main, at, at + 0.1)
        for begin, end in ((at + 0.1, at + 0.2), (at + 0.22, at + 20)):
            made.wait(main, begin, end, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.run(main, at + 0.2, at + 0.22)
        made.run(crunch, at, at + 14)
        made.wait(crunch, at + 14, at + 20, main)
    assert polling(made, "app") == 0


@pytest.mark.parametrize(("steps", "told"), [((5.1, 5.1), True), ((10.5,), False)])
def test_waits_in_steps_of_the_switch_interval_are_for_who_has_the_interpreters_lock(
    steps: tuple[float, ...], told: bool
) -> None:
    """It is given the lock as soon as it has asked for it, so that nobody is seen to wake it."""
    made = Made()
    hash_, scan = made.thread("python"), made.thread("scan")
    for at in range(0, 996, 12):
        begin = float(at)
        for step in steps:
            made.run(hash_, begin, begin + 0.2)
            made.wait(hash_, begin + 0.2, begin + 0.2 + step, source=Source.TIMER, item=GIL)
            begin += 0.2 + step
        begin += 0.2
        made.run(hash_, begin - 0.2, begin)
        made.wait(hash_, begin, at + 12, scan, item=4096)
        made.run(scan, at, at + 5.5)
        made.wait(scan, at + 5.5, begin, hash_, item=8192)
        made.run(scan, begin, at + 12)
    limit = found_in(made).limit
    assert ("in steps of 5 ms" in limit.sentence) is told
    assert limit.kind is (LimitKind.UNKNOWN if told else LimitKind.TIMER)
