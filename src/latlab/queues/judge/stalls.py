"""Stages that stood still: events waited in front of them, and none was taken for a long time.

A stall is neither slowness (a slow stage takes its next event when it has done the last one) nor a burst.
What the kernel says of the thread meanwhile tells whether it wanted a CPU and had none, or did not ask for
one: then it was stopped, or waited for something outside of its queues.
"""

from __future__ import annotations

import numpy as np

from latlab.model.queues.analysis import Stall
from latlab.model.queues.observation import Observation, QueueKind
from latlab.queues.judge.measures.series import expand, steady_window
from latlab.queues.judge.measures.threads import rows_of, thread_ids

__all__ = ["stalls"]

SHORTEST_NS = 50_000_000  # twice what a fair scheduler makes a thread wait among a few others
_FACTOR = 20.0  # of the usual time between two events that are taken while some wait
_FIRST_NS = 1_000_000_000  # a stage that takes nothing for longer than this does not just start
_FEWEST_SWEEPS = 5  # that looked meanwhile: a gap of the sampler is not a stall
_SETTLES_NS = 100_000_000  # after start-up and before shut-down: threads come, caches fill, sources end
_NOT_SEEN = 0.5  # of the stall: the longest time between two of them


def stalls(observation: Observation) -> tuple[Stall, ...]:
    """Every stall, the longest first.

    A stall that begins within 100 ms of a start-up that was seen, or lies within 100 ms of a shut-down, is
    part of these. So is the time before a stage took its first event ever, up to a second.

    Raises:
        NotTrustworthyError: nothing was sampled.
    """
    window = steady_window(observation)
    series = expand(observation, window)
    tids = thread_ids(observation)
    found = []
    for row, queue in enumerate(series.queues):
        if queue.kind in (QueueKind.POOL, QueueKind.SOCKET) or not queue.drain:
            continue
        took = np.flatnonzero(np.diff(series.out[row]) > 0)
        edges = np.concatenate([[-1], took, [len(series.t_ns) - 1]])
        usual = float(np.median(np.diff(series.t_ns[took]))) if len(took) > 2 else 0.0
        shortest = max(SHORTEST_NS, _FACTOR * usual)
        at = series.t_ns[np.maximum(edges, 0)]
        for pair in np.flatnonzero(np.diff(at) >= shortest).tolist():
            before, after = int(edges[pair]), int(edges[pair + 1])
            # Sweeps before + 1 … after saw the same count of events taken.
            waiting = np.flatnonzero(series.low[row, before + 1 : after + 1] >= 1)
            if len(waiting) < _FEWEST_SWEEPS:
                continue
            first, last = before + 1 + int(waiting[0]), int(after)
            begin, end = int(series.t_ns[first]), int(series.t_ns[last])
            if end - begin < shortest:
                continue
            if _starts_or_ends(observation, window, begin, end):
                continue
            if before < 0 and series.out[row, 0] == 0 and len(took) and end - window[0] < _FIRST_NS:
                continue
            unseen = int(np.diff(series.t_ns[first : last + 1]).max())
            if unseen > _NOT_SEEN * (end - begin):
                continue
            waited = _ready_share(observation, tids.get(queue.drain, 0), begin, end)
            most = int(series.high[row, first : last + 1].max())
            found.append(Stall(queue.drain, queue.name, begin, end, most, waited))
    return tuple(sorted(found, key=lambda stall: stall.from_ns - stall.to_ns))


def _starts_or_ends(observation: Observation, window: tuple[int, int], begin: int, end: int) -> bool:
    """The stretch is part of a start-up or a shut-down that the recording shows."""
    marked = {phase for _, _, phase in observation.phases}
    sweeps = observation.sweeps["t_ns"]
    started = "starting" in marked and window[0] > int(sweeps[0])
    stopped = bool(marked & {"stopping", "ended"}) and window[1] <= int(sweeps[-1])
    return (started and begin < window[0] + _SETTLES_NS) or (stopped and begin > window[1] - _SETTLES_NS)


def _ready_share(observation: Observation, tid: int, begin: int, end: int) -> float | None:
    """The share of an interval that a thread was ready and had no CPU; None where nobody knows."""
    rows = rows_of(observation, tid)
    if rows is None:
        return None
    threads = observation.threads
    at = np.interp([begin, end], threads["t_ns"][rows], threads["wait_ns"][rows].astype(float))
    return float(min(1.0, max(0.0, (at[1] - at[0]) / (end - begin))))
