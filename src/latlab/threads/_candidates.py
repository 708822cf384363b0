"""What could be the limit: a role, the CPUs, the disk, sleeps, or who is outside, each with its share.

One candidate a kind and name, with the progress that waited for it in each block of the time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latlab.model.schedule import Schedule, State
from latlab.model.threads import LimitKind, Role
from latlab.threads._blame import Blame, Cause, used_cpus
from latlab.threads._code import in_sync
from latlab.threads._edges import Times
from latlab.threads._locks import Word
from latlab.threads._path import Piece
from latlab.threads.goroutines.roles import Goroutines

__all__ = [
    "IDLE",
    "LEAST",
    "Array",
    "Candidate",
    "Facts",
    "awaits",
    "by_turns",
    "candidates_of",
    "crowd",
    "crowded",
    "idle_cpus",
]

Array = np.ndarray[Any, Any]

LEAST = 0.4  # of the progress, that a name needs
IDLE = 0.02
_CPU = 0.4  # of the progress runnable, whoever had the CPUs
_SOCKETS = frozenset(("tcp", "udp", "unix"))  # kinds of what is waited for, as their names begin
_CPU_OWN = 0.2  # the same, where the program itself has used them all
_FULL = 0.9
_CROWD = 1.15  # of the CPUs, that the program's threads want together where they compete with each other
_CROWDED = 1.4  # the same, where more CPUs would clearly help: by 29 % at most
_RAN_THERE = 0.01  # of the time: less is a thread that was just begun
_MOVES = 0.3  # of a role's time at work, that it waits for the disk: then moving data is the disk's time, too
_THROTTLED = 0.4  # of the runnable progress: then the quota is why it had no CPU
_SLEPT = 0.05  # of the progress of one that is paced: who works for longer hasn't much to spare
_WOKEN = 0.6  # of the runnable progress, in which the CPU that it waited for was idle
_ANSWERS = frozenset(("socket", "pipe"))
_ANSWERED = 0.5  # of the time, that some thread of a role waits for its server's answer
_VAIN = 0.5  # of a server's sleeps, that end by a time-out of which nothing comes
_ALL_VAIN = 0.9  # the same, of a client's
_FILE = 0.3  # of the waits for the disk: a file that has so much of them names them


@dataclass(frozen=True)
class Facts:
    """All that the verdict rests on.

    Attributes:
        root: the process that was asked about; its children are other processes. own: all that belong to it.
        listens: processes that accept connections: waiting for one is waiting for work.
        peers: of a socket's object who is at its other end, where known.
        asks: processes that are connected to another program. serve: those that it is connected to.
        goroutines: what is known of the roles that are some.
        naps: threads that sleep for one length, however long they work. may_be_due: those of which nothing
            tells whether they sleep until their next round is due.
        answers: of processes that look up, and wait for an answer, the program that owes it. paces: processes
            that look up, and wait for a time of their own.
        far: of processes the addresses outside of the program that they are connected to.
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
    goroutines: Goroutines = field(default_factory=Goroutines)
    naps: frozenset[int] = frozenset()
    asks: frozenset[int] = frozenset()
    serve: frozenset[int] = frozenset()
    answers: Mapping[int, str] = field(default_factory=dict)
    paces: frozenset[int] = frozenset()
    far: Mapping[int, str] = field(default_factory=dict)
    may_be_due: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Candidate:
    kind: LimitKind
    name: str
    blocks: Array
    roles: tuple[int, ...] = ()
    by_turns: bool = False  # works and sleeps by turns: the blocks are of both

    @property
    def total(self) -> float:
        return float(self.blocks.sum())


