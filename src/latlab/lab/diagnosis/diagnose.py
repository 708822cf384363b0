"""From a question to one answer: the machine's floor, its settings, what was observed, what limits, and what
fixing it would buy. Each step is saved as it ends, and one that can't run says why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from latlab.errors import LatlabError
from latlab.formats.recording import RecordingWriter, open_recording
from latlab.lab.diagnosis.about_program import about_program, stopped
from latlab.lab.diagnosis.budget import budget, mean_budget
from latlab.lab.diagnosis.joined import joined
from latlab.lab.diagnosis.lines import about_line, sentence_of
from latlab.lab.diagnosis.next_commands import (
    forecast_again,
    of_component,
    of_model,
    of_stages,
    of_study,
    of_tail,
    of_traces,
)
from latlab.lab.diagnosis.observe_command import CommandRun, program_of
from latlab.lab.diagnosis.observe_threads import ProgramRun, observe_program, require_process
from latlab.lab.diagnosis.question import Question
from latlab.lab.forecast.by_component_study import studied
from latlab.lab.forecast.by_queue_model import modelled
from latlab.lab.forecast.by_stage_stub import forecast
from latlab.lab.forecast.null_test import withheld
from latlab.lab.forecast.stage_runs import CannotStubError, Stubbing
from latlab.lab.judge.demand import held_up
from latlab.lab.judge.disturbances import (
    burst_in_words,
    losses_in_words,
    stalls_in_words,
    unanswered,
    with_cause,
)
from latlab.lab.trading.demo import DemoOptions, feeds_for, in_the_users_words
from latlab.lab.trading.feeds import require_file
from latlab.lab.trading.run import PipelineRun, run_pipeline
from latlab.model.answer import Answer, Budget, Floor, Forecast, Step, Unknown
from latlab.model.layout import STAGES, Layout
from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Verdict
from latlab.model.queues.observation import Observation
from latlab.model.queues.tail import Tail
from latlab.queues import tail
from latlab.stats.quantiles import nearest_rank
from latlab.stubs import require_component
from latlab.system.environment import capture
from latlab.system.scratch import scratch
from latlab.words import duration, share

__all__ = ["KIND", "DiagnosisRun", "diagnose_question"]

KIND = "diagnosis"
_TAIL = 0.999
_MOST_EXEMPLARS = 10
_LEAST_STUDY_S = 15.0
_RESERVE_S = 4.0  # of the budget, for what comes after the forecast
_DISTURBED = "disturbed"  # the name of such a look's recording, with its number
_WHOLE = 0.8  # of the seconds that were asked for
_LOOKS = 3  # at a pipeline of which nothing can be said, since the machine was taken away under it

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DiagnosisRun:
    """The answer, with what its report draws.

    Attributes:
        pipeline: of the trading pipeline, where that was diagnosed; else `program` is set.
    """

    answer: Answer
    environment: Environment
    pipeline: PipelineRun | None = None
    program: ProgramRun | None = None

    @property
    def command(self) -> CommandRun | None:
        """What the queues of a program of one's own told, if it publishes any."""
        return None if self.program is None else self.program.queues


@dataclass
class _Steps:
    """Collects what each step gave, and saves it."""

    writer: RecordingWriter
    tell: Tell
    steps: list[Step] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)

    def run(self, name: str, work: Callable[[], tuple[Any, str]], otherwise: str | None = None) -> Any:
        """Do a step; where it can't run, note why, and the command that would find out."""
        begin = time.monotonic()
        try:
            result, detail = work()
        except LatlabError as error:
            self.skip(name, str(error), otherwise, time.monotonic() - begin)
            return None
        self.steps.append(Step(name, "done", time.monotonic() - begin, detail))
        self._save()
        return result

    def skip(self, name: str, why: str, otherwise: str | None, seconds: float = 0.0) -> None:
        """Note a step that is left out."""
        self.tell(f"{name}: skipped: {why}")
        self.steps.append(Step(name, "skipped", seconds, why))
        if otherwise is not None:
            self.unknown.append(Unknown(f"{name}: {why}", otherwise))
        self._save()

    def _save(self) -> None:
        self.writer.put("steps", {"schema": 1, "steps": [asdict(step) for step in self.steps]})


