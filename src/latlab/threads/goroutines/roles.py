"""Goroutines as roles: what a Go program does, by the functions in which its goroutines start.

Go's runtime runs any goroutine on any of its threads, so these tell nothing of who does what. A stack's
outermost function does: all samples that start in one function are one role. Which thread runs when is known
exactly, and which goroutine by samples only; so times of roles are shares of their threads' times.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, ScheduledThread, Wait
from latlab.threads._blame import Blame, Cause
from latlab.threads._edges import Times
from latlab.threads._path import Piece
from latlab.threads._roles import Group, process_name
from latlab.threads.goroutines.mutex import ONE_AT_A_TIME, Contended, contended
from latlab.threads.goroutines.names import COLLECTOR, MAIN, go_processes, goroutine_of

__all__ = ["Goroutines", "gathered_threads", "split"]

Array = np.ndarray[Any, Any]

_MONITOR = "runtime.sysmon"
_ALLOCATES = re.compile(r"^runtime\.(mallocgc|gcAssist\w*|growslice|newobject|makeslice)")
_LEAST_SAMPLES = 5
_FULL = 0.93  # of the CPUs
_ALONE = 0.85  # of the time: a goroutine that runs so much hardly waits for a CPU, though all are used
_DISK = (Wait.DISK, Wait.SYNC, Wait.FAULT)
_MANY = 1000  # hand-overs: as good as any number
_SLEEPER = 0.8  # of what runs after sleeps: it is the one that slept
_SOON_NS = 500_000  # after a sleep's end: who runs then slept, or was woken by who did


@dataclass(frozen=True)
class Goroutines:
    """What is known of the roles that are goroutines.

    Attributes:
        schedulers: roles of the threads of Go's runtime, which only wait for goroutines to run.
        cpus: by role, how many CPUs its goroutines ran on, on average.
        allocates: by role, the share of its samples in Go's allocator and its help for the collector.
        collector: CPUs that the garbage collector ran on.
        lock: the mutex for which they wait, where one limits.
    """

    schedulers: frozenset[int] = frozenset()
    cpus: Mapping[int, float] = field(default_factory=dict)
    allocates: Mapping[int, float] = field(default_factory=dict)
    collector: float = 0.0
    lock: Contended | None = None


@dataclass(frozen=True)
class Split:
    """The parts of an analysis with roles of goroutines in it; threads of theirs are added at the end."""

    schedule: Schedule
    groups: tuple[Group, ...]
    role_of: dict[int, int]
    times: list[Times]
    blame: Blame
    goroutines: Goroutines


def gathered_threads(
    schedule: Schedule, groups: Sequence[Group]
) -> tuple[tuple[Group, ...], dict[int, int], frozenset[int]]:
    """The roles with the threads of each Go process as one; those roles, by process; and threads that only
    watch over the others."""
    pids = go_processes(schedule)
    if not pids:
        return tuple(groups), {}, frozenset()
    watch = _monitors(schedule, pids)
    rest: list[Group] = []
    for group in groups:
        others = tuple(one for one in group.threads if schedule.threads[one].pid not in pids)
        if others:
            rest.append(replace(group, threads=others))
    roles: dict[int, int] = {}
    several = len({thread.pid for thread in schedule.threads}) > len(pids) or len(pids) > 1
    for pid in sorted(pids):
        threads = tuple(i for i, thread in enumerate(schedule.threads) if thread.pid == pid)
        process = process_name(schedule.threads[threads[0]])
        name = f"{process}: Go's scheduler" if several else "Go's scheduler"
        while any(name == other.name for other in rest):
            name += "'"
        roles[pid] = len(rest)
        rest.append(Group(name, process, "", threads))
    return tuple(rest), roles, watch


def _monitors(schedule: Schedule, pids: frozenset[int]) -> frozenset[int]:
    """Threads of the runtime that run no goroutines: they look after the others, and sleep."""
    samples = schedule.samples
    watch = np.array(
        [any(schedule.frames[one].function == _MONITOR for one in stack) for stack in schedule.stacks]
    )
    found = []
    for thread in np.unique(samples["thread"]).tolist():
        mine = samples["stack"][samples["thread"] == thread]
        if schedule.threads[thread].pid in pids and watch[mine].mean() > 0.5:
            found.append(thread)
    return frozenset(found)


def split(
    schedule: Schedule,
    groups: tuple[Group, ...],
    role_of: Mapping[int, int],
    times: Sequence[Times],
    blame: Blame,
    roles: Mapping[int, int],
    watch: frozenset[int],
) -> Split:
    """Roles of goroutines beside the one of each Go process's threads, which keeps what its scheduler does.

    Args:
        roles: process -> the role of its threads.
    """
    out = Split(schedule, groups, dict(role_of), list(times), blame, Goroutines())
    several = len({thread.pid for thread in schedule.threads}) > 1
    names = [goroutine_of([schedule.frames[one] for one in stack]) for stack in schedule.stacks]
    for pid, role in roles.items():
        threads = [one for one in groups[role].threads if one not in watch]
        out = _split_one(out, names, pid, role, threads, sorted(watch), several)
    return out


def _split_one(
    out: Split, names: Sequence[str], pid: int, role: int, threads: Sequence[int], watch: Sequence[int],
    several: bool,
) -> Split:  # fmt: skip
    schedule, blame = out.schedule, out.blame
    samples = schedule.samples
    mine = np.isin(samples["thread"], threads) & (samples["running"] == 1)
    found = Counter(name for stack in samples["stack"][mine].tolist() if (name := names[stack]))
    tasks = [name for name, _ in found.most_common()]
    shares = blame.shares.copy()
    shares[:, [one for one in watch if schedule.threads[one].pid == pid], :] = 0.0
    if sum(found.values()) < _LEAST_SAMPLES or not tasks:
        process = out.groups[role].process
        free = not any(process == one.name for one in out.groups)
        named = replace(out.groups[role], name=process) if free else out.groups[role]
        groups = tuple(named if i == role else one for i, one in enumerate(out.groups))
        return replace(out, groups=groups, blame=replace(blame, shares=shares))
    number = {name: index for index, name in enumerate(tasks)}
    task = np.array([number.get(name, len(tasks)) for name in names], np.int64)[samples["stack"]]
    cpus, ready = _cpus(schedule, out.times, threads, task, mine, len(tasks))
    added: list[ScheduledThread] = []
    members: list[tuple[int, ...]] = []
    first = len(schedule.threads)
    original = schedule.threads[threads[0]]
    for index, name in enumerate(tasks):
        count = max(1, math.ceil(float(cpus[index]) - (ONE_AT_A_TIME - 1)))
        members.append(tuple(range(first + len(added), first + len(added) + count)))
        added += [_thread(original, schedule, name)] * count
    moved = samples.copy()
    for index in range(len(tasks)):
        rows = np.flatnonzero(np.isin(samples["thread"], threads) & (task == index))
        moved["thread"][rows] = np.resize(members[index], rows.size)
    wide = np.concatenate([shares, np.zeros((shares.shape[0], len(added), shares.shape[2]))], axis=1)
    heads = [one[0] for one in members]
    _move_running(wide, blame, samples, task, mine, threads, heads, cpus, len(schedule.cpus))
    _move_sleeps(wide, blame, samples, task, mine, threads, heads)
    synced = _synced(schedule, task, threads, len(tasks))
    column = blame.causes.index(Cause.DISK)
    wide[:, heads, column] += np.outer(wide[:, list(threads), column].sum(axis=1), synced)
    wide[:, list(threads), column] *= 1.0 - float(synced.sum())
    gathered = list(out.groups)
    role_of = dict(out.role_of)
    for index, name in enumerate(tasks):
        gathered.append(
            Group(_name(name, original, several, gathered), gathered[role].process, name, members[index])
        )
        role_of.update(dict.fromkeys(members[index], len(gathered) - 1))
    times = _times(out.times, schedule, threads, role, members, cpus, ready, synced, len(gathered))
    at = {index: len(out.groups) + index for index in range(len(tasks))}
    known = out.goroutines
    seen = Goroutines(
        known.schedulers | {role},
        {**known.cpus, **{at[index]: float(cpus[index]) for index in range(len(tasks))}},
        {**known.allocates, **{at[i]: _part(schedule, mine & (task == i), _ALLOCATES) for i in at}},
        known.collector + float(sum(cpus[i] for i, name in enumerate(tasks) if name == COLLECTOR)),
        known.lock or contended(schedule, blame, mine, task, float(cpus.sum()), lambda i: at[i], members),
    )
    return Split(
        replace(schedule, threads=(*schedule.threads, *added), samples=moved),
        tuple(gathered), role_of, times, replace(blame, shares=wide), seen,
    )  # fmt: skip


def _thread(original: ScheduledThread, schedule: Schedule, name: str) -> ScheduledThread:
    return replace(
        original, tid=-1, name=name, began_ns=schedule.began_ns, ended_ns=schedule.ended_ns, ended=False,
        entry=name,
    )  # fmt: skip


def _name(task: str, thread: ScheduledThread, several: bool, groups: Sequence[Group]) -> str:
    """As a role: the main goroutine has its process' name, as the main thread of other programs has."""
    process = process_name(thread)
    own = process if task == MAIN else f"Go's {COLLECTOR}" if task == COLLECTOR else f"goroutine {task}"
    name = f"{process}: {own}" if several and task != MAIN else own
    while any(name == other.name for other in groups):
        name += "'"
    return name


