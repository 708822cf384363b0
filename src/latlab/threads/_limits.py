"""A candidate as a limit: its name, its sentence, and what it rests on.

Over 400 lines: one function a kind of limit, which share how roles are told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath

import numpy as np

from latlab.model.evidence.said import said
from latlab.model.evidence.threads import ThreadEvidence, ThreadFinding, ThreadReason
from latlab.model.threads import Code, Limit, LimitKind, Role
from latlab.schedule.interpreter_lock import takes_one_cpu
from latlab.threads._blame import Cause
from latlab.threads._candidates import IDLE, LEAST, Array, Candidate, Facts
from latlab.threads._code import (
    coroutine_of,
    hottest,
    not_running,
    own_function,
    spin_lock,
    waiting_places,
    while_held,
)
from latlab.threads._edges import busy_of, shares_of
from latlab.threads._locks import Word
from latlab.threads._roles import process_name
from latlab.words import share

__all__ = [
    "counted",
    "described",
    "late_of",
    "load_of",
    "lock_of",
    "locks_of",
    "mutex_of",
    "none_told",
    "owed_by",
    "spun_lock",
]

_MOST_OF_HOLD = 0.5  # of the time that a lock is held
_LATE, _SURE_LATE = 0.6, 0.95  # of the role's progress; of the resampled blocks
_SURE_LOCK = 0.95  # of the resampled blocks, of a lock that no stack tells
_LOCK = 0.35
_MAIN_RUNS, _HARDLY = 0.6, 0.1  # of what all threads run; of its own time at work
_ALONE = 0.8  # of what all threads of an interpreter run
_ALL_LIFE = 0.8  # of a thread's life at work: what it waits for is not what it lacks
_ITS_PROGRESS = 0.5  # of the progress, that such a thread works itself
_TURNS = 0.35  # of their time, that threads of one role wait for each other
_ASLEEP = 0.8  # of its time: then it hardly does anything else
_AT_DISK = 0.05  # of a role's time: worth telling where CPUs are short
_RESAMPLES = 400
_COLLECTS = 0.1  # of samples, and of a CPU: what is worth a sentence
_SIGNATURE = re.compile(r"\(.*\)( const)?$")  # of a function in C++


def locks_of(facts: Facts) -> list[tuple[Array, Word]]:
    """The locks for whose holders the progress waited, with how much of it in each block; the most first."""
    locks = [
        (blocks, facts.words[key])
        for key, blocks in facts.blame.locks.items()
        if key in facts.words and facts.words[key].lock
    ]
    return sorted(locks, key=lambda one: -float(one[0].sum()))


def lock_of(facts: Facts, total: float) -> Limit | None:
    locks = locks_of(facts)
    if not locks:
        return None
    blocks, word = locks[0]
    part = float(blocks.sum()) / total
    if part < _LOCK:
        return None
    confidence = _holds_for_most(blocks, facts.blame.shares.sum(axis=(1, 2)))
    waiters = sorted({facts.role_of[thread] for thread in word.waiters})
    holders = sorted({facts.role_of[thread] for thread in word.wakers})
    threads = set(word.waiters) | set(word.wakers)
    running = sum(facts.times[thread].running for thread in threads) / 1e9 / facts.schedule.seconds
    waiting = sum(facts.times[thread].runnable for thread in threads) / 1e9 / facts.schedule.seconds
    python = all(facts.schedule.threads[thread].pid in facts.python for thread in threads)
    gil = word.interpreter or (
        python
        and (word.timed > 0 or word.beneath_python > 0)
        and not word.sure
        and takes_one_cpu(running, waiting)
    )
    if gil and _one_runs(facts, threads):
        return None
    if not gil and not word.sure and word.beneath_python:
        return None  # of an interpreter's own words only its lock is one
    if not facts.own & {facts.schedule.threads[thread].pid for thread in threads}:
        return _of_peer(facts, threads, word, gil, part, confidence)
    name = "GIL" if gil else word.name
    holding, waiting_roles = _held_by(facts, word.holds, holders), _roles(facts, waiters)
    held = said(ThreadEvidence.HELD_BY, holders=holding, waiters=waiting_roles)
    told = "the interpreter lock (GIL)" if gil else word.told
    if not word.sure and not gil and confidence < _SURE_LOCK:
        return None
    mean_ns = word.wait_ns / max(1, word.waits)
    evidence = [
        said(ThreadEvidence.HOLDER, part=part),
        said(ThreadEvidence.LOCK_WAITS, waits=word.waits, mean_ns=mean_ns, longest_ns=word.longest_ns),
        held,
    ]
    if gil:
        evidence.append(said(ThreadEvidence.TOGETHER, threads=len(threads), cpus=running))
    code = hottest(facts.schedule, threads)
    if word.places and not gil:
        evidence.append(said(ThreadEvidence.WAITED_IN, places=", ".join(word.places[:2])))
    asleep, blocked = (0.0, 0.0) if gil else not_running(facts.schedule, word.holds)
    waits = blocked > _MOST_OF_HOLD  # what it runs beside that is not what others wait for
    if waits:
        sleeps = asleep > _MOST_OF_HOLD
        kind = ThreadEvidence.HELD_ASLEEP if sleeps else ThreadEvidence.HELD_BLOCKED
        evidence.append(said(kind, part=asleep if sleeps else blocked))
    work, held_code = ("", ()) if gil or waits else while_held(facts.schedule, word.holds, word.places)
    if work:
        evidence.append(said(ThreadEvidence.HELD_IN, function=work))
        held = said(ThreadEvidence.HELD_BY_IN, holders=holding, waiters=waiting_roles, function=work)
    return Limit(
        LimitKind.LOCK,
        name,
        confidence,
        part,
        said(ThreadFinding.LOCK, lock=told, part=part, held=held),
        tuple(evidence),
        held_code or code,
    )


def _of_peer(facts: Facts, threads: set[int], word: Word, gil: bool, part: float, confidence: float) -> Limit:
    """A lock of another program: who looks for it has to look there."""
    held = {one: sum(end - begin for begin, end in word.holds.get(one, ())) for one in threads}
    most = facts.schedule.threads[max(sorted(held), key=lambda one: held[one])]
    name = process_name(most)
    running = sum(facts.times[one].running for one in threads) / 1e9 / facts.schedule.seconds
    return Limit(
        LimitKind.PROCESS,
        name,
        confidence,
        part,
        said(
            ThreadFinding.PEER_LOCK,
            name=name,
            pid=most.pid,
            lock="its interpreter lock (GIL)" if gil else f"its {word.what} at {word.address:#x}",
            part=part,
        ),
        (
            said(ThreadEvidence.LOCK_WAITS, waits=word.waits, mean_ns=word.wait_ns / max(1, word.waits),
                 longest_ns=word.longest_ns),
            said(ThreadEvidence.TOGETHER, threads=len(threads), cpus=running),
        ),
        hottest(facts.schedule, threads),
    )  # fmt: skip


def _held_by(facts: Facts, holds: Mapping[int, Sequence[tuple[int, int]]], holders: Sequence[int]) -> str:
    """Who holds a lock; of several roles the one that does for longest first, each with its share."""
    times: Counter[int] = Counter()
    for thread, mine in holds.items():
        times[facts.role_of[thread]] += sum(end - begin for begin, end in mine)
    whole = sum(times.values())
    if len(holders) < 2 or not whole:
        return _roles(facts, holders)
    order = sorted(holders, key=lambda role: -times[role])
    return ", ".join(f"{counted(facts.roles[role])} ({share(times[role] / whole)})" for role in order)


def mutex_of(facts: Facts) -> Limit | None:
    """Go's mutex for which goroutines wait, by the function that takes it."""
    lock = facts.goroutines.lock
    if lock is None:
        return None
    part = float(lock.blocks.sum()) / facts.blame.total
    taken = said(ThreadEvidence.TAKEN_BY, roles=_roles(facts, lock.roles))
    told = f"the mutex that {lock.function} takes"
    seen = (
        said(ThreadEvidence.IN_TURN, count=lock.in_turn, function=lock.function)
        if lock.in_turn
        else said(ThreadEvidence.CONTENDED, function=lock.function, part=lock.contends)
    )
    return Limit(
        LimitKind.LOCK,
        f"mutex in {lock.function}",
        _holds_for_most(lock.blocks, facts.blame.shares.sum(axis=(1, 2))),
        part,
        said(ThreadFinding.MUTEX, lock=told, held=lock.held),
        (seen, taken),
        hottest(facts.schedule, lock.threads),
    )