def diagnose_question(question: Question, output: Path, tell: Tell) -> DiagnosisRun:
    """Answer a question.

    Args:
        output: the folder of the recording; it must not hold anything yet. What was observed lies in it as a
            recording of its own, "observation".
        tell: takes a line on each step as it begins.

    Raises:
        LatlabError: nothing could be observed; what was measured until then is kept.
    """
    begin = time.monotonic()
    _require_target(question)
    environment = capture()
    parameters = {"question": _plain(question)}
    writer = RecordingWriter(output, KIND, parameters=parameters, environment=environment, seed=question.seed)
    with writer, scratch("diagnose") as temporary:
        steps = _Steps(writer, tell)
        floor = steps.run("floor", lambda: _floor(question, tell), "latlab jitter -r 10")
        if floor is not None:
            writer.put("floor", {"schema": 1, **asdict(floor)})
        findings = steps.run("settings", _settings, "latlab system check") or ()
        if question.layout is not None:
            options = _options(question, question.layout, output)
            feeds = feeds_for(options, temporary, tell)
            run = _observe_pipeline(question, options, feeds, environment, tell)
            answer = _about_pipeline(question, run, floor, findings, steps)
            _save_answer(writer, answer)
            stubbing = Stubbing(options.layout, feeds, question.seconds, environment, question.seed)
            deadline = begin + question.budget_s - _RESERVE_S
            answer = _with_forecast(question, answer, run.observation, stubbing, deadline, steps)
            done = DiagnosisRun(answer, environment, pipeline=run)
        else:
            program = _observe_program(question, output, environment, tell)
            watched = program.queues
            if watched is None:
                answer = about_program(question, program, floor, findings, steps.steps, steps.unknown)
            else:
                answer = _about_command(question, watched, floor, findings, steps)
                if program.threads is not None:
                    answer = joined(answer, program.threads, _distrust(watched))
                _save_answer(writer, answer)
                left_s = begin + question.budget_s - _RESERVE_S - time.monotonic()
                answer = _with_study(question, answer, watched, output / "study", left_s, steps)
            done = DiagnosisRun(answer, environment, program=program)
        _save_answer(writer, done.answer)
    return done


def _require_target(question: Question) -> None:
    """Refuse what can't be observed before anything is measured or written."""
    if question.pid is not None:
        require_process(question.pid)
    elif question.command:
        program_of(question.command)
        for stage, component in question.components.items():
            require_component(component, question.command, question.source, f"diagnose.components.{stage}")
    elif question.input is not None:
        require_file(question.input, question.input_from)


def _plain(question: Question) -> dict[str, Any]:
    document = asdict(question)
    document["input"] = None if question.input is None else str(question.input)
    return document


def _save_answer(writer: RecordingWriter, answer: Answer) -> None:
    writer.put("answer", answer.to_json())


def _options(question: Question, layout: Layout, output: Path) -> DemoOptions:
    return DemoOptions(
        layout=layout,
        seconds=question.seconds,
        output=output / "observation",
        input=question.input,
        seed=question.seed,
        symbols=question.symbols,
    )


