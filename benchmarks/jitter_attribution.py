"""Whether disturbers that were planted are found and named: 350 preemptions of 50 µs, then a beat of 100 Hz.

The disturber is a real-time thread that sleeps, runs for 50 µs, and notes when it ran, with the clock that
gaps are stamped with. An injection is found if a gap of at least half its length lies over it, and named if
that gap's sources name the disturber.

Needs root and tracing rights. Run with ``python -m benchmarks.jitter_attribution [CPU]``.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np

from latlab.jitter import analyse, measure
from latlab.jitter._analyse import OWN_NAME
from latlab.jitter._attribution import attribute

COUNT = 350
BUSY_NS = 50_000
# Its waits are random (or exactly periodic).
DISTURBER = """
import ctypes, os, random, sys, time
cpu, count, busy_ns, period_ns = (int(x) for x in sys.argv[1:])
ctypes.CDLL(None).prctl(15, b"vandal", 0, 0, 0)
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
clock, at = time.monotonic_ns, random.Random(1)
print("ready", flush=True)
runs, due = [], clock() + 300_000_000
for _ in range(count):
    due += period_ns or at.randrange(2_000_000, 10_000_000)
    time.sleep(max(0, due - clock()) / 1e9)
    start = clock()
    while clock() - start < busy_ns:
        pass
    runs.append((start, clock()))
print("\\n".join(f"{a} {b}" for a, b in runs))
"""


def disturbed(cpu: int, seconds: float, *arguments: int):  # type: ignore[no-untyped-def]
    """A run beside the disturber, and when it ran."""
    command = [sys.executable, "-c", DISTURBER, str(cpu), *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as vandal:
        assert vandal.stdout is not None
        vandal.stdout.readline()
        measured = measure([cpu], seconds)
        text, _ = vandal.communicate(timeout=60)
    return measured, np.array([line.split() for line in text.splitlines()], dtype=np.int64)


def found_and_named(measured, runs):  # type: ignore[no-untyped-def]
    """Of the injections inside of the run: how many, how many in a gap, how many in one that names it."""
    [core] = measured.cores
    joined = attribute([core], measured.events, OWN_NAME, 1.0)
    ends = core.gap_start_ns + core.gap_each_ns
    inside = (runs[:, 0] > core.start_ns) & (runs[:, 1] < core.start_ns + core.ns(core.wall_ticks))
    found = named = 0
    for start, end in runs[inside]:
        over = np.minimum(ends, end) - np.maximum(core.gap_start_ns, start)
        hit = np.nonzero(over >= BUSY_NS / 2)[0]
        found += bool(len(hit))
        known = any("vandal" in joined.named[core.cpu][i] for i in hit)
        named += known
        if not known:
            print(f"    not named: {start} to {end}, in {[joined.named[core.cpu][i] for i in hit]}")
    return int(inside.sum()), found, named


def main() -> None:
    """Print each bar beside what was measured."""
    cpu = int(sys.argv[1]) if len(sys.argv) > 1 else max(os.sched_getaffinity(0))
    result = analyse(measure([cpu], 3.0))
    known, joined = result.attributed or 0.0, result.joined or 0.0
    print(f"gap time with a known source, undisturbed: {100 * known:.2f} % (bar >= 96 %);", end=" ")
    print(f"joined to kernel events {100 * joined:.2f} %")
    for one in result.sources[:6]:
        print(f"    {(one.total_ns or 0) / 1e3:9.1f} us  {one.count:5}  {one.layer}: {one.name}")

    measured, runs = disturbed(cpu, 6.0, COUNT, BUSY_NS, 0)
    assert measured.events is not None, measured.trace_refused
    count, found, named = found_and_named(measured, runs)
    print(f"injected preemptions found: {found} of {count} ({100 * found / count:.2f} %; bar >= 99.5 %)")
    print(f"injected preemptions named: {named} of {count} ({100 * named / count:.2f} %; bar >= 99.5 %)")
    result = analyse(measured)
    print(
        f"the ranking counts the disturber {sum(s.count for s in result.sources if s.name == 'vandal')} times"
    )
    print(f"gap time with a known source: {100 * (result.attributed or 0):.2f} % (bar >= 96 %);", end=" ")
    print(f"joined {100 * (result.joined or 0):.2f} %, lost events {measured.events.lost}")

    measured, _ = disturbed(cpu, 3.5, 300, BUSY_NS, 10_000_000)
    periods = analyse(measured).periods
    for one in periods:
        print(f"beat: {one.period_ns / 1e6:.4f} ms, p {one.p_value:.1g}, {one.cause} (planted: 10 ms)")
    right = any(abs(one.period_ns / 1e7 - 1) < 1e-3 and "vandal" in one.cause for one in periods)
    print(f"the planted 100 Hz is {'found and named' if right else 'MISSED'}")


if __name__ == "__main__":
    main()
