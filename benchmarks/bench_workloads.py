"""Fourteen workloads of many kinds against themselves and against slower ones: `python -m
benchmarks.bench_workloads`.

`[--seconds S] [--changes 0,20,50] [--workloads A,B] [--load hog] [--plain] [--limit S] [--seed N]
[--outcomes FILE]`

Python that computes, counts words, matches, parses, allocates, awaits, hands over between threads, writes
files, and adds arrays; C++ that hashes and sorts; whole commands. Comparisons are drawn until `--limit` is
over and appended to a file; `--limit 0 --outcomes FILE` tables it. Changes are thousandths of the work. Bars:
identical code called different in at most 2 %; +2 % found in 90 % of those that are steady within 10 s, +5 %
in all, none reversed; inconclusive on identical code at most 20 % of Python's and commands'.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import latlab
from benchmarks.bench_calibration import load
from latlab import bench
from latlab.errors import LatlabError

HERE = Path(__file__).parent
PYTHON = {
    "pure": """
class Work:
    def run(self):
        x = 1
        for i in range(N(2000)):
            x = (x * 31 + i) % 1000003
""",
    "arrays": """
import numpy as np
class Work:
    def __init__(self):
        self.a, self.b = np.ones(N(2_000_000)), np.ones(N(2_000_000))
        self.out = np.zeros(N(2_000_000))
    def run(self):
        np.add(self.a, self.b, out=self.out)
""",
    "words": """
import random
class Work:
    def __init__(self):
        drawn = random.Random(3)
        self.words = [f"w{drawn.randrange(500)}" for _ in range(N(3000))]
    def run(self):
        counts = {}
        for word in self.words:
            counts[word] = counts.get(word, 0) + 1
""",
    "regex": """
import re
class Work:
    def __init__(self):
        self.text = "".join(f"2026-11-{i % 28 + 1:02} id={i} state=ok\\n" for i in range(N(400)))
        self.pattern = re.compile(r"(\\d+)-(\\d+)-(\\d+) id=(\\d+)")
    def run(self):
        self.pattern.findall(self.text)
""",
    "json": """
import json
class Work:
    def __init__(self):
        self.rows = [{"id": i, "name": f"n{i}", "values": [i, i / 3, None]} for i in range(N(200))]
    def run(self):
        json.loads(json.dumps(self.rows))
""",
    "allocates": """
class Node:
    def __init__(self, before):
        self.before = before
        self.data = [1, 2, 3]
class Work:
    def run(self):
        last = None
        for _ in range(N(1000)):
            last = Node(last)
        while last is not None:  # or the end of a long chain would recurse
            last = last.before
""",
    "awaits": """
import asyncio
async def one(x):
    await asyncio.sleep(0)
    return x
class Work:
    async def run(self):
        for i in range(N(200)):
            await one(i)
""",
    "threads": """
