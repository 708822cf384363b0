"""How busy each stage is, from the counts of the queues around it.

The rule that this begins with: a stage that has an event and room for its result works, so that the slowest
stage is the one with the highest P(input non-empty and output not full). Two things spoil it, and are mended
here (`docs/explanation/limiting-stage.md` has the figures):

* An event that is being served may have left the queue already. Then an empty queue does not mean an idle
  stage. Where a stage passes on every event, the counts of its two sides tell how many it holds:
  out(input) - in(output). Where it does not, the share of serving among the time in which the input is empty
  is extrapolated from the fill's distribution.
* A full output does not mean a blocked stage: it may still be serving the next event, if it begins before
  there is room for the result. The share of blocking among the time in which the output is full is
  extrapolated likewise, unless the counts show that stages wait for room first.

The extrapolation takes the fill for a process that changes in single steps, whose shares of time near an end
go on in the same manner: p₀p₂/p₁² = c. With exponential times c is 1 (a birth-and-death process, Kleinrock,
"Queueing Systems" I, 1975, sec. 3.2); the more regular the times, the smaller it is. c is read from the
empty ends at which the counts show all states, and used at those where the last two are seen as one: with a
the share of the two together and p₂ that of the next, c·p₁²/p₂ + p₁ = a. The full end is the mirror image of
the empty one: what moves there are the free places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.observation import HOLDS_LOOP, Observation
from latlab.queues.judge.measures.series import Series, is_limited, is_pool

__all__ = ["Manner", "StageView", "busy_share", "chains", "manner_of", "stage_views"]

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
        joins: it takes one event of each input in turn, and has work only where all of them hold one.
    """

    label: str
    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    pools: tuple[int, ...] = ()
    held: NDArray[np.int64] | None = None
    joins: bool = False


def stage_views(observation: Observation, series: Series) -> list[StageView]:
    """Every stage that drains at least one sampled queue, in the order of the flow as far as there is one.

    Queues that stand empty are left out where their stage has others: of those that a process had when it
    forked, each side has a copy, and uses one.
    """
    types = {stage.label: stage.type for stage in observation.stages if stage.type != HOLDS_LOOP}
    inputs: dict[str, list[int]] = {}
    outputs: dict[str, list[int]] = {}
    pools: dict[str, list[int]] = {}
    for row, queue in enumerate(series.queues):
        if is_pool(queue):
            if queue.drain:
                pools.setdefault(queue.drain, []).append(row)
            continue
        if queue.drain:
            inputs.setdefault(queue.drain, []).append(row)
            types.setdefault(queue.drain, queue.drain_type)
        for source in queue.sources:
            outputs.setdefault(source, []).append(row)
    views = []
    for label in _in_order(inputs, outputs, series):
        ins, outs = _used(inputs[label], series), _used(outputs.get(label, []), series)
        views.append(
            StageView(
                label,
                types.get(label, ""),
                tuple(ins),
                tuple(outs),
                tuple(pools.get(label, pools.get(types.get(label, ""), []))),
                _held(series, ins, outs),
                _joins(series, ins, outs),
            )
        )
    return views


# Counts of a join's inputs, and of a fork's outputs, differ by what is in hand, and never drift apart.
_MOST_APART = 2


def _joins(series: Series, inputs: list[int], outputs: list[int]) -> bool:
    """One event of each input makes one of an output; who takes from each in turn puts on every one."""
    if not _in_step(series.out[inputs]):
        return False
    taken = series.out[inputs, -1] - series.out[inputs, 0]
    given = series.in_[outputs, -1] - series.in_[outputs, 0]
    return not len(given) or int(given.max()) <= (int(taken.min()) + int(taken.sum())) / 2


def _in_step(counts: NDArray[np.int64]) -> bool:
    """Several queues of which one event each is taken, or put, at a time."""
    if len(counts) < 2:
        return False
    moved = counts - counts[:, :1]
    least = int(moved[:, -1].min())
    return least >= 100 and int(np.ptp(moved, axis=0).max()) <= _MOST_APART


def _used(rows: list[int], series: Series) -> list[int]:
    """The queues among them that held or moved anything; all, where none did."""
    used = [row for row in rows if series.out[row, -1] > series.out[row, 0] or series.high[row].any()]
    return used or rows


@dataclass(frozen=True)
class Manner:
    """How the stages of an application handle their events, as the counts show it.

    Attributes:
        holds: events stay in the queue while they are served; None: unknown.
        waits_first: a stage begins only when there is room for the result; else it serves, and then waits.
        shape: c of the module's text.
    """

    holds: bool | None = None
    waits_first: bool = False
    shape: float = 1.0


