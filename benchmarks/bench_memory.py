"""Memory-bound workloads against themselves and against more of the same work: `python -m
benchmarks.bench_memory`.

`[--rounds N] [--first N] [--workloads A,B] [--seconds S] [--changes 0,50] [--load idle|hog|stream]
[--outcomes FILE] [--details FILE]`

Changes are thousandths of the work. With --load `hog` computes and `stream` copies memory on every CPU. Bars:
identical code called different in at most 2 %; +5 % found in 90 % within 10 s, none reversed. `--details`
keeps each pair's log-ratios, by which other ways to judge can be tried.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import latlab
from benchmarks.bench_calibration import load
from latlab import bench
from latlab.bench.judging.judge import difference, measured
from latlab.errors import LatlabError

HERE = Path(__file__).parent
COMPILED = ("Chase4", "Chase16", "Chase64", "Probe", "Transpose")
PYTHON = {
    "Sums": (
        "import numpy as np",
        "self.x = np.ones({n} * 2000)",
        "self.x.sum()",
    ),
    "Sorting": (
        "import random",
        "r = random.Random(1); self.x = [r.random() for _ in range({n} * 1000)]",
        "sorted(self.x)",
    ),
    "NumpySort": (
        "import numpy as np",
        "self.x = np.random.default_rng(1).random({n} * 1000)",
        "np.sort(self.x)",
    ),
    "Dictionary": (
        "import random",
        "self.x = dict.fromkeys(range(10**6), 1); self.k = random.Random(1).sample(range(10**6), {n} * 2)",
        "x = self.x\n        for k in self.k:\n            x[k]",
    ),
    "Flipped": (
        "import numpy as np",
        "self.x = np.ones(({n}, 1000))",
        "np.ascontiguousarray(self.x.T)",
    ),
}
WORKLOADS = (*COMPILED, *PYTHON)
VERDICTS = ("equivalent", "inconclusive", "faster", "slower", "mixed")
_STREAM = "x = bytearray(64 << 20)\nwhile True: x[:32 << 20] = x[32 << 20:]"


@contextlib.contextmanager
def streams() -> Iterator[None]:
    """One process a core that moves memory."""
    command = ["setpriv", "--pdeathsig", "KILL", "taskset", "-c"]
    running = [
        subprocess.Popen([*command, str(core), sys.executable, "-S", "-c", _STREAM])
        for core in sorted(os.sched_getaffinity(0))
    ]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def built(folder: Path, change: int) -> None:
    """Both kinds of files, whose work is longer by so many thousandths."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("needs a C++ compiler")
    command = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{latlab.get_include()}"]
    out = ["-o", str(folder / f"m{change}.so")]
    subprocess.run([*command, f"-DMORE={change}", str(HERE / "bench_memory.cpp"), *out], check=True)
    for name, (imports, made, work) in PYTHON.items():
        made = made.format(n=1000 + change)
        lines = [imports, "class Work:", "    def __init__(self):", f"        {made}"]
        text = "\n".join([*lines, "    def run(self):", f"        {work}", ""])
        (folder / f"{name}{change}.py").write_text(text)


def target(folder: Path, name: str, change: int) -> Any:
    file = f"m{change}.so:{name}" if name in COMPILED else f"{name}{change}.py:Work"
    return bench.parse(f"{folder}/{file}")


def compared(folder: Path, name: str, change: int, seconds: float, seed: int) -> tuple[dict[str, Any], Any]:
    """One comparison's outcome, and each pair's log-ratios."""
    begin, recorder = time.monotonic(), bench.Recorder()
    a, b = (target(folder, name, c) for c in (0, change))
    try:
        judged, plan = bench.run_ab(
            a, b, bench.default_settings(), bench.Asked(seconds=seconds, seed=seed), recorder, control=False
        )
    except LatlabError as error:
        return {"workload": name, "change": change, "verdict": "failed", "why": str(error)}, []
    result = judged.result
    line = {
        "workload": name, "change": change, "verdict": result.verdict.value, "by": judged.decided_by,
        "seconds": round(time.monotonic() - begin, 2), "effect": result.effect, "interval": result.interval,
        "pairs": result.pairs, "pair_s": round(plan.pair_s, 4), "turn": plan.turn,
        "unmeasured": plan.unmeasured, "iterations": plan.iterations, "block": plan.block_pairs,
        "between": round(plan.process_deviation, 4), "within": round(plan.iteration_deviation, 4),
        "displaced": round(plan.displaced, 2), "typical_us": round(judged.typical_ns[0] / 1e3, 1),
        "why": result.why, "warnings": judged.warnings, "budget_effect": plan.budget_effect,
    }  # fmt: skip
    rows = sorted(recorder.rows, key=lambda row: (row.pair, row.side))
    pairs = [(a.sample, b.sample) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    names = measured(pairs)
    every = [difference(a, b, names) for a, b in pairs]
    first = [row.side for row in recorder.rows if row.position == 0]
    kept = [(d.log_ratios, d.noises, d.others, side) for d, side in zip(every, first, strict=True)]
    return line, kept


def main() -> None:
    """Print a line for each comparison and the table at the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="Number of the first round.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--changes", default="0,50")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--load", choices=["idle", "hog", "stream"], default="idle")
    parser.add_argument("--outcomes", type=Path)
    parser.add_argument("--details", type=Path)
    given = parser.parse_args()
    changes = [int(c) for c in given.changes.split(",")]
    lines: list[dict[str, Any]] = []
    busy = streams() if given.load == "stream" else load(given.load)
    with tempfile.TemporaryDirectory() as text, busy:
        folder = Path(text)
        for change in {0, *changes}:
            built(folder, change)
        for number in range(given.first, given.first + given.rounds):
            for name in given.workloads.split(","):
                for change in changes:
                    seed = 1000 * number + 10 * WORKLOADS.index(name) + change
                    line, kept = compared(folder, name, change, given.seconds, seed)
                    line["load"] = given.load
                    print(json.dumps(line), flush=True)
                    lines.append(line)
                    for file, what in ((given.outcomes, line), (given.details, {**line, "kept": kept})):
                        if file is not None:
                            with open(file, "a") as out:
                                out.write(json.dumps(what) + "\n")
    if given.outcomes and not given.rounds:
        lines = [json.loads(line) for line in given.outcomes.read_text().splitlines()]
    table(lines)


def table(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print what was said of each workload and change."""
    seen: dict[tuple[str, int], Counter[str]] = {}
    for line in lines:
        for name in (line["workload"], "all"):
            seen.setdefault((name, line["change"]), Counter())[line["verdict"]] += 1
    print("\n| workload | change | comparisons | " + " | ".join(VERDICTS) + " |")
    print("|---" * (len(VERDICTS) + 3) + "|")
    for (name, change), counts in seen.items():
        cells = [name, f"+{change / 10:g} %", str(sum(counts.values())), *(str(counts[v]) for v in VERDICTS)]
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
