"""What limits: the stage with the longest service time per event of the pipeline, if one stands out.

A stage's mean service time is the ratio of two sums, the time that it was busy and the events that it took,
so that its error is that of a ratio estimator (Cochran, "Sampling Techniques", 3rd ed. 1977, ch. 6): the
residuals busy - ratio * events of blocks of the run. They hold the variation of the service alone: what a
stage did not get to do in one block since another was slow, it does not count in either sum.

The stages' ratios are drawn anew, normally with those errors; the share of draws in which a stage is the
slowest is the confidence that it limits. Whether it is named is decided against the opposite: if all stages
that come near were equally slow, how often would the first of them lead by so much? (One of many leads by
chance less often than one of two, since the second of many is lucky too.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["BLOCKS", "LOADED", "Ranking", "rank"]

Floats = NDArray[np.float64]

BLOCKS = 48
# Below this share of the time nothing limits: at 80 % of its capacity an M/M/1 stage holds an event up for 4
# service times, at 70 % for 2.3.
LOADED = 0.8
_DRAWS = 4000
# A stage is named where equal stages would lead so in one run of 200 (by errors that are estimated: of 1,200
# simulated lines of equal stages, about one in a hundred was named). A short run can't tell 5 % from that;
# there a stage is named as soon as one that is 5 % slower would lead by less in three runs of a hundred only,
# and it is rather it than another. The confidence is low then, and says so.
_BY_CHANCE = 0.005
_SOUGHT = 0.05
_MISSED = 0.03
_RATHER = 0.4
_SELDOM = 0.05  # equal stages that would lead so more often are not told apart, however short the run
_LEAST = 0.005  # a lead below this is not worth naming, however sure
_NEAR = 0.15  # stages so much faster than the first can't be as slow as it


@dataclass(frozen=True)
class Ranking:
    """The stages by how busy they are.

    Attributes:
        order: stages, the busiest first.
        busy: share of the time that each would be busy at the rate of the whole.
        confidence: how sure it is that the first of `order` is the slowest: its share of the draws.
        idle: how sure it is that none is busy for so long that it limits: the share of draws below `LOADED`.
        lead: of the first over the second, as a share of the second.
        by_chance: how often equally slow stages would lead so.
        named: the index of the stage that limits, or None.
        reason: why there is none: "none" or "cannot tell"; "" where there is one.
        close: the first leads by less than what the stages' times may be wrong by.
    """

    order: tuple[int, ...]
    busy: Floats
    confidence: float
    idle: float
    lead: float
    by_chance: float
    named: int | None
    reason: str
    close: bool = False


def rank(
    busy: Floats,
    per: Floats,
    *,
    loaded: bool,
    strict: bool = False,
    error: Floats | None = None,
    seed: int = 1,
) -> Ranking:
    """Name the stage that limits.

    Args:
        busy: shape (stages, blocks): seconds busy.
        per: shape (stages, blocks): what a stage's busy time is held against, in seconds: the time observed,
            or the events that it took at the pipeline's rate.
        loaded: whether anything is busy enough to limit at all.
        strict: name only where equal stages would hardly lead so, however short the run is.
        error: shape (stages,): the part of each stage's busy time that may be no work of its own, however
            long the run is: the first has to lead by more than that.
        seed: of the draws.
    """
    totals = np.maximum(per.sum(axis=1), 1e-12)  # a stage that took nothing was not busy either
    shares = busy.sum(axis=1) / totals
    order = tuple(int(i) for i in np.argsort(-shares, kind="stable"))
    first = order[0]
    residuals = _joined(busy - shares[:, None] * per)
    blocks = residuals.shape[1]
    errors = residuals / totals[:, None] * np.sqrt(blocks / max(1, blocks - 1))
    # Normal draws with the errors' covariance, without forming it: sums of the blocks with random weights.
    weights = np.random.default_rng(seed).standard_normal((blocks, _DRAWS))
    noise = errors @ weights
    drawn = shares[:, None] + noise
    confidence = float((drawn.argmax(axis=0) == first).mean())
    idle = float((drawn.max(axis=0) < LOADED).mean())
    lead, by_chance, stands_out, close = 1.0, 0.0, True, False
    if len(order) > 1 and shares[order[1]] > 0:
        gap = shares[first] - shares[order[1]]
        lead = float(gap / shares[order[1]])
        near = shares >= (1 - _NEAR) * shares[first]
        near[list(order[:2])] = True
        highest = np.partition(noise[near], -2, axis=0)[-2:]
        by_chance = float((highest[1] - highest[0] >= gap).mean())
        near[first] = False
        ahead = _SOUGHT * shares[first] + noise[first] - noise[near].max(axis=0)
        enough = gap >= np.quantile(ahead, _MISSED) and confidence >= _RATHER
        enough = enough and by_chance <= _SELDOM and not strict
        stands_out = lead >= _LEAST and (by_chance <= _BY_CHANCE or bool(enough))
        if error is not None:
            rivals = shares * (1 + error)
            rivals[first] = 0.0
            close = bool(shares[first] * (1 - error[first]) < rivals.max())
    found = (order, shares, confidence, idle, lead, by_chance)
    if not loaded:
        return Ranking(*found, None, "none")
    if not stands_out or close:
        return Ranking(*found, None, "cannot tell", close)
    return Ranking(*found, first, "")


def _joined(blocks: Floats) -> Floats:
    """Neighbouring blocks added up until there are about `BLOCKS`: what hangs together stays together."""
    count = blocks.shape[1]
    if count < 2 * BLOCKS:
        return blocks
    cuts = np.linspace(0, count, BLOCKS + 1).astype(int)[:-1]
    joined: Floats = np.add.reduceat(blocks, cuts, axis=1)
    return joined
