"""Decoding, books, statistics and delays on a generated day, against the bars of the design.

    python -m benchmarks.market_feed [messages [symbols]] [--day FILE] [--parts decode,books,stats,growth]

Prints one line a measurement: the best and the median of some passes, in which the alternatives run in
turn, and whether the best meets the bar. The best tells what the code costs; the median, what the machine
made of it meanwhile. What runs in one thread is measured by that thread's CPU time, so that a busy machine
doesn't count; delays by the clock. Ends with 1 when a bar is missed. --day keeps the generated day for later
runs; --parts takes only some of them (the fifth is delay).
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._bars import Bar
from benchmarks._options import add_day, parser_of
from latlab._core.market import Pipeline, RecordDecoder, best_permutation, decode_sum
from latlab.errors import MissingExtraError
from latlab.market import DelayEstimator, census, generate, read, signals

FOLD = 3


def times(
    runs: dict[str, Callable[[], object]], fold: int = FOLD, clock: Callable[[], float] = time.thread_time
) -> dict[str, tuple[float, float]]:
    """The shortest and the median time of each in seconds, the runs taken in turn."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(fold):
        for name, run in runs.items():
            begin = clock()
            run()
            taken[name].append(clock() - begin)
    return {name: (min(values), float(np.median(values))) for name, values in taken.items()}


MISSED: list[str] = []


def say(name: str, best: float, median: float, unit: str, limit: float, at_least: bool = False) -> None:
    if limit in (0, float("inf")):  # the alternatives beside it
        print(f"{name}: {best:.4g} {unit}; median {median:.4g} {unit}", flush=True)
        return
    bar = Bar(name, best, limit, unit, at_least)
    print(f"{bar}; median {median:.4g} {unit}", flush=True)
    if not bar.met:
        MISSED.append(name)


def rates(path: Path, messages: int, parts: set[str]) -> None:
    data = np.fromfile(path, np.uint8)  # from memory, not from the page cache's mapping

    def into_numpy() -> None:
        decoder = RecordDecoder(False)
        for at in range(0, len(data), 1 << 22):
            decoder.feed(data[at : at + (1 << 22)])
            decoder.take()

    def book(kind: str) -> None:
        pipeline = Pipeline.census("binary", False, kind)
        pipeline.feed(data)
        pipeline.finish()

    def stats(over_messages: bool) -> None:
        pipeline = Pipeline.stats("binary", False, "ladder", over_messages)
        pipeline.feed(data)
        pipeline.finish()

    runs: dict[str, tuple[Callable[[], object], float]] = {}
    if "decode" in parts:
        runs |= {
            f"decode, all fields, permutation {p}": (
                partial(decode_sum, data, p),
                100.0 if p == best_permutation() else 0.0,
            )
            for p in range(best_permutation() + 1)
        }
        runs |= {
            "decode into numpy": (into_numpy, 30.0),
            "read() of the file": (lambda: sum(1 for _ in read(path)), 30.0),
        }
    if "books" in parts:
        runs |= {
            f"all books, {kind}": (partial(book, kind), 20.0 if kind == "ladder" else 0.0)
            for kind in ("ladder", "array", "map")
        }
    if "stats" in parts:
        runs |= {
            "statistics over inside changes": (lambda: stats(False), 5.0),
            "statistics over all messages": (lambda: stats(True), 5.0),
        }
    for name, (best, median) in times({name: run for name, (run, _) in runs.items()}).items():
        say(name, messages / best / 1e6, messages / median / 1e6, "M/s", runs[name][1], at_least=True)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - data.nbytes / 1e6
    say("memory of all of these, without the file's", peak_mb, peak_mb, "MB", 1_000)