def _floor(question: Question, tell: Tell) -> tuple[Floor, str]:
    """What the CPUs that the application may use take by themselves."""
    from latlab import jitter

    pinned = (
        sorted({cpu for stage in question.layout.stages.values() for cpu in stage.cpus})
        if question.layout
        else []
    )
    cpus = pinned or sorted(os.sched_getaffinity(0))
    tell(f"measuring the machine's floor on CPU {', '.join(map(str, cpus))} for {question.floor_s:g} s")
    found = jitter.analyse(jitter.measure(cpus, question.floor_s))
    lost = sum(core.gap_ticks / core.wall_ticks for core in found.cores) / len(found.cores)
    worst = max(core.ns(core.max_ticks) for core in found.cores)
    known = sorted((one for one in found.sources if one.total_ns), key=lambda one: -(one.total_ns or 0.0))
    sources = tuple(
        f"{one.name} ({one.kind}): {duration(one.total_ns or 0)} in {one.count} gaps" for one in known[:5]
    )
    floor = Floor(tuple(cpus), question.floor_s, lost, worst, sources, found.warnings)
    return (
        floor,
        f"the machine takes {share(lost, digits=3)} of the time, longest gap {duration(worst)}",
    )


def _settings() -> tuple[tuple[tuple[str, str, str, str], ...], str]:
    from latlab.system.settings.catalogue import check

    found = check()
    bad = tuple(
        (one.name, str(one.value), one.cost, one.command)
        for one in found
        if one.unavailable is None and not one.good
    )
    return bad, f"{len(bad)} of {len(found)} settings disturb measurements"


def _observe_pipeline(
    question: Question, options: DemoOptions, feeds: Sequence[Path], environment: Environment, tell: Tell
) -> PipelineRun:
    """Look once; again where nothing limits but a neighbour on the host, who is gone a moment later.

    A process that can be seen is a finding, and is not waited for.
    """
    for look in range(1, _LOOKS + 1):
        try:
            run = run_pipeline(
                options.layout,
                feeds,
                options.output,
                seconds=question.seconds,
                environment=environment,
                seed=question.seed,
                parameters={"symbols": question.symbols, "input": str(question.input or "")},
                tell=tell,
            )
        except LatlabError as error:
            raise in_the_users_words(error, question.input) from None
        found = run.diagnosis
        whole = found.seconds > _WHOLE * question.seconds  # else it was interrupted, or a process died
        passing = run.disturbed is not None and run.unseen and found.limiting_stage is None
        if not (passing and whole) or look == _LOOKS:
            break
        kept = options.output.with_name(f"{_DISTURBED}-{look}")
        tell(f"{run.disturbed}, and nothing else limits: observing again (this look is kept as {kept.name})")
        options.output.rename(kept)
    return run


def _observe_program(question: Question, output: Path, environment: Environment, tell: Tell) -> ProgramRun:
    folder = output / "observation"
    return observe_program(
        question.command,
        question.pid,
        folder,
        seconds=question.seconds,
        environment=environment,
        tell=tell,
    )


def _about_pipeline(
    question: Question,
    run: PipelineRun,
    floor: Floor | None,
    findings: tuple[tuple[str, str, str, str], ...],
    steps: _Steps,
) -> Answer:
    found = run.diagnosis
    traced = found.discrepancy.traces
    detail = f"{found.events:,} messages, {found.sampler.queues} queues, {traced:,} traced events"
    looks = sorted(path.name for path in steps.writer.path.glob(f"{_DISTURBED}-*"))
    if looks:
        detail += f"; look {len(looks) + 1}, since the machine was taken away in those before"
    steps.steps.append(Step("observation", "done", found.seconds, detail))
    steps.steps.append(
        Step("limiting stage", "done", 0.0, f"{found.verdict}: {found.limiting_stage or 'none'}")
    )
    parts: Budget | None = None
    if found.end_to_end is None:
        steps.skip("budget", "no traced event reached the end", of_traces(question.source))
    else:
        parts = steps.run(
            "budget",
            lambda: (
                budget(run.traces, _TAIL, floor.share if floor else 0.0),
                "of the traced events around p99.9",
            ),
        )
    slowest: Tail | None = None
    if found.end_to_end is not None:
        slowest = steps.run("slowest events", lambda: _slowest(run, steps), None)
    objective = question.objective
    if objective is not None and run.residence.end_to_end.size:
        objective = replace(
            objective, reached_ns=float(nearest_rank(run.residence.end_to_end, objective.quantile))
        )
    return Answer(
        target=question.source or "the trading pipeline as it comes",
        sentence=with_cause(found.sentence, found.limiting_stage, found.analysis, run.observation),
        limiting_stage=found.limiting_stage,
        verdict=found.verdict,
        confidence=found.confidence,
        evidence=found.evidence,
        distrust=found.distrust,
        steps=tuple(steps.steps),
        unknown=tuple(steps.unknown),
        floor=floor,
        findings=findings,
        end_to_end=found.end_to_end,
        budget=parts,
        stalls=stalls_in_words(run.observation),
        burst=burst_in_words(found.analysis),
        losses=found.losses,
        tail=slowest,
        objective=objective,
        seed=question.seed,
        doubts=found.analysis.doubts,
        recordings={"observation": "observation", **{look: look for look in looks}},
    )


