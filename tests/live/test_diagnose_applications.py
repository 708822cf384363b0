"""Applications of several processes: a parent by its id with its children, and two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from latlab.errors import ExitCode

# Three processes, of which the parent only waits; `resize` takes five times as long as the others.
FAMILY = """
import multiprocessing, sys, time
from latlab.queues import MultiprocessingQueue


def load(images):
    while True:
        images.put(1)
        time.sleep(0.0005)


def resize(images, small):
    while True:
        small.put(images.get())
        time.sleep(0.005)


def store(small):
    while True:
        small.get()
        time.sleep(0.001)


if __name__ == "__main__":
    images = MultiprocessingQueue(30, name="images", source="load", drain="resize")
    small = MultiprocessingQueue(30, name="small", source="resize", drain="store")
    for target, arguments in ((load, (images,)), (resize, (images, small)), (store, (small,))):
        multiprocessing.Process(target=target, args=arguments, daemon=True).start()
    print("runs", flush=True)
    time.sleep(60)
"""

PAIR = """
import queue, sys, threading, time
raw, rows = queue.Queue(30), queue.Queue(30)
took = dict(zip(("parse", "store"), map(float, sys.argv[1:])))


def parse():
    while True:
        rows.put(raw.get())
        time.sleep(took["parse"])


def store():
    while True:
        rows.get()
        time.sleep(took["store"])


for target in (parse, store):
    threading.Thread(target=target, daemon=True).start()
end = time.time() + 4
while time.time() < end:
    raw.put(1)
"""


@pytest.fixture
def family(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    program = tmp_path / "family.py"
    program.write_text(FAMILY, encoding="utf-8")
    command: list[str | Path] = [sys.executable, program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        yield process
        os.killpg(process.pid, signal.SIGKILL)  # with its children, which would go on


def diagnosed(*arguments: str | Path) -> dict[str, object]:
    command = [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--json", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode == ExitCode.NOT_TRUSTWORTHY:
        pytest.skip(f"withheld on this machine: {json.loads(done.stdout)['distrust']}")
    assert (done.returncode, done.stderr if done.returncode else "") == (ExitCode.OK, "")
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_the_children_of_a_process_belong_to_it(family: subprocess.Popen[str], tmp_path: Path) -> None:
    answer = diagnosed("--seconds", "4", "-o", tmp_path / "run", "--pid", str(family.pid))
    assert (answer["verdict"], answer["limiting_stage"]) == ("stage", "resize")
    analysis = json.loads((tmp_path / "run/observation/diagnosis.json").read_text(encoding="utf-8"))
    # Both sides of each queue are in other processes: one of them alone would count above its capacity.
    assert {queue["name"] for queue in analysis["queues"]} == {"images", "small"}
    assert all(queue["fill"]["mean"] <= queue["capacity"] + 1 for queue in analysis["queues"])
    assert family.poll() is None


def test_two_copies_of_a_program_have_a_verdict_and_a_budget_each(tmp_path: Path) -> None:
    program = tmp_path / "pair.py"
    program.write_text(PAIR, encoding="utf-8")
    both = textwrap.dedent(f"""\
        {sys.executable} {program} 0.006 0.001 &
        {sys.executable} {program} 0.001 0.008 &
        wait
    """)
    answer = diagnosed("--seconds", "8", "-o", tmp_path / "run", "--", "sh", "-c", both)
    lines = answer["lines"]
    assert isinstance(lines, list)
    if any(line["limiting_stage"] is None for line in lines):
        pytest.skip("a line was withheld on this machine")
    assert sorted(line["limiting_stage"].split()[0] for line in lines) == ["parse", "store"]
    assert answer["budget"] is None  # a mean over two applications is nobody's
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert all(f'id="{anchor}"' in page for anchor in ("budget", "budget-2"))
    assert len({line["limiting_stage"].split()[-1] for line in lines}) == 2
    for line in lines:
        waits = {part["where"]: part["ns"] for part in line["budget"]["parts"] if part["kind"] == "service"}
        assert set(waits) == set(line["stages"])
        assert 4e6 < waits[line["limiting_stage"]] < 30e6
