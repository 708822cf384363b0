"""Forecasts of Coz, of the schedule and of stubs beside programs that really are faster.

    python -m benchmarks.schedule_coz [--seed N] [--rounds N] [--seconds S] [--stubs S] [--only NAME …]

Coz (`coz-profiler` of Debian) forecasts what a faster source line buys, of systems in one process whose parts
stand on lines of their own, with a progress point where a round is done, as its manual has it. It runs with
the line and the speed-up fixed, twice S seconds for each of 0, 20, 50, 80 and 100 %, in turn; what its two
passes differ by is told. For Coz to see what these programs do, five things are needed:

- no DWARF 5 and no location views (-gdwarf-4 -gno-variable-location-views): it reads neither;
- no call in tail position (-fno-optimize-sibling-calls) and no merged calls (-fno-crossjumping): a line whose
  call is a jump is in no call chain, has no sample, and each speed-up of it is forecast to buy nothing;
- work in user code: it samples nothing in the kernel, and a speed-up is given per sample;
- waits by pthread's functions: it takes no account of its delays in a wait by a futex (std::barrier's);
- CPUs of its own: a point and its baseline are different times. As root all runs have a real-time policy.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import latlab
from benchmarks._options import systems_parser
from benchmarks.schedule_forecast import HERE, System, scenario_of, seconds_of
from latlab.errors import LatlabError
from latlab.schedule import capture_command
from latlab.schedule.simulation.forecast import SPEEDUPS, forecast
from latlab.stubs import StudyPlan, study

SOURCE = HERE / "systems.cpp"
SYSTEMS = tuple(
    System("systems", *part)
    for part in (
        ("serial", "first", "function"), ("line_middle", "middle"), ("line_cpus", "middle"),
        ("line_last", "last"), ("fork_join", "late"), ("rounds", "slow"), ("locked", "hold", "lock"),
        ("pool", "worker"), ("paced", "worker"), ("napping", "nap", "timer", "napper"),
    )
)  # fmt: skip
FLAGS = (
    "-gdwarf-4", "-gno-variable-location-views", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls",
    "-fno-crossjumping", "-DLATLAB_WITH_COZ",
)  # fmt: skip
LONG = 10_000  # times its rounds: longer than any run of Coz
PASSES = 2
FEWEST = 10  # samples in the line a second, of some 1,000 where it is always worked on
Row = list[float]


def line_of(system: System) -> int:
    """Where the part stands in the source."""
    function = "line" if system.name.startswith("line") else system.name
    inside = False
    for number, text in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1):
        inside = text.startswith(f"void {function}(") or (inside and text != "}")
        if inside and re.search(rf'\b(work|nap)\("{system.part}"', text):
            return number
    raise SystemExit(f"{system.name}: no line works as {system.part}")


def period(command: list[str], line: int, speedup: float, seconds: float, folder: Path) -> tuple[float, int]:
    """Seconds between two visits of the progress point with the line so much faster, and its samples."""
    profile = folder / "profile.coz"
    profile.unlink(missing_ok=True)
    whole = [
        "timeout", "--signal=INT", f"{seconds:g}", *first(), "coz", "run", "--output", str(profile),
        "--source-scope", str(SOURCE), "--fixed-line", f"{SOURCE}:{line}",
        "--fixed-speedup", f"{100 * speedup:.0f}", "---", *command, "none", "0", str(LONG),
    ]  # fmt: skip
    subprocess.run(whole, capture_output=True, check=False)
    text = profile.read_text(encoding="utf-8") if profile.exists() else ""

    def total(pattern: str) -> int:
        return sum(int(found) for found in re.findall(pattern, text, re.M))

    visits = total(r"^throughput-point\t.*delta=(\d+)")
    spent = total(r"\tduration=(\d+)") / 1e9
    return (spent / visits if visits else math.nan), total(r"selected-samples=(\d+)")


def first() -> list[str]:
    """What runs before a command so that other programs disturb it less."""
    return ["chrt", "-r", "10"] if os.geteuid() == 0 and shutil.which("chrt") else []


def by_coz(command: list[str], system: System, seconds: float, folder: Path) -> tuple[Row, str]:
    """Its times in parts of the whole, and how far they can be trusted."""
    line = line_of(system)
    passes = []
    samples = 0
    for _ in range(PASSES):
        found = [period(command, line, share, seconds, folder) for share in (0.0, *SPEEDUPS)]
        passes.append([one / found[0][0] for one, _ in found[1:]])
        samples += sum(count for _, count in found)
    if samples < FEWEST * PASSES * (1 + len(SPEEDUPS)) * seconds:
        return [math.nan] * len(SPEEDUPS), f"not measurable: {samples} samples are in the line"
    apart = 100 * float(np.max(np.ptp(passes, axis=0)))
    return list(np.mean(passes, axis=0)), f"passes differ by up to {apart:.1f}"


def by_schedule(command: list[str], system: System) -> tuple[Row, str]:
    """The forecast from one recording."""
    if system.kind == "function":
        return [math.nan] * len(SPEEDUPS), "not asked: a part of a thread"
    schedule = capture_command([*first(), *command])
    base, (found,) = forecast(schedule, [scenario_of(system, schedule)])
    if found.withheld:
        return [math.nan] * len(SPEEDUPS), f"withheld: {found.withheld}"
    whole = base.recorded_ns
    bounds = [(point.time_ns.low or 0.0, point.time_ns.high or math.inf) for point in found.points]
    told = " ".join(f"{100 * low / whole:.1f}–{100 * high / whole:.1f}" for low, high in bounds)
    shares = [point.time_ns.value / whole for point in found.points]
    return shares + [math.nan] * (len(SPEEDUPS) - len(shares)), told  # whose end is open has fewer


def by_stubs(command: list[str], system: System, seconds: float) -> tuple[Row, str]:
    """The forecast from stubs in the part's place."""
    plan = StudyPlan(
        component=system.part, kind="c++", seconds=seconds,
        faster="both" if system.kind == "timer" else "work",
    )  # fmt: skip
    try:
        found = study(plan, [*first(), *command])
    except LatlabError as error:
        return [math.nan] * len(SPEEDUPS), str(error)
    at = {round(point.speedup, 3): 1.0 - point.gain for point in found.curve}
    return [at.get(share, math.nan) for share in SPEEDUPS], ", ".join(found.warnings)


