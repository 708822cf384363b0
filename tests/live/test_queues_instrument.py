import asyncio
import collections
import concurrent.futures
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from latlab._core import counting
from latlab._core import queues as core
from latlab.queues import AsyncQueue, CountedExecutor, Recorder, instrument
from latlab.queues.count.standard import (
    Deque,
    LifoQueue,
    PriorityQueue,
    Queue,
    SimpleQueue,
)
from latlab.queues.sample.follow import Follower

pytestmark = pytest.mark.side_by_side  # what is counted is read: no time is judged


def totals(counted: Any) -> Any:
    return counted.counts.total_in, counted.counts.total_out


@pytest.mark.parametrize("made", [Queue, LifoQueue, PriorityQueue])
def test_a_drop_in_queue_behaves_as_the_standard_one_and_counts(made: Any) -> None:
    q = made(2)
    q.put(1)
    q.put(2)
    with pytest.raises(queue.Full):
        q.put_nowait(3)
    assert sorted([q.get(), q.get()]) == [1, 2]
    with pytest.raises(queue.Empty):
        q.get_nowait()
    assert (q.maxsize, q.qsize(), totals(q)) == (2, 0, (2, 2))


def test_an_asyncio_queue_counts_and_keeps_its_bound() -> None:
    async def use() -> Any:
        q = AsyncQueue(1)
        await q.put(1)
        with pytest.raises(asyncio.QueueFull):
            q.put_nowait(2)
        assert await q.get() == 1
        return totals(q)

    assert asyncio.run(use()) == (1, 1)


def test_a_simple_queue_counts_only_what_came_and_went() -> None:
    q = SimpleQueue()
    q.put("a")
    assert q.get() == "a"
    with pytest.raises(queue.Empty):
        q.get_nowait()
    with pytest.raises(queue.Empty):
        q.get(timeout=0.001)
    assert totals(q) == (1, 1)


def test_a_deque_counts_at_both_ends_and_what_falls_off_as_dropped() -> None:
    d = Deque([1, 2], maxlen=3)
    d.extend([3, 4])
    d.appendleft(0)
    assert list(d) == [0, 2, 3]
    d.pop()
    d.clear()
    assert totals(d) == (5, 5)
    with pytest.raises(IndexError):
        d.popleft()
    assert totals(d) == (5, 5)


