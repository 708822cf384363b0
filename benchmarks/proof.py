"""The long series: causes planted in the trading pipeline, and what `latlab diagnose` makes of them.

    python -m benchmarks.proof [--rounds N] [--seconds S] [--slow NS] [--forecasts N]

A round is one diagnosis of every case: a slow stage in turn (in several layouts), pairs of them, a queue that
is too small, a process that is stopped for a while, a neighbour on a stage's core, and nothing planted. It
prints for each case in how many rounds its cause was named. With --forecasts the first cases are diagnosed
whole, and the tail that the flat stub forecasts is held against the pipeline that really goes without the
planted time. A round takes two minutes on two CPUs, a forecast three.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

STAGES = ("decoder", "market", "book", "strategy", "execution")
POOL = "[stages.book]\ncount = 4\nworkers = 2\n"
TEN = "[stages.book]\ncount = 1\n[stages.strategy]\ncount = 10\nper_book = 10\n[replay]\ndelay_ns = 60_000\n"
BURSTS = '[replay]\nmode = "burst"\nburst = 32\ndelay_ns = 1_000_000\n'
SMALL = (
    BURSTS.replace("32", "200").replace("1_000", "4_000")
    + '[queues]\nupdates = {kind = "spsc", capacity = 4}\n'
)
PINNED = "[stages.book]\ncpus = [1]\n"


@dataclasses.dataclass(frozen=True)
class Case:
    """One planted cause, and how its naming is recognised."""

    title: str
    layout: str
    slow: dict[str, int]
    named: Callable[[dict[str, Any]], bool]
    beside: Callable[[subprocess.Popen[str]], AbstractContextManager[None]] | None = None


def stage_named(stage: str) -> Callable[[dict[str, Any]], bool]:
    return lambda answer: answer["limiting_stage"] == stage


def nothing_named(answer: dict[str, Any]) -> bool:
    return (
        answer["limiting_stage"] is None
        and answer["verdict"] == "none"
        and "stood still" not in answer["sentence"]
    )


@contextmanager
def stopped(diagnosis: subprocess.Popen[str]) -> Any:
    """Stops the execution process for 400 ms in the middle of the run."""

    def work() -> None:
        until = time.monotonic() + 30
        while time.monotonic() < until and diagnosis.poll() is None:
            for child in psutil.Process(diagnosis.pid).children():
                if child.cmdline()[-1:] == ["execution"]:
                    time.sleep(1.0)
                    child.send_signal(signal.SIGSTOP)
                    time.sleep(0.4)
                    child.send_signal(signal.SIGCONT)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join()


@contextmanager
def neighbour(_: subprocess.Popen[str]) -> Any:
    """A process that spins on CPU 1 for as long as the diagnosis runs, twice as heavy as a thread of it."""

    def prepare() -> None:
        os.sched_setaffinity(0, {1})
        os.nice(-3)

    with subprocess.Popen([sys.executable, "-c", "while True: pass"], preexec_fn=prepare) as process:
        yield
        process.kill()


def cases(slow_ns: int) -> list[Case]:
    found = [Case(f"{stage} is slow", "", {stage: slow_ns}, stage_named(stage)) for stage in STAGES]
    found += [
        Case(f"{name}: {stage} is slow", layout, {stage: slow_ns}, stage_named(stage))
        for name, layout in (("worker pool", POOL), ("ten strategies", TEN), ("bursts", BURSTS))
        for stage in ("market", "book", "strategy")
    ]
    found += [
        Case(f"{a} is slow, {b} half as slow", "", {a: slow_ns, b: slow_ns // 2}, stage_named(a))
        for a, b in (("strategy", "execution"), ("execution", "strategy"), ("book", "strategy"))
    ]
    found.append(
        Case(
            "a queue is too small", SMALL, {}, lambda a: a["verdict"] == "burst" and "book-" in a["sentence"]
        )
    )
    found.append(
        Case("execution is stopped", "", {}, lambda a: "execution-0 stood still" in a["sentence"], stopped)
    )
    if (os.cpu_count() or 1) > 1:
        found.append(
            Case(
                "a neighbour on the books' CPU",
                PINNED,
                {},
                lambda a: a["verdict"] in ("scheduler", "cpu"),
                neighbour,
            )
        )
    found += [
        Case(f"{name}: nothing is planted", layout, {}, nothing_named)
        for name, layout in (("as it comes", ""), ("worker pool", POOL), ("bursts", BURSTS))
    ]
    return found


def diagnosed(case: Case, seconds: float, seed: int, budget: float | None = None) -> dict[str, Any]:
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
        return answer


def forecasts(number: int, slow_ns: int, seconds: float) -> None:
    """Forecast against truth: the flat stub's p99.9 and throughput, and the pipeline without planted time."""
    errors: list[tuple[float, float]] = []
    for case in cases(slow_ns)[:number]:
        answer = diagnosed(case, seconds, 1, budget=180)
        truth = diagnosed(dataclasses.replace(case, slow={}), seconds, 2)
        if not answer["forecasts"]:
            print(f"{case.title}: no forecast was made", flush=True)
            continue
        flat = answer["forecasts"][0]["points"][-1]
        tail = flat["p99.9_ns"]["value"] / truth["end_to_end_ns"]["p99.9"] - 1
        wide = flat["p99.9_ns"]["low"], flat["p99.9_ns"]["high"]
        print(
            f"{case.title}: p99.9 forecast {flat['p99.9_ns']['value'] / 1e3:,.0f} µs "
            f"[{wide[0] / 1e3:,.0f}, {wide[1] / 1e3:,.0f}], measured "
            f"{truth['end_to_end_ns']['p99.9'] / 1e3:,.0f} µs ({tail:+.1%})\n"
            f"    {answer['forecasts'][0]['sentence']}",
            flush=True,
        )
        errors.append((abs(tail), 0.0))
    if errors:
        within = sum(error <= 0.1 for error, _ in errors)
        print(f"p99.9 forecast within 10 %: {within} of {len(errors)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=2.5)
    parser.add_argument("--slow", type=int, default=30_000, metavar="NS")
    parser.add_argument("--forecasts", type=int, default=0, metavar="N")
    options = parser.parse_args()
    right: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for number in range(options.rounds):
        for case in cases(options.slow):
            answer = diagnosed(case, options.seconds, number + 1)
            hit = case.named(answer)
            runs[case.title] += 1
            right[case.title] += hit
            if not hit:
                print(
                    f"{case.title}: {answer['limiting_stage']} ({answer['verdict']}): {answer['sentence']}",
                    flush=True,
                )
    print()
    for title, count in runs.items():
        print(f"{title}: right in {right[title]} of {count}")
    if runs:
        quiet = [title for title in runs if title.endswith("nothing is planted")]
        planted = [title for title in runs if title not in quiet]
        for what, those, bar in (
            ("planted cause named", planted, "95"),
            ("nothing named where nothing was", quiet, "98"),
        ):
            total, good = sum(runs[t] for t in those), sum(right[t] for t in those)
            print(f"{what}: {good} of {total} ({good / total:.1%}; bar: {bar} %)")
    if options.forecasts:
        forecasts(options.forecasts, options.slow, options.seconds)


if __name__ == "__main__":
    main()
