"""Components in pools of processes and threads: recorded and replayed by their arguments, and measured."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

WORK = """import time
def step(i):
    end = time.thread_time() + 0.002
    while time.thread_time() < end: pass
    return i * i
"""
POOL = "import multiprocessing as mp"
FUTURES = "from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor"
# How the calls are made: (what stands first, the statement that makes `found`).
KINDS = {
    "Pool.map": (POOL, "with mp.Pool(2) as pool: found = pool.map(work.step, range(24))"),
    "Pool.imap": (POOL, "with mp.Pool(2) as pool: found = list(pool.imap(work.step, range(24)))"),
    "Pool.imap_unordered": (
        POOL, "with mp.Pool(2) as pool: found = sorted(pool.imap_unordered(work.step, range(24), 4))",
    ),
    "Pool.apply_async": (
        POOL,
        "with mp.Pool(2) as pool: found = [r.get() for r in [pool.apply_async(work.step, (i,)) for i in "
        "range(24)]]",
    ),
    "Pool, closed and joined": (
        POOL, "pool = mp.Pool(2); found = pool.map(work.step, range(24)); pool.close(); pool.join()",
    ),
    "Pool, few tasks a process": (
        POOL, "with mp.Pool(2, maxtasksperchild=2) as pool: found = pool.map(work.step, range(24), 2)",
    ),
    "Pool, spawned": (POOL, "with mp.get_context('spawn').Pool(2) as pool: found = pool.map(work.step, "
    "range(24))"),
    "Pool, of a fork server": (
        POOL, "with mp.get_context('forkserver').Pool(2) as pool: found = pool.map(work.step, range(24))",
    ),
    "ProcessPoolExecutor": (
        FUTURES, "with ProcessPoolExecutor(2) as pool: found = list(pool.map(work.step, range(24)))",
    ),
    "ProcessPoolExecutor, spawned": (
        f"{FUTURES}; {POOL}",
        "with ProcessPoolExecutor(2, mp.get_context('spawn')) as pool: found = list(pool.map(work.step, "
        "range(24)))",
    ),
    "ThreadPoolExecutor": (
        FUTURES, "with ThreadPoolExecutor(2) as pool: found = list(pool.map(work.step, range(24)))",
    ),
    "ThreadPool": (
        "from multiprocessing.pool import ThreadPool",
        "with ThreadPool(2) as pool: found = pool.map(work.step, range(24))",
    ),
    "joblib": (
        "import joblib", "found = joblib.Parallel(2)(joblib.delayed(work.step)(i) for i in range(24))",
    ),
    "joblib, threads": (
        "import joblib",
        "found = joblib.Parallel(2, prefer='threads')(joblib.delayed(work.step)(i) for i in range(24))",
    ),
    "asyncio.to_thread": (
        "import asyncio\nasync def all_of():\n    return await asyncio.gather("
        "*(asyncio.to_thread(work.step, i) for i in range(24)))",
        "found = asyncio.run(all_of())",
    ),
}  # fmt: skip


def planted(folder: Path, kind: str) -> list[str]:
    first, statement = KINDS[kind]
    if "joblib" in first and importlib.util.find_spec("joblib") is None:
        pytest.skip("joblib is not installed")
    (folder / "work.py").write_text(WORK)
    (folder / "app.py").write_text(
        f"import work\n{first}\nif __name__ == '__main__':\n    {statement}\n    print(found)\n"
    )
    return [sys.executable, "app.py"]


def stubs(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "latlab", "stubs", *words],
        cwd=folder, capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def recorded_and_replayed(folder: Path, *named: str) -> str:
    """What app.py prints in a replay of its 24 calls."""
    done = stubs(folder, "record", *named, "-o", "t.trace", "--json", "--", sys.executable, "app.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results"] == 24
    done = stubs(folder, "replay", "t.trace", *named, "--", sys.executable, "app.py")
    assert done.returncode == 0, done.stderr
    assert "24 calls of work:step replayed" in done.stderr
    return done.stdout


@pytest.mark.side_by_side
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_pools_calls_are_recorded_and_replayed_by_their_arguments(kind: str, tmp_path: Path) -> None:
    command = planted(tmp_path, kind)
    recorded = stubs(
        tmp_path, "record", "--component", "work:step", "-o", "t.trace", "--json", "--", *command
    )
    assert recorded.returncode == 0, recorded.stderr
    assert json.loads(recorded.stdout)["results"] == 24
    done = stubs(tmp_path, "replay", "t.trace", "--component", "work:step", "--", *command)
    assert done.returncode == 0, done.stderr
    assert "24 calls of work:step replayed" in done.stderr
    assert done.stdout == f"{[i * i for i in range(24)]}\n"
    assert "Traceback" not in done.stderr


LEFT = """import os, work
total = 0
for k in range(3):
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, b"%d" % sum(work.step(i) for i in range(8 * k, 8 * k + 8)))
        {end}
    os.close(write)
    total += int(os.read(read, 20))
    os.wait()
