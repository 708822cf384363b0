"""A forecast by a queue model against a real rerun: lines, forks, joins, circles, lent buffers, workers.

Each pipeline of `benchmarks.shapes` is diagnosed with its forecast; then it runs again with the slow stage
really so much faster, and its throughput is read from that run's own recording. A forecast that is withheld,
or that only says "at least", is counted apart: what it says must hold all the same.

    python -m benchmarks.shapes_forecast [--seed 1] [--seconds 3] [--only TEXT] [--faster 0.4]

Bars: the mean error of what is forecast is at most 5 %; no rerun is more than 10 % below what was told.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks._bars import Bar, report
from benchmarks.shapes import PROGRAMS, command_of, compiled
from benchmarks.shapes_cases import Case, cycle, diamond, fork, join, lent, of_two_groups, plain, workers
from latlab.queues import load, served_hz
from latlab.system.scratch import scratch

_MAKERS = (plain, fork, join, diamond, cycle, lent, workers, of_two_groups)
_RUNTIMES = ("threads", "processes")
_BAR, _BELOW = 0.05, -0.10


def diagnosed(case: Case, folder: Path, seconds: float, *options: str) -> dict[str, Any]:
    folder.mkdir()
    command = ["latlab", "diagnose", "--json", "-o", str(folder / "run"), "--seconds", str(seconds + 2)]
    command += [*options, "--", *command_of(case, folder, seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def carried_hz(case: Case, run: Path) -> float:
    """Events a second through the last stages; round a circle, through the named one."""
    spec = case.spec
    ends = {one["name"] for one in spec["stages"] if one["in"] and not one["out"] and "returns" not in one}
    return served_hz(load(run / "observation"), ends or set(case.names))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", help="shapes or runtimes that hold this text")
    parser.add_argument("--faster", type=float, default=0.4, choices=[0.2, 0.4, 0.6, 0.8])
    given = parser.parse_args()
    errors, below, counts = [], [], {"forecast": 0, "at least": 0, "none": 0}
    with scratch("shapes") as temporary:
        compiled(PROGRAMS / "in_cpp.cpp", Path(temporary))
        for number, (make, runtime) in enumerate((m, r) for m in _MAKERS for r in _RUNTIMES):
            case = make(random.Random(f"{given.seed} {number}"), runtime)
            case.spec["seed"] = number
            if given.only not in f"{case.shape} {runtime}" or (make is lent and runtime != "threads"):
                continue
            (stage,) = case.names
            before, after = Path(temporary) / f"{number}-before", Path(temporary) / f"{number}-after"
            answer = diagnosed(case, before, given.seconds, "--stage", stage)
            faster = copy.deepcopy(case)
            for one in faster.spec["stages"]:
                one["ms"] = one.get("ms", 0.0) * ((1 - given.faster) if one["name"] == stage else 1.0)
            diagnosed(faster, after, given.seconds, "--no-forecast")
            base, real = carried_hz(case, before / "run"), carried_hz(faster, after / "run")
            if not answer["forecasts"]:
                counts["none"] += 1
                why = [step["detail"] for step in answer["steps"] if step["name"].startswith("forecast")][-1]
                print(f"{case.shape:14} {runtime:10} {base:6.0f} → {real:6.0f}/s; none: {why}", flush=True)
                continue
            (made,) = answer["forecasts"]
            told = next(point for point in made["points"] if point["speedup"] == given.faster)["rate_hz"]
            error = told["value"] / real - 1
            counts["at least" if made["kind"] == "open" else "forecast"] += 1
            below.append(real / told["value"] - 1)
            if made["kind"] != "open":
                errors.append(abs(error))
            print(
                f"{case.shape:14} {runtime:10} {base:6.0f} → {real:6.0f}/s; {made['kind']} "
                f"{told['value']:6.0f}/s ({error:+.1%}), then {made['takes_over']}",
                flush=True,
            )
    print(", ".join(f"{name} {count}" for name, count in counts.items()))
    return report(
        [
            Bar("mean error of what is forecast", sum(errors) / max(1, len(errors)), _BAR),
            Bar("the rerun that is furthest below", min(below, default=0.0), _BELOW, at_least=True),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
