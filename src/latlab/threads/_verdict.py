"""From the shares of progress to one limit, or to none with the reason.

Every gate withholds a name. A name is given only if its share of the progress leads clearly, if resampled
blocks of the time give it again, and if no other role that works with it is as busy: making one of two
equally slow stages faster buys nothing, whichever the path ran through by chance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule
from latlab.model.threads import Code, Limit, LimitKind, Role
from latlab.threads._blame import Blame, Cause
from latlab.threads._code import coroutine_of, hottest, in_sync, own_function, spin_lock, waiting_places
from latlab.threads._edges import Times, busy_of
from latlab.threads._locks import Word
from latlab.threads._path import Piece
from latlab.words import count, duration, plural, share

__all__ = ["Facts", "judge"]

Array = np.ndarray[Any, Any]

_SHORTEST_S = 0.1
_UNSEEN = 0.25  # of the progress
_LEAST = 0.4  # of the progress, that a name needs
_CLEAR = 0.7  # of the leader's share: a runner-up above it is as good
_ALIKE = 0.93  # of the leader's busy share
_ALIKE_WORK = 0.85  # of what the leader runs: having no CPU makes one of two equal stages busier by chance
_SURE = 0.95  # of the resampled blocks
_LOCK = 0.35
_LOCK_TOO = 0.15  # of the progress: a role whose threads wait for one lock so much is not named for it
_CPU = 0.4  # of the progress runnable, whoever had the CPUs
_CPU_OWN = 0.2  # the same, where the program itself has used them all
_FULL = 0.9
_THROTTLED = 0.4  # of the runnable progress: then the quota is why it had no CPU
_RESAMPLES = 400
_SIGNATURE = re.compile(r"\(.*\)( const)?$")  # of a function in C++
_IDLE = 0.02
_FILE = 0.3  # of the waits for the disk: a file that has so much of them names them


@dataclass(frozen=True)
class Facts:
    """All that the verdict rests on.

    Attributes:
        root: the process that was asked about; its children are other processes. own: all that belong to it.
        listens: processes that accept connections: waiting for one is waiting for work.
        peers: of a socket's object who is at its other end, where known.
    """

    schedule: Schedule
    roles: tuple[Role, ...]
    role_of: Mapping[int, int]
    words: Mapping[int, Word]
    times: Sequence[Times]
    blame: Blame
    spins: frozenset[int]
    root: int
    own: frozenset[int]
    python: frozenset[int] = frozenset()
    listens: frozenset[int] = frozenset()
    peers: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Candidate:
    kind: LimitKind
    name: str
    blocks: Array
    roles: tuple[int, ...] = ()

    @property
    def total(self) -> float:
        return float(self.blocks.sum())


def judge(facts: Facts) -> Limit:
    """The limit."""
    blame = facts.blame
    if facts.schedule.seconds < _SHORTEST_S:
        return _none(
            f"it was observed for {duration(facts.schedule.seconds * 1e9)} only",
            "a run of a second or more, or --seconds 10, shows enough",
        )
    total = blame.total
    working = sum(one.running for one in facts.times) / 1e9 / facts.schedule.seconds
    if total <= 0:
        if working > _IDLE:
            return _none("its threads run, but no wait of them was seen to end")
        return _load(facts, "No thread of it did anything", 1.0, 1.0)
    unseen = float(blame.share(Cause.UNSEEN).sum()) / total
    if unseen > _UNSEEN or facts.schedule.losses.unseen_share > _UNSEEN:
        return _none(
            "what its progress waited for could not be seen for "
            f"{share(max(unseen, facts.schedule.losses.unseen_share))} of the time",
            *facts.schedule.losses.notes,
        )
    lock = _lock(facts, total)
    if lock is not None:
        return lock
    candidates = sorted(_candidates(facts), key=lambda one: -one.total)
    first = candidates[0]
    second = candidates[1] if len(candidates) > 1 else None
    confidence = _confidence(candidates)
    part = first.total / total
    described = _described(facts, first, part, confidence)
    if part < _LEAST:
        return _withheld(facts, candidates, "nothing leads: " + _listed(candidates, total))
    if second is not None and second.total > _CLEAR * first.total:
        return _withheld(facts, candidates, "two limit in turn: " + _listed(candidates, total))
    if first.kind in (LimitKind.THREAD, LimitKind.PROCESS):
        alike = _alike(facts, first) or _locked(facts, first, total) or _without_cpus(facts, first)
        if alike is not None:
            return _withheld(facts, candidates, alike)
    if confidence < _SURE:
        return _withheld(
            facts,
            candidates,
            f"it changes with time: parts of the observed time give {first.name} in {share(confidence)} of "
            "the cases only",
        )
    return described


def _candidates(facts: Facts) -> list[_Candidate]:
    blame = facts.blame
    found = []
    run, runnable = blame.share(Cause.RUN), blame.share(Cause.RUNNABLE)
    total = blame.total
    cpus = max(1, len(facts.schedule.cpus))
    own = sum(one.running for one in facts.times) / 1e9 / facts.schedule.seconds / cpus
    waits = float(runnable.sum()) / total
    throttled = facts.schedule.throttled_ns / 1e9 / facts.schedule.seconds
    held_back = throttled >= _THROTTLED * waits and waits >= _CPU_OWN
    starved = held_back or waits >= _CPU or (own >= _FULL and waits >= _CPU_OWN)
    # Where CPUs are short, what runs on the path is what they are short for: both are one finding.
    synced = np.zeros_like(run)
    if held_back:
        found.append(_Candidate(LimitKind.CPU, "CPU quota", run + runnable))
    elif starved:
        name = _stranger(facts) if blame.foreign > 0.5 * own or blame.foreign > 0.3 else ""
        found.append(_Candidate(LimitKind.CPU, name or "CPUs", run + runnable))
    else:
        for index, role in enumerate(facts.roles):
            ran = blame.share(Cause.RUN, role.threads)
            durable = ran * in_sync(facts.schedule, role.threads)
            synced = synced + durable
            blocks = ran - durable + blame.share(Cause.RUNNABLE, role.threads)
            kind = _kind_of(facts, role)
            name = "load" if kind is LimitKind.LOAD else role.name
            found.append(_Candidate(kind, name, blocks, (index,)))
    found.append(_Candidate(LimitKind.CPU, "CPU quota", blame.share(Cause.QUOTA)))
    found.append(_Candidate(LimitKind.DISK, _disk_name(facts), blame.share(Cause.DISK) + synced))
    serving = _serving(facts)
    for index, role in enumerate(facts.roles):
        blocks = blame.share(Cause.TIMER, role.threads)
        if not blocks.sum() > 0.01 * total:
            continue
        idle = any(pid in facts.listens for pid in role.pids) and role.running < _LEAST and serving
        if idle:
            found.append(_Candidate(LimitKind.LOAD, "load", blocks, (index,)))
        elif not facts.own & set(role.pids) and _kind_of(facts, role) is LimitKind.PROCESS:
            found.append(_Candidate(LimitKind.PROCESS, role.name, blocks, (index,)))
        else:
            found.append(_Candidate(LimitKind.TIMER, role.name, blocks, (index,)))
    outside = blame.share(Cause.OUTSIDE) + blame.share(Cause.NETWORK) + blame.share(Cause.OPEN)
    if outside.sum() > 0:
        kind, name = _outside(facts)
        found.append(_Candidate(kind, name, outside))
    found.append(_Candidate(LimitKind.UNKNOWN, "stopped", blame.share(Cause.STOPPED)))
    return _merged(found)


def _serving(facts: Facts) -> bool:
    """Whether it is a server that was asked about, and not a program that has one of its own."""
    clients = [one for one in facts.roles if facts.own & set(one.pids) and not facts.listens & set(one.pids)]
    return bool(facts.listens) and all(one.running < _IDLE for one in clients)


def _merged(found: Sequence[_Candidate]) -> list[_Candidate]:
    """Those of one kind and name as one."""
    by_name: dict[tuple[LimitKind, str], _Candidate] = {}
    for one in found:
        key = (one.kind, one.name)
        if key in by_name:
            other = by_name[key]
            one = replace(other, blocks=other.blocks + one.blocks, roles=other.roles + one.roles)
        by_name[key] = one
    return list(by_name.values())


def _kind_of(facts: Facts, role: Role) -> LimitKind:
    """Of a role as a limit: a server that waits for a client's process waits for work."""
    if facts.root in role.pids:
        return LimitKind.THREAD
    if facts.listens & facts.own and not facts.own & set(role.pids):
        return LimitKind.LOAD
    return LimitKind.PROCESS