def manner_of(views: list[StageView], series: Series) -> Manner:
    """What the stages that pass on every event show of all of them."""
    known = [view for view in views if view.held is not None and len(view.inputs) == 1]
    shares = [float((view.held > 0).mean()) for view in views if view.held is not None]
    if not shares:
        return Manner()
    holds = max(shares) < 0.02
    shape = _shape_of_empty_ends(known, series, holds)
    if holds:
        at_full = _shape_of_full_ends(known, series)
        if at_full is None:
            # Of a queue of two the ends have the same three states: with two of them lumped, c seems above 1.
            return Manner(True, shape < _LUMPED, min(shape, 1.0))
        return Manner(True, at_full < _LUMPED * shape, shape)
    # A stage that waits before it takes the next has work in front, no room behind, and nothing in hand.
    idle = stuck = 0
    for view in known:
        work = series.low[view.inputs[0]] >= 1
        full = _full(view, series)
        stuck += int((work & full).sum())
        idle += int((work & full & (view.held == 0)).sum())
    return Manner(False, idle > 0.02 * stuck, shape)


# One state is seen where two are lumped together if c at the full end is less than so many times that at
# the empty one (two lumped: 1.6 times at a coefficient of variation of 1.5, 2 at 1, 3 at 0.5).
_LUMPED = 1.4


def _shape_of_empty_ends(known: list[StageView], series: Series, holds: bool) -> float:
    """c, from the stages whose arrivals come from a stage if any; near 1 where too little was seen."""
    # Of several workers at a stage the counts don't tell how many are idle: the states run together.
    alone = [view for view in known if view.held is not None and np.quantile(view.held, 0.99) <= 1]
    inner = [view for view in alone if series.queues[view.inputs[0]].source in {v.label for v in alone}]
    # Ends that are hardly ever empty tell nothing: 1 % of the time is put in for exponential ones.
    above = below = (0.01 * series.seconds) ** 2
    for view in inner or alone:
        inside = series.low[view.inputs[0]] + (0 if holds or view.held is None else np.minimum(view.held, 1))
        p0, p1, p2 = (float(series.weights[inside == n].sum()) for n in range(3))
        above, below = above + p0 * p2, below + p1**2
    return float(np.clip(above / below, 0.02, 4.0))


def _shape_of_full_ends(known: list[StageView], series: Series) -> float | None:
    """c, from the full ends of queues of more than two; None where none was ever near its end."""
    above = below = 0.0
    for view in known:
        for row in view.outputs:
            if is_limited(series.queues[row]) and series.queues[row].capacity > 2:
                left = series.queues[row].capacity - series.low[row]
                p0, p1, p2 = (float(series.weights[left == n].sum()) for n in range(3))
                above, below = above + p0 * p2, below + p1**2
    return above / below if above > 0 and below > 0 else None


def _full(view: StageView, series: Series) -> NDArray[np.bool_]:
    full = np.zeros(series.low.shape[1], np.bool_)
    for row in view.outputs:
        if is_limited(series.queues[row]):
            full |= series.low[row] >= series.queues[row].capacity
    return full