import queue, threading
class Work:
    def run(self):
        asked, done = queue.Queue(), queue.Queue()
        def serve():
            while (x := asked.get()) is not None:
                done.put(sum(range(x)))
        thread = threading.Thread(target=serve)
        thread.start()
        for _ in range(N(1000) // 10):
            for _ in range(10):
                asked.put(1000)
            for _ in range(10):
                done.get()
        asked.put(None)
        thread.join()
""",
    "files": """
import os
class Work:
    def __init__(self):
        self.data = b"x" * 4096
        self.path = f"/tmp/latlab-bench-files-{os.getpid()}"
    def run(self):
        with open(self.path, "wb") as file:
            for _ in range(N(100)):
                file.write(self.data)
        with open(self.path, "rb") as file:
            while file.read(4096):
                pass
        os.unlink(self.path)
""",
}
COMPILED = ("Hash", "Sort")
COMMANDS = {
    "grep": "grep -c needle.*never {folder}/lines{n}.txt",  # in the last line: at a match it stops
    "sort": "sort -o /dev/null {folder}/few{n}.txt",
    "python -c": f"{sys.executable} -S -c 'for i in range({{n}}000): i * i'",
}
STEADY = {"pure", "words", "regex", "json", "Sort", "python -c"}
WORKLOADS = (*PYTHON, *COMPILED, *COMMANDS)
VERDICTS = ("equivalent", "inconclusive", "faster", "slower", "mixed", "failed")


def built(folder: Path, side: str, change: int) -> None:
    """All files of one side, whose work is longer by so many thousandths."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("needs a C++ compiler")
    for name, text in PYTHON.items():
        head = f"def N(count):\n    return count * {1000 + change} // 1000\n"
        (folder / f"{name}-{side}.py").write_text(head + text)
    command = [compiler, "-std=c++20", "-O2", "-shared", "-fPIC", f"-I{latlab.get_include()}"]
    out = ["-o", str(folder / f"compiled-{side}.so")]
    subprocess.run([*command, f"-DMORE={change}", str(HERE / "bench_workloads.cpp"), *out], check=True)
    drawn = random.Random(5)
    lines = [f"{drawn.random()} needle {i} {'end' if i % 7 else ''}\n" for i in range(100 * (1000 + change))]
    (folder / f"lines{1000 + change}.txt").write_text("".join(lines) + "needle never\n")
    (folder / f"few{1000 + change}.txt").write_text("".join(lines[: 10 * (1000 + change)]))


def target(folder: Path, name: str, side: str, change: int) -> Any:
    """One side of a comparison."""
    if name in COMMANDS:
        return bench.parse(COMMANDS[name].format(folder=folder, n=1000 + change))
    file = f"compiled-{side}.so:{name}" if name in COMPILED else f"{name}-{side}.py:Work"
    return bench.parse(f"{folder}/{file}")


def compared(
    folder: Path, name: str, change: int, seconds: float, seed: int, settings: Any
) -> dict[str, Any]:
    """One comparison's outcome; in every other one the slower side comes first."""
    begin, swapped = time.monotonic(), bool(seed % 2)
    a, b = target(folder, name, "base", 0), target(folder, name, f"more{change}", change)
    if swapped:
        a, b = b, a
    line: dict[str, Any] = {"workload": name, "change": change, "swapped": swapped}
    try:
        judged, plan = bench.run_ab(
            a, b, settings, bench.Asked(seconds=seconds, seed=seed), bench.Recorder(), control=False
        )
    except LatlabError as error:
        return {**line, "verdict": "failed", "why": str(error)}
    result = judged.result
    return {
        **line, "verdict": result.verdict.value, "by": judged.decided_by, "effect": result.effect,
        "interval": result.interval, "pairs": result.pairs, "pair_s": round(plan.pair_s, 4),
        "seconds": round(time.monotonic() - begin, 2), "why": result.why,
    }  # fmt: skip


def main() -> None:
    """Print a line for each comparison and the table at the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--changes", default="0,20,50")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--load", choices=["idle", "hog"], default="idle")
    parser.add_argument("--plain", action="store_true", help="All CPUs, ordinary scheduling.")
    parser.add_argument("--limit", type=float, default=600.0, help="Seconds of all together.")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--outcomes", type=Path)
    given = parser.parse_args()
    changes, names = [int(c) for c in given.changes.split(",")], given.workloads.split(",")
    drawn, settings = random.Random(given.seed), bench.default_settings()
    if given.plain:
        every = tuple(sorted(os.sched_getaffinity(0)))
        settings = dataclasses.replace(settings, cpu=None, cpus=every, priority=0, fitting=False)
    deadline = time.monotonic() + given.limit
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as text, load(given.load) if given.limit else contextlib.nullcontext():
        folder = Path(text)
        if given.limit:
            built(folder, "base", 0)
            for change in changes:
                built(folder, f"more{change}", change)
        left: list[tuple[str, int]] = []
        while time.monotonic() < deadline - given.seconds:
            if not left:
                left = [(name, change) for name in names for change in changes]
                drawn.shuffle(left)
            line = compared(folder, *left.pop(), given.seconds, drawn.randrange(1 << 31), settings)
            line |= {"load": f"{given.load}, plain" if given.plain else given.load, "budget": given.seconds}
            print(json.dumps(line), flush=True)
            lines.append(line)
            if given.outcomes is not None:
                with open(given.outcomes, "a") as out:
                    out.write(json.dumps(line) + "\n")
    if given.outcomes is not None and not given.limit:
        lines = [json.loads(line) for line in given.outcomes.read_text().splitlines()]
    table(lines)


def table(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print what was said of each workload and change, and how many were reversed."""
    seen: dict[tuple[int, str, str], Counter[str]] = {}
    for line in lines:
        kind = "steady" if line["workload"] in STEADY else "scatters"
        for name in (line["workload"], f"({kind})", "(all)"):
            counts = seen.setdefault((line["change"], line["load"], name), Counter())
            counts[line["verdict"]] += 1
            wrong = {"slower" if line["swapped"] else "faster", "mixed"}
            counts["reversed"] += line["change"] > 0 and line["verdict"] in wrong
    print("\n| workload | change | load | comparisons | " + " | ".join((*VERDICTS, "reversed")) + " |")
    print("|---" * (len(VERDICTS) + 5) + "|")
    for (change, busy, name), counts in sorted(seen.items()):
        total = sum(counts[v] for v in VERDICTS)
        cells = [name, f"+{change / 10:g} %", busy, str(total)]
        print("| " + " | ".join([*cells, *(str(counts[v]) for v in (*VERDICTS, "reversed"))]) + " |")


if __name__ == "__main__":
    main()
