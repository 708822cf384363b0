"""Forecasts of the schedule beside Coz's, and beside programs that really are faster.

    python -m benchmarks.schedule_coz [--seed N] [--rounds N] [--seconds S] [--only NAME …]

Coz (`coz-profiler` of Debian) forecasts what a faster source line buys: of systems in one process whose parts
stand on lines of their own, with a progress point where a round is done, as its manual has it. It runs with
the line and the speed-up fixed, S seconds for each of 0, 20, 50, 80 and 100 %. It reads no DWARF 5, nor GCC's
location views, so that a program compiled with -g alone ends in it, or gives no experiment.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.schedule_forecast import HERE, System, scenario_of, seconds_of
from latlab.schedule import capture_command
from latlab.schedule.simulation.forecast import SPEEDUPS, forecast

SOURCE = HERE / "systems.cpp"
SYSTEMS = tuple(
    System("systems", *part)
    for part in (
        ("fork_join", "late"), ("fork_join", "early"), ("rounds", "slow"), ("rounds", "quick"),
        ("locked", "hold", "lock"), ("pool", "worker"), ("pool", "feeder"), ("paced", "worker"),
    )
)  # fmt: skip
FLAGS = ("-gdwarf-4", "-gno-variable-location-views", "-fno-omit-frame-pointer", "-DLATLAB_WITH_COZ")
LONG = 1000  # times its rounds: longer than any run of Coz


def line_of(system: System) -> int:
    """Where the part stands in the source."""
    inside = False
    for number, text in enumerate(SOURCE.read_text(encoding="utf-8").splitlines(), 1):
        inside = text.startswith(f"void {system.name}(") or (inside and text != "}")
        if inside and f'work("{system.part}"' in text:
            return number
    raise SystemExit(f"{system.name}: no line works as {system.part}")


def period(program: str, system: System, seed: int, speedup: float, seconds: float, folder: Path) -> float:
    """Seconds between two visits of the progress point by Coz, with its part so much faster."""
    profile = folder / "profile.coz"
    profile.unlink(missing_ok=True)
    command = [
        "timeout", "--signal=INT", f"{seconds:g}", "coz", "run", "--output", str(profile),
        "--source-scope", str(SOURCE), "--fixed-line", f"{SOURCE}:{line_of(system)}",
        "--fixed-speedup", f"{100 * speedup:.0f}", "---", program, system.name, str(seed),
        "none", "0", str(LONG),
    ]  # fmt: skip
    subprocess.run(command, capture_output=True, check=False)
    text = profile.read_text(encoding="utf-8") if profile.exists() else ""
    spent = sum(int(found) for found in re.findall(r"\tduration=(\d+)", text))
    visits = sum(int(found) for found in re.findall(r"^throughput-point\t.*delta=(\d+)", text, re.M))
    return spent / 1e9 / visits if visits else float("nan")


def compare(system: System, plain: str, program: str, options: argparse.Namespace, folder: Path) -> None:
    """Print one line: Coz, latlab and the truth, as the time with the part faster in % of the whole."""
    command = [plain, system.name, str(options.seed)]
    schedule = capture_command(command)
    base, (found,) = forecast(schedule, [scenario_of(system, schedule)])
    times: dict[float, list[float]] = {share: [] for share in (0.0, *SPEEDUPS)}
    for _ in range(options.rounds):
        for share in times:
            times[share].append(seconds_of([*command, system.part, str(share)]))
    truth = [min(times[share]) / min(times[0.0]) for share in SPEEDUPS]
    periods = [
        period(program, system, options.seed, share, options.seconds, folder) for share in (0.0, *SPEEDUPS)
    ]
    coz = [one / periods[0] for one in periods[1:]]
    latlab = [
        float("nan") if found.withheld else point.time_ns.value / base.recorded_ns for point in found.points
    ] or [float("nan")] * len(truth)
    told = "  ".join(
        f"{100 * a:5.1f}/{100 * b:5.1f}/{100 * c:5.1f}" for a, b, c in zip(coz, latlab, truth, strict=True)
    )
    errors = [100 * float(np.mean(np.abs(np.subtract(one, truth)))) for one in (coz, latlab)]
    print(
        f"{system.name:10} {system.part:7} {told}  mean |error| {errors[0]:4.1f} / {errors[1]:4.1f}"
        + (f"  latlab withholds: {found.withheld}" if found.withheld else ""),
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    if shutil.which("coz") is None:
        print("Coz isn't installed: apt-get install coz-profiler")
        return 2
    print("Coz/latlab/truth in % of the whole time, with the part 20, 50, 80 and 100 % faster")
    with tempfile.TemporaryDirectory() as folder:
        build = ["c++", "-O2", "-std=c++20", "-pthread", str(SOURCE)]
        plain, program = f"{folder}/systems", f"{folder}/systems-coz"
        subprocess.run([*build, "-o", plain], check=True)
        subprocess.run([*build, *FLAGS, "-o", program, "-ldl"], check=True)
        for system in SYSTEMS:
            if not options.only or system.name in options.only:
                compare(system, plain, program, options, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