def _confidence(candidates: Sequence[_Candidate]) -> float:
    """How often the same leads clearly when blocks of the time are drawn anew."""
    blocks = np.stack([one.blocks for one in candidates])
    used = blocks.sum(axis=0) > 0
    blocks = blocks[:, used]
    if blocks.shape[1] < 3 or len(candidates) < 2:
        return 1.0
    random = np.random.default_rng(23)
    drawn = random.integers(0, blocks.shape[1], (_RESAMPLES, blocks.shape[1]))
    sums = blocks[:, drawn].sum(axis=2)
    others = sums[1:].max(axis=0)
    leads = float((sums[0] > others).mean())
    # None of n resamples tells of less than about 3 / n.
    return min(leads, 1 - 3 / _RESAMPLES)


def _lock(facts: Facts, total: float) -> Limit | None:
    locks = [
        (blocks, facts.words[key])
        for key, blocks in facts.blame.locks.items()
        if key in facts.words and facts.words[key].lock
    ]
    if not locks:
        return None
    blocks, word = max(locks, key=lambda one: float(one[0].sum()))
    part = float(blocks.sum()) / total
    if part < _LOCK:
        return None
    everything = facts.blame.shares.sum(axis=(1, 2))
    used = everything > 0
    random = np.random.default_rng(23)
    drawn = random.integers(0, int(used.sum()), (_RESAMPLES, int(used.sum())))
    parts = blocks[used][drawn].sum(axis=1) / everything[used][drawn].sum(axis=1)
    confidence = min(float((parts > _LOCK * 0.8).mean()), 1 - 3 / _RESAMPLES)
    waiters = sorted({facts.role_of[thread] for thread in word.waiters})
    holders = sorted({facts.role_of[thread] for thread in word.wakers})
    threads = set(word.waiters) | set(word.wakers)
    running = sum(facts.times[thread].running for thread in threads) / 1e9 / facts.schedule.seconds
    python = all(facts.schedule.threads[thread].pid in facts.python for thread in threads)
    gil = word.interpreter or (python and word.timed > 0 and 0.6 < running < 1.15 and not word.sure)
    name = "GIL" if gil else word.name
    said = f"held by {_roles(facts, holders)}, waited for by {_roles(facts, waiters)}"
    where = f", waited for in {word.places[0]}" if word.places else ""
    told = "the interpreter lock (GIL)" if gil else f"the lock at {word.address:#x}{where}"
    if not word.sure and not gil and confidence < _SURE:
        return None
    evidence = [
        f"the progress waited for its holder {share(part)} of the time",
        f"{count(word.waits)} waits for it, {duration(word.wait_ns / max(1, word.waits))} each on average, "
        f"at most {duration(word.longest_ns)}",
        said,
    ]
    if gil:
        evidence.append(f"its {plural(len(threads), 'thread')} together ran {running:.2f} CPUs")
    code = hottest(facts.schedule, threads)
    if word.places and not gil:
        evidence.append("waited for in " + ", ".join(word.places[:2]))
    return Limit(
        LimitKind.LOCK,
        name,
        confidence,
        part,
        f"Bottleneck: {told}. Progress waited for it {share(part)} of the time; it is {said}.",
        tuple(evidence),
        code,
    )


