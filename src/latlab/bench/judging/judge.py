"""From what the processes measured to the judgement; pure, so that raw results can be judged again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.bench.judging.humps import iteration_humps
from latlab.bench.judging.measures import (
    DECLARED,
    DISPLACED,
    PLACEMENT,
    combined,
    judge_measures,
    names_of,
    others_of,
    pooled_mean,
)
from latlab.model.bench import Judgement, Sample, Shift
from latlab.model.evidence.bench import BenchWarning, VerdictSaid
from latlab.model.evidence.said import said
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.change_points import change_points
from latlab.stats.experiments import paired
from latlab.stats.experiments.order import without_order
from latlab.stats.quantiles import nearest_rank, quantile_name
from latlab.stats.variance import effective_size, midmean, midmean_error

__all__ = ["SHIFTED", "difference", "judge_pairs", "log_ratio", "measured", "turn_ratios"]

Pair = tuple[Sample, Sample]
SHIFTED = (0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
# A group of processes carries a quantile where this many of its effective values lie beyond it, and with
# fewer groups than these there is no interval.
_BEYOND, _FEWEST_GROUPS = 5, 7
DIFFERENT = (Ruling.FASTER, Ruling.SLOWER, Ruling.MIXED)
# Beyond this a difference is hardly that of a layout (Mytkowicz et al., ASPLOS 2009; here a map moved by a
# tenth at worst). Of a mean or a tail nothing like it is known, so that those are always doubted.
LAYOUT_REACH = 0.1
# Changes of which an inconclusive answer says how many pairs they take, where none was declared.
FINDABLE = (0.05, 0.02, 0.01)
# With as many iterations the fastest quarter of each of so many parts is more than one value.
FEWEST_UNDELAYED, _PARTS = 32, 4


def turn_ratios(a: Sample, b: Sample) -> npt.NDArray[np.float64]:
    """log(B / A) of each turn, where the two took turns; of the whole processes otherwise.

    Shape (turns,). A last turn that is shorter than the others is left out, unless there is no other.
    """
    length = a.turn if 0 < a.turn == b.turn <= min(len(a.times_ns), len(b.times_ns)) else 0
    if length == 0:
        return np.array([math.log(midmean(b.times_ns) / midmean(a.times_ns))])
    turns = min(len(a.times_ns), len(b.times_ns)) // length
    typical = []
    for sample in (a, b):
        ordered = np.sort(sample.times_ns[: turns * length].reshape(turns, length), axis=1)
        typical.append(ordered[:, length // 4 : length - length // 4].mean(axis=1))
    out: npt.NDArray[np.float64] = np.log(typical[1] / typical[0])
    return out


def log_ratio(a: Sample, b: Sample) -> float:
    """log(B / A) of the processes' typical times: the midmean over their turns, where they took turns."""
    return midmean(turn_ratios(a, b))


def difference(a: Sample, b: Sample, names: Sequence[str] = ("typical",)) -> paired.Difference:
    """A pair, summed up by its typical times and, with enough iterations, by those that nothing delayed.

    Of the first, the noise is the standard error of the midmean over turns (over iterations, where none were
    taken); of the second, that over four parts of each process. Exchanging the sides changes the
    signs of the log-ratios and leaves the noises as they are.

    Args:
        a: one process.
        b: the other.
        names: the measures that are wanted, of `names_of`.
    """
    others, first = others_of(a, b, names), (b.position > a.position) - (b.position < a.position)
    ratios = turn_ratios(a, b)
    typical, noise = midmean(ratios), midmean_error(ratios)
    if len(ratios) == 1:
        noise = math.hypot(*(_own_error(s.times_ns) for s in (a, b)))
    if min(len(a.times_ns), len(b.times_ns)) < FEWEST_UNDELAYED:
        return paired.Difference((typical,), (noise,), others, first)
    undelayed = math.log(_undelayed(b.times_ns) / _undelayed(a.times_ns))
    parts = [np.array_split(s.times_ns, _PARTS) for s in (a, b)]
    of_parts = [math.log(_undelayed(y) / _undelayed(x)) for x, y in zip(*parts, strict=True)]
    own = float(np.std(of_parts, ddof=1)) / math.sqrt(_PARTS)
    return paired.Difference((typical, undelayed), (noise, own), others, first)