def candidates_of(facts: Facts) -> list[Candidate]:
    blame = facts.blame
    found = []
    run, runnable = blame.share(Cause.RUN), blame.share(Cause.RUNNABLE)
    total = blame.total
    cpus = max(1, len(facts.schedule.cpus))
    own = sum(one.used for one in facts.times) / 1e9 / facts.schedule.seconds / cpus
    waits = float(runnable.sum()) / total
    throttled = facts.schedule.throttled_ns / 1e9 / facts.schedule.seconds
    held_back = throttled >= _THROTTLED * waits and waits >= _CPU_OWN
    # As many threads that compute as there are CPUs use them all, and would gain nothing by another one.
    competing = own >= _FULL and waits >= _CPU_OWN and crowd(facts) > _CROWD
    # Waiting for an idle CPU to wake up is no lack of CPUs: another one would take as long to wake up.
    starved = held_back or ((waits >= _CPU or competing) and blame.idle < _WOKEN)
    # Where CPUs are short, what runs on the path is what they are short for: both are one finding.
    synced = np.zeros_like(run)
    worked: dict[int, Array] = {}  # of who is paced by due times: its work is not what takes the time
    if held_back:
        found.append(Candidate(LimitKind.CPU, "CPU quota", run + runnable))
    elif starved:
        here = own * cpus / _supply(facts.schedule)
        name = _stranger(facts) if blame.foreign > 0.5 * here or blame.foreign > 0.3 else ""
        found.append(Candidate(LimitKind.CPU, name or "CPUs", run + runnable))
    else:
        for index, role in enumerate(facts.roles):
            ran = blame.share(Cause.RUN, role.threads)
            durable = ran * in_sync(facts.schedule, role.threads, moves=_moves(facts, role))
            synced = synced + durable
            blocks = ran - durable + blame.share(Cause.RUNNABLE, role.threads)
            kind = _kind_of(facts, role)
            name = "load" if kind is LimitKind.LOAD else role.name
            slept = blame.share(Cause.TIMER, role.threads)
            if role.paced and slept.sum() >= _SLEPT * (slept + blocks).sum():
                worked[index] = blocks
                continue
            found.append(Candidate(kind, name, blocks, (index,)))
    found.append(Candidate(LimitKind.CPU, "CPU quota", blame.share(Cause.QUOTA)))
    found.append(Candidate(LimitKind.DISK, _disk_name(facts), blame.share(Cause.DISK) + synced))
    serving = _serving(facts)
    for index, role in enumerate(facts.roles):
        blocks = blame.share(Cause.TIMER, role.threads) + worked.get(index, 0.0)
        if not blocks.sum() > 0.01 * total:
            continue
        if awaits(facts, role):
            found.append(_owing(facts, role, blocks))
        elif _waits_for_work(facts, role, serving):
            found.append(Candidate(LimitKind.LOAD, "load", blocks, (index,)))
        elif not facts.own & set(role.pids) and _kind_of(facts, role) is LimitKind.PROCESS:
            found.append(Candidate(LimitKind.PROCESS, role.name, blocks, (index,)))
        else:
            found.append(Candidate(LimitKind.TIMER, role.name, blocks, (index,)))
    outside = blame.share(Cause.OUTSIDE) + blame.share(Cause.NETWORK) + blame.share(Cause.OPEN)
    if outside.sum() > 0:
        kind, name = _outside(facts)
        found.append(Candidate(kind, name, outside))
    found.append(Candidate(LimitKind.UNKNOWN, "stopped", blame.share(Cause.STOPPED)))
    return _merged(found)


