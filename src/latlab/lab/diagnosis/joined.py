"""Joins what a program's queues tell with what its threads do: one answer.

Queues name the stage that is slow for its events; threads see what no queue shows: locks, sleeps, other
processes, coroutines that hold their loop, a source that is slow. Where the queues name something,
it stays, unless its threads mostly wait for others.
"""

from __future__ import annotations

from dataclasses import replace

from latlab.lab.diagnosis.interpreter_lock import by_interpreter_lock, takes_no_cpu, withheld
from latlab.lab.diagnosis.lines import sentence_of
from latlab.lab.judge.lanes import alike_lanes, near
from latlab.model.diagnosis.answer import Answer
from latlab.model.evidence.pipeline import RunDoubt, RunEvidence, RunFinding
from latlab.model.evidence.queues import QueueEvidence
from latlab.model.evidence.said import kind_of, said, values_of
from latlab.model.evidence.threads import ThreadEvidence, ThreadFinding
from latlab.model.queues.analysis import Analysis, DoubtKind, StageResult, Verdict
from latlab.model.queues.observation import Observation
from latlab.model.threads import Limit, LimitKind, Role, ThreadFindings

__all__ = ["contested", "joined"]

# What counts cannot tell, and threads can. Counts that contradict each other stay a contradiction.
_OPEN = frozenset(
    (
        DoubtKind.RARELY_AT_WORK,
        DoubtKind.BACKED_UP,
        DoubtKind.BUSY_LOOP,
        DoubtKind.SHARED_LOOP,
    )
)
_BETWEEN = frozenset((DoubtKind.NEVER_BEHIND,))
_NAMED = frozenset(LimitKind) - {LimitKind.UNKNOWN, LimitKind.LOAD}
_SURE = 0.95
_ONE = 0.99  # sure enough of one stage, where another one limits for a part of the time
_MOST = 0.5  # of the progress, that waits for who holds a lock
_HELD = 0.25  # of its threads' time, they wait for a lock that one of them holds
_OF_PYTHON = "GIL"
_AT_DISK = ("disk", "sync")
_DISK = 0.25  # of its threads' time, blocked there: the rest of what the disk takes, the kernel computes
_SHORT = frozenset((Verdict.CPU, Verdict.SCHEDULER))
_WAITING = 0.6  # of its threads' time: then it does not have work and room for most of it
_NO_TIME_LEFT = 0.8  # of the time, a thread works
_MORE_WORK = 1.5  # times as much of the time
_KEPT = 0.25  # of the time, a thread without a CPU: then it may not stand still by itself
_MOSTLY_WITHOUT = 0.5  # of the progress, without a CPU
_RUNNABLE = 0.15  # of the progress: less is no lack of CPUs
_APART = 0.25  # of the time: by so much queues and threads may differ, which are not seen at the same moments
_HICCUP = 0.1  # of the time, a queue that is full in passing, as when threads come late …
_OWN = 0.6  # of the progress, its threads work, or sleep with work at hand: it does not wait for load
_MOSTLY = 0.8  # … beside what so much of the progress waited for