def _undelayed(times: npt.NDArray[np.float64]) -> float:
    """The mean of the fastest quarter.

    What a machine adds to a time is never negative, so the fastest times are those that it disturbed least:
    Chen and Revels, "Robust benchmarking in noisy environments", IEEE HPEC 2016.
    """
    return float(np.sort(times)[: max(1, len(times) // 4)].mean())


def _own_error(times: npt.NDArray[np.float64]) -> float:
    """Standard error of the logarithm of a process's midmean, by its iterations."""
    logs = np.log(times)
    return midmean_error(logs) * math.sqrt(len(logs) / effective_size(logs))


def judge_pairs(
    pairs: Sequence[Pair],
    *,
    smallest_effect: float,
    smallest_effect_why: str,
    alpha: float,
    block_pairs: int = paired.BLOCK_PAIRS,
    refused: str | None = None,
    declared: bool = True,
    over: Sequence[str] = DECLARED,
    placement: float = 0.0,
    displaced: float = 1.0,
) -> Judgement:
    """Judge interleaved process pairs (A, B), in the order measured.

    Args:
        pairs: as measured in the order of `paired.interleaving`.
        smallest_effect: relative change that matters.
        smallest_effect_why: where it comes from.
        alpha: level.
        block_pairs: pairs of a block, which share a build.
        refused: why no verdict may be given, or None.
        declared: whether the user named the smallest effect.
        over: the measures that have to be equivalent.
        placement: as in `judge_measures`.
        displaced: as in `judge_measures`.
    """
    names = measured(pairs)
    differences = [difference(a, b, names) for a, b in pairs]
    if len({len(d.log_ratios) for d in differences}) > 1:  # imported or cut: processes of unlike length
        differences = [
            dataclasses.replace(d, log_ratios=d.log_ratios[:1], noises=d.noises[:1]) for d in differences
        ]
    judged = judge_measures(
        differences,
        names,
        smallest_effect=smallest_effect,
        declared=declared,
        alpha=alpha,
        block_pairs=block_pairs,
        final=True,
        pooled=pooled_mean(pairs),
        placement=placement,
        displaced=displaced,
    )
    result, decided_by = combined(judged, alpha=alpha, declared=over)
    warnings: list[str] = []
    details: dict[str, Any] = {}
    for index, side in enumerate("AB"):
        samples = [pair[index] for pair in pairs]
        details[side] = _look(samples)
        warnings += [said(BenchWarning.OF_SIDE, side=side, warning=w) for w in _warnings(details[side])]
    level = without_order(differences)
    details["layouts"] = _layouts(level)
    wanted = (smallest_effect,) if declared and smallest_effect > 0 else FINDABLE
    reach, needed = paired.findable(paired.arrays(level)[0], wanted, alpha=alpha, block_pairs=block_pairs)
    details["findable"] = {
        "effect": reach,
        "pairs": [{"effect": e, "pairs": n} for e, n in zip(wanted, needed, strict=True)],
    }
    small = abs(result.effect or 0.0) < LAYOUT_REACH or decided_by != "typical"
    if placement >= PLACEMENT and result.verdict in DIFFERENT and small:
        warnings.append(said(BenchWarning.ONE_BUILD))
    if displaced >= DISPLACED:
        warnings.append(said(BenchWarning.DISPLACED, ratio=displaced))
    counts = [sorted({pair[i].operations for pair in pairs}) for i in (0, 1)]
    if any(len(c) > 1 for c in counts):
        refused = refused or "a side's operation count changed from process to process"
    elif pairs and counts[0] != counts[1]:
        warnings.append(said(BenchWarning.OPERATIONS, a=counts[0][0], b=counts[1][0]))
    if refused is not None:
        result = PairedResult(
            Ruling.REFUSED, result.effect, result.interval, result.p_value, result.pairs,
            None, alpha, smallest_effect, refused,
        )  # fmt: skip
    typical = [
        float(np.median([midmean(pair[i].times_ns) for pair in pairs])) if pairs else math.nan for i in (0, 1)
    ]
    return Judgement(
        result,
        _shifts(pairs, alpha, block_pairs),
        smallest_effect_why,
        (typical[0], typical[1]),
        tuple(warnings),
        details,
        judged,
        decided_by,
    )


def _layouts(differences: Sequence[paired.Difference]) -> Mapping[str, Any]:
    """What a pair's ratio varies by beyond its own scatter: by its layout, and by what else a process draws.

    A verdict takes seven blocks that agree, so that no single layout carries one.
    """
    if len(differences) < _FEWEST_GROUPS:
        return {"deviation": None}
    logs = np.array([d.log_ratios[0] for d in differences])
    own = float(np.median([d.noises[0] for d in differences]))
    spread = paired.robust_deviation(logs)
    return {"deviation": math.sqrt(max(0.0, spread**2 - own**2))}


def measured(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """The measures that all pairs have."""
    each = [names_of(a, b) for a, b in pairs] or [("typical",)]
    return tuple(name for name in each[0] if all(name in names for names in each))


def _shifts(pairs: Sequence[Pair], alpha: float, block: int) -> tuple[Shift, ...]:
    """The shift of each quantile, from groups of pairs whose pooled iterations carry it.

    A group's ratio changes its sign with the coins of all its blocks at once, so that the same test holds for
    groups as for blocks.
    """
    effective = [min(effective_size(s.times_ns) for s in pair) for pair in pairs]
    mean = float(np.mean(effective)) if pairs else 0.0
    out = []
    for q in SHIFTED:
        name = quantile_name(q)
        needed = _BEYOND / min(q, 1 - q)
        size = block * math.ceil(needed / mean / block) if mean > 0 else 0
        groups = len(pairs) // size if size else 0
        if groups < _FEWEST_GROUPS:
            why = said(
                VerdictSaid.TOO_FEW_ITERATIONS, groups=_FEWEST_GROUPS, needed=needed, effective=sum(effective)
            )
            out.append(Shift(name, None, (None, None), why))
            continue
        ratios = []
        for at in range(0, groups * size, size):
            times = [np.concatenate([pair[i].times_ns for pair in pairs[at : at + size]]) for i in (0, 1)]
            ratios.append(math.log(nearest_rank(times[1], q) / nearest_rank(times[0], q)))
        result = paired.judge(ratios, smallest_effect=0.0, alpha=alpha, block_pairs=1)
        out.append(Shift(name, result.effect, result.interval))
    return tuple(out)


def _look(samples: Sequence[Sample]) -> Mapping[str, Any]:
    """What a reader of the verdict should know of one side."""
    if not samples:
        return {}
    typical = np.array([midmean(s.times_ns) for s in samples])
    longest = max(samples, key=lambda s: len(s.times_ns))
    relative = [s.times_ns / t for s, t in zip(samples, typical, strict=True)]
    count = min(map(len, relative))
    # The mean course of a process, over all of them: warm-up shows here, and single disturbances don't.
    course = np.median(np.vstack([r[:count] for r in relative]), axis=0)
    warm = (
        [p for p in change_points(course, alpha=0.01) if abs(p.after / p.before - 1) > 0.005]
        if count >= 10
        else []
    )
    drift = change_points(typical, alpha=0.01)
    return {
        "processes": len(samples),
        "iterations": int(sum(len(s.times_ns) for s in samples)),
        "process_typical_ns": [float(t) for t in typical],
        "effective_share": float(np.mean([effective_size(s.times_ns) / len(s.times_ns) for s in samples])),
        "warm_up_until": warm[0].index if warm and warm[0].index < count / 2 else 0,
        "drift_at_process": [p.index for p in drift],
        "humps": _humps(typical),
        "iteration_humps": iteration_humps(samples),
        "quantum_ns": longest.quantum_ns,
        "read_ns": longest.read_ns,
        "shortest_iteration_ns": float(
            min(float(s.times_ns.min()) * s.batch * s.operations for s in samples)
        ),
    }


def _humps(typical: np.ndarray[Any, np.dtype[np.float64]]) -> int:
    """Humps of the distribution over processes; 1 where too few to tell."""
    if len(typical) < 20:
        return 1
    from latlab.stats.shapes import humps

    return len(humps.find_humps(typical, alpha=0.01).humps)


def _warnings(look: Mapping[str, Any]) -> list[str]:
    out: list[str] = []
    if not look:
        return out
    if look["warm_up_until"]:
        out.append(said(BenchWarning.WARMING_UP, iteration=look["warm_up_until"]))
    if look["drift_at_process"]:
        processes = ", ".join(map(str, look["drift_at_process"][:3]))
        out.append(said(BenchWarning.DRIFT, processes=processes))
    if look["humps"] > 1:
        out.append(said(BenchWarning.GROUPS, groups=look["humps"]))
    if (look["iteration_humps"] or 1) > 1:
        out.append(said(BenchWarning.ITERATION_GROUPS, groups=look["iteration_humps"]))
    if look["quantum_ns"] and look["shortest_iteration_ns"] < 20 * look["quantum_ns"]:
        steps = {"iteration_ns": look["shortest_iteration_ns"], "step_ns": look["quantum_ns"]}
        out.append(said(BenchWarning.COARSE_CLOCK, **steps))
    return out
