"""A schedule taken apart: roles, edges, locks, and the limit."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath

import numpy as np

from latlab.model.schedule import Schedule, State, Wait
from latlab.model.threads import Code, LimitKind, LockUse, Role, ThreadFindings
from latlab.threads._blame import Blame, Cause, blame_of
from latlab.threads._candidates import Facts
from latlab.threads._code import (
    entries_of,
    forked_workers,
    hottest,
    own_function,
    own_place,
    runs_in,
    spinning,
    waiting_places,
)
from latlab.threads._edges import beside, edges_of, housekeepers, roles_of, slices_of, times_of
from latlab.threads._limits import instance_of, late_of
from latlab.threads._locks import Word, join_monitors, words_of
from latlab.threads._roles import (
    Group,
    forked_apart,
    gathered,
    groups_of,
    joined_by_main,
    labelled,
    told_apart,
)
from latlab.threads._tracks import Track, by_due_times, by_even_sleeps, latest, may_be_due, tracks_of
from latlab.threads._verdict import judge, lines_apart
from latlab.threads.goroutines.roles import gathered_threads, split
from latlab.threads.spins import with_looks, with_spins
from latlab.words import share

__all__ = ["analyse"]

_PYTHON = re.compile(r"^(python[\d.]*|pypy[\d.]*|gunicorn.*|uvicorn.*)$")
_MOST_LOCKS = 8
_SUPERVISES = 0.8  # of the time: who waits so long for the end of its only child has no work of its own
_MOST_PLACED = 12  # roles of which it is told where in the code they are


def analyse(
    schedule: Schedule,
    *,
    root: int | None = None,
    own: frozenset[int] | None = None,
    listens: frozenset[int] = frozenset(),
    peers: Mapping[int, str] | None = None,
    labels: Mapping[int, str] | None = None,
    asks: frozenset[int] = frozenset(),
    serve: frozenset[int] = frozenset(),
    answers: Mapping[int, str] | None = None,
    paces: frozenset[int] = frozenset(),
    far: Mapping[int, str] | None = None,
) -> ThreadFindings:
    """What limits, and what its threads do.

    Args:
        root: the process that was asked about; by default the first thread's.
        own: processes that belong to the program; by default the root and all that it started. Others are
            peers: clients, servers.
        listens: processes that accept connections.
        peers: of a socket's object the process at its other end, where known.
        labels: of a thread's id the name of what it does, where its queues tell.
        asks: processes that are connected to another program. serve: those that it is connected to.
        answers: of processes that look up with a time-out, and wait for an answer, the program that owes it.
        paces: of processes that look up those that wait for a time of their own.
        far: of processes the addresses outside of the program that they are connected to.
    """
    schedule = latest(schedule)
    tracks = tracks_of(schedule)
    join_monitors(schedule, tracks)
    entries = entries_of(schedule)
    groups = gathered(schedule, groups_of(schedule, entries))
    running = _running(schedule, tracks)
    groups = told_apart(schedule, groups, running, lambda threads: own_place(schedule, threads))
    workers = forked_workers(schedule)
    groups = forked_apart(
        schedule, groups, lambda one, rest: own_function(schedule, one, rest), workers.__contains__
    )
    groups = joined_by_main(schedule, groups, running, lambda one, name: runs_in(schedule, one, name))
    if labels:
        groups = labelled(schedule, groups, labels)
    groups, of_go, watch = gathered_threads(schedule, groups)
    role_of = {thread: index for index, group in enumerate(groups) for thread in group.threads}
    of_runtime = frozenset(one for role in of_go.values() for one in groups[role].threads)
    spins = spinning(schedule) - of_runtime
    tracks = with_looks(schedule, with_spins(schedule, tracks, role_of, of_runtime), role_of)
    words = words_of(schedule, tracks, role_of)
    times = times_of(schedule, tracks, role_of, words)
    started = root or next((thread.pid for thread in schedule.threads if not thread.peer), 0)
    first = _at_work(schedule, tracks, started)
    mine = _family(schedule, own or frozenset((started,)))
    strangers = frozenset(i for i, thread in enumerate(schedule.threads) if thread.pid not in mine)
    for word in words.values():  # of Go's threads, which park on them
        word.lock &= not any(role_of[one] in of_go.values() for one in word.waiters)
    # Who spins may wait for a thread of which no wake-up tells.
    looks = spins or any(track.spun for track in tracks)
    aside = frozenset() if looks else beside(schedule, groups, role_of, times, first) - of_runtime
    if listens & mine:
        aside |= housekeepers(schedule, groups, role_of, times, first) - of_runtime - strangers
    blame = blame_of(schedule, tracks, groups, spins | strangers | watch | aside, words)
    names = tuple(_thread_name(schedule, groups, role_of, i) for i in range(len(schedule.threads)))
    edges = edges_of(groups, times, schedule.seconds)
    slices = slices_of(schedule, tracks, times)
    parts = split(schedule, groups, role_of, times, blame, of_go, watch)
    schedule, groups, times, blame = parts.schedule, parts.groups, parts.times, parts.blame
    role_of = parts.role_of
    limits = [float(blame.shares[:, list(g.threads), :].sum()) / max(blame.total, 1e-9) for g in groups]
    paced = frozenset(track.thread for track in tracks if by_due_times(track))
    undecided = frozenset(track.thread for track in tracks if may_be_due(track))
    roles = roles_of(schedule, groups, times, limits, spins, paced, undecided)
    roles = tuple(
        replace(role, count=1) if index in {*parts.goroutines.cpus, *parts.goroutines.schedulers} else role
        for index, role in enumerate(roles)
    )
    told = sorted(range(len(roles)), key=lambda index: -roles[index].limits)[:_MOST_PLACED]
    roles = tuple(
        replace(role, code=_places(schedule, role)) if index in told else role
        for index, role in enumerate(roles)
    )
    python = frozenset(
        thread.pid
        for thread in schedule.threads
        if _PYTHON.match(thread.process)
        or (thread.command and _PYTHON.match(PurePath(thread.command[0]).name))
    )
    facts = Facts(
        schedule,
        roles,
        role_of,
        words,
        times,
        blame,
        spins,
        first,
        mine,
        python,
        listens,
        peers or {},
        parts.goroutines,
        frozenset(track.thread for track in tracks if by_even_sleeps(track)),
        asks,
        serve,
        answers or {},
        paces,
        far or {},
        undecided,
    )
    limit = judge(facts)
    late = [(role, one) for role in roles if (one := late_of(facts, role)) is not None]
    alone = next((one for role, one in late if limit.name == instance_of(facts, role, one)), -1)
    apart = limit.kind is LimitKind.UNKNOWN and len(lines_apart(facts)) > 1
    # Their threads are made up: no other part of the answer knows them.
    roles = tuple(
        replace(role, threads=()) if index in parts.goroutines.cpus else role
        for index, role in enumerate(roles)
    )
    losses = schedule.losses
    return ThreadFindings(
        limit=limit,
        roles=tuple(sorted(roles, key=lambda role: -role.limits)),
        edges=edges,
        locks=_locks(words, groups, role_of, blame),
        progress=_progress(blame, groups),
        seconds=schedule.seconds,
        handoffs=blame.changes,
        method=losses.method,
        unseen=losses.unseen_share,
        distrust=_distrust(schedule),
        notes=losses.notes,
        threads=names,
        slices=slices,
        root=first,
        alone=alone,
        apart=apart,
    )


def _places(schedule: Schedule, role: Role) -> tuple[Code, ...]:
    return waiting_places(schedule, role.threads) if role.asleep else hottest(schedule, role.threads)


def _at_work(schedule: Schedule, tracks: Sequence[Track], first: int) -> int:
    """The process itself; of one that only started another and waits for it, as a shell does, that other."""
    window = max(1, schedule.ended_ns - schedule.began_ns)
    while True:
        waited = ran = 0
        children: dict[int, int] = {}
        for track in tracks:
            thread = schedule.threads[track.thread]
            if thread.pid == first:
                # A thread of its own may wait for a child, as asyncio has it, while another one works.
                waited = max(waited, _for_children(track))
                ran += _ran_ns(track)
            elif (
                thread.tid == thread.pid
                and thread.parent >= 0
                and schedule.threads[thread.parent].pid == first
            ):
                children[thread.pid] = thread.ended_ns - thread.began_ns
        if len(children) != 1 or waited < _SUPERVISES * window or ran > (1 - _SUPERVISES) * window:
            return first
        ((child, life),) = children.items()
        if life < _SUPERVISES * window:
            return first
        first = child


def _for_children(track: Track) -> int:
    """How long a thread was blocked until a child ends, or a signal comes."""
    rows = zip(track.begin, track.end, track.state, track.wait, strict=True)
    return sum(
        e - b for b, e, state, wait in rows if state == State.BLOCKED and wait in (Wait.CHILD, Wait.SIGNAL)
    )


def _running(schedule: Schedule, tracks: Sequence[Track]) -> list[float]:
    out = []
    for track in tracks:
        thread = schedule.threads[track.thread]
        out.append(_ran_ns(track) / max(1, thread.ended_ns - thread.began_ns))
    return out


def _ran_ns(track: Track) -> int:
    ran = (np.asarray(track.end) - np.asarray(track.begin))[np.asarray(track.state) == State.RUNNING]
    return int(ran.sum())


def _family(schedule: Schedule, known: frozenset[int]) -> frozenset[int]:
    """The processes that these started in the observed time, and they themselves."""
    family = set(known)
    for thread in sorted(schedule.threads, key=lambda one: one.began_ns):
        if thread.parent >= 0 and schedule.threads[thread.parent].pid in family:
            family.add(thread.pid)
    return frozenset(family)


def _thread_name(schedule: Schedule, groups: tuple[Group, ...], role_of: Mapping[int, int], i: int) -> str:
    thread = schedule.threads[i]
    return f"{groups[role_of[i]].name} ({thread.name}, {thread.tid})"


def _locks(
    words: Mapping[int, Word], groups: tuple[Group, ...], role_of: Mapping[int, int], blame: Blame
) -> tuple[LockUse, ...]:
    found = [word for word in words.values() if word.lock]
    found.sort(key=lambda word: -word.wait_ns)

    def named(threads: Mapping[int, int]) -> tuple[str, ...]:
        return tuple(sorted({groups[role_of[thread]].name for thread in threads}))

    return tuple(
        LockUse(
            word.name,
            0 if word.monitor or word.file or word.set else word.address,
            word.waits,
            word.wait_ns,
            word.longest_ns,
            float(blame.locks[word.key].sum()) / max(blame.total, 1e-9) if word.key in blame.locks else 0.0,
            named(word.waiters),
            named(word.wakers),
            tuple(name for name, _ in word.waits_in.most_common(3)),
        )
        for word in found[:_MOST_LOCKS]
    )


def _progress(blame: Blame, groups: tuple[Group, ...]) -> dict[str, float]:
    total = blame.total
    if total <= 0:
        return {}
    found: dict[str, float] = {}
    for group in groups:
        for cause in (Cause.RUN, Cause.RUNNABLE, Cause.DISK, Cause.TIMER):
            part = float(blame.share(cause, group.threads).sum()) / total
            if part > 0.001:
                found[f"{group.name}: {cause}"] = part
    for cause in (Cause.QUOTA, Cause.STOPPED, Cause.NETWORK, Cause.OUTSIDE, Cause.OPEN, Cause.UNSEEN):
        part = float(blame.share(cause).sum()) / total
        if part > 0.001:
            found[cause] = part
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _distrust(schedule: Schedule) -> tuple[str, ...]:
    losses = schedule.losses
    reasons = []
    if losses.unseen_share > 0.1:
        reasons.append(f"{share(losses.unseen_share)} of the threads' time was not seen")
    if losses.switches and losses.breaks > 0.05 * losses.switches:
        reasons.append(f"{losses.breaks:,} of {losses.switches:,} switches are not continuous")
    return tuple(reasons)
