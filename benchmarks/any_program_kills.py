"""Random SIGKILLs of `latlab diagnose` and of the program that it observes, at any moment of an observation.

In turn latlab observes a running process, or a command of its own; one of both is killed. Held to: when
latlab is killed the program goes on; when the program is, latlab ends with an exit code of its own and no
traceback; no process of latlab stays behind, and its scratch folders are removed by the next start.

    python -m benchmarks.any_program_kills [--kills 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks._bars import Bar, report
from benchmarks.any_program_cases import HERE
from latlab.system.scratch import leftovers

_LONG_S = 60
_OWN_CODES = (0, 1, 3)
_AT_MOST_S = 4.0  # from the start of latlab to the kill: it starts, observes, analyses and reports meanwhile


def kill_one(number: int, draw: random.Random, program: Path, folder: Path, started: set[int]) -> str:
    """What went wrong; "" where nothing did. The observer's process is added to `started`."""
    by_pid, kills_latlab = bool(number & 1), bool(number & 2)
    command = [str(program), "line", str(_LONG_S), "stages=3", "slow=parse", "fast=50", "us=300"]
    own = subprocess.Popen(command, stderr=subprocess.DEVNULL) if by_pid else None
    asked = ["--pid", str(own.pid)] if own is not None else ["--", *command]
    latlab = subprocess.Popen(
        [sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--seconds", "2",
         "-o", str(folder), *asked],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, text=True,
    )  # fmt: skip
    started.add(latlab.pid)
    try:
        time.sleep(draw.uniform(0.1, _AT_MOST_S))
        victims = [own.pid] if own is not None else list(observed(latlab.pid, program))
        if kills_latlab:
            latlab.kill()
            latlab.wait()
            return after_latlab(victims, latlab.pid)
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        told = latlab.communicate(timeout=60)[1]
        if "Traceback" in told or latlab.returncode not in _OWN_CODES:
            return f"latlab ended with {latlab.returncode}: {told[-300:]}"
        return left_of(latlab.pid)
    finally:
        for pid in (own.pid if own else 0, *observed(latlab.pid, program)):
            with contextlib.suppress(ProcessLookupError):
                if pid:
                    os.kill(pid, signal.SIGKILL)
        if own is not None:
            own.wait()
        if latlab.poll() is None:
            latlab.kill()
            latlab.wait()


def after_latlab(victims: list[int], latlab: int) -> str:
    time.sleep(0.3)
    for pid in victims:
        before = sum(psutil.Process(pid).cpu_times()[:2]) if psutil.pid_exists(pid) else -1.0
        time.sleep(0.2)
        if not psutil.pid_exists(pid) or sum(psutil.Process(pid).cpu_times()[:2]) <= before:
            return f"process {pid} does not go on after latlab was killed"
    return left_of(latlab)


def observed(latlab: int, program: Path) -> Iterator[int]:
    """The program that latlab started, also after latlab's end: by its path, which is of this run alone."""
    for one in psutil.process_iter(["exe", "ppid"]):
        if one.info["exe"] == str(program) and one.info["ppid"] != os.getpid():
            yield one.pid


def left_of(latlab: int) -> str:
    """Processes of latlab's session that live 3 s after its end."""
    until = time.monotonic() + 3
    while True:
        left = []
        for pid in psutil.pids():
            with contextlib.suppress(ProcessLookupError, psutil.Error):
                if os.getsid(pid) == latlab and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    left.append(" ".join(psutil.Process(pid).cmdline())[:100])
        if not left:
            return ""
        if time.monotonic() > until:
            return f"left behind: {left}"
        time.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    draw, wrong = random.Random(given.seed), []
    started: set[int] = set()
    with tempfile.TemporaryDirectory(prefix="any-program-kills-") as temporary:
        program = Path(temporary) / "planted"
        source = str(HERE / "planted.cpp")
        compiler = os.environ.get("CXX") or "c++"
        subprocess.run([compiler, "-std=c++20", "-O2", "-pthread", source, "-o", str(program)], check=True)
        for number in range(given.kills):
            why = kill_one(number, draw, program, Path(temporary) / f"run-{number}", started)
            if why:
                wrong.append(why)
                print(f"kill {number}: {why}", flush=True)
        subprocess.run([sys.executable, "-m", "latlab", "diagnose", "--no-forecast", "--", "true"],
                       capture_output=True, check=False, cwd=temporary)  # fmt: skip
    left = [str(one.path) for one in leftovers() if one.pid in started]
    print(
        f"{given.kills} kills, seed {given.seed}: {len(wrong)} went wrong, left by dead processes: {left[:5]}"
    )
    return report([Bar("kills that went wrong", len(wrong), 0), Bar("scratch folders left", len(left), 0)])


if __name__ == "__main__":
    sys.exit(main())
