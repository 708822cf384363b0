"""The study of conditions: which settings of this machine make a benchmark's times scatter least.

Scheduling class, frequency governor, limit of real-time scheduling, fair server, load and input are
crossed in randomised
complete blocks (Fisher, The Design of Experiments (1935), chapter 4): every combination once a block, in
an order drawn
anew, so that a drift of the machine spreads over all of them. Every factor is read back after it was set,
and what a
machine doesn't have is recorded as unavailable.
"""

from __future__ import annotations

import dataclasses
import glob
import itertools
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from latlab.bench._experiment import Recorder
from latlab.bench._process import measure_once, takes_seed
from latlab.bench._raw import Row
from latlab.bench._targets import Target
from latlab.errors import LatlabError
from latlab.model.bench import Sample, Settings
from latlab.stats.quantiles import nearest_rank
from latlab.stats.variance import midmean

__all__ = ["FACTORS", "hogs", "study"]

RT_LIMIT = Path("/proc/sys/kernel/sched_rt_runtime_us")
GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
FAIR_SERVERS = "/sys/kernel/debug/sched/fair_server/cpu*/runtime"
FACTORS = ("scheduling", "governor", "rt_limit", "fair_server", "load", "input")
_LEVELS = {
    "scheduling": ("other", "fifo"),
    "governor": ("powersave", "performance"),
    "rt_limit": ("950000", "-1"),
    "fair_server": ("50000000", "0"),
    "load": ("idle", "hog"),
    "input": ("fixed", "fresh"),
}
_FILES = {"governor": GOVERNORS, "rt_limit": str(RT_LIMIT), "fair_server": FAIR_SERVERS}


@dataclass(frozen=True)
class Combination:
    """One row of the study.

    Attributes:
        levels: by factor.
        processes: measured.
        p50_ns: median over processes of the typical time.
        iqr: interquartile range of all iterations, relative to their median.
        process_iqr: of the processes' typical times, relative.
        times_ns: each process's typical time.
    """

    levels: dict[str, str]
    processes: int
    p50_ns: float
    iqr: float
    process_iqr: float
    times_ns: list[float]


def spin(core: int, ready: Any) -> None:
    """Keep one core busy until killed."""
    os.sched_setaffinity(0, {core})
    ready.set()
    while True:
        pass


class hogs:  # noqa: N801 - used as a context manager, like a function
    """The load generator: one busy process on each core that this process may use."""

    def __enter__(self) -> hogs:
        """Start them, and return once each runs."""
        context = multiprocessing.get_context("spawn")
        self.processes = []
        events = []
        for core in sorted(os.sched_getaffinity(0)):
            event = context.Event()
            process = context.Process(target=spin, args=(core, event), daemon=True)
            process.start()
            self.processes.append(process)
            events.append(event)
        for event in events:
            event.wait(30)
        return self

    def running(self) -> int:
        """How many are alive."""
        return sum(process.is_alive() for process in self.processes)

    def __exit__(self, *_: object) -> None:
        """End them."""
        for process in self.processes:
            process.kill()
            process.join()


def available(factor: str, target: Target) -> str | None:
    """Why a factor can't be varied here, or None."""
    if factor == "input" and not takes_seed(target):
        return f"{target.name} takes no parameter 'seed'"
    if factor not in _FILES:
        return None
    files = glob.glob(_FILES[factor])  # noqa: PTH207 - the pattern spans folders from the root
    if not files:
        return f"this machine has no {_FILES[factor]}"
    if not all(os.access(file, os.W_OK) for file in files):
        return f"no right to write {files[0]}"
    if factor == "governor":
        offered = Path(files[0]).with_name("scaling_available_governors").read_text().split()
        if not set(_LEVELS["governor"]) <= set(offered):
            return f"only {', '.join(offered)} are offered"
    return None


def _write(factor: str, level: str) -> str | None:
    """Set a file factor; returns what reads back differently, or None."""
    for file in glob.glob(_FILES[factor]):  # noqa: PTH207
        try:
            Path(file).write_text(level)
        except OSError as error:
            return f"{file}: {error.strerror}"
        back = Path(file).read_text().strip()
        if back != level:
            return f"{file} reads back {back}"
    return None