def growth(path: Path) -> None:
    """Books of a tenth of the day and of all of it: the cost of a message must not grow."""
    data = np.fromfile(path, np.uint8)
    counts: dict[int, int] = {}

    def books(share: int) -> None:
        pipeline = Pipeline.census("binary", False)
        pipeline.feed(data[: len(data) // share])
        counts[share] = pipeline.counts()["messages"]

    found = times({str(share): partial(books, share) for share in (10, 3, 1)})
    costs = {share: [seconds / counts[int(share)] * 1e9 for seconds in pair] for share, pair in found.items()}
    for share, (best, median) in costs.items():
        print(f"all books, the first 1/{share} of the day: {best:.1f} ns a message; median {median:.1f} ns")
    best, median = (whole / tenth for whole, tenth in zip(costs["1"], costs["10"], strict=True))
    say("a message's cost in the whole day against that in a tenth", best, median, "x", 1.1)


def delays() -> None:
    price = signals.steps(2048, seed=1).astype(np.float32)
    late = signals.delayed(price.astype(np.float64), 17, mode="hold").astype(np.float32)
    prices = np.array([signals.steps(16_384, seed=s) for s in range(80)], np.float32).reshape(20, 4, -1)
    moved = np.roll(prices, 40, axis=-1)
    for engine in ("fftw", "scipy"):
        for pad in (False, True):
            name = f"{engine}, {'padded' if pad else 'circular'}"
            try:
                one = DelayEstimator(2048, 1e5, engine=engine, pad=pad)
            except MissingExtraError as error:
                print(f"delay, {name}: not measured: {error}")
                continue

            def hundred(e: DelayEstimator = one) -> None:
                for _ in range(100):
                    e.estimate(price, late)

            best, median = times({"one": hundred}, 200, time.perf_counter)["one"]
            # scipy is the alternative beside it, without a bar.
            limit = float("inf") if engine == "scipy" else 15 if pad else 7
            say(f"delay, 2048 points, {name}", best * 1e4, median * 1e4, "us", limit)
            for threads in (1, 2):
                many = DelayEstimator(16_384, 1e6, engine=engine, pad=pad, max_delay_s=1e-3, threads=threads)
                many.estimate_arrays(prices, moved)
                run = partial(many.estimate_arrays, prices, moved)
                best, median = times({"many": run}, 20, time.perf_counter)["many"]
                what = f"delay, 16384 points, 20 x 4, {name}, {threads} threads"
                say(what, best * 1e3, median * 1e3, "ms", float("inf") if engine == "scipy" else 16)
    # Delays between two samples, of ten events and of a hundred in a window.
    estimator = DelayEstimator(2048, 1e5, engine="auto")
    for events in (10, 100):
        errors = []
        for seed in range(300):
            few = signals.steps(2048, rate=events / 2048, seed=seed)
            delay = np.random.default_rng(seed).uniform(0, 60)
            found = estimator.estimate(few, signals.delayed(few, delay, mode="hold", seed=seed))
            errors.append(abs(found.delay_s - delay / 1e5))
        middle = float(np.median(errors)) * 1e6
        say(f"delay, {events} events, median error at 10 us sampling", middle, middle, "us", 1)
    errors = []
    for seed in range(300):
        wave = signals.steps(2048, seed=seed)
        delay = seed % 60 + seed / 300
        behind = signals.delayed(wave, delay, mode="hold", drop=0.05, jitter=0.3, seed=seed)
        errors.append(abs(estimator.estimate(wave, behind).delay_s - delay / 1e5))
    middle = float(np.median(errors)) * 1e6
    say("delay, drops and jitter of 3 us, median error", middle, middle, "us", 1)
    gross = float(np.mean(np.array(errors) > 1e-4)) * 100
    say("delay, gross errors (over 100 us)", gross, gross, "%", 1)


PARTS = ("decode", "books", "stats", "growth", "delay")


def main() -> int:
    parser = parser_of(__doc__)
    add_day(parser, "where the generated day is, or is put")
    parser.add_argument("--parts", default=",".join(PARTS))
    chosen = parser.parse_args()
    parts = set(chosen.parts.split(","))
    if strange := parts - set(PARTS):
        parser.error(f"no part {', '.join(strange)}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.day or Path(folder) / "day.itch"
        if parts - {"delay"} and not path.exists():
            generate(path, seed=1, messages=chosen.messages, symbols=chosen.symbols)
        if parts & {"decode", "books", "stats"}:
            rates(path, census(path).messages, parts)
        if "growth" in parts:
            growth(path)
    if "delay" in parts:
        delays()
    print(f"{len(MISSED)} bars missed: {', '.join(MISSED)}" if MISSED else "every bar met")
    return 1 if MISSED else 0


if __name__ == "__main__":
    raise SystemExit(main())
