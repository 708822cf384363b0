"""`latlab messaging`: how fast do messages travel."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from latlab.cli.kit.lazy import SuggestingGroup
from latlab.cli.kit.offered import TRANSPORTS, offered
from latlab.cli.kit.options import JSON
from latlab.cli.kit.progress import is_watched, say
from latlab.cli.messaging._options import axis_of, run_options, settings_from
from latlab.cli.messaging.commands import COMMANDS
from latlab.errors import ExitCode, UsageError
from latlab.model.messaging.options import SWEPT
from latlab.model.messaging.results import INTERRUPTED, Result, Settings
from latlab.reports.json import dumps


@click.group(cls=SuggestingGroup)
def messaging() -> None:
    """Measure how fast messages travel, from a ring to a broker."""


@messaging.command()
@run_options
@click.option(
    "--sweep",
    "axes",
    multiple=True,
    shell_complete=offered([f"{name}=" for name in SWEPT]),
    help="Run for each of several values: size=1,100,1k; two cross.",
)
@JSON
@click.option("-o", "--output", type=click.Path(), help="Keep the recording in this folder.")
def run(as_json: bool, output: str | None, axes: tuple[str, ...], **options: Any) -> int:
    """Measure one run: every message's latency, both throughputs, losses, CPU time."""
    _end_as_if_interrupted()
    if axes:
        return _sweep(settings_from(options), axes, as_json=as_json, output=output)
    from latlab.messaging import measure_and_analyse, reserved, save_run
    from latlab.reports.messaging.json import result_json
    from latlab.reports.messaging.text import render

    wanted = settings_from(options)
    waits = ("poll", "block") if wanted.wait == "both" else (wanted.wait,)
    folders = {wait: output if len(waits) == 1 else f"{output}-{wait}" for wait in waits if output}
    documents, code = [], ExitCode.OK
    with reserved(folder for folder in folders.values() if folder is not None):
        for wait in waits:
            with _progress() as told:
                measurement, result = measure_and_analyse(wanted.with_(wait=wait), told)
            document = result_json(result)
            documents.append(document)
            unsaved = None
            if (folder := folders.get(wait)) is not None:
                try:
                    save_run(folder, measurement, result=document)
                except OSError as error:  # what was measured is shown nevertheless
                    unsaved = f"{folder}: the recording is incomplete ({error.strerror or error})"
            if not as_json:
                click.echo(render(result) + ("\n" if len(waits) > 1 else ""))
            code = _warned(result) or code
            if unsaved is not None:
                click.echo(f"latlab: {unsaved}; every figure is printed, too", err=True)
                code = ExitCode.FAILED
            if result.partial == INTERRUPTED:
                break
    if as_json:
        click.echo(dumps(documents[0] if len(documents) == 1 else {"schema": 1, "variants": documents}))
    return code


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """One line on a terminal while a run goes on, which is gone afterwards; None where stderr is none."""
    if not is_watched():
        yield None
        return
    from latlab.words import rate

    begin, shown = time.monotonic(), [0.0]

    def told(received: int, total: int) -> None:
        now = time.monotonic()
        if now - max(begin, shown[0]) >= 0.5:
            shown[0] = now
            speed = rate(received / (now - begin), "messages")
            sys.stderr.write(f"\r\x1b[K{received:,} of {total:,} messages, {speed} so far")
            sys.stderr.flush()

    try:
        yield told
    finally:
        if shown[0]:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def _warned(result: Result) -> ExitCode:
    """Say what is wrong with a result; the exit code that it asks for."""
    if result.partial is not None:
        click.echo(f"latlab: {result.partial}; {result.received} messages kept as partial", err=True)
        return ExitCode.FAILED
    if result.verdict.doubts:
        from latlab.reports.messaging.verdict import doubts

        for line in doubts(result):
            click.echo(f"latlab: {line[0].lower()}{line[1:]}", err=True)
        return ExitCode.NOT_TRUSTWORTHY
    return ExitCode.OK


