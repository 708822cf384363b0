"""From the shares of progress to one limit, or to none with the reason.

Every gate withholds a name. A name is given only if its share of the progress leads clearly, if resampled
blocks of the time give it again, and if no other role that works with it is as busy: making one of two
equally slow stages faster buys nothing, whichever the path ran through by chance.

Over 400 lines: one gate after the other, each of a few lines, in the order in which `judge` asks them.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from latlab.model.evidence.said import said
from latlab.model.evidence.threads import ThreadEvidence, ThreadFinding, ThreadReason
from latlab.model.schedule import Source, Wait
from latlab.model.threads import Limit, LimitKind, Role
from latlab.threads._blame import Cause, lines_of
from latlab.threads._candidates import (
    IDLE,
    LEAST,
    Candidate,
    Facts,
    by_turns,
    candidates_of,
    crowd,
    crowded,
    idle_cpus,
)
from latlab.threads._code import asking, at_page_faults, hottest
from latlab.threads._edges import busy_of
from latlab.threads._limits import (
    counted,
    described,
    late_of,
    load_of,
    lock_of,
    locks_of,
    mutex_of,
    none_told,
    owed_by,
    spun_lock,
)
from latlab.words import share

__all__ = ["SHORTEST_S", "judge", "lines_apart"]

SHORTEST_S = 0.1
_UNSEEN = 0.25  # of the progress
_BEYOND = 0.01  # of the observed time, that threads may seem to spend beyond their life
_CLEAR = 0.7  # of the leader's share: a runner-up above it is as good
_ALIKE = 0.93  # of the leader's busy share
_ALIKE_WORK = 0.85  # of what the leader runs: having no CPU makes one of two equal stages busier by chance
_SWITCH_NS = (4_900_000, 6_500_000)  # CPython's switch interval of 5 ms, and what a timer is late by
_WORKS = 0.5  # of the time, who has the interpreter's lock then
_MOSTLY = 0.5  # of what the leader sleeps, or works
_RHYTHM = 2.5  # times as often at most, that another one sleeps which does the same
_OVERLAP = 1.05  # of the time, that two which have no time to spare at once spend together
_SURE = 0.95  # of the resampled blocks
_LOCK_TOO = 0.15  # of the progress: a role whose threads wait for one lock so much is not named for it
_IDLE_CPUS = 1 / 3  # of the time of the CPUs: threads that wait for one meanwhile want no more of them
_CPU = 0.4  # of the time that a role's threads are runnable without one
_MEANWHILE = 0.4  # CPUs that the program's other threads use while it is said to sleep
_HANDED = 5  # waits of one other role that a sleeper ends, of whose sleeps these depend
_IDLE = 0.8  # of the progress, that several sleep or wait for work
_NAMED = 0.1  # of the progress: sleepers that are named beside others
_MAY_SLEEP = 0.05  # of what it works, on the path: who sleeps less than that has hardly a moment to spare
_INNER = 0.35  # of their time that threads of one role wait for each other
_TRIES = 0.15  # of the running samples that try, and of those that read the clock
_ASKS = 0.5  # of both
_RESAMPLES = 400
_LINE = 0.03  # of the progress: a part of the program that depends on no other
_LINE_RUNS = 0.03  # CPUs that such a part uses; less is a housekeeper's


def judge(facts: Facts) -> Limit:
    """The limit."""
    blame = facts.blame
    if facts.schedule.seconds < SHORTEST_S:
        return none_told(
            said(ThreadReason.TOO_SHORT, ns=facts.schedule.seconds * 1e9), said(ThreadReason.LONGER)
        )
    total = blame.total
    working = sum(one.used for one in facts.times) / 1e9 / facts.schedule.seconds
    if total <= 0:
        if working > IDLE:
            return none_told(said(ThreadReason.NO_WAIT_ENDED))
        if facts.asks & facts.own and not facts.listens & facts.own:
            owing = sorted({facts.answers[pid] for pid in facts.own if pid in facts.answers})
            if len(owing) == 1:
                return owed_by(owing[0])
            return none_told(said(ThreadReason.NO_ANSWER), said(ThreadReason.ASK_THE_OTHER))
        if _mostly(facts, "stopped"):
            return none_told(said(ThreadReason.STOPPED))
        if not facts.listens & facts.own and _on_sockets(facts):
            return none_told(said(ThreadReason.NO_ANSWER), said(ThreadReason.ASK_THE_OTHER))
        return load_of(facts, said(ThreadReason.NOTHING_DONE), 1.0, 1.0)
    unseen = float(blame.share(Cause.UNSEEN).sum()) / total
    if unseen > _UNSEEN or facts.schedule.losses.unseen_share > _UNSEEN:
        most = max(unseen, facts.schedule.losses.unseen_share)
        return none_told(said(ThreadReason.UNSEEN, part=most), *facts.schedule.losses.notes)
    # (Of goroutines the times are reckoned, and not seen.)
    over = sum(
        max(0, one.running + one.runnable + sum(one.blocked.values()) - one.life)
        for thread, one in enumerate(facts.times)
        if facts.role_of[thread] not in facts.goroutines.cpus
    )
    if over > _BEYOND * facts.schedule.seconds * 1e9:
        return none_told(said(ThreadReason.BEYOND_LIFE, over_ns=over))
    if (lock := lock_of(facts, total)) is not None:
        return _equal_locks(facts, total) or lock
    if (lock := mutex_of(facts)) is not None:
        return lock
    candidates = sorted(candidates_of(facts), key=lambda one: -one.total)
    if _unclear(candidates, total):
        idle = _all_idle(facts, candidates, total)
        if idle is not None:
            return idle
        together = by_turns(facts, candidates)
        candidates = candidates if _unclear(together, total) else together
    elif _sleep_apart(facts, candidates, total) and (idle := _all_idle(facts, candidates, total)) is not None:
        return idle
    first = candidates[0]
    second = candidates[1] if len(candidates) > 1 else None
    confidence = _confidence(candidates)
    part = first.total / total
    told = described(facts, first, part, confidence)
    if part < LEAST:
        return _withheld(
            facts, candidates, said(ThreadReason.NOTHING_LEADS, listed=_listed(candidates, total))
        )
    if second is not None and second.total > _CLEAR * first.total:
        both = _listed(candidates[:2], total)
        return _withheld(facts, candidates, said(ThreadReason.IN_TURN, listed=both))
    if first.kind is LimitKind.NETWORK and not first.name:
        return _withheld(facts, candidates, said(ThreadReason.WHICH_PEER, part=part))
    if first.kind is LimitKind.CPU and first.name == "CPUs":
        # Threads that spin for a lock want CPUs, and would not be faster with more of them.
        spun = spun_lock(facts, part, confidence)
        if spun is not None and confidence >= _SURE:
            return spun
    if first.kind is LimitKind.CPU and first.name == "CPUs" and not crowded(facts):
        why = (
            said(ThreadReason.LACKED_UNSEEN)
            if crowded(facts) is False
            else said(ThreadReason.CROWDED, times=crowd(facts), busiest=_busiest(facts))
        )
        return _withheld(facts, candidates, why)
    if first.kind is LimitKind.CPU and first.name == "CPUs" and (unused := idle_cpus(facts)) > _IDLE_CPUS:
        return _withheld(facts, candidates, said(ThreadReason.IDLE_CPUS, runnable=part, idle=unused))
    aside = _aside(facts, first) if first.kind is LimitKind.TIMER else None
    if aside is not None:
        return _withheld(facts, candidates, aside)
    if first.kind is LimitKind.TIMER and (looks := _looks_up(facts, first)) is not None:
        return _withheld(facts, candidates, looks)
    if first.kind is LimitKind.TIMER and (steps := _by_switch_intervals(facts, first)) is not None:
        return _withheld(facts, candidates, steps)
    # (Another process may limit by its sleeps, as well as one of the program's own.)
    if first.kind in (LimitKind.TIMER, LimitKind.PROCESS) or first.by_turns:
        alike = _alike_asleep(facts, first)
        if alike is not None:
            return _withheld(facts, candidates, alike)
    if first.kind in (LimitKind.THREAD, LimitKind.PROCESS) and first.roles:
        alike = (
            _due(facts, first)
            or _reads_pages(facts, first, candidates)
            or _alike(facts, first)
            or _locked(facts, first, total)
            or _without_cpus(facts, first)
            or (_in_turn(facts, first) if told.kind is not LimitKind.LOCK else None)
            or _asks(facts, first)
        )
        if alike is not None:
            return _withheld(facts, candidates, alike)
    if (apart := _apart(facts, candidates)) is not None:
        return _withheld(facts, candidates, apart)
    if confidence < _SURE:
        return _withheld(
            facts,
            candidates,
            said(ThreadReason.CHANGES, name=first.name, cases=confidence),
        )
    return told


def _equal_locks(facts: Facts, total: float) -> Limit | None:
    """No name for one of two locks for which the progress waited about as long, one after the other.

    While the holder of one waits for the other the same time counts for both: the shares exceed the whole.
    """
    both = [
        Candidate(
            LimitKind.LOCK, word.name, blocks, tuple(sorted({facts.role_of[one] for one in word.waiters}))
        )
        for blocks, word in locks_of(facts)[:2]
    ]
    if len(both) < 2 or both[1].total <= _CLEAR * both[0].total or both[0].total + both[1].total > total:
        return None
    return _withheld(facts, both, said(ThreadReason.IN_TURN, listed=_listed(both, total)))


def _mostly(facts: Facts, *kinds: str) -> bool:
    """Whether one of the program's threads was blocked in these manners for most of its life."""
    return any(
        sum(one.blocked.get(kind, 0) for kind in kinds) > 0.5 * one.life
        for one, thread in zip(facts.times, facts.schedule.threads, strict=False)
        if thread.pid in facts.own
    )