print(total)
"""


WORKERS = """import multiprocessing as mp, work
def worker(tasks, results):
    for i in iter(tasks.get, None): results.put(work.step(i))
if __name__ == "__main__":
    context = mp.get_context("{method}")
    tasks, results = context.Queue(), context.Queue()
    workers = [context.Process(target=worker, args=(tasks, results), daemon=True) for _ in range(2)]
    for one in workers: one.start()
    for i in range(24): tasks.put(i)
    print(sorted(results.get() for _ in range(24)))
    for one in workers: one.terminate()
    for one in workers: one.join()
"""


@pytest.mark.side_by_side
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_that_take_tasks_from_a_queue_are_told_by_their_arguments(
    method: str, tmp_path: Path
) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "app.py").write_text(WORKERS.replace("{method}", method))
    named = ("--component", "work:step")
    assert recorded_and_replayed(tmp_path, *named) == f"{[i * i for i in range(24)]}\n"


@pytest.mark.side_by_side
def test_a_replay_of_another_program_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "app.py").write_text("import work\nprint(work.step(1))\n")
    (tmp_path / "other.py").write_text("import work\nprint(work.step(1), work.step(2))\n")
    named = ("--component", "work:step")
    done = stubs(tmp_path, "record", *named, "-o", "t.trace", "--", sys.executable, "app.py")
    assert done.returncode == 0, done.stderr
    done = stubs(tmp_path, "replay", "t.trace", *named, "--", sys.executable, "other.py")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "work:step: called more often than it was recorded (1 times)" in done.stderr


@pytest.mark.side_by_side
def test_what_a_child_calls_that_leaves_by_exit_is_kept(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "app.py").write_text(LEFT.format(end="os._exit(0)"))
    named = ("--keyed", "--component", "work:step")
    recorded_and_replayed(tmp_path, *named)


NOTED = """import ctypes, functools, multiprocessing, operator, os, signal
from latlab._core import stubs_replay
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
stubs_replay.insist(signal.SIGTERM)
held = multiprocessing.Lock()
held.acquire()
# One call of C for the interpreter, which looks for signals before it and after it only.
list(map(operator.call, [functools.partial(getattr(ctypes.CDLL(None), "raise"), 15), held.acquire]))
"""


def test_a_signal_that_comes_just_before_a_wait_ends_the_wait() -> None:
    done = subprocess.run([sys.executable, "-c", NOTED], check=False, timeout=60)
    assert done.returncode == 7


@pytest.mark.side_by_side
def test_children_that_are_killed_are_what_is_told(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "app.py").write_text(LEFT.format(end="os.kill(os.getpid(), 9)"))
    done = stubs(tmp_path, "record", "--component", "work:step", "--", sys.executable, "app.py")
    assert done.returncode == 2
    assert "3 of 4 processes that import 'work:step' were killed" in done.stderr


@pytest.mark.side_by_side
def test_a_component_in_a_pool_is_studied(tmp_path: Path) -> None:
    command = planted(tmp_path, "Pool.map")
    (tmp_path / "study.toml").write_text('component = "work:step"\nseconds = 60\nrounds = 4\n')
    done = stubs(tmp_path, "study", "study.toml", "--json", "--", *command)
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["calls"] == 24
