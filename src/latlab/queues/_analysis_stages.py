"""How busy each stage is, from the counts of the queues around it.

The rule that this begins with: a stage that has an event and room for its result works, so that the slowest
stage is the one with the highest P(input non-empty and output not full). Two things spoil it, and are mended
here; on simulated tandem lines (`benchmarks/queues_bottleneck.py`) the rule alone names the planted stage
in 60 to 300 of 300 cases, depending on capacity and variation, and the mended one in 298 to 300 wherever
the counts carry the answer.

* An event that is being served may have left the queue already. Then an empty queue does not mean an idle
  stage. Where a stage passes on every event, the counts of its two sides tell how many it holds:
  out(input) - in(output). Where it does not, the share of serving among the time in which the input is empty
  is extrapolated from the fill's distribution.
* A full output does not mean a blocked stage: it may still be serving the next event. The share of blocking
  among the time in which the output is full is extrapolated likewise.

The extrapolation takes the fill for a birth-and-death process near its ends, where neighbouring states have a
constant ratio (Kleinrock, "Queueing Systems" I, 1975, sec. 3.2): with p₀ the observed share of the end state,
which lumps two states of ratio r together, and p₁ that of its neighbour, r + r² = p₀/p₁.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues import Observation, QueueKind
from latlab.queues._analysis_series import Series, is_limited

__all__ = ["StageView", "busy_share", "stage_views"]

Floats = NDArray[np.float64]
# A stage that passes on all events holds few of them at a time: above this it is no one-to-one stage.
_MOST_HELD = 64


@dataclass(frozen=True)
class StageView:
    """A stage and the rows of a `Series` around it.

    Attributes:
        label: its name.
        type: its type, where one is known.
        inputs: rows of the queues that it drains.
        outputs: rows of the queues that it fills.
        pools: rows of the pools that it takes objects from.
        held: shape (sweeps,): events that are in it, where each that comes in goes out; else None.
    """

    label: str
    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    pools: tuple[int, ...] = ()
    held: NDArray[np.int64] | None = None


def stage_views(observation: Observation, series: Series) -> list[StageView]:
    """Every stage that drains at least one sampled queue, in the order of the flow as far as there is one."""
    types = {stage.label: stage.type for stage in observation.stages}
    inputs: dict[str, list[int]] = {}
    outputs: dict[str, list[int]] = {}
    pools: dict[str, list[int]] = {}
    for row, queue in enumerate(series.queues):
        if queue.kind is QueueKind.POOL:
            if queue.drain:
                pools.setdefault(queue.drain, []).append(row)
            continue
        if queue.drain:
            inputs.setdefault(queue.drain, []).append(row)
            types.setdefault(queue.drain, queue.drain_type)
        if queue.source:
            outputs.setdefault(queue.source, []).append(row)
    views = []
    for label in _in_order(inputs, outputs, series):
        ins, outs = inputs[label], outputs.get(label, [])
        views.append(
            StageView(
                label,
                types.get(label, ""),
                tuple(ins),
                tuple(outs),
                tuple(pools.get(label, pools.get(types.get(label, ""), []))),
                _held(series, ins, outs),
            )
        )
    return views


def holds_while_serving(views: list[StageView]) -> bool | None:
    """Whether events stay in the queue while they are served: what the one-to-one stages show; None:
    unknown.
    """
    shares = [float((view.held > 0).mean()) for view in views if view.held is not None]
    return None if not shares else max(shares) < 0.02


def busy_share(
    view: StageView, series: Series, *, holds: bool | None
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The shares of time of a stage.

    Args:
        holds: from `holds_while_serving`.

    Returns:
        (ready, starved, blocked, occupied, busy): per sweep, from 0 to 1. Ready, starved and blocked are
        the plain rule; occupied is the time with an event in hand, and busy the part of it without
        blocking, both mended.
    """
    fill = series.low
    work = np.zeros(fill.shape[1], np.bool_)
    for row in view.inputs:
        work |= fill[row] >= 1
    full = np.zeros(fill.shape[1], np.bool_)
    share = np.zeros(fill.shape[1])
    for row in view.outputs:
        if not is_limited(series.queues[row]):
            continue
        at_end = fill[row] >= series.queues[row].capacity
        full |= at_end
        share = np.maximum(share, at_end * _end_share(series, row, series.queues[row].capacity, -1))
    for row in view.pools:
        # Without an object of the pool nothing can begin, for as long as it is empty.
        empty = fill[row] == 0
        full |= empty
        share = np.maximum(share, empty.astype(float))
    serving = work.astype(float)
    if view.held is not None and holds is False:
        # Of several workers, as many hold an event as there are events held.
        workers = max(1.0, float(np.quantile(view.held, 0.999)))
        serving = np.maximum(serving, np.minimum(view.held / workers, 1.0))
    elif view.held is None and holds is not True and len(view.inputs) == 1:
        row = view.inputs[0]
        serving = np.where(fill[row] == 0, 1.0 - _end_share(series, row, 0, 1), 1.0)
    busy = serving * (1.0 - share)
    return (work & ~full).astype(float), (~work).astype(float), (work & full).astype(float), serving, busy


def _end_share(series: Series, row: int, end: int, step: int) -> float:
    """Of the time at an end of a queue's fill, the share in which the stage there waits (see above)."""
    fill, weights = series.low[row], series.weights
    at_end = float(weights[fill >= end].sum() if step < 0 else weights[fill <= end].sum())
    next_to_it = float(weights[fill == end + step].sum())
    if at_end == 0.0 or next_to_it == 0.0:
        return 1.0
    ratio = (np.sqrt(1.0 + 4.0 * at_end / next_to_it) - 1.0) / 2.0
    return float(ratio / (1.0 + ratio))


def _held(series: Series, inputs: list[int], outputs: list[int]) -> NDArray[np.int64] | None:
    if not outputs:
        return None
    taken = series.out[inputs].sum(axis=0)
    given = series.in_[outputs].sum(axis=0)
    held: NDArray[np.int64] = taken - given
    moved = taken[-1] - taken[0]
    # All that it takes it gives: what it holds neither drifts nor varies by more than a few.
    if moved < 100 or np.ptp(held) > min(_MOST_HELD, moved / 50):
        return None
    least: NDArray[np.int64] = held - held.min()
    return least


def _in_order(inputs: dict[str, list[int]], outputs: dict[str, list[int]], series: Series) -> list[str]:
    """Stages by their distance from the source (Kahn's algorithm); those in a circle come last, as found."""
    before = {
        label: {series.queues[row].source for row in rows if series.queues[row].source in inputs} - {label}
        for label, rows in inputs.items()
    }
    order: list[str] = []
    while len(order) < len(before):
        free = [label for label in before if label not in order and before[label] <= set(order)]
        order += free or [label for label in before if label not in order]
    return order