def joined(
    answer: Answer,
    threads: ThreadFindings,
    distrust: tuple[str, ...] = (),
    contested: frozenset[str] = frozenset(),
    overfull: float = 1.0,
    waiting: frozenset[str] = frozenset(),
) -> Answer:
    """The answer by the queues, with what threads tell; by the threads where the queues name nothing.

    Args:
        distrust: what of the answer's is about the observation itself, and not about too few events.
        contested: stages that the queues saw enough of, and could not tell apart: threads, which do not count
            events, can't either.
        overfull: share of the time that the queue which overflows was full.
        waiting: stages that are busy by their queues while their threads wait for who feeds them.
    """
    answer = replace(answer, threads=threads)
    limit = threads.limit
    if not distrust and (by_lock := by_interpreter_lock(answer, threads)) is not None:
        # That its queues could not tell is no reason to distrust what its threads tell.
        return by_lock if by_lock.limiting_stage is None else replace(by_lock, distrust=())
    moves = next((one for one in answer.evidence if kind_of(one) is QueueEvidence.MOVES), None)
    if answer.verdict == Verdict.STAGE and answer.confidence < _ONE and moves is not None:
        answer = withheld(answer, said(RunDoubt.MOVES, stretches=values_of(moves)["stretches"]))
    busy = threads.role(limit.name)
    if answer.verdict == Verdict.POOL and busy is not None and not distrust and _names(threads):
        runs = busy.running + busy.runnable
        if limit.kind is LimitKind.THREAD and runs >= _NO_TIME_LEFT:
            # As a loop whose tasks compute under a semaphore: with more objects it has as little time.
            return _by_threads(answer, threads, said(RunEvidence.QUEUES_ALONE, sentence=answer.sentence))
    if answer.verdict == Verdict.POOL and answer.evidence:
        users = threads.role(values_of(answer.evidence[0]).get("stage"))
        answer = answer if users is None else replace(answer, evidence=(*answer.evidence, _spent(users)))
    role = threads.role(answer.limiting_stage)
    if len(answer.lines) > 1:
        lines = tuple(
            replace(line, sentence=_of_its_threads(line.sentence, line.verdict, line.limiting_stage, threads))
            for line in answer.lines
        )
        if lines != answer.lines:
            answer = replace(answer, lines=lines, sentence=sentence_of(lines))
    else:
        stage = answer.limiting_stage
        answer = replace(answer, sentence=_of_its_threads(answer.sentence, answer.verdict, stage, threads))
    waits = threads.without_a_cpu
    # Whose CPU it was that they lacked may be unknown to the threads: that they did agrees all the same.
    # (Who holds a lock without a CPU makes a lock of it, too.)
    short = waits >= (_RUNNABLE if limit.kind is LimitKind.CPU else _MOSTLY_WITHOUT)
    if answer.verdict in _SHORT and threads.progress and not short:
        lacked = RunDoubt.SOMETIMES_SHORT if waits >= _RUNNABLE else RunDoubt.NOT_SHORT
        answer = withheld(answer, said(lacked, waits=waits))
    # A thread that has ended waits for no CPU, however much it lacked one while it lived.
    kept = role is not None and role.runnable >= _KEPT and not _has_ended(answer)
    if answer.verdict == Verdict.STOPPED and role is not None and kept:
        why = said(RunDoubt.STOPPED_OR_WAITED, stage=role.name, runnable=role.runnable)
        return withheld(answer, why)
    several = sum(line.limiting_stage is not None for line in answer.lines) > 1
    if role is not None and not several and not distrust and _disk_limits(answer, threads):
        waits = sum(role.blocked.get(kind, 0.0) for kind in _AT_DISK)
        if waits >= _DISK:
            return _by_threads(answer, threads, said(RunEvidence.AT_DISK, stage=role.name, waits=waits))
    if role is not None and not several and not distrust and _lock_of_stage(answer, role, threads):
        return _by_threads(answer, threads, said(RunEvidence.ITS_OWN_LOCK, stage=role.name))
    if several:
        answer = _each_line(answer, threads)
    elif (
        role is not None
        and answer.verdict == Verdict.STAGE
        and ((waits := _waits(role, threads)) >= _WAITING or role.name in waiting)
    ):
        return _by_others(answer, threads, role, waits)
    elif not distrust and role is not None and answer.verdict == Verdict.STAGE and _another(role, threads):
        return _by_others(answer, threads, role, _waits(role, threads))
    ended = [one for one in distrust if kind_of(one) is RunDoubt.ENDED]
    verdicts = {answer.verdict, *(line.verdict for line in answer.lines)}
    doubts = (*answer.doubts, *(doubt for line in answer.lines for doubt in line.doubts))
    # Who holds the lock is known whether or not some of those who wait for it lack a CPU as well.
    # Nor does a hiccup tell against what nearly all of the progress waited for.
    known = _OPEN
    mostly = overfull < _HICCUP and limit.share >= _MOSTLY and not answer.losses
    if limit.kind is LimitKind.LOCK or mostly:
        known = _OPEN | {DoubtKind.CAME_LATE}
    if all(threads.role(one.where) and threads.role(one.other) for one in doubts if one.kind in _BETWEEN):
        known |= _BETWEEN  # each has threads of its own: whoever waits for the other is seen
    if (limit.kind is LimitKind.DISK or mostly) and not answer.losses:
        verdicts -= {Verdict.BURST}  # a queue that overflows at times, behind what waits for the disk
    if not verdicts <= {Verdict.UNKNOWN, Verdict.NONE} or any(doubt.kind not in known for doubt in doubts):
        return answer
    if len(distrust) > len(ended):
        return answer
    if answer.verdict == Verdict.UNKNOWN and not answer.doubts and _tells_none_apart(limit, contested):
        return answer
    if not _names(threads):
        part = _its_own(threads)
        if answer.verdict == Verdict.NONE and not answer.lines and part >= _OWN:
            return withheld(answer, said(RunDoubt.NOT_LOAD, part=part))
        return answer
    if (by_lock := by_interpreter_lock(answer, threads)) is not None:
        return by_lock
    return replace(_by_threads(answer, threads, *_beside(answer)), distrust=tuple(ended))