def _on_sockets(facts: Facts) -> bool:
    """Whether a thread mostly waited for a socket: what it is connected to may owe it an answer."""
    sockets = any(name.split(" ")[0] in ("tcp", "udp", "unix") for name in facts.schedule.objects.values())
    return _mostly(facts, "socket") or (sockets and _mostly(facts, "poll"))


def lines_apart(facts: Facts) -> list[frozenset[int]]:
    """The roles of each part of the program that works, and waits for nothing of the others."""
    if facts.goroutines.cpus:
        return []
    ran = [sum(facts.times[thread].running for thread in role.threads) for role in facts.roles]
    least = _LINE_RUNS * 1e9 * facts.schedule.seconds
    return [
        roles
        for roles, weight in lines_of(facts.blame, facts.roles)
        if weight >= _LINE and sum(ran[role] for role in roles) >= least
    ]


def _apart(facts: Facts, candidates: Sequence[Candidate]) -> str | None:
    """Parts that wait for nothing of each other: what limits one of them is not the program's limit.

    But of a program that came to its end it is, if its first thread waited for that part.
    """
    first = candidates[0]
    lines = lines_apart(facts)
    if len(lines) < 2 or first.kind not in (LimitKind.THREAD, LimitKind.PROCESS, LimitKind.TIMER):
        return None
    main = next((one for one, it in enumerate(facts.schedule.threads) if it.tid == facts.root), -1)
    if main >= 0 and facts.schedule.threads[main].ended:
        home = [roles for roles, _ in lines_of(facts.blame, facts.roles) if facts.role_of[main] in roles]
        if home and home[0].issuperset(first.roles):
            return None
    led = []
    for roles in lines:
        mine = (one for one in candidates if one.roles and roles.issuperset(one.roles))
        led += [f"{one.name} ({one.kind})" for one in itertools.islice(mine, 1)]
    return said(ThreadReason.LINES, parts=len(lines), listed=", ".join(led))


