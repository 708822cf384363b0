"""`latlab stubs study`, `record`, `decode` and `validate`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from latlab.cli.kit.files import check_stdout, put_text
from latlab.cli.kit.options import JSON, JSON_ASIDE, Seconds, flag, output
from latlab.cli.kit.progress import say, teller
from latlab.errors import ExitCode, UsageError
from latlab.formats.documents import write_text
from latlab.reports.json import document, dumps
from latlab.words import size

if TYPE_CHECKING:
    from latlab.stubs.studies.question import StudyPlan

_COMMAND = click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("asked", metavar="STUDY", type=click.Path(path_type=Path))
@JSON
@output("Folder for the study's recording.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a page with the plots of each step.")
@click.option("--seconds", type=Seconds(), help="Time for the repetitions, instead of the file's.")
@click.option("--seed", type=int, help="Seed of the order of the runs, instead of the file's.")
@flag(
    "--dry-run",
    "Say in a few runs what the study would be: calls, threads, determinism, state, time and width.",
)
@click.option(
    "--faster", type=click.Choice(["work", "wait", "both"]),
    help="What a faster component does faster, instead of the file's.",
)  # fmt: skip
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def study(
    asked: Path, as_json: bool, output: Path | None, html: Path | None, seconds: float | None,
    seed: int | None, faster: str | None, dry_run: bool, command: tuple[str, ...],
) -> int:  # fmt: skip
    """Forecast what COMMAND would gain from a faster component.

    STUDY is a component in Python, as module:function or module:Class.method, or a file (TOML) that says
    more: of a component in C++, a command or a stage, and how it is studied and tested.

    A stage of the trading pipeline needs no COMMAND: the pipeline is run.

    Exit code 3 where the runs scatter so much that the forecast shouldn't be trusted.
    """
    from dataclasses import replace

    from latlab import stubs
    from latlab.reports.stubs import text as stubs_text
    from latlab.stubs.studies import study as _study

    plan = _study.plan_of(asked)
    if html is not None:
        _study.require_place(html, file=True)
    if seconds is not None:
        if seconds <= 0:
            raise UsageError("--seconds must be greater than 0")
        plan = replace(plan, seconds=seconds)
    if seed is not None:
        plan = replace(plan, seed=seed)
    if faster is not None:
        plan = replace(plan, faster=faster)
    if plan.kind == "stage":
        if command:
            raise UsageError("a stage is studied in the trading pipeline, without a COMMAND")
        return _study_stage(asked, plan, as_json, output, html)
    if not command:
        raise UsageError("the COMMAND is missing", remedy="write it after --")
    if plan.kind == "python":
        stubs.require_component(plan.component, command, asked, "component")
    if dry_run:
        from latlab.stubs.studies.rehearse import rehearse

        document = rehearse(plan, command)
        click.echo(dumps(document) if as_json else stubs_text.rehearsal(document))
        return ExitCode.OK
    result = _study.study(plan, command, output=output, progress=teller("stubs study"))
    click.echo(dumps(result.as_json()) if as_json else stubs_text.study(result))
    if html is not None:
        from latlab.reports.stubs.study_html import study_page
        from latlab.system import environment

        called = shlex.join(["latlab", "stubs", "study", str(asked), "--", *command])
        study_page(result, called, environment.capture(), plan.seed).write(html)
    return ExitCode.OK if result.steady else ExitCode.NOT_TRUSTWORTHY


def _study_stage(file: Path, plan: StudyPlan, as_json: bool, output: Path | None, html: Path | None) -> int:
    from latlab.lab.forecast import stage_study
    from latlab.reports.stubs import text as stubs_text

    found = stage_study.study_stage(
        plan.component, layout=plan.layout, slow=plan.slow, seconds=plan.seconds, seed=plan.seed,
        output=output, tell=lambda text: say(f"latlab: {text}"),
    )  # fmt: skip
    document = stage_study.as_json(found)
    click.echo(dumps(document) if as_json else stubs_text.stage(document))
    if html is not None:
        from latlab.reports.stubs.study_html import stage_page
        from latlab.system import environment

        called = shlex.join(["latlab", "stubs", "study", str(file)])
        stage_page(document, called, environment.capture(), plan.seed).write(html)
    return ExitCode.OK


_MUTATES = click.option(
    "--mutates", multiple=True, metavar="NAME", help="Argument that a call changes, such as self; repeatable."
)


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--component", "name", required=True, help="Component: module:function or module:Class.method.")
@flag("--keyed", "Match results by the arguments, not by their order.")
@_MUTATES
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path("stub.trace"), help="Trace to write."
)
@JSON
@_COMMAND
def record(
    name: str,
    keyed: bool,
    mutates: tuple[str, ...],
    output: Path,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run a Python COMMAND and record the component's results, without touching its code."""
    from dataclasses import replace

    from latlab.stubs.studies.sameness import outside as _outside

    count, changes = _outside.record(name, list(command), output, keyed=keyed, mutates=mutates)
    if as_json:
        click.echo(dumps({"schema": 1, "trace": str(output), "component": name, "results": count,
                          "keeps": list(changes.kept), "not_kept": dict(changes.lost)}))  # fmt: skip
    say(f"{output}: {count} results of {name}")
    if changes.kept:
        say(f"latlab: {_outside.told(replace(changes, lost=()))}")
    if changes.lost:
        click.echo(f"latlab: {_outside.told(replace(changes, kept=()))}", err=True)
    return ExitCode.OK


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--component", "name", required=True, help="Component: module:function or module:Class.method.")
@flag("--keyed", "Match results by the arguments; the trace must be recorded with --keyed.")
@flag("--lazy", "Make each result when it is handed out, not all at the start.")
@flag("--views", "Hand out arrays as read-only views, not as copies.")
@flag(
    "--pickles",
    "Load results by running whatever TRACE names, not as data alone: only if you recorded it yourself.",
)
@click.option(
    "--compare/--no-compare", default=True,
    help="Run COMMAND without the stub as well, and compare what both say and write.",
)  # fmt: skip
@JSON_ASIDE
@_COMMAND
def replay(
    trace: Path, name: str, keyed: bool, lazy: bool, views: bool, pickles: bool, compare: bool, as_json: bool,
    command: tuple[str, ...],
) -> int:  # fmt: skip
    """Run a Python COMMAND with the results of TRACE in the component's place.

    COMMAND is run as it is, too, and what both print, write and end with is compared.

    Exit code 1 where the command fails, says something else than without the stub, or calls the component
    less often than it was recorded.
    """
    from latlab.stubs.studies.sameness import outside as _outside

    found = _outside.replay(
        name, trace, list(command),
        keyed=keyed, lazy=lazy, views=views, aside=as_json, compare=compare, pickles=pickles,
    )  # fmt: skip
    if as_json:
        document = {"schema": 1, "trace": str(trace), "component": name, "calls": found.calls,
                    "memory_bytes": found.held_bytes, "exit_code": found.code}  # fmt: skip
        document |= {"compared": found.compared, "differs": found.differs, "left_out": found.lost}
        click.echo(dumps(document))
    how = "made as they were asked for" if lazy else "preloaded"
    memory = f"{how}, {size(found.held_bytes)} of memory"
    same = "; what it says and writes is the same as without the stub" if compare else "; not compared"
    if found.varies:
        same = "; what is the same in each run as it is, is the same with the stub"
    same = "" if found.differs is not None else same
    if found.lost:
        same = same.replace("what it says and writes is", "what it says, and writes in this folder, is")
    say(f"{trace}: {found.calls} calls of {name} replayed, {memory}{same}")
    if found.lost:
        click.echo(f"latlab: {found.lost}", err=True)
    if found.differs is not None:
        click.echo(f"latlab: the stub of {name} changes more than its time: {found.differs}", err=True)
        again = f"record it again: what it changes is then looked for; {_outside.STATE['python']}"
        click.echo(f"latlab: {again}", err=True)
    if found.code:
        click.echo(f"latlab: the command ended with exit code {found.code}", err=True)
    return ExitCode.FAILED if found.code or found.differs is not None else ExitCode.OK


