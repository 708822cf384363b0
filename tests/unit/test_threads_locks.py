"""Which waits are for a lock, and what the lock is called.

Over 400 lines: each of the many ways to wait has its test.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.threads_made import Made, found_in, named_in, pipeline

from latlab.model.schedule import Frame, Source, State, Wait
from latlab.model.threads import LimitKind
from latlab.threads import analyse


def contended(sample: bool) -> Made:
    """Two threads that hold one lock by turns all the time."""
    made = Made()
    made.thread("app")
    threads = [made.thread("worker-1"), made.thread("worker-2")]
    stacks = [-1, -1]
    if sample:
        stacks = [
            made.stack(t, "__lll_lock_wait", "pthread_mutex_lock", "deposit", running=False) for t in threads
        ]
    for i in range(100):
        mine, other = threads[i % 2], threads[1 - i % 2]
        made.run(mine, 10 * i, 10 * i + 10)
        made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000, sample=stacks[1 - i % 2])
    return made


@pytest.mark.parametrize(("clock", "tries", "withheld"), [(50, 30, True), (50, 2, False), (2, 50, False)])
def test_a_thread_that_mostly_tries_and_reads_the_clock_may_wait_in_a_loop(
    clock: int, tries: int, withheld: bool
) -> None:
    made = Made()
    feeder, bath = made.thread("feeder"), made.thread("bath", 100)
    made.run(feeder, 0, 1000)
    for at in range(0, 1000, 50):
        made.wait(bath, at, at + 49, source=Source.TIMER, on=Wait.TIMER)
        made.run(bath, at + 49, at + 50)
    made.stack(feeder, "clock_gettime", "main", times=clock)
    made.stack(feeder, "Rack::try_put", "main", times=tries)
    made.stack(feeder, "cast", "main", times=100 - clock - tries)
    limit = analyse(made.schedule(), root=100).limit
    assert (limit.kind is LimitKind.UNKNOWN) == withheld, limit.sentence
    assert not withheld or "in a loop" in limit.sentence


def test_the_last_one_at_a_barrier_of_processes_holds_no_lock() -> None:
    # Python's: it posts a semaphore once for each that waits.
    made = Made()
    made.thread("app")
    shards = [made.thread(f"shard-{i}", 100 + i) for i in range(3)]
    stacks = [made.stack(t, "__new_sem_wait_fast", "semlock_acquire", "wait", running=False) for t in shards]
    for i in range(100):
        for one in shards[:2]:
            made.run(one, 10 * i, 10 * i + 3)
            made.wait(one, 10 * i + 3, 10 * i + 10, shards[2], item=0x7000, sample=stacks[shards.index(one)])
        made.run(shards[2], 10 * i, 10 * i + 10)
    limit = analyse(made.schedule()).limit
    assert limit.kind is not LimitKind.LOCK, limit.sentence


def test_what_a_holder_that_sleeps_runs_beside_its_lock_is_not_what_others_wait_for() -> None:
    made = Made()
    made.thread("app")
    threads = [made.thread("visitor-1"), made.thread("visitor-2")]
    stacks = [made.stack(t, "pthread_mutex_lock", "lookup", running=False) for t in threads]
    for i in range(100):
        mine, other = threads[i % 2], threads[1 - i % 2]
        made.run(mine, 10 * i, 10 * i + 1)
        made.wait(mine, 10 * i + 1, 10 * i + 9, source=Source.TIMER, on=Wait.TIMER)
        made.run(mine, 10 * i + 9, 10 * i + 10)
        made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000, sample=stacks[1 - i % 2])
        made.stack(mine, "visit", "main", times=1)
    limit = analyse(made.schedule()).limit
    assert limit.kind is LimitKind.LOCK
    assert "visit" not in limit.sentence.replace("visitor", "")
    assert any("its holder sleeps 80.0 % of the time" in one for one in limit.evidence), limit.evidence


@pytest.mark.parametrize("sample", [False, True])
def test_a_lock_that_workers_hand_to_each_other_is_the_bottleneck(sample: bool) -> None:
    assert named_in(contended(sample)) == (
        LimitKind.LOCK,
        "lock 0x7000 in deposit" if sample else "lock 0x7000",
    )


@pytest.mark.parametrize(("north", "kind"), [(50, LimitKind.UNKNOWN), (15, LimitKind.LOCK)])
def test_of_two_locks_that_are_held_as_long_none_is_named(north: int, kind: LimitKind) -> None:
    """Two groups that know nothing of each other: whichever lock leads by chance, its holder buys nothing."""
    made = Made()
    made.thread("app")
    for item, name, held in ((0x7000, "north", north), (0x8000, "south", 50)):
        threads = [made.thread(f"{name}-{one}") for one in range(2)]
        stacks = [made.stack(t, "pthread_mutex_lock", f"pass_{name}", running=False) for t in threads]
        for turn in range(20):
            mine, other = turn % 2, 1 - turn % 2
            begin, end = turn * 50, turn * 50 + held
            made.run(threads[mine], begin, end)
            made.wait(threads[other], begin, end, threads[mine], item=item, sample=stacks[other])
            for one in threads if held < 50 else ():
                made.wait(one, end, begin + 50, source=Source.TIMER, on=Wait.TIMER)
    limit = analyse(made.schedule()).limit
    assert limit.kind is kind, limit.sentence
    assert [one in limit.sentence for one in ("pass_north", "pass_south")] == [
        kind is LimitKind.UNKNOWN,
        True,
    ]


def test_the_mutex_that_woken_threads_take_again_is_no_lock_held_too_long() -> None:
    # As all that wait at a condition are woken at once: each gets the mutex from the one before.
    made = Made()
    made.thread("app")
    herd = [made.thread("herd-1"), made.thread("herd-2")]
    again = ("__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait", "take")
    stacks = [made.stack(one, *again, running=False) for one in herd]
    for i in range(100):
        mine, other = herd[i % 2], herd[1 - i % 2]
        made.run(mine, 10 * i, 10 * i + 10)
        made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000, sample=stacks[1 - i % 2])
    found = found_in(made)
    assert found.limit.kind is not LimitKind.LOCK
    assert found.locks == ()


def test_a_stack_says_in_which_function_a_lock_is_waited_for() -> None:
    assert any("deposit" in line for line in found_in(contended(sample=True)).limit.evidence)


def test_processes_that_wait_for_the_lock_of_a_file_wait_for_a_lock() -> None:
    made = Made()
    offices = [made.thread("office-0", pid=100), made.thread("office-1", pid=200)]
    stacks = [made.stack(one, "flock", "post_voyage", "main", running=False) for one in offices]
    for i in range(100):
        mine, other = i % 2, 1 - i % 2
        made.run(offices[mine], 10 * i, 10 * i + 10)
        made.wait(
            offices[other], 10 * i, 10 * i + 10, offices[mine],
            on=Wait.FILE_LOCK, item=0, sample=stacks[other],
        )  # fmt: skip
    schedule = replace(made.schedule(), objects={0: "/tmp/ledger"})
    limit = analyse(schedule).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "file lock on /tmp/ledger")


def test_who_holds_a_lock_for_what_its_child_does_holds_it() -> None:
    # As `flock FILE command` does: while the command computes, its starter waits for it.
    made = Made()
    offices = [made.thread(f"office-{i}") for i in range(2)]
    clerks = [made.thread("clerk") for _ in range(2)]
    stacks = [made.stack(one, "do_fcntl", running=False) for one in offices]
    for i in range(100):
        mine, other = i % 2, 1 - i % 2
        begin, end = 10 * i, 10 * i + 10
        made.run(clerks[mine], begin, end)
        made.wait(clerks[other], begin, end, offices[other], on=Wait.CHILD)
        made.wait(offices[mine], begin, end, clerks[mine], on=Wait.CHILD)
        made.wait(offices[other], begin, end, offices[mine], on=Wait.FILE_LOCK, item=0, sample=stacks[other])
    limit = analyse(replace(made.schedule(), objects={0: "/tmp/ledger"})).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "file lock on /tmp/ledger")


def lending(roles: tuple[str, ...], hog: int) -> Made:
    """Threads at one semaphore; `hog` of ten turns are the first one's, the others' go round."""
    made = Made()
    main = made.thread("app")
    made.wait(main, 0, 1000, source=Source.UNKNOWN, item=1)
    threads = [made.thread(name) for name in roles]
    acquire = ("__new_sem_wait_slow64", "std::counting_semaphore<8l>::acquire()", "draw")
    stacks = [made.stack(one, *acquire, running=False) for one in threads]
    for i in range(100):
        mine = 0 if i % 10 < hog else 1 + i % (len(threads) - 1)
        made.run(threads[mine], 10 * i, 10 * i + 10)
        for other in range(len(threads)):
            if other != mine:
                made.wait(
                    threads[other], 10 * i, 10 * i + 10, threads[mine], item=0x7000, sample=stacks[other]
                )
    return made


def test_a_lock_of_python_is_called_a_lock_though_it_is_made_of_a_semaphore() -> None:
    made = lending(("worker-1", "worker-2", "worker-3"), 5)
    made.frames = [
        replace(frame, function="PyThread_acquire_lock_timed") if "acquire" in frame.function else frame
        for frame in made.frames
    ]
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "lock 0x7000 in draw")


def test_a_function_of_python_that_waits_for_a_semaphore_waits_for_a_lock() -> None:
    made = lending(("worker-1", "worker-2", "worker-3"), 5)
    made.frames = [
        Frame("Cabinet.take_key", "/srv/app.py", 7) if "acquire" in frame.function else frame
        for frame in made.frames
    ]
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "lock 0x7000 in Cabinet.take_key")


@pytest.mark.parametrize(
    "inner",
    [
        Frame("Condition.wait", "/usr/lib/python3.11/threading.py", 327),
        Frame("_queue_SimpleQueue_get_impl", "", 0, "/usr/lib/libpython3.12.so"),
        Frame("", "", 0, "/usr/lib/python3.11/lib-dynload/_queue.cpython-311-x86_64-linux-gnu.so"),
    ],
)
def test_who_waits_in_python_for_news_or_an_item_waits_for_no_lock_though_its_waits_use_one(
    inner: Frame,
) -> None:
    # Who takes an item from a queue written in C gives its lock to the next one: as users of a lock do.
    made = lending(("player-1", "player-2"), 5)
    made.frames = [inner if "acquire" in frame.function else frame for frame in made.frames]
    assert found_in(made).locks == ()


@pytest.mark.parametrize("hog", [5, 9])
def test_a_semaphore_that_threads_of_one_role_take_and_give_is_a_lock(hog: int) -> None:
    limit = found_in(lending(("worker-1", "worker-2", "worker-3"), hog)).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "semaphore 0x7000 in draw")


def test_a_posix_semaphore_of_two_threads_of_one_role_is_a_lock() -> None:
    limit = found_in(lending(("worker-1", "worker-2"), 5)).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "semaphore 0x7000 in draw")


def test_a_semaphore_by_which_one_role_hands_work_to_another_is_no_lock() -> None:
    assert found_in(lending(("parse", "book"), 9)).limit.kind is not LimitKind.LOCK


def test_a_turn_that_goes_round_by_semaphores_side_by_side_is_no_lock() -> None:
    made = Made()
    painters = [made.thread(f"painter-{number}") for number in range(3)]
    stacks = [made.stack(one, "std::binary_semaphore::acquire", "sit", running=False) for one in painters]
    for i in range(100):
        made.run(painters[i % 3], 10 * i, 10 * i + 10)
    for number, one in enumerate(painters):
        for i in range(number, 100, 3):
            begin = max(0, 10 * (i - 2))
            if begin < 10 * i:  # two words of 4 bytes each are seen as one
                made.wait(
                    one, begin, 10 * i, painters[number - 1], item=0x7000 + 4 * number, sample=stacks[number]
                )
        last = 10 * max(range(number, 100, 3)) + 10
        if last < 1000:
            made.wait(one, last, 1000, source=Source.UNKNOWN, item=0x7000 + 4 * number)
    assert found_in(made).limit.kind is not LimitKind.LOCK


def test_the_lock_of_an_interpreter_has_its_name() -> None:
    made = contended(sample=False)
    made.stack(1, "take_gil", "eval", running=False)
    made.rows = [(*row[:9], 0) if row[1] == State.BLOCKED else row for row in made.rows]
    assert found_in(made).limit.name == "GIL"


@pytest.mark.parametrize("waits", [False, True])
def test_a_main_thread_that_hardly_waits_for_the_interpreters_lock_is_not_limited_by_it(waits: bool) -> None:
    made = Made()
    main, feed, collect = made.thread("app"), made.thread("feed"), made.thread("collect")
    stack = made.stack(main, "take_gil", "publish", running=False)
    for at in range(0, 1000, 10):
        made.run(main, at, at + 6.5)
        if waits:
            made.wait(main, at + 6.5, at + 10, collect, item=4096, sample=stack)
        else:  # it is ready, and lacks a CPU
            made.ready(main, at + 6.5, at + 10)
        for helper, begin, end, before in ((feed, 6.5, 8.2, main), (collect, 8.2, 10, feed)):
            made.wait(helper, at, at + begin, before, item=4096, sample=stack)
            made.run(helper, at + begin, at + end)
            if end < 10:
                made.wait(helper, at + end, at + 10, collect, item=64)
    assert (found_in(made).limit.name == "GIL") == waits


@pytest.mark.parametrize("name", ["app", "tasks"])
def test_a_thread_that_works_or_would_for_nearly_all_of_its_life_is_not_limited_by_the_lock(
    name: str,
) -> None:
    """As beside a neighbour: who holds the lock lacks a CPU, and so does who works most.

    And as a pool's thread that makes the tasks, while the main thread waits for their results.
    """
    made = Made()
    if name != "app":
        made.wait(made.thread("app"), 0, 1000, 1, item=1)
    main, helpers = made.thread(name), [made.thread("feed"), made.thread("collect")]
    stack = made.stack(main, "take_gil", "publish", running=False)
    for at in range(0, 1000, 10):
        made.run(main, at, at + 2)
        made.ready(main, at + 2, at + 8.7)
        made.wait(main, at + 8.7, at + 10, helpers[0], item=4096, sample=stack)
        for other, helper in enumerate(helpers):
            made.wait(helper, at, at + 7, main if other == 0 else helpers[0], item=4096, sample=stack)
            made.ready(helper, at + 7, at + 9)
            made.run(helper, at + 9, at + 10)
    found = found_in(made)
    assert [lock.name for lock in found.locks] == ["GIL"]
    assert found.limit.kind is not LimitKind.LOCK


@pytest.mark.parametrize(
    ("python", "told"), [(True, "its interpreter lock (GIL)"), (False, "its lock at 0x7000")]
)
def test_a_lock_of_a_server_is_told_as_that_process(python: bool, told: str) -> None:
    made = Made()
    client = made.thread("client")
    server = "python3" if python else "shop"
    made.wait(
        made.thread(server, pid=200), 0, 1000, on=Wait.POLL, item=2, source=Source.UNKNOWN
    )  # its main one
    workers = [made.thread(server, pid=200) for _ in range(3)]
    made.commands[200] = (server, "shop.py")
    for at in range(0, 990, 30):
        made.run(client, at, at + 1)
        made.wait(client, at + 1, at + 30, workers[0], on=Wait.SOCKET, item=1)
        for one, worker in enumerate(workers):
            begin = at + 10 * one
            if begin > 15:  # it looks up after 5 ms, as CPython does
                made.wait(worker, begin - 20, begin - 15, source=Source.TIMER, item=0x7000)
                made.wait(worker, begin - 15, begin, workers[one - 1], item=0x7000)
            made.run(worker, begin, begin + 10)
    found = analyse(made.schedule(), root=100)
    assert (found.limit.kind, found.limit.name) == (LimitKind.PROCESS, "shop.py" if python else "shop")
    assert f"(pid 200). Its threads take turns at {told}" in found.limit.sentence


PYTHON = Frame("busy", "gil.py", 3)
OF_LIBRARY = Frame("", "", 0, "/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so")


@pytest.mark.parametrize(
    ("process", "beneath", "named"),
    [("python3", PYTHON, True), ("app", PYTHON, False), ("python3", OF_LIBRARY, True)],
)
def test_the_lock_of_an_interpreter_without_symbols_is_told_by_what_waits_right_beneath_python(
    process: str, beneath: Frame, named: bool
) -> None:
    made = contended(sample=False)
    made.names[0] = process
    made.stack(1, "__pthread_cond_wait_common", "pthread_cond_timedwait", "busy", running=False)
    made.frames[-1] = beneath
    made.rows = [(*row[:9], 0) if row[1] == State.BLOCKED else row for row in made.rows]
    assert (found_in(made).limit.name == "GIL") == named


def test_few_stacks_that_look_like_a_mutex_make_no_lock_of_what_waits_beneath_python() -> None:
    # As of the mutex beside the condition variable by which CPython waits for its lock.
    made = contended(sample=False)
    beside = made.stack(1, "__lll_lock_wait", "pthread_mutex_lock", "busy", running=False)
    beneath = made.stack(1, "__pthread_cond_wait_common", "pthread_cond_timedwait", "eval", running=False)
    made.frames = [Frame("busy", "a.py", 3) if one.function == "eval" else one for one in made.frames]
    blocked = [at for at, row in enumerate(made.rows) if row[1] == State.BLOCKED]
    for number, at in enumerate(blocked):
        made.rows[at] = (*made.rows[at][:9], beside if number % 20 == 0 else beneath)
    assert found_in(made).limit.kind is not LimitKind.LOCK
    made.names[0] = "python3"
    assert found_in(made).limit.name == "GIL"


def test_the_word_of_a_thread_that_parks_is_no_lock_though_a_channel_has_one_for_a_moment() -> None:
    made = pipeline(fast=2, slow=10)
    inside = ("<std::sync::mpmc::array::Channel>::recv::{closure#1}", "app::main")
    parked = made.stack(2, "syscall", "<std::thread::thread::Thread>::park", *inside, running=False)
    made.stack(2, "syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", *inside, running=False)
    rows = [row for row in made.rows if row[1] == State.BLOCKED and row[2] == Wait.FUTEX]
    for at, row in enumerate(rows):
        made.rows[made.rows.index(row)] = (*row[:9], parked + (at % 9 == 0))
    assert found_in(made).locks == ()


def test_a_condition_variable_is_no_lock() -> None:
    assert found_in(pipeline(fast=2, slow=10)).locks == ()


def test_threads_that_only_look_whether_they_may_go_on_are_waiting_all_the_time() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("book"), made.thread("wait")
    made.run(first, 0, 1000)
    for i in range(100):
        made.wait(last, 10 * i, 10 * i + 9.95, source=Source.TIMER, item=64)
        if i < 99:
            made.run(last, 10 * i + 9.95, 10 * i + 10)
    made.wait(last, 999.95, 1000, first, item=64)
    assert found_in(made).limit.name == "book"


def test_a_lock_that_is_held_while_sleeping_is_the_limit_though_another_lock_is_taken_on_the_way() -> None:
    # As in CPython: who got the lock takes the interpreter's first, from the one that has just given it up.
    made = Made()
    workers = [made.thread("worker") for _ in range(2)]
    lock, other = 4096, 8192
    stack = made.stack(0, "pthread_mutex_lock", "update", running=False)
    for i in range(100):
        at, me, last = i * 10, workers[i % 2], workers[(i + 1) % 2]
        made.wait(me, at + 0.3, at + 9.9, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.run(me, at + 9.9, at + 10.3)
        made.wait(last, at + 0.3, at + 10.0, me, item=lock, sample=stack)
        made.wait(last, at + 10.0, at + 10.05, me, item=other)
        made.run(last, at + 10.05, at + 10.3)
    assert named_in(made) == (LimitKind.LOCK, f"lock {lock:#x} in update")


def test_a_word_for_which_all_wait_nearly_always_is_no_lock_of_theirs() -> None:
    # As at a queue's signal: who got it hands it on, and all of them wait nearly always.
    made = Made()
    made.thread("app")
    takers = [made.thread("taker-1"), made.thread("taker-2")]
    for i in range(100):
        mine, other = takers[i % 2], takers[1 - i % 2]
        made.run(mine, 10 * i, 10 * i + 0.5)
        made.wait(mine, 10 * i + 0.5, 10 * i + 10, other, item=0x7000)
        made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000)
    assert found_in(made).locks == ()


def test_threads_that_park_on_words_of_their_own_and_take_turns_are_not_named() -> None:
    # As Java's monitors: each waits for its own word, and the one that leaves wakes the next.
    made = Made()
    made.thread("app")
    tellers = [made.thread(f"teller-{k}") for k in range(3)]
    for i in range(99):
        mine = tellers[i % 3]
        made.run(mine, 10 * i, 10 * i + 10)
        for k, other in enumerate(tellers):
            if other != mine:
                made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000 + 64 * k)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "wait for each other" in limit.sentence


def test_threads_that_park_to_enter_a_monitor_wait_for_one_lock() -> None:
    made = Made()
    made.thread("app")
    tellers = [made.thread(f"teller-{k}") for k in range(3)]
    other = [made.thread(f"porter-{k}") for k in range(2)]  # of another monitor
    park = ("__futex_abstimed_wait_common", "pthread_cond_wait", "os::PlatformEvent::park()")
    enters = ("ObjectMonitor::EnterI(JavaThread*)", "ObjectMonitor::enter(JavaThread*)", "deposit")
    stacks = {one: made.stack(one, *park, *enters, running=False) for one in (*tellers, *other)}
    made.frames[:] = [
        replace(one, module="/jvm/libjvm.so") if "::" in one.function else one for one in made.frames
    ]
    for i in range(99):
        for crew, ran in ((tellers, 10), (other, 1)):
            mine = crew[i % len(crew)]
            made.run(mine, 10 * i, 10 * i + ran)
            for one in crew:
                if one != mine:
                    word = 0x7000 + 64 * one
                    made.wait(one, 10 * i, 10 * i + ran, mine, item=word, sample=stacks[one])
    found = found_in(made)
    assert (found.limit.kind, found.limit.name) == (LimitKind.LOCK, "Java monitor in deposit")
    assert [(lock.waiters, lock.address) for lock in found.locks] == [
        (("teller (deposit)",), 0),
        (("porter (deposit)",), 0),
    ]


def test_two_threads_in_one_spin_lock_of_a_library_wait_for_a_lock() -> None:
    made = Made()
    threads = [made.thread("app"), made.thread("worker-1"), made.thread("worker-2")]
    made.wait(threads[0], 0, 1000, source=Source.UNKNOWN, item=1)
    for thread in threads[1:]:
        made.run(thread, 0, 1000)
        made.stack(thread, "pthread_spin_lock", "count_word", "counter", times=40)
        made.stack(thread, "count_word", "counter", times=60)
    limit = found_in(made).limit
    assert (limit.kind, "count_word" in limit.name) == (LimitKind.LOCK, True)


def test_threads_that_spin_for_a_lock_on_too_few_cpus_wait_for_the_lock() -> None:
    made = Made()
    made.wait(made.thread("app"), 0, 1000, source=Source.UNKNOWN, item=1)
    threads = [made.thread(f"pump-{number}") for number in range(3)]
    for i in range(100):
        for at, thread in enumerate(threads):
            if at == i % 3:
                made.ready(thread, 10 * i, 10 * i + 10)
            else:
                made.run(thread, 10 * i, 10 * i + 10)
    for thread in threads:
        made.stack(thread, "pthread_spin_lock", "rebalance", times=60)
        made.stack(thread, "rebalance", times=40)
    limit = found_in(made).limit
    assert (limit.kind, "rebalance" in limit.name) == (LimitKind.LOCK, True)


def test_the_lock_of_an_interpreter_in_which_one_thread_works_does_not_limit() -> None:
    made = Made()
    made.thread("app")
    planner, helper = made.thread("planner"), made.thread("helper")
    stack = made.stack(helper, "take_gil", "eval", running=False)
    made.in_turn(planner, helper, 9.5, item=0x7000, sample=stack)
    assert named_in(made) == (LimitKind.THREAD, "planner")


def test_processes_that_hand_a_system_v_semaphore_round_wait_for_a_lock() -> None:
    made = Made()
    hands = [made.thread("farmhand", pid=100 * (1 + one)) for one in range(3)]
    stacks = [made.stack(one, "semop", "drill", "main", running=False) for one in hands]
    order = np.random.default_rng(3).integers(1, 3, 100)
    mine = 0
    for i in range(100):
        made.run(hands[mine], 10 * i, 10 * i + 10)
        for other in range(3):
            if other != mine:
                made.wait(
                    hands[other], 10 * i, 10 * i + 10, hands[mine],
                    on=Wait.SEMAPHORE, item=32769, sample=stacks[other],
                )  # fmt: skip
        mine = (mine + int(order[i])) % 3
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "System V semaphore 32769 in drill")
    assert "the System V semaphore 32769, waited for in drill" in limit.sentence


def in_shared_memory(*words: int) -> Made:
    """Processes that hold one lock by turns all the time, each with the word at an address of its own."""
    made = Made()
    clerks = [made.thread("clerk", pid=100 * (1 + one)) for one in range(len(words))]
    for i in range(100):
        for one, word in enumerate(words):
            if one == i % len(words):
                made.run(clerks[one], 10 * i, 10 * i + 10)
            elif one == (i + 1) % len(words):
                stack = made.stack(
                    clerks[one], "__lll_lock_wait", "pthread_mutex_lock", "post", running=False
                )
                begin = 10 * max(0, i - len(words) + 2)
                made.wait(clerks[one], begin, 10 * i + 10, clerks[i % len(words)], item=word, sample=stack)
    return made


@pytest.mark.parametrize("words", [(0x7010, 0x9010), (0x7010, 0x9010, 0xF010), (0x7010, 0x7010)])
def test_a_lock_in_shared_memory_may_lie_elsewhere_in_each_process(words: tuple[int, ...]) -> None:
    found = found_in(in_shared_memory(*words))
    assert found.limit.kind is LimitKind.LOCK
    (lock,) = found.locks
    assert lock.waits > 90


def test_words_at_other_places_of_their_pages_are_two() -> None:
    assert len(found_in(in_shared_memory(0x7010, 0x9020)).locks) == 2


@pytest.mark.parametrize("hogs", [1, 2, 3])
def test_threads_that_compute_beside_and_nobody_waits_for_hide_no_lock(hogs: int) -> None:
    made = contended(sample=True)
    for number in range(hogs):
        made.run(made.thread(f"miner {'abc'[number]}"), 0, 1000)
    found = found_in(made)
    assert (found.limit.kind, found.limit.name.split(" ")[0]) == (LimitKind.LOCK, "lock")


def test_a_thread_that_computes_is_not_beside_two_that_hardly_work() -> None:
    made = Made()
    made.thread("app")
    made.run(made.thread("compute"), 0, 1000)
    logger, writer = made.thread("logger"), made.thread("writer")
    for at in range(0, 1000, 100):
        made.run(logger, at, at + 1)
        made.wait(logger, at + 1, at + 100, writer)
        made.wait(writer, at, at + 99, logger)
        made.run(writer, at + 99, at + 100)
    assert named_in(made)[1] not in ("logger", "writer")


def by_one_word(*order: int, sample: str = "") -> Made:
    """Three roles that go on by turns in this order, each for 10 ms; the others wait for one word."""
    made = Made()
    made.thread("app")
    threads = [made.thread(name) for name in ("producer", "consumer", "janitor")]
    turns = [order[i % len(order)] for i in range(100)]
    since = [0, 0, 0]
    for i, one in enumerate(turns):
        made.run(threads[one], 10 * i, 10 * i + 10)
        after = turns[i + 1] if i < 99 else (one + 1) % 3
        stack = made.stack(threads[after], "syscall", sample, running=False) if sample else -1
        made.wait(threads[after], since[after], 10 * i + 10, threads[one], item=0x7000, sample=stack)
        since[one] = 10 * i + 10
    return made


def test_a_word_that_three_roles_hold_in_any_order_is_a_lock() -> None:
    found = found_in(by_one_word(0, 1, 2, 0, 2, 1, 0, 1, 0, 2, 1, 2, sample="take"))
    assert (found.limit.kind, found.limit.name) == (LimitKind.LOCK, "lock 0x7000 in take")


def test_a_word_by_which_three_roles_hand_a_turn_round_is_none() -> None:
    assert found_in(by_one_word(0, 1, 2, sample="take")).limit.kind is not LimitKind.LOCK
