"""The planted bottleneck of real threads: how often does `analyse` name it?

Four stages work by waiting (as on a disk or a reply), so that any number of threads runs at once on two CPUs;
one of them, in turn, takes 25 % longer for an event. Lines with a memory pool, with a queue between two
processes, and with a pool of workers at one stage; saturated. Service times are gamma distributed. In as many
lines nothing limits: all stages are alike, and events come at 60 % of what these could take.

Bars: named in at least 95 of 100 runs; where nothing limits, something is named in at most 2 %.

With `--work computes` the stages take CPU time instead, four threads on what CPUs there are (no pool of
workers then: it would get more CPUs than its stage needs; and 60 % is of what the CPUs can do). `--beside`
puts processes that compute beside the application.

Outcomes are kept a line each, and a series that was broken off goes on where it stopped; `--keep` takes the
recordings of the runs that were judged wrong.

    python -m benchmarks.queues_threads [--runs 100] [--seconds 4] [--slower 0.25] [--seed 5]
        [--minutes M] [--results FILE] [--keep FOLDER] [--only TEXT] [--beside N] [--work computes]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks._options import add_series, parser_of
from latlab.formats.recording import RecordingWriter
from latlab.queues import Recorder, analyse, load
from latlab.system.environment import capture

STAGES = ("parse", "price", "check", "send")
LAYOUTS = ("memory pool", "two processes", "worker pool")
APPLICATION = """
import os, queue, random, sys, threading, time, zlib
from latlab._core import counting
from latlab.queues import MultiprocessingQueue, Queue, set_application, set_phase

layout, slow, slower, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
computes = sys.argv[5] == "computes"
stages = ("parse", "price", "check", "send")
set_application("planted")
ends = [("", "source"), *((name, f"{name}-0") for name in stages)]
if layout == "worker pool":
    ends[2] = ("price", "")  # three threads, no one of which is the stage
queues = [Queue(16, name=f"to-{stages[i]}", source=ends[i], drain=ends[i + 1]) for i in range(4)]
if layout == "two processes":
    queues[2] = MultiprocessingQueue(16, name="to-check", source=ends[2], drain=ends[3])
tokens = pool = None
if layout == "memory pool":
    tokens = queue.SimpleQueue()
    pool = counting.Slot(name="pool", kind=3, capacity=48, source_name="send-0", drain_name="source")
    for _ in range(48):
        tokens.put(None)
    pool.put(48)

block = bytes(100_000)  # large enough that the interpreter's lock is let go meanwhile

def serve(seconds):
    if not computes:
        time.sleep(seconds)
        return
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        zlib.crc32(block)

def work(stage, lane):
    chance = random.Random(f"{seed} {stage} {lane}")
    workers = 3 if layout == "worker pool" and stage == 1 else 1
    mean = 0.002 * workers * (1 + slower if stage == slow else 1)
    while True:
        event = queues[stage].get()
        serve(chance.gammavariate(4, mean / 4))
        if stage < 3:
            queues[stage + 1].put(event)
        elif tokens is not None:
            tokens.put(None)
            pool.put()

def start(those):
    for stage in those:
        for lane in range(3 if layout == "worker pool" and stage == 1 else 1):
            threading.Thread(target=work, args=(stage, lane), daemon=True).start()

def orphaned(parent):
    while os.getppid() == parent:
        time.sleep(0.1)
    os._exit(0)

parent = os.getpid()
if layout == "two processes" and os.fork() == 0:
    set_phase("running")
    start((2, 3))
    orphaned(parent)
start((0, 1) if layout == "two processes" else range(4))
set_phase("running")
print("ready", flush=True)
chance = random.Random(f"{seed} source")
most = min(1, os.cpu_count() / len(stages)) if computes else 1  # of what a stage could take alone
while True:
    if slow < 0:
        time.sleep(chance.expovariate(0.6 * most / 0.002))
    if tokens is not None:
        tokens.get()
        pool.get()
    queues[0].put(1)
