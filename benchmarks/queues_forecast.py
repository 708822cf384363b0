"""A forecast against a real rerun of the demonstration: how wrong is it?

A run with a stage that takes `--slow` ns more an event is recorded and fitted; the model with the lighter
stage (`--faster`) is simulated; and the demonstration is run again so. Prints throughput and the mean wait in
front of the stage, forecast against rerun, round by round.

    python -m benchmarks.queues_forecast [--rounds 3] [--seconds 2] [--stage book] [--slow NS] [--faster NS]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from latlab.queues import analyse, fit_model, forecast, load


def run(folder: Path, stage: str, slow_ns: int, seconds: float) -> Path:
    output = folder / f"slow-{slow_ns}"
    command = [sys.executable, "-m", "latlab", "demo", "--json", "--seconds", str(seconds)]
    command += ["--slow", f"{stage}={slow_ns}", "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    json.loads(done.stdout)
    return output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--stage", default="book")
    parser.add_argument("--slow", type=int, default=30_000)
    parser.add_argument("--faster", type=int, default=15_000)
    options = parser.parse_args()
    errors: dict[str, list[float]] = {"throughput": [], "mean wait": []}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            model = fit_model(load(run(Path(folder), options.stage, options.slow, options.seconds)))
            stages = {s.name for s in model.stages if s.type == options.stage}
            for stage in model.stages:
                if stage.name in stages:
                    lighter = max(stage.service_ns - (options.slow - options.faster), 0.0)
                    model = model.with_stage(stage.name, service_ns=lighter)
            found = forecast(model)
            real = analyse(load(run(Path(folder), options.stage, options.faster, options.seconds)))
            rate = sum(stage.rate_hz for stage in real.stages if stage.label in stages)
            told = sum(stage.rate_hz for stage in found.stages if stage.name in stages)
            queues = {q.name: q for q in real.queues if q.drain in stages and q.residence_ns is not None}
            waits = [
                (q.waiting.mean_ns, queues[q.name].residence_ns) for q in found.queues if q.name in queues
            ]
            errors["throughput"].append(told / rate - 1)
            errors["mean wait"].append(sum(w for w, _ in waits) / sum(w or 0.0 for _, w in waits) - 1)
            print(
                f"{options.stage}: {told:.0f}/s forecast, {rate:.0f}/s rerun ({told / rate - 1:+.1%}); "
                f"mean wait {errors['mean wait'][-1]:+.1%}",
                flush=True,
            )
    for name, values in errors.items():
        print(f"{name}: median error {statistics.median(values):+.1%} of {len(values)} reruns")


if __name__ == "__main__":
    main()