def test_no_count_is_lost_between_threads() -> None:
    q = SimpleQueue()

    def turns() -> None:
        for i in range(5000):
            q.put(i)
            q.get()

    threads = [threading.Thread(target=turns) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals(q) == (20000, 20000)


class Own(queue.Queue[Any]):
    def _put(self, item: Any) -> None:
        super()._put(-item)


@pytest.mark.parametrize("made", [queue.Queue, queue.LifoQueue, queue.PriorityQueue, asyncio.Queue, Own])
def test_an_existing_queue_is_counted_where_it_is(made: Any) -> None:
    q = made(5)
    q.put_nowait(1)
    same = instrument(q, name="here", source=("feed", "feed-1"), drain="book")
    assert same is q
    assert isinstance(q, made)
    q.put_nowait(2)
    q.get_nowait()
    assert totals(q) == (2, 1)
    assert q.maxsize == 5


def test_stand_ins_hold_what_the_original_held() -> None:
    simple: queue.SimpleQueue[int] = queue.SimpleQueue()
    simple.put(7)
    assert instrument(simple).get() == 7
    assert list(instrument(collections.deque([1, 2], maxlen=4))) == [1, 2]
    with pytest.raises(TypeError):
        instrument([])


def test_calls_wait_in_an_executor_until_a_worker_begins() -> None:
    begun, go = threading.Event(), threading.Event()

    def begin() -> bool:
        begun.set()
        return go.wait(20)

    with CountedExecutor(concurrent.futures.ThreadPoolExecutor(1), name="pool") as pool:
        first = pool.submit(begin)
        second = pool.submit(int, "7")
        third = pool.submit(int, "8")
        assert begun.wait(20)
        assert totals(pool) == (3, 1)
        assert third.cancel()
        assert totals(pool) == (3, 2)
        go.set()
        assert (first.result(20), second.result(20)) == (True, 7)
    assert totals(pool) == (3, 3)


BETWEEN_PROCESSES = """
import multiprocessing, os, sys
from latlab.queues import MultiprocessingQueue
from latlab.queues.sample.follow import Follower

def child(q, count, go):
    for i in range(count):
        q.put(i)
    go.wait(60)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    q = MultiprocessingQueue(ctx=context, name="between")
    go = context.Event()
    q.put("mine")
    process = context.Process(target=child, args=(q, 4, go))
    process.start()
    assert [q.get(timeout=60) for _ in range(5)].count("mine") == 1
    follower = Follower([os.getpid(), process.pid])
    follower.refresh()
    found = [n for n in follower.queues if n.name == "between"]
    go.set()
    process.join()
    counts = follower.counts(found[0].number)
    print([len(n.processes) for n in found], counts[0], counts[2])
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_multiprocessing_queue_is_one_queue_over_its_processes(
    method: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("LATLAB_COUNTERS", str(tmp_path / "counters"))
    (tmp_path / "program.py").write_text(BETWEEN_PROCESSES)
    command = [sys.executable, str(tmp_path / "program.py"), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2] 5 5\n", "")


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_what_a_process_put_in_counts_also_for_an_observer_that_comes_after_its_end(
    method: Any, tmp_path: Any, monkeypatch: Any
) -> None:
    monkeypatch.setenv("LATLAB_COUNTERS", str(tmp_path / "counters"))
    before = "    follower = Follower([os.getpid(), process.pid])\n    follower.refresh()\n"
    late = BETWEEN_PROCESSES.replace(before, "    go.set()\n    process.join()\n" + before)
    assert late != BETWEEN_PROCESSES
    (tmp_path / "program.py").write_text(late)
    command = [sys.executable, str(tmp_path / "program.py"), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[2] 5 5\n", "")


def test_names_that_are_given_later_fill_the_topology() -> None:
    q = Queue()
    q.counts.set_name("late")
    q.counts.set_source("feed", "feed-1")
    q.counts.set_drain(name="book")
    follower = Follower([os.getpid()])
    follower.refresh()
    found = next(n for n in follower.queues if n.name == "late")
    assert (found.source_type, found.source, found.drain) == ("feed", "feed-1", "book")


def test_threads_that_only_set_up_do_not_become_producers() -> None:
    q = Queue(name="threads")
    q.put(0)
    q.counts.forget_threads()
    worker = threading.Thread(target=q.put, args=(1,))
    worker.start()
    worker.join()
    reader = core.Reader(counting.counter_file())
    slot = next(i for i in range(reader.queue_count) if (reader.queue(i) or {}).get("name") == "threads")
    assert reader.threads_of(slot) == (worker.native_id, 0)


VICTIM = """
import sys, time
from latlab._core import counting
counting.set_application("victim")
slots = []
print("ready", flush=True)
number = int(sys.argv[1])
while True:
    # Every count of this process is a multiple of its own number: a misattributed sample would show.
    slot = counting.Slot(name=f"v{number}", source_name="a", drain_name="b", capacity=1000)
    for _ in range(50):
        slot.put(number)
        slot.get(number)
    slots.append(slot)
    if len(slots) > 20:
        slots.clear()
    time.sleep(0.002)
"""


def test_random_kills_leave_the_observer_whole_and_nothing_misattributed(
    monkeypatch: Any, tmp_path: Any
) -> None:
    monkeypatch.setenv("LATLAB_COUNTERS", str(tmp_path / "counters"))
    chance = random.Random(5)
    numbers = iter((1009, 1013, 1019, 1021, 1031, 1033))

    def start() -> Any:
        number = next(numbers)
        process = subprocess.Popen(
            [sys.executable, "-c", VICTIM, str(number)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    kills = 4
    seen_pids, died = set(), []

    def note(event: Any) -> None:
        if event.event == "appeared":
            seen_pids.add(event.description["pid"])
        if event.event == "died":
            died.append(event.description["pid"])

    process = start()
    killed = []
    recorder = Recorder("victim", period_ns=500_000)
    recorder.on_event = note
    deadline = time.monotonic() + 60
    with recorder:
        for kill in range(kills):
            while process.pid not in seen_pids and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.1))
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stdout.close()
            killed.append(process.pid)
            if kill + 1 < kills:
                process = start()
        while set(died) != set(killed) and time.monotonic() < deadline:
            time.sleep(0.01)
    assert set(died) == set(killed)
    seen = recorder.observation()
    number_of = {q.number: int(q.name[1:]) for q in seen.queues if q.name}
    rows = seen.samples
    for i in range(len(rows["queue"])):
        number = number_of.get(int(rows["queue"][i]))
        if number is not None:
            assert int(rows["in"][i]) % number == 0
            assert int(rows["out_high"][i]) % number == 0