def _holds_for_most(blocks: Array, everything: Array) -> float:
    """How often resampled blocks of the time give a lock enough of the progress."""
    used = everything > 0
    random = np.random.default_rng(23)
    drawn = random.integers(0, int(used.sum()), (_RESAMPLES, int(used.sum())))
    parts = blocks[used][drawn].sum(axis=1) / everything[used][drawn].sum(axis=1)
    return min(float((parts > _LOCK * 0.8).mean()), 1 - 3 / _RESAMPLES)


def _one_runs(facts: Facts, threads: set[int]) -> bool:
    """Whether one thread does nearly all that they run: it limits, and not what the others lack.

    A main thread that does most of it, and hardly waits for the lock, ends no sooner without the lock;
    nor does one that works, or would if it had a CPU, for nearly all of its life, if most of the progress
    is its own: of several that sleep each speaks for the progress, and may wait for who works beside them.
    """
    ran = sum(facts.times[thread].running for thread in threads)
    first = max(threads, key=lambda thread: facts.times[thread].running)
    mine, who = facts.times[first], facts.schedule.threads[first]
    if mine.running >= _ALONE * ran:
        return True
    waits, works = mine.blocked.get("futex", 0), mine.running + mine.runnable
    its_own = who.tid == who.pid or facts.roles[facts.role_of[first]].limits >= _ITS_PROGRESS
    if its_own and works >= _ALL_LIFE * mine.life:
        return True
    main = who.tid == who.pid and mine.running >= _MAIN_RUNS * ran
    return main and waits <= _HARDLY * works


