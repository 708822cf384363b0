"""`latlab bench run` and `latlab bench -- CMD`."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import click

from latlab.cli._options import Seconds
from latlab.cli.bench._options import check_outputs, measuring, parameters_of, settings_of
from latlab.errors import ExitCode, LatlabError, UsageError


def _measure(targets: list[Any], options: dict[str, Any], report: dict[str, str]) -> int:
    from latlab import bench
    from latlab.reports.bench import text as bench_text
    from latlab.system.environment import capture

    check_outputs(options)
    settings = settings_of(options)
    environment = capture()
    asked = {"targets": [t.text for t in targets], "seed": options["seed"], "seconds": options["seconds"]}
    meta = {"kind": "bench-run", "asked": asked, "report": report}
    with contextlib.ExitStack() as stack:
        recorder = bench.Recorder()
        if options["output"]:
            from latlab.formats.recording import RecordingWriter

            recorder.writer = stack.enter_context(
                RecordingWriter(
                    options["output"],
                    "bench-run",
                    parameters=meta,
                    environment=environment,
                    seed=options["seed"],
                )
            )
        tests, documents = {}, []
        failed: list[LatlabError] = []
        for target in targets:
            try:
                samples = bench.run(
                    target,
                    settings,
                    recorder,
                    seconds=options["seconds"] / len(targets),
                    processes=options["processes"],
                    iterations=options["iterations"],
                )
            except LatlabError as error:
                failed.append(error)  # loses nothing of the others
                continue
            tests[target.name] = samples
            documents.append(bench_text.summary_json(target.name, samples, mean=options["mean"]))
        if not tests and failed:
            raise failed[0]
        if recorder.writer is not None:
            recorder.writer.put("result", {"schema": 1, "benchmarks": documents})
    if options["raw"]:
        bench.write_raw(options["raw"], {**meta, "environment": environment.to_json()}, recorder.rows)
    if options["as_csv"]:
        click.echo(bench_text.csv_lines(environment, asked, tests), nl=False)
    elif options["as_json"]:
        click.echo(
            json.dumps({"schema": 1, "benchmarks": documents, "environment": environment.to_json()}, indent=2)
        )
    else:
        click.echo(bench_text.summary_text(documents))
    for document in documents:
        for warning in document["warnings"]:
            click.echo(f"latlab: {document['name']}: {warning}", err=True)
    for one in failed:
        click.echo(f"latlab: {one}", err=True)
    if settings.priority and not settings.fitting and documents and "fifo" not in documents[0]["context"]:
        click.echo("latlab: SCHED_FIFO isn't allowed here; measured without it", err=True)
    sys.stdout.flush()
    return ExitCode.FAILED if failed else ExitCode.OK


def _running(function: Any) -> Any:
    options = [
        click.option("--seconds", type=Seconds(0.01), default=2.0, show_default=True, help="Budget."),
        click.option("--processes", type=click.IntRange(min=1), help="How many; 5 by default."),
        click.option(
            "--csv", "as_csv", is_flag=True, help="Lines of testcase,nanoseconds on standard output."
        ),
        click.option("--mean", is_flag=True, help="The mean in the summary, too."),
    ]
    for option in reversed(options):
        function = option(function)
    return measuring(function)


@click.command()
@click.argument("target")
@_running
def run(target: str, **options: Any) -> int:
    """Measure FILE.py[:Fixture], FILE.so[:Fixture or symbol] or PROGRAM[:Fixture]."""
    from latlab import bench

    given = bench.parse(target, parameters_of(options))
    if given.kind == "command":
        return _measure([given], options, {})
    targets, report = bench.expand(given, timeout_s=options["timeout"])
    return _measure(targets, options, report)


@click.command(context_settings={"ignore_unknown_options": False})
@_running
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...], **options: Any) -> int:
    """Measure a whole command: `latlab bench -- CMD ARGS...`."""
    from latlab import bench

    if not words:
        raise UsageError("no command was given", remedy="write it after --")
    return _measure([bench.of_command(words, parameters_of(options))], options, {})