def _its_own(threads: ThreadFindings) -> float:
    """The share of the progress that is work of its threads, or sleeps of those that others give work to.

    What a source sleeps is the pace of the load. So may be what an event loop sleeps, which polls as well.
    """
    fed = {edge.to for edge in threads.edges if edge.kind != "lock" and edge.source != edge.to}
    naps = {role.name for role in threads.roles if role.name in fed and "poll" not in role.blocked}
    return sum(
        part
        for what, part in threads.progress.items()
        if what.endswith((": run", ": runnable", ": disk"))
        or (what.endswith(": timer") and what.removesuffix(": timer") in naps)
    )


def _has_ended(answer: Answer) -> bool:
    """Whether the thread of the stage that takes nothing any more is known to be no more."""
    return any(kind_of(one) is QueueEvidence.ENDED for one in answer.evidence)


def _beside(answer: Answer) -> tuple[str, ...]:
    """What the queues say beside the threads that name something: not what they could not tell either."""
    if answer.verdict != Verdict.NONE or answer.lines or answer.stalls:
        return ()
    return (said(RunEvidence.QUEUES_ALONE, sentence=answer.sentence),)


def _spent(role: Role) -> str:
    """What threads do while they hold what others wait for, and while they wait themselves."""
    asleep = role.blocked.get("timer", 0.0)
    waited = max(0.0, 1 - role.running - role.runnable - asleep)
    who = f"{role.count} × {role.name}" if role.count > 1 else role.name
    times = {"running": role.running, "runnable": role.runnable, "asleep": asleep, "waited": waited}
    return said(ThreadEvidence.RAN_AND_SLEPT, who=who, **times)


def _of_its_threads(sentence: str, verdict: str, stage: str | None, threads: ThreadFindings) -> str:
    """What limits, with what the stage's threads do: that they sleep, or keep a lock from one another."""
    role = threads.role(stage)
    if role is None:
        return sentence
    if role.asleep and verdict != Verdict.STOPPED:
        sentence = said(RunFinding.SLEEPS, sentence=sentence, asleep=role.asleep)
    lock = _lock_between(role, threads)
    if lock is not None:
        lock_of = {"threads": role.count, "lock": lock[0], "waits": lock[1]}
        sentence = said(RunFinding.ITS_LOCK, sentence=sentence, **lock_of)
    return sentence


def _tells_none_apart(limit: Limit, contested: frozenset[str]) -> bool:
    """Whether threads name what the queues could not tell apart: one of several, or the sleeps of some."""
    return limit.name in contested or len(contested.intersection(limit.name.split(", "))) > 1