def _unclear(candidates: Sequence[Candidate], total: float) -> bool:
    """Whether none of them leads, or the next one has nearly as much."""
    first, *rest = candidates
    return first.total < LEAST * total or bool(rest and rest[0].total > _CLEAR * first.total)


def _all_idle(facts: Facts, candidates: Sequence[Candidate], total: float) -> Limit | None:
    """Several that sleep or wait for work, where nothing else matters: whichever leads, nothing is short."""
    idle = [one for one in candidates if one.kind in (LimitKind.TIMER, LimitKind.LOAD)]
    part = sum(one.total for one in idle) / total
    ran = sum(one.running for thread, one in enumerate(facts.times) if thread not in facts.spins)
    sleepers = [one for one in idle if one.kind is LimitKind.TIMER]
    if part < _IDLE or ran / 1e9 / facts.schedule.seconds >= _MEANWHILE or not sleepers:
        return None
    alike = _alike_asleep(facts, sleepers[0])
    if alike is not None:
        return _withheld(facts, candidates, alike)
    names = [one.name for one in sleepers if one.total >= _NAMED * total] or [sleepers[0].name]
    others = [one for one in candidates if one.kind not in (LimitKind.TIMER, LimitKind.LOAD)]
    who = " and of ".join(names) + (" and for work" if len(sleepers) < len(idle) else "")
    return Limit(
        LimitKind.TIMER,
        ", ".join(names),
        _confidence([replace(sleepers[0], blocks=np.sum([one.blocks for one in idle], axis=0)), *others]),
        part,
        said(ThreadFinding.SLEEPS, who=who, part=part),
        (said(ThreadEvidence.DEPENDED, listed=_listed(candidates, total)),),
    )


