"""Python's queues tell how long their users waited: the times of each stage are its own, not extrapolated."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(120)

# `slow` needs 6 ms for an event, `fast` 2 ms; `fast` is the last, of which no count tells when it is done.
THREADS = """
import os, queue, threading, time
{instrument}
def feed():
    while True:
        a.put(1)
def slow():
    while True:
        {take}
        time.sleep(0.006)
        b.put(1)
def fast():
    while True:
        b.get()
        time.sleep(0.002)
a, b = made(queue.Queue(8), "a", "feed", "slow"), made(queue.Queue(8), "b", "slow", "fast")
for work in (feed, slow, fast):
    threading.Thread(target=work, name=work.__name__, daemon=True).start()
time.sleep(1.6)
os._exit(0)
"""
MAIN = """\
async def main():
    a = made(asyncio.Queue(8), "a", "feed", "slow")
    b = made(asyncio.Queue(8), "b", "slow", "fast")
    tasks = [asyncio.create_task(work, name=work.__name__) for work in (feed(a), slow(a, b), fast(b))]
    await asyncio.sleep(1.6)
    os._exit(len(tasks) and 0)
asyncio.run(main())
"""
CHAIN = (
    """
import asyncio, os, time
{instrument}
async def feed(a):
    while True:
        await a.put(1)
async def slow(a, b):
    while True:
        await a.get()
        WORK
        await b.put(1)
async def fast(b):
    while True:
        await b.get()
        await asyncio.sleep(FAST)
"""
    + MAIN
)
TASKS = CHAIN.replace("WORK", "await asyncio.sleep(0.006)").replace("FAST", "0.002")
NATIVE = (
    "from latlab.queues import instrument\n"
    "def made(q, name, source, drain): return instrument(q, name=name, source=source, drain=drain)"
)
PLAIN = "def made(q, *_): return q"
POLLS = """
        while a.empty():
            time.sleep(0.0005)
        a.get_nowait()
"""


@pytest.mark.parametrize(
    ("program", "instrument", "take"),
    [
        (THREADS, NATIVE, "a.get()"),
        (THREADS, PLAIN, "a.get()"),
        (THREADS, NATIVE, POLLS.strip()),
        (TASKS, NATIVE, ""),
        (TASKS, PLAIN, ""),
    ],
    ids=["threads", "threads of an unchanged program", "who looks", "tasks", "tasks of an unchanged program"],
)
def test_a_stage_is_busy_for_as_long_as_it_does_not_wait(
    program: str, instrument: str, take: str, tmp_path: Path
) -> None:
    answer = _diagnosed(program, instrument, take, tmp_path)
    assert answer["limiting_stage"] == "slow"
    services = {part["where"]: part["ns"] for part in answer["budget"]["parts"] if part["kind"] == "service"}
    # The times of both are wide of a loaded machine's; by the counts alone that of the last is a guess.
    assert 2.0 < services["slow"] / services["fast"] < 3.6
    assert "(by its own times" in answer["evidence"][0]


def _diagnosed(program: str, instrument: str, take: str, folder: Path) -> dict[str, Any]:
    file = folder / "pipeline.py"
    file.write_text(textwrap.dedent(program).format(instrument=instrument, take=take))
    command = [
        sys.executable,
        "-m",
        "latlab",
        "diagnose",
        "--no-forecast",
        "--json",
        "-o",
        str(folder / "run"),
    ]
    done = subprocess.run(
        [*command, "--seconds", "4", "--", sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# `checks` computes for 4 ms, and `stores` sleeps for 1 ms: all are late since `checks` holds the loop.
COMPUTES = """await asyncio.sleep(0)  # the line after which it computes
        until = time.perf_counter() + 0.004
        while time.perf_counter() < until:
            pass"""
BLOCKS = (
    CHAIN.replace("WORK", COMPUTES)
    .replace("FAST", "0.001")
    .replace("slow", "checks")
    .replace("fast", "stores")
)


@pytest.mark.parametrize("instrument", [NATIVE, PLAIN], ids=["instrumented", "unchanged"])
def test_a_coroutine_that_holds_the_loop_is_named_with_its_line(instrument: str, tmp_path: Path) -> None:
    answer = _diagnosed(BLOCKS, instrument, "", tmp_path)
    assert answer["limiting_stage"] == "checks"
    program = (tmp_path / "pipeline.py").read_text().splitlines()
    line = next(number for number, text in enumerate(program, 1) if "the line after" in text)
    assert f"after the await at pipeline.py:{line}" in answer["sentence"]
