"""Python programs whose queues are counted without a changed line of them.

Over 400 lines: most of them are the programs, one for each way in which Python makes and uses a queue.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from latlab._core import queues as core
from latlab.errors import ExitCode
from latlab.queues import injected
from latlab.queues.sample.files import counter_files

pytestmark = pytest.mark.timeout(120)


def _works(python: str | None) -> bool:
    return python is not None and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


OTHERS = [f"python3.{minor}" for minor in (8, 9, 10, 12, 13, 14) if _works(shutil.which(f"python3.{minor}"))]


def _published() -> dict[Any, dict[str, Any]]:
    """By identity or place; two readings stand a moment apart."""
    time.sleep(0.2)
    found: dict[Any, dict[str, Any]] = {}
    for path in counter_files():
        reader = core.Reader(str(path))
        assert reader.state == "ready"
        for slot in range(reader.queue_count):
            view = reader.queue(slot)
            assert view is not None
            total_in, total_out, _, dropped, *_ = reader.counts(slot)
            counts = {"in": total_in, "out": total_out, "dropped": dropped}
            one = found.setdefault(view["identity"] or (str(path), slot), dict.fromkeys(counts, 0))
            for name, value in view.items():
                one[name] = one.get(name) or value
            for name, value in counts.items():
                one[name] += value
    return found


def _queues(
    folder: Path,
    source: str,
    *arguments: str,
    python: str = sys.executable,
    environment: dict[str, str] | None = None,
) -> dict[str, dict[str, Any]]:
    """Run a program until it says "ready", and read what it has published by then, by the queues' names.

    Ends that several processes publish of one queue are joined.
    """
    program = folder.parent / "feed.py"
    program.write_text(textwrap.dedent(source))
    process = subprocess.Popen(
        [python, *arguments, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=injected({**os.environ, **(environment or {})}, folder),
        cwd=folder.parent,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if line == "ready\n":
                break
        # An event is counted after it is in, or out: perhaps a moment after the program has gone on.
        found = _published()
        while (again := _published()) != found:
            found = again
    finally:
        output = "".join(lines) + process.communicate("\n", timeout=60)[0]
    assert process.returncode == 0, output
    return {one["name"]: one for one in found.values()}


def _ends(one: dict[str, Any]) -> tuple[str, str]:
    return one["source_name"], one["drain_name"]


THREADS = """
    import queue, sys, threading

    orders = queue.Queue(50)
    fills = queue.SimpleQueue()
    best = queue.PriorityQueue()

    def match():
        while (order := orders.get()) is not None:
            fills.put(order)
            best.put(order)

    def report():
        for _ in range(100):
            fills.get()

    threads = [threading.Thread(target=match), threading.Thread(target=report, name="reporter")]
    for one in threads: one.start()
    for number in range(100): orders.put(number)
    orders.put(None)
    for one in threads: one.join()
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.side_by_side
@pytest.mark.parametrize("python", [sys.executable, *OTHERS])
def test_queues_of_threads_are_named_by_the_code_that_makes_and_uses_them(
    counters: Path, python: str
) -> None:
    queues = _queues(counters, THREADS, python=python)
    assert set(queues) == {"orders (feed.py:4)", "fills (feed.py:5)", "best (feed.py:6)"}
    orders, fills = queues["orders (feed.py:4)"], queues["fills (feed.py:5)"]
    assert (_ends(orders), _ends(fills)) == (("main", "match"), ("match", "reporter"))
    assert (orders["in"], orders["out"], orders["capacity"]) == (101, 101, 50)
    assert (fills["in"], fills["out"], fills["implementation"]) == (100, 100, "queue.SimpleQueue")
    assert (queues["best (feed.py:6)"]["in"], queues["best (feed.py:6)"]["out"]) == (100, 0)


@pytest.mark.side_by_side
def test_threads_of_one_function_on_unlike_queues_are_unlike_stages(counters: Path) -> None:
    queues = _queues(
        counters,
        """
        import queue, sys, threading
        a = queue.Queue()
        b = queue.Queue()

        def stage(source, drain):
            while (item := source.get()) is not None:
                drain.put(item) if drain else None
            drain.put(None) if drain else None

        for i in range(9): a.put(i)
        first = threading.Thread(target=stage, args=(a, b))
        first.start()
        a.put(None)
        first.join()
        second = threading.Thread(target=stage, args=(b, None))
        second.start()
        second.join()
        print("ready", flush=True)
        sys.stdin.readline()
        """,
    )
    assert [_ends(one) for one in queues.values()] == [("main", "stage"), ("stage", "stage-2")]


