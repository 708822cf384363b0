"""Programs that nobody prepared, each with one planted limit: is what `latlab diagnose` names right?

Lines of threads over condition variables, semaphores and pipes, locks, reader-writer locks, spinning, pools,
fork and join, fsync, servers and children that are slow, timers, quotas, neighbours, page faults, idle
servers, shell pipelines; in C++ and Python, with parameters drawn from the seed. They hold nothing of latlab.

    python -m benchmarks.any_program [--cases 83] [--seed 1] [--seconds 2] [--only TEXT] [--neighbour]

Right: the kind and the name of what is planted. Withheld: kind unknown, or exit code 3. Beside: other
programs had a quarter of the CPUs or more, and that is told. Wrong: anything else.
Bars: right in at least 95 %, wrong in at most 2 %, right in 95 % of what is said with a confidence of 95 % or
more; one of two equal stages named in at most 1 %.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from benchmarks._bars import Bar, report
from benchmarks._planted import Outcome, neighbour
from benchmarks.any_program_cases import HERE, Case
from benchmarks.any_program_files import programs
from benchmarks.any_program_waits import MAKERS

CGROUPS = Path("/sys/fs/cgroup")


def cases(count: int, seed: int, folder: Path) -> Iterator[Case]:
    """So many programs: every kind in turn, with parameters of their own."""
    for number in range(count):
        yield MAKERS[number % len(MAKERS)](random.Random(f"{seed} {number}"), folder)


_BESIDE = 0.25
_SURE = 0.95  # what is said with more confidence is to be right as often


@contextlib.contextmanager
def surroundings(case: Case) -> Iterator[list[str]]:
    """What stands in front of the command, and the neighbour."""
    if case.pinned:
        cpu = str(max(os.sched_getaffinity(0)))
        with neighbour("taskset", "-c", cpu):
            yield ["taskset", "-c", cpu]
    elif case.quota is not None:
        with group_of(case.quota) as procs:
            yield ["sh", "-c", f'echo $$ > {procs}; exec "$@"', "-"]
    else:
        yield []


@contextlib.contextmanager
def group_of(quota: float) -> Iterator[Path]:
    """A control group of either version that may use so much of one CPU: the file that takes processes in."""
    old = (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists()
    group = CGROUPS / ("cpu" if old else "") / f"any-program-{os.getpid()}"
    group.mkdir()
    try:
        if old:
            (group / "cpu.cfs_quota_us").write_text(str(round(100_000 * quota)))
        else:
            (group / "cpu.max").write_text(f"{round(100_000 * quota)} 100000")
        yield group / "cgroup.procs"
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.1)


def missing(case: Case) -> str | None:
    absent = [one for one in case.needs if shutil.which(one) is None]
    if absent:
        return f"{absent[0]} is not installed"
    if case.quota is not None and not (CGROUPS / "cpu" / "cpu.cfs_quota_us").exists():
        try:
            controllers = (CGROUPS / "cgroup.subtree_control").read_text().split()
        except OSError:
            controllers = []
        if "cpu" not in controllers or not os.access(CGROUPS, os.W_OK):
            return "no control group of ours with a CPU quota"
    return None


def judged(case: Case, seconds: float) -> Outcome[Case]:
    """Diagnose a program as a user would, and hold what is said against what is planted."""
    with surroundings(case) as before:
        command = [*before, *(word.replace("{seconds}", f"{seconds:g}") for word in case.command)]
        begin = busy_s()
        done = subprocess.run(
            [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--json",
             "--seconds", str(seconds + 3), "--", *command],
            capture_output=True, text=True, timeout=seconds + 120, check=False,
        )  # fmt: skip
    others = (busy_s() - begin) / (seconds * (os.cpu_count() or 1))
    at = done.stdout.find("\n{")
    try:
        answer = json.loads(done.stdout[at + 1 if at >= 0 and not done.stdout.startswith("{") else 0 :])
    except json.JSONDecodeError:
        return Outcome(case, "failed", f"exit {done.returncode}: {(done.stderr or done.stdout)[-300:]}", 0.0)
    limit = answer["limit"]
    said = f"{limit['kind']} {limit['name']!r}: {answer['sentence']}"
    found = mark(case, limit, answer["sentence"], done.returncode)
    if found == "wrong" and limit["kind"] == "cpu" and "neighbour" in limit["name"] and others >= _BESIDE:
        found = "beside"  # that somebody else had the CPUs is true, too
    return Outcome(case, found, said, limit["confidence"])


def busy_s() -> float:
    """What all others of the machine have run: CPU seconds, but for ours and our children's."""
    own = os.times()
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system - sum(own[:4]))


