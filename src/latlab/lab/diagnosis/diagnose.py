"""From a question to one answer: the machine's floor, its settings, what was observed, what limits, and what
fixing it would buy. Each step is saved as it ends, and one that can't run says why.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from latlab.formats.recording import RecordingWriter
from latlab.lab.diagnosis.about_program import about_program, failed_first
from latlab.lab.diagnosis.about_queues import about_queues
from latlab.lab.diagnosis.applications.application import (
    Application,
    CannotReplayError,
    Observed,
    Place,
    Tell,
)
from latlab.lab.diagnosis.applications.program import Command, Process
from latlab.lab.diagnosis.interpreter_lock import interpreter_lock
from latlab.lab.diagnosis.joined import contested, joined, waiting_for_feeders
from latlab.lab.diagnosis.next_commands import of_model, of_other, of_requests, of_schedule, with_budget
from latlab.lab.diagnosis.question import Question
from latlab.lab.diagnosis.steps import Steps
from latlab.lab.diagnosis.tail_stage import most_of
from latlab.lab.forecast.by_schedule import by_schedule
from latlab.lab.forecast.null_test import with_drift, withheld
from latlab.model.diagnosis.answer import Answer, Applied, Floor, Forecast, Step, Unknown
from latlab.model.evidence.forecast import Withheld
from latlab.model.evidence.said import said
from latlab.model.machine.environment import Environment
from latlab.model.queues.analysis import Verdict
from latlab.model.threads import Limit, LimitKind
from latlab.queues.judge.sentences import overflowing
from latlab.system.environment import capture
from latlab.system.scratch import scratch
from latlab.threads import SHORTEST_S
from latlab.words import duration, plural, seconds, share

__all__ = ["KIND", "DiagnosisRun", "diagnose_question", "limiting_first"]

KIND = "diagnosis"
_RESERVE_S = 4.0  # of the budget, for what comes after the forecast
_LEAST_OBSERVED_S = 1.0
_MORE = 2  # times the time that it takes: a budget that carries what was left out
_OF_THREADS = 0.5  # of the time that is left, for a simulation of threads before a model of queues
_NO_STAGES = frozenset((LimitKind.CPU, LimitKind.LOCK, LimitKind.DISK, LimitKind.NETWORK, LimitKind.LOAD))
_SHORT_OF_CPUS = 0.3  # of the progress: by then what a stage leaves of a CPU is what others run on
_UNEVEN = 0.5  # of the looks at the CPUs' speed: then runs are compared that no one speed made


@dataclass(frozen=True, slots=True)
class DiagnosisRun:
    """The answer, with what its report draws."""

    answer: Answer
    environment: Environment
    seen: Observed


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
    application = _application(question)
    application.require()
    environment = capture()
    parameters = {"question": _plain(question)}
    writer = RecordingWriter(output, KIND, parameters=parameters, environment=environment, seed=question.seed)
    with writer, scratch("diagnose") as temporary:
        place = Place(output, temporary, environment, tell)
        steps = Steps(writer, tell)
        floor = steps.run("floor", lambda: _floor(application, question, tell), "latlab jitter -r 10")
        if floor is not None:
            writer.put("floor", {"schema": 1, **asdict(floor)})
        findings = steps.run("settings", _settings, "latlab system check") or ()
        if question.layout is None:
            left_s = begin + question.budget_s - _RESERVE_S - time.monotonic()
            application = _application(_within(question, left_s, steps))
        seen = application.observe(place)
        if seen.queues is None:
            answer = about_program(
                question, application.target, seen, floor, findings, steps.steps, steps.unknown
            )
            _save_answer(writer, answer)
            answer = _with_schedule(question, answer, seen, begin + question.budget_s - _RESERVE_S, steps)
        else:
            answer = about_queues(question, application, seen, place, floor, findings, steps)
            if seen.threads is not None:
                found = seen.queues.diagnosis
                alike = contested(found, seen.queues.observation, seen.threads)
                over = overflowing(found.queues)
                full = 1.0 if over is None or over.dropped else over.full
                late = waiting_for_feeders(found, seen.queues.observation, seen.threads)
                answer = joined(answer, seen.threads, seen.distrust, alike, full, late)
            _save_answer(writer, answer)
            deadline = begin + question.budget_s - _RESERVE_S
            answer = _with_forecast(question, application, answer, seen, place, deadline, steps)
        too_few = (of_requests(question, seen.few_requests),) if seen.few_requests else ()
        answer = replace(answer, requests=seen.requests, unknown=(*answer.unknown, *too_few))
        answer = failed_first(answer, seen)
        _save_answer(writer, answer)
    return DiagnosisRun(answer, environment, seen)


def _within(question: Question, left_s: float, steps: Steps) -> Question:
    """The question with an observation that the budget carries; what is left out of it is named."""
    if question.seconds <= left_s:
        return question
    seconds = max(left_s, _LEAST_OBSERVED_S)
    why = f"the budget of {duration(question.budget_s * 1e9)} allows no more"
    steps.tell(f"observing for {duration(seconds * 1e9)}, since {why}")
    what = f"what the program does after {duration(seconds * 1e9)}: {why}"
    steps.unknown.append(Unknown(what, with_budget(question, _enough_s(question))))
    return replace(question, seconds=seconds)


def _enough_s(question: Question) -> float:
    """A budget that leaves as much time for the rest as all that the question observes."""
    return max(_MORE * question.budget_s, _MORE * question.seconds + _RESERVE_S)


def _application(question: Question) -> Application:
    if question.layout is not None:
        # Here, since it brings the market's books and stages' stubs, which nobody's own program needs.
        from latlab.lab.diagnosis.applications.trading_pipeline import TradingPipeline

        return TradingPipeline(question, question.layout)
    return Process(question) if question.pid is not None else Command(question)


def _plain(question: Question) -> dict[str, Any]:
    document = asdict(question)
    document["input"] = None if question.input is None else str(question.input)
    return document


def _save_answer(writer: RecordingWriter, answer: Answer) -> None:
    writer.put("answer", answer.to_json())


def _floor(application: Application, question: Question, tell: Tell) -> tuple[Floor, str]:
    """What the CPUs that the application may use take by themselves."""
    from latlab import jitter

    cpus = application.cpus or sorted(os.sched_getaffinity(0))
    tell(f"measuring the machine's floor on CPU {', '.join(map(str, cpus))} for {seconds(question.floor_s)}")
    found = jitter.analyse(jitter.measure(cpus, question.floor_s), periodic=False)  # no answer has periods
    lost = sum(core.gap_ticks / core.wall_ticks for core in found.cores) / len(found.cores)
    worst = max(core.ns(core.max_ticks) for core in found.cores)
    known = sorted((one for one in found.sources if one.total_ns), key=lambda one: -(one.total_ns or 0.0))
    sources = tuple(
        f"{one.name} ({one.kind}): {duration(one.total_ns or 0)} in {one.count} gaps" for one in known[:5]
    )
    floor = Floor(tuple(cpus), question.floor_s, lost, worst, sources, tuple(map(str, found.warnings)))
    return (
        floor,
        f"the machine takes {share(lost, digits=2)} of the time, longest gap {duration(worst)}",
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


def _with_forecast(
    question: Question,
    application: Application,
    answer: Answer,
    seen: Observed,
    place: Place,
    deadline: float,
    steps: Steps,
) -> Answer:
    """What a faster stage would buy: measured by running it again, else by a model, labelled as one."""
    if question.stage is None and answer.verdict in _NO_STAGES:
        # CPUs, a lock or a disk are nothing that a component or a model of queues could make faster.
        return _with_schedule(question, answer, seen, deadline, steps)
    stage = question.stage or _stage_that_limits(answer) or answer.tail_stage
    if question.apply is not None and question.stage is None:
        stage = _stage_to_fix(question, answer, seen, stage)
    made: Forecast | None = None
    if not question.forecast:
        steps.skip("forecast", "it was not requested", None)
    elif stage is None and answer.verdict == Verdict.POOL:
        steps.skip("forecast", "what more objects in a pool buy is not simulated", None)
    elif stage is None:
        steps.skip("forecast", "no stage limits, so there is nothing to speed up", None)
    else:
        made, measurable = _replayed(application, stage, place, seen, deadline, steps)
        if not measurable:
            simulated = _by_threads(stage, seen, deadline, steps)
            if simulated:
                return replace(
                    answer, steps=tuple(steps.steps), unknown=tuple(steps.unknown), forecasts=simulated
                )
            made = _by_model(application, stage, seen, deadline, steps)
    answer = _forecasted(question, answer, made, steps)
    if question.apply is not None and stage is not None and answer.forecasts:
        answer = _with_applied(application, answer, stage, question.apply, place, deadline, steps)
    return answer


def _with_applied(
    application: Application,
    answer: Answer,
    stage: str,
    speedup: float,
    place: Place,
    deadline: float,
    steps: Steps,
) -> Answer:
    """The answer with the fix applied and measured, where the forecast was measured, too."""
    apply, made = application.replay(stage, place).apply, answer.forecasts[0]
    if apply is None or made.method != "stub":
        steps.skip(
            "apply", "latlab can't make this stage faster itself; `latlab diagnose compare` tells", None
        )
        return replace(answer, steps=tuple(steps.steps))

    def run() -> tuple[Applied, str]:
        found = apply(made, speedup, deadline, steps.writer, steps.tell)
        return found, "measured and forecast agree" if found.agrees else "measured and forecast disagree"

    done = steps.run("apply", run, None)
    return replace(answer, applied=done, steps=tuple(steps.steps), unknown=tuple(steps.unknown))


def _with_schedule(
    question: Question, answer: Answer, seen: Observed, deadline: float, steps: Steps
) -> Answer:
    """The forecasts by what its threads were seen to do, as far as their simulation can be trusted, and as
    the budget carries them.
    """
    steps.steps[:], steps.unknown[:] = answer.steps, answer.unknown
    if not question.forecast or seen.schedule is None or seen.threads is None:
        steps.skip("forecast", "it was not requested", None)
        return replace(answer, steps=tuple(steps.steps))
    begin = time.monotonic()

    def over() -> bool:
        return time.monotonic() >= deadline

    made, why = by_schedule(seen.schedule, seen.threads, steps.tell, over)
    if made:
        detail = f"of {plural(len(made), 'part')}, by simulation"
        steps.steps.append(Step("forecast", "done", time.monotonic() - begin, detail))
    if over() and why:
        why = f"the budget of {duration(question.budget_s * 1e9)} left no time for all of it"
        steps.skip("forecast", why, with_budget(question, _enough_s(question)))
    elif not made and seen.schedule.seconds < SHORTEST_S:
        steps.skip("forecast", f"withheld, since {why}", None)  # what tells the limit tells more of it, too
    elif not made:
        again = of_other(seen.threads) or of_schedule(
            question, seen.schedule, steps.writer.path, seen.threads.limit.code
        )
        steps.skip("forecast", f"withheld, since {why}", again, time.monotonic() - begin)
    elif why:
        again = of_schedule(question, seen.schedule, steps.writer.path, seen.threads.limit.code)
        steps.unknown.append(Unknown(f"forecast: of some parts withheld: {why}", again))
    made = limiting_first(made, seen.threads.limit)
    return replace(answer, forecasts=made, steps=tuple(steps.steps), unknown=tuple(steps.unknown))


def limiting_first(made: Sequence[Forecast], limit: Limit) -> tuple[Forecast, ...]:
    """What making the limiting part faster would buy stands in front of what others would, most first."""
    named = {limit.name, f"the sleeps of {limit.name}"}
    named |= {"the disk"} if limit.kind is LimitKind.DISK else set()
    inside = f" in {limit.name}"

    def order(one: Forecast) -> tuple[bool, float]:
        left = one.points[-1].time_ns if one.points else None
        limits = one.stage in named or one.stage.endswith(inside)
        return not limits, left.value if left is not None else math.inf

    return tuple(sorted(made, key=order))


def _replayed(
    application: Application, stage: str, place: Place, seen: Observed, deadline: float, steps: Steps
) -> tuple[Forecast | None, bool]:
    """The forecast, and whether it can be measured at all: what takes too long is not computed."""
    try:
        code = seen.threads.code_of(stage) if seen.threads is not None else ()
        replay = application.replay(stage, place, code)

        def measure() -> tuple[Forecast, str]:
            result = replay.measure(deadline, steps.writer, steps.tell)
            return result, f"{result.rounds} rounds, {replay.how}"

        made: Forecast | None = steps.run("forecast", measure, replay.again)
    except CannotReplayError as error:
        steps.skip("forecast", error.what, error.remedy or None)
        return None, False
    return made, True


def _by_threads(stage: str, seen: Observed, deadline: float, steps: Steps) -> tuple[Forecast, ...]:
    """By what its threads were seen to do, where these name the stage, too; empty where that can't be told.

    A model of its queues knows neither locks nor CPUs nor what a thread waits for beside them.
    """
    if seen.schedule is None or seen.threads is None or seen.threads.limit.name != stage:
        return ()
    begin = time.monotonic()
    half = begin + _OF_THREADS * (deadline - begin)
    made, _ = by_schedule(seen.schedule, seen.threads, steps.tell, lambda: time.monotonic() >= half)
    own = tuple(one for one in made if one.stage == stage or one.stage.endswith(f" in {stage}"))
    if own:
        detail = f"of {plural(len(own), 'part')}, by simulation"
        steps.steps.append(Step("forecast by what its threads did", "done", time.monotonic() - begin, detail))
    return own


def _by_model(
    application: Application, stage: str, seen: Observed, deadline: float, steps: Steps
) -> Forecast | None:
    if interpreter_lock(seen.threads) is not None:
        why = "withheld, since threads wait for the interpreter lock (GIL), which no model of queues knows"
        steps.skip("forecast by a model", why, None)
        return None
    without = seen.threads.without_a_cpu if seen.threads else 0.0
    if without >= _SHORT_OF_CPUS:
        why = said(Withheld.SHARED_CPUS, stage=stage, part=without)
        steps.skip("forecast by a model", f"withheld, since {why}", None)
        return None

    def simulate() -> tuple[Forecast, str]:
        result = application.forecast(stage, seen, deadline)
        return result, "computed by a queue model that was fitted to the observation, not measured"

    made: Forecast | None = steps.run("forecast by a model", simulate, of_model(steps.writer.path))
    return made


def _forecasted(question: Question, answer: Answer, made: Forecast | None, steps: Steps) -> Answer:
    """The answer with a forecast that passes its own null test; else with the reason why there is none.

    One whose fix is applied next is told in any case, as uncertain: what is measured then stands beside it.
    """
    tried = question.apply is not None
    floor_share = answer.floor.share if answer.floor else 0.0
    why = withheld(made, floor_share, question.budget_s, tried=tried) if made else None
    if why is not None:
        steps.tell(why)
        answer, made = replace(answer, distrust=(*answer.distrust, why)), made if tried else None
    if made is not None and made.uneven is not None and made.uneven >= _UNEVEN:
        why = f"CPUs changed speed in {share(made.uneven, digits=0)} of the looks between the forecast's runs"
        answer = replace(answer, distrust=(*answer.distrust, why))
    return replace(
        answer,
        steps=tuple(steps.steps),
        unknown=tuple(steps.unknown),
        forecasts=(with_drift(made),) if made is not None else (),
    )


def _stage_to_fix(question: Question, answer: Answer, seen: Observed, named: str | None) -> str | None:
    """What was named, if it can be made faster; else what makes the most of the tail, of what can be.

    Beside a busy neighbour the verdict may name CPUs, or nothing: the fix that was asked for is tried.
    """
    layout = question.layout
    if layout is None or seen.queues is None:
        return named
    fixable = {name for name, one in layout.stages.items() if one.service_ns or one.slow}
    instances = {instance for name in fixable for instance in layout.instances(name)}
    if named in fixable | instances:
        return named
    return most_of(seen.queues.diagnosis, answer.budget, fixable) or named


def _stage_that_limits(answer: Answer) -> str | None:
    """What could be made faster: a pool is not a stage, and one that has stopped is not slow."""
    return None if answer.verdict in (Verdict.POOL, Verdict.STOPPED) else answer.limiting_stage