def _disk_limits(answer: Answer, threads: ThreadFindings) -> bool:
    """Whether a stage may be slow since the disk is, which is what would have to be faster then."""
    return answer.verdict == Verdict.STAGE and threads.limit.kind is LimitKind.DISK and _names(threads)


def _lock_of_stage(answer: Answer, role: Role, threads: ThreadFindings) -> bool:
    """Whether the threads of the stage that is slow keep a lock from one another, which limits for sure.

    Held for less the same threads are faster; more threads, which a slow stage asks for, would gain nothing.
    """
    limit = threads.limit
    if answer.verdict != Verdict.STAGE or limit.kind is not LimitKind.LOCK or not _names(threads):
        return False
    return role.count > 1 and any(
        lock.name == limit.name != _OF_PYTHON and lock.share >= _MOST and role.name in lock.waiters
        and role.name in lock.holders
        for lock in threads.locks
    )  # fmt: skip


def _names(threads: ThreadFindings) -> bool:
    """Whether what the threads do names a limit for sure."""
    limit = threads.limit
    sure = limit.kind in _NAMED and limit.confidence >= _SURE
    return sure and not threads.distrust and not takes_no_cpu(threads)


def _by_threads(answer: Answer, threads: ThreadFindings, *why: str) -> Answer:
    limit = threads.limit
    return replace(
        answer,
        sentence=limit.sentence,
        limiting_stage=limit.name,
        verdict=str(limit.kind),
        confidence=limit.confidence,
        evidence=(*limit.evidence, *why),
        doubts=(),
        lines=(),
    )


def _waits(role: Role, threads: ThreadFindings) -> float:
    """Share of its time that a role waited for threads that were seen.

    For the interpreter's lock, too, where it wants no other: a stage is slow by a lock of the program's own.
    """
    wanted = {lock.name for lock in threads.locks if role.name in lock.waiters}
    ended = [edge for edge in threads.edges if edge.to == role.name]
    if wanted == {_OF_PYTHON}:
        ended = [edge for edge in ended if edge.kind != "lock" or edge.source != role.name]
    else:
        ended = [edge for edge in ended if edge.kind != "lock"]
    return min(1.0, sum(edge.waiting for edge in ended))


def _each_line(answer: Answer, threads: ThreadFindings) -> Answer:
    """Several lines, less those whose stage has work by its queues, and whose threads wait for others."""
    lines, doubts = [], []
    for line in answer.lines:
        role = threads.role(line.limiting_stage)
        waits = _waits(role, threads) if role is not None and line.verdict == Verdict.STAGE else 0.0
        if role is None or waits < _WAITING:
            lines.append(line)
            continue
        doubts.append(said(RunDoubt.WAITS_FOR_OTHERS, stage=role.name, waits=waits))
        sentence = said(ThreadFinding.UNKNOWN, why=doubts[-1])
        nothing = replace(
            line, sentence=sentence, limiting_stage=None, verdict=Verdict.UNKNOWN, confidence=0.0
        )
        lines.append(nothing)
    if not doubts:
        return answer
    named = {line.limiting_stage for line in lines}
    answer = replace(
        answer, lines=tuple(lines), sentence=sentence_of(tuple(lines)), distrust=(*answer.distrust, *doubts)
    )
    if answer.limiting_stage in named or answer.limiting_stage is None:
        return answer
    return replace(answer, limiting_stage=None, verdict=str(Verdict.UNKNOWN), confidence=0.0)


def _another(role: Role, threads: ThreadFindings) -> bool:
    """Threads name another role for sure, which had work for far more of the time than those of the stage."""
    other = threads.role(threads.limit.name)
    if other is None or other is role or not _names(threads) or role.count > 1 or other.count > 1:
        return False
    return other.running + other.runnable > _MORE_WORK * (role.running + role.runnable)