def _roles(facts: Facts, indices: Sequence[int]) -> str:
    return ", ".join(_counted(facts.roles[index]) for index in indices)


def _counted(role: Role) -> str:
    return f"{role.count} × {role.name}" if role.count > 1 else role.name


def _alike(facts: Facts, first: _Candidate) -> str | None:
    """Another role of the same work that has as little time to spare."""
    (index,) = first.roles[:1]
    leader = facts.roles[index]
    near = _connected(facts, index)
    for other in sorted(near, key=lambda one: -facts.roles[one].busy):
        role = facts.roles[other]
        if other == index or role.spins or role.busy < 0.5:
            continue
        work, most = _work(facts, role), _work(facts, leader)
        if role.busy >= _ALIKE * leader.busy or (work >= _ALIKE_WORK * most and role.runnable < 0.5):
            return (
                f"{_counted(leader)} and {_counted(role)} are alike: they are busy {share(leader.busy)} and "
                f"{share(role.busy)} of the time"
            )
    return None


def _locked(facts: Facts, first: _Candidate, total: float) -> str | None:
    """A lock for which the role's own threads wait: it or their work limits."""
    for key, blocks in facts.blame.locks.items():
        word = facts.words.get(key)
        if word is None or not word.lock or blocks.sum() < _LOCK_TOO * total:
            continue
        members = [thread for index in first.roles for thread in facts.roles[index].threads]
        waited = sum(word.waiters[thread] for thread in members)
        if waited >= _LOCK_TOO * sum(facts.times[thread].life for thread in members):
            return (
                f"{first.name} works, and its threads wait for {word.name} in "
                f"{share(float(blocks.sum()) / total)} of the time: either may limit"
            )
    return None


