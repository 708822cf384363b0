"""The long series: causes planted in the trading pipeline, and what `latlab diagnose` makes of them.

    python -m benchmarks.proof [--rounds N] [--minutes M] [--results FILE] [--only TEXT]
    python -m benchmarks.proof --forecasts N [--budget S] [--minutes M] [--results FILE]

A round is one diagnosis of every case: a slow stage in turn (in several layouts), pairs of them, a queue that
is too small, a process that is stopped for a while, a neighbour on a stage's core, and nothing planted. Each
outcome is a line of the results as soon as there is one, and a series that was broken off goes on where it
stopped: `--minutes` ends it in time. At the end, for each case: in how many rounds its cause was named.

With --forecasts cases with planted service time are diagnosed whole, and the flat stub's forecast is held
against the pipeline that really goes without the planted time: run on the same input before the diagnosis and
after it. Throughput is what passes at the input's own pace; at full load, what the pipeline carries. A round
takes two minutes on two CPUs, a forecast five.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks._proof_cases import Case, cases

_CAUSES, _NONE = 0.95, 0.98  # the bars: a planted cause named, nothing named where nothing was planted
_TAIL, _RATE = 0.10, 0.05  # the bars: the forecast's error of p99.9, and of the throughput
_QUIET = "nothing is planted"


def diagnosed(
    case: Case, seconds: float, seed: int, budget: float | None = None, keep: Path | None = None
) -> dict[str, Any]:
    """The answer of a diagnosis; `keep` takes the recording where the cause is not the named one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        question = folder / "question.toml"
        question.write_text(case.layout)
        command = [sys.executable, "-m", "latlab", "diagnose", str(question), "--json", "--seed", str(seed)]
        command += ["--seconds", str(seconds), "-o", str(folder / "run")]
        command += ["--no-forecast"] if budget is None else ["--budget", str(budget)]
        for stage, ns in case.slow.items():
            command += ["--slow", f"{stage}={ns}"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if case.beside is not None:
            stack.enter_context(case.beside(process))
        output, error = process.communicate()
        if process.returncode not in (0, 3):
            raise SystemExit(error)
        answer: dict[str, Any] = json.loads(output)
        if keep is not None and not case.named(answer):
            name = "-".join(case.title.replace(":", "").replace(",", "").split())
            shutil.copytree(folder / "run", keep / f"{name}-{seed}", dirs_exist_ok=True)
        return answer


class Results:
    """Outcomes, a line of JSON each, in a file or only in memory."""

    def __init__(self, file: Path | None, what: str) -> None:
        self._file, self._what = file, what
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self.outcomes = [one for one in map(json.loads, lines) if one["what"] == what]

    def done(self, title: str) -> int:
        """Outcomes of a case so far."""
        return sum(one["case"] == title for one in self.outcomes)

    def add(self, title: str, **more: Any) -> None:
        """Keep one, at once."""
        outcome = {
            "what": self._what,
            "case": title,
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self.outcomes.append({**outcome, **more})
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(json.dumps(self.outcomes[-1]) + "\n")


def left(planned: list[Case], rounds: int, results: Results, until: float) -> Iterator[tuple[int, Case]]:
    """(round, case) of what is still to do, while there is time: whole rounds, one after the other."""
    for number in range(1, rounds + 1):
        for case in planned:
            if results.done(case.title) < number:
                if time.monotonic() >= until:
                    return
                yield number, case


def name_causes(options: argparse.Namespace, planned: list[Case], until: float) -> None:
    """Is the planted cause the named one?"""
    results = Results(options.results, "cause")
    for number, case in left(planned, options.rounds, results, until):
        answer = diagnosed(case, options.seconds, number, keep=options.keep)
        found = {key: answer[key] for key in ("limiting_stage", "verdict", "confidence", "sentence")}
        results.add(case.title, round=number, named=case.named(answer), **found)
        if not results.outcomes[-1]["named"]:
            print(
                f"{case.title}: {found['limiting_stage']} ({found['verdict']}): {found['sentence']}",
                flush=True,
            )
    runs = Counter(one["case"] for one in results.outcomes)
    right = Counter(one["case"] for one in results.outcomes if one["named"])
    print()
    for title, count in runs.items():
        print(f"{title}: right in {right[title]} of {count}")
    for what, bar, quiet in (
        ("planted cause named", _CAUSES, False),
        ("nothing named where nothing was", _NONE, True),
    ):
        those = [title for title in runs if title.endswith(_QUIET) == quiet]
        total, good = sum(runs[t] for t in those), sum(right[t] for t in those)
        if total:
            print(f"{what}: {good} of {total} ({good / total:.1%}; bar: {bar:.0%})")


def _without(case: Case, folder: Path, seconds: float, runs: int, seed: int) -> tuple[list[Any], list[Any]]:
    """What the pipeline does without the planted time: (runs at its own pace, runs at full pace)."""
    from latlab.lab._stubbed import Stubbing, measure_unmodified
    from latlab.lab.demo import DemoOptions, feeds_for
    from latlab.lab.layout import load_layout
    from latlab.system.environment import capture

    file = folder / "layout.toml"
    file.write_text(case.layout)
    options = DemoOptions(layout=load_layout(file), seconds=seconds, output=folder / "unused", seed=seed)
    feeds = feeds_for(options, folder, lambda _: None)
    return measure_unmodified(
        Stubbing(options.layout, feeds, seconds, capture(), seed), next(iter(case.slow)), runs
    )


def _middle(values: list[float]) -> float:
    """The median; of an even number, halfway in logarithms between the middle two."""
    return math.exp(statistics.median(map(math.log, values)))


def forecast_gains(options: argparse.Namespace, planned: list[Case], until: float) -> None:
    """Is the flat stub's forecast what really comes?

    The truth is known no better than the forecast: how far its runs before the diagnosis and after it lie
    apart says what the machine lets be known.
    """
    from latlab.lab._stubbed import tails, undisturbed

    results = Results(options.results, "forecast")
    chosen = [case for case in planned if len(case.slow) == 1 and case.beside is None][: options.forecasts]
    for number, case in left(chosen, options.rounds, results, until):
        with tempfile.TemporaryDirectory() as folder:
            before = _without(case, Path(folder), options.seconds, options.truths, number)
            answer = diagnosed(case, options.seconds, number, budget=options.budget)
            after = _without(case, Path(folder), options.seconds, options.truths, number)
        if not answer["forecasts"]:
            results.add(case.title, round=number, made=False, why=answer["sentence"])
            print(f"{case.title}: no forecast was made: {answer['sentence']}", flush=True)
            continue
        made = answer["forecasts"][0]
        flat = made["points"][-1]
        paced, fast = undisturbed({None: before[0] + after[0]}, {None: before[1] + after[1]})
        true_ns = _middle(tails(paced[None]))
        true_hz = statistics.geometric_mean(run.rate_hz for run in paced[None])
        most_hz = statistics.geometric_mean(run.rate_hz for run in fast[None])
        tail, rate, most = (
            flat[name]["value"] / true - 1
            for name, true in (("p99.9_ns", true_ns), ("rate_hz", true_hz), ("capacity_hz", most_hz))
        )
        kept = {id(run) for run in paced[None]}
        first, second = (tails([run for run in runs if id(run) in kept]) for runs in (before[0], after[0]))
        apart = _middle(second) / _middle(first) - 1 if first and second else None
        results.add(
            case.title,
            round=number,
            made=True,
            stage=made["stage"],
            rounds=made["rounds"],
            forecast=flat,
            true_p99_9_ns=true_ns,
            true_p99_9_of_runs_ns=tails(before[0] + after[0]),
            taken_of_runs=[run.taken for run in before[0] + after[0]],
            true_hz=true_hz,
            true_capacity_hz=most_hz,
            true_capacity_hz_of_runs=[run.rate_hz for run in before[1] + after[1]],
            taken_of_fast_runs=[run.taken for run in before[1] + after[1]],
            tail_error=tail,
            rate_error=rate,
            capacity_error=most,
            truths_apart=apart,
            warnings=made["warnings"],
            sentence=made["sentence"],
        )
        low, high = flat["p99.9_ns"]["low"], flat["p99.9_ns"]["high"]
        print(
            f"{case.title}: p99.9 forecast {flat['p99.9_ns']['value'] / 1e3:,.0f} µs "
            f"[{low / 1e3:,.0f}, {high / 1e3:,.0f}] of {flat['runs']} runs, measured {true_ns / 1e3:,.0f} µs "
            f"({tail:+.1%}) of {len(kept)}, before and after "
            f"{'not both' if apart is None else f'{apart:+.1%}'} apart; "
            f"throughput {rate:+.2%}, at full load {most:+.1%}",
            flush=True,
        )
    made_ones = [one for one in results.outcomes if one["made"]]
    for what, key, bar in (
        ("p99.9", "tail_error", _TAIL),
        ("throughput at the input's own pace", "rate_error", _RATE),
        ("throughput at full load", "capacity_error", _RATE),
    ):
        within = sum(abs(one[key]) <= bar for one in made_ones)
        if made_ones:
            print(f"{what} forecast within {bar:.0%}: {within} of {len(made_ones)}")
    known = [abs(one["truths_apart"]) for one in made_ones if one["truths_apart"] is not None]
    if known:
        within = sum(apart <= _TAIL for apart in known)
        print(f"truths before and after within {_TAIL:.0%} of each other: {within} of {len(known)}")


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop in time")
    parser.add_argument(
        "--results", type=Path, help="JSON lines, appended to; what is in it is not done again"
    )
    parser.add_argument("--keep", type=Path, help="folder for the recordings of diagnoses that were wrong")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their title")
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--slow", type=int, default=30_000, metavar="NS")
    parser.add_argument("--forecasts", type=int, default=0, metavar="N", help="of the first N cases, instead")
    parser.add_argument(
        "--budget", type=float, default=180.0, metavar="S", help="of a diagnosis with forecast"
    )
    parser.add_argument(
        "--truths", type=int, default=6, metavar="N", help="runs without the planted time, twice"
    )
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    planned = [case for case in cases(options.slow) if options.only in case.title]
    if options.forecasts:
        forecast_gains(options, planned, until)
    else:
        name_causes(options, planned, until)


if __name__ == "__main__":
    main()
