"""Forecasts of the captured schedule against programs that really are faster.

    python benchmarks/schedule_forecast.py [--seed N] [--rounds N] [--only NAME …]

Each system is captured once; what its part's being 20, 50, 80 and 100 % faster would buy is forecast; then
the program with the work taken out is run, in turn with the unchanged one. Run as root it goes before other
programs (autogroup), so that a busy machine disturbs both sides less.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from latlab.model.schedule import Schedule, State, Wait
from latlab.model.simulation import Scenario
from latlab.schedule import capture_command
from latlab.schedule.simulation.forecast import SPEEDUPS, forecast, kind_of

# Runs go before other programs where that is allowed, so that a busy machine disturbs both sides less.
FIRST = """
import os, sys
try:
    os.setsid()
    with open("/proc/self/autogroup", "w") as group:
        group.write("-20")
except OSError:
    pass
os.execv(sys.argv[1], sys.argv[1:])
"""
HERE = Path(__file__).parent / "schedule_programs"


@dataclass(frozen=True)
class System:
    """A program, the part that is made faster, and by what the part is found in a schedule."""

    name: str
    part: str
    kind: str
    role: str = ""


SYSTEMS = (
    System("line_middle", "middle", "role"),
    System("line_middle", "first", "role"),
    System("line_cpus", "middle", "role"),
    System("line_last", "last", "role"),
    System("fork_join", "late", "role"),
    System("fork_join", "early", "role"),
    System("rounds", "slow", "role"),
    System("rounds", "quick", "role"),
    System("locked", "hold", "lock"),
    System("pool", "worker", "role"),
    System("pool", "feeder", "role"),
    System("paced", "worker", "role"),
    System("napping", "nap", "timer", "napper"),
    System("crowd", "big", "role"),
    System("crowd", "small", "role"),
    System("asking", "server", "role"),
    System("asking", "client", "role"),
    System("pipes", "middle", "role"),
    System("pipes", "last", "role"),
    System("disk", "maker", "role"),
)


def scenario_of(system: System, schedule: Schedule) -> Scenario:
    """What the program's part is in its schedule."""
    role = system.role or system.part
    threads = tuple(index for index, one in enumerate(schedule.threads) if one.name == role)
    if system.kind == "lock":
        rows = schedule.intervals
        waits = rows[(rows["state"] == State.BLOCKED) & (rows["wait"] == Wait.FUTEX) & (rows["waker"] >= 0)]
        objects, counts = np.unique(waits["object"], return_counts=True)
        return Scenario("lock", "hold", object=int(objects[np.argmax(counts)]))
    if not threads:
        raise SystemExit(f"{system.name}: no thread is called {role}")
    return Scenario("timer" if system.kind == "timer" else "role", role, threads)


def seconds_of(command: list[str]) -> float:
    """One run of a command, to its end."""
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def compare(system: System, command: list[str], rounds: int) -> tuple[float, bool]:
    """Print one system's line; the greatest error in points, and whether the class is right."""
    schedule = capture_command(command)
    base, (found,) = forecast(schedule, [scenario_of(system, schedule)])
    if found.withheld:
        print(f"{system.name:12} {system.part:8} withheld: {found.withheld}", flush=True)
        return float("nan"), True
    times: dict[float, list[float]] = {share: [] for share in (0.0, *SPEEDUPS)}
    for _ in range(rounds):
        for share in times:
            times[share].append(seconds_of([*command, system.part, str(share)]))
    whole = float(np.median(times[0.0]))
    truth = [float(np.median(times[share])) / whole for share in SPEEDUPS]
    said = [point.time_ns.value / base.recorded_ns for point in found.points]
    errors = [100 * (a - b) for a, b in zip(said, truth, strict=True)]
    inside = sum(
        point.time_ns.low <= t * base.recorded_ns <= point.time_ns.high
        for point, t in zip(found.points, truth, strict=True)
    )
    kind = kind_of([0.0, *SPEEDUPS], [1.0, *truth])
    points = "  ".join(f"{100 * a:5.1f}/{100 * b:5.1f}" for a, b in zip(said, truth, strict=True))
    print(
        f"{system.name:12} {system.part:8} null {100 * base.error:+5.2f} %  {points}  "
        f"mean |error| {np.mean(np.abs(errors)):4.1f}  inside {inside}/4  {found.kind}/{kind}",
        flush=True,
    )
    return float(np.mean(np.abs(errors))), kind == found.kind


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[])
    arguments = parser.parse_args()
    print("forecast/truth in % of the whole time, with the part 20, 50, 80 and 100 % faster")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/systems"
        source = str(HERE / "systems.cpp")
        first = Path(folder, "first.py")
        first.write_text(FIRST)
        subprocess.run(["c++", "-O2", "-std=c++20", "-pthread", source, "-o", program], check=True)
        results = [
            compare(
                system,
                [sys.executable, str(first), program, system.name, str(arguments.seed)],
                arguments.rounds,
            )
            for system in SYSTEMS
            if not arguments.only or system.name in arguments.only
        ]
    errors = np.array([error for error, _ in results])
    wrong = sum(not right for _, right in results)
    print(
        f"mean |error| {np.nanmean(errors):.1f} points of {np.isfinite(errors).sum()} forecasts, "
        f"{np.isnan(errors).sum()} withheld, {wrong} classes wrong"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
