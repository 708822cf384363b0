"""What stages say of their own time, and what the kernel says of their threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues import Observation

__all__ = ["ThreadShares", "stage_busy", "thread_ids", "thread_shares", "waited_while_busy"]


@dataclass(frozen=True)
class ThreadShares:
    """A thread over a window.

    Attributes:
        cpu: share of one CPU that it used.
        wait: share of the time that it was ready and had none.
        voluntary_hz, involuntary_hz: switches a second.
    """

    tid: int
    cpu: float
    wait: float
    voluntary_hz: float
    involuntary_hz: float


def stage_busy(observation: Observation, edges: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
    """Busy seconds of each stage in each block, by its own times.

    Args:
        edges: shape (blocks + 1,): in ns.

    Returns:
        By label, shape (blocks,): the mean over the stages of that label. Only stages that say anything: one
        that never left its first state tells nothing of itself.
    """
    times = observation.stage_times
    if not times or not len(times["t_ns"]):
        return {}
    found: dict[str, list[NDArray[np.float64]]] = {}
    for stage in observation.stages:
        rows = times["stage"] == stage.number
        if rows.sum() < 3 or not stage.label or int(times["transitions"][rows][-1]) < 2:
            continue
        sums = np.interp(edges, times["t_ns"][rows], times["busy_ns"][rows].astype(float))
        found.setdefault(stage.label, []).append(np.diff(sums) / 1e9)
    return {label: np.mean(parts, axis=0) for label, parts in found.items()}


def thread_shares(observation: Observation, window: tuple[int, int]) -> dict[str, ThreadShares]:
    """The thread of each stage over a window, by the stage's label.

    The thread is the one that the stage registered, or else the one that drains the stage's queue.
    """
    threads = observation.threads
    if not threads or not len(threads["tid"]):
        return {}
    result: dict[str, ThreadShares] = {}
    for label, tid in thread_ids(observation).items():
        rows = np.flatnonzero(threads["tid"] == tid)
        inside = rows[(threads["t_ns"][rows] >= window[0]) & (threads["t_ns"][rows] <= window[1])]
        rows = inside if len(inside) >= 2 else rows
        if len(rows) < 2:
            continue
        first, last = rows[0], rows[-1]
        seconds = (int(threads["t_ns"][last]) - int(threads["t_ns"][first])) / 1e9

        def rate(name: str, first: int = first, last: int = last, seconds: float = seconds) -> float:
            return (int(threads[name][last]) - int(threads[name][first])) / max(seconds, 1e-9)

        result[label] = ThreadShares(
            tid, rate("cpu_ns") / 1e9, rate("wait_ns") / 1e9, rate("voluntary"), rate("involuntary")
        )
    return result


def waited_while_busy(
    observation: Observation, label: str, busy: NDArray[np.float64], edges: NDArray[np.int64]
) -> NDArray[np.float64]:
    """How long a stage's thread was ready and had no CPU, of the time that the stage was busy, in each block.

    A thread that waits for events asleep is ready only while it has some. One that polls is ready all the
    time, and as likely to lack a CPU while it works as while it looks: of its waiting the share counts that
    its busy time is of the time in which it wanted a CPU.

    Args:
        busy: shape (blocks,): seconds.
        edges: shape (blocks + 1,): ns.

    Returns:
        Shape (blocks,): seconds; 0 where nothing is known of the thread.
    """
    tid, threads = thread_ids(observation).get(label, 0), observation.threads
    rows = np.flatnonzero(threads["tid"] == tid) if tid and threads else np.empty(0, np.int64)
    if len(rows) < 2:
        return np.zeros_like(busy)
    at = threads["t_ns"][rows]
    ran, waited = (
        np.diff(np.interp(edges, at, threads[name][rows].astype(float))) / 1e9
        for name in ("cpu_ns", "wait_ns")
    )
    found: NDArray[np.float64] = waited * np.minimum(1.0, busy / np.maximum(ran + waited, 1e-12))
    return found


def thread_ids(observation: Observation) -> dict[str, int]:
    """The thread that runs each stage: the one that it registered, or else that which drains its queue."""
    tids = {
        queue.drain: queue.consumer_tid for queue in observation.queues if queue.drain and queue.consumer_tid
    }
    tids.update({stage.label: stage.tid for stage in observation.stages if stage.label and stage.tid})
    return tids
