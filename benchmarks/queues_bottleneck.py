"""The planted bottleneck of simulated tandem lines: how often is it named, by the plain rule and by
`analyse`?

Bars: at 5 % slower in 285 of 300, at 10 % in 300 of 300, saturated and at 92 % load; named where nothing
limits (all stages equal, saturated, at 92 % or at 60 % load) in at most 2 %.

    python -m benchmarks.queues_bottleneck [--cases 300] [--events 20000] [--seed 7] [--all] [--only TEXT]

The rule was settled on seed 11; `--all` tries other service times, queues, lengths, periods and manners of
waiting besides the first four.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from latlab.queues import analyse
from latlab.queues.model.tandem import Line, observe, simulate


@dataclass(frozen=True)
class Cell:
    line: Line
    period_ns: float = 50_000.0
    note: str = ""


def base() -> list[Cell]:
    """Exponential service, five stages, queues of 16: taken out first or last, waiting after or before."""
    names = {(False, False): "takes, serves, waits", (True, False): "serves, waits, takes",
             (False, True): "waits, takes, serves", (True, True): "waits, serves, takes"}  # fmt: skip
    return [Cell(Line(holds=h, waits_first=w), note=name) for (h, w), name in names.items()]


def others() -> list[Cell]:
    cells = []
    for cell in base()[:1] + base()[3:]:
        way = cell.note
        line = cell.line
        for variation in (0.0, 0.1, 0.3, 0.6):
            cells.append(Cell(replace(line, variation=variation), note=f"{way}; variation {variation}"))
        cells.append(Cell(replace(line, service="lognormal"), note=f"{way}; lognormal"))
        for capacity in (2, 4, 64, 256):
            cells.append(Cell(replace(line, capacity=capacity), note=f"{way}; queues of {capacity}"))
        for stages in (3, 10):
            cells.append(Cell(replace(line, stages=stages), note=f"{way}; {stages} stages"))
        for period in (5_000.0, 20_000.0, 150_000.0):
            cells.append(Cell(line, period, note=f"{way}; a sample every {period / 20_000:g} services"))
    return cells


def judged(cell: Cell, cases: int, events: int, seed: int) -> tuple[int, int, int]:
    """(the plain rule has the planted stage first, `analyse` is right, `analyse` names a wrong stage)."""
    line = cell.line
    slow = np.arange(cases) % line.stages if line.slower else np.full(cases, -1)
    plain = right = wrong = 0
    # A few cases at a time: all events of all of them are in memory.
    at_once = max(1, 30_000_000 // (events * line.stages))
    for begin in range(0, cases, at_once):
        some = slow[begin : begin + at_once]
        times = simulate(line, some, events, seed=seed + begin)
        for case, planted in enumerate(some):
            found = analyse(observe(line, times, case, cell.period_ns))
            wanted = f"stage-{planted}" if planted >= 0 else None
            plain += max(found.stages, key=lambda stage: stage.ready or 0.0).label == wanted
            right += found.limiting_stage == wanted
            wrong += found.limiting_stage not in (None, wanted)
    return plain, right, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT", help="cells with this in their title")
    options = parser.parse_args()
    start, missed = time.monotonic(), 0
    print(f"{options.cases} cases a cell, {options.events} events through each line, seed {options.seed}")
    for cell in base() + (others() if options.all else []):
        if options.only not in cell.note:
            continue
        print(cell.note)
        for slower, loads, share in (
            (0.05, (1.5, 0.92), 0.95),
            (0.10, (1.5, 0.92), 1.0),
            (0.0, (1.5, 0.92, 0.6), 0.98),
        ):
            for load in loads:
                line = replace(cell.line, slower=slower, load=load)
                plain, right, wrong = judged(
                    replace(cell, line=line), options.cases, options.events, options.seed
                )
                met = right >= share * options.cases
                missed += not met
                bar = f"{share * options.cases:.0f} {'met' if met else 'MISSED'}"
                print(
                    f"  slower {slower:4.0%} load {load:4.2f}: plain rule {plain:3d}, analyse {right:3d} of "
                    f"{options.cases}, wrong {wrong}; bar {bar}",
                    flush=True,
                )
    print(f"{time.monotonic() - start:.0f} s, {missed} cells missed their bar")
    return missed


if __name__ == "__main__":
    sys.exit(main())