def busy_share(
    view: StageView, series: Series, manner: Manner
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The shares of time of a stage.

    Args:
        manner: from `manner_of`.

    Returns:
        (ready, starved, blocked, occupied, busy): per sweep, from 0 to 1. Ready, starved and blocked are
        the plain rule; occupied is the time with an event in hand, and busy the part of it without
        blocking, both mended.
    """
    fill = series.low
    waiting = fill[list(view.inputs)] >= 1
    work = waiting.all(axis=0) if view.joins else waiting.any(axis=0)
    full = _full(view, series)
    occupied = work.astype(float)
    held = None
    if view.held is not None and manner.holds is False:
        # Of several workers, as many hold an event as there are events held.
        held = np.minimum(view.held / max(1.0, float(np.quantile(view.held, 0.999))), 1.0)
        occupied = np.maximum(occupied, held)
    elif view.held is None and manner.holds is not True and len(view.inputs) == 1:
        row = view.inputs[0]
        occupied = np.where(fill[row] == 0, 1.0 - _end_share(series, row, manner.shape, full=False), 1.0)
    share = np.zeros(fill.shape[1])
    for row in view.outputs:
        if not is_limited(series.queues[row]):
            continue
        at_end = fill[row] >= series.queues[row].capacity
        waits = 1.0 if manner.waits_first else _end_share(series, row, manner.shape, full=True)
        # Who has nothing in hand doesn't wait: the time of waiting is of the rest.
        inside, time = float((occupied * at_end) @ series.weights), float(at_end @ series.weights)
        waits = min(1.0, waits * time / inside) if inside > 0 else 1.0
        share = np.maximum(share, at_end * waits)
    for row in view.pools:
        if series.queues[row].source == series.queues[row].drain:
            continue  # the stage's own threads hold its objects, at work: see `latlab.queues.judge.pools`
        # Without an object of the pool nothing can begin, for as long as it is empty.
        empty = fill[row] == 0
        full |= empty
        share = np.maximum(share, empty.astype(float))
    busy = held if held is not None and manner.waits_first else occupied * (1.0 - share)
    ready, blocked = (work & ~full).astype(float), (work & full).astype(float)
    return ready, (~work).astype(float), blocked, occupied, busy


def _end_share(series: Series, row: int, shape: float, *, full: bool) -> float:
    """Of the time at an end of a queue's fill, the share in which the stage there waits (see above)."""
    steps = series.queues[row].capacity - series.low[row] if full else series.low[row]
    at_end = float(series.weights[steps <= 0].sum())
    next_to_it = float(series.weights[steps == 1].sum())
    if at_end == 0.0 or next_to_it == 0.0:
        return 1.0
    ratio = (np.sqrt(1.0 + 4.0 * shape * at_end / next_to_it) - 1.0) / (2.0 * shape)
    return float(1.0 - ratio * next_to_it / at_end)


def _held(series: Series, inputs: list[int], outputs: list[int]) -> NDArray[np.int64] | None:
    if not outputs:
        return None
    taken = series.out[inputs]
    taken = taken.min(axis=0) if _joins(series, inputs, outputs) else taken.sum(axis=0)
    given = series.in_[outputs]
    given = given.min(axis=0) if _in_step(given) else given.sum(axis=0)
    held: NDArray[np.int64] = taken - given
    moved = taken[-1] - taken[0]
    # All that it takes it gives: what it holds neither drifts nor varies by more than a few.
    if moved < 100 or np.ptp(held) > min(_MOST_HELD, moved / 50):
        return None
    # Counts begin with the queues, and so does what is held. An application that had something in hand before
    # them, or lost something on the way, seems to hold that for ever, also while nothing waits for it.
    if held.min() < 0 or held.max() > _MOST_HELD or (held.max() > 1 and _never_lets_go(held, series, inputs)):
        held = held - held.min()
    return held


def _never_lets_go(held: NDArray[np.int64], series: Series, inputs: list[int]) -> bool:
    least = held == held.min()
    idle = least & (series.low[inputs].sum(axis=0) == 0)
    return int(held.min()) > 0 and int(idle.sum()) > 0.02 * int(least.sum())


def chains(views: list[StageView], series: Series) -> list[list[int]]:
    """Stages that stand behind one another, each passing every event on to the next: indices of `views`."""
    number = {view.label: i for i, view in enumerate(views)}
    found: list[list[int]] = []
    at: dict[int, list[int]] = {}
    for i, view in enumerate(views):
        before = number.get(series.queues[view.inputs[0]].source) if len(view.inputs) == 1 else None
        if before in at and views[before].held is not None and len(views[before].outputs) == 1:
            at[i] = at[before]
            at[i].append(i)
        elif len(view.inputs) == 1:
            at[i] = [i]
            found.append(at[i])
    return found


def _in_order(inputs: dict[str, list[int]], outputs: dict[str, list[int]], series: Series) -> list[str]:
    """Stages by their distance from the source (Kahn's algorithm); those in a circle come last, as found."""
    before = {
        label: {source for row in rows for source in series.queues[row].sources if source in inputs} - {label}
        for label, rows in inputs.items()
    }
    order: list[str] = []
    # The live page judges hundreds of stages again and again: each is looked at only when it is freed.
    left = dict(before)
    feeds: dict[str, list[str]] = {}
    for label, sources in before.items():
        for source in sources:
            feeds.setdefault(source, []).append(label)
    place = {label: i for i, label in enumerate(before)}
    free = [label for label in before if not before[label]]
    while left:
        free = free or list(left)
        order += free
        for label in free:
            left.pop(label)
        done = set(free)
        freed = {label for source in done for label in feeds.get(source, ()) if label in left}
        for label in freed:
            before[label] -= done
        free = sorted((label for label in freed if not before[label]), key=place.__getitem__)
    return order
