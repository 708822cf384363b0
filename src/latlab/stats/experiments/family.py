"""Experiments of several comparisons at once: when each stops, and which differences stand among all.

Each comparison has an e-value against "both sides are the same": the capital of the bettors of `_betting`, by
Ville's inequality above 1/alpha with probability at most alpha however often one looks. Among m comparisons
those k with the largest e-values stand whose least is m / (alpha k) or more: e-BH, which keeps the expected
share of false discoveries at alpha under any dependence and any rule of stopping (Wang and Ramdas, "False
discovery rate control with e-values", JRSS B 84 (2022)). So the same values decide when a comparison stops
and what is said of it; one that would stand alone and not among all goes on. Which comparison is measured
next may depend on all that was seen, since the coins of the next pairs are fair whatever was: half of the
time goes to the one that is nearest to a finding, the other half to all in equal parts. Time and not blocks,
or those whose pairs take long would leave the quick ones a small part of what each has alone.

A pair may be summed up by further measures (its mean, its tail). Each has bettors of its own with a part of
the capital, so that a comparison's e-value is the greatest of the weighted ones (Bonferroni).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from latlab.model.statistics.paired import PairedResult, Ruling
from latlab.stats.experiments import betting as _betting
from latlab.stats.experiments import paired
from latlab.stats.experiments.order import OrderEffect
from latlab.stats.experiments.paired import Difference, Side

__all__ = ["Trial", "run", "standing_log_threshold"]

# Looking costs time that measuring could have had: after each sixteenth more blocks.
_LOOKS = 16


@dataclass
class Trial:
    """One comparison of a family.

    Attributes:
        measure: measures one pair in the given order; what it raises of `failures` ends this trial alone.
        judge: the judgement of all pairs so far; told whether the budget is over.
        smallest_effect: relative change that matters.
        seed: of the order.
        block_pairs: as in `paired.interleaving`.
        max_pairs: budget in pairs.
        early: whether to stop once the verdict is settled.
        seen: what was measured, the pairs of an interrupted run first.
        failed: what `measure` raised.
    """

    measure: Callable[[tuple[Side, Side]], Difference]
    judge: Callable[[Sequence[Difference], bool], PairedResult]
    smallest_effect: float
    seed: int
    block_pairs: int = paired.BLOCK_PAIRS
    max_pairs: int = 1_000_000
    early: bool = True
    seen: list[Difference] = field(default_factory=list)
    failed: Exception | None = None


class _Running:
    """A trial while it runs: its evidence, and whether it needs more."""

    def __init__(self, trial: Trial, alpha: float) -> None:
        self.trial, self.alpha = trial, alpha
        del trial.seen[len(trial.seen) // trial.block_pairs * trial.block_pairs :]
        self._order: Iterator[tuple[Side, Side]] = itertools.islice(
            paired.interleaving(trial.seed, block_pairs=trial.block_pairs), len(trial.seen), None
        )
        self._evidence: list[_betting.Evidence] = []
        self._order_effect = OrderEffect()
        self.log_e = -math.inf
        self.settled: Ruling | None = None
        self._look = 1
        for at in range(0, len(trial.seen), trial.block_pairs):
            self._learn(trial.seen[at : at + trial.block_pairs])
        if trial.seen:
            self._weigh()

    @property
    def exhausted(self) -> bool:
        return len(self.trial.seen) + self.trial.block_pairs > self.trial.max_pairs

    def block(self) -> bool:
        """Measure one more block; whether it is time for a look."""
        added = [self.trial.measure(next(self._order)) for _ in range(self.trial.block_pairs)]
        self.trial.seen += added
        self._learn(added)
        blocks = len(self.trial.seen) // self.trial.block_pairs
        if blocks >= self._look:
            self._look = blocks + max(1, blocks // _LOOKS)
            self._weigh()
            return True
        return False

    def look(self, threshold: float) -> None:
        """Decide whether the verdict is settled, where `threshold` is what an e-value has to reach."""
        self.settled = None
        if not self.trial.early or not self._evidence:
            return
        if self.log_e < threshold and not self._equivalent():
            return
        result = self.trial.judge(self.trial.seen, False)
        different = result.verdict not in (
            Ruling.EQUIVALENT,
            Ruling.INCONCLUSIVE,
            Ruling.REFUSED,
        )
        if (self.log_e >= threshold or not different) and paired.settled(result):
            self.settled = result.verdict

    def _learn(self, block: Sequence[Difference]) -> None:
        block = [self._order_effect.taken_out(pair) for pair in block]
        first = block[0]
        if not self._evidence:
            self._evidence = [_betting.Evidence(len(first.log_ratios), narrow=True)]
            self._evidence += [_betting.Evidence(1) for _ in first.others]
        self._evidence[0].add(np.array([d.log_ratios for d in block]), np.array([d.noises for d in block]))
        for index, evidence in enumerate(self._evidence[1:]):
            values = np.array([[d.others[index]] for d in block])
            evidence.add(values, np.zeros_like(values))

    def _weigh(self) -> None:
        shares = paired.measure_shares(len(self._evidence))
        self.log_e = max(
            math.log(share / 2) + max(_betting.capital(evidence, 0.0, way) for way in (1, -1))
            for share, evidence in zip(shares, self._evidence, strict=True)
        )

    def _equivalent(self) -> bool:
        """Whether the first measure is within the smallest effect; the judgement looks at the others."""
        threshold = math.log(2 / self.alpha)
        margin = math.log1p(self.trial.smallest_effect)
        return all(_betting.capital(self._evidence[0], -way * margin, way) >= threshold for way in (1, -1))


def standing_log_threshold(log_e_values: Sequence[float], alpha: float) -> float:
    """The logarithm of what an e-value has to reach to stand among all, by e-BH.

    Where none stands it is that of the next that might: m / alpha over one more than those that stand.
    """
    count = len(log_e_values)
    ordered = sorted(log_e_values, reverse=True)
    standing = 0
    for k, value in enumerate(ordered, 1):
        if value >= math.log(count / (alpha * k)):
            standing = k
    return math.log(count / (alpha * max(1, standing)))


def run(
    trials: Sequence[Trial],
    *,
    seconds: float,
    alpha: float = 0.05,
    failures: type[Exception] | tuple[type[Exception], ...] = (),
    told: Callable[[int, float], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> list[PairedResult | None]:
    """Measure and judge until all verdicts are settled or the budget is spent.

    Args:
        trials: the family.
        seconds: budget of all together; a block that has begun is finished, and each gets one.
        alpha: level of each equivalence, and the share of false discoveries among the differences.
        failures: exceptions that end one trial and leave the others.
        told: called after each block with the trial's index and the seconds that are left.
        clock: seconds, injected by tests.

    Returns:
        the judgement of each; None where it failed.
    """
    deadline = clock() + seconds
    running = [_Running(trial, alpha) for trial in trials]

    def threshold() -> float:
        return standing_log_threshold([r.log_e for r in running], alpha)

    for one in running:
        one.look(threshold())
    shares_s, nearest_s = [0.0] * len(trials), 0.0  # taken as equal parts by each, and by the nearest ones
    while True:
        now = threshold()
        wanting = [
            i
            for i, r in enumerate(running)
            if trials[i].failed is None
            and not r.exhausted
            and (r.settled is None or (r.settled is not Ruling.EQUIVALENT and r.log_e < now))
        ]
        unseen = [i for i in wanting if not trials[i].seen]
        if not wanting or (clock() >= deadline and not unseen):
            break
        nearest = not unseen and nearest_s < sum(shares_s)
        if nearest:
            index = max(wanting, key=lambda i: (running[i].log_e < now, running[i].log_e))
        else:
            index = unseen[0] if unseen else min(wanting, key=lambda i: shares_s[i])
        begin = clock()
        try:
            if running[index].block():
                running[index].look(threshold())
        except failures as error:
            trials[index].failed = error
            running[index].log_e = -math.inf  # and it counts among all nevertheless
            continue
        took_s = clock() - begin
        if nearest:
            nearest_s += took_s
        elif not unseen:
            shares_s[index] += took_s
        if told is not None:
            told(index, deadline - clock())
    return [None if t.failed is not None else t.judge(t.seen, True) for t in trials]