def _without_cpus(facts: Facts, first: _Candidate) -> str | None:
    """Threads of one role that take turns on too few CPUs: some one of them always runs, and yet all wait."""
    if not first.roles:
        return None
    role = facts.roles[first.roles[0]]
    if role.count < 2 or role.runnable < _CPU or role.runnable < role.running:
        return None
    return (
        f"{_counted(role)} ran {share(role.running)} of the time and were runnable without a CPU "
        f"{share(role.runnable)}: their work or the CPUs may limit"
    )


def _work(facts: Facts, role: Role) -> float:
    """Share of its threads' time that they run or use a device."""
    members = [facts.times[thread] for thread in role.threads]
    return sum(one.running + one.own for one in members) / max(1, sum(one.life for one in members))


def _connected(facts: Facts, index: int) -> set[int]:
    """All roles that work with this one, over any number of others."""
    neighbours: dict[int, set[int]] = {}
    for thread, one in enumerate(facts.times):
        mine = facts.role_of[thread]
        for (other, _), (number, _) in one.ended.items():
            if number >= 3:
                neighbours.setdefault(mine, set()).add(other)
                neighbours.setdefault(other, set()).add(mine)
    seen, left = {index}, [index]
    while left:
        for other in neighbours.get(left.pop(), ()):
            if other not in seen:
                seen.add(other)
                left.append(other)
    return seen


def _late(facts: Facts, role: Role) -> int | None:
    """The one thread of a role that the progress waited for, where it isn't all of them."""
    if role.count < 2:
        return None
    shares = [
        float((facts.blame.share(Cause.RUN, [one]) + facts.blame.share(Cause.RUNNABLE, [one])).sum())
        for one in role.threads
    ]
    whole = sum(shares)
    best = int(np.argmax(shares))
    busy = [facts.times[one].running + facts.times[one].own for one in role.threads]
    others = (sum(busy) - busy[best]) / (len(busy) - 1)
    if whole > 0 and shares[best] > 0.6 * whole and busy[best] > 1.25 * others:
        return role.threads[best]
    return None


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


