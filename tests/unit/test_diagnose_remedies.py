"""What a diagnosis says where it could not know, or could not answer."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from tests.unit.threads_made import Made

from latlab.cli._main import latlab
from latlab.lab.diagnosis import next_commands as _remedies
from latlab.lab.diagnosis.about_program import _longer, about_program, failed_first
from latlab.lab.diagnosis.applications.application import Observed
from latlab.lab.diagnosis.diagnose import _by_model, _within, limiting_first
from latlab.lab.diagnosis.question import Question
from latlab.lab.diagnosis.steps import Steps
from latlab.lab.judge.disturbances import unanswered
from latlab.model.diagnosis.answer import Forecast, ForecastPoint, Interval
from latlab.model.queues.analysis import Analysis, Verdict
from latlab.model.queues.observation import Observation, Queue, QueueKind
from latlab.model.threads import Code, Limit, LimitKind, Role, ThreadFindings


def observed(implementation: str) -> Observation:
    queue = Queue(0, "a", QueueKind.BOUNDED, 8, drain_name="work", implementation=implementation)
    return Observation((queue,), (), (), {}, {})


def parsed(line: str) -> list[str]:
    """The latlab commands of a line, each taken apart as `latlab` would; wrong ones raise."""
    words, found = shlex.split(line, comments=True), []
    while "latlab" in words:
        words = words[words.index("latlab") + 1 :]
        rest = words[: words.index("&&")] if "&&" in words else words
        command: click.Command = latlab
        context = latlab.make_context("latlab", list(rest))
        while isinstance(command, click.Group):
            name, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert name is not None
            assert inner is not None
            context = inner.make_context(name, rest, parent=context)
            command = inner
        found.append(context.command_path)
    return found


@pytest.mark.parametrize(
    ("line", "command"),
    [
        (_remedies.of_tail(observed("queue.Queue"), Path("runs/a b")).command, "latlab queues report"),
        (_remedies.of_tail(observed("my::Ring"), Path("run")).command, "latlab queues report"),
        (_remedies.of_traces(""), "latlab diagnose"),
        (_remedies.of_traces("my layout.toml"), "latlab diagnose"),
        (_remedies.of_stages("layout.toml", "book"), "latlab diagnose"),
        (_remedies.forecast_again(Question(source="q.toml", stage="book")), "latlab diagnose"),
        (_remedies.of_model(Path("run")), "latlab queues model"),
        (_remedies.of_study("work:store", ["python", "app.py", "--fast"]), "latlab stubs study"),
        (_remedies.of_component("store", ["python", "app.py", "--fast"]), "latlab diagnose"),
        (_remedies.of_component("store", ()), "latlab diagnose"),
    ],
)
def test_what_would_find_out_is_a_command_that_can_be_typed(line: str, command: str) -> None:
    assert parsed(line) == [command]


def test_more_time_is_asked_for_the_same_question() -> None:
    question = Question(source="q.toml", planted=("book=30000",), input=Path("a day.itch"), seed=7, seconds=2)

    assert _remedies.forecast_again(question) == (
        "latlab diagnose q.toml --slow book=30000 --input 'a day.itch' --seconds 2 --seed 7 --budget 360"
    )
    applied = Question(apply=0.5, budget_s=30.0)
    assert _remedies.forecast_again(applied) == "latlab diagnose --apply 50 --budget 120"


@pytest.mark.parametrize(
    ("implementation", "header"),
    [("queue.Queue", False), ("multiprocessing.Queue", False), ("my::Ring", True), ("ring", True)],
)
def test_only_who_can_use_the_tracing_header_is_sent_to_it(implementation: str, header: bool) -> None:
    found = _remedies.of_tail(observed(implementation), Path("run"))

    assert ("latlab/trace.hpp" in found.what, "run/observation" in found.command) == (header, True)


def test_a_verdict_that_nobody_can_give_is_not_to_be_relied_on() -> None:
    why = "12 sweeps and 5 events are too few to tell"
    found = Analysis(None, Verdict.UNKNOWN, 0.0, (why,), (), (), (), 0, 1)

    (reason,) = unanswered(found.verdict, found)
    assert why in reason


@pytest.mark.parametrize("verdict", [one for one in Verdict if one != Verdict.UNKNOWN])
def test_any_other_verdict_is_an_answer(verdict: Verdict) -> None:
    found = Analysis(None, Verdict.UNKNOWN, 0.0, ("too few",), (), (), (), 0, 1)

    assert unanswered(verdict, found) == ()


@pytest.mark.parametrize(
    ("command", "python"),
    [
        (("python3.12", "-m", "app"), True),
        (("taskset", "-c", "0", "/usr/bin/python3", "app.py"), True),
        (("./app.py",), True),
        (("./served",), True),  # a script that begins with #!…python
        (("./started",), False),
        (("bin/app", "--python-like"), False),
        (("java", "-cp", "bin", "Exams"), False),
        ((), False),
    ],
)
def test_a_command_that_starts_python_is_known_by_its_words_or_its_script(
    command: tuple[str, ...], python: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, first in (("served", "#!/usr/bin/env python3"), ("started", "#!/bin/sh")):
        (tmp_path / name).write_text(f"{first}\npython\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)

    assert _remedies.runs_python(command) is python


def test_a_component_by_its_module_is_asked_of_python_only() -> None:
    question = Question(command=("bin/app", "x y"), seconds=5)
    made = Made()
    made.thread("app")

    changed = _remedies.of_schedule(question, made.schedule(), Path("runs/a b"))
    assert parsed(changed) == ["latlab diagnose", "latlab diagnose"]
    assert "compare 'runs/a b' changed" in changed
    made.commands[100] = ("python3", "app.py")  # started by a shell's script
    study = _remedies.of_schedule(question, made.schedule(), Path("run"))
    assert parsed(study) == ["latlab stubs study"]
    assert "module:function" not in _remedies.of_component("store", ("bin/app",))
    assert "latlab::stub::component" in _remedies.of_component("store", ("bin/app",))


@pytest.mark.parametrize(
    ("question", "again"),
    [
        (Question(command=("bin/app", "x y"), seconds=5), "latlab diagnose --seconds 0.5 -- bin/app 'x y'"),
        (Question(command=("python3", "app.py")), "latlab diagnose --seconds 0.5 -- python3 app.py"),
        (Question(pid=4711), "latlab diagnose --seconds 0.5 --pid 4711"),
    ],
)
def test_of_more_turns_than_can_be_simulated_fewer_are_asked_for(question: Question, again: str) -> None:
    made = Made()
    made.run(made.thread("app"), 0, 1000)
    schedule = made.schedule()
    many = replace(schedule, intervals=np.repeat(schedule.intervals, 100_000))

    assert _remedies.of_schedule(question, many, Path("run")) == again
    assert parsed(again) == ["latlab diagnose"]


def test_the_limiting_parts_forecast_stands_first() -> None:
    none = ForecastPoint(None, None, 0)
    made = [
        Forecast("schedule", stage, "total", 1.0, None, none, (), None, None, None, 0, "")
        for stage in ("u20.sh", "wait_for in u20.sh", "the disk")
    ]

    def order(kind: LimitKind, name: str) -> list[str]:
        limit = Limit(kind, name, 1.0, 1.0, "")
        return [one.stage for one in limiting_first(made, limit)]

    assert order(LimitKind.DISK, "disk (/tmp/a)")[0] == "the disk"
    assert order(LimitKind.THREAD, "u20.sh") == ["u20.sh", "wait_for in u20.sh", "the disk"]
    assert order(LimitKind.CPU, "CPUs") == [one.stage for one in made]
    left = [replace(one, points=(replace(none, time_ns=Interval(3.0 - at)),)) for at, one in enumerate(made)]
    told = limiting_first(left, Limit(LimitKind.CPU, "CPUs", 1.0, 1.0, ""))
    assert [one.stage for one in told] == ["the disk", "wait_for in u20.sh", "u20.sh"]


@pytest.mark.parametrize("budget_s", [5.0, 25.0, 60.0])
def test_a_budget_that_was_too_small_is_answered_with_a_larger_one(budget_s: float) -> None:
    steps = Steps(None, lambda line: None)  # type: ignore[arg-type]
    _within(Question(command=("app",), seconds=6, budget_s=budget_s), 1.0, steps)
    words = shlex.split(steps.unknown[0].command)
    assert float(words[words.index("--budget") + 1]) > budget_s


@pytest.mark.parametrize(
    ("status", "seconds", "again"),
    [
        (3, 0.03, "latlab diagnose --seconds 6 -- sh -c 'for i in $(seq 200); do ./app; done'"),
        (0, 5.9, "latlab diagnose --seconds 12 -- ./app"),
        (0, 5.0, "latlab diagnose --seconds 10 -- sh -c 'for i in $(seq 2); do ./app; done'"),
        (None, 0.03, "latlab diagnose --seconds 12 -- ./app"),
    ],
)
def test_a_command_that_ends_by_itself_is_repeated_and_not_waited_for(
    status: int | None, seconds: float, again: str
) -> None:
    run = Observed(None, None, None, status, seconds)
    assert _longer(Question(command=("./app",), seconds=6), run) == again


class _Nowhere:
    """A recording that keeps nothing."""

    path = Path("run")

    def put(self, *_: Any) -> None:
        """What a step tells is looked at where it is noted."""


def found(
    kind: LimitKind = LimitKind.THREAD, *pids: int, progress: dict[str, float] | None = None
) -> ThreadFindings:
    limit = Limit(kind, "worker", 0.99, 0.6, "Bottleneck: worker.")
    role = Role("worker", 1, pids, 0.4, 0.5, {}, 0.9, 0.6)
    return ThreadFindings(limit, (role,), (), (), progress or {}, 5.0, 1, "bpf", 0.0)


def test_where_stages_share_too_few_cpus_no_model_of_queues_forecasts() -> None:
    """Half of a stage's work gave 51 % more where the model said 7: what it leaves of the CPUs is others'."""
    seen = Observed(None, found(progress={"worker: runnable": 0.49, "page: runnable": 0.08}), None, 0, 5.0)
    steps = Steps(_Nowhere(), lambda line: None)  # type: ignore[arg-type]
    application: Any = None  # is not asked

    assert _by_model(application, "worker", seen, 0.0, steps) is None
    assert [one.state for one in steps.steps] == ["skipped"]
    assert "CPUs were short for 57.0 %" in steps.steps[0].detail


def test_a_command_that_failed_is_told_as_that_first() -> None:
    threads = found()
    run = Observed(None, threads, Made().schedule(), 2, 0.025)
    answer = about_program(Question(command=("./app",), seconds=5), "./app", run, None, (), (), ())

    assert failed_first(answer, run).sentence.startswith(
        "The command ended with status 2 after 25 ms. Until then: Bottleneck: worker"
    )
    stopped = replace(run, status=-15)
    answer = about_program(Question(command=("./app",), seconds=5), "./app", stopped, None, (), (), ())
    assert failed_first(answer, stopped).sentence == "Bottleneck: worker."


def test_a_process_that_has_ended_is_not_what_to_look_at_next() -> None:
    gone = 2**22 + 1  # no process can have this number
    assert _remedies.of_other(found(LimitKind.PROCESS, gone)) == ""
    assert _remedies.of_other(found(LimitKind.PROCESS, gone, os.getpid())).endswith(f"--pid {os.getpid()}")


@pytest.mark.parametrize(("kind", "trusted"), [(LimitKind.THREAD, True), (LimitKind.LOAD, False)])
def test_what_the_kernel_dropped_is_told_and_nothing_is_said_to_limit_without_doubt(
    kind: LimitKind, trusted: bool
) -> None:
    made = Made()
    made.run(made.thread("app", 7), 0, 1000)
    schedule = replace(made.schedule(), dropped=(("UDP 127.0.0.1:9951", 7, 971),))
    run = Observed(None, found(kind, 7), schedule, 0, 5.0)
    answer = about_program(Question(command=("./app",), seconds=5), "./app", run, None, (), (), ())

    (lost,) = answer.losses
    assert lost.startswith("the kernel dropped 971 datagrams in front of UDP 127.0.0.1:9951 of ")
    assert lost.endswith(" because worker cannot keep up")
    assert (not answer.distrust) == trusted

    # Another thread of the same process may be who reads.
    roles = (*found(kind, 7).roles, Role("reader", 1, (7,), 0.1, 0.0, {}, 0.1, 0.1))
    run = replace(run, threads=replace(found(kind, 7), roles=roles))
    (lost,) = about_program(Question(command=("./app",), seconds=5), "./app", run, None, (), (), ()).losses
    assert "cannot keep up" not in lost


def test_a_function_that_was_seen_to_do_the_work_is_what_a_study_is_asked_of(tmp_path: Path) -> None:
    """A thread's own function is not: it is called once."""
    file = tmp_path / "app.py"
    file.write_text("def digest():\n    crunch()\n\n\ndef crunch():\n    return 1\n")
    loop, work = Code("digest", str(file), 2, 0.5), Code("crunch", str(file), 6, 0.4, "digest")
    command = ["python", "app.py", "--fast"]

    told = _remedies.of_component("digest", command, (loop, work))
    assert told == "latlab stubs study app:crunch -- python app.py --fast"
    assert parsed(told) == ["latlab stubs study"]
    assert _remedies.of_component("digest", command, (loop,)) == _remedies.of_component("digest", command)
