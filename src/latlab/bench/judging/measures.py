"""The measures that a verdict is over: the typical time, the mean per operation, the tail of single
operations.

A user pays for all of them: where every fiftieth call takes twenty times as long, the typical call takes
what it took and the mean two fifths more. Each measure has a test of its own with a part of the level; the
sides are equivalent only if they are by every measure, and different if they are by one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from latlab.model.bench import Measure, Sample
from latlab.model.statistics.paired import PairedResult, Verdict
from latlab.stats import paired
from latlab.stats.quantiles import nearest_rank
from latlab.words import share

__all__ = ["combined", "judge_measures", "names_of", "others_of", "tail_of", "tail_quantile"]

# Five values lie beyond a quantile that is taken.
_TAILS = ((0.999, 5000), (0.99, 500), (0.9, 50))
# Within these a measure counts as equivalent, the tightest first that its interval lies in. The first is the
# smallest effect that matters (of a tail no less than 10 %, since few operations make it); the wider ones are
# for what this machine can't tell better: they need an estimate of less than half of them, the whole budget,
# and are said. The typical time has them only where no effect was declared.
DEFAULT_STEPS, MEAN_STEPS, TAIL_STEPS = (0.02, 0.05), (0.02, 0.05, 0.1), (0.1, 0.2, 0.5)


def tail_quantile(count: int) -> float:
    """The highest quantile that so many single operations carry; 0 for none."""
    return next((q for q, needed in _TAILS if count >= needed), 0.0)


def tail_of(sample: Sample) -> tuple[float, float]:
    """(quantile, nanoseconds) of single operations; the quantile is 0 where too few were timed one by one.

    A batch's mean hides the operation that was slow, so that batches have no tail: operations between them
    do.
    """
    if sample.batch > 1 or sample.operations > 1:
        return sample.tail_quantile, sample.tail_ns
    q = tail_quantile(len(sample.times_ns))
    return q, nearest_rank(sample.times_ns, q) if q else 0.0


def names_of(a: Sample, b: Sample) -> tuple[str, ...]:
    """The measures of a pair."""
    names = ["typical"]
    if min(len(a.times_ns), len(b.times_ns)) > 1:
        names.append("mean")
    tails = tail_of(a), tail_of(b)
    if 0 < tails[0][0] == tails[1][0] and min(ns for _, ns in tails) > 0:
        names.append(f"p{tails[0][0] * 100:g}")
    return tuple(names)


def others_of(a: Sample, b: Sample, names: Sequence[str]) -> tuple[float, ...]:
    """log(B / A) of each measure but the typical time."""
    out = []
    for name in names[1:]:
        if name == "mean":
            out.append(math.log(float(b.times_ns.mean()) / float(a.times_ns.mean())))
        else:
            out.append(math.log(tail_of(b)[1] / tail_of(a)[1]))
    return tuple(out)


def judge_measures(
    differences: Sequence[paired.Difference],
    names: Sequence[str],
    *,
    smallest_effect: float,
    declared: bool,
    alpha: float,
    block_pairs: int,
    final: bool,
) -> tuple[Measure, ...]:
    """Judge each measure by itself, at its part of the level.

    Args:
        differences: of the pairs, in the order measured.
        names: of the measures, "typical" first.
        smallest_effect: relative.
        declared: whether the user named it.
        alpha: level of all together.
        block_pairs: as in `paired.interleaving`.
        final: whether the budget is over, so that the wider margins count.
    """
    ratios, noises = paired.arrays(differences)
    out = []
    for index, (name, part) in enumerate(zip(names, paired.measure_shares(len(names)), strict=True)):
        steps: tuple[float, ...] = () if declared else DEFAULT_STEPS
        first = smallest_effect
        if index:
            ratios, noises = np.array([d.others[index - 1] for d in differences]), np.zeros(len(differences))
            first = smallest_effect if name == "mean" else max(smallest_effect, TAIL_STEPS[0])
            steps = MEAN_STEPS if name == "mean" else TAIL_STEPS
        result = paired.judge(
            ratios, smallest_effect=first, alpha=alpha * part, block_pairs=block_pairs, noises=noises
        )
        if final and result.verdict is Verdict.INCONCLUSIVE:
            result = _widened(result, [step for step in steps if step > first])
        out.append(Measure(name, result))
    return tuple(out)


def _widened(result: PairedResult, steps: Sequence[float]) -> PairedResult:
    low, high = result.interval
    if low is None or high is None or result.effect is None:
        return result
    for margin in steps:
        if -margin < low and high < margin and abs(result.effect) <= margin / 2:
            why = f"the interval is within {share(margin, digits=0)}; this budget can't tell less here"
            return dataclasses.replace(
                result, verdict=Verdict.EQUIVALENT, smallest_effect=margin, why=why, needed_pairs=result.pairs
            )
    return result


def combined(measures: Sequence[Measure], *, alpha: float) -> tuple[PairedResult, str]:
    """(the verdict over all measures, the name of the one that decided it).

    Slower or faster by one is slower or faster; slower by one and faster by another is mixed; equivalent is
    what is equivalent by all.
    """
    shares = paired.measure_shares(len(measures))
    verdicts = [m.result.verdict for m in measures]
    if Verdict.SLOWER in verdicts:
        chosen = verdicts.index(Verdict.SLOWER)
        verdict = Verdict.MIXED if Verdict.FASTER in verdicts else Verdict.SLOWER
    elif Verdict.FASTER in verdicts:
        chosen, verdict = verdicts.index(Verdict.FASTER), Verdict.FASTER
    elif Verdict.INCONCLUSIVE in verdicts:
        chosen, verdict = verdicts.index(Verdict.INCONCLUSIVE), Verdict.INCONCLUSIVE
    else:
        chosen, verdict = 0, Verdict.EQUIVALENT
    result = measures[chosen].result
    p_value = min(1.0, *[m.result.p_value / share for m, share in zip(measures, shares, strict=True)], 1.0)
    why = result.why
    if len(measures) > 1:
        name = measures[chosen].name
        if verdict is Verdict.EQUIVALENT:
            within = ", ".join(f"{m.name} within {m.result.smallest_effect:.3g}" for m in measures)
            why = f"{why}; by every measure: {within}"
        elif name != "typical" or verdict is Verdict.MIXED:
            why = f"by the {'mean per operation' if name == 'mean' else name}: {why}"
        if verdict is Verdict.MIXED:
            faster = measures[verdicts.index(Verdict.FASTER)]
            why += f"; faster by the {faster.name}, {share(faster.result.effect, digits=2, signed=True)}"
    needed = result.needed_pairs
    if verdict is Verdict.INCONCLUSIVE:
        open_ends = [m.result.needed_pairs for m in measures if m.result.verdict is Verdict.INCONCLUSIVE]
        needed = None if None in open_ends else max(n for n in open_ends if n is not None)
    return dataclasses.replace(
        result, verdict=verdict, p_value=p_value, alpha=alpha, why=why, needed_pairs=needed
    ), measures[chosen].name