@pytest.mark.side_by_side
def test_threads_that_do_the_same_on_queues_of_their_own_have_the_names_that_the_program_gave_them(
    counters: Path,
) -> None:
    queues = _queues(
        counters,
        """
        import queue, sys, threading
        lanes = [queue.Queue() for _ in range(3)]
        done = queue.Queue()

        def drain(source):
            while source.get() is not None:
                done.put(1)
            done.put(None)

        def count():
            while done.get() is not None: pass

        def run(*threads):
            for one in threads: one.start()
            for one in threads: one.join()

        for lane in lanes:
            lane.put(1)
            lane.put(None)
        for number, lane in enumerate(lanes):
            run(threading.Thread(target=drain, args=(lane,), name="lane-%d" % number))
            run(threading.Thread(target=count, name="count-%d" % number))
        print("ready", flush=True)
        sys.stdin.readline()
        """,
    )
    assert [_ends(one)[1] for one in queues.values()] == ["lane-0", "lane-1", "lane-2", "count"]


@pytest.mark.side_by_side
@pytest.mark.parametrize("python", [sys.executable, *OTHERS])
def test_queues_of_tasks_are_named_by_their_coroutines(counters: Path, python: str) -> None:
    queues = _queues(
        counters,
        """
        import asyncio, sys

        async def fetch(jobs):
            for number in range(40): await jobs.put(number)
            await jobs.put(None)

        async def render(jobs, pages):
            while (await jobs.get()) is not None: await pages.put(1)

        async def main():
            jobs = asyncio.Queue(10)
            pages = asyncio.Queue()
            await asyncio.gather(fetch(jobs), render(jobs, pages))
            print("ready", flush=True)
            sys.stdin.readline()

        asyncio.run(main())
        """,
        python=python,
    )
    (jobs, pages) = (queues["jobs (feed.py:12)"], queues["pages (feed.py:13)"])
    assert (_ends(jobs), jobs["in"], jobs["out"], jobs["capacity"]) == (("fetch", "render"), 41, 41, 10)
    assert (pages["source_name"], pages["in"], pages["out"]) == ("render", 40, 0)


def test_a_semaphore_is_a_pool_of_who_takes_and_gives_back(counters: Path) -> None:
    queues = _queues(
        counters,
        """
        import asyncio, sys

        async def fetch(gate, guard):
            for _ in range(10):
                async with gate:
                    await asyncio.sleep(0.001)
                async with guard: pass

        async def main():
            gate, guard = asyncio.Semaphore(2), asyncio.Lock()
            signal, ready = asyncio.Semaphore(0), asyncio.Semaphore(1)
            await asyncio.gather(*(fetch(gate, guard) for _ in range(5)))
            await ready.acquire()
            asyncio.get_running_loop().call_soon(ready.release)
            await ready.acquire()
            print("ready", flush=True)
            sys.stdin.readline()

        asyncio.run(main())
        """,
    )
    gate, guard = queues["gate (feed.py:11)"], queues["guard (feed.py:11)"]
    assert (_ends(gate), gate["in"], gate["out"], gate["capacity"]) == (("fetch", "fetch"), 52, 50, 2)
    assert (_ends(guard), guard["in"], guard["out"], guard["capacity"]) == (("fetch", "fetch"), 51, 50, 1)
    assert not any(name.startswith("signal") for name in queues)


def test_a_semaphore_of_threads_is_a_pool_of_who_takes_and_gives_back_and_a_signal_is_none(
    counters: Path,
) -> None:
    queues = _queues(
        counters,
        """
        import threading, time
        from concurrent.futures import ThreadPoolExecutor

        gate, seats = threading.Semaphore(2), threading.BoundedSemaphore(3)
        room, came = threading.Semaphore(4), threading.Semaphore(0)

        def visit():
            for _ in range(10):
                with gate:
                    time.sleep(0.001)
                seats.acquire(timeout=5)
                seats.release()
                room.acquire()
                came.release()

        def usher():
            for _ in range(50):
                came.acquire()
                room.release()

        threads = [threading.Thread(target=visit) for _ in range(5)] + [threading.Thread(target=usher)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        with ThreadPoolExecutor(2) as pool: pool.submit(time.sleep, 0.01)
        seats.acquire()
        assert not gate.acquire(False) or not gate.acquire(False) or not gate.acquire(False)
        print("ready", flush=True)
        input()
        """,
    )
    gate, seats = queues["gate (feed.py:5)"], queues["seats (feed.py:5)"]
    assert (_ends(gate)[0], gate["in"] - gate["out"], gate["capacity"]) == ("visit", 0, 2)
    assert (_ends(seats)[0], seats["in"] - seats["out"], seats["capacity"]) == ("visit", 2, 3)
    assert 45 <= gate["out"] <= 52  # what is taken before the first is given back is in it from the beginning
    assert not any(name.startswith(("room", "came")) for name in queues)


