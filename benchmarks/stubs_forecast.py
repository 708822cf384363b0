"""Blind forecasts against the truth: systems of known structure, forecast by stubs, then really made faster.

    python benchmarks/stubs_forecast.py [--only NAME ...] [--seconds 30] [--truth-seconds 30] [--unpinned]
        [--results FILE [--minutes 9]]

For each system the 11-point curve is forecast by `latlab stubs study`, which sees the component at full work
only. Then LATLAB_FASTER makes the component really do 0, 10, … 100 % less, in rounds whose order is drawn
anew, and the system is measured; the truth has intervals too, from the same estimate of levels. An error is
a difference of gains in points (percent of the unmodified system's time); one within the truth's own interval
is none ("beyond"), and the plain differences stand beside it. A truth that is known worse than to a point
takes up to three times its seconds; its levels are the expected least of four runs, as the study's unit is.
Wants a quiet machine with two CPUs; about 62 s a system, 40 minutes in all. The file of --results has a line
of JSON for each system, the runs of both included; a system that stands there isn't measured again, and with
--minutes none is begun that might not end in time: the same command goes on where it stopped, and ends with
the bars over all that is there.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import latlab
from benchmarks._options import parser_of
from latlab.errors import LatlabError
from latlab.model.stubs import SpeedupForecast
from latlab.stubs import StudyPlan, forecast, study
from latlab.stubs.studies.levels import SINGLE

_HERE = Path(__file__).parent / "stubs_systems"
LEAST_TRUTH = 3  # rounds in each half
_ROUND_S = 15.0  # what a study and a truth may take longer than they were given
KNOWN, LONGEST = 0.01, 3  # a truth that is known worse goes on, up to so many times its time


@dataclass(frozen=True)
class System:
    """A system, and what its structure says of it."""

    name: str
    kind: str
    expected: str
    released: bool = False
    component: str = "component:compute"
    faster: str = "work"


SYSTEMS = [
    *(System(name, "c++", expected) for name, expected in {
        "serial": "total", "serial-small": "total", "serial-short": "total", "fork-join": "limited",
        "fork-join-none": "none", "fork-join-tail": "limited", "phases": "limited", "pipeline": "limited",
        "pipeline-none": "none", "pipeline-second": "limited", "pipeline-hidden": "limited",
        "lock": "limited", "lock-all": "total", "lock-none": "none", "io": "total",
        "io-behind": "limited", "io-none": "none",
        "io-inside": "total", "memory": "total", "memory-beside": "limited", "memory-stages": "limited",
        "copy": "total", "copy-beside": "limited", "sort": "total",
        "text": "total", "text-beside": "limited", "barrier": "limited", "pipeline-three": "limited",
        "workers": "total", "round-trips": "total", "due": "limited", "due-none": "none",
        "processes": "limited",
        "processes-serial": "total", "processes-none": "none",
    }.items()),
    System("py-serial", "python", "total"),
    System("py-gil", "python", "total"),
    System("py-released", "python", "limited", released=True, component="component:digest"),
    System("py-background", "python", "none"),
    System("py-stages", "python", "limited"),
    System("py-small", "python", "none"),
    System("py-processes", "python", "limited"),
    System("py-tasks", "python", "total"),
    System("py-timer", "python", "limited"),
    System("py-pool", "python", "total"),
    System("py-templates", "python", "total", component="component:render"),
    System("py-text", "python", "total", component="component:wrap"),
    System("py-channel", "python", "limited"),
    System("py-answers", "python", "limited", component="component:encode"),
    System("py-mapped", "python", "total", component="component:substitute"),
    System("py-hashes", "python", "limited", released=True, component="component:digest"),
    System("py-documents", "python", "total", component="component:encode"),
    System("py-replies", "python", "limited", component="component:substitute"),
    System("py-formats", "python", "total", component="component:lines"),
    System("py-copies", "python", "total", component="component:copy"),
    System("py-remote", "python", "total", component="component:ask", faster="wait"),
    System("py-mirrors", "python", "limited", component="component:ask", faster="wait"),
    System("command-serial", "command", "total"),
    System("command-beside", "command", "limited"),
    System("command-none", "command", "none"),
]  # fmt: skip


def build(folder: Path) -> tuple[Path, str]:
    """Compile the native systems; the program, and its iterations a microsecond."""
    program = folder / "systems"
    include = Path(latlab.__file__).parent / "include"
    subprocess.run(
        [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-pthread", f"-I{include}",
         str(_HERE / "systems.cpp"), "-o", str(program)], check=True,
    )  # fmt: skip
    rate = subprocess.run([program, "calibrate"], check=True, capture_output=True, text=True).stdout.strip()
    for name in ("cus-tool", "other-tool"):
        (folder / name).symlink_to(program)
    return program, rate


def command_of(system: System, program: Path, rate: str) -> tuple[str, list[str]]:
    """The component's name and the system's command."""
    if system.kind == "c++":
        return "cus", [str(program), system.name, rate]
    if system.kind == "python":
        name = system.name.removeprefix("py-")
        return system.component, [sys.executable, str(_HERE / "system.py"), name]
    scripts = {
        "command-serial": f"cus-tool part-cus {rate}; other-tool part-other {rate}",
        "command-beside": f"cus-tool part-cus {rate} & other-tool part-other {rate}; wait",
        "command-none": f"cus-tool part-cus {rate} & other-tool part-long {rate}; wait",
    }
    return "cus-tool", ["sh", "-c", scripts[system.name]]


def truth(
    command: list[str], seconds: float, seed: int, longest: float = LONGEST,
    before: Sequence[dict[float, float]] = (),
) -> list[dict[float, float]]:  # fmt: skip
    """The system with a component that is really faster: {speedup: ns} of each round.

    Args:
        longest: times its seconds that it may take until it is known with `before`, its earlier rounds.
    """
    random = np.random.default_rng(seed)
    found: list[dict[float, float]] = []
    begin = time.monotonic()
    while True:
        spent = time.monotonic() - begin
        if len(found) >= LEAST_TRUTH and spent >= seconds:
            known = _half_width(forecast([*before, *found], name="", rank=SINGLE)) <= KNOWN
            if known or spent >= longest * seconds:
                return found
        walls: dict[float, float] = {}
        for s in random.permutation(np.arange(11)):
            environment = {**os.environ, "LATLAB_FASTER": str(s / 10)}
            start = time.perf_counter_ns()
            subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
            walls[int(s) / 10] = float(time.perf_counter_ns() - start)
        found.append(walls)


def _half_width(found: SpeedupForecast) -> float:
    return max(point.interval[1] - point.interval[0] for point in found.curve) / 2


def compare(system: System, program: Path, rate: str, seconds: float, truth_seconds: float) -> dict[str, Any]:
    """Forecast and truth of one system."""
    component, command = command_of(system, program, rate)
    plan = StudyPlan(
        component=component, kind=system.kind, seconds=seconds, released=system.released, faster=system.faster
    )
    # Half of the truth before the study and half after it: what changes on the machine meanwhile is in both.
    really = truth(command, truth_seconds / 2, 7, longest=0.5)
    found = study(plan, command)
    really += truth(command, truth_seconds / 2, 8, before=really)
    real = forecast(really, name=component, rank=SINGLE)
    pairs = list(zip(found.curve, real.curve, strict=True))[1:]
    errors = [abs(a.gain - b.gain) * 100 for a, b in pairs]
    beyond = [
        0.0 if b.interval[0] <= a.gain <= b.interval[1] else abs(a.gain - b.gain) * 100 for a, b in pairs
    ]
    covered = [a.interval[0] <= b.interval[1] and b.interval[0] <= a.interval[1] for a, b in pairs]
    held = [a.interval[0] <= b.gain <= a.interval[1] for a, b in pairs]
    knee = None
    if found.t_limit is not None and real.t_limit is not None:
        knee = abs(found.t_limit - real.t_limit) * 100
    return {
        "system": system.name, "class": found.component_class, "expected": system.expected,
        "really": real.component_class, "drift": found.drift, "mean": float(np.mean(errors)),
        "max": max(errors),
        "mean_beyond": float(np.mean(beyond)), "max_beyond": max(beyond),
        "truth": _half_width(real) * 100,
        "knee": knee, "t_limit": found.t_limit, "real_t_limit": real.t_limit,
        "covered": covered, "held": held,
        "rounds": found.rounds, "seconds": found.seconds, "t_sut_ns": found.t_sut_ns,
        "forecast": [point.gain for point in found.curve], "real": [point.gain for point in real.curve],
        "widths": [(p.interval[1] - p.interval[0]) / 2 for p in found.curve],
        "anomalies": [step.text for step in found.steps if step.verdict == "anomaly"],
        "warnings": list(found.warnings),
        "study_runs": [(run.variant, run.speedup, run.round, run.wall_ns) for run in found.runs],
        "truth_runs": [[one[s] for s in sorted(one)] for one in really],
    }  # fmt: skip


def main() -> None:
    """Print a line a system, then the bars."""
    parser = parser_of(__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--truth-seconds", type=float, default=30.0)
    parser.add_argument("--unpinned", action="store_true", help="leave threads to the scheduler")
    parser.add_argument(
        "--results", type=Path, help="JSON lines, appended to; what is in it is not done again"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop in time")
    options = parser.parse_args()
    unknown = set(options.only) - {system.name for system in SYSTEMS}
    if unknown:
        parser.error(f"no such system: {', '.join(sorted(unknown))}")
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        parser.error("there is no C++ compiler")
    if options.unpinned:
        os.environ["LATLAB_UNPINNED"] = "1"
    begin = time.monotonic()
    results = _before(options.results)
    known = {one["system"] for one in results}
    refused: list[str] = []
    wanted = [one for one in SYSTEMS if not options.only or one.name in options.only]
    longest = options.seconds + LONGEST * options.truth_seconds + _ROUND_S
    with tempfile.TemporaryDirectory() as folder:
        program, rate = build(Path(folder))
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ['PATH']}"
        print(f"{'system':18} {'class':8} {'expected':8} {'mean':>6} {'max':>6} {'truth':>6} {'beyond':>6} "
              f"{'knee':>6} {'covered':>8} "
              f"{'drift':>7} {'rounds':>6} {'s':>5}")  # fmt: skip
        for one in results:
            print(_row(one))
        for system in wanted:
            if system.name in known:
                continue
            if time.monotonic() - begin + longest > 60 * options.minutes:
                break
            try:
                one = compare(system, program, rate, options.seconds, options.truth_seconds)
            except LatlabError as error:  # an answer, too: the others are measured all the same
                print(f"{system.name:18} {error}", flush=True)
                refused.append(system.name)
                continue
            results.append(one)
            print(_row(one), flush=True)
            for anomaly in one["anomalies"]:
                print(f"  {anomaly}")
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"schema": 1, **one}) + "\n")
    print(_bars(results) if results else "nothing was measured")
    left = {one.name for one in wanted} - {one["system"] for one in results}
    if refused:
        print(f"{len(refused)} were refused: {', '.join(refused)}")
    if left:
        print(f"{len(left)} are left: {', '.join(sorted(left))}")


def _before(path: Path | None) -> list[dict[str, Any]]:
    """What was measured already."""
    if path is None or not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _row(one: dict[str, Any]) -> str:
    knee = "" if one["knee"] is None else f"{one['knee']:.1f}"
    return (
        f"{one['system']:18} {one['class']:8} {one['expected']:8} {one['mean']:6.2f} {one['max']:6.2f} "
        f"{one['truth']:6.2f} {one['max_beyond']:6.2f} "
        f"{knee:>6} {sum(one['covered']):>5}/10 {one['drift']:+7.2%} {one['rounds']:6} {one['seconds']:5.1f}"
    )


def _bars(results: list[dict[str, Any]]) -> str:
    knees = [one["knee"] for one in results if one["knee"] is not None]
    covered = [inside for one in results for inside in one["covered"]]
    held = [inside for one in results for inside in one["held"]]
    known = [one for one in results if one["truth"] <= 100 * KNOWN]
    right = sum(one["class"] == one["expected"] for one in results)
    lines = [
        f"{len(held)} points of {len(results)} systems (bar 300 of 30)",
        f"intervals hold {np.mean(held):.1%} of the truths (bar 92 %), meet {np.mean(covered):.1%} of theirs",
        *(f"{_errors(each)}: {what}" for what, each in (
            ("where the truth is known to a point (bars 1 and 3)", known), ("all", results),
        ) if each),
        f"class right in {right} of {len(results)}; knee within {max(knees, default=math.nan):.1f} (bar 3); "
        f"longest study {max(one['seconds'] for one in results):.0f} s (bar 30)",
    ]  # fmt: skip
    return "\n".join(lines)


def _errors(results: list[dict[str, Any]]) -> str:
    mean, beyond = (np.mean([one[key] for one in results]) for key in ("mean", "mean_beyond"))
    most, most_beyond = (max(one[key] for one in results) for key in ("max", "max_beyond"))
    return (
        f"{len(results)} systems, mean error {mean:.2f} points, most {most:.2f}; beyond the truth's own "
        f"intervals {beyond:.2f} and {most_beyond:.2f}"
    )


if __name__ == "__main__":
    main()
