"""The long series: service time planted in each stage of the demonstration in turn, in several layouts.

    python -m benchmarks.proof [--rounds N] [--seconds S] [--slow NS]

Prints, for each stage, in how many runs it was named, and in how many runs without a
planted slowness nothing was. A round is a run for every stage, and one without; a hundred runs take half
an hour.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

LAYOUTS = {
    "as it comes": "",
    "worker pool": "[stages.book]\ncount = 4\nworkers = 2\n",
    "ten strategies": (
        "[stages.book]\ncount = 1\n[stages.strategy]\ncount = 10\nper_book = 10\n"
        "[replay]\ndelay_ns = 60_000\n"
    ),
}
STAGES = ("decoder", "market", "book", "strategy", "execution")


def named(layout: str, stage: str | None, slow_ns: int, seconds: float) -> str | None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layout.toml"
        path.write_text(layout)
        command = [sys.executable, "-m", "latlab", "demo", "--json", "--seconds", str(seconds)]
        command += ["--layout", str(path), "-o", str(Path(folder) / "run")]
        if stage is not None:
            command += ["--slow", f"{stage}={slow_ns}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 3):
            raise SystemExit(done.stderr)
        answer = json.loads(done.stdout)["limiting_stage"]
        return None if answer is None else str(answer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--slow", type=int, default=30_000, metavar="NS")
    options = parser.parse_args()
    right: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for _ in range(options.rounds):
        for title, layout in LAYOUTS.items():
            for stage in (*STAGES, None):
                answer = named(layout, stage, options.slow, options.seconds)
                key = f"{title}: {stage or 'nothing planted'}"
                runs[key] += 1
                right[key] += answer == stage
                print(f"{key}: named {answer}", flush=True)
    print()
    for key, count in runs.items():
        print(f"{key}: right in {right[key]} of {count}")
    planted = [key for key in runs if not key.endswith("nothing planted")]
    share = sum(right[key] for key in planted) / sum(runs[key] for key in planted)
    print(f"planted stage named in {share:.1%} of runs (bar: 95 %)")


if __name__ == "__main__":
    main()