def _roles(facts: Facts, indices: Sequence[int]) -> str:
    return ", ".join(counted(facts.roles[index]) for index in indices)


def counted(role: Role) -> str:
    return f"{role.count} × {role.name}" if role.count > 1 else role.name


def late_of(facts: Facts, role: Role) -> int | None:
    """The one thread of a role that the progress waited for, where it isn't all of them.

    Of two that take the longer part by turns one had it more often, in this run: that makes none a late one.
    """
    if role.count < 2:
        return None
    blocks = _at_work(facts, role.threads)
    shares = blocks.sum(axis=1)
    whole = float(shares.sum())
    best = int(np.argmax(shares))
    busy = [facts.times[one].running + facts.times[one].own for one in role.threads]
    # A parent that only waits for its children makes none of two alike a late one.
    others = max(one for at, one in enumerate(busy) if at != best)
    if whole <= 0 or shares[best] <= _LATE * whole or busy[best] <= 1.25 * others:
        return None
    random = np.random.default_rng(23)
    used = blocks[:, blocks.sum(axis=0) > 0]
    drawn = random.integers(0, used.shape[1], (_RESAMPLES, used.shape[1]))
    parts = used[best][drawn].sum(axis=1) / used.sum(axis=0)[drawn].sum(axis=1)
    return role.threads[best] if float((parts > _LATE).mean()) >= _SURE_LATE else None


def _at_work(facts: Facts, threads: Sequence[int]) -> Array:
    """Shape (threads, blocks): the progress that waited for the work of each."""
    shares = [
        facts.blame.share(Cause.RUN, [one]) + facts.blame.share(Cause.RUNNABLE, [one]) for one in threads
    ]
    return np.array(shares)


def _part_of(facts: Facts, role: Role, late: int) -> float:
    """Of the progress that waited for a role's work, the part that waited for one of its threads."""
    shares = _at_work(facts, role.threads).sum(axis=1)
    return float(shares[role.threads.index(late)] / max(float(shares.sum()), 1e-12))


def _sleeper(facts: Facts, role: Role) -> int | None:
    """The one thread of a role whose sleeps the progress waited for, where it isn't all of them."""
    if role.count < 2:
        return None
    shares = [float(facts.blame.share(Cause.TIMER, [one]).sum()) for one in role.threads]
    best = int(np.argmax(shares))
    slept = [facts.times[one].timer / facts.times[one].life for one in role.threads]
    others = (sum(slept) - slept[best]) / (len(slept) - 1)
    alone = shares[best] > 0.9 * sum(shares) and slept[best] > 1.25 * others
    return role.threads[best] if alone else None