def _by_others(answer: Answer, threads: ThreadFindings, role: Role, waits: float) -> Answer:
    """A stage that has work by its queues, and whose threads wait for others: it does not limit."""
    if _names(threads) and threads.limit.name != role.name:
        return _by_threads(answer, threads, said(RunEvidence.QUEUES_NAME, stage=role.name, waits=waits))
    started = [edge for edge in threads.edges if edge.to == role.name and edge.kind == "child"]
    its_own = sum(edge.waiting for edge in started)
    if waits - its_own < _WAITING <= waits:
        # What the programs do that it starts for each event is its work.
        programs = ", ".join(edge.source for edge in sorted(started, key=lambda one: -one.waiting)[:3])
        told = {"sentence": answer.sentence, "programs": programs, "waits": its_own}
        return replace(answer, sentence=said(RunFinding.STARTS, **told))
    why = said(RunDoubt.WAITS_FOR_OTHERS, stage=role.name, waits=waits)
    return replace(withheld(answer, why), lines=())


def waiting_for_feeders(found: Analysis, observation: Observation, threads: ThreadFindings) -> frozenset[str]:
    """The stages that their queues have busy for longer than their threads can be, which wait for the stages
    that feed them.

    As of a thread that takes results of processes: when it has one, its queue learns of it late.
    """
    feeds: dict[str, set[str]] = {}
    for queue in observation.queues:
        feeds.setdefault(queue.drain, set()).update(queue.sources)
    told = set()
    for stage in found.stages:
        role = threads.role(stage.label)
        if role is None or role.count > 1:
            continue
        ended = [edge for edge in threads.edges if edge.to == role.name and edge.kind != "lock"]
        waits = sum(edge.waiting for edge in ended if edge.source in feeds.get(stage.label, ()))
        if (stage.utilisation or 0.0) > 1 - waits + _APART:
            told.add(role.name)
    return frozenset(told)


def contested(found: Analysis, observation: Observation, threads: ThreadFindings) -> frozenset[str]:
    """The stages that are about as busy as the busiest, where queues were seen for long enough to judge.

    With the roles that are no end of a queue, where one thread runs several of these stages, as an event loop
    does: that it sleeps is what its stages do, and tells no two of them apart.
    """
    told = [stage for stage in found.stages if stage.utilisation is not None and stage.rate_hz > 0]
    if found.verdict is not Verdict.UNKNOWN or found.scarce or alike_lanes(found, observation):
        return frozenset()
    alike = near({stage.label: stage.utilisation or 0.0 for stage in told})
    if len(alike) > 1 and len(near({stage.label: _at_work(stage, threads) for stage in told})) == 1:
        return frozenset()
    runs: dict[int, set[str]] = {}
    for queue in observation.queues:
        runs.setdefault(queue.consumer_tid, set()).add(queue.drain)
    if any(tid and len(alike & labels) > 1 for tid, labels in runs.items()):
        ends = {end for queue in observation.queues for end in (queue.source, queue.drain)}
        alike |= {role.name for role in threads.roles} - ends
    return frozenset(alike)


def _at_work(stage: StageResult, threads: ThreadFindings) -> float:
    """The share of the time that a stage is busy, without what its one thread waited for others meanwhile.

    As of a semaphore beside a queue: what its queues do not show is work to them.
    """
    busy = stage.utilisation or 0.0
    role = threads.role(stage.label)
    if role is None or role.count > 1:
        return busy
    return busy - max(0.0, _waits(role, threads) - (1.0 - busy))


def _lock_between(role: Role, threads: ThreadFindings) -> tuple[str, float] | None:
    """The lock that threads of one role keep from one another, and the share of their time that this takes.

    A stage that is slow by that is made faster by holding the lock for less, and not by more threads.
    """
    mine = [
        (lock.wait_ns / (role.count * threads.seconds * 1e9), lock.name)
        for lock in threads.locks
        if lock.name != _OF_PYTHON and role.name in lock.waiters and role.name in lock.holders
    ]
    waits, name = max(mine, default=(0.0, ""))
    return (name, min(1.0, waits)) if role.count > 1 and waits >= _HELD else None
