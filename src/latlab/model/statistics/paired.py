"""What a paired experiment found: a verdict that never stands without its effect, interval and p-value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["PairedResult", "Ruling"]


class Ruling(StrEnum):
    """What may be said of B against A."""

    FASTER = "faster"
    SLOWER = "slower"
    MIXED = "mixed"  # slower by one measure, faster by another
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    REFUSED = "refused"


@dataclass(frozen=True)
class PairedResult:
    """A judgement of paired measurements; B relative to A, so a positive effect is a longer time.

    Attributes:
        verdict: one of the verdicts, or refused where the measurement can't carry any.
        effect: the estimated relative change of B's time (0.01 is 1 % longer); None where nothing can be
        said. interval: relative change, both ends of the confidence sequence at `1 - alpha`; an end is
        None where
            the pairs are too few to bound it.
        p_value: anytime-valid, two-sided, of "B takes as long as A"; it is at most `alpha` exactly where the
            interval excludes 0.
        pairs: pairs that were judged.
        needed_pairs: pairs in all that a verdict is expected to need (power 0.9); equals `pairs` once there
            is a verdict.
        alpha: the level.
        smallest_effect: the relative change below which two sides count as equivalent.
        why: one sentence.
    """

    verdict: Ruling
    effect: float | None
    interval: tuple[float | None, float | None]
    p_value: float
    pairs: int
    needed_pairs: int | None
    alpha: float
    smallest_effect: float
    why: str