def compare(system: System, programs: tuple[str, str], options: argparse.Namespace, folder: Path) -> None:
    """Print its lines: the truth, then each forecast with its error and the time that it took."""
    program, stubbed = programs
    command = [program, system.name, str(options.seed)]
    times: dict[float, list[float]] = {share: [] for share in (0.0, *SPEEDUPS)}
    for _ in range(options.rounds):
        for share in times:
            times[share].append(seconds_of([*first(), *command, system.part, str(share)]))
    truth = [min(times[share]) / min(times[0.0]) for share in SPEEDUPS]
    print(f"{system.name:11} {system.part:7} truth    {row(truth)}", flush=True)
    ways: dict[str, Callable[[], tuple[Row, str]]] = {"schedule": lambda: by_schedule(command, system)}
    if options.stubs:
        ways["stubs"] = lambda: by_stubs([stubbed, *command[1:]], system, options.stubs)
    if options.seconds:
        ways["coz"] = lambda: by_coz(command, system, options.seconds, folder)
    for name, ask in ways.items():
        began = time.monotonic()
        said, note = ask()
        took = time.monotonic() - began
        errors = 100 * np.abs(np.subtract(said, truth))
        told = "" if np.isnan(errors).all() else f"  mean {np.mean(errors):4.1f} max {np.max(errors):4.1f}"
        print(f"{'':19} {name:8} {row(said)}{told}  {took:3.0f} s  {note}", flush=True)


def row(shares: Row) -> str:
    """Times in percent of the whole."""
    return " ".join(f"{100 * share:6.1f}" for share in shares)


def main() -> int:
    parser = systems_parser(__doc__, rounds=2)
    parser.add_argument("--seconds", type=float, default=5.0, help="of Coz's runs; 0 leaves it out")
    parser.add_argument("--stubs", type=float, default=40.0, help="seconds of a study; 0 leaves it out")
    options = parser.parse_args()
    if options.seconds and shutil.which("coz") is None:
        print("Coz isn't installed: apt-get install coz-profiler")
        return 2
    if {one.name for one in SYSTEMS}.isdisjoint(options.only) and options.only:
        parser.error(f"no such system: {', '.join(options.only)}")
    print("time in % of the whole, with the part 20, 50, 80 and 100 % faster")
    with tempfile.TemporaryDirectory() as folder:
        build = ["c++", "-O2", "-std=c++20", "-pthread", *FLAGS, str(SOURCE)]
        program, stubbed = f"{folder}/systems", f"{folder}/stubbed"
        subprocess.run([*build, "-o", program, "-ldl"], check=True)
        include = Path(latlab.__file__).parent / "include"
        subprocess.run([*build, "-DLATLAB_WITH_STUBS", f"-I{include}", "-o", stubbed, "-ldl"], check=True)
        if first():
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))
        for system in SYSTEMS:
            if not options.only or system.name in options.only:
                compare(system, (program, stubbed), options, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
