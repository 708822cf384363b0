"""What observing a program costs it: turns of two threads that wake each other, with and without, in turn.

    python -m benchmarks.any_program_cost [--rounds 8] [--seconds 1.5]

Both run on one CPU, so that no sleep of an idle CPU is measured with them; the work between two turns
sets the rate of switches, which is told. Bars: 3 % at 20,000 switches a second, 10 % at 200,000.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks._bars import Bar, report

HERE = Path(__file__).parent / "any_programs"
# Work of one side in µs -> the bar at the rate that this gives.
WORK_US = {45: 0.03, 3: 0.10}


def rate(command: list[str]) -> float:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = re.search(r"rounds (\d+)", done.stdout + done.stderr)
    if found is None:
        raise SystemExit(f"{command[0]}: {(done.stderr or done.stdout)[-300:]}")
    return float(found[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=1.5)
    given = parser.parse_args()
    bars = []
    cpu = str(max(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory(prefix="any-program-cost-") as temporary:
        program = str(Path(temporary) / "planted")
        compiler = os.environ.get("CXX") or "c++"
        source = str(HERE / "planted.cpp")
        subprocess.run([compiler, "-std=c++20", "-O2", "-g", "-pthread", source, "-o", program], check=True)
        for us, limit in WORK_US.items():
            alone = ["taskset", "-c", cpu, program, "events", str(given.seconds), f"us={us}", f"fast={us}"]
            watched = [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--seconds", "60", "-o"]
            ratios, rates = [], []
            for number in range(given.rounds):
                output = str(Path(temporary) / f"run-{us}-{number}")
                pair = {"alone": alone, "watched": [*watched, output, "--", *alone]}
                order = random.sample(list(pair), 2)
                rounds = {name: rate(pair[name]) for name in order}
                ratios.append(rounds["watched"] / rounds["alone"])
                rates.append(2 * rounds["alone"] / given.seconds)
            quartiles = statistics.quantiles(ratios, n=4)
            slowdown = 1 - statistics.median(ratios)
            spread = f"[{1 - quartiles[2]:.1%}, {1 - quartiles[0]:.1%}] of {given.rounds} pairs"
            print(f"{statistics.median(rates):,.0f} switches/s: slowdown {slowdown:.1%} {spread}", flush=True)
            bars.append(Bar(f"slowdown with {us} µs of work", slowdown, limit))
    return report(bars)


if __name__ == "__main__":
    sys.exit(main())
