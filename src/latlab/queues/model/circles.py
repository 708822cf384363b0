"""Circles: how many events go round in each. There are never more or fewer of them than at the beginning."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from latlab.queues.judge.lines import in_circles
from latlab.queues.judge.measures.series import Series
from latlab.queues.judge.measures.stages import StageView

__all__ = ["events_in_circles"]

_MOSTLY = 0.5  # of the time at work: then who does not say what it has in hand has an event


def events_in_circles(
    views: Sequence[StageView],
    busy: NDArray[np.float64],
    series: Series,
    ends: Sequence[tuple[str, str]],
) -> dict[int, int]:
    """By row of the series, of the queues that are part of a circle: the events to begin with.

    What queues hold and stages have in hand is counted in passing, at the look that shows as many events in
    all as the median one. What a stage has in hand waits in front of it instead.

    Args:
        busy: shape (stages, blocks): as `Measured` has it.
        ends: of each queue, the nodes that fill and drain it.
    """
    rows = in_circles(ends)
    if not rows:
        return {}
    share = busy.sum(axis=1) / max(float(series.seconds), 1e-12)
    hands: dict[int, NDArray[np.int64]] = {}  # by view
    for i, view in enumerate(views):
        if set(view.inputs) & rows or set(view.pools) & rows:
            some = np.full(series.low.shape[1], int(share[i] >= _MOSTLY), np.int64)
            hands[i] = some if view.held is None else np.maximum(view.held, 0)
    counted = sorted(rows)
    total = series.low[counted].sum(axis=0) + sum(hands.values())
    at = int(np.argmin(np.abs(total - np.median(total))))
    found = {row: int(series.low[row, at]) for row in counted}
    for i, hand in hands.items():
        for row in (set(views[i].inputs) | set(views[i].pools)) & rows:
            found[row] += int(hand[at])
    return found
