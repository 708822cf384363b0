"""Judges two sets of results that were measured apart, and a history of them.

What was not interleaved can't be told from a drift of the machine, so this is the weaker comparison, and
says so. The
replicate is the process. The test is that of Mann and Whitney (1947) on the processes' typical times, the
interval its
inversion (Hodges and Lehmann 1963; Bauer, JASA 67 (1972)), both widened by the effective number of
processes in
place of their number. Where each side is one process, its iterations say nothing about the next process: a
standard deviation of 2 % between processes is assumed then (Mytkowicz et al., "Producing wrong data without
doing anything obviously wrong!", ASPLOS 2009, found more).

What is between two runs stands in neither of them, so that a standard deviation of 2 % between runs is
assumed too. Several runs of the same code (a baseline file keeps them) tell it: the assumption then counts
as so many runs as `_PRIOR_RUNS` beside theirs, and the normal quantile becomes Student's. A smaller
difference is answered by the command that would tell it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from latlab.bench.results.advice import Advice, of_files
from latlab.bench.results.imports import Results
from latlab.model.bench import Judgement
from latlab.model.evidence.bench import BenchWarning, VerdictSaid
from latlab.model.evidence.said import said
from latlab.model.evidence.statistics import RulingSaid
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.distributions import normal_cdf, normal_quantile, student_quantile
from latlab.stats.variance import autocorrelation, effective_size, midmean
from latlab.words import relative

__all__ = [
    "ASSUMED_DEVIATION",
    "Between",
    "between_runs",
    "compare_results",
    "environment_differences",
    "judge_unpaired",
]

Floats = npt.NDArray[np.float64]
ASSUMED_DEVIATION = 0.02
# Of a run, beyond what its processes show: the machine's speed, its neighbours, its memory. Shared machines
# shift by 1 % within minutes, and nothing in a single run tells of it.
RUN_DEVIATION = 0.02
DEFAULT_EFFECT = 0.01
_PRIOR_RUNS = 4
FEWEST = 4  # processes a side: with fewer, no p-value of Mann and Whitney's test is below 0.05
_POWER = 0.8416  # quantile of the normal distribution at 0.8
_IGNORED = (
    "captured_at",
    "host.uptime",
    "load",
    "git",
    "process",
    "latlab",
    "command",
    "clock.rate",
    "memory",
)


@dataclass(frozen=True)
class Between:
    """What lies between two runs.

    Attributes:
        deviation: standard deviation of the logarithm of one run's typical time, beyond its processes.
        freedom: degrees of freedom that it has; infinite for an assumption.
        runs: of side A, that its level is the mean of.
    """

    deviation: float = RUN_DEVIATION
    freedom: float = math.inf
    runs: int = 1

    def reach(self, alpha: float) -> float:
        """How far two runs of the same code may lie apart."""
        t = -student_quantile(self.freedom, alpha / 2)
        return t * self.deviation * math.sqrt(1 + 1 / self.runs)


def between_runs(levels: Sequence[float]) -> Between:
    """What lies between runs of the same code, from each one's typical time.

    Args:
        levels: of each run, in nanoseconds.
    """
    if len(levels) < 2:
        return Between()
    own = float(np.var(np.log(levels), ddof=1))
    freedom = len(levels) - 1
    total = _PRIOR_RUNS + freedom
    deviation = math.sqrt((_PRIOR_RUNS * RUN_DEVIATION**2 + freedom * own) / total)
    return Between(deviation, total, len(levels))


def judge_unpaired(
    a: Sequence[Floats],
    b: Sequence[Floats],
    *,
    smallest_effect: float,
    alpha: float,
    between: Between | None = None,
    advice: str | None = None,
) -> tuple[PairedResult, tuple[float, float], list[str]]:
    """Judge B against A from their processes' times.

    Args:
        a: times of each process, in nanoseconds.
        b: the same of the other side.
        smallest_effect: relative.
        alpha: level.
        between: what lies between runs; by default it is assumed.
        advice: what to do where this can't be told.

    Returns:
        (result, whose pairs are processes a side; typical times; warnings).
    """
    between, advice = between or Between(), advice or said(VerdictSaid.BOTH_SIDES)
    z = normal_quantile(1 - alpha / 2)
    single = len(a) == 1 or len(b) == 1
    sides = [np.concatenate(list(s)) if single else np.array([midmean(g) for g in s]) for s in (a, b)]
    x, y = (np.log(s) for s in sides)
    typical = (float(np.exp(np.median(x))), float(np.exp(np.median(y))))
    warnings: list[str] = []
    # Of several runs, what makes neighbours alike lies between runs, and is counted there.
    sizes = [
        float(len(s)) if index == 0 and between.runs > 1 else max(1.0, effective_size(s))
        for index, s in enumerate((x, y))
    ]
    inflation = max(len(x) / sizes[0], len(y) / sizes[1])
    if inflation > 1.5 and any(_neighbours_agree(s) for s in (x, y)):
        warnings.append(said(BenchWarning.CORRELATED, inflation=inflation))
    # Long series are thinned: a million differences tell no more than what they are drawn from.
    x, y = (s[:: max(1, len(s) // 1000)] for s in (x, y))
    n, m = len(x), len(y)
    inflation = max(inflation / max(1, len(sides[0]) // n), 1.0)
    shifts = np.sort(np.subtract.outer(y, x).ravel())
    effect = float(np.median(shifts))
    spread = math.sqrt(inflation * n * m * (n + m + 1) / 12)
    rank = math.floor(n * m / 2 - z * spread)
    open_ended = min(n, m) < FEWEST
    low, high, p_value = -math.inf, math.inf, 1.0
    if not open_ended:
        # No rank is so far out where few processes count as still fewer: then the whole range of the shifts,
        # widened as a normal distribution's.
        wider = max(1.0, z * spread / (n * m / 2 - 1))
        rank = max(1, rank)
        low = effect - wider * (effect - float(shifts[rank - 1]))
        high = effect + wider * (float(shifts[n * m - rank]) - effect)
    runs = between.reach(alpha)
    if single:
        warnings.append(said(BenchWarning.ONE_PROCESS, deviation=ASSUMED_DEVIATION))
        low, high = (effect, effect) if open_ended else (low, high)
        runs = math.hypot(runs, z * math.sqrt(2) * ASSUMED_DEVIATION)
    if single or not open_ended:
        below, beyond = (math.hypot(side, runs) for side in (effect - low, high - effect))
        alone = low > 0 or high < 0
        low, high = effect - below, effect + beyond
        p_value = 2 * normal_cdf(-z * abs(effect) / (below if effect > 0 else beyond))
        if not single and alone and low <= 0 <= high:
            differ = {"effect": math.expm1(effect), "deviation": between.deviation}
            if between.runs == 1:
                warnings.append(said(BenchWarning.BETWEEN_ASSUMED, **differ))
            else:
                warnings.append(said(BenchWarning.BETWEEN_SEEN, runs=between.runs, **differ))
    margin = math.log1p(smallest_effect)
    why: str
    if low > -margin and high < margin:
        verdict, why = Ruling.EQUIVALENT, said(VerdictSaid.WITHIN, margin=smallest_effect)
    elif low > 0 or high < 0:
        verdict, why = (Ruling.SLOWER if low > 0 else Ruling.FASTER), said(RulingSaid.EXCLUDES_0)
    else:
        verdict, why = Ruling.INCONCLUSIVE, advice
        if min(n, m) < FEWEST and not single:
            taken = math.expm1(effect)
            few = {"processes": min(n, m), "enough": FEWEST, "effect": taken}
            why = said(VerdictSaid.TOO_FEW, advice=advice, **few)
    processes = min(len(a), len(b))
    needed: int | None = processes
    if verdict is Ruling.INCONCLUSIVE:
        deviation = ASSUMED_DEVIATION if single else 1.4826 * float(np.mean([_mad(x), _mad(y)]))
        goal = max(abs(effect), margin - abs(effect), margin / 2)
        wanted = 2 * inflation * ((z + _POWER) * deviation / goal) ** 2 if goal > 0 else math.inf
        needed = None if not math.isfinite(wanted) else max(FEWEST + 1, processes + 1, math.ceil(wanted))
    ends = tuple(None if not math.isfinite(v) else float(f"{math.expm1(v):.12g}") for v in (low, high))
    result = PairedResult(
        verdict, float(f"{math.expm1(effect):.12g}"), (ends[0], ends[1]), float(f"{min(1.0, p_value):.12g}"),
        processes, needed, alpha, smallest_effect, why,
    )  # fmt: skip
    return result, typical, warnings


def compare_results(
    a: Results,
    b: Results,
    *,
    smallest_effect: float | None,
    alpha: float,
    runs: Mapping[str, Sequence[float]] | None = None,
    advice: Advice | None = None,
) -> dict[str, Judgement]:
    """Judge all benchmarks that two files have in common; a lone one in each is compared whatever its name.

    Args:
        a: the side that is compared with.
        b: the side that is judged.
        smallest_effect: relative; None for the default.
        alpha: level.
        runs: by benchmark the typical times of side A's runs, where it has several.
        advice: what to do where a difference can't be told; by default that of two files.

    Returns:
        a judgement by name; empty where the files have nothing in common.
    """
    names = [(name, name) for name in a.tests if name in b.tests]
    if a is b and len(a.tests) == 2:  # one file of two commands: the second against the first
        one, other = a.tests
        names = [(one, other)]
    elif not names and len(a.tests) == len(b.tests) == 1:
        names = [(next(iter(a.tests)), next(iter(b.tests)))]
    effect = DEFAULT_EFFECT if smallest_effect is None else smallest_effect
    why = f"{relative(effect)}, " + (
        "as declared" if smallest_effect is not None else "the default of bench compare"
    )
    advice = advice or of_files(a, b)
    differences = environment_differences(a.environment, b.environment)
    out = {}
    for one, other in names:
        result, typical, warnings = judge_unpaired(
            a.tests[one],
            b.tests[other],
            smallest_effect=effect,
            alpha=alpha,
            between=between_runs((runs or {}).get(one, ())),
            advice=advice(one, other),
        )
        warnings.append(said(BenchWarning.APART))
        if differences:
            warnings.insert(0, said(BenchWarning.ENVIRONMENTS, differences="; ".join(differences[:4])))
        out[one if one == other else f"{one} / {other}"] = Judgement(
            result, (), why, typical, tuple(warnings)
        )
    return out


def environment_differences(a: Mapping[str, str], b: Mapping[str, str]) -> list[str]:
    """Facts that two environments state differently and that matter for times."""
    return [
        f"{key} was {a[key]}, is {b[key]}"
        for key in a
        if key in b and a[key] != b[key] and not key.startswith(_IGNORED)
    ]


def _neighbours_agree(x: Floats) -> bool:
    """Whether neighbours are alike by more than chance, whose deviation is 1 / sqrt(n)."""
    return len(x) > 2 and float(autocorrelation(x)[1]) * math.sqrt(len(x)) > 2.0


def _mad(x: Floats) -> float:
    return float(np.median(np.abs(x - np.median(x))))