def _cpus(
    schedule: Schedule, times: Sequence[Times], threads: Sequence[int], task: Array, mine: Array, count: int
) -> tuple[Array, Array]:
    """Of each task, and at last of the scheduler, the CPUs that it ran on, and was runnable for."""
    window = schedule.seconds * 1e9
    whole = np.bincount(task[mine], minlength=count + 1) / max(1, int(mine.sum()))
    cpus, ready = np.zeros(count + 1), np.zeros(count + 1)
    of = schedule.samples["thread"]
    for thread in threads:
        own = task[mine & (of == thread)]
        parts = np.bincount(own, minlength=count + 1) / own.size if own.size >= _LEAST_SAMPLES else whole
        cpus += parts * times[thread].running / window
        ready += parts * times[thread].runnable / window
    return cpus, ready


def _move_running(
    shares: Array, blame: Blame, samples: Array, task: Array, mine: Array, threads: Sequence[int],
    heads: Sequence[int], cpus: Array, online: int,
) -> None:  # fmt: skip
    """Give what the path of progress ran on Go's threads to the goroutines.

    The path goes through whichever thread woke another, which is an accident of the scheduler. What it waits
    for is the goroutine that is busiest, whenever that one runs. Where all CPUs are used and none runs nearly
    always, goroutines wait for CPUs unseen: then each has its part of the work.
    """
    count = len(heads)
    columns = [blame.causes.index(Cause.RUN), blame.causes.index(Cause.RUNNABLE)]
    edges = np.linspace(blame.begin, blame.end, len(shares) + 1)
    which = np.clip(np.searchsorted(edges, samples["time"], side="right") - 1, 0, len(shares) - 1)
    leader = int(np.argmax(np.minimum(cpus[:count], 1.0)))
    alone = cpus[leader] >= _ALONE
    crowded = float(cpus.sum()) >= _FULL * online and not alone
    period = (blame.end - blame.begin) / len(shares)
    of_sample = float(cpus.sum()) * (blame.end - blame.begin) / max(1, int(mine.sum()))
    for block in range(len(shares)):
        ran = shares[block][threads][:, columns].sum(axis=0)
        if ran.sum() <= 0:
            continue
        here = np.bincount(task[mine & (which == block)], minlength=count + 1).astype(float)
        parts = cpus / max(float(cpus.sum()), 1e-9) if here.sum() < _LEAST_SAMPLES else here / here.sum()
        if not crowded:
            whole = float(shares[block].sum())
            had = min(1.0, float(here[leader]) * of_sample / period if here.sum() >= _LEAST_SAMPLES else 1.0)
            first = min(1.0, max(float(parts[leader]), had * whole / float(ran.sum())))
            others = 1.0 - float(parts[leader])
            parts = parts * ((1.0 - first) / others if others > 0 else 0.0)
            parts[leader] = first
        shares[np.ix_([block], threads, columns)] *= float(parts[count])
        shares[np.ix_([block], heads, columns)] += np.outer(parts[:count], ran)[None]


