"""A captured schedule as steps that can be simulated: work, deeds and what they wait for. Pure.

What a thread waited for is kept, how long it waited is not: a wait for another thread ends when that one gets
to where it woke it, and one whose cause came before isn't waited at all (the replay of wait-for edges, as in
wPerf: Zhou et al., OSDI 2018). A wait for a CPU is left out altogether: the simulated scheduler makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from latlab.model.schedule import FOREIGN, Schedule, State
from latlab.schedule.simulation.steps import Deed, Steps
from latlab.schedule.simulation.waits import Part, Places, waits_of

__all__ = ["Strangers", "allowed_cpus", "steps_of", "strangers_of"]

Array = np.ndarray[Any, Any]

_MOST_WAKE_NS = 100_000  # more is not a wake-up, but a wait for a CPU
_NICE_0 = 120
_REAL_TIME = 1e9  # weight
_MOST_COST = 1_000_000
_PINNED_TURNS = 20
_PINNED_SHARE = 0.5  # of its waiting for a CPU another one was idle


def steps_of(schedule: Schedule, *, meets: bool = False, watched: bool = True) -> Steps:
    """The steps that a schedule is made of.

    Args:
        meets: who ends a wait has itself waited for it to begin; see `waits_of`.
        watched: with those who observed the program beside it.
    """
    places = Places(schedule)
    rows = schedule.intervals
    zero = schedule.began_ns
    threads = len(schedule.threads)
    ends = np.array([one.ended_ns for one in schedule.threads], np.int64)
    begins = np.array([one.began_ns for one in schedule.threads], np.int64)
    parents = np.array([one.parent for one in schedule.threads], np.int64)
    blocked = np.flatnonzero((rows["state"] == State.BLOCKED) & (rows["end"] < ends[rows["thread"]]))
    parts = waits_of(schedule, places, blocked, meets)
    born = np.where(parents >= 0, -1, np.maximum(begins - zero, 0))
    made = np.flatnonzero(parents >= 0)
    parts.append(Part(parents[made], begins[made], Deed.START, made, 1))
    everybody = np.arange(threads)
    parts.append(Part(everybody, ends, Deed.NONE, 0, 4))
    columns = _joined(parts)
    columns["work"] = places.work(columns["thread"], columns["time"])
    index = {cpu: place for place, cpu in enumerate(schedule.cpus)}
    strangers, where, pairs = _strangers(schedule, index, watched)
    columns = {key: np.concatenate([value, strangers[key]]) for key, value in columns.items()}
    columns, first, work = _in_order(columns, threads + len(where))
    return Steps(
        first, work, columns["deed"].astype(np.uint8),
        columns["argument"], columns["time"] - zero, columns["wait"], columns["object"],
        np.concatenate([born, np.zeros(len(where))]).astype(np.int64),
        np.concatenate([allowed_cpus(schedule, index), where]), _costs(schedule, pairs),
        columns["delay"].astype(np.int64),
        threads, max(1, len(schedule.cpus)),
        _wake_ns(schedule),
    )  # fmt: skip


@dataclass(frozen=True)
class Strangers:
    """Who competes for CPUs at fixed times, as columns of `Steps`; `first` counts from 0."""

    first: Array
    work: Array
    deed: Array
    argument: Array
    allowed: Array


def strangers_of(schedule: Schedule, index: dict[int, int], threads: Sequence[int]) -> Strangers:
    """Other programs' turns, and those of some of the program's own threads, as such that compete for CPUs.

    Args:
        index: place of each CPU. threads: indices into `Schedule.threads`.
    """
    rows = schedule.intervals
    rows = rows[(rows["state"] == State.RUNNING) & np.isin(rows["thread"], threads) & (rows["cpu"] >= 0)]
    own = np.zeros(len(rows), FOREIGN)
    for key in ("cpu", "begin", "end"):
        own[key] = rows[key]
    own["tid"] = np.array([one.tid for one in schedule.threads], np.int64)[rows["thread"]]
    beside = replace(schedule, foreign=np.concatenate([schedule.foreign, own]))
    columns, where, _ = _strangers(beside, index, False)
    columns["thread"] = columns["thread"] - len(schedule.threads)
    columns, first, work = _in_order(columns, len(where))
    return Strangers(first, work, columns["deed"].astype(np.uint8), columns["argument"], where)


def _in_order(columns: dict[str, Array], threads: int) -> tuple[dict[str, Array], Array, Array]:
    """The columns thread by thread, where each thread's begin, and the work before each step."""
    order = np.lexsort((columns["rank"], columns["time"], columns["thread"]))
    columns = {key: value[order] for key, value in columns.items()}
    first = np.searchsorted(columns["thread"], np.arange(threads + 1)).astype(np.int64)
    before = np.concatenate([[0], columns["work"][:-1]]) if len(columns["work"]) else columns["work"]
    before[first[:-1][first[:-1] < len(before)]] = 0
    return columns, first, np.maximum(columns["work"] - before, 0)


def _joined(parts: list[Part]) -> dict[str, Array]:
    def column(name: str) -> Array:
        whole = [
            np.broadcast_to(np.asarray(getattr(part, name), np.int64), part.thread.shape) for part in parts
        ]
        return np.concatenate(whole)

    return {
        name: column(name)
        for name in ("thread", "time", "deed", "argument", "rank", "wait", "object", "delay")
    }


