"""The planted bottleneck of simulated tandem lines: how often is it named, by the plain rule and by
`analyse`?

Bars: at 5 % slower in 285 of 300, at 10 % in 300 of 300, saturated and at 92 % load; named where nothing
limits in at most 2 %. `python -m benchmarks.queues_bottleneck [cases] [events]`
"""

import sys
import time

import numpy as np

from latlab.queues import analyse
from latlab.queues._tandem import Line, observe, simulate

PERIOD_NS = 50_000.0


def cell(line: Line, cases: int, events: int) -> tuple[int, int]:
    """(cases in which the plain rule has the planted stage first, cases that `analyse` names right)."""
    slow = np.arange(cases) % line.stages if line.slower else np.full(cases, -1)
    times = simulate(line, slow, events, seed=7)
    plain = right = 0
    for case in range(cases):
        found = analyse(observe(line, times, case, PERIOD_NS))
        wanted = f"stage-{slow[case]}" if slow[case] >= 0 else None
        plain += max(found.stages, key=lambda stage: stage.ready or 0.0).label == wanted
        right += found.limiting_stage == wanted
    return plain, right


def main() -> int:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    events = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    start, missed = time.monotonic(), 0
    print(f"{cases} cases a cell, {events} events through 5 stages, exponential service, queues of 16")
    for slower, share in ((0.05, 0.95), (0.10, 1.0), (0.0, 0.98)):
        for load in (1.5, 0.92) if slower else (0.6, 0.5):
            for holds in (False, True):
                plain, right = cell(Line(slower=slower, load=load, holds=holds), cases, events)
                met = right >= share * cases
                missed += not met
                print(
                    f"slower {slower:4.0%} load {load:4.2f} {'front/pop' if holds else 'pop first':9}: "
                    f"plain rule {plain:3d}, analyse {right:3d} of {cases}, bar {share * cases:.0f} "
                    f"{'met' if met else 'MISSED'}",
                    flush=True,
                )
    print(f"{time.monotonic() - start:.0f} s")
    return missed


if __name__ == "__main__":
    sys.exit(main())
