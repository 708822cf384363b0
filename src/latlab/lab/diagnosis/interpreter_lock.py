"""Stages that wait for the interpreter's lock: who needs it most limits, and not who waits longest for it.

A stage that sleeps and then waits for the lock seems slow by its queues and by its own times. The threads
tell what it waits for, and who runs meanwhile.
"""

from __future__ import annotations

from dataclasses import replace

from latlab.model.diagnosis.answer import Answer
from latlab.model.evidence.pipeline import RunDoubt, RunEvidence, RunFinding
from latlab.model.evidence.said import said
from latlab.model.evidence.threads import ThreadFinding
from latlab.model.queues.analysis import Verdict
from latlab.model.threads import LimitKind, LockUse, Role, ThreadFindings
from latlab.schedule.interpreter_lock import LEAST_CPU

__all__ = ["by_interpreter_lock", "interpreter_lock", "takes_no_cpu", "withheld"]

_OF_PYTHON = "GIL"
_HELD = 0.5  # of the progress waits for who holds it
_MOST = 0.5  # of what all that want it run …
_LEAD = 2.0  # … and so many times what the second runs
_WAITS = 0.5  # of its time, a stage that is named for want of the lock
_SURE = 0.95
_LITTLE = 0.1  # of what it runs
# A thread that works for so much of the time, and does so much of the progress, has no time left; a stage
# that waits for the lock for so much of its time is slow because of it.
_NO_TIME_LEFT, _ITS_PROGRESS, _WAITS_TOO = 0.8, 0.3, 0.25


def interpreter_lock(threads: ThreadFindings | None) -> LockUse | None:
    """The interpreter's lock, where a program's progress waits for it most of the time."""
    if threads is None or threads.distrust:
        return None
    locks = [lock for lock in threads.locks if lock.name == _OF_PYTHON]
    worst = max(locks, key=lambda lock: lock.share, default=None)
    if worst is None or takes_no_cpu(threads):
        return None
    return worst if worst.share >= _HELD or _without_time_left(threads, worst) is not None else None


def _without_time_left(threads: ThreadFindings, lock: LockUse) -> Role | None:
    """The one thread that needs the lock most and works nearly all the time, if some progress is its own.

    Of six that sleep and one that works for all of them each speaks for the progress: most may be theirs.
    """
    first = _runs_most(threads, lock)
    if first is None or first.count > 1 or first.spins or lock.share < _WAITS_TOO:
        return None
    busy = first.running + first.runnable
    return first if busy >= _NO_TIME_LEFT and first.limits >= _ITS_PROGRESS else None


def takes_no_cpu(threads: ThreadFindings) -> bool:
    """The threads told the interpreter's lock, and of no process do they want a whole CPU together.

    Who holds it runs, or would if it had a CPU: what waits for it while nobody does waits for something else.
    """
    if threads.limit.kind is not LimitKind.LOCK or threads.limit.name != _OF_PYTHON:
        return False
    wanted: dict[tuple[int, ...], float] = {}
    for role in threads.roles:
        wanted[role.pids] = wanted.get(role.pids, 0.0) + (role.running + role.runnable) * role.count
    return not wanted or max(wanted.values()) < LEAST_CPU