def mark(case: Case, limit: dict[str, Any], sentence: str, code: int) -> str:
    """right, withheld or wrong."""
    if case.silent and limit["kind"] == "load":
        return "right"
    if limit["kind"] == "unknown" or code == 3:
        return "right" if case.silent else "withheld"
    shown = " ".join([limit["name"], sentence, *(one["function"] for one in limit["code"])])
    return "right" if limit["kind"] in case.kinds and re.search(case.name, shown) else "wrong"


def compiled(folder: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    options = ["-std=c++20", "-O2", "-g", "-pthread"]
    for name in ("planted", "idioms", "waits"):
        subprocess.run([compiler, *options, str(HERE / f"{name}.cpp"), "-o", str(folder / name)], check=True)
    draw = random.Random(5)
    words = [bytes(draw.choices(b"abcdefghij", k=draw.randint(2, 9))) for _ in range(4000)]
    for number in range(3):
        text = b" ".join(draw.choices(words, k=1_500_000))
        (folder / ("words" if not number else f"words{number}")).write_bytes(text)


@contextlib.contextmanager
def place_of(kept: Path | None) -> Iterator[str]:
    if kept is None:
        with tempfile.TemporaryDirectory(prefix="any-program-") as temporary:
            yield temporary
    else:
        kept.mkdir(parents=True, exist_ok=True)
        yield str(kept.resolve())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", type=int, help="so many (default: every kind once, or every file)")
    parser.add_argument("--skip", type=int, default=0, help="so many of the first")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--only", default="", help="titles that hold this text")
    parser.add_argument("--neighbour", action="store_true", help="beside a process that computes")
    parser.add_argument("--json", type=Path, help="where the outcomes are written")
    parser.add_argument(
        "--folder", type=Path, help="programs of a folder instead, each with its limit in its first line"
    )
    parser.add_argument("--made", type=Path, help="where programs are built, and kept for the next call")
    parser.add_argument("--build-only", action="store_true", help="build the programs and end")
    given = parser.parse_args()
    outcomes: list[Outcome[Case]] = []
    with place_of(given.made) as temporary:
        if not given.folder:
            compiled(Path(temporary))
        with neighbour(there=given.neighbour):
            planted = (
                programs(given.folder, Path(temporary))
                if given.folder
                else cases(given.cases or len(MAKERS), given.seed, Path(temporary))
            )
            until = given.skip + given.cases if given.cases and given.folder else None
            for number, case in enumerate(itertools.islice(planted, until)):
                if given.build_only or given.only not in case.title or number < given.skip:
                    continue
                why = missing(case)
                if why is not None:
                    print(f"{'left out':9} {case.title:26} | {why}", flush=True)
                    continue
                found = judged(case, given.seconds)
                outcomes.append(found)
                print(f"{found.mark:9} {case.title:26} | {found.said}", flush=True)
    if given.json:
        rows = [{"title": o.case.title, "mark": o.mark, "said": o.said} for o in outcomes]
        given.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return summary(outcomes)


def summary(outcomes: list[Outcome[Case]]) -> int:
    """The counts, the calibration, the bars."""
    counts = {
        name: sum(o.mark == name for o in outcomes)
        for name in ("right", "withheld", "beside", "wrong", "failed")
    }
    print(", ".join(f"{name} {number}" for name, number in counts.items()))
    sure = [o for o in outcomes if o.confidence >= _SURE and o.mark in ("right", "wrong")]
    right = sum(o.mark == "right" for o in sure)
    print(f"said with a confidence of {_SURE:.0%} or more: {len(sure)}, of these right {right}")
    total = max(1, len(outcomes))
    return report(
        [
            Bar(
                "right kind and name", counts["right"] / max(1, total - counts["beside"]), 0.95, at_least=True
            ),
            Bar("wrong or failed", (counts["wrong"] + counts["failed"]) / total, 0.02),
            Bar(f"right of those said with {_SURE:.0%}", right / max(1, len(sure)), 0.95, at_least=True),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