def _strangers(
    schedule: Schedule, index: dict[int, int], watched: bool
) -> tuple[dict[str, Array], Array, Array]:
    """Other programs' threads as such that compete: each wakes when it had a CPU, for as long."""
    rows = np.concatenate([schedule.foreign, schedule.watching]) if watched else schedule.foreign
    rows = rows[np.isin(rows["cpu"], list(index)) & (rows["end"] > rows["begin"])]
    rows = rows[np.lexsort((rows["begin"], rows["cpu"], rows["tid"]))]
    pairs, which = np.unique(np.stack([rows["tid"], rows["cpu"]], axis=1), axis=0, return_inverse=True)
    thread = len(schedule.threads) + which.reshape(-1).astype(np.int64)
    length = rows["end"] - rows["begin"]
    done = np.cumsum(length)
    first = np.searchsorted(thread, len(schedule.threads) + np.arange(len(pairs)))
    done -= (done - length)[first[which.reshape(-1)]] if len(rows) else 0
    parts = {
        "thread": (thread, thread),
        "time": (rows["begin"], rows["end"]),
        "deed": (np.full(len(rows), int(Deed.UNTIL)), np.full(len(rows), int(Deed.NONE))),
        "argument": (rows["begin"] - schedule.began_ns, np.zeros(len(rows), np.int64)),
        "rank": (np.full(len(rows), 5), np.full(len(rows), 4)),
        "wait": (np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)),
        "object": (np.full(len(rows), -1), np.full(len(rows), -1)),
        "delay": (np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)),
        "work": (done - length, done),
    }
    where = [np.uint64(1) << np.uint64(index[cpu]) if index[cpu] < 64 else 0 for cpu in pairs[:, 1].tolist()]
    found = {key: np.concatenate(value) for key, value in parts.items()}
    return found, np.array(where, np.uint64), pairs[:, 0]


def _costs(schedule: Schedule, strangers: Array) -> Array:
    """Virtual run time by priority: of the program's most preferred thread 1, of others as much more.

    The kernel's weights: a step of the nice value is a quarter of the CPU time (CFS and EEVDF alike).
    """
    own = [schedule.priorities.get(one.tid, _NICE_0) for one in schedule.threads]
    beside = [schedule.priorities.get(tid, _NICE_0) for tid in strangers.tolist()]
    weights = np.array([_REAL_TIME if one < 100 else 1.25 ** (_NICE_0 - one) for one in (*own, *beside)])
    most = weights[: len(own)].max(initial=1e-9)
    return np.asarray(np.clip(np.rint(most / weights), 1, _MOST_COST), np.int64)


def _wake_ns(schedule: Schedule) -> int:
    """What a wake-up takes where a CPU is free: the lower quartile of the times from a wake-up to running."""
    rows = schedule.intervals
    if len(rows) < 2:
        return 0
    woken = (
        (rows["state"][1:] == State.RUNNABLE)
        & (rows["state"][:-1] == State.BLOCKED)
        & (rows["thread"][1:] == rows["thread"][:-1])
    )
    length = (rows["end"] - rows["begin"])[1:][woken]
    return min(_MOST_WAKE_NS, int(np.quantile(length, 0.25, method="inverted_cdf"))) if len(length) else 0


def allowed_cpus(schedule: Schedule, index: dict[int, int]) -> Array:
    """Threads that never left a CPU, though they waited for it while another was free, may use no other."""
    rows = schedule.intervals
    allowed = np.zeros(len(schedule.threads), np.uint64)
    if len(index) < 2:
        return allowed
    running = rows[(rows["state"] == State.RUNNING) & (rows["cpu"] >= 0)]
    for thread in range(len(schedule.threads)):
        low, high = np.searchsorted(running["thread"], [thread, thread + 1])
        cpus = np.unique(running["cpu"][low:high])
        if high - low < _PINNED_TURNS or len(cpus) != 1 or index.get(int(cpus[0]), 64) >= 64:
            continue
        mine = schedule.of_thread(thread)
        waiting = mine[mine["state"] == State.RUNNABLE]
        length = float((waiting["end"] - waiting["begin"]).sum())
        busy = _busy_elsewhere(schedule, waiting, int(cpus[0]), len(index))
        if length > 1_000_000 and busy < (1 - _PINNED_SHARE) * length:
            allowed[thread] = np.uint64(1) << np.uint64(index[int(cpus[0])])
    return allowed


def _busy_elsewhere(schedule: Schedule, waiting: Array, cpu: int, cpus: int) -> float:
    """For how long in these intervals all other CPUs were busy, nearly: their busy time by their number."""
    rows = schedule.intervals
    busy = rows[(rows["state"] == State.RUNNING) & (rows["cpu"] != cpu)]
    begin = np.concatenate([busy["begin"], schedule.foreign["begin"][schedule.foreign["cpu"] != cpu]])
    end = np.concatenate([busy["end"], schedule.foreign["end"][schedule.foreign["cpu"] != cpu]])
    edges = np.concatenate([begin, end])
    change = np.concatenate([np.ones(len(begin)), -np.ones(len(end))])
    order = np.argsort(edges, kind="stable")
    edges, level = edges[order], np.cumsum(change[order])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(edges))]) if len(edges) else np.zeros(1)
    if not len(edges):
        return 0.0

    def until(time: Array) -> Array:
        at = np.searchsorted(edges, time, "right") - 1
        inside = np.maximum(at, 0)
        return np.where(at >= 0, area[inside] + level[inside] * (time - edges[inside]), 0.0)

    return float((until(waiting["end"]) - until(waiting["begin"])).sum()) / (cpus - 1)
