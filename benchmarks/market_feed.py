"""Decoding, books, statistics and delays on a generated day, against the bars of the design.

    python -m benchmarks.market_feed [messages [symbols]]

Prints one line a measurement: the bar, and the best of three passes. Alternatives run in turn within one
pass.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from latlab._core.market import Pipeline, RecordDecoder, best_permutation, decode_sum
from latlab.errors import MissingExtraError
from latlab.market import DelayEstimator, generate, read, signals

FOLD = 3


def best(runs: dict[str, Callable[[], object]], fold: int = FOLD) -> dict[str, float]:
    """The shortest time of each, the runs taken in turn."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(fold):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - begin)
    return {name: min(values) for name, values in times.items()}


def say(name: str, value: str, bar: str) -> None:
    print(f"{name:<58}{value:>18}   bar {bar}", flush=True)


def rates(path: Path, messages: int) -> None:
    data = np.memmap(path, np.uint8, "r")
    data = np.array(data)  # from memory, not from the page cache's mapping

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

    runs: dict[str, tuple[Callable[[], object], str]] = {
        f"decode, all fields, permutation {p}": (lambda p=p: decode_sum(data, p), "100 M/s")
        for p in range(best_permutation() + 1)
    }
    runs |= {
        "decode into numpy": (into_numpy, "30 M/s"),
        "read() of the file": (lambda: sum(1 for _ in read(path)), "30 M/s"),
    }
    runs |= {
        f"all books, {kind}": (lambda kind=kind: book(kind), "20 M/s") for kind in ("ladder", "array", "map")
    }
    runs |= {
        "statistics over inside changes": (lambda: stats(False), "5 M/s"),
        "statistics over all messages": (lambda: stats(True), "5 M/s"),
    }
    for name, seconds in best({name: run for name, (run, _) in runs.items()}, 2).items():
        say(name, f"{messages / seconds / 1e6:.1f} M/s", runs[name][1])


def growth(path: Path) -> None:
    """Books of a tenth of the day and of all of it: the cost of a message must not grow."""
    data = np.fromfile(path, np.uint8)
    for share in (10, 3, 1):
        pipeline = Pipeline.census("binary", False)
        begin = time.perf_counter()
        pipeline.feed(data[: len(data) // share])
        seconds = time.perf_counter() - begin
        cost = seconds / pipeline.counts()["messages"] * 1e9
        say(f"all books, the first 1/{share} of the day", f"{cost:.1f} ns each", "no growth")


def delays() -> None:
    price = signals.steps(2048, seed=1).astype(np.float32)
    late = signals.delayed(price, 17, mode="hold").astype(np.float32)
    prices = np.array([signals.steps(16_384, seed=s) for s in range(80)], np.float32).reshape(20, 4, -1)
    moved = np.roll(prices, 40, axis=-1)
    for engine in ("fftw", "scipy"):
        for pad in (False, True):
            name = f"{engine}, {'padded' if pad else 'circular'}"
            try:
                one = DelayEstimator(2048, 1e5, engine=engine, pad=pad)
            except MissingExtraError as error:
                say(f"delay, {name}", "not measured", str(error))
                continue

            def hundred(e: DelayEstimator = one) -> None:
                for _ in range(100):
                    e.estimate(price, late)

            seconds = min(best({"one": hundred}, 50).values())
            say(f"delay, 2048 points, {name}", f"{seconds * 1e4:.1f} us", "15 us" if pad else "7 us")
            for threads in (1, 2):
                many = DelayEstimator(16_384, 1e6, engine=engine, pad=pad, max_delay_s=1e-3, threads=threads)
                many.estimate_arrays(prices, moved)
                seconds = min(best({"many": lambda e=many: e.estimate_arrays(prices, moved)}, 7).values())
                what = f"delay, 16384 points, 20 x 4, {name}, {threads} threads"
                say(what, f"{seconds * 1e3:.1f} ms", "16 ms")
    estimator = DelayEstimator(2048, 1e5, engine="auto")
    errors = []
    for seed in range(300):
        price = signals.steps(2048, seed=seed)
        delay = seed % 60
        found = estimator.estimate(
            price, signals.delayed(price, delay, mode="hold", drop=0.05, jitter=0.3, seed=seed)
        )
        errors.append(abs(found.delay_s - delay / 1e5))
    say("delay, median error at 10 us sampling", f"{np.median(errors) * 1e6:.2f} us", "1 us")
    say("delay, gross errors (over 100 us)", f"{np.mean(np.array(errors) > 1e-4):.2%}", "1 %")


def main() -> None:
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    symbols = int(sys.argv[2]) if len(sys.argv) > 2 else 8_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "day.itch"
        begin = time.perf_counter()
        generate(path, seed=1, messages=messages, symbols=symbols)
        say("generate", f"{messages / (time.perf_counter() - begin) / 1e6:.1f} M/s", "2 M/s")
        rates(path, messages)
        growth(path)
    delays()


if __name__ == "__main__":
    main()
