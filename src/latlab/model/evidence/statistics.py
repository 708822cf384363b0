"""What a statistical judgement says of its ruling."""

from __future__ import annotations

from latlab.model.evidence.said import Kind

__all__ = ["GrowthSaid", "RulingSaid"]


class RulingSaid(Kind):
    """Why a paired experiment is ruled so; `margin` is the smallest effect that matters."""

    WITHIN = "the interval is within the smallest effect that matters, {margin:share2}"
    EXCLUDES_0 = "the interval excludes 0"
    EXCLUDES_0_ONLY = (
        "the interval excludes 0, but not that the change is smaller than the smallest that matters, "
        "{margin:share2}"
    )
    NO_MARGIN = "the interval contains 0 after {pairs} pairs, and no smallest effect was declared to stop at"
    MORE_PAIRS = (
        "the interval contains 0 and a change that matters after {pairs} pairs; run {more} more pairs"
    )


class GrowthSaid(Kind):
    """Why times are said to grow by a law, or by none."""

    TOO_FEW = "it takes {sizes} sizes or more, the largest {span:count} times the smallest"
    NONE_FITS = "no law fits: the best is off by {off:share0}"
    ONE_FITS = "every other law fits at least twice as badly"
    SEVERAL_FIT = "measure larger sizes, or longer"
