"""Requested against achieved, for every kind of stub, idle and beside a competitor."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from latlab import words
from latlab._core import stubs as native
from latlab.errors import UsageError
from latlab.model.stubs import CacheAccess, StubAccuracy, StubCalibration
from latlab.words import duration

SPINS = {
    "spin-wall": (native.SpinMode.WALL, "wall_ns"),
    "spin-cpu": (native.SpinMode.CPU, "cpu_ns"),
    "spin-instructions": (native.SpinMode.INSTRUCTIONS, "wall_ns"),
}
SLEEPS = {
    "sleep-plain": native.SleepMode.PLAIN,
    "sleep-corrected": native.SleepMode.CORRECTED,
    "sleep-spin-end": native.SleepMode.SPIN_END,
}
OTHERS = (
    "cache", "main-memory", "io-write", "io-read", "io-delay", "network", "global-cpu", "global-memory",
    "global-disk",
)  # fmt: skip
KINDS = (*SPINS, *SLEEPS, *OTHERS)
LENGTHS_NS = (10_000, 100_000, 1_000_000, 10_000_000)
# A sleep as short as the kernel's own delay says nothing.
SHORTEST_SLEEP_NS = 100_000
# A global load is a duty over periods; below this there would be less than five of the shortest.
SHORTEST_GLOBAL_NS = 5_000_000
# Where the kernel doesn't name the caches: from within the first level to beyond the last.
WORKING_SETS = {"L1": 16 << 10, "L2": 256 << 10, "L3": 4 << 20, "memory": 128 << 20}
LARGEST_SET = 256 << 20
# Rates of the global stubs: what a desktop's memory and disk have to spare.
MEMORY_BYTES_PER_S = 1e9
DISK_BYTES_PER_S = 20e6


@contextmanager
def _on_one_core(busy: bool) -> Iterator[None]:
    """Hold this thread on one core, with a competitor on it where asked, and give everything back."""
    before = os.sched_getaffinity(0)
    cpu = max(before)
    os.sched_setaffinity(0, {cpu})
    load = native.GlobalLoad([cpu]) if busy else None
    try:
        if load is not None:
            load.start()
            time.sleep(0.05)
        yield
    finally:
        if load is not None:
            load.stop()
        os.sched_setaffinity(0, before)


def _row(
    kind: str, condition: str, measure: str, requested_ns: int, measured: dict[str, Any], tolerance: float
) -> StubAccuracy:
    error = np.asarray(measured[f"{measure}_ns"], dtype=np.float64) - requested_ns
    p50 = float(np.quantile(error, 0.5, method="inverted_cdf"))
    # 0.1 us is the resolution that this is held to at any length.
    holds = abs(p50) <= max(100.0, tolerance * requested_ns)
    return StubAccuracy(
        kind=kind,
        condition=condition,
        measure=measure,
        requested_ns=requested_ns,
        repetitions=len(error),
        p50_error_ns=p50,
        p99_error_ns=float(np.quantile(error, 0.99, method="inverted_cdf")),
        mean_error_ratio=float(error.mean()) / requested_ns,
        preempted=int(np.sum(measured["preempted"])),
        burned_ns=float(np.mean(measured["burned_ns"])),
        holds=holds,
    )


def _repetitions(length_ns: int, seconds: float) -> int:
    return max(20, min(400, int(seconds * 1e9 / length_ns)))


def _other(kind: str, requested_ns: int, repetitions: int) -> dict[str, Any]:
    """Achieved times of the stubs that have no clock of their own."""
    wall: list[float] = []
    if kind == "cache":
        stub = native.CacheStub(32 * 1024, 64, 0.25)
        wall = [stub.run_for(requested_ns).wall_ns for _ in range(repetitions)]
    elif kind == "main-memory":
        for _ in range(repetitions):
            steps = [(0, 1 << 20, 0), (requested_ns // 2, 1 << 18, 1 << 16), (requested_ns, 0, 0)]
            wall.append(native.run_memory_plan(steps).wall_ns)
    elif kind.startswith("global"):
        wall = list(_global(kind, requested_ns, repetitions))
    elif kind == "io-delay":
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "calibrate")
            wall = [native.run_io(path, delay_ns=requested_ns).wall_ns for _ in range(repetitions)]
    elif kind == "network":
        rate = 100e6
        size = max(1, int(rate * requested_ns / 1e9))
        for _ in range(repetitions):
            # The last chunk is sent one chunk's time before the end.
            chunk = max(1, size // 16)
            wall.append(native.run_network(size + chunk, rate, 0, chunk).wall_ns)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "calibrate")
            native.run_io(path, 0, 1 << 24)
            size = 1 << 16
            reading = kind == "io-read"

            def moved(count: int) -> int:
                return int(native.run_io(path, count * reading, count * (not reading)).wall_ns)

            once = sorted(moved(size) for _ in range(21))[10]
            blocks = max(1, round(requested_ns / once))
            wall = [moved(size * blocks) for _ in range(repetitions)]
    nothing = np.zeros(len(wall))
    return {"wall_ns": np.array(wall), "preempted": nothing, "burned_ns": nothing}


def _global(kind: str, requested_ns: int, repetitions: int) -> Iterator[float]:
    """The load that a global stub put on the system, in the time that it should have taken.

    It lasts twice as long as requested and ends with the turn that it is in, and so is set into proportion.
    """
    rate = {
        "global-cpu": 0.5,
        "global-memory": MEMORY_BYTES_PER_S / 1e9,
        "global-disk": DISK_BYTES_PER_S / 1e9,
    }
    with tempfile.TemporaryDirectory() as folder:
        load = native.GlobalLoad(
            [min(os.sched_getaffinity(0))] if kind == "global-cpu" else [], 0.5,
            max(1_000_000, requested_ns // 5), memory_threads=int(kind == "global-memory"),
            memory_bytes_per_s=MEMORY_BYTES_PER_S,
            disk_path=str(Path(folder) / "load") if kind == "global-disk" else "",
            disk_bytes_per_s=DISK_BYTES_PER_S,
        )  # fmt: skip
        before = 0
        for _ in range(repetitions):
            begin = time.monotonic_ns()
            load.start()
            native.sleep(2 * requested_ns)
            load.stop()
            lasted = max(time.monotonic_ns() - begin, 1)
            # Of the three, two are always 0: nanoseconds, or bytes.
            total = load.busy_ns + load.memory_bytes + load.disk_bytes
            yield (total - before) / rate[kind] / lasted * requested_ns
            before = total


def _measure(kind: str, length_ns: int, repetitions: int) -> tuple[str, dict[str, Any]]:
    if kind in SPINS:
        mode, series = SPINS[kind]
        return series.removesuffix("_ns"), native.measure_spins(mode, length_ns, repetitions)
    if kind in SLEEPS:
        return "wall", native.measure_sleeps(SLEEPS[kind], length_ns, repetitions)
    return "wall", _other(kind, length_ns, min(repetitions, 50))


def calibrate(
    *,
    kinds: Sequence[str] = KINDS,
    lengths_ns: Sequence[int] = LENGTHS_NS,
    tolerance: float = 0.01,
    seconds: float = 0.1,
) -> StubCalibration:
    """Calibrate the stubs and check them against clocks that they don't use themselves.

    Args:
        kinds: which stubs to check, of KINDS.
        lengths_ns: requested times.
        tolerance: the median error that still counts as held, relative to the requested time.
        seconds: time for one kind, length and condition.

    Raises:
        UsageError: a kind doesn't exist, or a length isn't positive.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"unknown kind of stub '{kind}'", remedy=f"one of {', '.join(KINDS)}")
    if any(length <= 0 for length in lengths_ns):
        raise UsageError("a stub's time must be greater than 0")
    native.spin_calibration()
    found = native.measure_spin_calibration()
    rows = []
    caches: list[CacheAccess] = []
    for condition in ("idle", "competitor"):
        with _on_one_core(condition == "competitor"):
            for kind in kinds:
                for length in lengths_ns:
                    if kind not in SPINS and length < SHORTEST_SLEEP_NS:
                        continue
                    if kind.startswith("global") and length < SHORTEST_GLOBAL_NS:
                        continue
                    measure, achieved = _measure(kind, length, _repetitions(length, seconds))
                    rows.append(_row(kind, condition, measure, length, achieved, tolerance))
            if "cache" in kinds:
                caches += _accesses(condition)
    return StubCalibration(
        calibration_s=found.took_ns / 1e9,
        ticks_per_ns=found.ticks_per_ns,
        instructions_per_ns=found.iterations_per_ns * native.INSTRUCTIONS_PER_ITERATION,
        cpu_clock_cost_ns=found.cpu_clock_ns,
        exact_preemption=found.switch_flag,
        tolerance=tolerance,
        rows=tuple(rows),
        refused=(*_refusals(rows), *_caches_refused(caches)),
        caches=tuple(caches),
    )