def described(facts: Facts, first: Candidate, part: float, confidence: float) -> Limit:
    if first.kind in (LimitKind.THREAD, LimitKind.PROCESS):
        return _of_role(facts, first, part, confidence)
    if first.kind is LimitKind.CPU:
        return _of_cpu(facts, first, part, confidence)
    if first.kind is LimitKind.DISK:
        threads = _threads_with(facts, Cause.DISK)
        roles = sorted({facts.role_of[thread] for thread in threads})
        where = "" if first.name == "disk" else f" ({first.name})"
        least = facts.schedule.disk_limit
        limited = (said(ThreadEvidence.DISK_LIMIT, limit=least),) if least else ()
        return Limit(
            LimitKind.DISK,
            first.name,
            confidence,
            part,
            said(ThreadFinding.DISK, where=where, part=part),
            (
                said(ThreadEvidence.ROLES_WAITED, roles=_roles(facts, roles)),
                *limited,
                *_blocked_of(facts, roles),
            ),
            waiting_places(facts.schedule, threads),
        )
    if first.kind is LimitKind.TIMER:
        role = facts.roles[first.roles[0]]
        sleeper = _sleeper(facts, role)
        asleep: Sequence[int] = role.threads if sleeper is None else (sleeper,)
        name = role.name if sleeper is None else instance_of(facts, role, sleeper)
        if first.roles[0] in facts.goroutines.schedulers:
            name = f"goroutines of {role.process}"  # no sample tells which: they sleep on no thread
        shown = name if sleeper is not None or name != role.name else counted(role)
        running = _mean(facts, asleep, "running")
        times = [facts.times[one] for one in asleep]
        life = max(1, sum(one.life for one in times))
        slept, inner = sum(one.timer for one in times) / life, sum(one.inner for one in times) / life
        told = said(ThreadFinding.SLEEPS, who=shown, part=part)
        if role.paced:
            told = said(ThreadFinding.PACES, who=shown, running=running)
        elif len(asleep) > 1 and inner >= _TURNS:
            told = said(ThreadFinding.SLEEPS_IN_TURN, who=shown, part=part, inner=inner)
        runnable = sum(one.runnable for one in times) / life
        waited = max(0.0, 1 - running - runnable - slept)
        did = {"who": shown, "running": running, "runnable": runnable, "asleep": slept, "waited": waited}
        mostly = said(ThreadEvidence.SLEPT, who=shown, running=running)
        return Limit(
            LimitKind.TIMER,
            name,
            confidence,
            part,
            told,
            (mostly if slept >= _ASLEEP else said(ThreadEvidence.RAN_AND_SLEPT, **did),),
            # Where a goroutine sleeps no thread waits: where it works tells which it is.
            (hottest if first.roles[0] in facts.goroutines.cpus else waiting_places)(facts.schedule, asleep),
        )
    if first.kind is LimitKind.LOAD:
        clients = sorted(
            {facts.roles[index].name for index in first.roles if not facts.own & set(facts.roles[index].pids)}
        )
        told = said(ThreadReason.NO_WORK)
        if clients:
            told = said(ThreadReason.CLIENTS, clients=", ".join(clients[:3]))
        return load_of(facts, told, part, confidence)
    if first.kind is LimitKind.NETWORK:
        return _of_outside(
            facts, first, said(ThreadFinding.NETWORK, peer=first.name, part=part), part, confidence
        )
    return none_told(said(ThreadReason.STOPPED))


def _of_outside(facts: Facts, first: Candidate, sentence: str, part: float, confidence: float) -> Limit:
    """Of what none of the program's threads does."""
    blocked = _blocked_of(facts, range(len(facts.roles)))
    return Limit(first.kind, first.name, confidence, part, sentence, blocked)


