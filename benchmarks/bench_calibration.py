"""How often identical code is called different, how often a planted change is found, and what an iteration
costs.

`python -m benchmarks.bench_calibration [--comparisons N] [--cells a,b] [--loads idle,hog] [--seed S]
[--parts ...]`

The parts: `null` (identical code), `power` (planted changes), `overhead`. The bars: the upper 95 % bound
of the false-positive rate at
most 1.5 alpha at alpha = 0.05 over 1,000 comparisons a cell; 95 % of changes of 0.5 % in the register loop
found within 0.5 s and of 1 % in the
map within 5 s; an iteration's overhead at most 25 ns native and 60 ns for an empty Python call.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import latlab
from latlab import bench
from latlab.stats.multiple import proportion_bounds

HERE = Path(__file__).parent
ALPHA = 0.05
CELLS = {
    "loop": ("RegisterLoop", 0.12),
    "map": ("Map", 0.3),
    "allocation": ("Allocation", 0.12),
    "python": ("Function", 0.5),
}


def compiled(folder: Path) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("needs a C++ compiler")
    out = folder / "bench_cells.so"
    command = [compiler, "-O2", "-std=c++20", "-shared", "-fPIC", f"-I{latlab.get_include()}"]
    subprocess.run([*command, str(HERE / "bench_cells.cpp"), "-o", str(out)], check=True)
    return out


@contextlib.contextmanager
def load(kind: str) -> Iterator[None]:
    """Nothing, or one busy process a core."""
    cores = sorted(os.sched_getaffinity(0)) if kind == "hog" else []
    hogs = [subprocess.Popen(["taskset", "-c", str(c), "sh", "-c", "while :; do :; done"]) for c in cores]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def settings(arguments: argparse.Namespace) -> bench.Settings:
    base = bench.default_settings()
    return base if arguments.fifo else dataclasses.replace(base, priority=0)


def target(name: str, so: Path, **parameters: int) -> bench.Target:
    file = HERE / "bench_cells.py" if name in ("Function", "Empty") else so
    return bench.parse(f"{file}:{name}", parameters)


def null(arguments: argparse.Namespace, so: Path) -> None:
    for kind in arguments.loads.split(","):
        for cell in arguments.cells.split(","):
            name, seconds = CELLS[cell]
            begin = time.monotonic()
            with load(kind):
                control = bench.run_aa(
                    target(name, so),
                    settings(arguments),
                    bench.Asked(seconds=arguments.seconds or seconds, alpha=ALPHA, seed=arguments.seed),
                    comparisons=arguments.comparisons,
                )
            report(
                part="null", cell=cell, load=kind, comparisons=control.comparisons,
                different=control.called_different,
                rate=control.rate, upper95=control.upper95, bar=1.5 * ALPHA, seconds=time.monotonic() - begin,
                seed=arguments.seed, fifo=arguments.fifo,
            )  # fmt: skip


def power(arguments: argparse.Namespace, so: Path) -> None:
    for name, change, seconds in (("RegisterLoop", 5, 0.5), ("Map", 10, 5.0)):
        found, spent = 0, []
        for index in range(arguments.comparisons):
            begin = time.monotonic()
            judgement, _ = bench.run_ab(
                target(name, so),
                target(name, so, change=change),
                settings(arguments),
                bench.Asked(seconds=seconds, alpha=ALPHA, seed=arguments.seed + index),
                bench.Recorder(),
                control=False,
            )
            spent.append(time.monotonic() - begin)
            found += judgement.result.verdict.value == "slower"
        low, _ = proportion_bounds(found, arguments.comparisons)
        report(
            part="power", cell=name, change=change / 1000, seconds=seconds, comparisons=arguments.comparisons,
            found=found, rate=found / arguments.comparisons, lower95=low, bar=0.95,
            median_s=float(np.median(spent)),
        )  # fmt: skip


def overhead(arguments: argparse.Namespace, so: Path) -> None:
    empty = so.with_name("empty.cpp")
    empty.write_text(
        "#include <latlab/bench.hpp>\nstruct Empty { void run() {} };\nLATLAB_BENCHMARK(Empty)\n"
    )
    out = empty.with_suffix(".so")
    command = [
        shutil.which("g++") or "clang++",
        "-O2",
        "-std=c++20",
        "-shared",
        "-fPIC",
        f"-I{latlab.get_include()}",
    ]
    subprocess.run([*command, str(empty), "-o", str(out)], check=True)
    for name, text, bar in (
        ("native", f"{out}:Empty", 25.0),
        ("python", f"{HERE / 'bench_cells.py'}:Empty", 60.0),
    ):
        one = dataclasses.replace(settings(arguments), batch=1, iterations=20_000, warmup=1000)
        times = [
            float(s.times_ns.mean())
            for s in bench.run(
                bench.parse(text), one, bench.Recorder(), seconds=1, processes=9, iterations=20_000
            )
        ]
        report(part="overhead", cell=name, mean_ns=float(np.median(times)), least_ns=min(times), bar=bar)


def report(**values: object) -> None:
    print(json.dumps(values), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default="overhead,power,null")
    parser.add_argument("--comparisons", type=int, default=100)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--loads", default="idle,hog")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", dest="fifo", action="store_false", help="Without SCHED_FIFO.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        so = compiled(Path(folder))
        for part in arguments.parts.split(","):
            {"null": null, "power": power, "overhead": overhead}[part](arguments, so)


if __name__ == "__main__":
    main()
