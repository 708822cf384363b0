"""Whether disturbers that were planted are found and named: 350 preemptions of 50 µs, then a beat of 100 Hz.

Needs root (the disturber is a real-time thread) and tracing rights. Run with ``python -m
benchmarks.jitter_attribution [CPU]``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np

from latlab.jitter import analyse, measure
from latlab.jitter._analyse import OWN_NAME
from latlab.jitter._attribution import attribute

COUNT = 350
# Its waits are random (or exactly periodic) and its runs are noted with the clock that the gaps are stamped
# with.
DISTURBER = """
import ctypes, os, random, sys, time
cpu, count, busy_ns, period_ns = (int(x) for x in sys.argv[1:])
ctypes.CDLL(None).prctl(15, b"vandal", 0, 0, 0)
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(20))
clock, at = time.monotonic_ns, random.Random(1)
runs, due = [], clock() + 200_000_000
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
        time.sleep(0.1)
        measured = measure([cpu], seconds)
        text, _ = vandal.communicate(timeout=60)
    return measured, np.array([line.split() for line in text.splitlines()], dtype=np.int64)


def main() -> None:
    """Print each bar beside what was measured."""
    cpu = int(sys.argv[1]) if len(sys.argv) > 1 else max(os.sched_getaffinity(0))
    result = analyse(measure([cpu], 3.0))
    print(f"gap time with a known source, undisturbed: {100 * (result.attributed or 0):.2f} % (bar >= 96 %)")
    for one in result.sources[:6]:
        print(f"    {(one.total_ns or 0) / 1e3:9.1f} us  {one.count:5}  {one.layer}: {one.name}")

    measured, runs = disturbed(cpu, 4.0, COUNT, 50_000, 0)
    [core] = measured.cores
    assert measured.events is not None, measured.trace_refused
    found = attribute([core], measured.events, OWN_NAME, 4.0)
    end = core.gap_start_ns + core.gap_each_ns
    inside = (runs[:, 0] > core.start_ns) & (runs[:, 1] < core.start_ns + core.ns(core.wall_ticks))
    hits = sum(bool(((core.gap_start_ns < b) & (end > a)).any()) for a, b in runs[inside])
    # A gap that several threads filled names them all; each gap with the disturber in it counts once.
    named = sum(one.count for one in found.sources if one.name == "vandal")
    count = int(inside.sum())
    print(f"injected preemptions found: {hits} of {count} ({100 * hits / count:.2f} %; bar >= 99.5 %)")
    print(f"gaps that name the disturber: {named}")
    print(
        f"gap time with a known source: {100 * found.share:.2f} % (bar >= 96 %), "
        f"lost events {measured.events.lost}"
    )

    measured, _ = disturbed(cpu, 3.5, 300, 50_000, 10_000_000)
    for one in analyse(measured).periods:
        print(f"beat: {one.period_ns / 1e6:.4f} ms, p {one.p_value:.1g}, {one.cause} (planted: 10 ms)")


if __name__ == "__main__":
    main()