def _of_role(facts: Facts, first: Candidate, part: float, confidence: float) -> Limit:
    if not first.roles:
        return _of_outside(
            facts, first, said(ThreadFinding.PROCESS, name=first.name, part=part), part, confidence
        )
    role = facts.roles[first.roles[0]]
    spun = spin_lock(facts.schedule, role.threads) if len(role.threads) > 1 else None
    if spun is not None:
        return _of_spin_lock(facts, role, spun, part, confidence)
    late = late_of(facts, role)
    if late is not None:
        part *= _part_of(facts, role, late)
    together = facts.goroutines.cpus.get(first.roles[0], 0.0)
    threads: Sequence[int] = role.threads if late is None else (late,)
    name = role.name if late is None else instance_of(facts, role, late)
    shown = counted(role) if late is None else f"{name}, one of {role.count}"
    held = coroutine_of(facts.schedule, threads) if set(role.pids) & facts.python else None
    if held is not None:
        name = held.function
        shown = f"{name} ({PurePath(held.file).name}:{held.line}), which holds the event loop"
    asleep = _mean(facts, threads, "timer")
    others_had = max(0.0, 1 - sum(busy_of(facts.times[one]) for one in threads) / len(threads) - asleep)
    times = {
        "who": "each" if role.count > 1 and late is None else "it",
        "running": _mean(facts, threads, "running"),
        "runnable": _mean(facts, threads, "runnable"),
        "waited": others_had,
    }
    evidence = [
        said(ThreadEvidence.WAITED_FOR, name=name, part=part),
        said(ThreadEvidence.RAN_AND_SLEPT, asleep=asleep, **times)
        if asleep > IDLE
        else said(ThreadEvidence.RAN, **times),
    ]
    if late is not None:
        rest = [one for one in role.threads if one != late]
        evidence.append(said(ThreadEvidence.ITS_ROLE, running=_mean(facts, rest, "running")))
    if together > 1:
        evidence.append(said(ThreadEvidence.GOROUTINES, cpus=together))
    collects = facts.goroutines.collector
    allocates = facts.goroutines.allocates.get(first.roles[0], 0.0)
    if together and max(allocates, collects) >= _COLLECTS:
        evidence.append(said(ThreadEvidence.COLLECTS, part=allocates, cpus=collects))
    others = [
        other
        for index, other in enumerate(facts.roles)
        if index != first.roles[0]
        and other.busy > 0.01
        and not other.spins
        and index not in facts.goroutines.schedulers
    ]
    if others:
        busiest = max(others, key=lambda one: one.busy)
        ran, ready = shares_of([facts.times[one] for one in busiest.threads], facts.schedule)
        evidence.append(said(ThreadEvidence.NEXT, who=counted(busiest), running=ran, runnable=ready))
    spinning = [other for other in facts.roles if other.spins]
    evidence += [said(ThreadEvidence.SPINS, who=counted(other)) for other in spinning]
    code = hottest(facts.schedule, threads)
    asks = "another process, " if not facts.own & set(role.pids) else ""
    sleeps = f", which sleeps {share(asleep)} of the time" if asleep >= LEAST or first.by_turns else ""
    sentence = said(ThreadFinding.ROLE, who=asks + shown, sleeps=sleeps, part=part)
    if code and code[0].share >= 0.3:
        caller = code[0].caller
        told = (
            code[0].told if caller and caller not in role.name and caller != role.entry else code[0].function
        )
        where = {"function": told, "samples": code[0].share}
        sentence = said(ThreadFinding.ROLE_IN, who=asks + shown, sleeps=sleeps, part=part, **where)
    kind = first.kind
    if late is not None and kind is LimitKind.THREAD and facts.schedule.threads[late].pid != facts.root:
        kind = LimitKind.PROCESS  # of a role that the program's own process shares, it is another one
    return Limit(kind, name, confidence, part, sentence, tuple(evidence), code)


def _of_spin_lock(facts: Facts, role: Role, spun: Code, part: float, confidence: float) -> Limit:
    name = f"spin lock in {spun.function}"
    where = f"{PurePath(spun.file).name}:{spun.line}"
    return Limit(
        LimitKind.LOCK,
        name,
        confidence,
        part,
        said(ThreadFinding.SPIN_LOCK, name=name, place=where, who=counted(role), spun=spun.share),
        (
            said(ThreadEvidence.WAITED_FOR, name=role.name, part=part),
            said(ThreadEvidence.EACH_RAN, running=_mean(facts, role.threads, "running")),
        ),
        hottest(facts.schedule, role.threads),
    )


def spun_lock(facts: Facts, part: float, confidence: float) -> Limit | None:
    """The lock for which a role's threads spin for most of what the program's threads run."""
    ran = sum(one.used for one in facts.times)
    for role in sorted(facts.roles, key=lambda one: -one.running * one.count):
        spun = spin_lock(facts.schedule, role.threads) if role.count > 1 else None
        mine = sum(facts.times[thread].used for thread in role.threads)
        if spun is not None and mine > 0.5 * ran:
            return _of_spin_lock(facts, role, spun, part, confidence)
    return None


def instance_of(facts: Facts, role: Role, thread: int) -> str:
    one = facts.schedule.threads[thread]
    same = sum(facts.schedule.threads[other].name == one.name for other in role.threads)
    if same == 1:
        return one.name if one.name in role.name or role.name in one.name else f"{role.name}: {one.name}"
    own = own_function(facts.schedule, thread, [other for other in role.threads if other != thread])
    if own:
        return f"{role.name}: {_SIGNATURE.sub('', own.replace('(anonymous namespace)::', ''))}"
    what = f"pid {one.pid}" if len(role.pids) == role.count else f"thread {one.tid}"
    return f"{role.name} ({what})"


def _mean(facts: Facts, threads: Sequence[int], name: str) -> float:
    shares = [float(getattr(facts.times[one], name)) / facts.times[one].life for one in threads]
    return sum(shares) / len(shares)