def _working_sets(root: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> dict[str, int]:
    """A working set for each level of the caches: half of it; and one that no cache holds."""
    found: dict[str, int] = {}
    for index in sorted(root.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
            if kind != "Instruction":
                found[f"L{int(level)}"] = int(size.rstrip("K")) << 9
        except (OSError, ValueError):
            return WORKING_SETS
    if not found:
        return WORKING_SETS
    return {**found, "memory": min(8 * max(found.values()), LARGEST_SET)}


def _accesses(condition: str) -> Iterator[CacheAccess]:
    for level, size in _working_sets().items():
        stub = native.CacheStub(size, 64, 0.25)
        # It comes into the cache, as far as it fits: every line once where one level should hold it.
        stub.run(min(size // 64, 1_000_000))
        # The median of several: beside a competitor a run may hold the other's turn too.
        runs = [stub.run_counted(10_000) for _ in range(15)]
        middle = sorted(runs, key=lambda run: run.wall_ns)[7]
        misses = None if middle.misses < 0 else middle.misses / middle.accesses
        yield CacheAccess(size, condition, middle.wall_ns / middle.accesses, misses, level)


def _caches_refused(caches: Sequence[CacheAccess]) -> Iterator[str]:
    """Two working sets whose accesses cost the same can't stand for two levels of the memory."""
    idle = [one for one in caches if one.condition == "idle"]
    for smaller, larger in itertools.pairwise(idle):
        if larger.access_ns < 1.2 * smaller.access_ns:
            size = f"{words.size(larger.working_set_bytes)} ({larger.level})"
            yield (
                f"cache of {size}: {duration(larger.access_ns)} each, which can't be told from "
                f"{words.size(smaller.working_set_bytes)} "
                f"({smaller.level}, {duration(smaller.access_ns)})"
            )


def _refusals(rows: Sequence[StubAccuracy]) -> Iterator[str]:
    for row in rows:
        if row.holds:
            continue
        held = [
            other
            for other in rows
            if other.holds
            and other.condition == row.condition
            and other.kind.split("-")[0] == row.kind.split("-")[0]
        ]
        same = [other.requested_ns for other in held if other.kind == row.kind]
        instead = sorted({other.kind for other in held if other.requested_ns == row.requested_ns})
        can = (
            f"held from {duration(min(same))} on"
            if same and min(same) > row.requested_ns
            else f"use {instead[0]}"
            if instead
            else "no stub of this family holds it here"
        )
        yield (
            f"{row.kind} of {duration(row.requested_ns)} ({row.condition}): "
            f"off by {duration(row.p50_error_ns)} at the median; {can}"
        )
