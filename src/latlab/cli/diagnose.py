"""`latlab diagnose`: where does my latency come from, and what would fixing it buy?"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from latlab.cli.kit.options import ALL_USERS, Seconds
from latlab.cli.kit.pipeline_options import feed_and_output, finish, folder_of, saying_what_stays
from latlab.cli.kit.progress import clock, teller
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import document as json_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from latlab.lab.diagnosis.diagnose import DiagnosisRun
    from latlab.lab.diagnosis.question import Question

_EPILOG = "`latlab diagnose compare A B` compares two diagnoses, before and after."


@click.command(epilog=_EPILOG, context_settings={"ignore_unknown_options": False})
@click.argument("target", nargs=-1, type=click.UNPROCESSED)
@ALL_USERS
@click.option("--pid", type=click.IntRange(1), help="Process id of a running program to observe.")
@feed_and_output(
    "diagnose", "Plant service time in a stage, or one instance of it: book=30us (a bare number is ns)."
)
@click.option(
    "--seconds",
    type=Seconds(0.2, 3600),
    help="Duration of a run of the pipeline [default: 3]; limit for a command or process [default: 30].",
)
@click.option("--budget", type=Seconds(5, 86_400), help="Wall time of the whole diagnosis [default: 180].")
@click.option(
    "--seed", type=click.IntRange(0), help="Seed of generated feeds and of the order of runs [default: 1]."
)
@click.option("--stage", help="Forecast this stage, whatever the bottleneck is.")
@click.option(
    "--apply",
    "speedup",
    type=click.Choice(["20", "50"]),
    metavar="PERCENT",
    help="Make the stage 20 or 50 % faster, run the pipeline, print the measured beside the forecast. "
    "On a busy machine this takes up to three times --budget.",
)
@click.option(
    "--forecast/--no-forecast",
    default=True,
    show_default=False,
    help="Forecast what a faster stage would gain, which takes the most time.",
)
@click.option(
    "--perfetto",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write what all threads did as a trace for ui.perfetto.dev.",
)
def diagnose(
    target: tuple[str, ...],
    pid: int | None,
    feed: Path | None,
    seconds: float | None,
    budget: float | None,
    slow: tuple[str, ...],
    seed: int | None,
    output: Path | None,
    stage: str | None,
    speedup: str | None,
    forecast: bool,
    perfetto: Path | None,
    as_json: bool,
) -> int:
    """Find the bottleneck, where the time goes, and what fixing it would gain.

    TARGET is a command after `--`: any program, unchanged. It is observed from outside, with its children.
    The answer is a thread, a lock, the CPUs, the disk, another process, a timer, its load, or "cannot tell".
    Queues that it publishes make the answer sharper. TARGET may also be a TOML file (a layout as
    examples/trading.toml; its table [diagnose] says what is known), or both. Without one the demonstration's
    pipeline is diagnosed: it keeps up with a market's bursts, which make its tail; with --slow, one that
    can't keep up.

    Exit code 3 says that what was observed is not trustworthy as it stands, and the output why. Events that
    the application lost are a finding, and counted: they alone don't make it 3.
    """
    from latlab.cli.show import ANSWER
    from latlab.lab.diagnosis.diagnose import diagnose_question
    from latlab.lab.trading.layout import slowed_by
    from latlab.reports.diagnosis.html import write_report
    from latlab.reports.diagnosis.text import text
    from latlab.words import wants_style

    if target[:1] == ("compare",):
        return _compare(target[1:], as_json)
    question = replace(_question(target, pid, seconds, budget, slow, seed), forecast=forecast, stage=stage)
    if stage is not None and question.layout is not None:
        slowed_by(question.layout, [f"{stage}=0"])  # refuses a stage that there is not
    if speedup is not None:
        if question.layout is None:
            raise UsageError(
                "--apply changes the demonstration's pipeline, not an application of yours",
                remedy="change it, and compare both: latlab diagnose compare BEFORE AFTER",
            )
        if not forecast:
            raise UsageError("--apply compares the measured gain with the forecast; leave out --no-forecast")
        question = replace(question, apply=int(speedup) / 100)
    if feed is not None:
        if question.layout is None:
            raise UsageError("--input is for the demonstration's pipeline, not for your own application")
        question = replace(question, input=feed, input_from="")
    if perfetto is not None and question.layout is not None:
        raise UsageError(
            "--perfetto is for what threads of a command or a process did",
            remedy="`latlab queues export --to perfetto` writes a recording of the pipeline",
        )
    folder, tell = folder_of("diagnose", output), teller("diagnose")
    with saying_what_stays(folder, tell), clock("diagnose", question.budget_s):
        run = diagnose_question(question, folder, tell)
    answer = run.answer
    if perfetto is not None:
        _trace(perfetto, run, tell)
    (folder / ANSWER).write_text(text(answer, styled=False) + "\n", encoding="utf-8")
    return finish(
        folder,
        lambda report, command: write_report(report, run, command),
        answer.to_json() if as_json else None,
        lambda: text(answer, styled=wants_style(sys.stdout)),
        not answer.trustworthy,
        tell,
    )


def _question(
    target: tuple[str, ...],
    pid: int | None,
    seconds: float | None,
    budget: float | None,
    slow: tuple[str, ...],
    seed: int | None,
) -> Question:
    """The file's, or the default, with what the options change."""
    from latlab.lab.diagnosis.question import OBSERVED_S, Question, read_question
    from latlab.lab.trading.layout import STORY, slowed_by
    from latlab.model.diagnosis.layout import Layout

    file, command = (target[0], target[1:]) if target and target[0].endswith(".toml") else (None, target)
    question = Question() if file is None else read_question(file)
    if command or pid is not None:
        if command and pid is not None:
            raise UsageError("a command and --pid are two targets", remedy="give one of them")
        question = replace(question, command=command, pid=pid, layout=None)
    elif not question.command:
        plain = Layout() if slow else STORY
        question = replace(question, layout=slowed_by(question.layout or plain, slow), planted=slow)
    own = question.layout is None
    if slow and own:
        raise UsageError("--slow plants time in the demonstration's pipeline, not in your own application")
    if seconds is not None or (own and file is None):
        question = replace(question, seconds=OBSERVED_S if seconds is None else seconds)
    if budget is not None:
        question = replace(question, budget_s=budget)
    if seed is not None:
        question = replace(question, seed=seed)
    return question


def _trace(path: Path, run: DiagnosisRun, tell: Callable[[str], None]) -> None:
    from latlab.reports.diagnosis.perfetto import write_perfetto

    if run.seen.schedule is None or run.seen.threads is None:
        tell("--perfetto: nothing is written, since its queues were observed and not its threads")
        return
    write_perfetto(path, run.seen.schedule, run.seen.threads)
    tell(f"trace for ui.perfetto.dev: {path}")


def _compare(folders: tuple[str, ...], as_json: bool) -> int:
    from latlab.lab.diagnosis.compare import compare_answers
    from latlab.reports.diagnosis.text import comparison

    if len(folders) != 2:
        raise UsageError("compare takes two diagnoses", remedy="latlab diagnose compare A B")
    found = compare_answers(Path(folders[0]), Path(folders[1]))
    click.echo(json_of(found.to_json()) if as_json else comparison(found))
    return ExitCode.REGRESSION if found.regression else ExitCode.OK
