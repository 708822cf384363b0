"""Servers by somebody who didn't know how `latlab requests` decides, each with its client and its label.

    python -m benchmarks.requests_blind [--only PART] [--seconds 8] [--folder FOLDER] [--json FILE]

Of benchmarks/requests_unseen, by the author of the rules but written before they were tried on them, with
memcached, haproxy, Go, node, SQLite, FIFOs and processes behind SO_REUSEPORT: --folder. Of those in which
nothing is planted ("none") it is right to name nothing, or who on the machine had the CPUs.

The folder has of each its server, its client, which logs `sent_ns,latency_ns` (CLOCK_MONOTONIC), and a label:
the parts that are right, a pattern of what is named with them, and how the two are run. Right: the answer
names such a part, at such a place. Withheld: it names none. Wrong: it names another. The client's p99 has its
own waking in it, and the way there and back.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.requests_planted import recorded
from benchmarks.requests_servers import free_port, run
from latlab.words import duration, share, table

PROGRAMS = Path(__file__).parent / "requests_blind"
_SCRATCH = Path(__file__).parents[1] / "build" / "requests_blind"
_COMPILERS = {
    ".c": ("gcc", "-O2", "-g", "-pthread"),
    ".cpp": ("g++", "-O2", "-g", "-std=c++20", "-pthread"),
    ".go": ("go", "build"),
    ".rs": ("rustc", "-O", "-g"),
}
_SHARED = ("ask.py", "bursts.py", "desk.py", "load.py", "loopback.hpp")
_START_S = 6  # until latlab observes, on a busy machine


def _started(stack: ExitStack, command: str, folder: Path) -> subprocess.Popen[bytes]:
    words = [sys.executable if word == "python3" else word for word in command.split()]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


def measure(name: str, seconds: int, programs: Path = PROGRAMS) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run: what was planted and said, beside the client's log; and all that was found."""
    label = json.loads((programs / f"{name}.label").read_text())
    _SCRATCH.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=_SCRATCH))
    try:
        own = label.get("server", name)  # that of another label, run in another way
        files = {*programs.glob(f"{name}.*"), *programs.glob(f"{own}.*")}
        for file in (*files, *(programs / one for one in _SHARED), *(PROGRAMS / one for one in _SHARED)):
            if file.exists():
                shutil.copy(file, folder)
        for suffix, compiler in _COMPILERS.items():
            source = folder / f"{own}.server{suffix}"
            if source.exists():
                run(*compiler, "-o", str(folder / f"{own}.server"), str(source))
        unix = label["address"].startswith("/")
        address = str(folder / "socket") if unix else str(free_port())
        filled = {"ADDRESS": address, "SECONDS": str(seconds + _START_S)}
        with ExitStack() as stack:
            server = _started(stack, _filled(label["run"], filled), folder)
            time.sleep(1)
            client = _started(stack, _filled(label["load"], filled), folder)
            if "start" in label:
                beside = {**filled, "SERVER_PID": str(server.pid)}
                _started(stack, _filled(label["start"].partition(" (")[0], beside), folder)
            time.sleep(1)
            found = recorded(server.pid, seconds)
            client.wait(60)
            unharmed = server.poll() is None
        log = (folder / "LATENCIES.csv").read_text()
        return {"case": name, **_told(label, found, log), "unharmed": unharmed}, found
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _filled(command: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        command = re.sub(rf"\b{name}\b", value, command)
    return command


def _told(label: dict[str, Any], found: dict[str, Any], log: str) -> dict[str, Any]:
    answer = found["answer"]
    named = answer["kind"] in label["part"] and re.search(
        label["where"], f"{answer['kind']} {answer['where']} {answer['holder']}"
    )
    first, last = found["began_ns"], found["began_ns"] + found["seconds"] * 1e9
    rows = [tuple(map(float, line.split(","))) for line in log.splitlines() if re.match(r"\d", line)]
    times = sorted(taken for sent, taken in rows if first <= sent and sent + taken <= last)
    return {
        "outcome": "withheld" if answer["withheld"] else "right" if named else "wrong",
        "said": answer["withheld"] or f"{answer['kind']} {answer['where']}",
        "p99_ns": found["p99_ns"],
        "client_p99_ns": times[int(0.99 * len(times))] if times else 0,
        "requests": found["requests"],
        "client_requests": len(times),
        "distrust": found["distrust"],
    }


def main(arguments: Sequence[str]) -> None:
    """A row a server, and how many were right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path, default=PROGRAMS, help="Of servers, clients and labels.")
    parser.add_argument("--keep", type=Path, help="Folder for what was found in each run.")
    asked = parser.parse_args(arguments)
    runs = []
    for label in sorted(asked.folder.glob("*.label")):
        if asked.only not in label.stem:
            continue
        one, found = measure(label.stem, asked.seconds, asked.folder)
        if asked.keep is not None:
            asked.keep.mkdir(exist_ok=True)
            (asked.keep / f"{label.stem}.json").write_text(json.dumps(found))
        runs.append(one)
        print(f"{one['case']:16} {one['outcome']:9} {one['said'][:90]}", file=sys.stderr, flush=True)
        if asked.json is not None:
            asked.json.write_text(json.dumps({"schema": 1, "cpus": os.cpu_count(), "runs": runs}, indent=1))
    rows = [
        (one["case"], one["outcome"], one["said"][:50], duration(one["p99_ns"]),
         duration(one["client_p99_ns"]),
         share(one["p99_ns"] / one["client_p99_ns"] - 1, signed=True) if one["client_p99_ns"] else "–",
         f"{one['requests']} of {one['client_requests']}", "yes" if one["unharmed"] else "NO")
        for one in runs
    ]  # fmt: skip
    columns = ("server", "outcome", "named", "p99", "client's p99", "difference", "requests", "unharmed")
    print(table(columns, rows))
    for outcome in ("right", "withheld", "wrong"):
        print(f"{outcome}: {sum(one['outcome'] == outcome for one in runs)} of {len(runs)}")


if __name__ == "__main__":
    main(sys.argv[1:])
