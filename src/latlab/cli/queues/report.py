"""`latlab queues report` and `latlab queues compare`."""

from __future__ import annotations

from pathlib import Path

import click

from latlab.cli.kit.files import writing
from latlab.cli.kit.options import JSON, output
from latlab.cli.kit.progress import say
from latlab.cli.queues._exclude import EXCLUDE, on_run, tell_unknown
from latlab.reports.json import dumps


@on_run("report")
@output("File to write [default: queues.html in RUN].")
@JSON
def report_(run: Path, exclude: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Write an HTML page of RUN: fills over time, samples, traces, topology."""
    from latlab.formats.recording import open_recording
    from latlab.queues import analyse, load
    from latlab.reports.queues.html import write_queues_report

    recording = open_recording(run)
    observation = load(run)
    tell_unknown([observation], exclude)
    traces = None
    if "traces" in recording.names():
        table = recording.series("traces")
        traces = {name: table[name] for name in ("queue", "push_ns", "pop_ns")}
    target = output or run / "queues.html"
    analysis = analyse(observation, exclude=exclude)
    with writing(target):
        write_queues_report(target, observation, analysis, recording.environment, recording.command, traces)
    if as_json:
        counts = {"queues": len(analysis.queues), "stages": len(analysis.stages)}
        click.echo(dumps({"schema": 1, "report": str(target), **counts}))
    else:
        click.echo(f"report: {target}")


@click.command("compare")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@EXCLUDE
@click.option("--html", type=click.Path(path_type=Path), help="Also write a page with the plots of both.")
@JSON
def compare_(before: Path, after: Path, exclude: tuple[str, ...], html: Path | None, as_json: bool) -> None:
    """Show how stages and queues changed from BEFORE to AFTER."""
    from latlab.formats.recording import open_recording
    from latlab.model.machine.environment import differences
    from latlab.queues import analyse, load
    from latlab.reports.queues.text import compare_lines

    runs = [load(run, exclude=exclude) for run in (before, after)]
    tell_unknown(runs, exclude)
    found = [analyse(run, exclude=exclude) for run in runs]
    environments = [open_recording(run).environment for run in (before, after)]
    unlike = differences(*environments)
    for difference in unlike:
        click.echo(f"latlab: the runs differ in {difference}", err=True)
    if html is not None:
        from latlab.reports.queues.compare_html import ComparedSide, write_comparison

        first, second = (
            ComparedSide(str(path), run, analysis)
            for path, run, analysis in zip((before, after), runs, found, strict=True)
        )
        with writing(html):
            write_comparison(html, first, second, environments[1], [str(item) for item in unlike])
        say(f"latlab queues: comparison: {html}")
    if as_json:
        names = ("before", "after")
        documents = {name: analysis.to_json() for name, analysis in zip(names, found, strict=True)}
        print(dumps({"schema": 1, **documents}, indent=2))
        return
    print("\n".join(compare_lines(*found)))
