"""Twelve workloads against themselves and against slower ones: `python -m benchmarks.bench_identical`.

`[--rounds N] [--first N] [--workloads A,B] [--seconds S] [--changes 0,2,5] [--load hog] [--outcomes FILE]`
`--rounds 0 --outcomes FILE` tables what several parts have appended to a file.

Each workload is compared with a copy of itself (any difference is a false alarm) and with copies that do 2
and 5 % more work. With --load a busy process runs on every CPU. Bars: identical code called different in at
most 2 % of 200 comparisons; +2 % found in 90 % of those of steady workloads, +5 % in those of all, none
reversed. Beside other tools: `python -m benchmarks.bench_peers`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench_calibration import load
from latlab import bench
from latlab.errors import LatlabError
from latlab.stats.experiments.multiple import proportion_bounds

# What a run begins with, what it does so many times (which grows by the planted change), and whether it is
# steady: those that allocate, hash or reach into memory scatter. TABLE and SAMPLE are made once a process, or
# making them would dilute the change.
WORKLOADS = {
    name: (before, work, int(count), manner == "steady")
    for name, before, work, count, manner in (
        re.split("  +", line.strip())
        for line in """
    arithmetic  x = 1                  x = (x * 31 + i) % 1000003         1000  steady
    floats      x = 0.5                x = x * 1.0000001 + 0.1            1000  steady
    calls       x = 0                  x = max(x, i)                      1000  steady
    text        x = 'a,b,c'            x.split(',')                        500  steady
    format      x = 0                  f'{i:>8}'                           500  steady
    lists       x = []                 x = [i, i]                         1000  scatters
    tuples      x = (1, 2)             x = (x[1], i)                      1000  scatters
    dictionary  x = {}                 x[i % 97] = i                      1000  scatters
    lookups     x, n = TABLE, KEYS     x[n[i % 2000]]                     1000  scatters
    objects     x = object             x()                                1000  scatters
    bytes       x = bytes(4096)        x[::-1]                             100  scatters
    sorting     n = SAMPLE             sorted(n)                            50  scatters
    """.strip().splitlines()
    )
}

MADE_ONCE = """import random
TABLE = {str(k): k for k in range(2000)}
KEYS = list(TABLE)
SAMPLE = random.Random(1).sample(range(900), 100)
"""


def source(name: str, change: int) -> str:
    """A file with a fixture whose work is longer by so many per cent."""
    before, work, count, _ = WORKLOADS[name]
    count = round(count * (1 + change / 100))
    lines = ["class Work:", "    def run(self):", f"        {before}", f"        for i in range({count}):"]
    return MADE_ONCE + "\n".join([*lines, f"            {work}", ""])


def main() -> None:
    """Print a line for each comparison and the table at the end."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--rounds", type=int, default=17)
    parser.add_argument(
        "--first", type=int, default=0, help="Number of the first round, which its coins are drawn by."
    )
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--changes", default="0,2,5")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--load", choices=["idle", "hog"], default="idle")
    parser.add_argument("--outcomes", type=Path)
    given = parser.parse_args()
    changes = [int(c) for c in given.changes.split(",")]
    lines: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, load(given.load), contextlib.ExitStack() as stack:
        out = stack.enter_context(open(given.outcomes, "a")) if given.outcomes else None
        for name in given.workloads.split(","):
            for change in {0, *changes}:
                Path(folder, f"{name}{change}.py").write_text(source(name, change))
            Path(folder, f"{name}.py").write_text(source(name, 0))
        for round_number in range(given.first, given.first + given.rounds):
            for name in given.workloads.split(","):
                for change in changes:
                    begin = time.monotonic()
                    seed = 1000 * round_number + 10 * list(WORKLOADS).index(name) + change
                    asked = bench.Asked(seconds=given.seconds, seed=seed)
                    sides = [bench.parse(f"{folder}/{name}{c}.py:Work") for c in ("", change)]
                    try:
                        judged, _ = bench.run_ab(
                            sides[0],
                            sides[1],
                            bench.default_settings(),
                            asked,
                            bench.Recorder(),
                            control=False,
                        )
                        verdict, by = judged.result.verdict.value, judged.decided_by
                    except LatlabError as error:
                        verdict, by = f"failed: {error}", ""
                    line = {"workload": name, "change": change, "verdict": verdict, "by": by,
                            "seconds": round(time.monotonic() - begin, 2)}  # fmt: skip
                    print(json.dumps(line), flush=True)
                    lines.append(line)
                    if out is not None:
                        out.write(json.dumps(line) + "\n")
                        out.flush()
    if given.outcomes and not given.rounds:
        lines = [json.loads(text) for text in given.outcomes.read_text().splitlines()]
    table(lines)


def table(lines: Sequence[Mapping[str, Any]]) -> None:
    """Print what was said of each change."""
    seen: dict[int, Counter[str]] = {line["change"]: Counter() for line in lines}
    steady: dict[int, Counter[str]] = {change: Counter() for change in seen}
    for line in lines:
        seen[line["change"]][line["verdict"]] += 1
        if WORKLOADS[line["workload"]][3]:
            steady[line["change"]][line["verdict"]] += 1
    print(
        "\n| change | comparisons | " + " | ".join(VERDICTS) + " | different, upper 95 % | slower of steady |"
    )
    print("|---" * (len(VERDICTS) + 4) + "|")
    for change in sorted(seen):
        total = sum(seen[change].values())
        different = sum(seen[change][v] for v in ("faster", "slower", "mixed"))
        cells = [f"+{change} %", str(total), *(str(seen[change][v]) for v in VERDICTS)]
        cells.append(f"{100 * proportion_bounds(different, total)[1]:.1f} %")
        cells.append(f"{steady[change]['slower']} of {sum(steady[change].values())}")
        print("| " + " | ".join(cells) + " |")


VERDICTS = ("equivalent", "inconclusive", "faster", "slower", "mixed")

if __name__ == "__main__":
    main()