def study(
    target: Target,
    settings: Settings,
    recorder: Recorder,
    *,
    blocks: int,
    seed: int,
    factors: Sequence[str] = FACTORS,
    on_run: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Measure a benchmark under every combination of conditions.

    Args:
        target: with its fixture settled.
        settings: of a process; a batch of 0 is settled first.
        recorder: keeps every process, the combination as its test.
        blocks: how often each combination is measured.
        seed: of the order and of the fresh inputs.
        factors: to vary; the others stay as they are.
        on_run: told of progress (done, of).

    Returns:
        the study's document: unavailable factors, combinations (best first), main effects, recommendation.
    """
    unavailable = {f: why for f in factors if (why := available(f, target)) is not None}
    varied = [f for f in factors if f not in unavailable]
    saved = {
        file: Path(file).read_text().strip()
        for f in varied
        if f in _FILES
        for file in glob.glob(_FILES[f])  # noqa: PTH207
    }
    if settings.batch == 0:
        settings = dataclasses.replace(
            settings, batch=measure_once(target, dataclasses.replace(settings, iterations=10)).batch
        )
    grid = list(itertools.product(*(_LEVELS[f] for f in varied)))
    random = np.random.default_rng(seed)
    measured: dict[tuple[str, ...], list[Sample]] = {levels: [] for levels in grid}
    total, done = blocks * len(grid), 0
    try:
        for block in range(blocks):
            for index in random.permutation(len(grid)):
                levels = dict(zip(varied, grid[index], strict=True))
                failed = [
                    f
                    for f in levels
                    if f in _FILES and (why := _write(f, levels[f])) and not unavailable.update({f: why})
                ]
                if failed:
                    continue
                sample = _measure(target, settings, levels, int(random.integers(1 << 31)))
                wanted = levels.get("scheduling")
                if wanted == "fifo" and "fifo" not in sample.context:
                    unavailable["scheduling"] = "SCHED_FIFO isn't allowed here"
                    continue
                measured[grid[index]].append(sample)
                recorder.add(Row(_label(levels), block, done, "A", sample))
                done += 1
                if on_run is not None:
                    on_run(done, total)
    finally:
        for file, content in saved.items():
            Path(file).write_text(content)
    rows = [_row(dict(zip(varied, k, strict=True)), v) for k, v in measured.items() if v]
    rows.sort(key=lambda row: row.iqr)
    effects = {f: _main_effect(f, rows) for f in varied if len({r.levels[f] for r in rows}) > 1}
    return {
        "unavailable": unavailable,
        "combinations": [dataclasses.asdict(row) for row in rows],
        "effects": effects,
        "recommendation": _recommendation(rows, effects),
    }


def _measure(target: Target, settings: Settings, levels: dict[str, str], fresh: int) -> Sample:
    if "scheduling" in levels and levels["scheduling"] == "other":
        settings = dataclasses.replace(settings, priority=0)
    if "input" in levels:
        seed = target.parameters.get("seed", 1) if levels["input"] == "fixed" else fresh
        target = dataclasses.replace(target, parameters={**target.parameters, "seed": seed})
    if levels.get("load") != "hog":
        return measure_once(target, settings)
    with hogs() as load:
        time.sleep(0.05)  # the scheduler spreads them
        sample = measure_once(target, settings)
        if load.running() < len(load.processes):
            raise LatlabError("a process of the load generator ended by itself", remedy="repeat the study")
        return sample


def _label(levels: dict[str, str]) -> str:
    return ",".join(f"{k}={v}" for k, v in levels.items())


def _row(levels: dict[str, str], samples: Sequence[Sample]) -> Combination:
    times = np.concatenate([s.times_ns for s in samples])
    typical = np.array([midmean(s.times_ns) for s in samples])

    def iqr(x: Any) -> float:
        return (nearest_rank(x, 0.75) - nearest_rank(x, 0.25)) / nearest_rank(x, 0.5)

    return Combination(
        levels, len(samples), float(np.median(typical)), iqr(times), iqr(typical), [float(t) for t in typical]
    )


def _main_effect(factor: str, rows: Sequence[Combination]) -> dict[str, float]:
    """Median over combinations of the interquartile range, by level."""
    levels = sorted({row.levels[factor] for row in rows})
    return {level: float(np.median([r.iqr for r in rows if r.levels[factor] == level])) for level in levels}


def _recommendation(rows: Sequence[Combination], effects: dict[str, dict[str, float]]) -> str:
    if not rows:
        return "nothing could be measured"
    best = [
        f"{factor} {min(levels, key=levels.__getitem__)}"
        for factor, levels in effects.items()
        if factor != "input" and max(levels.values()) > 1.1 * min(levels.values())
    ]
    quietest = _label(rows[0].levels) or "as it is"
    advice = (
        f"measure with {', '.join(best)}" if best else "no factor changes the scatter by a tenth; leave them"
    )
    return f"{advice}; least scatter: {quietest} (interquartile range {rows[0].iqr:.2%} of the median)"
