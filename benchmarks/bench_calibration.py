"""How often identical code is called different, how often a planted change is found, and what an iteration
costs.

`python -m benchmarks.bench_calibration [--comparisons N] [--cells a,b] [--loads idle,hog] [--seed S]
[--parts ...] [--outcomes FILE]`

The parts: `null` (identical code), `power` (planted changes), `overhead`. With `--outcomes`, each comparison
of `null` is appended to a file as a line of JSON as soon as it has ended, and those that stand there already
are not made again: a series of hours can be ended and gone on with. The bars: the upper 95 % bound
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
from typing import Any

import numpy as np

import latlab
from latlab import bench
from latlab.model.statistics.paired import PairedResult
from latlab.stats.experiments.multiple import proportion_bounds

HERE = Path(__file__).parent
ALPHA = 0.05
CELLS = {
    "loop": "RegisterLoop",
    "branches": "BranchLoop",
    "map": "Map",
    "allocation": "Allocation",
    "python": "Function",
}


# Thousandths, and the budget in seconds, of the part `power`.
PLANTED = {"loop": (5, 0.5), "branches": (5, 0.5), "map": (10, 5.0)}


def compiled(folder: Path, change: int = 0) -> Path:
    """The cells' shared object, whose `change` is so many thousandths unless a parameter says otherwise."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("needs a C++ compiler")
    out = folder / ("bench_cells.so" if change == 0 else f"bench_cells_{change}.so")
    command = [
        compiler,
        "-O2",
        "-std=c++20",
        "-shared",
        "-fPIC",
        f"-I{latlab.get_include()}",
        f"-DCHANGE={change}",
    ]
    subprocess.run([*command, str(HERE / "bench_cells.cpp"), "-o", str(out)], check=True)
    return out


@contextlib.contextmanager
def load(kind: str, nice: str = "0") -> Iterator[None]:
    """Nothing, or one busy process a core."""
    cores = sorted(os.sched_getaffinity(0)) if kind == "hog" else []
    dies_with_us = ["setpriv", "--pdeathsig", "KILL"]  # a series may be broken off by a signal
    busy = ["sh", "-c", "while :; do :; done"]
    hogs = [
        subprocess.Popen([*dies_with_us, "nice", "-n", nice, "taskset", "-c", str(c), *busy]) for c in cores
    ]
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
            name = CELLS[cell]
            begin = time.monotonic()
            known = outcomes(arguments.outcomes, cell, kind)
            seed = arguments.seed + len(known)
            wanted = arguments.comparisons - len(known)

            def keep(index: int, result: PairedResult, cell: str = cell, kind: str = kind) -> None:
                line = {
                    "cell": cell, "load": kind, "seed": seed + index, "verdict": result.verdict.value,  # noqa: B023
                    "effect": result.effect, "interval": result.interval, "p_value": result.p_value,
                    "pairs": result.pairs, "load_1min": os.getloadavg()[0],
                }  # fmt: skip
                known.append(line)  # noqa: B023
                if arguments.outcomes is not None:
                    with open(arguments.outcomes, "a") as file:
                        file.write(json.dumps(line) + "\n")

            if wanted > 0:
                with load(kind, arguments.hog_nice):
                    bench.run_aa(
                        target(name, so),
                        settings(arguments),
                        bench.Asked(
                            seconds=arguments.seconds, alpha=ALPHA, seed=seed, max_pairs=arguments.pairs
                        ),
                        comparisons=wanted,
                        on_comparison=keep,
                    )
            different = sum(line["verdict"] in ("faster", "slower") for line in known)
            _, upper = proportion_bounds(different, len(known))
            report(
                part="null", cell=cell, load=kind, comparisons=len(known), different=different,
                rate=different / len(known), upper95=upper, bar=1.5 * ALPHA,
                median_pairs=float(np.median([line["pairs"] for line in known])),
                load_1min=float(np.median([line["load_1min"] for line in known])),
                seconds=time.monotonic() - begin, seed=arguments.seed, fifo=arguments.fifo,
            )  # fmt: skip


def outcomes(path: Path | None, cell: str, kind: str) -> list[dict[str, Any]]:
    """The comparisons of a cell that a file keeps."""
    if path is None or not path.exists():
        return []
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if (line["cell"], line["load"]) == (cell, kind)]


def power(arguments: argparse.Namespace, so: Path) -> None:
    for cell in arguments.cells.split(","):
        if cell not in PLANTED:
            continue
        name, (change, seconds) = CELLS[cell], PLANTED[cell]
        found, undecided, spent = 0, 0, []
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
            undecided += judgement.result.verdict.value == "inconclusive"
            found += judgement.result.verdict.value == "slower"
        low, _ = proportion_bounds(found, arguments.comparisons)
        report(
            part="power", cell=name, change=change / 1000, seconds=seconds, comparisons=arguments.comparisons,
            found=found, inconclusive=undecided, rate=found / arguments.comparisons, lower95=low, bar=0.95,
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
    parser.add_argument("--cells", default="loop,map,allocation,python", help="Also: branches.")
    parser.add_argument("--loads", default="idle,hog")
    parser.add_argument("--seconds", type=float, default=10.0, help="Budget of a comparison of `null`.")
    # By seconds alone, a loaded machine would leave less than the 14 pairs that any verdict takes.
    parser.add_argument("--pairs", type=int, default=24, help="The same in pairs.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--outcomes", type=Path, help="Keeps each comparison; what it holds isn't repeated.")
    parser.add_argument("--hog-nice", default="0", help="Nice value of the load.")
    parser.add_argument("--plain", dest="fifo", action="store_false", help="Without SCHED_FIFO.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        so = compiled(Path(folder))
        for part in arguments.parts.split(","):
            {"null": null, "power": power, "overhead": overhead}[part](arguments, so)


if __name__ == "__main__":
    main()
