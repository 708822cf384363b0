"""What `latlab bench ab`, called as a user calls it, says of planted changes.

`python -m benchmarks.bench_planted [--repeats N] [--changes 0,3,10,50] [--fixture RegisterLoop] [--seed S]`

Two shared objects hold the same fixture; one of them does so many thousandths more steps. For each change,
each order of the sides and each smallest effect the command is run with `--json`; its exit code must be that
of its verdict. Where four pairs settle nothing, it is run again with as many as it then advises.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.bench_calibration import compiled

EFFECTS = (None, "0.1%", "2%")
EXIT = {"slower": 4, "faster": 0, "equivalent": 0, "inconclusive": 3, "refused": 3}


def ab(a: Path, b: Path, fixture: str, *options: str) -> dict[str, Any]:
    """One run of the command."""
    command = ["-m", "latlab", "bench", "ab", f"{a}:{fixture}", f"{b}:{fixture}", "--json", "--no-control"]
    done = subprocess.run([sys.executable, *command, *options], capture_output=True, text=True, check=False)
    if not done.stdout:
        raise SystemExit(done.stderr)
    document: dict[str, Any] = json.loads(done.stdout)
    if done.returncode != EXIT[document["verdict"]]:
        raise SystemExit(f"exit code {done.returncode} with verdict {document['verdict']}")
    return document


def covers(document: dict[str, Any], truth: float) -> bool:
    low, high = document["interval"]
    return (low is None or low <= truth) and (high is None or truth <= high)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--fixture", default="RegisterLoop")
    parser.add_argument("--changes", default="0,3,10,50", help="Thousandths.")
    parser.add_argument("--seconds", default="1")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        changes = [int(c) for c in arguments.changes.split(",")]
        sides = {change: compiled(Path(text), change) for change in {0, 10, *changes}}
        for change in changes:
            for swapped in (False, True) if change else (False,):
                a, b = (sides[change], sides[0]) if swapped else (sides[0], sides[change])
                truth = 1 / (1 + change / 1000) - 1 if swapped else change / 1000
                for effect in EFFECTS:
                    options = ["--seconds", arguments.seconds]
                    options += [] if effect is None else ["--effect", effect]
                    found = [
                        ab(a, b, arguments.fixture, *options, "--seed", str(arguments.seed + i))
                        for i in range(arguments.repeats)
                    ]
                    print(
                        json.dumps(
                            {
                                "true": round(truth, 5),
                                "effect": effect or "default",
                                "verdicts": Counter(d["verdict"] for d in found),
                                "covered": sum(covers(d, truth) for d in found),
                                "pairs": sorted(d["pairs"] for d in found)[len(found) // 2],
                            }
                        ),
                        flush=True,
                    )
        advised(sides[0], sides[10], arguments.fixture, arguments.seed)


def advised(a: Path, b: Path, fixture: str, seed: int) -> None:
    """With a budget of 4 pairs nothing is settled; with as many as it then advises the change is found."""
    first = ab(a, b, fixture, "--pairs", "4", "--seed", str(seed))
    options = ("--pairs", str(first["needed_pairs"]), "--seconds", "20", "--seed", str(seed))
    second = ab(a, b, fixture, *options)
    for document in (first, second):
        print(json.dumps({key: document[key] for key in ("verdict", "pairs", "needed_pairs", "why")}))


if __name__ == "__main__":
    main()
