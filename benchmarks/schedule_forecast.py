"""Forecasts of the captured schedule against programs that really are faster.

    python benchmarks/schedule_forecast.py [--seed N] [--rounds N] [--only NAME …]

Each system is captured once; what its part's being 20, 50, 80 and 100 % faster would buy is forecast; then
the program with the work taken out is run, in turn with the unchanged one. The least time of the rounds
counts: others make a run longer, never shorter. Work is CPU time, so that a machine whose speed changes
doesn't matter. As root all runs have a real-time policy, so that a busy machine disturbs them less.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks._options import systems_parser
from latlab.model.schedule import Schedule, State, Wait
from latlab.model.simulation import Scenario
from latlab.schedule import capture_command
from latlab.schedule.simulation.forecast import SPEEDUPS, forecast, kind_of

HERE = Path(__file__).parent / "schedule_programs"
_PAUSE_S = 0.08  # a real-time thread leaves other programs a twentieth of each second, at a stretch


class System(NamedTuple):
    """A program, the part that is made faster, and by what the part is found: a name, or #NUMBER."""

    program: str
    name: str
    part: str
    kind: str = "role"
    role: str = ""


def _of(program: str, *parts: tuple[str, ...]) -> tuple[System, ...]:
    return tuple(System(program, *part) for part in parts)


SYSTEMS = (
    *_of(
        "systems",
        ("line_middle", "middle"), ("line_middle", "first"), ("line_cpus", "middle"), ("line_last", "last"),
        ("fork_join", "late"), ("fork_join", "early"), ("rounds", "slow"), ("rounds", "quick"),
        ("locked", "hold", "lock"), ("pool", "worker"), ("pool", "feeder"), ("paced", "worker"),
        ("napping", "nap", "timer", "napper"), ("crowd", "big"), ("crowd", "small"), ("asking", "server"),
        ("asking", "client"), ("pipes", "middle"), ("pipes", "last"), ("disk", "maker"),
    ),
    *_of(
        "waits",
        ("uneven", "left"), ("uneven", "light"), ("backlog", "eater"), ("backlog", "maker"),
        ("bursts", "eater"), ("bursts", "pause", "timer", "source"), ("semaphores", "eater"),
        ("semaphores", "maker"), ("tasks", "worker"), ("tasks", "boss"), ("relay", "answer"),
        ("shared", "write", "lock"), ("server", "server"), ("server", "client"), ("gather", "eater"),
        ("gather", "maker"), ("phases", "worker"), ("rested", "nap", "timer", "rester"),
    ),
    *_of("interpreted", ("line", "eater", "role", "#2"), ("line", "maker", "role", "#1")),
)  # fmt: skip


def scenario_of(system: System, schedule: Schedule) -> Scenario:
    """What the program's part is in its schedule."""
    role = system.role or system.part
    named = [f"#{index}" if role.startswith("#") else one.name for index, one in enumerate(schedule.threads)]
    threads = tuple(index for index, name in enumerate(named) if name == role)
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
    time.sleep(_PAUSE_S)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def command_of(system: System, folder: str) -> list[str]:
    """How it is run."""
    if system.program == "interpreted":
        return [sys.executable, str(HERE / "interpreted.py"), system.name]
    return [f"{folder}/{system.program}", system.name]


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
    asked = SPEEDUPS[: len(found.points)]
    truth = [min(times[share]) / min(times[0.0]) for share in asked]
    said = [point.time_ns.value / base.recorded_ns for point in found.points]
    errors = [100 * (a - b) for a, b in zip(said, truth, strict=True)]
    inside = sum(
        (point.time_ns.low or 0.0) <= t * base.recorded_ns <= (point.time_ns.high or math.inf)
        for point, t in zip(found.points, truth, strict=True)
    )
    kind = found.kind if found.kind == "open" else kind_of([0.0, *asked], [1.0, *truth])
    points = "  ".join(f"{100 * a:5.1f}/{100 * b:5.1f}" for a, b in zip(said, truth, strict=True))
    print(
        f"{system.name:12} {system.part:8} null {100 * base.error:+5.2f} %  {points}  "
        f"mean |error| {np.mean(np.abs(errors)):4.1f}  inside {inside}/{len(asked)}  {found.kind}/{kind}",
        flush=True,
    )
    return float(np.mean(np.abs(errors))), kind == found.kind


def build_systems(folder: str) -> None:
    for program in ("systems", "waits"):
        source = str(HERE / f"{program}.cpp")
        subprocess.run(
            ["c++", "-O2", "-std=c++20", "-pthread", source, "-o", f"{folder}/{program}"], check=True
        )


def main() -> int:
    arguments = systems_parser(__doc__, rounds=5).parse_args()
    print("forecast/truth in % of the whole time, with the part 20, 50, 80 and 100 % faster")
    with tempfile.TemporaryDirectory() as folder:
        build_systems(folder)
        first: list[str] = []
        if os.geteuid() == 0 and shutil.which("chrt"):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))
            first = ["chrt", "-r", "10"]
        results = [
            compare(system, [*first, *command_of(system, folder), str(arguments.seed)], arguments.rounds)
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