def _described(facts: Facts, first: _Candidate, part: float, confidence: float) -> Limit:
    if first.kind in (LimitKind.THREAD, LimitKind.PROCESS):
        return _of_role(facts, first, part, confidence)
    if first.kind is LimitKind.CPU:
        return _of_cpu(facts, first, part, confidence)
    if first.kind is LimitKind.DISK:
        threads = _threads_with(facts, Cause.DISK)
        roles = sorted({facts.role_of[thread] for thread in threads})
        said = f"{_roles(facts, roles)} waited for it"
        where = "" if first.name == "disk" else f" ({first.name})"
        return Limit(
            LimitKind.DISK,
            first.name,
            confidence,
            part,
            f"Bottleneck: the disk{where}. Progress waited for it {share(part)} of the time.",
            (said, *_blocked_of(facts, roles)),
            waiting_places(facts.schedule, threads),
        )
    if first.kind is LimitKind.TIMER:
        role = facts.roles[first.roles[0]]
        sleeper = _sleeper(facts, role)
        asleep: Sequence[int] = role.threads if sleeper is None else (sleeper,)
        name = role.name if sleeper is None else _instance(facts, role, sleeper)
        shown = _counted(role) if sleeper is None else name
        return Limit(
            LimitKind.TIMER,
            name,
            confidence,
            part,
            f"No resource is short: the program waits for the sleeps of {shown}, {share(part)} of the time.",
            (f"{shown} ran {share(_mean(facts, asleep, 'running'))} of the time and slept else",),
            waiting_places(facts.schedule, asleep),
        )
    if first.kind is LimitKind.LOAD:
        clients = sorted(
            {facts.roles[index].name for index in first.roles if not facts.own & set(facts.roles[index].pids)}
        )
        told = f"It waits for its clients ({', '.join(clients[:3])})" if clients else "It waits for work"
        return _load(facts, told, part, confidence)
    if first.kind is LimitKind.NETWORK:
        return Limit(
            LimitKind.NETWORK,
            first.name,
            confidence,
            part,
            f"Bottleneck: the network peer {first.name}. Progress waited for it {share(part)} of the time.",
            _blocked_of(facts, range(len(facts.roles))),
        )
    return _none("the program was stopped by a signal or a debugger")


def _of_role(facts: Facts, first: _Candidate, part: float, confidence: float) -> Limit:
    if not first.roles:
        return Limit(
            first.kind,
            first.name,
            confidence,
            part,
            f"Bottleneck: another process, {first.name}. Progress waited for it {share(part)} of the time.",
            _blocked_of(facts, range(len(facts.roles))),
        )
    role = facts.roles[first.roles[0]]
    spun = spin_lock(facts.schedule, role.threads) if len(role.threads) > 1 else None
    if spun is not None:
        return _of_spin_lock(facts, role, spun, part, confidence)
    late = _late(facts, role)
    threads: Sequence[int] = role.threads if late is None else (late,)
    name = role.name if late is None else _instance(facts, role, late)
    shown = _counted(role) if late is None else f"{name}, one of {role.count}"
    held = coroutine_of(facts.schedule, threads) if set(role.pids) & facts.python else None
    if held is not None:
        name = held.function
        shown = f"{name} ({PurePath(held.file).name}:{held.line}), which holds the event loop"
    asleep = _mean(facts, threads, "timer")
    others_had = max(0.0, 1 - sum(busy_of(facts.times[one]) for one in threads) / len(threads) - asleep)
    slept = f", slept {share(asleep)}" if asleep > _IDLE else ""
    evidence = [
        f"progress waited for {name} {share(part)} of the time",
        f"{'each' if len(threads) > 1 else 'it'} ran {share(_mean(facts, threads, 'running'))} of the time, "
        f"was runnable without a CPU {share(_mean(facts, threads, 'runnable'))}{slept}, "
        f"and waited for others {share(others_had)}",
    ]
    if late is not None:
        rest = [one for one in role.threads if one != late]
        evidence.append(f"the others of its role ran {share(_mean(facts, rest, 'running'))} of the time")
    others = [
        other
        for index, other in enumerate(facts.roles)
        if index != first.roles[0] and other.busy > 0.01 and not other.spins
    ]
    if others:
        busiest = max(others, key=lambda one: one.busy)
        evidence.append(f"the next one, {_counted(busiest)}, is busy {share(busiest.busy)} of the time")
    spinning = [other for other in facts.roles if other.spins]
    evidence += [f"{_counted(other)} spins: it polls without progress" for other in spinning]
    code = hottest(facts.schedule, threads)
    asks = "another process, " if not facts.own & set(role.pids) else ""
    sleeps = f", which sleeps {share(asleep)} of the time" if asleep >= _LEAST else ""
    sentence = f"Bottleneck: {asks}{shown}{sleeps}. Progress waited for it {share(part)} of the time"
    if code and code[0].share >= 0.3:
        sentence += f", mostly in {code[0].function} ({share(code[0].share, digits=0)} of its samples)"
    kind = first.kind
    if late is not None and kind is LimitKind.THREAD and facts.schedule.threads[late].pid != facts.root:
        kind = LimitKind.PROCESS  # of a role that the program's own process shares, it is another one
    return Limit(kind, name, confidence, part, sentence + ".", tuple(evidence), code)


