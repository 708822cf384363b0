"""The answer on an application that publishes nothing: by what its threads were seen to do."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from latlab.lab.diagnosis.applications.application import Observed
from latlab.lab.diagnosis.applications.queue_recording import stopped
from latlab.lab.diagnosis.question import Question
from latlab.model.diagnosis.answer import Answer, Floor, Step, Unknown
from latlab.model.evidence.pipeline import RunDoubt
from latlab.model.evidence.said import said
from latlab.model.threads import LimitKind
from latlab.words import count, plural

__all__ = ["about_program"]

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
    done.append(Step("limit", "done", 0.0, f"{limit.kind}: {limit.name or 'none'}"))
    asked = list(unknown)
    if limit.kind is LimitKind.UNKNOWN:
        asked.append(Unknown(limit.sentence.rstrip("."), _longer(question)))
    distrust = list(found.distrust)
    evidence = list(limit.evidence)
    if run.status not in (0, None):
        (evidence if stopped(run.status) else distrust).append(said(RunDoubt.ENDED, status=run.status))
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
        objective=question.objective,
        seed=question.seed,
        threads=found,
    )


def _longer(question: Question) -> str:
    """The same again, for longer."""
    words = ["latlab", "diagnose", "--seconds", f"{2 * question.seconds:g}"]
    if question.pid is not None:
        return shlex.join([*words, "--pid", str(question.pid)])
    return shlex.join([*words, "--", *question.command])
