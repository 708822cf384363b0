"""What stages say of their own time, and what the kernel says of their threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.observation import HOLDS_LOOP, Observation

__all__ = [
    "ThreadShares",
    "every_thread",
    "rows_of",
    "stage_times",
    "thread_blocks",
    "thread_ids",
    "thread_shares",
    "told_of",
    "told_threads",
    "user_times",
]


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


def rows_of(observation: Observation, tid: int) -> NDArray[np.int64] | None:
    """The rows of a thread in what the kernel says of threads; None where there are fewer than two."""
    threads = observation.threads
    if not tid or not threads or not len(threads["tid"]):
        return None
    rows = np.flatnonzero(threads["tid"] == tid)
    return rows if len(rows) > 1 else None


# Of the events of the busiest instance of a stage: who took fewer set things up, and does something else now.
_SOME = 0.02


def stage_times(
    observation: Observation, edges: NDArray[np.int64], column: str = "busy_ns"
) -> dict[str, NDArray[np.float64]]:
    """Seconds of each stage in each block, by its own times: busy, or blocked for want of room.

    Args:
        edges: shape (blocks + 1,): in ns.
        column: busy_ns or blocked_ns.

    Returns:
        By label, shape (blocks,): the mean over the threads and tasks of that label. Only stages that say
        anything: one that never left its first state, and took nothing, tells nothing of itself. Where a
        process tells of a stage in several files (of queues that were counted in two ways), what it waits for
        in each is no work: busy is the rest of all. Who only puts may tell nothing before it first waits for
        room: it was busy until then, as long as its thread is seen.
    """
    times = observation.stage_times
    if column not in times or not len(times["t_ns"]):
        return {}
    lasted = np.diff(edges) / 1e9
    pids = {process.number: process.pid for process in observation.processes}
    drains = {queue.drain for queue in observation.queues}
    found: dict[str, list[tuple[int, int, int, NDArray[np.float64]]]] = {}
    order = np.argsort(times["stage"], kind="stable")
    starts = np.searchsorted(times["stage"][order], np.arange(len(observation.stages) + 1))
    for stage in observation.stages:
        rows = order[starts[stage.number] : starts[stage.number + 1]]
        if len(rows) < 3 or not stage.label or stage.type == HOLDS_LOOP:
            continue
        events = times["events"][rows] if "events" in times else np.zeros(len(rows))
        took = int(events[-1]) - int(events[0])
        if int(times["transitions"][rows[-1]]) < 2 and not events[-1]:
            continue
        at = times["t_ns"][rows]
        sums = np.interp(edges, at, times[column][rows].astype(float))
        if column == "busy_ns" and stage.label not in drains:
            began = _seen_since(observation, stage.tid, int(at[0]))
            sums += np.clip(edges, began, at[0]) - at[0]
        pid = pids.get(stage.process, -1 - stage.process)
        found.setdefault(stage.label, []).append((took, pid, stage.process, np.diff(sums) / 1e9))
    result = {}
    for label, parts in found.items():
        most = max(took for took, *_ in parts)
        files: dict[tuple[int, int], list[NDArray[np.float64]]] = {}
        for took, pid, file, part in parts:
            if took >= _SOME * most:
                files.setdefault((pid, file), []).append(part)
        by_pid: dict[int, list[tuple[int, NDArray[np.float64]]]] = {}
        for (pid, _), some in files.items():
            by_pid.setdefault(pid, []).append((len(some), np.mean(some, axis=0)))
        threads, total = 0, np.zeros(len(lasted))
        for told in by_pid.values():
            count = max(number for number, _ in told)
            if column == "busy_ns":
                each = np.maximum(lasted - sum(lasted - busy for _, busy in told), 0.0)
            else:
                each = np.minimum(sum(part for _, part in told), lasted)
            threads, total = threads + count, total + count * each
        result[label] = total / threads
    return result


def _seen_since(observation: Observation, tid: int, until: int) -> int:
    """When the kernel first told of a thread, if that was before then."""
    rows = rows_of(observation, tid)
    return until if rows is None else min(until, int(observation.threads["t_ns"][rows].min()))


def user_times(
    observation: Observation, label: str, edges: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Seconds in each block that all who are called so were blocked, busy and idle, added up.

    Who hardly gets anything counts as well: where others are always quicker, it waits all the time.
    """
    times = observation.stage_times
    found = np.zeros((3, len(edges) - 1))
    for stage in observation.stages:
        rows = np.flatnonzero(times["stage"] == stage.number) if stage.label == label and times else ()
        if len(rows) < 3 or stage.type == HOLDS_LOOP:
            continue
        for at, column in enumerate(("blocked_ns", "busy_ns", "idle_ns")):
            if column not in times:
                continue
            found[at] += (
                np.diff(np.interp(edges, times["t_ns"][rows], times[column][rows].astype(float))) / 1e9
            )
    return found[0], found[1], found[2]