def _sleep_apart(facts: Facts, candidates: Sequence[Candidate], total: float) -> bool:
    """Whether another one sleeps than the first, and neither wakes the other.

    As of two that share memory, and sleep between two looks at it: which of them waits is not seen.
    """
    first, *others = candidates
    if first.kind is not LimitKind.TIMER or not first.roles:
        return False
    near = _connected(facts, first.roles[0])
    return any(
        one.kind is LimitKind.TIMER and one.total >= _NAMED * total and not near.intersection(one.roles)
        for one in others
    )


def _busiest(facts: Facts) -> str:
    return counted(max(facts.roles, key=lambda role: role.running * role.count))


def _confidence(candidates: Sequence[Candidate]) -> float:
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


def _alike(facts: Facts, first: Candidate) -> str | None:
    """Another role of the same work that has as little time to spare."""
    (index,) = first.roles[:1]
    leader = facts.roles[index]
    near = _connected(facts, index)
    for other in sorted(near, key=lambda one: -facts.roles[one].busy):
        role = facts.roles[other]
        here = _present(facts, role)
        if other == index or role.spins or role.busy * here < 0.5:
            continue
        most = _present(facts, leader)
        work, least = here * _work(facts, role), _ALIKE_WORK * most * _work(facts, leader)
        if role.busy * here >= _ALIKE * leader.busy * most or (work >= least and role.runnable < 0.5):
            names = {"one": counted(leader), "other": counted(role)}
            return said(ThreadReason.ALIKE, busy=leader.busy, other_busy=role.busy, **names)
    return None


def _present(facts: Facts, role: Role) -> float:
    """The share of the observed time in which one of the role's threads is there: short ones come and go."""
    lives = sorted(
        (facts.schedule.threads[one].began_ns, facts.schedule.threads[one].ended_ns) for one in role.threads
    )
    there, until = 0, facts.schedule.began_ns
    for begin, end in lives:
        there += max(0, end - max(begin, until))
        until = max(until, end)
    return min(1.0, there / max(1, facts.schedule.ended_ns - facts.schedule.began_ns)) if lives else 1.0


def _alike_asleep(facts: Facts, first: Candidate) -> str | None:
    """Another role that works and sleeps in the same rhythm, and has as little time to spare.

    Both at once: of two that sleep in turn, as a client and its server, each has the other's time to spare.
    A housekeeper sleeps all the time, too, but in a rhythm of its own.
    """
    if not first.roles:
        return None
    index = max(first.roles, key=lambda one: _spent(facts, facts.roles[one])[0])
    most, slept, often = _spent(facts, facts.roles[index])
    if not slept:
        return None  # its sleeps are not known: goroutines share the threads that sleep
    for other in sorted(_connected(facts, index) - {index}):
        role = facts.roles[other]
        spent, sleeps, times = _spent(facts, role)
        rhythm = often <= _RHYTHM * times and times <= _RHYTHM * often
        if spent < _ALIKE * most or sleeps < _MOSTLY * slept or not rhythm or spent + most < _OVERLAP:
            continue
        names = {"one": counted(facts.roles[index]), "other": counted(role)}
        return said(ThreadReason.ALIKE_ASLEEP, busy=most, other_busy=spent, **names)
    return None


