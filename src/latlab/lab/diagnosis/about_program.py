"""The answer on an application that publishes nothing: by what its threads were seen to do."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.lab.diagnosis.applications.application import Observed
from latlab.lab.diagnosis.applications.queue_recording import stopped
from latlab.lab.diagnosis.question import Question
from latlab.model.diagnosis.answer import Answer, Floor, Step, Unknown
from latlab.model.evidence.pipeline import Loss, RunDoubt
from latlab.model.evidence.said import said
from latlab.model.evidence.threads import ThreadEvidence
from latlab.model.schedule import Schedule, State
from latlab.model.threads import LimitKind, ThreadFindings
from latlab.words import count, plural

__all__ = ["about_program", "bound_to", "failed_first"]

_RAN_THERE = 0.005  # of the time
_IDLE = 0.5  # of the time: the kernel moves who waits to a CPU that is idle, and within milliseconds
_ENDED = 0.97  # of the time for which it was to be observed
_LEAST_S = 0.01
_NAMELESS = (LimitKind.UNKNOWN, LimitKind.LOAD)


def about_program(
    question: Question,
    target: str,
    run: Observed,
    floor: Floor | None,
    findings: tuple[tuple[str, str, str, str], ...],
    steps: Sequence[Step],
    unknown: Sequence[Unknown],
) -> Answer:
    """The answer by its threads alone."""
    found = run.threads
    assert found is not None
    assert run.schedule is not None
    limit = found.limit
    detail = (
        f"{plural(len(found.threads), 'thread')} in {plural(len(found.roles), 'role')}, "
        f"{count(run.schedule.losses.switches)} switches, by {found.method}"
    )
    done = [*steps, Step("observation", "done", run.seconds, detail)]
    done.append(Step("limit", "done", run.judged_s, f"{limit.kind}: {limit.name or 'none'}"))
    asked = list(unknown)
    if limit.kind is LimitKind.UNKNOWN:
        asked.append(Unknown(limit.sentence.rstrip("."), _longer(question, run)))
    losses = _dropped(run.schedule, found)
    distrust = list(found.distrust)
    if limit.kind in (LimitKind.LOAD, LimitKind.TIMER):  # and yet somebody was too slow for what came
        distrust += losses
    evidence = list(limit.evidence)
    if limit.kind is LimitKind.CPU and (bound := bound_to(run.schedule)):
        evidence.insert(0, bound)
    if run.status not in (0, None):
        ended = said(RunDoubt.ENDED, status=run.status)
        (evidence if stopped(run.status) else distrust).append(ended)
    if limit.kind is LimitKind.UNKNOWN:
        distrust.append(said(RunDoubt.NO_LIMIT, why="; ".join(limit.why_not)))
    return Answer(
        target=target,
        sentence=limit.sentence,
        limiting_stage=None if limit.kind in _NAMELESS else limit.name,
        verdict=str(limit.kind),
        confidence=limit.confidence,
        evidence=tuple(evidence),
        distrust=tuple(distrust),
        steps=tuple(done),
        unknown=tuple(asked),
        floor=floor,
        findings=findings,
        losses=losses,
        objective=question.objective,
        seed=question.seed,
        threads=found,
    )


def _dropped(schedule: Schedule, threads: ThreadFindings) -> tuple[str, ...]:
    """What the kernel dropped in front of its sockets, and because of whom where that one is what limits.

    Which thread reads a socket isn't known: only of a process that is all of the limiting role is it told.
    """
    found, limit = [], threads.limit
    limiting = {pid for role in threads.roles if role.name == limit.name for pid in role.pids}
    limiting -= {pid for role in threads.roles if role.name != limit.name for pid in role.pids}
    for address, pid, dropped in schedule.dropped:
        whose = next((one.pid for one in schedule.threads if pid in (one.pid, one.tid)), pid)
        of = next((role.process for role in threads.roles if whose in role.pids), str(whose))
        slow = whose in limiting
        since = said(Loss.CANNOT_KEEP_UP, stage=limit.name) if slow else ""
        found.append(said(Loss.KERNEL, dropped=dropped, socket=f"{address} of {of}", since=since))
    return tuple(found)


def failed_first(answer: Answer, run: Observed) -> Answer:
    """The answer after what its user has to know before: that the command may have failed."""
    if run.status in (0, None) or stopped(run.status):
        return answer
    told = said(RunDoubt.FAILED, status=run.status, ns=1e9 * run.seconds, sentence=answer.sentence)
    return replace(answer, sentence=told)


def bound_to(schedule: Schedule) -> str | None:
    """That a program which lacks CPUs ran on a part of them only, while the others had nothing to do."""
    ours = np.array([i for i, thread in enumerate(schedule.threads) if not thread.peer], np.int64)
    ran = schedule.intervals[schedule.intervals["state"] == State.RUNNING]
    mine = np.isin(ran["thread"], ours)
    window = max(1, schedule.ended_ns - schedule.began_ns)

    def on(rows: np.ndarray[Any, Any], cpus: Sequence[int]) -> int:
        rows = rows[np.isin(rows["cpu"], cpus)]
        return int((rows["end"] - rows["begin"]).sum())

    # Before it was bound, as `taskset` does it, it has run elsewhere for a moment.
    used = [cpu for cpu in schedule.cpus if on(ran[mine], [cpu]) > _RAN_THERE * window]
    left = [cpu for cpu in schedule.cpus if cpu not in used]
    if not used or not left:
        return None
    taken = on(schedule.foreign, left) + on(ran[~mine], left)
    idle = 1.0 - taken / (len(left) * window)
    if idle < _IDLE:
        return None
    return said(ThreadEvidence.BOUND, cpus=_cpus(used), others=_cpus(left), idle=idle)


def _cpus(numbers: Sequence[int]) -> str:
    return f"CPU {', '.join(map(str, numbers))}"


def _longer(question: Question, run: Observed) -> str:
    """The same again, for longer; of a command that came to its end before, again and again."""
    if question.command and run.status is not None and run.seconds < _ENDED * question.seconds:
        seconds = math.ceil(max(question.seconds, 2 * run.seconds))
        times = math.ceil(seconds / max(run.seconds, _LEAST_S))
        loop = f"for i in $(seq {times}); do {shlex.join(question.command)}; done"
        again = ["latlab", "diagnose", "--seconds", f"{seconds}", "--", "sh", "-c", loop]
        return shlex.join(again)
    words = ["latlab", "diagnose", "--seconds", f"{2 * question.seconds:g}"]
    if question.pid is not None:
        return shlex.join([*words, "--pid", str(question.pid)])
    return shlex.join([*words, "--", *question.command])
