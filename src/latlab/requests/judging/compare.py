"""Two versions of a server by recordings in pairs, quantile by quantile, with the judge of bench. Pure.

What one pair of recordings shows holds for these two: another pair of the same server may differ by more.
So a verdict takes as many pairs as the judge needs; before that the changes are told, and no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from latlab.model.evidence.requests import VersionsSaid
from latlab.model.evidence.said import said
from latlab.model.requests import QuantileChange, Requests, RequestsComparison
from latlab.model.statistics.paired import Ruling
from latlab.stats.experiments.paired import fewest_blocks, judge

__all__ = ["compare"]

_QUANTILES = {"p50": "p50_ns", "p99": "p99_ns", "p99.9": "p999_ns"}
_ALPHA = 0.05


def compare(pairs: Sequence[tuple[Requests, Requests]], smallest_effect: float = 0.05) -> RequestsComparison:
    """Judge the second of each pair against the first.

    Args:
        pairs: at least one, each of recordings with requests.
        smallest_effect: relative change that matters.
    """
    level = _ALPHA / len(_QUANTILES)  # Bonferroni: any one quantile may tell
    needed = fewest_blocks(level)
    changes = tuple(_change(name, field, pairs, smallest_effect, level) for name, field in _QUANTILES.items())
    if len(pairs) < needed:
        changes = tuple(
            replace(
                one, verdict=Ruling.INCONCLUSIVE.value, low=None, high=None,
                why=said(VersionsSaid.FEW_PAIRS, pairs=len(pairs), needed=needed),
            )
            for one in changes
        )  # fmt: skip
    return RequestsComparison(_whole({one.verdict for one in changes}), len(pairs), needed, changes)


def _whole(verdicts: set[str]) -> str:
    if {Ruling.SLOWER, Ruling.FASTER} <= verdicts:
        return Ruling.MIXED.value
    for one in (Ruling.SLOWER, Ruling.FASTER, Ruling.INCONCLUSIVE):
        if one in verdicts:
            return one.value
    return Ruling.EQUIVALENT.value


def _change(
    name: str, field: str, pairs: Sequence[tuple[Requests, Requests]], smallest_effect: float, level: float
) -> QuantileChange:
    before, after = (sorted(getattr(pair[side], field) for pair in pairs) for side in (0, 1))
    middle = (len(pairs) - 1) // 2
    bounded = any(field in one.at_least for pair in pairs for one in pair)
    ratios = [math.log(max(1, getattr(b, field)) / max(1, getattr(a, field))) for a, b in pairs]
    found = judge(ratios, smallest_effect=smallest_effect, alpha=level, block_pairs=1)
    effect = found.effect if found.effect is not None else math.expm1(ratios[0])
    if bounded:
        why = said(VersionsSaid.LOWER_BOUND)
        return QuantileChange(
            name, before[middle], after[middle], effect, None, None, Ruling.INCONCLUSIVE.value, why
        )
    return QuantileChange(
        name, before[middle], after[middle], effect, *found.interval, found.verdict.value, found.why
    )
