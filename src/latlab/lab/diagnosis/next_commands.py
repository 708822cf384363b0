"""What a diagnosis could not know, and the command that would find out: as one types it, with its files."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePath

from latlab.lab.diagnosis.question import Question
from latlab.model.diagnosis.answer import Unknown
from latlab.model.evidence.requests import RequestsDoubt
from latlab.model.evidence.said import said
from latlab.model.queues.observation import Observation
from latlab.model.schedule import Schedule
from latlab.model.threads import Code, LimitKind, ThreadFindings
from latlab.schedule.simulation.part import stretch_of
from latlab.schedule.simulation.simulate import MOST_STEPS, steps_in
from latlab.schedule.tree import alive
from latlab.stubs.studies.existing import component_at

__all__ = [
    "forecast_again",
    "of_component",
    "of_model",
    "of_requests",
    "of_schedule",
    "of_stages",
    "of_study",
    "of_tail",
    "of_traces",
    "runs_python",
    "with_budget",
]

_PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*|.+\.pyw?")
_SHEBANG_BYTES = 256
_MORE = 2  # times the budget that was too short …
_FITS = 0.7  # of the time of which as many turns would just be simulated
_ENOUGH_REQUESTS, _LONGEST_S = 100, 600
_LEAST_S = 0.2  # that a diagnosis may take
_CARRIES_S = 120.0  # … and at least what carries a forecast of a few points


def of_tail(observation: Observation, output: Path) -> Unknown:
    """How the tail is spent, of an application that leaves no event traces.

    Args:
        output: the diagnosis's folder.
    """
    # Only C++ can stamp events; an event that came while queues stood full waited for all in front of it.
    python = all(queue.of_python for queue in observation.queues)
    can = "Python's queues can't" if python else "latlab/trace.hpp does, see docs/reference/traces.md"
    what = f"how the tail's time is spent: this application leaves no event traces ({can})"
    what += "; fills over time show when events waited"
    return Unknown(what, shlex.join(["latlab", "queues", "report", str(output / "observation")]))


def of_traces(source: str) -> str:
    """A run of the pipeline in which every event is traced."""
    if source:
        return f"{shlex.join(['latlab', 'diagnose', source])}  # with every = 1 in its table [trace]"
    return r"printf '[trace]\nevery = 1\n' > traced.toml && latlab diagnose traced.toml"


def of_stages(source: str, stage: str) -> str:
    """A diagnosis that may stub one stage more."""
    return f"{shlex.join(['latlab', 'diagnose', source])}  # with {stage!r} in its diagnose.stages"


def forecast_again(question: Question) -> str:
    """The same diagnosis of the pipeline with more time."""
    words = ["latlab", "diagnose"]
    words += [question.source] if question.source else []
    words += ["--stage", question.stage] if question.stage is not None else []
    for planted in question.planted:
        words += ["--slow", planted]
    if question.input is not None and not question.input_from:
        words += ["--input", str(question.input)]
    default = Question()
    words += ["--seconds", f"{question.seconds:g}"] if question.seconds != default.seconds else []
    words += ["--seed", str(question.seed)] if question.seed != default.seed else []
    if question.apply is not None:
        words += ["--apply", f"{100 * question.apply:g}"]
    return shlex.join([*words, "--budget", f"{max(_CARRIES_S, _MORE * question.budget_s):.0f}"])


def of_model(output: Path) -> str:
    """The model that a forecast is computed by."""
    return shlex.join(["latlab", "queues", "model", str(output / "observation")])


def of_study(component: str, command: Sequence[str]) -> str:
    """A study of a component that is known."""
    return shlex.join(["latlab", "stubs", "study", component, "--", *command])


def component_of(code: Sequence[Code]) -> str:
    """The first function of these places of which a study can tell what it would buy; "" where there is none.

    A thread's own function isn't one: it is called once, and does all that the thread does.
    """
    own = (component_at(one.file, one.line) for one in code if one.caller)
    return next(filter(None, own), "")


def runs_python(command: Sequence[str]) -> bool:
    """Whether a command starts Python: by itself, behind another program, or as a script of it."""
    if any(_PYTHON.fullmatch(PurePath(word).name) for word in command):
        return True
    path = shutil.which(command[0]) if command else None
    if path is None:
        return False
    with Path(path).open("rb") as file:
        return file.read(2) == b"#!" and b"python" in file.read(_SHEBANG_BYTES).split(b"\n")[0]


def of_component(stage: str, command: Sequence[str], code: Sequence[Code] = ()) -> str:
    """A study of the function that does the work of a stage, or a diagnosis that knows which one does.

    Of Python a function is named; of other languages what the program itself calls a component.
    """
    if command and (component := component_of(code)):
        return of_study(component, command)
    again = shlex.join(["latlab", "diagnose", "known.toml", "--", *(command or ["COMMAND"])])
    python = not command or runs_python(command)
    name = "module:function" if python else "NAME"
    file = shlex.quote(f'[diagnose.components]\\n"{stage}" = "{name}"\\n')
    known = f"what {stage} calls" if python else f"the name of a latlab::stub::component that {stage} calls"
    return f"printf {file} > known.toml && {again}  # with {known} for {name}"


def with_budget(question: Question, budget_s: float) -> str:
    """The same diagnosis of a program with more time for all of it."""
    words = ["latlab", "diagnose", "--seconds", f"{question.seconds:g}", "--budget", f"{budget_s:.0f}"]
    return shlex.join([*words, *_target(question)])


def of_requests(question: Question, number: int) -> Unknown:
    """Where the slow ones of too few requests spend their time: seen in as long as enough of them need."""
    seconds = math.ceil(question.seconds * _ENOUGH_REQUESTS / number / 10) * 10
    words = ["latlab", "requests", "record", "--seconds", f"{min(seconds, _LONGEST_S)}", "-o", "run"]
    return Unknown(said(RequestsDoubt.FEW, number=number), shlex.join([*words, *_target(question)]))


def _target(question: Question) -> list[str]:
    return ["--", *question.command] if question.command else ["--pid", str(question.pid)]


def of_other(found: ThreadFindings) -> str:
    """What looks into another program that limits, and that runs already; "" where none does."""
    role = found.role(found.limit.name) if found.limit.kind is LimitKind.PROCESS else None
    living = [pid for pid in role.pids if alive(pid)] if role else []  # what was started here has ended
    return shlex.join(["latlab", "diagnose", "--pid", str(living[0])]) if living else ""


def of_schedule(question: Question, schedule: Schedule, output: Path, code: Sequence[Code] = ()) -> str:
    """What measures that which no simulation can tell: a stub in its place; a process seen for longer.

    Of whom too much was seen to simulate it, less is looked at. Of what is not Python a part can't be stubbed
    by its name: then the program is changed, and seen again.

    Args:
        output: the diagnosis's folder.
        code: where what limits runs.
    """
    steps = steps_in(schedule)
    if steps > MOST_STEPS and stretch_of(schedule) is None:
        seconds = _FITS * schedule.seconds * MOST_STEPS / steps
        words = ["latlab", "diagnose", "--seconds", f"{max(_LEAST_S, seconds):.1f}"]
        return shlex.join([*words, *_target(question)])
    if question.pid is None:
        started = (thread.command for thread in schedule.threads if not thread.peer)
        if runs_python(question.command) or any(runs_python(command[:1]) for command in started):
            return of_study(component_of(code) or "module:function", question.command)
        words = ["latlab", "diagnose", "--seconds", f"{question.seconds:g}", "-o", "changed", "--"]
        compare = shlex.join(["latlab", "diagnose", "compare", str(output), "changed"])
        return f"{shlex.join([*words, *question.command])} && {compare}  # once you have made it faster"
    return shlex.join(["latlab", "diagnose", "--seconds", "10", "--pid", str(question.pid)])
