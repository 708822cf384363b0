"""The planted bottleneck of real threads: how often does `analyse` name it?

Four stages work by waiting (as on a disk or a reply), so that any number of threads runs at once on two CPUs;
one of them, in turn, takes 25 % longer for an event. Lines with a memory pool, with a queue between two
processes, and with a pool of workers at one stage; saturated. Service times are gamma distributed. In as many
lines nothing limits: all stages are alike, and events come at 60 % of what these could take.

Bars: named in at least 95 of 100 runs; where nothing limits, something is named in at most 2 %.

    python -m benchmarks.queues_threads [--runs 100] [--seconds 4] [--slower 0.25] [--seed 5]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter

STAGES = ("parse", "price", "check", "send")
LAYOUTS = ("memory pool", "two processes", "worker pool")
APPLICATION = """
import os, queue, random, sys, threading, time
from latlab._core import counting
from latlab.queues import MultiprocessingQueue, Queue, set_application, set_phase

layout, slow, slower, seed = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
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

def work(stage, lane):
    chance = random.Random(f"{seed} {stage} {lane}")
    workers = 3 if layout == "worker pool" and stage == 1 else 1
    mean = 0.002 * workers * (1 + slower if stage == slow else 1)
    while True:
        event = queues[stage].get()
        time.sleep(chance.gammavariate(4, mean / 4))
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
while True:
    if slow < 0:
        time.sleep(chance.expovariate(0.6 / 0.002))
    if tokens is not None:
        tokens.get()
        pool.get()
    queues[0].put(1)
"""


def named(layout: str, slow: int, slower: float, seconds: float, seed: int) -> str | None:
    """What `analyse` names."""
    from latlab.queues import Recorder, analyse

    arguments = [sys.executable, "-c", APPLICATION, layout, str(slow), str(slower), str(seed)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)  # until the line is full
        try:
            with Recorder("planted", period_ns=500_000) as recorder:
                time.sleep(seconds)
        finally:
            process.kill()
    return analyse(recorder.observation()).limiting_stage


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--slower", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    right: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="latlab-threads-") as folder:
        os.environ["LATLAB_COUNTERS"] = folder
        for number in range(options.runs):
            layout, slow = LAYOUTS[number % 3], (number // 3) % len(STAGES)
            for planted in (slow, -1):
                found = named(layout, planted, options.slower, options.seconds, options.seed + number)
                title = f"{layout}: {f'{options.slower:.0%} slower' if planted >= 0 else 'nothing limits'}"
                hit = found is None if planted < 0 else found is not None and found.startswith(STAGES[slow])
                runs[title] += 1
                right[title] += hit
                if not hit:
                    wanted = STAGES[slow] if planted >= 0 else "nothing"
                    print(f"{layout}, run {number}: {wanted} was planted, {found} named", flush=True)
    missed = 0
    for what, ending, bar in (("named", "slower", 0.95), ("nothing named", "limits", 0.98)):
        mine = [title for title in runs if title.endswith(ending)]
        for title in mine:
            print(f"{title}: right in {right[title]} of {runs[title]}")
        good, total = sum(right[title] for title in mine), sum(runs[title] for title in mine)
        met = good >= bar * total
        missed += not met
        print(f"{what}: {good} of {total}, bar {bar:.0%} {'met' if met else 'MISSED'}")
    return missed


if __name__ == "__main__":
    sys.exit(main())
