"""Spin, sleep and replay against their bars: python -m benchmarks.stubs_accuracy"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from latlab import stubs
from latlab._core import stubs as native


def show(what: str, measured: float, bar: float, unit: str) -> None:
    print(f"{what:44} {measured:10.3f} {unit:3} bar {bar:g} {unit:3} {'ok' if measured <= bar else 'MISSED'}")


def spins_and_sleeps() -> None:
    for length in (10_000, 100_000, 1_000_000):
        error = native.measure_spins(native.SpinMode.WALL, length, 300)["wall_ns"] - length
        show(f"spin of {length / 1e3:g} us, p50 error", abs(float(np.median(error))) / 1e3, 0.1, "us")
    for length in (100_000, 1_000_000):
        for mode, name in (
            (native.SleepMode.CORRECTED, "corrected"),
            (native.SleepMode.SPIN_END, "spun end"),
        ):
            found = native.measure_sleeps(mode, length, 300)
            error = found["wall_ns"] - length
            show(f"sleep of {length / 1e3:g} us {name}, p50", abs(float(np.median(error))) / 1e3, 2.0, "us")
            print(f"{'':44} {np.mean(found['burned_ns']) / 1e3:10.3f} us  burned on the CPU")
    show("calibration", native.measure_spin_calibration().took_ns / 1e9, 0.5, "s")


def beside_a_competitor() -> None:
    before = os.sched_getaffinity(0)
    cpu = max(before)
    os.sched_setaffinity(0, {cpu})
    load = native.GlobalLoad([cpu])
    load.start()
    time.sleep(0.1)
    try:
        for length, count in ((1_000_000, 500), (10_000_000, 60)):
            for mode, name in ((native.SpinMode.CPU, "CPU time"), (native.SpinMode.WALL, "TSC deadline")):
                error = native.measure_spins(mode, length, count)["cpu_ns"] - length
                ratio = abs(float(error.mean())) / length * 100
                what = f"{length / 1e6:g} ms beside a competitor, {name}"
                if mode == native.SpinMode.CPU:
                    show(what, ratio, 0.1, "%")
                else:
                    print(f"{what:44} {ratio:10.3f} %   for comparison")
    finally:
        load.stop()
        os.sched_setaffinity(0, before)


def replays() -> None:
    # As a program would have it: every array is another, so that none is in the cache.
    cases: list[tuple[str, Callable[[int], object], float, bool]] = [
        ("an immutable", lambda i: i, 60.0, False),
        ("a fresh dict", lambda i: {"price": 1.5, "size": i, "side": "b"}, 600.0, False),
        ("a 64 KB array of its own", lambda i: np.full(8192, float(i)), 2000.0, False),
        ("a 64 KB array, viewed", lambda i: np.full(8192, float(i)), 400.0, True),
    ]
    for name, function, bar, views in cases:
        stub = stubs.component(f"bench {name}")(function)
        count = 300 if "array" in name else 20_000
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace"
            with stubs.record(path):
                expected = [stub(i) for i in range(count)]
            best = float("inf")
            for _ in range(5):
                with stubs.replay(path, views=views):
                    start = time.perf_counter_ns()
                    for i in range(count):
                        stub(i)
                    best = min(best, (time.perf_counter_ns() - start) / count)
            with stubs.replay(path, views=views):
                assert all(np.array_equal(stub(i), one) for i, one in enumerate(expected))
        show(f"replay of {name}, loop included", best, bar, "ns")


def replays_in_cxx() -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or "c++"
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/replay"
        command = [compiler, "-std=c++20", "-O2", "-DNDEBUG", f"-I{root / 'include'}"]
        subprocess.run([*command, str(root / "benchmarks/stubs_replay.cpp"), "-o", program], check=True)
        done = subprocess.run([program, f"{folder}/trace"], check=True, capture_output=True, text=True)
    record, load, many, grown = map(float, done.stdout.split())
    show("C++: recording a 64-byte struct", record, 80.0, "ns")
    show("C++: recording 10 M of them", many, 60.0, "ns")
    show("C++: memory that they take more", grown, 16.0, "MB")
    show("C++: loading a 64-byte struct", load, 3.0, "ns")


def main() -> None:
    spins_and_sleeps()
    beside_a_competitor()
    replays()
    replays_in_cxx()


if __name__ == "__main__":
    main()
