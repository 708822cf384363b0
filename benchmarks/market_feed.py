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
    print(f"{name:<44}{value:>18}   bar {bar}", flush=True)


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


def delays() -> None:
    random = np.random.default_rng(1)
    for n, signals_at_once in ((2048, 80), (16_384, 80)):
        prices = np.array([signals.steps(n, seed=s) for s in range(signals_at_once)], np.float32)
        shift = random.integers(0, n // 16, signals_at_once)
        late = np.array(
            [signals.delayed(p, int(d), mode="hold") for p, d in zip(prices, shift, strict=True)], np.float32
        )
        for engine in ("fftw", "scipy"):
            for pad in (False, True):
                try:
                    estimator = DelayEstimator(n, 1e5 if n == 2048 else 1e6, engine=engine, pad=pad)
                except Exception as error:  # noqa: BLE001
                    say(f"delay, {n} points, {engine}", "not measured", str(error))
                    continue
                estimator.estimate_arrays(prices, late)
                runs = {"many": lambda e=estimator, a=prices, b=late: e.estimate_arrays(a, b)}
                seconds = min(best(runs, 7).values())
                bar = "7 us" if not pad else "15 us"
                if n == 16_384:
                    bar = f"16 ms for all {signals_at_once}"
                each = f"{seconds / signals_at_once * 1e6:.1f} us each"
                say(f"delay, {n} points, {engine}, {'padded' if pad else 'circular'}", each, bar)
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
    delays()


if __name__ == "__main__":
    main()
