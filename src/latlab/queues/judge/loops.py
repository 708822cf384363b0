"""Event loops: which of the tasks that share a thread holds it.

Python's wrappers say for how long each task held its loop, and from which line on; what follows is for
observations in which they don't.

Where a coroutine waits for its service, the others on its loop go on meanwhile. Where it computes, or calls
something that blocks, nothing else on the loop moves between its taking an event and its passing it on. That
is seen in the counts: of the time in which a stage has an event in hand and moves nothing itself, how much
did the others move, against their usual pace?
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import said
from latlab.model.queues.analysis import Doubt, DoubtKind
from latlab.model.queues.observation import HOLDS_LOOP, Observation
from latlab.queues.judge.measures.measured import Measured
from latlab.queues.judge.measures.series import Series, is_limited
from latlab.queues.judge.measures.stages import StageView
from latlab.queues.judge.ranking import LOADED

__all__ = ["LoopHold", "loop_holder", "loop_holds", "published_holds"]

_LEAD = 0.1  # of the task that is named over the second
_SURE = 0.99  # of the draws in which it leads: equal tasks hold a loop by turns, and some have one turn more
_DRAWS = 2000
_NEXT = 8
_AS_MANY = 0.1  # between the events of stages of one line

_STILL = 0.1  # of their usual pace: then the others stand still


@dataclass(frozen=True)
class LoopHold:
    """A stage that holds the thread which it shares.

    Attributes:
        label: of the stage; of a task that is none, its name.
        share: of the time that it held the loop.
        line: file and line of the await after which it does; "" where unknown.
        blocks: shape (blocks,): the same for each block of the observation; empty where unknown.
    """

    label: str
    share: float
    line: str = ""
    blocks: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def published_holds(observation: Observation, edges: NDArray[np.int64]) -> list[LoopHold]:
    """What tasks say of how long they held their loop, the longest first.

    Args:
        edges: shape (blocks + 1,): in ns.
    """
    times = observation.stage_times
    if not times or not len(times["t_ns"]):
        return []
    total = max(float(edges[-1] - edges[0]), 1.0)
    held: dict[str, NDArray[np.float64]] = {}
    lines: dict[str, tuple[float, str]] = {}
    for stage in observation.stages:
        if stage.type != HOLDS_LOOP:
            continue
        rows = np.flatnonzero(times["stage"] == stage.number)
        if not len(rows):
            continue
        sums = times["busy_ns"][rows].astype(float)
        # It is published at its first hold: before that there was none, as far as it is seen from the start.
        before = 0.0 if stage.added_ns > edges[0] else float(sums[0])
        blocks = np.diff(np.interp(edges, times["t_ns"][rows], sums, left=before)) / total
        held[stage.name] = held.get(stage.name, 0.0) + blocks
        lines[stage.name] = max(lines.get(stage.name, (0.0, "")), (float(blocks.sum()), stage.group))
    found = [LoopHold(name, float(blocks.sum()), lines[name][1], blocks) for name, blocks in held.items()]
    return sorted(found, key=lambda hold: -hold.share)


def loop_holds(views: list[StageView], series: Series) -> list[LoopHold] | None:
    """The stages that hold an event loop while they work, the longest first; None where none is shared."""
    loops: dict[int, list[int]] = {}
    for i, view in enumerate(views):
        tids = {series.queues[row].consumer_tid for row in view.inputs}
        asynchronous = all("asyncio" in series.queues[row].implementation.lower() for row in view.inputs)
        if len(tids) == 1 and asynchronous and (tid := tids.pop()):
            loops.setdefault(tid, []).append(i)
    shared = [members for members in loops.values() if len(members) > 1]
    if not shared:
        return None
    found = []
    for members in shared:
        for i in members:
            share = _held_share(views, members, i, series)
            if share > 0:
                found.append(LoopHold(views[i].label, share))
    return sorted(found, key=lambda hold: -hold.share)


def _held_share(views: list[StageView], members: list[int], index: int, series: Series) -> float:
    """Share of the time that a stage has an event in hand; 0 where the others on its loop move meanwhile."""
    view = views[index]
    if view.held is None:
        return 0.0
    own = _steps(series, view)
    others = np.sum([_steps(series, views[i]) for i in members if i != index], axis=0)
    room = np.ones(series.low.shape[1] - 1, np.bool_)
    for row in view.outputs:
        if is_limited(series.queues[row]):
            room &= series.low[row][:-1] < series.queues[row].capacity
    in_hand = (view.held[:-1] >= 1) & room
    quiet = in_hand & (own == 0)
    time, total = series.weights[:-1], float(series.weights[:-1].sum())
    share = float(time[quiet].sum()) / total
    moves = float(others.sum())
    if share <= 0 or moves <= 0:
        return 0.0
    pace = float(others[quiet].sum()) / moves / share
    return float(time[in_hand].sum()) / total if pace <= _STILL else 0.0


def _steps(series: Series, view: StageView) -> NDArray[np.int64]:
    """Events that a stage took and put between each two sweeps."""
    moved = series.out[list(view.inputs)].sum(axis=0) + series.in_[list(view.outputs)].sum(axis=0)
    steps: NDArray[np.int64] = np.diff(moved)
    return steps


def _sure_of_first(holds: list[LoopHold], measured: Measured) -> float:
    """Of how many draws the first holds the loop for longer than each other; 1.0 without blocks to draw from.

    Tasks hold a loop by turns that may be long, so that of equal ones some have had a turn more when the
    observation ends. Of two stages that took as many events this is told by the time for an event.
    """
    if not holds[0].blocks.size:
        return 1.0
    holds = holds[:_NEXT]  # the longest first: those behind them lead by chance no more often
    blocks = np.array([hold.blocks for hold in holds])
    drawn = np.random.default_rng(1).integers(0, blocks.shape[1], (_DRAWS, blocks.shape[1]))
    times = blocks[:, drawn].sum(axis=2)
    leads = times[0] > (1 + _LEAD / 2) * times[1:]
    taken = {view.label: measured.taken[at] for at, view in enumerate(measured.views)}
    for at, hold in enumerate(holds[1:]):
        mine, other = taken.get(holds[0].label), taken.get(hold.label)
        if mine is None or other is None or abs(mine.sum() - other.sum()) > _AS_MANY * other.sum():
            continue
        of_mine, of_other = mine[drawn].sum(axis=1), other[drawn].sum(axis=1)
        leads[at] |= times[0] * of_other > (1 + _LEAD / 2) * times[at + 1] * of_mine
    return float(leads.all(axis=0).mean())


def loop_holder(
    observation: Observation, measured: Measured, series: Series
) -> tuple[str, str, float] | Doubt | None:
    """The task that holds the loop, the sentence that says so, and how sure it is; a doubt if several do."""
    told = any(stage.type == HOLDS_LOOP for stage in observation.stages)
    if told or (measured.own and all(view.label in measured.own for view in measured.views)):
        holds = published_holds(observation, measured.edges)
    else:
        holds = loop_holds(measured.views, series) or []
    if not holds or sum(hold.share for hold in holds) < LOADED:
        return None
    first = holds[0]
    sure = _sure_of_first(holds, measured) if len(holds) > 1 else 1.0
    if len(holds) > 1 and (first.share < (1 + _LEAD) * holds[1].share or sure < _SURE):
        return Doubt(DoubtKind.SHARED_LOOP, first.label, holds[1].label, sum(hold.share for hold in holds))
    where = f", after the await at {first.line}" if first.line else ""
    return first.label, said(QueueEvidence.LOOP, stage=first.label, part=first.share, after=where), sure