def _move_sleeps(
    shares: Array, blame: Blame, samples: Array, task: Array, mine: Array, threads: Sequence[int],
    heads: Sequence[int],
) -> None:  # fmt: skip
    """Give sleeps to the goroutine that runs when they are over.

    Where it is one at one time and another at the next, they may all be woken by the one that slept, and that
    ran for too short a time to be seen: then nobody is told, and the sleeps stay with the threads.
    """
    ends = [
        piece["end"][np.isin(piece["thread"], threads) & (piece["what"] == Piece.WAIT + Wait.TIMER)]
        for _, _, piece in blame.pieces
    ]
    end = np.unique(np.concatenate(ends)) if ends else np.empty(0, np.int64)
    at = np.flatnonzero(mine & (task < len(heads)))
    before = np.searchsorted(end, samples["time"][at], side="right") - 1
    soon = before >= 0
    soon[soon] = samples["time"][at][soon] - end[before[soon]] < _SOON_NS
    told = np.bincount(task[at[soon]], minlength=len(heads)).astype(float)
    if told.sum() < _LEAST_SAMPLES or told.max() < _SLEEPER * told.sum():
        return
    column = blame.causes.index(Cause.TIMER)
    slept = shares[:, list(threads), column].sum(axis=1)
    shares[:, list(threads), column] = 0.0
    shares[:, heads[int(told.argmax())], column] += slept