def _end_as_if_interrupted() -> None:
    """Whoever ends the run politely has what was measured so far, as after Ctrl-C."""
    import signal
    import threading

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _sweep(settings: Settings, axes: tuple[str, ...], *, as_json: bool, output: str | None) -> int:
    """One run a point; each is saved and shown as it ends."""
    import itertools

    from latlab.messaging import reserved

    if settings.wait == "both":
        raise UsageError(
            "a sweep takes one way of waiting", remedy="make it an axis: --sweep wait=block,poll"
        )
    parsed = dict(axis_of(text) for text in axes)
    if len(parsed) < len(axes):
        raise UsageError("an axis is given twice", remedy="write all its values in one: size=1,100,1k")
    named = [dict(zip(parsed, values, strict=True)) for values in itertools.product(*parsed.values())]
    folders = [f"{output}/{_named(point)}" for point in named if output is not None]
    with reserved(folders):
        return _swept(settings, parsed, as_json=as_json, output=output)


def _named(point: dict[str, Any]) -> str:
    return "-".join(f"{axis}={value}" for axis, value in point.items())


def _swept(settings: Settings, parsed: dict[str, list[Any]], *, as_json: bool, output: str | None) -> int:
    from latlab.messaging import save_run, sweep
    from latlab.reports.messaging.json import result_json
    from latlab.words import duration, rate, table

    points, rows, code = [], [], ExitCode.OK
    for point, measurement, result in sweep(settings, parsed):
        document = {"point": point, **result_json(result)}
        points.append(document)
        name, unsaved = _named(point), False
        if output is not None:
            try:
                save_run(f"{output}/{name}", measurement, result=document)
            except OSError as error:  # what was measured is shown nevertheless
                why = error.strerror or error
                click.echo(f"latlab: {output}/{name}: the recording is incomplete ({why})", err=True)
                unsaved = True
        latency, both = result.latency, (result.sending_throughput, result.receiving_throughput)
        rows.append(
            [
                name,
                *[duration(None if latency is None else x) for x in (_p(latency, "p50"), _p(latency, "p99"))],
                *[rate(t.messages_per_s, "messages") for t in both],
                rate(both[1].bytes_per_s, "B"),
                str(result.lost),
            ]
        )
        say(f"{name}: {rows[-1][1]}, {rows[-1][4]}")
        # Neither a later point that went well nor one that is less bad makes an earlier one whole.
        ended = ExitCode.FAILED if unsaved else _warned(result)
        code = ended if code in (ExitCode.OK, ended) or ended is ExitCode.FAILED else code
    if as_json:
        click.echo(dumps({"schema": 1, "sweep": list(parsed), "points": points}))
    else:
        click.echo(table(("", "p50", "p99", "sent", "received", "bytes", "lost"), rows))
    return code


def _p(summary: Any, name: str) -> float | None:
    return None if summary is None else summary.quantiles[name]


for command in COMMANDS:
    messaging.add_command(command)


@messaging.command()
@click.argument("name", required=False, shell_complete=TRANSPORTS)
@JSON
def transports(as_json: bool, name: str | None) -> int:
    """List the transports, what each one promises, and what a missing one needs.

    A product whose loop is python is measured through its Python client, which costs microseconds a message;
    hiredis-*, librabbitmq and libnats are native clients. Of one NAME, also the options of its client
    (--driver), and what it takes for its server.
    """
    from latlab.messaging import every_transport, facts_of, missing
    from latlab.reports.messaging.json import facts_json
    from latlab.reports.messaging.text import render_facts
    from latlab.words import table

    known = every_transport().values() if name is None else [facts_of(name)]
    found = [(facts, missing(facts)) for facts in known]
    if as_json:
        click.echo(dumps({"schema": 1, "transports": [facts_json(f, need) for f, need in found]}))
        return ExitCode.OK
    if name is not None:
        click.echo(render_facts(*found[0]))
        return ExitCode.OK
    rows = [
        (
            f.name,
            f.title,
            f.loop,
            "yes" if f.lossless else "no",
            f.received_at,
            "available" if need is None else f"needs: {need}",
        )
        for f, need in found
    ]
    click.echo(table(("name", "what", "loop", "lossless", "I_n is taken in the", "here"), rows))
    return ExitCode.OK
