"""200 stages with 2,000 queues: how soon after the observation is the answer there, how large is the report?

Twenty layers of ten stages, every stage of a layer with a queue to each of the next; one is slow. In threads
of Python, which are observed beside their queues, and in C++.

    python -m benchmarks.queues_many [--seconds 5] [--only python]

Bars: an answer within 5 s of the end of the observation, a report under 3 MB, the slow stage's name or none.
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks._bars import Bar, report
from benchmarks.shapes import PROGRAMS, as_text, compiled

_LAYERS, _WIDE = 20, 10
_SLOW = "stage-9-3"
_ANSWER_S, _REPORT_MB = 5.0, 3.0
_LOOK_S = 0.01


def spec(slow_ms: float) -> dict[str, Any]:
    """As the programs of `shapes_programs` read it: 200 stages and a source, 2,000 queues."""
    names = [[f"stage-{layer}-{one}" for one in range(_WIDE)] for layer in range(_LAYERS)]
    queues: list[dict[str, Any]] = []

    def connect(source: str, drain: str, times: int = 1) -> None:
        for _ in range(times):
            queues.append({"name": f"q{len(queues)}", "from": source, "to": drain, "capacity": 8})

    for one in names[0]:
        connect("source", one, _WIDE)
    for before, behind in itertools.pairwise(names):
        for source in before:
            for drain in behind:
                connect(source, drain)
    stages = [{"name": "source", "every_ms": slow_ms / 4, "ms": 0.0}]
    stages += [{"name": name, "ms": slow_ms if name == _SLOW else 0.0} for layer in names for name in layer]
    for stage in stages:
        stage["in"] = [queue["name"] for queue in queues if queue["to"] == stage["name"]]
        stage["out"] = [queue["name"] for queue in queues if queue["from"] == stage["name"]]
    return {"stages": stages, "queues": queues, "seed": 1}


@dataclass(frozen=True)
class Seen:
    """Of one diagnosis: seconds from the program's end to the answer, the report's size, what was said."""

    after_s: float
    report_mb: float
    said: str
    right: bool
    steps: str


def diagnosed(command: list[str], seconds: float, folder: Path) -> Seen:
    output = folder / f"run-{time.monotonic_ns()}"
    words = ["latlab", "diagnose", "--json", "-o", str(output), "--seconds", str(seconds), "--", *command]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    me, gone, was_there = psutil.Process(process.pid), time.monotonic(), False
    answer = ""
    while process.poll() is None:
        if any(_runs(one, command[0]) for one in me.children(recursive=True)):
            was_there, gone = True, time.monotonic()
        time.sleep(_LOOK_S)
        if was_there and time.monotonic() - gone > 0.2:
            break
    answer = process.communicate()[0]
    after_s = time.monotonic() - gone
    found = json.loads(answer)
    pages = [path.stat().st_size for path in output.rglob("*.html")]
    name = found["limiting_stage"]
    steps = ", ".join(f"{step['name']} {step['seconds']:.1f} s {step['state']}" for step in found["steps"])
    said = f"{found['verdict']}: {name} — {found['sentence']}"
    return Seen(after_s, max(pages, default=0) / 1e6, said, name in (_SLOW, None), steps)


def _runs(process: psutil.Process, program: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.Error:
        return False
    return bool(words) and Path(words[0]).name == Path(program).name and "diagnose" not in words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--only", choices=["python", "cpp"])
    given = parser.parse_args()
    bars = []
    with tempfile.TemporaryDirectory(prefix="latlab-many-") as temporary:
        folder = Path(temporary)
        plan = spec(100.0)
        as_json, as_lines = folder / "many.json", folder / "many.txt"
        as_json.write_text(json.dumps({**plan, "seconds": given.seconds + 60}), encoding="utf-8")
        as_lines.write_text(as_text(spec(20.0)), encoding="utf-8")
        commands = {
            "python": [sys.executable, str(PROGRAMS / "in_threads.py"), str(as_json)],
            "cpp": [str(compiled(PROGRAMS / "in_cpp.cpp", folder)), str(as_lines), "60", "2000"],
        }
        for name, command in commands.items():
            if given.only not in (None, name):
                continue
            seen = diagnosed(command, given.seconds, folder)
            print(f"{name}: {seen.said[:300]}\n  {seen.steps}", flush=True)
            bars += [
                Bar(f"{name}: answer after the end of the observation", seen.after_s, _ANSWER_S, "s"),
                Bar(f"{name}: report", seen.report_mb, _REPORT_MB, "MB"),
                Bar(f"{name}: right, or silent", float(seen.right), 1.0, at_least=True),
            ]
    return report(bars)


if __name__ == "__main__":
    sys.exit(main())
