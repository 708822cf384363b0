"""SPSC throughput beside Boost, moodycamel and a textbook ring; observed beside private; one sweep."""

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
PEERS = {"boost": "libboost-dev", "moodycamel": "libconcurrentqueue-dev"}
ROUNDS, EVENTS = 9, 4_000_000


def built(folder: str) -> str:
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    program = f"{folder}/core_queue"
    source = ROOT / "benchmarks" / "core_queue.cpp"
    command = [compiler, "-std=c++20", "-O3", "-DNDEBUG", "-pthread", f"-I{ROOT / 'include'}", str(source)]
    subprocess.run([*command, "-o", program], check=True)
    return program


def measured(program: str, *arguments: str, counters: str | None = None) -> dict[str, list[float]]:
    environment = {**os.environ, **({"LATLAB_COUNTERS": counters} if counters else {})}
    done = subprocess.run([program, *arguments], check=True, capture_output=True, text=True, env=environment)
    found: dict[str, list[float]] = defaultdict(list)
    for line in done.stdout.splitlines():
        name, value = line.split()
        found[name].append(float(value))
    return found


def middle(values: list[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        program = built(folder)
        found = measured(program, str(ROUNDS), str(EVENTS))
        observed, private = [], []
        for _ in range(ROUNDS):
            # One process each, in turn: where a queue's lines lie is settled when the process starts.
            observed += measured(program, "1", str(EVENTS), "only-latlab")["latlab"]
            private += measured(program, "1", str(EVENTS), "only-latlab", counters="off")["latlab"]
    for name, values in found.items():
        if name != "sweep":
            print(
                f"{name}: {middle(values):.1f} million events/s (from {min(values):.1f} to {max(values):.1f})"
            )
    bars = []
    for name, package in PEERS.items():
        if name not in found:
            print(f"{name}: not installed; run: apt-get install {package}")
    if "boost" in found:
        ratios = [a / b for a, b in zip(found["latlab"], found["boost"], strict=True)]
        bars.append(
            Bar("SPSC throughput against boost's spsc_queue", middle(ratios), 1.2, "x", at_least=True)
        )
    ratios = [a / b for a, b in zip(observed, private, strict=True)]
    print(f"observed against private: ratios {min(ratios):.3f} to {max(ratios):.3f}")
    bars.append(
        Bar("observed queue against the same on private memory", middle(ratios), 0.98, "x", at_least=True)
    )
    bars.append(Bar("one sweep over 165 queues, a stamp each", found["sweep"][0] / 1e3, 4, "µs"))
    return report(bars)


if __name__ == "__main__":
    sys.exit(main())