@click.command()
@click.argument("trace", type=click.Path(path_type=Path))
@flag("--labelled", "Label each field.")
@JSON
def decode(trace: Path, labelled: bool, as_json: bool) -> None:
    """Print TRACE as text, one line a value.

    run;size of name;name;size of type;type;1 where it is NULL, else 0[;size of the data;members]
    """
    from latlab.stubs.components import trace as _trace

    if as_json:
        click.echo(document(_trace.as_json(trace)))
        return
    for line in _trace.as_text(trace, labelled=labelled):
        click.echo(line)


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--component", "name", required=True, help="As in STUDY.toml.")
@click.option(
    "--kind", type=click.Choice(["python", "c++", "command"]), default="python", help="Kind of component."
)
@flag("--keyed", "Match results by the arguments, not by their order.")
@_MUTATES
@JSON
@output("File for a study's `validation`.")
@_COMMAND
def validate(
    name: str,
    kind: str,
    keyed: bool,
    mutates: tuple[str, ...],
    as_json: bool,
    output: Path | None,
    command: tuple[str, ...],
) -> int:
    """Record the component twice while COMMAND (the system's own test) runs, then test its stub.

    Exit code 1 where two recordings differ, or the test fails or says something else with the stub.
    """
    from latlab.stubs.studies.sameness import validate as _validate

    result = _validate.validate(name, list(command), kind=kind, keyed=keyed, mutates=mutates)
    if output is not None:
        write_text(output, dumps(result) + "\n")
    click.echo(dumps(result) if as_json else result["verdict"])
    return ExitCode.OK if result["valid"] else ExitCode.FAILED


@click.command()
@click.argument("header", type=click.Path(path_type=Path))
@click.option("--class", "name", required=True, help="The class, with its namespaces.")
@click.option("-I", "includes", multiple=True, help="Include folder (repeatable).")
@output("File to write [default: stdout].")
@JSON
def spec(header: Path, name: str, includes: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Write a header that records and loads every member of a C++ class of HEADER, private ones too."""
    from latlab.stubs.components import cxx_spec as _spec

    check_stdout(output, as_json)
    text, marked = _spec.spec(header, name, [f"-I{folder}" for folder in includes])
    put_text(text, output, as_json=as_json, marked=marked)
    if marked:
        click.echo(f"latlab: {marked} members are marked and not written: look for MARK", err=True)
