"""`latlab messaging`: how fast do messages travel."""

from __future__ import annotations

import json
from typing import Any

import click

from latlab.cli._messaging_commands import COMMANDS
from latlab.cli._messaging_options import ListOptions, run_options, settings_from
from latlab.errors import ExitCode


@click.group(cls=ListOptions)
def messaging() -> None:
    """How fast do messages travel, through anything from a ring to a product."""


@messaging.command()
@run_options
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("-o", "--output", type=click.Path(), help="Keep the recording in this folder.")
def run(as_json: bool, output: str | None, **options: Any) -> int:
    """Measure one run: every message's latency, both throughputs, losses, CPU time."""
    from latlab.messaging import measure_and_analyse, save_run
    from latlab.reports.messaging_json import result_json
    from latlab.reports.messaging_text import render

    wanted = settings_from(options)
    documents, code = [], ExitCode.OK
    for wait in ("poll", "block") if wanted.wait == "both" else (wanted.wait,):
        measurement, result = measure_and_analyse(wanted.with_(wait=wait))
        document = result_json(result)
        documents.append(document)
        if output is not None:
            folder = output if wanted.wait != "both" else f"{output}-{wait}"
            save_run(folder, measurement, result=document)
        if not as_json:
            click.echo(render(result) + ("\n" if wanted.wait == "both" else ""))
        if result.partial is not None:
            click.echo(f"latlab: {result.partial}; {result.received} messages kept as partial", err=True)
            code = ExitCode.FAILED
        elif result.clock_steps or result.received == 0:
            click.echo("latlab: the result is not trustworthy: see its notes and counts", err=True)
            code = ExitCode.NOT_TRUSTWORTHY
    if as_json:
        click.echo(json.dumps(documents[0] if len(documents) == 1 else {"schema": 1, "variants": documents}))
    return code


for command in COMMANDS:
    messaging.add_command(command)


@messaging.command()
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def transports(as_json: bool) -> int:
    """List the transports, what each one promises, and what a missing one needs."""
    from latlab.messaging import every_transport, missing
    from latlab.reports.messaging_json import facts_json
    from latlab.reports.messaging_text import table

    found = [(facts, missing(facts)) for facts in every_transport().values()]
    if as_json:
        click.echo(json.dumps({"schema": 1, "transports": [facts_json(f, need) for f, need in found]}))
        return ExitCode.OK
    rows = [
        (
            f.name,
            f.title,
            f.loop,
            "yes" if f.lossless else "no",
            "available" if need is None else f"needs: {need}",
        )
        for f, need in found
    ]
    click.echo("\n".join(table(("name", "what", "loop", "lossless", "here"), rows)))
    return ExitCode.OK
