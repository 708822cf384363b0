"""A forecast against a real rerun of the demonstration: how wrong is it?

A run is recorded and a model fitted to it; the changed model is simulated; and the demonstration is run again
with that change. Changes of the service time of the book's stage (lighter, heavier), of the capacity of the
queues in front of it while it can't keep up, and of the number of workers that share its work. Feeds come in
bursts, slowly enough that two CPUs have time for everything: a model does not know of CPUs, nor of the time
that waking up takes.

Prints forecast, rerun and error of the throughput and of the wait in front of the book (mean, median, p99),
round by round, and how much the rerun differs from a second one: no forecast can be nearer than that.

    python -m benchmarks.queues_forecast [--rounds 3] [--seconds 3] [--only TEXT]
        [--results FILE] [--minutes M]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from latlab.model.queues.queueing import QueueingModel
from latlab.queues import analyse, fit_model, forecast, load

STAGE = "book"
FIGURES = {
    "rate_hz": ("throughput", "/s", 1.0),
    "mean_ns": ("mean wait", " µs", 1e3),
    "p50_ns": ("median wait", " µs", 1e3),
    "p99_ns": ("p99 of the wait", " µs", 1e3),
}


@dataclass(frozen=True)
class Setting:
    """The demonstration as it is run."""

    service_ns: int
    books: int = 1
    workers: int = 0  # a thread for each book
    capacity: int = 4096

    def layout(self) -> str:
        return "\n".join(
            (
                'name = "forecast"',
                # Two venues: 5,000 messages a second.
                'replay = { mode = "burst", burst = 16, delay_ns = 6_400_000, venue_offset_ns = 3_200_000 }',
                "trace.every = 4",
                "sampler.period_ns = 100_000",
                f"stages.{STAGE} = {{ count = {self.books}, workers = {self.workers}, "
                f"service_ns = {self.service_ns} }}",
                f"queues.routed = {{ kind = 'spsc', capacity = {self.capacity} }}",
            )
        )


@dataclass(frozen=True)
class Change:
    """A change of the demonstration, and the same of its model."""

    title: str
    before: Setting
    after: Setting

    def apply(self, model: QueueingModel) -> QueueingModel:
        more = self.after.service_ns - self.before.service_ns
        mine = [stage for stage in model.stages if stage.type == STAGE]
        for stage in mine:
            model = model.with_stage(stage.name, service_ns=stage.service_ns + more)
        if self.after.workers != self.before.workers:
            model = model.with_stage(STAGE, workers=self.after.workers)
        if self.after.capacity != self.before.capacity:
            for queue in model.queues:
                if queue.drain in {stage.name for stage in mine}:
                    model = model.with_capacity(queue.name, self.after.capacity)
        return model


def changes() -> list[Change]:
    loaded, light, over = Setting(120_000), Setting(60_000), Setting(240_000, capacity=512)
    pool = Setting(160_000, books=4, workers=1)
    return [
        Change("service time 120 to 60 µs", loaded, light),
        Change("service time 60 to 120 µs", light, loaded),
        Change("capacity 512 to 128, overloaded", over, replace(over, capacity=128)),
        Change("one worker for four books to two", pool, replace(pool, workers=2)),
    ]


@dataclass(frozen=True)
class Seen:
    """Events a second through the books, and the waits in front of them in ns: each queue's, by its share."""

    rate_hz: float
    mean_ns: float
    p50_ns: float
    p99_ns: float


