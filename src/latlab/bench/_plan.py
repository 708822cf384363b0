"""The pilot: what a process costs and how it varies, and so how long each should measure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from latlab.model.bench import Plan, Sample, Settings
from latlab.stats import paired
from latlab.stats.variance import best_iterations, components, midmean

__all__ = ["cycle_ns", "default_smallest_effect", "make_plan"]

PILOT_PROCESSES = 3
# A smallest effect of one cycle says that changes of an operation of some cycles don't matter before they are
# tens of percent, which no user of a loop of such operations believes.
LARGEST_DEFAULT = 0.0025
FEWEST_ITERATIONS, MOST_ITERATIONS = 20, 20_000


def cycle_ns() -> float:
    """One cycle of this processor at its nominal rate, which is what the kernel states first in cpuinfo."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("cpu MHz"):
            return 1e3 / float(line.partition(":")[2])
    return 1.0 / 3.0


def default_smallest_effect(typical_ns: float) -> tuple[float, str]:
    """The larger of one cycle and one instruction an operation, relative to the operation's time.

    An instruction takes no more than a cycle where any work is done in parallel, so that the cycle decides.

    Returns:
        (relative change, why).
    """
    cycle = cycle_ns()
    effect = cycle / typical_ns
    if effect > LARGEST_DEFAULT:
        return LARGEST_DEFAULT, (
            f"{LARGEST_DEFAULT:.2%}: one cycle ({cycle:.2f} ns) would be {effect:.2%} of an operation of "
            f"{typical_ns:.4g} ns, so the cap holds; declare your own by --effect"
        )
    return (
        effect,
        f"one cycle ({cycle:.2f} ns) an operation of {typical_ns:.4g} ns; declare yours by --effect",
    )


def make_plan(
    measures: Sequence[Callable[[Settings], Sample]],
    settings: Settings,
    *,
    smallest_effect: float | None,
    alpha: float,
    fixed_iterations: bool,
    budget_s: float = math.inf,
) -> tuple[Plan, Settings, float, str]:
    """Run the pilot of the sides in turn and choose the batch and the iterations of a process.

    Args:
        measures: for each side, a function that measures it once in a fresh process.
        settings: what was asked for; a batch of 0 is settled here, the same for every side, since the clock's
            reading weighs more in a smaller one.
        smallest_effect: declared, or None for the default.
        alpha: level of the plan.
        fixed_iterations: keep the asked iterations, as for commands and where the user said so.
        budget_s: what measuring may take in all; no process is planned to take more than a fortieth of it.

    Returns:
        (plan, settings to measure with, smallest effect, why that).
    """
    first = [
        measure(dataclasses.replace(settings, iterations=min(20, settings.iterations)))
        for measure in measures
    ]
    batch = max(sample.batch for sample in first)
    settled = dataclasses.replace(settings, batch=batch)
    iteration_s = max(midmean(s.times_ns) * s.operations * batch for s in first) * 1e-9
    if not fixed_iterations:
        # As long in the iterations as in the start of the process, for the pilot.
        overhead = min(s.process_s - 1e-9 * float(s.times_ns.sum()) * s.batch * s.operations for s in first)
        count = min(max(FEWEST_ITERATIONS, int(max(overhead, 1e-3) / iteration_s)), 1000)
        settled = dataclasses.replace(settled, iterations=count, warmup=min(settings.warmup, count))
    pilot = [[measure(settled) for _ in range(PILOT_PROCESSES)] for measure in measures]
    samples = [sample for side in pilot for sample in side]
    typical = float(np.median([midmean(s.times_ns) for s in samples]))
    parts = components(
        [s.times_ns / midmean([midmean(x.times_ns) for x in side]) for side in pilot for s in side]
    )
    process_s = float(np.median([s.process_s for s in samples]))
    overhead_s = max(process_s - iteration_s * settled.iterations, 1e-4)
    iterations = settled.iterations
    if not fixed_iterations:
        most = max(FEWEST_ITERATIONS, int(budget_s / 40 / iteration_s))
        iterations = best_iterations(parts, overhead_s, iteration_s)
        iterations = min(max(FEWEST_ITERATIONS, iterations), most, MOST_ITERATIONS)
    if smallest_effect is None:
        smallest_effect, effect_why = default_smallest_effect(typical)
    else:
        effect_why = f"{smallest_effect:.3%}, as declared"
    effective = max(1.0, parts.effective_share * iterations)
    # Two sides, and blocks of two pairs: the variance of a block's mean log-ratio is that of one process.
    deviation = math.sqrt(parts.between**2 + 1.2 * parts.within**2 / effective)
    pairs = paired.needed_pairs(max(deviation, 1e-9), math.log1p(smallest_effect), alpha=alpha)
    seconds = None if pairs is None else pairs * 2 * (overhead_s + iterations * iteration_s)
    why = (
        f"{len(samples)} pilot processes: {parts.between:.3%} between processes, {parts.within:.3%} "
        "between iterations, "
        f"of which {parts.effective_share:.0%} count as independent; a process costs "
        f"{overhead_s * 1e3:.2f} ms to "
        f"start and an iteration {iteration_s * 1e6:.3g} us, so {iterations} iterations a process"
    )
    if pairs is not None and seconds is not None:
        why += (
            f"; {smallest_effect:.3%} at level {alpha:g} and power 0.9 needs {pairs} pairs ({seconds:.3g} s)"
        )
    why += f"; {', '.join(samples[0].context) or 'plain scheduling'}"
    plan = Plan(iterations, batch, parts.between, parts.within, parts.effective_share, pairs, seconds, why)
    return plan, dataclasses.replace(settled, iterations=iterations), smallest_effect, effect_why
