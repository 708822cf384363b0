"""What a diagnosis says where it could not know, or could not answer."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from latlab.cli._main import latlab
from latlab.lab.diagnosis import next_commands as _remedies
from latlab.lab.diagnosis.question import Question
from latlab.lab.judge.disturbances import unanswered
from latlab.model.queues.analysis import Analysis, Verdict
from latlab.model.queues.observation import Observation, Queue, QueueKind


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