def _of_spin_lock(facts: Facts, role: Role, spun: Code, part: float, confidence: float) -> Limit:
    name = f"spin lock in {spun.function}"
    where = f"{PurePath(spun.file).name}:{spun.line}"
    return Limit(
        LimitKind.LOCK,
        name,
        confidence,
        part,
        f"Bottleneck: the {name} ({where}). {_counted(role)} spin for it {share(spun.share)} of the time "
        "that they run.",
        (
            f"progress waited for {role.name} {share(part)} of the time",
            f"each ran {share(_mean(facts, role.threads, 'running'))} of the time",
        ),
        hottest(facts.schedule, role.threads),
    )


def _instance(facts: Facts, role: Role, thread: int) -> str:
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


def _of_cpu(facts: Facts, first: _Candidate, part: float, confidence: float) -> Limit:
    seconds = facts.schedule.seconds
    cpus = max(1, len(facts.schedule.cpus))
    own = sum(one.running for one in facts.times) / 1e9 / seconds
    waiting = sum(one.runnable for one in facts.times) / 1e9 / seconds
    runnable = float(facts.blame.share(Cause.RUNNABLE).sum()) / facts.blame.total
    evidence = [
        f"progress was runnable without a CPU {share(runnable)} of the time",
        f"the program used {own:.2f} of {cpus} CPUs, and {waiting:.2f} more threads were runnable on average",
    ]
    if facts.blame.stranger:
        names = facts.schedule.foreign_names
        most = sorted(facts.blame.stranger.items(), key=lambda item: -item[1])[:3]
        listed = ", ".join(f"{names.get(tid, '?')} (thread {tid}) {share(had)}" for tid, had in most)
        evidence.append(f"in that time others had of the CPUs: {listed}")
    if first.name == "CPU quota":
        stopped = facts.schedule.throttled_ns / 1e9 / seconds
        limited = f" ({facts.schedule.quota})" if facts.schedule.quota else ""
        sentence = (
            f"Bottleneck: the CPU quota of its control group{limited}. It stopped the program "
            f"{share(min(1.0, stopped or part))} of the time."
        )
    elif first.name == "CPUs":
        sentence = (
            f"Bottleneck: the CPUs. Progress was runnable without one {share(runnable)} of the time; its own "
            "threads compete for them."
        )
    else:
        sentence = (
            f"Bottleneck: the CPUs, which {first.name} uses too. Progress was runnable without one "
            f"{share(runnable)} of the time."
        )
    busiest = sorted(facts.roles, key=lambda role: -role.runnable * role.count)[:2]
    evidence += [
        f"{_counted(role)} ran {share(role.running)} of the time, runnable {share(role.runnable)}"
        for role in busiest
        if role.runnable > 0.01
    ]
    name = first.name if first.name in ("CPUs", "CPU quota") else f"CPUs (neighbour {first.name})"
    code = hottest(facts.schedule, range(len(facts.times)))
    return Limit(LimitKind.CPU, name, confidence, part, sentence, tuple(evidence), code)