def _slowest(run: PipelineRun, steps: _Steps) -> tuple[Tail, str]:
    recording = open_recording(steps.writer.path / "observation").series("traces")
    names = ("event", "push_ns", "pop_ns", "queue", "stage", "end")
    columns = {name: recording.column(name).to_numpy(zero_copy_only=False) for name in names}
    # Of few events none is beyond p99.9: then the slowest there are.
    times = max(1, run.residence.end_to_end.size)
    share = round(max(0.5, min(_TAIL, 1 - _MOST_EXEMPLARS / times)), 4)
    found = tail(run.observation, columns, share=share, most=_MOST_EXEMPLARS)
    return found, f"{found.beyond} traced events beyond p{100 * share:g}"


def _with_forecast(
    question: Question,
    answer: Answer,
    observation: Observation,
    stubbing: Stubbing,
    deadline: float,
    steps: _Steps,
) -> Answer:
    stage = question.stage or _stage_that_limits(answer)
    made: Forecast | None = None
    if not question.forecast:
        steps.skip("forecast", "it was not asked for", None)
    elif stage is None:
        steps.skip("forecast", "no stage limits, so there is none to make faster", None)
    elif (
        question.stages
        and stage not in question.stages
        and _type_of(stubbing.layout, stage) not in question.stages
    ):
        steps.skip(
            "forecast",
            f"{stage} is not among the stages that may be stubbed",
            of_stages(question.source, stage),
        )
    else:
        chosen = stage

        def measure() -> tuple[Forecast, str]:
            result = forecast(stubbing, chosen, deadline, steps.writer, steps.tell)
            return result, f"{result.rounds} rounds, the runs of each interleaved"

        try:
            made = steps.run("forecast", measure, forecast_again(question))
        except CannotStubError as error:
            steps.skip("forecast", str(error), None)
            made = _by_model(question, observation, chosen, steps)
    return _forecasted(question, answer, made, steps)


def _forecasted(question: Question, answer: Answer, made: Forecast | None, steps: _Steps) -> Answer:
    """The answer with a forecast that passes its own null test; else with the reason why there is none."""
    why = withheld(made, answer.floor.share if answer.floor else 0.0, question.budget_s) if made else None
    if why is not None:
        steps.tell(why)
        answer, made = replace(answer, distrust=(*answer.distrust, why)), None
    return replace(
        answer,
        steps=tuple(steps.steps),
        unknown=tuple(steps.unknown),
        forecasts=(made,) if made is not None else (),
    )


def _stage_that_limits(answer: Answer) -> str | None:
    """What could be made faster: a pool is not a stage, and one that has stopped is not slow."""
    return None if answer.verdict in (Verdict.POOL, Verdict.STOPPED) else answer.limiting_stage


def _by_model(question: Question, observation: Observation, stage: str, steps: _Steps) -> Forecast | None:
    """By a queueing model, where stubbing is impossible; labelled as one everywhere."""

    def simulate() -> tuple[Forecast, str]:
        result = modelled(observation, stage, seed=question.seed)
        return result, "computed by a queue model that was fitted to the observation, not measured"

    made: Forecast | None = steps.run("forecast by a model", simulate, of_model(steps.writer.path))
    return made


