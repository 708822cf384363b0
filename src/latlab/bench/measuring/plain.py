"""Plain runs: one benchmark by itself, in several processes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from latlab.bench.processes.process import conditions_for, measure_once
from latlab.bench.processes.stops import awake
from latlab.bench.results import google
from latlab.bench.results.raw import Row
from latlab.bench.results.recorder import Recorder
from latlab.bench.results.targets import Target
from latlab.errors import LatlabError
from latlab.model.bench import Sample, Settings
from latlab.model.evidence.bench import CostsSaid
from latlab.model.evidence.said import said
from latlab.stats.variance import midmean

__all__ = ["costs_of", "default_settings", "own_iterations", "run"]

DEFAULT_PROCESSES = 5
_COUNTING_S, _LONGEST_COUNTED_S = 0.05, 2.0
# A call that takes more of the budget than this is measured few times, so that it does not take minutes.
SLOW, FEWEST_OF_SLOW = 0.02, 2


def default_settings() -> Settings:
    """On the last processor allowed at the top of SCHED_FIFO; what has threads: on all, at no priority."""
    return Settings(
        cpu=max(os.sched_getaffinity(0)),
        priority=os.sched_get_priority_max(os.SCHED_FIFO),
        fitting=True,
    )


def own_iterations(target: Target) -> int | None:
    """Iterations of a process that another loop than latlab's measures."""
    return {"command": 1, "google": google.REPETITIONS}.get(target.kind)


def run(
    target: Target,
    settings: Settings,
    recorder: Recorder,
    *,
    seconds: float,
    processes: int | None = None,
    iterations: int | None = None,
) -> list[Sample]:
    """Measure one benchmark in several processes.

    Args:
        target: with its fixture settled.
        settings: how a process measures; its iterations are chosen here unless given.
        recorder: keeps what is measured.
        seconds: budget, unless both numbers are given.
        processes: by default 5, of a command as many as fit (at least 3).
        iterations: a process; by default as many as fit, up to 2,000.
    """
    deadline = awake() + seconds
    command = target.apart
    settings, call_s = conditions_for(target, target, settings)
    slow = call_s > SLOW * seconds
    if iterations is None and slow:
        iterations = max(1, int(seconds / call_s / (processes or DEFAULT_PROCESSES)) - 1)
        settings = dataclasses.replace(settings, batch=settings.batch or 1, warmup=0)
    elif iterations is None:
        probe = measure_once(target, dataclasses.replace(settings, iterations=own_iterations(target) or 10))
        settings = dataclasses.replace(settings, batch=probe.batch)
        one_s = max(
            1e-8,
            midmean(probe.times_ns) * probe.batch * probe.operations * 1e-9,
            probe.measuring_s / len(probe.times_ns),  # with what prepares an iteration
        )
        share = seconds / (processes or DEFAULT_PROCESSES)
        iterations = own_iterations(target) or min(max(10, int(share / 2 / one_s)), 2000)
    settings = dataclasses.replace(settings, iterations=iterations, warmup=min(settings.warmup, iterations))
    samples: list[Sample] = []
    most = DEFAULT_PROCESSES if slow and not command else 1 << 30
    fewest = processes or (3 if command else FEWEST_OF_SLOW if slow else DEFAULT_PROCESSES)
    while len(samples) < fewest or (
        (command or slow) and processes is None and len(samples) < most and awake() < deadline
    ):
        samples.append(measure_once(target, settings))
        recorder.add(Row(target.name, len(samples) - 1, 0, "A", samples[-1]))
    return samples


def costs_of(target: Target, settings: Settings, samples: Sequence[Sample]) -> tuple[dict[str, float], str]:
    """What a run costs beside its time, counted in a process of its own that times nothing.

    Args:
        target: with its fixture settled.
        settings: how a process measures.
        samples: what was measured of it, which says how many runs take `_COUNTING_S`.

    Returns:
        (of `COSTS` those that something counts here, why there are none).
    """
    run_s = midmean(samples[0].times_ns) * samples[0].operations * 1e-9
    if target.kind == "google":
        return {}, said(CostsSaid.OTHER_LOOP)
    if run_s > _LONGEST_COUNTED_S:
        return {}, said(CostsSaid.LONG, run=run_s, most=_LONGEST_COUNTED_S)
    calls = 1 if target.kind == "command" else max(1, min(10_000, int(_COUNTING_S / max(run_s, 1e-9))))
    plain = dataclasses.replace(
        settings, cpu=None, cpus=(), priority=0, fitting=False, lock_memory=False,
        cold=False, iterations=1, warmup=0 if target.kind == "command" else 2, batch=1, count=calls,
    )  # fmt: skip
    try:
        return dict(measure_once(target, plain).costs), ""
    except LatlabError as error:  # what was measured stands; a program of an older header knows no counting
        return {}, said(CostsSaid.FAILED, why=str(error).splitlines()[0])