def told_threads(observation: Observation) -> dict[str, int]:
    """By label, how many threads or tasks of a stage took a part of its events, by their own times."""
    times = observation.stage_times
    if "events" not in times or not len(times["t_ns"]):
        return {}
    took: dict[str, dict[int, list[int]]] = {}
    for stage in observation.stages:
        rows = np.flatnonzero(times["stage"] == stage.number)
        if len(rows) >= 3 and stage.label and stage.type != HOLDS_LOOP:
            taken = int(times["events"][rows[-1]]) - int(times["events"][rows[0]])
            took.setdefault(stage.label, {}).setdefault(stage.process, []).append(taken)
    found = {}
    for label, by_file in took.items():
        most = max(max(events) for events in by_file.values())
        # Of several files of one process each tells of the same threads; those of several processes add up.
        pids = {one.number: one.pid for one in observation.processes}
        each: dict[int, int] = {}
        for file, events in by_file.items():
            pid = pids.get(file, -1 - file)
            # Tasks of an event loop tell no events, only times: then all that do are counted.
            alike = sum(1 for count in events if (count or not most) and count >= _SOME * most)
            each[pid] = max(each.get(pid, 0), alike)
        found[label] = max(1, sum(each.values()))
    return found


def told_of(observation: Observation, label: str) -> frozenset[int]:
    """The files in which a stage tells its times, by the numbers of their processes."""
    return frozenset(
        stage.process for stage in observation.stages if stage.label == label and stage.type != HOLDS_LOOP
    )


def thread_shares(observation: Observation, window: tuple[int, int]) -> dict[str, ThreadShares]:
    """The thread of each stage over a window, by the stage's label.

    The thread is the one that the stage registered, or else the one that drains the stage's queue.
    """
    tids = thread_ids(observation)
    known = {shares.tid: shares for shares in every_thread(observation, window, set(tids.values()))}
    return {label: known[tid] for label, tid in tids.items() if tid in known}


def every_thread(
    observation: Observation, window: tuple[int, int], chosen: set[int] | None = None
) -> list[ThreadShares]:
    """All observed threads over a window, or some of them, by their ids; those that were seen twice."""
    threads = observation.threads
    if not threads or not len(threads["tid"]):
        return []
    found = []
    for tid in np.unique(threads["tid"]).tolist() if chosen is None else sorted(chosen):
        rows = np.flatnonzero(threads["tid"] == tid)
        inside = rows[(threads["t_ns"][rows] >= window[0]) & (threads["t_ns"][rows] <= window[1])]
        rows = inside if len(inside) >= 2 else rows
        if len(rows) < 2:
            continue
        first, last = rows[0], rows[-1]
        seconds = (int(threads["t_ns"][last]) - int(threads["t_ns"][first])) / 1e9

        def rate(name: str, first: int = first, last: int = last, seconds: float = seconds) -> float:
            return (int(threads[name][last]) - int(threads[name][first])) / max(seconds, 1e-9)

        found.append(
            ThreadShares(
                tid, rate("cpu_ns") / 1e9, rate("wait_ns") / 1e9, rate("voluntary"), rate("involuntary")
            )
        )
    return found


def thread_blocks(
    observation: Observation, tid: int, edges: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Seconds that a thread ran, and that it was ready and had no CPU, in each block.

    Args:
        edges: shape (blocks + 1,): ns.

    Returns:
        Shape (blocks,) each; None where nothing is known of the thread.
    """
    threads = observation.threads
    rows = np.flatnonzero(threads["tid"] == tid) if tid and threads else np.empty(0, np.int64)
    if len(rows) < 2:
        return None
    at = threads["t_ns"][rows]
    ran, waited = (
        np.diff(np.interp(edges, at, threads[name][rows].astype(float))) / 1e9
        for name in ("cpu_ns", "wait_ns")
    )
    return ran, waited


def thread_ids(observation: Observation) -> dict[str, int]:
    """The thread that runs each stage: the one that it registered, or else that which drains its queue."""
    tids = {
        queue.drain: queue.consumer_tid for queue in observation.queues if queue.drain and queue.consumer_tid
    }
    tids.update(
        {
            stage.label: stage.tid
            for stage in observation.stages
            if stage.label and stage.tid and stage.type != HOLDS_LOOP
        }
    )
    return tids