def run(setting: Setting, seconds: float, output: Path) -> dict[str, Any]:
    """Run the demonstration and give its answer."""
    file = output.with_suffix(".toml")
    file.write_text(setting.layout())
    command = [sys.executable, "-m", "latlab", "demo", "--json", "--seconds", str(seconds)]
    done = subprocess.run(
        [*command, "--layout", str(file), "-o", str(output)], capture_output=True, text=True, check=False
    )
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def seen(setting: Setting, seconds: float, output: Path) -> Seen:
    """A run of the demonstration, as its own traces and counts tell it."""
    answer = run(setting, seconds, output)
    found = analyse(load(output), over_time=False)
    rates = [stage.rate_hz for stage in found.stages if stage.label.startswith(STAGE)]
    mine = [queue for queue in found.queues if queue.drain.startswith(STAGE) and queue.residence_ns]
    means = [(queue.residence_ns or 0.0, queue.rate_out_hz) for queue in mine]
    waits = {queue["name"]: queue["waiting_ns"] or {} for queue in answer["queues"]}
    p50, p99 = (
        _weighted([(waits[queue.name].get(which, math.nan), queue.rate_out_hz) for queue in mine])
        for which in ("p50", "p99")
    )
    return Seen(sum(rates), _weighted(means), p50, p99)


def _weighted(values: list[tuple[float, float]]) -> float:
    total = sum(weight for _, weight in values)
    return sum(value * weight for value, weight in values) / total if total else math.nan


def told(model: QueueingModel) -> Seen:
    """A forecast."""
    found = forecast(model)
    rates = [stage.rate_hz for stage in found.stages if stage.name.startswith(STAGE)]
    names = {queue.name for queue in model.queues if queue.drain.startswith(STAGE)}
    mine = [queue for queue in found.queues if queue.name in names]
    mean, p50, p99 = (
        _weighted([(getattr(queue.waiting, which), queue.rate_hz) for queue in mine])
        for which in ("mean_ns", "p50_ns", "p99_ns")
    )
    return Seen(sum(rates), mean, p50, p99)


def held(change: Change, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """One forecast against one rerun, and that against another."""
    with tempfile.TemporaryDirectory() as folder:
        run(change.before, seconds, Path(folder) / "before")
        expected = told(change.apply(fit_model(load(Path(folder) / "before"))))
        real, again = (seen(change.after, seconds, Path(folder) / name) for name in ("after", "again"))
    outcome: dict[str, Any] = {"title": change.title}
    parts = []
    for what, (name, unit, scale) in FIGURES.items():
        forecast_, one, other = (getattr(which, what) for which in (expected, real, again))
        middle = math.sqrt(one * other)
        outcome[what] = {"forecast": forecast_, "reruns": [one, other]}
        outcome[f"{what}_error"] = forecast_ / middle - 1
        outcome[f"{what}_noise"] = max(one, other) / middle - 1
        parts.append(
            f"{name} {forecast_ / scale:,.0f}{unit} forecast, {one / scale:,.0f} and "
            f"{other / scale:,.0f}{unit} rerun ({outcome[f'{what}_error']:+.1%})"
        )
    say(f"{change.title}: {'; '.join(parts)}")
    return outcome


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", metavar="TEXT", help="changes with this in their title")
    parser.add_argument(
        "--results", type=Path, help="JSON lines, appended to; what is in it is not done again"
    )
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop in time")
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    outcomes: list[dict[str, Any]] = []
    if options.results is not None and options.results.exists():
        outcomes = [json.loads(line) for line in options.results.read_text().splitlines()]
    for number in range(1, options.rounds + 1):
        for change in changes():
            done = sum(one["title"] == change.title for one in outcomes)
            if options.only not in change.title or done >= number or time.monotonic() >= until:
                continue
            outcomes.append(held(change, options.seconds, lambda text: print(text, flush=True)))
            if options.results is not None:
                with options.results.open("a") as file:
                    file.write(json.dumps(outcomes[-1]) + "\n")
    for title in dict.fromkeys(one["title"] for one in outcomes):
        mine = [one for one in outcomes if one["title"] == title]
        said = []
        for what, (name, _, _) in FIGURES.items():
            error = statistics.median(one[f"{what}_error"] for one in mine)
            noise = statistics.median(one[f"{what}_noise"] for one in mine)
            said.append(f"{name} {error:+.1%} (reruns among themselves ±{noise:.1%})")
        print(f"{title}: {'; '.join(said)}; {len(mine)} rounds")


if __name__ == "__main__":
    main()