PROCESSES = """
    import multiprocessing, sys

    def work(orders, fills):
        while (order := orders.get()) is not None:
            fills.put(order)
        fills.put(None)
        orders.get()  # stays, so that its counts can be read

    if __name__ == "__main__":
        context = multiprocessing.get_context(METHOD)
        orders, fills = context.Queue(20), context.SimpleQueue()
        worker = context.Process(target=work, args=(orders, fills))
        worker.start()
        for number in range(30): orders.put(number)
        orders.put(None)
        while fills.get() is not None: pass
        print("ready", flush=True)
        sys.stdin.readline()
        orders.put(None)
        worker.join()
"""


@pytest.mark.side_by_side
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_queue_between_processes_is_one_queue(counters: Path, method: str) -> None:
    queues = _queues(counters, PROCESSES.replace("METHOD", repr(method)))
    orders, fills = sorted(queues.values(), key=lambda one: one["source_name"] != "main")
    assert (_ends(orders), _ends(fills)) == (("main", "work"), ("work", "main"))
    assert (orders["in"], orders["out"], fills["in"], fills["out"]) == (31, 31, 31, 31)


@pytest.mark.side_by_side
def test_a_queue_of_connections_is_a_pool_of_those_who_take_and_give_back(counters: Path) -> None:
    found = _queues(
        counters,
        """
        import queue, threading
        pool, work = queue.Queue(), queue.Queue()
        for one in ("first", "second"):
            pool.put(one)
        for _ in range(200):
            work.put(str(_))
        def handle():
            while True:
                work.get()
                got = pool.get()
                pool.put(got)
                work.task_done()
        for _ in range(4):
            threading.Thread(target=handle, daemon=True).start()
        work.join()
        print("ready", flush=True)
        input()
        """,
    )
    pool, work = found["pool (feed.py:3)"], found["work (feed.py:3)"]
    assert (pool["source_name"], pool["drain_name"]) == ("handle", "handle")
    assert (work["source_name"], work["drain_name"]) == ("main", "handle")


def test_a_queue_that_only_started_processes_use_has_the_name_of_who_made_it(counters: Path) -> None:
    found = _queues(
        counters,
        """
        import multiprocessing as mp
        def make(out):
            for one in range(20):
                out.put(one)
        def take(inlet, done):
            for _ in range(20):
                inlet.get()
            done.put(None)
        if __name__ == "__main__":
            mp.set_start_method("spawn")
            links, done = mp.Queue(5), mp.SimpleQueue()
            every = [mp.Process(target=make, args=(links,)), mp.Process(target=take, args=(links, done))]
            for one in every:
                one.start()
            done.get()
            print("ready", flush=True)
            input()
            for one in every:
                one.join()
        """,
    )
    assert {name.partition(" (")[0] for name in found} == {"links", "done"}


def test_pools_and_executors_are_named_by_what_they_do(counters: Path) -> None:
    queues = _queues(
        counters,
        """
        import multiprocessing, sys
        from concurrent.futures import ThreadPoolExecutor

        def square(number): return number * number
        def show(number): pass

        if __name__ == "__main__":
            with ThreadPoolExecutor(3) as shown, multiprocessing.Pool(2) as pool:
                for number in range(30): shown.submit(show, number)
                assert pool.map(square, range(30), chunksize=1)[-1] == 841
                shown.submit(show, 0).result()
                print("ready", flush=True)
                sys.stdin.readline()
        """,
    )
    named = {name: _ends(one) for name, one in queues.items()}
    assert ("main", "show") in named.values()
    calls, results = queues["calls pool (feed.py:9)"], queues["results pool (feed.py:9)"]
    assert (calls["drain_name"], calls["in"], calls["out"]) == ("square", 30, 30)
    assert (results["source_name"], results["in"], results["out"]) == ("square", 30, 30)


@pytest.mark.side_by_side
def test_an_executor_of_processes_is_one_queue_to_its_workers(counters: Path) -> None:
    queues = _queues(
        counters,
        """
        import sys
        from concurrent.futures import ProcessPoolExecutor

        def render(number): return number * number

        if __name__ == "__main__":
            with ProcessPoolExecutor(1) as pool:
                assert [one.result() for one in [pool.submit(render, n) for n in range(30)]][-1] == 841
                print("ready", flush=True)
                sys.stdin.readline()
        """,
    )
    (calls,) = [one for one in queues.values() if one["drain_name"] == "render"]
    assert (calls["in"], calls["out"]) == (30, 30)
    assert not any(
        "ExecutorManager" in one["drain_name"] and one["in"] > 1
        for one in queues.values()
        if one["source_name"] == "main"
    )