def _with_study(
    question: Question, answer: Answer, run: CommandRun, output: Path, left_s: float, steps: _Steps
) -> Answer:
    """The forecast for an application of one's own: of its component where that is known, else by a model."""
    stage = question.stage or _stage_that_limits(answer)
    made: Forecast | None = None
    if not question.forecast:
        steps.skip("forecast", "it was not asked for", None)
    elif stage is None:
        steps.skip("forecast", "no stage limits, so there is none to make faster", None)
    elif stage in question.components and question.command:
        component = question.components[stage]

        def measure() -> tuple[Forecast, str]:
            result = studied(
                question.command,
                stage,
                component,
                output,
                seconds=max(left_s, _LEAST_STUDY_S),
                seed=question.seed,
                tell=steps.tell,
            )
            return result, f"{result.rounds} rounds of the whole command, {component} stubbed"

        made = steps.run("forecast", measure, of_study(component, question.command))
    else:
        steps.skip(
            "forecast",
            f"which function or class does the work of {stage} is not known",
            of_component(stage, question.command),
        )
    if made is None and stage is not None and question.forecast:
        made = _by_model(question, run.observation, stage, steps)
    return _forecasted(question, answer, made, steps)


def _type_of(layout: Layout, stage: str) -> str:
    return next((kind for kind in STAGES if stage in layout.instances(kind)), stage)


def _about_command(
    question: Question,
    run: CommandRun,
    floor: Floor | None,
    findings: tuple[tuple[str, str, str, str], ...],
    steps: _Steps,
) -> Answer:
    found = run.analysis
    if not found.lines and (demand := held_up(found)) is not None:
        found = replace(found, limiting_stage=demand.name, evidence=(*found.evidence, demand.evidence))
    moved = sum(queue.total_out for queue in found.queues)
    detail = f"{len(found.queues)} queues, {moved:,} events, {len(found.stages)} stages"
    steps.steps.append(Step("observation", "done", run.seconds, detail))
    steps.steps.append(
        Step("limiting stage", "done", 0.0, f"{found.verdict}: {found.limiting_stage or 'none'}")
    )
    parts = steps.run(
        "budget", lambda: (mean_budget(found, floor.share if floor else 0.0), "of the mean, by Little's law")
    )
    target = " ".join(question.command) if question.command else f"process {question.pid}"
    lines = tuple(about_line(found, line, floor.share if floor else 0.0) for line in found.lines)
    steps.unknown.append(of_tail(run.observation, steps.writer.path))
    return Answer(
        target=target,
        sentence=with_cause(sentence_of(found, lines), found.limiting_stage, found, run.observation),
        limiting_stage=found.limiting_stage,
        verdict=str(found.verdict),
        confidence=found.confidence,
        evidence=found.evidence,
        distrust=(*unanswered(found.verdict, found), *_distrust(run)),
        steps=tuple(steps.steps),
        unknown=tuple(steps.unknown),
        floor=floor,
        findings=findings,
        budget=parts,
        stalls=stalls_in_words(run.observation),
        burst=burst_in_words(found),
        losses=losses_in_words(found),
        objective=question.objective,
        seed=question.seed,
        recordings={"observation": "observation"},
        doubts=found.doubts,
        lines=lines,
    )


def _distrust(run: CommandRun) -> tuple[str, ...]:
    reasons = []
    if run.status not in (0, None) and not stopped(run.status):
        reasons.append(f"the command ended with status {run.status}")
    if run.observation.gaps:
        missed = int(run.observation.gaps["periods"].sum())
        sweeps = int(run.observation.sweeps["t_ns"].size)
        if missed > sweeps:
            reasons.append(f"the sampler was starved: it missed {missed:,} of {missed + sweeps:,} periods")
    return tuple(reasons)