def by_interpreter_lock(answer: Answer, threads: ThreadFindings) -> Answer | None:
    """The answer by who needs the lock most; None where it changes nothing.

    Of what is said by the queues alone a stage stays that runs for what it needs, and one that waits for
    something else.
    """
    lock = interpreter_lock(threads)
    if lock is None or answer.verdict not in (Verdict.STAGE, Verdict.NONE, Verdict.UNKNOWN):
        return None
    if sum(line.limiting_stage is not None for line in answer.lines) > 1:
        return None
    named = threads.role(answer.limiting_stage)
    if named is None and lock.share < _HELD:
        return None
    without_time = _without_time_left(threads, lock)
    waits = _WAITS if without_time is None else _WAITS_TOO
    if answer.verdict == Verdict.STAGE and not (named is not None and _waits_for(named, lock, waits)):
        return None
    first = without_time or _needs_most(threads, lock)
    if first is not None and named is None and _needs_it_alone(threads, lock, first):
        # Without the lock nothing would go faster: others of its process have next to nothing to do.
        limit = threads.limit
        if limit.name != first.name or limit.confidence < _SURE:
            return None
        return replace(
            answer, sentence=limit.sentence, limiting_stage=limit.name, verdict=str(limit.kind),
            confidence=limit.confidence, doubts=(), lines=(),
            evidence=(*limit.evidence, *_beside(answer)),
        )  # fmt: skip
    if first is not None and first is not named:
        times = {"stage": first.name, "ran": first.running * first.count, "waited": lock.share}
        sentence = said(RunFinding.NEEDS_LOCK, **times)
        if named is not None:
            sentence = said(RunFinding.NEEDS_LOCK_OF, other=named.name, **times)
        return replace(
            answer, sentence=sentence, limiting_stage=first.name, verdict=str(Verdict.STAGE),
            confidence=min(_SURE, first.limits + (1 - first.limits) / 2), doubts=(), lines=(),
            evidence=(*threads.limit.evidence, *_beside(answer)),
        )  # fmt: skip
    if named is None:
        return None
    limit = threads.limit
    if limit.kind is LimitKind.LOCK and limit.name == _OF_PYTHON and limit.confidence >= _SURE:
        return replace(
            answer, sentence=limit.sentence, limiting_stage=limit.name, verdict=str(limit.kind),
            confidence=limit.confidence, evidence=limit.evidence, lines=(),
        )  # fmt: skip
    return replace(withheld(answer, said(RunDoubt.WAITS_FOR_LOCK, stage=named.name)), lines=())


def _beside(answer: Answer) -> tuple[str, ...]:
    """That the queues name nothing; whom they name instead, the sentence says."""
    if answer.verdict != Verdict.NONE or answer.stalls:
        return ()
    return (said(RunEvidence.QUEUES_ALONE, sentence=answer.sentence),)


def withheld(answer: Answer, why: str) -> Answer:
    """The answer without its name, and why it has none."""
    return replace(
        answer, sentence=said(ThreadFinding.UNKNOWN, why=why), limiting_stage=None,
        verdict=str(Verdict.UNKNOWN), confidence=0.0, distrust=(*answer.distrust, why),
    )  # fmt: skip


def _waits_for(role: Role, lock: LockUse, least: float) -> bool:
    return role.name in lock.waiters and role.blocked.get("futex", 0.0) >= least


def _needs_it_alone(threads: ThreadFindings, lock: LockUse, first: Role) -> bool:
    """No other thread of its process that wants the lock runs for a tenth of what it does."""
    wanting = {*lock.waiters, *lock.holders} - {first.name}
    others = [
        role.running for role in threads.roles if role.name in wanting and set(role.pids) & set(first.pids)
    ]
    return sum(others) < _LITTLE * first.running


def _runs_most(threads: ThreadFindings, lock: LockUse) -> Role | None:
    """The role that runs most of all that want the lock, by a clear lead."""
    some = [role for role in threads.roles if role.name in {*lock.waiters, *lock.holders}]
    some.sort(key=lambda role: -role.running * role.count)
    runs = [role.running * role.count for role in some]
    if not some or runs[0] < _MOST * sum(runs) or (len(runs) > 1 and runs[0] < _LEAD * runs[1]):
        return None
    return some[0]


def _needs_most(threads: ThreadFindings, lock: LockUse) -> Role | None:
    """The role that runs most of all that want the lock, if no role has more of the progress."""
    first = _runs_most(threads, lock)
    most = max((role.limits for role in threads.roles), default=0.0)
    return first if first is not None and first.limits >= most else None