def _of_cpu(facts: Facts, first: Candidate, part: float, confidence: float) -> Limit:
    seconds = facts.schedule.seconds
    cpus = max(1, len(facts.schedule.cpus))
    own = sum(one.used for one in facts.times) / 1e9 / seconds
    waiting = sum(one.runnable for one in facts.times) / 1e9 / seconds
    runnable = float(facts.blame.share(Cause.RUNNABLE).sum()) / facts.blame.total
    evidence = [
        said(ThreadEvidence.NO_CPU, runnable=runnable),
        said(ThreadEvidence.USED, used=own, cpus=cpus, waiting=waiting),
    ]
    if facts.blame.stranger:
        names = facts.schedule.foreign_names
        by_name: Counter[str] = Counter()
        for tid, had in facts.blame.stranger.items():
            by_name[names.get(tid, "?")] += had  # type: ignore[assignment]
        listed = ", ".join(f"{name} {share(had)}" for name, had in by_name.most_common(3))
        everybody = sum(facts.blame.stranger.values())
        evidence.append(said(ThreadEvidence.OTHERS_HAD, part=everybody, listed=listed))
    if first.name == "CPU quota":
        stopped = facts.schedule.throttled_ns / 1e9 / seconds
        limited = f" ({facts.schedule.quota})" if facts.schedule.quota else ""
        sentence = said(ThreadFinding.QUOTA, quota=limited, stopped=min(1.0, stopped or part))
    elif first.name == "CPUs":
        sentence = said(ThreadFinding.CPUS, runnable=runnable, disk=_disk_behind(facts))
    else:
        shared = {"name": first.name, "runnable": runnable, "disk": _disk_behind(facts)}
        sentence = said(ThreadFinding.CPUS_SHARED, **shared)
    busiest = sorted(facts.roles, key=lambda role: -role.runnable * role.count)[:2]
    evidence += [
        said(ThreadEvidence.ROLE_RAN, who=counted(role), running=role.running, runnable=role.runnable)
        for role in busiest
        if role.runnable > 0.01
    ]
    name = first.name if first.name in ("CPUs", "CPU quota") else f"CPUs (neighbour {first.name})"
    code = hottest(facts.schedule, range(len(facts.times)))
    return Limit(LimitKind.CPU, name, confidence, part, sentence, tuple(evidence), code)


def _disk_behind(facts: Facts) -> str:
    """That who is short of CPUs waits for the disk as well: each wait for that costs one for a CPU; or ""."""
    role = max(facts.roles, key=lambda one: one.limits, default=None)
    waits = 0.0 if role is None else sum(role.blocked.get(kind, 0.0) for kind in ("disk", "sync"))
    if role is None or waits < _AT_DISK:
        return ""
    return said(ThreadFinding.DISK_COSTS_CPU, who=counted(role), part=waits)


def _threads_with(facts: Facts, cause: str) -> list[int]:
    column = facts.blame.shares[:, :, facts.blame.causes.index(cause)].sum(axis=0)
    return [int(thread) for thread in np.flatnonzero(column > 0.05 * column.max())]


def _blocked_of(facts: Facts, roles: Sequence[int]) -> tuple[str, ...]:
    lines = []
    for index in roles:
        role = facts.roles[index]
        if role.blocked:
            kind, part = next(iter(role.blocked.items()))
            lines.append(said(ThreadEvidence.BLOCKED, who=counted(role), part=part, on=kind))
    return tuple(lines[:4])


def load_of(facts: Facts, why: str, part: float, confidence: float) -> Limit:
    working = sum(one.used for one in facts.times) / 1e9 / facts.schedule.seconds
    return Limit(
        LimitKind.LOAD,
        "load",
        confidence,
        part,
        said(ThreadFinding.LOAD, why=why, part=part),
        (said(ThreadEvidence.ALL_USED, cpus=working),),
    )


def none_told(why: str, *more: str) -> Limit:
    return Limit(
        LimitKind.UNKNOWN, "", 0.0, 0.0, said(ThreadFinding.UNKNOWN, why=why), more, (), (why, *more)
    )


def owed_by(name: str) -> Limit:
    """The program that has had a request and did nothing for who asks in all of the time."""
    return Limit(
        LimitKind.PROCESS,
        name,
        1 - 3 / _RESAMPLES,
        1.0,
        said(ThreadFinding.PROCESS, name=name, part=1.0),
        (said(ThreadEvidence.OWES, name=name),),
        (),
        (said(ThreadReason.ASK_THE_OTHER),),
    )
