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
import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from latlab.bench.measuring.conditions import FACTORS, LEVELS, Knobs, available, hogs
from latlab.bench.measuring.probes import FactorFinding, probe
from latlab.bench.processes.process import measure_once
from latlab.bench.results.raw import Row
from latlab.bench.results.recorder import Recorder
from latlab.bench.results.targets import Target
from latlab.errors import LatlabError
from latlab.model.bench import Sample, Settings
from latlab.model.evidence.bench import ConditionSaid
from latlab.model.evidence.said import said
from latlab.stats.quantiles import nearest_rank
from latlab.stats.variance import midmean

__all__ = ["study"]


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
        seeds: each process's, where the fixture takes one.
    """

    levels: dict[str, str]
    processes: int
    p50_ns: float
    iqr: float
    process_iqr: float
    times_ns: list[float]
    seeds: list[int]


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
        the study's document: unavailable factors, what the probes saw, combinations (best first), main
        effects, recommendation.

    Raises:
        LatlabError: the fixture can't be measured, or the load generator ended.
    """
    unavailable = {f: why for f in factors if (why := available(f, target)) is not None}
    varied = [f for f in factors if f not in unavailable]
    if settings.batch == 0:
        settings = dataclasses.replace(
            settings, batch=measure_once(target, dataclasses.replace(settings, iterations=10)).batch
        )
    random = np.random.default_rng(seed)
    done, probes = 0, dict[str, FactorFinding]()
    with Knobs(varied) as knobs:
        cpu = max(os.sched_getaffinity(0)) if settings.cpu is None else settings.cpu
        priority = settings.priority or os.sched_get_priority_max(os.SCHED_FIFO)
        for f in varied:
            probes[f] = probe(f, LEVELS[f], knobs, cpu, priority)
            refused = [why for level in LEVELS[f] if (why := knobs.write(f, level)) is not None]
            if refused:
                unavailable[f] = refused[0]
        varied = [f for f in varied if f not in unavailable]
        if "scheduling" in varied and (why := _scheduling_refused(target, settings, priority)) is not None:
            unavailable["scheduling"] = why
            varied.remove("scheduling")
        grid = list(itertools.product(*(LEVELS[f] for f in varied)))
        measured: dict[tuple[str, ...], list[tuple[Sample, int | None]]] = {levels: [] for levels in grid}
        for block in range(blocks):
            for index in random.permutation(len(grid)):
                levels = dict(zip(varied, grid[index], strict=True))
                failed = {f: why for f in varied if (why := knobs.write(f, levels[f])) is not None}
                unavailable.update(failed)
                if failed:  # it took before; what was measured until then stands
                    continue
                sample, used = _measure(target, settings, levels, int(random.integers(1 << 31)))
                if "scheduling" in levels and ("fifo" in sample.context) != (levels["scheduling"] == "fifo"):
                    unavailable["scheduling"] = said(ConditionSaid.OTHER_CLASS)
                    continue
                measured[grid[index]].append((sample, used))
                recorder.add(Row(_label(levels), block, done, "A", sample))
                done += 1
                if on_run is not None:
                    on_run(done, blocks * len(grid))
    rows = [_row(dict(zip(varied, k, strict=True)), v) for k, v in measured.items() if v]
    rows.sort(key=lambda row: row.iqr)
    effects = {f: _main_effect(f, rows) for f in varied if len({r.levels[f] for r in rows}) > 1}
    return {
        "unavailable": unavailable,
        "probes": {f: dataclasses.asdict(found) for f, found in probes.items() if f in varied},
        "combinations": [dataclasses.asdict(row) for row in rows],
        "effects": effects,
        "recommendation": _recommendation(rows, effects),
    }


def _scheduling_refused(target: Target, settings: Settings, priority: int) -> str | None:
    """Why this machine doesn't give a measuring process both scheduling classes, or None."""
    few = dataclasses.replace(settings, iterations=1)
    for level in LEVELS["scheduling"]:
        sample = measure_once(target, dataclasses.replace(few, priority=priority if level == "fifo" else 0))
        if ("fifo" in sample.context) != (level == "fifo"):
            return said(ConditionSaid.NO_FIFO if level == "fifo" else ConditionSaid.FIFO_INHERITED)
    return None


def _measure(
    target: Target, settings: Settings, levels: dict[str, str], fresh: int
) -> tuple[Sample, int | None]:
    """(what a process measured under these conditions, the seed that it was given)."""
    if "scheduling" in levels:
        top = settings.priority or os.sched_get_priority_max(os.SCHED_FIFO)
        settings = dataclasses.replace(settings, priority=top if levels["scheduling"] == "fifo" else 0)
    used = None
    if "input" in levels:
        used = int(target.parameters.get("seed", 1)) if levels["input"] == "fixed" else fresh
        target = dataclasses.replace(target, parameters={**target.parameters, "seed": used})
    if levels.get("load") != "hog":
        return measure_once(target, settings), used
    with hogs() as load:
        time.sleep(0.05)  # the scheduler spreads them
        sample = measure_once(target, settings)
        if load.running() < len(load.processes):
            raise LatlabError("a process of the load generator ended by itself", remedy="repeat the study")
        return sample, used


def _label(levels: dict[str, str]) -> str:
    return ",".join(f"{k}={v}" for k, v in levels.items())


def _row(levels: dict[str, str], measured: Sequence[tuple[Sample, int | None]]) -> Combination:
    samples = [sample for sample, _ in measured]
    times = np.concatenate([s.times_ns for s in samples])
    typical = np.array([midmean(s.times_ns) for s in samples])

    def iqr(x: Any) -> float:
        return (nearest_rank(x, 0.75) - nearest_rank(x, 0.25)) / nearest_rank(x, 0.5)

    return Combination(
        levels,
        len(samples),
        float(np.median(typical)),
        iqr(times),
        iqr(typical),
        [float(t) for t in typical],
        [seed for _, seed in measured if seed is not None],
    )


def _main_effect(factor: str, rows: Sequence[Combination]) -> dict[str, float]:
    """Median over combinations of the interquartile range, by level."""
    levels = sorted({row.levels[factor] for row in rows})
    return {level: float(np.median([r.iqr for r in rows if r.levels[factor] == level])) for level in levels}


def _recommendation(rows: Sequence[Combination], effects: dict[str, dict[str, float]]) -> str:
    if not rows:
        return said(ConditionSaid.NOTHING_MEASURED)
    best = [
        f"{factor} {min(levels, key=levels.__getitem__)}"
        for factor, levels in effects.items()
        if factor != "input" and max(levels.values()) > 1.1 * min(levels.values())
    ]
    quietest = _label(rows[0].levels) or "as it is"
    if best:
        return said(ConditionSaid.MEASURE_WITH, levels=", ".join(best), quietest=quietest, iqr=rows[0].iqr)
    return said(ConditionSaid.LEAVE, quietest=quietest, iqr=rows[0].iqr)
