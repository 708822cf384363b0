"""Pools of connections or buffers: empty is their critical state.

A stage whose own threads take objects and give them back works while it holds one. It waits for the pool
where it has more events in hand than objects: those wait for an object that another thread holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latlab.queues.judge.measures.series import Series
from latlab.queues.judge.measures.stages import StageView

__all__ = ["PoolWait", "pool_waits"]


@dataclass(frozen=True)
class PoolWait:
    """How a stage waits for a pool.

    Attributes:
        row: of the pool.
        empty: share of the time that it had no object.
        waiting: events in hand that waited for one, on average; None where the counts do not tell.
        wait_ns: mean time that an event waited; None where unknown.
        own: the stage itself gives the objects back.
    """

    row: int
    empty: float
    waiting: float | None
    wait_ns: float | None
    own: bool


def pool_waits(view: StageView, series: Series) -> list[PoolWait]:
    """One for each pool that a stage takes from."""
    found = []
    seconds = max(series.seconds, 1e-12)
    for row in view.pools:
        fill, queue = series.low[row], series.queues[row]
        empty = float(series.weights[fill == 0].sum() / seconds)
        own = queue.source == queue.drain
        waiting, wait_ns = None, None
        if own and view.held is not None:
            used = np.maximum(queue.capacity, fill.max(initial=0)) - fill
            waiting = float((np.maximum(view.held - used, 0) * series.weights).sum() / seconds)
            taken = int((series.out[list(view.inputs), -1] - series.out[list(view.inputs), 0]).sum())
            wait_ns = waiting * seconds / taken * 1e9 if taken else None
        found.append(PoolWait(row, empty, waiting, wait_ns, own))
    return found
