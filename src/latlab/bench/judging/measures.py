"""The measures that a verdict is over: the typical time, the mean per operation, the tail of single
operations.

A user pays for all of them: where every fiftieth call takes twenty times as long, the typical call takes
what it took and the mean two fifths more. Each measure has a test of its own with a part of the level; the
sides are equivalent only if they are by every measure, and different if they are by one.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from latlab.model.bench import Measure, Sample
from latlab.model.evidence.bench import VerdictSaid
from latlab.model.evidence.said import said
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments import paired
from latlab.stats.experiments.order import without_order
from latlab.stats.quantiles import nearest_rank, quantile_name
from latlab.words import share

__all__ = [
    "DECLARED",
    "KINDS",
    "combined",
    "judge_measures",
    "names_of",
    "others_of",
    "pooled_mean",
    "tail_of",
    "tail_quantile",
]

# Five values lie beyond a quantile that is taken.
_TAILS = ((0.999, 5000), (0.99, 500), (0.9, 50))
# Within these the typical time and the mean count as equivalent where no effect was declared and the machine
# can't tell less: they need an estimate of less than half of them, the whole budget, and are said.
DEFAULT_STEPS = (0.02, 0.05)
# A tail is made by few operations, and where code lies moves it more than the rest. Less than this is not
# looked for: what isn't told within it is open, and a difference is surely more.
TAIL_MARGIN = 0.1
# Where its code happens to lie moves a build by as much without a change, where placements can't be drawn: a
# difference of two single builds is surely more.
PLACEMENT = 0.03
# Where they are drawn, what the order of functions is worth to both together stays: up to 0.5 % was seen.
DRAWN_PLACEMENT = 0.005
# Beyond this an operation beside the other side's process is another one than alone.
DISPLACED = 1.25
# What a verdict is over by default. A tail that changed is found, too; one that can't be told leaves the
# verdict on the others as it is, and is said to be open.
DECLARED = ("typical", "mean")
KINDS = ("typical", "mean", "tail")


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
        names.append(quantile_name(tails[0][0]))
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


def pooled_mean(pairs: Sequence[tuple[Sample, Sample]]) -> float:
    """log(B / A) of the means over all that was measured; 0 of nothing.

    An operation that most processes never met moves no typical process; it moves this.
    """
    if not pairs:
        return 0.0
    sums = [sum(float(pair[i].times_ns.sum()) for pair in pairs) for i in (0, 1)]
    counts = [sum(len(pair[i].times_ns) for pair in pairs) for i in (0, 1)]
    return math.log(sums[1] / counts[1] / (sums[0] / counts[0]))


def judge_measures(
    differences: Sequence[paired.Difference],
    names: Sequence[str],
    *,
    smallest_effect: float,
    declared: bool,
    alpha: float,
    block_pairs: int,
    final: bool,
    pooled: float = 0.0,
    placement: float = 0.0,
    displaced: float = 1.0,
) -> tuple[Measure, ...]:
    """Judge each measure by itself: whether it differs at its part of the level, whether it is equivalent at
    all of it.

    One measure is enough for a difference, so they share the level. Equivalence takes them all, and a claim
    that needs every one of several tests is at the level of each (intersection-union: Berger, Technometrics
    24 (1982)).

    Args:
        differences: of the pairs, in the order measured.
        names: of the measures, "typical" first.
        smallest_effect: relative.
        declared: whether the user named it.
        alpha: level of all together.
        block_pairs: as in `paired.interleaving`.
        final: whether the budget is over, so that the wider margins count.
        pooled: of `pooled_mean`: where it lies outside a margin, the mean isn't equivalent within it.
        placement: what code placement alone may do; a smaller difference isn't said.
        displaced: how many times as long an operation takes here as alone. Beyond `DISPLACED`, equivalence
            needs an interval as much narrower, since what is added to both sides dilutes a change.
    """
    differences = without_order(differences)
    ratios, noises = paired.arrays(differences)
    out = []
    for index, (name, part) in enumerate(zip(names, paired.measure_shares(len(names)), strict=True)):
        margin = smallest_effect
        if index:
            ratios, noises = np.array([d.others[index - 1] for d in differences]), np.zeros(len(differences))
            margin = smallest_effect if name == "mean" else max(smallest_effect, TAIL_MARGIN)
        judged = functools.partial(
            paired.judge, ratios, smallest_effect=margin, block_pairs=block_pairs, noises=noises
        )
        result = whole = judged(alpha=alpha * part)
        tail = index > 0 and name != "mean"
        sure = margin if tail else placement
        small = result.verdict in (Ruling.SLOWER, Ruling.FASTER) and not _beyond(result, sure)
        if small:
            why = result.why if tail else said(VerdictSaid.ONE_PLACEMENT, margin=sure)
            result = whole = dataclasses.replace(
                result, verdict=Ruling.INCONCLUSIVE, why=why, needed_pairs=2 * result.pairs
            )
        elif result.verdict is Ruling.INCONCLUSIVE and part < 1:
            whole = dataclasses.replace(judged(alpha=alpha), p_value=result.p_value)
        # Commands have one time a process, so that their mean is looked at here alone.
        at_least = abs(math.expm1(pooled)) if name == "mean" or len(names) == 1 else 0.0
        if whole.verdict is Ruling.EQUIVALENT:
            result = whole
            if at_least >= margin:
                rare = said(VerdictSaid.FEW_SLOW_RUNS, effect=math.expm1(pooled))
                result = whole = dataclasses.replace(
                    whole, verdict=Ruling.INCONCLUSIVE, why=rare, needed_pairs=2 * whole.pairs
                )
        undecided = result.verdict is Ruling.INCONCLUSIVE and not small
        if final and not declared and undecided and name in DECLARED:
            steps = [step for step in DEFAULT_STEPS if step > max(margin, at_least)]
            widened = _widened(whole, steps)
            result = widened if widened.verdict is Ruling.EQUIVALENT else result
        if result.verdict is Ruling.EQUIVALENT and not _within_diluted(result, displaced):
            result = dataclasses.replace(
                result,
                verdict=Ruling.INCONCLUSIVE,
                why=said(VerdictSaid.DISPLACED, ratio=displaced),
                needed_pairs=2 * result.pairs,
            )
        out.append(Measure(name, result))
    return tuple(out)


def _beyond(result: PairedResult, margin: float) -> bool:
    """Whether a difference is surely more than a margin."""
    low, high = result.interval
    bound = math.log1p(margin)
    return (low is not None and math.log1p(low) >= bound) or (high is not None and math.log1p(high) <= -bound)


def _within_diluted(result: PairedResult, displaced: float) -> bool:
    """Whether an interval within the margin is there whatever of a change was diluted."""
    low, high = result.interval
    bound = math.log1p(result.smallest_effect) / (displaced if displaced >= DISPLACED else 1.0)
    return low is not None and high is not None and -bound < math.log1p(low) and math.log1p(high) < bound


def _widened(result: PairedResult, steps: Sequence[float]) -> PairedResult:
    low, high = result.interval
    if low is None or high is None or result.effect is None:
        return result
    for margin in steps:
        if -margin < low and high < margin and abs(result.effect) <= margin / 2:
            return dataclasses.replace(
                result, verdict=Ruling.EQUIVALENT, smallest_effect=margin, needed_pairs=result.pairs,
                why=said(VerdictSaid.WITHIN_THIS_BUDGET, margin=margin),
            )  # fmt: skip
    return result


def combined(
    measures: Sequence[Measure], *, alpha: float, declared: Sequence[str] = DECLARED
) -> tuple[PairedResult, str]:
    """(the verdict over all measures, the name of the one that decided it).

    Slower or faster by one is slower or faster; slower by one and faster by another is mixed; equivalent is
    what is equivalent by all that were declared, and open whatever else can't be told, which is said.

    Args:
        measures: each judged by itself.
        alpha: level of all together.
        declared: of `KINDS`: what has to be equivalent.
    """
    shares = paired.measure_shares(len(measures))
    verdicts = [m.result.verdict for m in measures]
    wanted = [m.result.verdict for m in measures if _kind(m.name) in declared or len(measures) == 1]
    if Ruling.SLOWER in verdicts:
        chosen = verdicts.index(Ruling.SLOWER)
        verdict = Ruling.MIXED if Ruling.FASTER in verdicts else Ruling.SLOWER
    elif Ruling.FASTER in verdicts:
        chosen, verdict = verdicts.index(Ruling.FASTER), Ruling.FASTER
    elif Ruling.INCONCLUSIVE in wanted:
        verdict = Ruling.INCONCLUSIVE
        chosen = next(
            i
            for i, m in enumerate(measures)
            if m.result.verdict is verdict and (_kind(m.name) in declared or len(measures) == 1)
        )
    else:
        chosen, verdict = 0, Ruling.EQUIVALENT
    result = measures[chosen].result
    p_value = min(1.0, *[m.result.p_value / share for m, share in zip(measures, shares, strict=True)], 1.0)
    why = result.why
    if len(measures) > 1:
        name = measures[chosen].name
        if verdict is Ruling.EQUIVALENT:
            sure = [m for m in measures if m.result.verdict is Ruling.EQUIVALENT]
            why = "equivalent by " + ", ".join(f"{_said(m.name)} within {_within(m)}" for m in sure)
            unsure = [m for m in measures if m.result.verdict is Ruling.INCONCLUSIVE]
            if unsure:
                why += "; inconclusive for the " + ", ".join(
                    f"{_said(m.name)} ({_reach(m.result)})" for m in unsure
                )
        elif name != "typical" or verdict is Ruling.MIXED:
            why = f"by the {_said(name)}: {why}"
        if verdict is Ruling.MIXED:
            faster = measures[verdicts.index(Ruling.FASTER)]
            why += f"; faster by the {_said(faster.name)}, "
            why += share(faster.result.effect, digits=2, signed=True)
    needed = result.needed_pairs
    if verdict is Ruling.INCONCLUSIVE:
        open_ends = [m.result.needed_pairs for m in measures if m.result.verdict is Ruling.INCONCLUSIVE]
        needed = None if None in open_ends else max(n for n in open_ends if n is not None)
    return dataclasses.replace(
        result, verdict=verdict, p_value=p_value, alpha=alpha, why=why, needed_pairs=needed
    ), measures[chosen].name


def _kind(name: str) -> str:
    return name if name in ("typical", "mean") else "tail"


def _said(name: str) -> str:
    return {"typical": "typical time", "mean": "mean per operation"}.get(name, name)


def _within(measure: Measure) -> str:
    return share(measure.result.smallest_effect)


def _reach(result: PairedResult) -> str:
    low, high = result.interval
    if low is None and high is None:
        return "too few measurements for an interval"
    if low is None or high is None:
        return f"at most {share(high, signed=True)}" if low is None else f"at least {share(low, signed=True)}"
    return f"told to {share(low, signed=True)} to {share(high, signed=True)}"
