"""The paired-experiment engine: interleaved sides, a test that may be looked at after every pair, four
verdicts.

The two sides are measured in pairs, and pairs in blocks whose order is drawn by a fair coin: A B B A or
B A A B. The differences of a block are log-ratios of the measured times, so that effects are relative,
and what drifts linearly cancels within a block. Since the coin decides the sign of a block's difference,
identical sides give a fair game whatever the noise: heavy tails, drift and autocorrelation cost power,
but never raise the rate of false alarms above alpha, however often one looks (see `_betting`). The price
against a test with a fixed number of pairs is an interval about 1.7 times as wide. For sides that
differ, the interval is one for the shift of log-times and presumes their difference symmetric about it,
as Wilcoxon's signed-rank interval does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from latlab.model.evidence.said import said
from latlab.model.evidence.statistics import RulingSaid
from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments import betting as _betting

__all__ = [
    "BLOCK_PAIRS",
    "POWER",
    "Difference",
    "Side",
    "arrays",
    "fewest_blocks",
    "findable",
    "found_effect",
    "interleaving",
    "judge",
    "measure_shares",
    "needed_pairs",
    "robust_deviation",
    "settled",
]

Floats = npt.NDArray[np.float64]
Side = Literal["A", "B"]
BLOCK_PAIRS = 2
# What the mixture over stakes costs against the best single stake, in nats, by simulation (0.6 to 1.6
# for effects of 0.1 to 2 sigma).
_MIXTURE_COST = 1.5
POWER = 0.9
# Of the level, where a pair has several measures: what the typical time loses to the others is the logarithm
# of this, a twentieth of what a verdict takes.
FIRST_SHARE = 0.8
# What clipping and learning the scale cost, by simulation: blocks of normal differences found with the wanted
# power (0.8 and 0.9, levels of 0.05 and 0.01, effects of 0.2 to 3 deviations) against the bare growth of the
# capital.
_CLIPPING_COST, _LEARNING_BLOCKS = 1.22, 8
_FEWEST_BLOCKS = 7  # with every sign alike, log(2/0.05) is reached by then; see `_betting.STAKES`


@dataclass(frozen=True)
class Difference:
    """One pair, summed up in one or several ways.

    Attributes:
        log_ratios: log(time of B / time of A) by each statistic.
        noises: the standard error of each by the scatter inside of the pair; 0 where that is unknown.
        others: log-ratios of further measures of the pair (its mean, its tail), each judged by itself.
        first: 1 where A began, -1 where B did, 0 where that is unknown.
    """

    log_ratios: tuple[float, ...]
    noises: tuple[float, ...]
    others: tuple[float, ...] = ()
    first: int = 0


def interleaving(seed: int, *, block_pairs: int = BLOCK_PAIRS) -> Iterator[tuple[Side, Side]]:
    """The endless order of the two sides, pair by pair.

    Args:
        seed: fixes the coin.
        block_pairs: 2 or another even number for A B B A (drift cancels in each two pairs), 1 for a coin a
            pair, which halves the fewest pairs (14 against 7) where a run is expensive.
    """
    _check_block(block_pairs)
    coin = np.random.default_rng(seed)
    while True:
        first: tuple[Side, Side] = ("A", "B") if coin.integers(2) else ("B", "A")
        yield first
        if block_pairs > 1:
            yield first[1], first[0]


def needed_pairs(
    deviation: float,
    effect: float,
    *,
    alpha: float = 0.05,
    block_pairs: int = BLOCK_PAIRS,
    power: float = POWER,
) -> int | None:
    """Pairs by which the test tells an effect from 0 with the wanted power.

    The capital grows by about half the squared effect over the variance a block, against log(2/alpha) and
    the cost of not knowing the best stake.

    Args:
        deviation: standard deviation of a block's mean log-ratio.
        effect: log-ratio to be told from 0.
        alpha: level.
        block_pairs: as in `interleaving`.
        power: probability to find the effect.
    """
    if effect <= 0 or not math.isfinite(deviation):
        return None
    blocks = _CLIPPING_COST * (_reach(alpha, power) * deviation / effect) ** 2 + _LEARNING_BLOCKS
    return block_pairs * max(fewest_blocks(alpha), math.ceil(min(blocks, 1e9)))


def found_effect(deviation: float, blocks: int, *, alpha: float = 0.05, power: float = POWER) -> float | None:
    """The smallest log-ratio that this many blocks tell from 0 with that power; None if they are too few.

    Args:
        deviation: standard deviation of a block's mean log-ratio.
        blocks: measured.
        alpha: level.
        power: probability to find the effect.
    """
    if blocks < fewest_blocks(alpha):
        return None
    return _reach(alpha, power) * deviation * math.sqrt(_CLIPPING_COST / max(blocks - _LEARNING_BLOCKS, 2))


def findable(
    log_ratios: npt.ArrayLike,
    effects: Sequence[float],
    *,
    alpha: float = 0.05,
    block_pairs: int = BLOCK_PAIRS,
    power: float = POWER,
) -> tuple[float | None, tuple[int | None, ...]]:
    """(the smallest relative change that as many pairs as these find, pairs that it takes for each effect).

    Args:
        log_ratios: of the pairs that were measured, as in `judge`.
        effects: relative changes.
        alpha: level.
        block_pairs: as in `interleaving`.
        power: probability to find a change.
    """
    ratios = np.asarray(log_ratios, dtype=np.float64)
    count = len(ratios) // block_pairs
    if count < 3:
        return None, tuple(None for _ in effects)
    deviation = _deviation(ratios[: count * block_pairs].reshape(count, block_pairs, -1).mean(axis=1))
    found = found_effect(deviation, count, alpha=alpha, power=power)
    needed = (
        needed_pairs(deviation, math.log1p(e), alpha=alpha, block_pairs=block_pairs, power=power)
        for e in effects
    )
    return None if found is None else _rounded(math.expm1(found)), tuple(needed)


def fewest_blocks(alpha: float) -> int:
    """Blocks without which there is no verdict, however clear the difference."""
    goal = math.log(2 / alpha) + _MIXTURE_COST
    return max(_FEWEST_BLOCKS, math.ceil((goal - 0.4) / math.log(1.98)))


def _reach(alpha: float, power: float) -> float:
    return math.sqrt(2 * (math.log(2 / alpha) + _MIXTURE_COST)) + NormalDist().inv_cdf(power)


def judge(
    log_ratios: npt.ArrayLike,
    *,
    smallest_effect: float,
    alpha: float = 0.05,
    block_pairs: int = BLOCK_PAIRS,
    noises: npt.ArrayLike | None = None,
) -> PairedResult:
    """Judge paired measurements; may be called after every block, and the first verdict may be kept.

    Args:
        log_ratios: log(time of B / time of A) of each pair, in the order measured and made in the order that
            `interleaving` gave; shape (pairs,), or (pairs, statistics) where a pair is summed up in several
            ways, of which the first counts where they have no shift in common. A last half block is left out.
        smallest_effect: relative change that matters (0.01 is 1 %); 0 for "any".
        alpha: level of the test and of the interval.
        block_pairs: as in `interleaving`.
        noises: in the same shape, the standard error of each log-ratio by the scatter inside of its pair,
            which exchanging the sides must leave as it is: a pair much noisier than usual counts for less.
            0 or None: unknown.

    Raises:
        ValueError: a log-ratio isn't finite, or the level or effect makes no sense.
    """
    if not 0 < alpha < 1 or not smallest_effect >= 0:
        raise ValueError(
            f"the level must be between 0 and 1 and the effect at least 0: {alpha}, {smallest_effect}"
        )
    ratios = np.asarray(log_ratios, dtype=np.float64)
    ratios = ratios.reshape(len(ratios), -1 if ratios.size else 1)
    own = np.zeros_like(ratios) if noises is None else np.asarray(noises, dtype=np.float64)
    own = own.reshape(ratios.shape)
    if len(ratios) < block_pairs:
        return PairedResult(
            Ruling.INCONCLUSIVE, None, (None, None), 1.0, 0, block_pairs * _FEWEST_BLOCKS, alpha,
            smallest_effect, f"no whole block of {block_pairs} pairs was measured",
        )  # fmt: skip
    # All statistics, or the first alone where they have no shift in common.
    for count in (ratios.shape[1], 1):
        evidence = _evidence(ratios[:, :count], own[:, :count], block_pairs, narrow=True)
        low, high = _betting.confidence_sequence(evidence, alpha)
        if _crossed(low, high):  # the differences aren't symmetric: what their median is, says less
            evidence = _evidence(ratios[:, :count], own[:, :count], block_pairs)
            low, high = _betting.confidence_sequence(evidence, alpha)
        if not _crossed(low, high):
            break
    pairs = len(evidence) * block_pairs
    estimate = _betting.centre(evidence)
    best = max(_betting.capital(evidence, 0.0, way) for way in (1, -1))
    p_value = min(1.0, 2.0 * math.exp(-min(best, 700.0)))
    verdict = _verdict(low, high, smallest_effect)
    needed: int | None = pairs
    if verdict is Ruling.INCONCLUSIVE:
        blocks = ratios[:pairs].reshape(len(evidence), block_pairs, -1).mean(axis=1)
        needed = _goal(blocks, estimate, smallest_effect, alpha, block_pairs)
        if needed is not None and needed <= pairs:  # the projection was too bright: double
            needed = 2 * pairs
    return PairedResult(
        verdict=verdict,
        effect=_rounded(math.expm1(estimate)),
        interval=(_relative(low), _relative(high)),
        p_value=_rounded(p_value),
        pairs=pairs,
        needed_pairs=needed,
        alpha=alpha,
        smallest_effect=smallest_effect,
        why=_why(verdict, low, high, smallest_effect, pairs, needed),
    )


def _crossed(low: float | None, high: float | None) -> bool:
    """Whether the bettors have no shift in common."""
    return low is not None and high is not None and low > high


def _evidence(ratios: Floats, noises: Floats, block_pairs: int, *, narrow: bool = False) -> _betting.Evidence:
    """The means of whole blocks."""
    _check_block(block_pairs)
    if not np.isfinite(ratios).all():
        raise ValueError("a log-ratio is not a finite number: a time was zero, negative or missing")
    out = _betting.Evidence(ratios.shape[1], narrow=narrow)
    for at in range(0, len(ratios) // block_pairs * block_pairs, block_pairs):
        out.add(ratios[at : at + block_pairs], noises[at : at + block_pairs])
    return out


def robust_deviation(values: Floats) -> float:
    """The standard deviation of normal values with the same median distance from their median."""
    return _betting.SIGMA_PER_MAD * float(np.median(np.abs(values - np.median(values))))


def settled(result: PairedResult) -> bool:
    """Whether more pairs would hardly change the verdict.

    A difference that is proved, but may yet turn out too small to matter, is worth more pairs; at the end of
    the budget it counts as found.
    """
    if result.verdict is Ruling.INCONCLUSIVE or result.effect is None:
        return False
    if result.verdict is Ruling.EQUIVALENT:
        return True
    return abs(math.log1p(result.effect)) >= math.log1p(result.smallest_effect)


def measure_shares(measures: int) -> tuple[float, ...]:
    """The part of the level that each of several measures of one pair has; most of it the first."""
    if measures == 1:
        return (1.0,)
    return (FIRST_SHARE, *[(1 - FIRST_SHARE) / (measures - 1)] * (measures - 1))


def arrays(differences: Sequence[Difference]) -> tuple[Floats, Floats]:
    """(log-ratios, noises) of the first measure, each of shape (pairs, statistics)."""
    return np.array([d.log_ratios for d in differences]), np.array([d.noises for d in differences])


def _check_block(pairs: int) -> None:
    if pairs != 1 and (pairs < 2 or pairs % 2):
        raise ValueError(f"a block has 1 pair or an even number of them, not {pairs}")


def _verdict(low: float | None, high: float | None, smallest_effect: float) -> Ruling:
    margin = math.log1p(smallest_effect)
    if low is not None and high is not None and -margin < low and high < margin:
        return Ruling.EQUIVALENT
    if low is not None and low > 0:
        return Ruling.SLOWER
    if high is not None and high < 0:
        return Ruling.FASTER
    return Ruling.INCONCLUSIVE


def _deviation(blocks: Floats) -> float:
    """Of blocks' means, by the statistic that scatters least: the bettors' best."""
    apart = np.abs(blocks - np.median(blocks, axis=0))
    return _betting.SIGMA_PER_MAD * float(np.median(apart, axis=0).min())


def _goal(
    blocks: Floats, estimate: float, smallest_effect: float, alpha: float, block_pairs: int
) -> int | None:
    """Pairs in all for the nearest verdict: away from 0, or inside the margin."""
    if len(blocks) < 3:
        return block_pairs * _FEWEST_BLOCKS
    deviation = _deviation(blocks)
    margin = math.log1p(smallest_effect)
    distance = max(abs(estimate), margin - abs(estimate), margin / 2)
    return needed_pairs(deviation, distance, alpha=alpha, block_pairs=block_pairs)


def _why(
    verdict: Ruling,
    low: float | None,
    high: float | None,
    smallest_effect: float,
    pairs: int,
    needed: int | None,
) -> str:
    if verdict is Ruling.EQUIVALENT:
        return said(RulingSaid.WITHIN, margin=smallest_effect)
    if verdict in (Ruling.SLOWER, Ruling.FASTER):
        sign = 1 if verdict is Ruling.SLOWER else -1
        near = low if sign > 0 else high
        sure = near is not None and sign * near >= math.log1p(smallest_effect)
        return (
            said(RulingSaid.EXCLUDES_0) if sure else said(RulingSaid.EXCLUDES_0_ONLY, margin=smallest_effect)
        )
    if needed is None:
        return said(RulingSaid.NO_MARGIN, pairs=pairs)
    return said(RulingSaid.MORE_PAIRS, pairs=pairs, more=needed - pairs)


def _relative(log_ratio: float | None) -> float | None:
    return None if log_ratio is None else _rounded(math.expm1(log_ratio))


def _rounded(value: float) -> float:
    # Twelve digits: the last bits of a logarithm differ between vector units, and no reader needs them.
    return float(f"{value:.12g}")
