"""The answer on an application that publishes its queues: by what they and its event traces tell."""

from __future__ import annotations

from dataclasses import replace

from latlab.formats.recording import open_recording
from latlab.lab.diagnosis.applications.application import Application, Observed, Place
from latlab.lab.diagnosis.budget import budget, mean_budget
from latlab.lab.diagnosis.lines import about_line, sentence_of
from latlab.lab.diagnosis.question import Question
from latlab.lab.diagnosis.steps import Steps
from latlab.lab.diagnosis.tail_stage import waits_for
from latlab.lab.judge.disturbances import burst_in_words, stalls_in_words, with_cause
from latlab.lab.judge.watched import Watched
from latlab.model.diagnosis.answer import Answer, Budget, Floor, Step
from latlab.model.queues.tail import Tail
from latlab.queues import tail
from latlab.stats.quantiles import nearest_rank, quantile_name
from latlab.words import count, plural

__all__ = ["about_queues"]

_TAIL = 0.999
_MOST_EXEMPLARS = 10


def about_queues(
    question: Question,
    application: Application,
    seen: Observed,
    place: Place,
    floor: Floor | None,
    findings: tuple[tuple[str, str, str, str], ...],
    steps: Steps,
) -> Answer:
    """The answer by its queues; by its traces, too, where it wrote some."""
    assert seen.queues is not None
    queues = seen.queues
    found, run = queues.diagnosis, queues.diagnosis.of_run
    traces = application.traces(seen)
    detail = f"{count(run.events)} events, {plural(len(run.queues), 'queue')}, "
    detail += f"{plural(len(found.stages), 'stage')}, {plural(run.discrepancy.traces, 'traced event')}"
    if seen.looks:
        detail += f"; observation {len(seen.looks) + 1}, since the machine disturbed the earlier ones"
    steps.steps.append(Step("observation", "done", seen.seconds, detail))
    named = f"{found.verdict}: {found.limiting_stage or 'none'}"
    steps.steps.append(Step("limiting stage", "done", seen.judged_s, named))
    taken = floor.share if floor else 0.0
    slowest: Tail | None = None
    parts: Budget | None
    if traces is not None and run.end_to_end is not None:
        of_traces = traces
        parts = steps.run(
            "budget", lambda: (budget(of_traces, _TAIL, taken), "of the traced events around p99.9")
        )
        slowest = steps.run("slowest events", lambda: _slowest(queues, place), None)
    else:
        # Several lines have a budget each: a mean over applications is nobody's.
        whole = replace(found, queues=(), stages=(), sockets=()) if found.lines else found
        parts = steps.run("budget", lambda: (mean_budget(whole), "of the mean, by Little's law"))
        steps.unknown.append(application.untraced(seen, place))
    objective = question.objective
    if objective is not None and queues.residence.end_to_end.size:
        reached = float(nearest_rank(queues.residence.end_to_end, objective.quantile))
        objective = replace(objective, reached_ns=reached)
    lines = tuple(about_line(found, line) for line in found.lines)
    sentence = sentence_of(lines) if lines else found.sentence
    stood = stalls_in_words(queues.observation)
    waits = None if lines or found.doubts or found.distrust else waits_for(found, parts)
    return Answer(
        target=application.target,
        sentence=with_cause(sentence, found.limiting_stage, found, stood)
        + (f" {waits.sentence}" if waits else ""),
        limiting_stage=found.limiting_stage,
        verdict=str(found.verdict),
        confidence=found.confidence,
        evidence=found.evidence,
        distrust=found.distrust,
        steps=tuple(steps.steps),
        unknown=tuple(steps.unknown),
        floor=floor,
        findings=findings,
        end_to_end=run.end_to_end,
        budget=parts,
        stalls=stood,
        burst=burst_in_words(found),
        losses=found.losses,
        tail=slowest,
        objective=objective,
        seed=question.seed,
        recordings={"observation": "observation", **{look: look for look in seen.looks}},
        doubts=found.doubts,
        lines=lines,
        tail_stage=waits.stage if waits else None,
    )


def _slowest(queues: Watched, place: Place) -> tuple[Tail, str]:
    recording = open_recording(place.observation).series("traces")
    names = ("event", "push_ns", "pop_ns", "queue", "stage", "end")
    columns = {name: recording[name] for name in names}
    # Of few events none is beyond p99.9: then the slowest there are.
    times = max(1, queues.residence.end_to_end.size)
    share = round(max(0.5, min(_TAIL, 1 - _MOST_EXEMPLARS / times)), 4)
    found = tail(queues.observation, columns, share=share, most=_MOST_EXEMPLARS)
    return found, f"{found.beyond} traced events beyond {quantile_name(share)}"
