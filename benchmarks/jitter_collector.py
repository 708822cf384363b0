"""The jitter collector against a bare loop of counter readings, interleaved; its accounting; its memory.

Run with ``python -m benchmarks.jitter_collector [CPU]``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from latlab._core import jitter as native

SECONDS = 0.3
SLICE_NS = 1_500_000  # shorter than a time slice: the best of many is undisturbed even on a busy machine
MEMORY = """
import resource, sys, time
from latlab._core import jitter as native
def peak():
    for line in open("/proc/self/status"):
        if line.startswith("VmHWM"):
            return int(line.split()[1])
before = peak()
collector = native.Collector([int(sys.argv[1])], 300_000_000, 2600)
collector.start(); time.sleep(0.35); result = collector.join()
print(peak() - before)
"""


def collect(cpu: int) -> tuple[float, float, float, int]:
    """Readings a second, the shares of pure time and of gaps, and the ticks that are in no account."""
    collector = native.Collector([cpu], int(SECONDS * 1e9), 2600)
    collector.start()
    time.sleep(SECONDS + 0.05)
    [core] = collector.join()
    wall = core["last_ticks"] - core["first_ticks"]
    hz = (core["end"][0] - core["begin"][0]) * 1e9 / (core["end"][1] - core["begin"][1])
    rate = (core["deltas"] + core["bridges"]) * hz / wall
    left = wall - core["pure_ticks"] - core["bridge_ticks"] - core["gap_ticks"]
    return rate, core["pure_ticks"] / wall, core["gap_ticks"] / wall, left


def undisturbed(cpu: int, pairs: int = 60) -> tuple[float, float, float]:
    """The best slice of the bare loop and of the collector in readings a second, and of pure time."""
    everywhere, bares, rates, pures = os.sched_getaffinity(0), [0.0], [0.0], [0.0]
    for _ in range(pairs):
        os.sched_setaffinity(0, {cpu})
        bares.append(native.bare_readings_per_second(SLICE_NS))
        os.sched_setaffinity(0, everywhere)
        collector = native.Collector([cpu], SLICE_NS, 2600)
        collector.start()
        time.sleep(0.004)
        [core] = collector.join()
        wall = core["last_ticks"] - core["first_ticks"]
        if wall and core["end"][1] > core["begin"][1]:
            hz = (core["end"][0] - core["begin"][0]) * 1e9 / (core["end"][1] - core["begin"][1])
            rates.append((core["deltas"] + core["bridges"]) * hz / wall)
            pures.append(core["pure_ticks"] / wall)
    return max(bares), max(rates), max(pures)


def main() -> None:
    """Print each bar beside what was measured."""
    cpu = int(sys.argv[1]) if len(sys.argv) > 1 else max(os.sched_getaffinity(0))
    everywhere = os.sched_getaffinity(0)
    ratios, rates, bares, pures, gaps, lefts = [], [], [], [], [], []
    for _ in range(8):
        os.sched_setaffinity(0, {cpu})
        bare = native.bare_readings_per_second(int(SECONDS * 1e9))
        os.sched_setaffinity(0, everywhere)
        rate, pure, gap, left = collect(cpu)
        ratios.append(rate / bare)
        rates.append(rate)
        bares.append(bare)
        pures.append(pure)
        gaps.append(gap)
        lefts.append(left)
    bare, rate, pure = undisturbed(cpu)
    print(
        f"best slice: {rate / 1e6:.1f} M a second of {bare / 1e6:.1f} M bare, "
        f"{100 * rate / bare:.1f} % (bar >= 95 %)"
    )
    print(f"best slice: {100 * pure:.1f} % inside of pure deltas (bar >= 90 %)")
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(cpu)], capture_output=True, text=True, check=True
    )
    median = statistics.median
    print(f"readings a second: {median(rates) / 1e6:.1f} M; bare loop {median(bares) / 1e6:.1f} M")
    print(f"of the bare loop: {100 * median(ratios):.1f} % (median of 8 pairs; bar >= 95 %)")
    print(f"ticks in no account: {max(map(abs, lefts))} (bar 0)")
    print(
        f"inside of pure deltas: {100 * median(pures):.1f} % of wall (bar >= 90 %), "
        f"gaps {100 * median(gaps):.1f} %"
    )
    print(f"resident memory that collecting adds: {int(done.stdout) / 1024:.1f} MB (bar < 16 MB)")


if __name__ == "__main__":
    main()