def by_turns(facts: Facts, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same with each role as one that works and then sleeps for some time: both limit, and are its own.

    Not of a thread whose sleeps may end when its next round is due: its work would not be what limits.
    """
    works = {one.roles: one for one in candidates if one.kind in (LimitKind.THREAD, LimitKind.PROCESS)}
    sleeps = {one.roles: one for one in candidates if one.kind is LimitKind.TIMER}
    both = [
        roles
        for roles in works
        if len(roles) == 1 and roles in sleeps and facts.naps.issuperset(facts.roles[roles[0]].threads)
    ]
    parts = {id(one[roles]) for one in (works, sleeps) for roles in both}
    out = [one for one in candidates if id(one) not in parts]
    out += [replace(works[one], blocks=works[one].blocks + sleeps[one].blocks, by_turns=True) for one in both]
    return sorted(out, key=lambda one: -one.total)


def crowd(facts: Facts) -> float:
    """How many times the CPUs that there are the program's threads want: demand against supply."""
    wanted = sum(one.used + one.runnable for one in facts.times) / 1e9 / facts.schedule.seconds
    return wanted / _supply(facts.schedule)


def _supply(schedule: Schedule) -> int:
    """The CPUs that its threads use: what they never ran on, though they lacked CPUs, an affinity forbids."""
    rows = schedule.intervals
    rows = rows[(rows["state"] == State.RUNNING) & (rows["cpu"] >= 0)]
    ran = float((rows["end"] - rows["begin"]).sum()) / 1e9 / schedule.seconds
    there = max(len(used_cpus(schedule)), math.ceil(ran - _RAN_THERE))
    return max(1, min(there or len(schedule.cpus), len(schedule.cpus)))


def idle_cpus(facts: Facts) -> float:
    """The share of the time of the CPUs that its threads use in which nobody had them; 0 where none was seen.

    Looks at /proc see nobody but the program.
    """
    if facts.schedule.losses.method == "proc":
        return 0.0
    used = float(sum(one.used for one in facts.times))
    used += sum(
        float((rows["end"] - rows["begin"]).sum())
        for rows in (facts.schedule.foreign, facts.schedule.watching)
    )
    return 1.0 - used / 1e9 / facts.schedule.seconds / _supply(facts.schedule)


def crowded(facts: Facts) -> bool | None:
    """Whether they take the CPUs from each other; None where that, and a faster thread, would both help."""
    wanted = crowd(facts)
    return None if _CROWD < wanted < _CROWDED else wanted >= _CROWDED


def _moves(facts: Facts, role: Role) -> bool:
    # Who waits for a file's lock in the kernel, which another thread of the program holds, waits for no disk.
    if facts.blame.share(Cause.DISK, role.threads).sum() <= 0:
        return False
    waited = sum(facts.times[one].blocked.get("disk", 0) for one in role.threads)
    return waited > _MOVES * (waited + sum(facts.times[one].running for one in role.threads))


def _serving(facts: Facts) -> bool:
    """Whether it is a server that was asked about, and not a program that has one of its own."""
    clients = [one for one in facts.roles if facts.own & set(one.pids) and not facts.listens & set(one.pids)]
    return bool(facts.listens) and all(one.running < IDLE for one in clients) and not _asks_its_own(facts)


def _asks_its_own(facts: Facts) -> bool:
    """Whether some of its threads mostly wait for the answer of a server that it has itself.

    Only in reads that wait for one peer: who polls may wait for whatever comes first.
    """
    served = {index for index, role in enumerate(facts.roles) if facts.listens & set(role.pids)}
    waited: dict[int, int] = {}
    for thread, one in enumerate(facts.times):
        index = facts.role_of[thread]
        for (role, kind), (_, time) in one.ended.items():
            if role in served and index not in served and kind in _ANSWERS:
                waited[index] = waited.get(index, 0) + time
    own = [index for index in waited if facts.own & set(facts.roles[index].pids)]
    return any(waited[index] >= _ANSWERED * facts.schedule.seconds * 1e9 for index in own)


def _waits_for_work(facts: Facts, role: Role, serving: bool) -> bool:
    """Whether what a role sleeps is waiting for work, with a time-out of which nothing comes for others.

    A server that sleeps in a call of its own lets its clients wait, and so does one that answers when its
    timers end. A client that does nothing at its time-outs waits for whom it is connected to.
    """
    members = [facts.times[thread] for thread in role.threads]
    slept = sum(one.timer for one in members)
    vain = sum(one.vain for one in members)
    if _kind_of(facts, role) is LimitKind.LOAD:
        return True  # a client that sleeps
    if serving and facts.own & set(role.pids):
        paces = facts.paces & set(role.pids)  # it sends when its time-outs end, as who limits a rate
        return role.running < LEAST and vain >= _VAIN * slept and not paces
    looks = sum(one.looks for one in members)
    asks = facts.asks - facts.paces
    return role.running < IDLE and looks >= _ALL_VAIN * slept and bool(asks & set(role.pids))


def awaits(facts: Facts, role: Role) -> bool:
    """Whether its event loop mostly times out, and an answer is what it gets next."""
    members = [facts.times[thread] for thread in role.threads]
    looks, slept = sum(one.looks for one in members), sum(one.timer for one in members)
    return looks >= _VAIN * slept and any(pid in facts.answers for pid in role.pids)


def _owing(facts: Facts, role: Role, blocks: Array) -> Candidate:
    """Who owes the answer: the busiest of its roles that was seen, or the program."""
    seen = [
        index
        for index, one in enumerate(facts.roles)
        if facts.serve & set(one.pids) and not facts.own & set(one.pids)
    ]
    if not seen:
        name = next(facts.answers[pid] for pid in role.pids if pid in facts.answers)
        return Candidate(LimitKind.PROCESS, name, blocks)
    best = max(seen, key=lambda index: sum(facts.times[one].running for one in facts.roles[index].threads))
    return Candidate(LimitKind.PROCESS, facts.roles[best].name, blocks, (best,))


def _merged(found: Sequence[Candidate]) -> list[Candidate]:
    """Those of one kind and name as one."""
    by_name: dict[tuple[LimitKind, str], Candidate] = {}
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
    if facts.listens & facts.own and not (facts.own | facts.serve) & set(role.pids):
        return LimitKind.LOAD
    return LimitKind.PROCESS


def _stranger(facts: Facts) -> str:
    names = facts.schedule.foreign_names
    by_name: dict[str, float] = {}
    for tid, had in facts.blame.stranger.items():
        name = names.get(tid, f"thread {tid}")
        by_name[name] = by_name.get(name, 0.0) + had
    return max(by_name, key=lambda name: by_name[name]) if by_name else ""


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
        if peer.partition(" ")[0] not in _SOCKETS:  # it waits for several, or for whatever an epoll tells
            peer = facts.far.get(pid, "")
        if pid in facts.listens:
            key = (LimitKind.LOAD, "load")
        elif item in facts.peers:
            key = (LimitKind.PROCESS, facts.peers[item])
        elif what == Piece.NETWORK:
            key = (LimitKind.NETWORK, peer)
        else:
            key = (LimitKind.LOAD, "load")
        by[key] = by.get(key, 0.0) + spent
    return max(by, key=lambda key: by[key]) if by else (LimitKind.LOAD, "load")
