"""The long series: causes planted in the trading pipeline, and what `latlab diagnose` makes of them.

    python -m benchmarks.proof [--rounds N] [--minutes M] [--results FILE] [--only TEXT]
    python -m benchmarks.proof --forecasts N [--budget S] [--minutes M] [--results FILE]

A round is one diagnosis of every case: a slow stage in turn (in several layouts), pairs of them, a queue that
is too small, a process that is stopped for a while, a neighbour on a stage's core, and nothing planted. Each
outcome is a line of the results as soon as there is one, and a series that was broken off goes on where it
stopped: `--minutes` ends it in time. At the end, for each case: in how many rounds its cause was named.

With --forecasts cases with planted service time are diagnosed whole, and the flat stub's forecast is held
against the pipeline that really goes without the planted time: run on the same input, in turn with the
forecast's rounds. How far the truth's own runs lie apart says what the machine lets be known. Throughput is
what passes at the input's own pace; at full load, what the pipeline carries. A round takes two minutes on two
CPUs, a forecast six.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks._options import add_series, parser_of
from benchmarks._proof_cases import Case, cases

if TYPE_CHECKING:
    from latlab.model.diagnosis.answer import Answer

_CAUSES, _NONE = 0.95, 0.98  # the bars: a planted cause named, nothing named where nothing was planted
# What of a forecast is held against the truth, and the bars: p99.9 and throughput of a pipeline without the
# planted time at the input's own pace; and at full load, as fast as it takes its input.
_HELD = (
    ("p99.9_ns", "p99.9", 0.10),
    ("rate_hz", "throughput", 0.05),
    ("capacity_hz", "throughput at full load", 0.05),
)
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


class Truth:
    """The pipeline that really goes without the planted time, run on the same input as the diagnosis.

    A listener of the diagnosis: before each round of a forecast it makes runs of its own, which are not part
    of the forecast's time. A virtual machine's speed drifts within minutes by more than what is to be shown,
    so the truth is measured in turn with the forecast, not before it or after it.
    """

    PACED, FAST = 4, 4  # runs before each round

    def __init__(self, case: Case, folder: Path, seconds: float, seed: int) -> None:
        from latlab.lab.forecast.stage_runs import Stubbing
        from latlab.lab.trading.demo import DemoOptions, feeds_for
        from latlab.lab.trading.layout import load_layout
        from latlab.system.environment import capture

        file = folder / "layout.toml"
        file.write_text(case.layout)
        options = DemoOptions(layout=load_layout(file), seconds=seconds, output=folder / "unused", seed=seed)
        feeds = feeds_for(options, folder, lambda _: None)
        self._stubbing = Stubbing(options.layout, feeds, seconds, capture(), seed)
        self._stage = next(iter(case.slow))
        self.paced: list[Any] = []
        self.fast: list[Any] = []

    def hear(self, line: str) -> None:
        """Take a line on what the diagnosis does next."""
        from latlab.lab.forecast.stage_runs import measure_unmodified

        if line.startswith("forecast, round"):
            at_full_load = 0 if " 0 of them at full load" in line else self.FAST
            paced, fast = measure_unmodified(self._stubbing, self._stage, self.PACED, at_full_load)
            self.paced += paced
            self.fast += fast


def _forecast(case: Case, truth: Truth, folder: Path, options: argparse.Namespace, seed: int) -> Answer:
    """The answer of `latlab diagnose`, with the truth measured meanwhile."""
    from latlab.lab.diagnosis.diagnose import diagnose_question
    from latlab.lab.diagnosis.question import read_question
    from latlab.lab.trading.layout import slowed_by

    question = read_question(folder / "layout.toml")
    assert question.layout is not None
    slow = tuple(f"{stage}={ns}" for stage, ns in case.slow.items())
    question = dataclasses.replace(
        question,
        layout=slowed_by(question.layout, slow),
        planted=slow,
        seconds=options.seconds,
        budget_s=options.budget,
        seed=seed,
    )
    return diagnose_question(question, folder / "run", truth.hear).answer


def _middle(values: list[float]) -> float:
    """The median; of an even number, halfway in logarithms between the middle two."""
    return math.exp(statistics.median(map(math.log, values)))


def _halves_apart(values: Sequence[float]) -> float | None:
    """How far a truth's every other runs lie from the rest: what no forecast could do better than."""
    if len(values) < 4:
        return None
    return _middle(list(values[1::2])) / _middle(list(values[::2])) - 1