"""


def recorded(
    layout: str, slow: int, slower: float, seconds: float, seed: int, output: Path, work: str = "waits"
) -> None:
    """Run the application and record it."""
    arguments = [sys.executable, "-c", APPLICATION, layout, str(slow), str(slower), str(seed), work]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)  # until the line is full
        try:
            with RecordingWriter(output, "queues", parameters={}, environment=capture()) as writer:
                recorder = Recorder("planted", period_ns=500_000)
                recorder.sink = writer
                with recorder:
                    time.sleep(seconds)
        finally:
            process.kill()


def judged(layout: str, title: str, number: int, slow: int, options: argparse.Namespace) -> dict[str, Any]:
    """One run, and what `analyse` made of it."""
    with tempfile.TemporaryDirectory(prefix="latlab-threads-") as folder:
        os.environ["LATLAB_COUNTERS"] = folder
        output = Path(folder) / "run"
        recorded(layout, slow, options.slower, options.seconds, options.seed + number, output, options.work)
        found = analyse(load(output))
        name = found.limiting_stage
        right = name is None if slow < 0 else name is not None and name.startswith(STAGES[slow])
        if not right and options.keep is not None:
            kept = "-".join(title.replace(":", "").replace(",", "").split())
            shutil.copytree(output, options.keep / f"{kept}-{number}", dirs_exist_ok=True)
    return {
        "title": title,
        "run": number,
        "planted": STAGES[slow] if slow >= 0 else None,
        "named": name,
        "verdict": str(found.verdict),
        "confidence": round(found.confidence, 4),
        "right": right,
        "evidence": found.evidence,
    }


def report(outcomes: list[dict[str, Any]]) -> int:
    """Print how often was right what, and count the bars that were missed."""
    runs = Counter(one["title"] for one in outcomes)
    right = Counter(one["title"] for one in outcomes if one["right"])
    for title in runs:
        print(f"{title}: right in {right[title]} of {runs[title]}")
    missed = 0
    for what, planted, bar in (("named", True, 0.95), ("nothing named", False, 0.98)):
        mine = [one for one in outcomes if (one["planted"] is not None) == planted]
        good = sum(one["right"] for one in mine)
        met = good >= bar * len(mine)
        missed += not met
        print(f"{what}: {good} of {len(mine)}, bar {bar:.0%} {'met' if met else 'MISSED'}")
    wrong = [one for one in outcomes if not one["right"] and one["named"] is not None]
    print(f"a wrong stage was named in {len(wrong)} of {len(outcomes)} runs")
    return missed


def run_what_is_left(
    options: argparse.Namespace, outcomes: list[dict[str, Any]], done: set[tuple[str, int]], until: float
) -> None:
    """Run after run, each kept as soon as it is there."""
    how = ", computing" if options.work == "computes" else ""
    how += f", {options.beside} beside" if options.beside else ""
    for number in range(options.runs):
        layout, slow = LAYOUTS[number % 3], (number // 3) % len(STAGES)
        if options.work == "computes" and layout == "worker pool":
            continue
        for planted in (slow, -1):
            title = f"{layout}{how}: {f'{options.slower:.0%} slower' if planted >= 0 else 'nothing limits'}"
            if options.only not in title or (title, number) in done or time.monotonic() >= until:
                continue
            one = judged(layout, title, number, planted, options)
            outcomes.append(one)
            if options.results is not None:
                with options.results.open("a") as file:
                    file.write(json.dumps(one) + "\n")
            if not one["right"]:
                wanted = one["planted"] or "nothing"
                print(f"{title}, run {number}: {wanted} was planted, {one['named']} named", flush=True)


def main() -> int:
    """Parse, run, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--runs", type=int, default=100, help="with a slow stage; as many without")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--slower", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=5)
    add_series(parser, "runs", "runs that were judged wrong")
    parser.add_argument("--work", choices=("waits", "computes"), default="waits")
    parser.add_argument("--beside", type=int, default=0, metavar="N", help="processes that compute meanwhile")
    options = parser.parse_args()
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + 60 * options.minutes
    outcomes: list[dict[str, Any]] = []
    if options.results is not None and options.results.exists():
        outcomes = [json.loads(line) for line in options.results.read_text().splitlines()]
    done = {(one["title"], one["run"]) for one in outcomes}
    neighbours = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(options.beside)]
    try:
        run_what_is_left(options, outcomes, done, until)
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()
    return report(outcomes)


if __name__ == "__main__":
    sys.exit(main())