def _synced(schedule: Schedule, task: Array, threads: Sequence[int], count: int) -> Array:
    """Of each task its part of the waits for the disk; all 0 where no stack tells whose they are."""
    rows = schedule.intervals
    rows = rows[np.isin(rows["wait"], _DISK) & (rows["sample"] >= 0) & np.isin(rows["thread"], threads)]
    told = np.bincount(task[rows["sample"]], minlength=count + 1)[:count].astype(float)
    return told / max(1.0, float(told.sum()))


def _times(
    times: Sequence[Times], schedule: Schedule, threads: Sequence[int], role: int,
    members: Sequence[Sequence[int]], cpus: Array, ready: Array, synced: Array, roles: int,
) -> list[Times]:  # fmt: skip
    """The threads' times, of which the scheduler's part is left, with those of goroutines behind them."""
    out = list(times)
    kinds = ("disk", "sync", "page fault")
    waits = {kind: sum(times[thread].blocked.get(kind, 0) for thread in threads) for kind in kinds}
    window = max(1, int(schedule.seconds * 1e9))
    ran, waited = max(float(cpus.sum()), 1e-9), max(float(ready.sum()), 1e-9)
    ended: dict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
    for thread in threads:
        one = times[thread]
        for (other, kind), (number, spent) in one.ended.items():
            if other != role:
                ended[other, kind][0] += number
                ended[other, kind][1] += spent
        out[thread] = replace(
            one,
            running=round(one.running * float(cpus[-1]) / ran),
            runnable=round(one.runnable * float(ready[-1]) / waited),
            blocked=defaultdict(
                int, {k: v for k, v in one.blocked.items() if k not in kinds or not synced.any()}
            ),
            own=0 if synced.any() else one.own,
        )
    own = range(roles - len(members), roles)
    for index, mine in enumerate(members):
        # All that share the runtime's threads may hand work to each other, without any thread's waking up.
        meets = {(other, "goroutine"): [_MANY, 0] for other in own if other != own[index]}
        part = float(synced[index]) / len(mine)
        blocked = {kind: round(spent * part) for kind, spent in waits.items() if spent * part >= 1}
        # Samples tell which goroutine ran on a thread: their shares of it may add up to more than the time.
        running = min(1.0, float(cpus[index]) / len(mine))
        runnable = min(1.0 - running, float(ready[index]) / len(mine))
        for _ in mine:
            out.append(
                Times(
                    window,
                    round(running * window),
                    round(runnable * window),
                    blocked, sum(blocked.values()), 0, 0, 0, defaultdict(lambda: [0, 0], {**ended, **meets}),
                )
            )  # fmt: skip
    return out


def _part(schedule: Schedule, chosen: Array, wanted: re.Pattern[str]) -> float:
    """Share of these samples with such a function in their stacks."""
    stacks, counts = np.unique(schedule.samples["stack"][chosen], return_counts=True)
    inside = sum(
        number
        for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True)
        if any(wanted.match(schedule.frames[one].function) for one in schedule.stacks[stack])
    )
    return float(inside / max(1, int(counts.sum())))
