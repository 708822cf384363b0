"""`latlab messaging find-limit, calibrate, compare, export, conform`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from latlab.cli.kit.options import ABOVE_ZERO, JSON, Seconds, Share, Words, renamed
from latlab.cli.kit.progress import say
from latlab.cli.messaging._options import number_of, run_options, settings_from
from latlab.cli.messaging.ab import ab_command, report_command
from latlab.errors import ExitCode, UsageError, unwritten
from latlab.reports.json import dumps
from latlab.words import seconds, share

FORMATS = ("gnuplot", "csv", "hlog", "json", "html")


@click.command("find-limit")
@run_options
@click.option("--objective", required=True, help="Objective, such as 'p99.9<200us' (from the intended time).")
@click.option(
    "--low", "low_hz", type=ABOVE_ZERO, default=1000.0, help="Lowest rate to try, in messages a second."
)
@click.option(
    "--high", "high_hz", type=ABOVE_ZERO, default=1e8, help="Highest rate to try, in messages a second."
)
@click.option(
    "--seconds",
    type=Seconds(),
    default=0.5,
    help="Duration of each trial; the limit holds for 20 times as long.",
)
@click.option(
    "--precision",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.02,
    help="Relative width of the final bracket.",
)
@click.option("--repeats", type=click.IntRange(min=1), default=5, help="Runs that confirm the limit.")
@JSON
def find_limit_command(as_json: bool, objective: str, **options: Any) -> int:
    """Search for the highest rate that holds a latency objective."""
    from latlab.messaging import find_limit, parse_objective
    from latlab.words import duration, rate

    asked = parse_objective(objective)
    search = {name: options.pop(name) for name in ("low_hz", "high_hz", "seconds", "precision", "repeats")}
    if (
        not 0 < search["low_hz"] <= search["high_hz"]
        or search["repeats"] < 1
        or not 0 < search["precision"] < 1
    ):
        raise UsageError("a search needs 0 < --low <= --high, a repeat and a precision between 0 and 1")

    def told(probe: Any) -> None:
        tried = f"{rate(probe.rate_hz, 'messages')} for {seconds(probe.seconds)}"
        say(f"{tried}: {duration(probe.value_ns)}, {probe.reason}")

    limit = find_limit(settings_from(options), asked, **search, told=told)
    if as_json:
        found = {"objective": objective, "trustworthy": limit.trustworthy, **asdict(limit)}
        click.echo(dumps({"schema": 1, **found}))
    elif limit.rate_hz is None:
        lowest = rate(limit.fails_at_hz or search["low_hz"], "messages")
        click.echo(f"{objective} does not hold at {lowest}, the lowest rate tried")
    else:
        fails = limit.fails_at_hz
        stretch = f"it held for {seconds(limit.sustained_s)} at a stretch, and " if limit.sustained_s else ""
        above = ", the highest rate tried" if fails is None else f", fails at {rate(fails, 'messages')}"
        click.echo(
            f"{objective} holds up to {rate(limit.rate_hz, 'messages')}{above}; {stretch}"
            f"{limit.held} of {limit.repeats} confirming runs held (confidence "
            f"{share(limit.confidence, digits=0)})"
        )
    if not limit.trustworthy:
        click.echo(
            "latlab: not trustworthy: other processes took CPUs while a rate failed; "
            "search while the machine is quiet",
            err=True,
        )
        return ExitCode.NOT_TRUSTWORTHY
    return ExitCode.OK if limit.rate_hz is not None else ExitCode.FAILED


@click.command("calibrate")
@click.option("--size", default="64", help="Bytes a message.")
@JSON
def calibrate_command(size: str, as_json: bool) -> int:
    """Measure what the harness itself costs per message."""
    from latlab.messaging import calibrate
    from latlab.words import duration, plural, rate

    found = calibrate(number_of(size))
    if as_json:
        click.echo(dumps({"schema": 1, **found}))
        return ExitCode.OK
    best = found["best_ns"]
    click.echo(
        f"sender    {duration(found['sender_ns'])} a message of {plural(found['size'], 'byte')} "
        f"(best round {duration(best['sender'])})"
    )
    click.echo(f"receiver  {duration(found['receiver_ns'])} (best round {duration(best['receiver'])})")
    clock = duration(found["clock_ns"])
    click.echo(f"clock     {clock} of each of them (best round {duration(best['clock'])})")
    click.echo(f"floor     {duration(found['floor_ns'])} through a ring between two threads,")
    click.echo(f"          {rate(found['floor_messages_per_s'], 'messages')} at most")
    return ExitCode.OK


@click.command("compare")
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@renamed("--effect", "--threshold", type=Share(), default=0.05, help="Smallest change that matters, as 5%.")
@JSON
def compare_command(before: str, after: str, effect: float, as_json: bool) -> int:
    """Compare two recordings; exit code 4 when the second is slower, 3 when one run of each can't decide.

    `latlab messaging ab` compares workloads by interleaved runs, which decide about smaller changes.
    """
    from latlab.formats.recording import open_recording
    from latlab.messaging import compare, disturbance, load_run
    from latlab.model.machine.environment import differences
    from latlab.reports.messaging.verdict import doubt
    from latlab.words import duration, table

    a, b = load_run(before), load_run(after)
    unlike = [
        str(d) for d in differences(open_recording(before).environment, open_recording(after).environment)
    ]
    for name in ("transport", "size", "topology", "load", "rate_hz", "batch"):
        left, right = getattr(a.settings, name), getattr(b.settings, name)
        if left != right:
            unlike.append(f"{name}: {left} against {right}")
    for line in unlike:
        click.echo(f"latlab: the runs differ in {line}", err=True)
    changes = compare(a, b, threshold=effect)
    slower = any(change.verdict == "slower" for change in changes)
    if as_json:
        document = {
            "schema": 1,
            "regression": slower,
            "unlike": unlike,
            "changes": [asdict(c) for c in changes],
        }
        click.echo(dumps(document))
    else:
        rows = [
            (
                c.name,
                duration(c.before_ns),
                duration(c.after_ns),
                f"{c.ratio:.3f}",
                f"{c.low:.3f} to {c.high:.3f}",
                c.verdict,
            )
            for c in changes
        ]
        click.echo(table(("", "before", "after", "ratio", "95 %", "verdict"), rows))
    if slower:
        return ExitCode.REGRESSION
    decided = any(change.verdict == "faster" for change in changes)
    if decided or all(change.verdict == "the same recording" for change in changes):
        return ExitCode.OK
    for recording, m in ((before, a), (after, b)):
        taken = disturbance(m)
        if taken is not None:
            click.echo(f"latlab: {recording}: not trustworthy: {doubt(taken)}", err=True)
    click.echo(
        "latlab: not decided: one run of each doesn't show how much runs vary; "
        "'latlab messaging ab A.toml B.toml' measures both in turn",
        err=True,
    )
    return ExitCode.NOT_TRUSTWORTHY


@click.command("export")
@click.argument("recordings", type=click.Path(), nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(), required=True, help="The folder to write to.")
@click.option(
    "--format", "wanted", type=Words(FORMATS, "format"), default=",".join(FORMATS), help="Formats to write."
)
@click.option("--bins", type=click.IntRange(min=1), help="Bins of the histogram. [default: automatic]")
@click.option("--overlap", type=click.FloatRange(0, 0.99), default=0.0, help="Overlap of the bins.")
@JSON
def export_command(
    recordings: tuple[str, ...],
    output: str,
    wanted: tuple[str, ...],
    bins: int | None,
    overlap: float,
    as_json: bool,
) -> int:
    """Write a recording as gnuplot data and script, CSV, .hlog, JSON and HTML.

    Of several recordings (those of a sweep over sizes) the first is written, and all of them are the points
    of throughput against size.
    """
    from latlab.messaging import analyse, load_run
    from latlab.reports.messaging.export import size_point, write

    recording = recordings[0]
    measurement = load_run(recording)
    result = analyse(measurement)
    others = [point for other in recordings[1:] for point in size_point(analyse(load_run(other)))]
    sizes = sorted(size_point(result) + others)
    drawn: dict[str, Any] = {"bins": bins, "overlap": overlap, "sizes": sizes}
    try:
        written = [str(path) for path in write(measurement, result, Path(output), wanted, **drawn)]
        if "html" in wanted:
            from latlab.formats.recording import open_recording
            from latlab.reports.messaging.html import write_html

            page, kept = Path(output) / "report.html", open_recording(recording)
            written.append(str(write_html(page, measurement, result, kept, **drawn)))
    except OSError as error:
        raise unwritten(output, error) from None
    # Outside of the try: a full output is not an error of the folder.
    click.echo(dumps({"schema": 1, "written": written}) if as_json else "\n".join(written))
    return ExitCode.OK


@click.command("conform")
@run_options
@JSON
def conform_command(as_json: bool, **options: Any) -> int:
    """Check that a plug-in, native or Python, keeps its promises."""
    from latlab.messaging import conform

    checks = conform(settings_from(options))
    failed = any(wrong is not None for _, wrong in checks)
    if as_json:
        found = [{"what": what, "wrong": wrong} for what, wrong in checks]
        click.echo(dumps({"schema": 1, "conforms": not failed, "checks": found}))
        return ExitCode.FAILED if failed else ExitCode.OK
    for what, wrong in checks:
        click.echo(f"{'ok' if wrong is None else 'FAILED':<7}{what}{'' if wrong is None else f': {wrong}'}")
    return ExitCode.FAILED if failed else ExitCode.OK


@click.command("broker")
@click.option(
    "--listen", required=True, help="HOST:PORT to listen on; port 0 takes a free one. No authentication."
)
@click.option("--runs", type=click.IntRange(min=1), help="End after this number of runs. [default: no end]")
def broker_command(listen: str, runs: int | None) -> int:
    """Run the broker for runs on other hosts, which say --broker HOST:PORT."""
    import contextlib

    from latlab.messaging import serve

    with contextlib.suppress(KeyboardInterrupt):
        serve(listen, told=lambda line: click.echo(line), runs=runs)
    return ExitCode.OK


COMMANDS = (
    ab_command,
    report_command,
    broker_command,
    find_limit_command,
    calibrate_command,
    compare_command,
    export_command,
    conform_command,
)