@pytest.mark.side_by_side
def test_the_site_s_own_sitecustomize_runs_and_the_path_is_what_it_was(counters: Path) -> None:
    site = counters.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins\nbuiltins.was_here = True\n")
    queues = _queues(
        counters,
        """
        import queue, sys
        assert was_here
        assert not any("_inject" in path for path in sys.path), sys.path
        assert sys.modules["sitecustomize"].__file__.endswith("site/sitecustomize.py")
        q = queue.Queue()
        q.put(1)
        print("ready", flush=True)
        sys.stdin.readline()
        """,
        environment={"PYTHONPATH": str(site)},
    )
    assert set(queues) == {"q (feed.py:6)"}


@pytest.mark.side_by_side
def test_a_program_that_ignores_the_environment_runs_as_it_would(counters: Path) -> None:
    assert _queues(counters, THREADS, "-I") == {}


@pytest.mark.side_by_side
def test_what_is_instrumented_by_hand_is_counted_once(counters: Path) -> None:
    queues = _queues(
        counters,
        """
        import queue, sys
        from latlab.queues import Queue, SimpleQueue, instrument
        a = instrument(queue.Queue(), name="a")
        b, c = Queue(name="b"), SimpleQueue(name="c")
        for one in (a, b, c):
            one.put(1)
        print("ready", flush=True)
        sys.stdin.readline()
        """,
    )
    assert {name: one["in"] for name, one in queues.items()} == {"a": 1, "b": 1, "c": 1}


@pytest.mark.side_by_side
def test_events_that_are_refused_and_do_not_come_again_are_dropped(counters: Path) -> None:
    queues = _queues(
        counters,
        """
        import asyncio, queue, sys
        lossy, patient, tasks = queue.Queue(4), queue.Queue(4), asyncio.Queue(4)
        def offer(put, event, full):
            try: put(event)
            except full: return False
            return True
        for number in range(10): offer(lossy.put_nowait, number, queue.Full)
        for number in range(10): offer(tasks.put_nowait, number, asyncio.QueueFull)
        for number in range(20):
            while not offer(patient.put_nowait, number, queue.Full):
                offer(patient.put_nowait, number, queue.Full)
                patient.get()
        print("ready", flush=True)
        sys.stdin.readline()
        """,
    )
    assert {name.partition(" ")[0]: one["dropped"] for name, one in queues.items()} == {
        "lossy": 5,  # of six: the last one may come again
        "patient": 0,
        "tasks": 5,
    }


@pytest.mark.side_by_side
def test_a_subclass_that_calls_its_parent_is_counted_once(counters: Path) -> None:
    queues = _queues(
        counters,
        """
        import queue, sys
        class Unique(queue.Queue):
            def _put(self, item):
                if item not in self.queue:
                    super()._put(item)
        class Own(queue.Queue):
            def _init(self, maxsize): self.items = []
            def _qsize(self): return len(self.items)
            def _put(self, item): self.items.append(item)
            def _get(self): return self.items.pop()
        unique = Unique()
        own = Own()
        for one in (unique, own):
            one.put(1)
            one.put(2)
            one.get()
        print("ready", flush=True)
        sys.stdin.readline()
        """,
    )
    assert {(one["in"], one["out"]) for one in queues.values()} == {(2, 1)}
    assert set(queues) == {"unique (feed.py:12)", "own (feed.py:13)"}


SLOW = """
    import queue, threading, time

    lines = queue.Queue(50)
    records = queue.Queue(50)

    def parse():
        while (line := lines.get()) is not None:
            SLOW_PARSE
            records.put(line)
        records.put(None)

    def store():
        while records.get() is not None:
            SLOW_STORE

    threads = [threading.Thread(target=parse), threading.Thread(target=store)]
    for one in threads: one.start()
    for number in range(800): lines.put(number)
    lines.put(None)
    for one in threads: one.join()
"""


@pytest.mark.parametrize("slow", ["parse", "store"])
def test_the_slow_stage_of_an_unchanged_program_is_named(tmp_path: Path, slow: str) -> None:
    program = tmp_path / "app.py"
    text = textwrap.dedent(SLOW)
    for stage in ("parse", "store"):
        text = text.replace(f"SLOW_{stage.upper()}", "time.sleep(0.003)" if stage == slow else "pass")
    program.write_text(text)
    command = ["diagnose", "--no-forecast", "--json", "-o", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "latlab", *command, "--", sys.executable, str(program)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode in (ExitCode.OK, ExitCode.NOT_TRUSTWORTHY), done.stderr
    answer = json.loads(done.stdout)
    assert answer["limiting_stage"] == slow
    assert any("lines (app.py:4)" in line or "records (app.py:5)" in line for line in answer["evidence"])
