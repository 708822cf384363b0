"""What counting adds to a C++ queue with 50 ns of work per event: hooks, wrapper, a queue behind a lock.

Bar: at most 1 %. Each round times the same queue with and without counts, one after the other; the ratio is
of the first deciles over the rounds, since a disturbed round says nothing of the queue.
`python -m benchmarks.counted_queue`
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from benchmarks._bars import Bar, report

ROOT = Path(__file__).parents[1]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
        program = f"{folder}/counted_queue"
        source = ROOT / "benchmarks" / "counted_queue.cpp"
        options = ["-std=c++20", "-O3", "-DNDEBUG", "-pthread", f"-I{ROOT / 'include'}"]
        subprocess.run([compiler, *options, str(source), "-o", program], check=True)
        done = subprocess.run([program], check=True, capture_output=True, text=True)
    rounds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for line in done.stdout.splitlines():
        name, plain, counted = line.split()
        rounds[name].append((float(plain), float(counted)))
    bars = []
    for name, times in rounds.items():
        plain_ns, counted_ns = (sorted(column)[len(times) // 10] for column in zip(*times, strict=True))
        print(f"{name}: {plain_ns:.2f} ns an event, counted {counted_ns:.2f} ns")
        bars.append(Bar(f"{name}, counted against not", counted_ns / plain_ns, 1.01, "x"))
    return report(bars)


if __name__ == "__main__":
    sys.exit(main())