def _spent(facts: Facts, role: Role) -> tuple[float, float, float]:
    """Shares of its threads' time that they wait for nobody, and that they sleep; and sleeps a ns."""
    members = [facts.times[thread] for thread in role.threads]
    life = max(1, sum(one.life for one in members))
    slept = sum(one.timer for one in members) / life
    busy = sum(busy_of(one) * one.life for one in members) / life
    return min(1.0, busy + slept), slept, sum(one.sleeps for one in members) / life


def _looks_up(facts: Facts, first: Candidate) -> str | None:
    """A reason to withhold: a client's event loop times out most of the time, and may wait for its server."""
    roles = [facts.roles[index] for index in first.roles]
    if not any((facts.asks - facts.paces) & set(role.pids) for role in roles):
        return None
    members = [facts.times[thread] for role in roles for thread in role.threads]
    slept, looks = sum(one.timer for one in members), sum(one.looks for one in members)
    if looks < _MOSTLY * slept:
        return None
    return said(ThreadReason.LOOKS_UP, name=first.name)


def _by_switch_intervals(facts: Facts, first: Candidate) -> str | None:
    """Waits that CPython's switch interval ended, while another thread worked, which had the lock.

    Who asks for the interpreter's lock looks up after 5 ms, and is often given it at once then.
    """
    roles = [facts.roles[index] for index in first.roles]
    threads = [thread for role in roles for thread in role.threads]
    pids = {pid for role in roles for pid in role.pids} & facts.python
    works = [
        role for role in facts.roles
        if role not in roles and set(role.pids) & pids and role.running + role.runnable >= _WORKS
    ]  # fmt: skip
    if not works:
        return None
    rows = facts.schedule.intervals
    rows = rows[np.isin(rows["thread"], threads) & (rows["wait"] == Wait.FUTEX)]
    time = rows["end"] - rows["begin"]
    steps = (rows["source"] == Source.TIMER) & (time >= _SWITCH_NS[0]) & (time <= _SWITCH_NS[1])
    slept = sum(facts.times[thread].timer for thread in threads)
    if float(time[steps].sum()) < _MOSTLY * slept:
        return None
    holder = max(works, key=lambda role: role.running + role.runnable)
    return said(ThreadReason.SWITCH_INTERVALS, name=first.name, holder=counted(holder))


def _aside(facts: Facts, first: Candidate) -> str | None:
    """A thread that sleeps beside others that work, and hardly ever wakes one of these: a housekeeper.

    Who wakes each of many once, as when the program begins or ends, hands work to none of them.
    """
    sleepers = {thread for index in first.roles for thread in facts.roles[index].threads}
    ran, handed = 0, Counter({-1: 0})
    for thread, one in enumerate(facts.times):
        if thread in sleepers | facts.spins or facts.schedule.threads[thread].pid not in facts.own:
            continue
        ran += one.running
        for (role, _), (number, _) in one.ended.items():
            handed[facts.role_of[thread]] += number if role in first.roles else 0
    cpus, ended = ran / 1e9 / facts.schedule.seconds, max(handed.values())
    if cpus < _MEANWHILE or ended >= _HANDED:
        return None
    return said(ThreadReason.ASIDE, name=first.name, ended=ended, cpus=cpus)


def _locked(facts: Facts, first: Candidate, total: float) -> str | None:
    """A lock for which the role's own threads wait: it or their work limits."""
    for key, blocks in facts.blame.locks.items():
        word = facts.words.get(key)
        if word is None or not word.lock or blocks.sum() < _LOCK_TOO * total:
            continue
        members = [thread for index in first.roles for thread in facts.roles[index].threads]
        waited = sum(word.waiters[thread] for thread in members)
        if waited >= _LOCK_TOO * sum(facts.times[thread].life for thread in members):
            part = float(blocks.sum()) / total
            return said(ThreadReason.LOCK_OR_WORK, name=first.name, lock=word.name, part=part)
    return None


