"""Event loops: which of the tasks that share a thread holds it.

Python's wrappers say for how long each task held its loop, and from which line on; what follows is for
observations in which they don't.

Where a coroutine waits for its service, the others on its loop go on meanwhile. Where it computes, or calls
something that blocks, nothing else on the loop moves between its taking an event and its passing it on. That
is seen in the counts: of the time in which a stage has an event in hand and moves nothing itself, how much
did the others move, against their usual pace?
"""

from __future__ import annotations

from dataclasses import dataclass

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

_STILL = 0.1  # of their usual pace: then the others stand still


@dataclass(frozen=True)
class LoopHold:
    """A stage that holds the thread which it shares.

    Attributes:
        label: of the stage; of a task that is none, its name.
        share: of the time that it held the loop.
        line: file and line of the await after which it does; "" where unknown.
    """

    label: str
    share: float
    line: str = ""


def published_holds(observation: Observation, edges: NDArray[np.int64]) -> list[LoopHold]:
    """What tasks say of how long they held their loop, the longest first.

    Args:
        edges: shape (blocks + 1,): in ns.
    """
    times = observation.stage_times
    if not times or not len(times["t_ns"]):
        return []
    seconds = max(float(edges[-1] - edges[0]) / 1e9, 1e-9)
    held: dict[str, float] = {}
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
        begin, end = np.interp(edges[[0, -1]], times["t_ns"][rows], sums, left=before)
        share = float(end - begin) / 1e9 / seconds
        held[stage.name] = held.get(stage.name, 0.0) + share
        lines[stage.name] = max(lines.get(stage.name, (0.0, "")), (share, stage.group))
    found = [LoopHold(name, share, lines[name][1]) for name, share in held.items()]
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


def loop_holder(
    observation: Observation, measured: Measured, series: Series
) -> tuple[str, str] | Doubt | None:
    """The task that holds the event loop with the sentence that says so; a doubt where several do."""
    told = any(stage.type == HOLDS_LOOP for stage in observation.stages)
    if told or (measured.own and all(view.label in measured.own for view in measured.views)):
        holds = published_holds(observation, measured.edges)
    else:
        holds = loop_holds(measured.views, series) or []
    if not holds or sum(hold.share for hold in holds) < LOADED:
        return None
    first = holds[0]
    if len(holds) > 1 and first.share < (1 + _LEAD) * holds[1].share:
        return Doubt(DoubtKind.SHARED_LOOP, first.label, holds[1].label, sum(hold.share for hold in holds))
    where = f", after the await at {first.line}" if first.line else ""
    return first.label, said(QueueEvidence.LOOP, stage=first.label, part=first.share, after=where)