def _stranger(facts: Facts) -> str:
    names = facts.schedule.foreign_names
    by_name: dict[str, float] = {}
    for tid, had in facts.blame.stranger.items():
        name = names.get(tid, f"thread {tid}")
        by_name[name] = by_name.get(name, 0.0) + had
    return max(by_name, key=lambda name: by_name[name]) if by_name else ""


def _threads_with(facts: Facts, cause: str) -> list[int]:
    column = facts.blame.shares[:, :, facts.blame.causes.index(cause)].sum(axis=0)
    return [int(thread) for thread in np.flatnonzero(column > 0.05 * column.sum())]


def _blocked_of(facts: Facts, roles: Sequence[int]) -> tuple[str, ...]:
    lines = []
    for index in roles:
        role = facts.roles[index]
        if role.blocked:
            kind, part = next(iter(role.blocked.items()))
            lines.append(f"{_counted(role)} was blocked {share(part)} of the time on: {kind}")
    return tuple(lines[:4])


def _disk_name(facts: Facts) -> str:
    """The file that was waited for most, where one was known."""
    by: dict[str, float] = {}
    for (_, _, item), spent in facts.blame.disk.items():
        name = facts.schedule.objects.get(item, "")
        by[name] = by.get(name, 0.0) + spent
    known = {name: spent for name, spent in by.items() if name.startswith("/")}
    best = max(known, key=lambda name: known[name], default="")
    return best if best and known[best] >= _FILE * sum(by.values()) else "disk"


def _outside(facts: Facts) -> tuple[LimitKind, str]:
    """What a wait that somebody outside ended was for: work, a peer, or another process."""
    by: dict[tuple[LimitKind, str], float] = {}
    for (thread, what, item), spent in facts.blame.outside.items():
        pid = facts.schedule.threads[thread].pid
        peer = facts.peers.get(item) or facts.schedule.objects.get(item, "")
        if pid in facts.listens:
            key = (LimitKind.LOAD, "load")
        elif what == Piece.NETWORK:
            key = (LimitKind.NETWORK, peer or "network")
        elif item in facts.peers:
            key = (LimitKind.PROCESS, facts.peers[item])
        else:
            key = (LimitKind.LOAD, "load")
        by[key] = by.get(key, 0.0) + spent
    return max(by, key=lambda key: by[key]) if by else (LimitKind.LOAD, "load")


def _load(facts: Facts, why: str, part: float, confidence: float) -> Limit:
    working = sum(one.running for one in facts.times) / 1e9 / facts.schedule.seconds
    return Limit(
        LimitKind.LOAD,
        "load",
        confidence,
        part,
        f"Nothing in it limits. {why}, {share(part)} of the time.",
        (f"all its threads together used {working:.2f} CPUs",),
    )


def _listed(candidates: Sequence[_Candidate], total: float) -> str:
    return ", ".join(
        f"{one.name} ({one.kind}) {share(one.total / total)}"
        for one in candidates[:3]
        if one.total > 0.02 * total
    )


def _withheld(facts: Facts, candidates: Sequence[_Candidate], why: str) -> Limit:
    named = {index for one in candidates[:2] for index in one.roles}
    threads = [thread for index in named for thread in facts.roles[index].threads]
    total = facts.blame.total
    return Limit(
        LimitKind.UNKNOWN,
        "",
        0.0,
        0.0,
        f"Cannot name one bottleneck: {why}.",
        (f"progress depended on {_listed(candidates, total)}",),
        hottest(facts.schedule, threads) if threads else (),
        (why,),
    )


def _none(why: str, *more: str) -> Limit:
    return Limit(LimitKind.UNKNOWN, "", 0.0, 0.0, f"Cannot tell what limits: {why}.", more, (), (why, *more))