def _without_cpus(facts: Facts, first: Candidate) -> str | None:
    """Threads of one role that take turns on too few CPUs: some one of them always runs, and yet all wait."""
    if not first.roles:
        return None
    role = facts.roles[first.roles[0]]
    if role.count < 2 or role.runnable < _CPU or role.runnable < role.running:
        return None
    ran = {"running": role.running, "runnable": role.runnable}
    return said(ThreadReason.CPUS_OR_WORK, who=counted(role), **ran)


def _due(facts: Facts, first: Candidate) -> str | None:
    """Who works and sleeps by turns may sleep until its next round is due: it is paced then."""
    for index in first.roles[:1]:
        role = facts.roles[index]
        may = [one for one in role.threads if one in facts.may_be_due]
        its_own = sum(float(facts.blame.share(cause, may).sum()) for cause in (Cause.RUN, Cause.RUNNABLE))
        sleeps = float(facts.blame.share(Cause.TIMER, may).sum()) if may else 0.0
        if may and its_own >= _MOSTLY * first.total and sleeps >= _MAY_SLEEP * first.total:
            times = {"running": role.running + role.runnable, "asleep": role.blocked.get("timer", 0.0)}
            return said(ThreadReason.MAY_BE_DUE, name=counted(role), **times)
    return None


def _reads_pages(facts: Facts, first: Candidate, candidates: Sequence[Candidate]) -> str | None:
    """What runs where it also waits for pages of a file: reading them, or computing with what is in them."""
    disk = sum(one.total for one in candidates if one.kind is LimitKind.DISK)
    threads = [thread for index in first.roles for thread in facts.roles[index].threads]
    part = at_page_faults(facts.schedule, threads) if disk else 0.0
    doubtful = part * float(facts.blame.share(Cause.RUN, threads).sum())
    if not part or disk + doubtful <= _CLEAR * (first.total - doubtful):
        return None
    return said(ThreadReason.READS_PAGES, name=first.name, part=part, disk=disk / facts.blame.total)


def _in_turn(facts: Facts, first: Candidate) -> str | None:
    """Threads of one role that mostly end each other's waits: they run one at a time, perhaps for a lock.

    Java and others park each thread on a word of its own: then no word is seen that they share.
    """
    members = [thread for index in first.roles for thread in facts.roles[index].threads]
    life = sum(facts.times[thread].life for thread in members)
    inner = sum(facts.times[thread].inner for thread in members)
    if len(members) < 2 or inner < _INNER * life or late_of(facts, facts.roles[first.roles[0]]) is not None:
        return None
    return said(ThreadReason.EACH_OTHER, name=first.name, threads=len(members), part=inner / life)


def _asks(facts: Facts, first: Candidate) -> str | None:
    """A role that runs mostly in taking locks, trying, and reading the clock: it may wait in a loop."""
    threads = [thread for index in first.roles for thread in facts.roles[index].threads]
    tries, clock = asking(facts.schedule, threads)
    if min(tries, clock) < _TRIES or tries + clock < _ASKS:
        return None
    return said(ThreadReason.ASKS, name=first.name, tries=tries, clock=clock)


def _work(facts: Facts, role: Role) -> float:
    """Share of its threads' time that they run or use a device."""
    members = [facts.times[thread] for thread in role.threads]
    return sum(one.running + one.own for one in members) / max(1, sum(one.life for one in members))


def _connected(facts: Facts, index: int) -> set[int]:
    """All roles that work with this one, over any number of others; any may, where no wake-up was seen."""
    if facts.schedule.losses.method == "proc":
        return set(range(len(facts.roles)))
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


def _listed(candidates: Sequence[Candidate], total: float) -> str:
    return ", ".join(
        f"{one.name} ({one.kind}) {share(one.total / total)}"
        for one in candidates[:3]
        if one.total > 0.02 * total
    )


def _withheld(facts: Facts, candidates: Sequence[Candidate], why: str) -> Limit:
    named = {index for one in candidates[:2] for index in one.roles}
    threads = [thread for index in named for thread in facts.roles[index].threads]
    total = facts.blame.total
    return Limit(
        LimitKind.UNKNOWN,
        "",
        0.0,
        0.0,
        said(ThreadFinding.WITHHELD, why=why),
        (said(ThreadEvidence.DEPENDED, listed=_listed(candidates, total)),),
        hottest(facts.schedule, threads) if threads else (),
        (why,),
    )