def forecast_gains(options: argparse.Namespace, planned: list[Case], until: float) -> None:
    """Is the flat stub's forecast what really comes?"""
    from latlab.lab.forecast.stage_runs import tails, undisturbed

    results = Results(options.results, "forecast")
    chosen = [case for case in planned if len(case.slow) == 1 and case.beside is None][: options.forecasts]
    for number, case in left(chosen, options.rounds, results, until):
        with tempfile.TemporaryDirectory() as temporary:
            truth = Truth(case, Path(temporary), options.seconds, number)
            answer = _forecast(case, truth, Path(temporary), options, number).to_json()
        if not answer["forecasts"] or not truth.paced:  # none, or one by a model
            results.add(case.title, round=number, made=False, why=answer["sentence"])
            print(f"{case.title}: no forecast was made: {answer['sentence']}", flush=True)
            continue
        made = answer["forecasts"][0]
        flat = made["points"][-1]
        kept_paced, kept_fast = undisturbed({None: truth.paced}, {None: truth.fast})
        paced, fast = kept_paced[None], kept_fast[None]
        true = {
            "p99.9_ns": _middle(tails(paced)),
            "rate_hz": statistics.geometric_mean(run.rate_hz for run in paced),
            "capacity_hz": statistics.geometric_mean(run.rate_hz for run in fast),
        }
        errors = {name: flat[name]["value"] / value - 1 for name, value in true.items()}
        apart = {
            "p99.9_ns": _halves_apart(tails(paced)),
            "rate_hz": _halves_apart([run.rate_hz for run in paced]),
            "capacity_hz": _halves_apart([run.rate_hz for run in fast]),
        }
        results.add(
            case.title,
            round=number,
            made=True,
            stage=made["stage"],
            rounds=made["rounds"],
            forecast=flat,
            true=true,
            errors=errors,
            halves_apart=apart,
            true_tails_ns=tails(truth.paced),
            taken=[run.taken for run in truth.paced],
            true_capacities_hz=[run.rate_hz for run in truth.fast],
            taken_at_full_load=[run.taken for run in truth.fast],
            warnings=made["warnings"],
            sentence=made["sentence"],
        )
        said = "; ".join(f"{what} {errors[name]:+.1%}{_and(apart[name])}" for name, what, _ in _HELD)
        print(
            f"{case.title}: p99.9 forecast {flat['p99.9_ns']['value'] / 1e3:,.0f} µs of {flat['runs']} runs, "
            f"measured {true['p99.9_ns'] / 1e3:,.0f} µs of {len(paced)}; off by: {said}",
            flush=True,
        )
    made_ones = [one for one in results.outcomes if one["made"]]
    for name, what, bar in _HELD if made_ones else ():
        within = sum(abs(one["errors"][name]) <= bar for one in made_ones)
        known = [abs(one["halves_apart"][name]) for one in made_ones if one["halves_apart"][name] is not None]
        print(
            f"{what} forecast within {bar:.0%}: {within} of {len(made_ones)}; the truths' own halves within "
            f"it of each other: {sum(apart <= bar for apart in known)} of {len(known)}"
        )


def _and(apart: float | None) -> str:
    return "" if apart is None else f" (the truth's halves {apart:+.1%} apart)"


def main() -> None:
    """Parse, run, print."""
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=6)
    add_series(parser, "cases", "diagnoses that were wrong")
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--slow", type=int, default=30_000, metavar="NS")
    parser.add_argument("--forecasts", type=int, default=0, metavar="N", help="of the first N cases, instead")
    parser.add_argument(
        "--budget", type=float, default=180.0, metavar="S", help="of a diagnosis with forecast"
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
