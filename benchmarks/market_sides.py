"""The two sides of a book in every design, an operation at a time, on the synthetic generator."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks._bars import Bar, report

ROOT = Path(__file__).parents[1]
OPERATIONS = 50_000
LIMITS = {"Map": (20.0, True), "Array": (6.0, False)}


def times(library: Path, fixture: str) -> np.ndarray:
    """ns of an operation, on average over a run of all, by run."""
    command = [
        str(Path(sys.executable).with_name("latlab")),
        "bench",
        "run",
        f"{library}:{fixture}",
        "--size",
        str(OPERATIONS),
        "--csv",
    ]
    done = subprocess.run([*command, "--seconds", "2"], capture_output=True, text=True, check=False)
    rows = [line.rsplit(",", 1)[-1] for line in done.stdout.splitlines()]
    values = np.array([float(value) for value in rows if value.replace(".", "").isdigit()])
    if not len(values):
        raise SystemExit(f"{fixture}: nothing was measured: {done.stderr}")
    return values


def main() -> int:
    bars = []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "sides.so"
        flags = ["-O2", "-std=c++20", "-shared", "-fPIC", f"-I{ROOT}/include", f"-I{ROOT}/native/core"]
        subprocess.run(["g++", *flags, f"{ROOT}/examples/book_sides.cpp", "-o", library], check=True)
        for side in ("Bid", "Offer"):
            for design in ("Map", "Array", "Sorted", "Ladder"):
                found = times(library, design + side)
                p50, p90, p99, p999 = np.quantile(found, [0.5, 0.9, 0.99, 0.999], method="inverted_cdf")
                print(
                    f"{design + side:<14} p50 {p50:.2f}  p90 {p90:.2f}  p99 {p99:.2f}  p99.9 {p999:.2f} ns",
                    flush=True,
                )
                if design in LIMITS:
                    limit, at_least = LIMITS[design]
                    bars.append(Bar(f"{design} side, {side.lower()}, p50", float(p50), limit, "ns", at_least))
    return report(bars)


if __name__ == "__main__":
    raise SystemExit(main())
