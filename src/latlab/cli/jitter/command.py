"""`latlab jitter`: how quiet is this machine, and who disturbs it."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.jitter.files import compare, merge, periods, study
from latlab.cli.kit.lazy import SuggestingGroup
from latlab.cli.kit.options import CPUS, JSON, Duration, Seconds, renamed
from latlab.cli.kit.progress import say
from latlab.errors import ExitCode, LatlabError, UnavailableError, UsageError
from latlab.words import seconds

if TYPE_CHECKING:
    from latlab.jitter import CoreMatrix
    from latlab.live.jitter import LiveView
    from latlab.model.machine.jitter import JitterResult
    from latlab.system.kernel.tracing import Tracer

# The original test's defaults, in ticks where it counted ticks.
_CLASSIC = {"bins": 20, "knee": 50, "least": 10, "outbuf": 10_000, "pause": 0, "seconds": 1.0, "width": 80}
_MOST = {"outbuf": 10_000_000, "bins": 100_000, "width": 10_000}  # beyond, memory or time ends first


@click.group(
    cls=SuggestingGroup, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option("--cpus", type=CPUS, help="Cores to measure on, as 0-3,7; all allowed ones by default.")
@click.option("-r", "--seconds", "--runtime", type=Seconds(), default=1.0, help="Seconds to run.")
@click.option(
    "-b", "--bins", type=click.IntRange(min=2), default=20, help="Bins of the histogram: an even number."
)
@click.option(
    "-k", "--knee", type=int, help="Ticks up to which bins are linear; outliers are above. Chosen by default."
)
@click.option("-m", "--min", "least", type=int, help="Ticks at which the bins begin. Chosen by default.")
@click.option("-f", "--outfile", type=click.Path(), help="Write outliers as x,y: ms since the start, µs.")
@click.option("-o", "--outbuf", type=int, default=10_000, help="Outliers kept on each core.")
@click.option("-p", "--pause", type=int, default=0, help="Milliseconds to sleep before each block.")
@click.option("-w", "--width", type=click.IntRange(min=1), default=80, help="Columns of the histogram.")
@click.option("-s", "--sum", "sums", is_flag=True, help="Show the time in each bin, not the count.")
@click.option(
    "--classic", is_flag=True, help="The histogram alone, with the original test's defaults, on one core."
)
@JSON
@click.option("--no-trace", is_flag=True, help="Don't join gaps to kernel events.")
@renamed(
    "--priority", "--fifo", type=click.IntRange(1, 99), help="Measure under SCHED_FIFO at this priority."
)
@click.option(
    "--threshold",
    type=Duration(),
    help="End at the first gap that is longer, such as 100us, and stop the kernel's trace there.",
)
@click.option("--lock-memory", is_flag=True, help="Keep all memory resident (mlockall).")
@click.option(
    "--task", help="Repeat a command, or module:function, and show it above the machine's own jitter."
)
@click.option("--core-to-core", is_flag=True, help="The latency of a cache line between every pair of cores.")
@click.option("--live", is_flag=True, help="Measure again and again until Ctrl-C.")
@click.option("--output", type=click.Path(), help="Record the run in this folder.")
@click.option("--spectrum", is_flag=True, help="Plot the spectrum of the outliers.")
@click.option("--html", type=click.Path(), help="Write a page with scatter, spectrum and cumulative curve.")
@click.option("--hlog", type=click.Path(), help="Export an HdrHistogram log, an interval a core.")
@click.option("--hgrm", type=click.Path(), help="Export a percentile table for HdrHistogram's plotter.")
@click.option("--cyclictest", type=click.Path(), help="Export JSON as cyclictest writes it.")
@click.option("--sysjitter", type=click.Path(), help="Export raw interruptions as sysjitter writes them.")
@click.pass_context
def jitter(ctx: click.Context, /, **options: Any) -> int | None:
    """Measure how quiet this machine is, what disturbs it, and how often.

    Spins on each core with back-to-back readings of the time-stamp counter; whatever takes time from it is
    a gap.
    """
    if ctx.invoked_subcommand is not None:
        return None
    return _run(ctx, options)


for _command in (compare, merge, periods, study):
    jitter.add_command(_command)


def _run(ctx: click.Context, options: dict[str, Any]) -> int:
    from latlab.jitter import allowed_cpus, bin_bounds, core_to_core

    if options["classic"]:
        for key, value in _CLASSIC.items():
            if ctx.get_parameter_source(key) is click.core.ParameterSource.DEFAULT:
                options[key] = value
    cpus = allowed_cpus() if options["cpus"] is None else list(options["cpus"])
    if options["classic"] and options["cpus"] is None:
        cpus = cpus[-1:]
    if options["core_to_core"]:
        _show_matrix(core_to_core(cpus), as_json=options["as_json"])
        return ExitCode.OK
    _check(options)
    if options["knee"] is not None:
        bin_bounds(options["bins"], options["least"] or 0, options["knee"])
    elif options["bins"] < 2 or options["bins"] % 2:
        bin_bounds(options["bins"], 0, 1)  # refuses it, and says why
    if options["live"]:
        return _live(cpus, options)
    result = _measured(cpus, options)
    _keep_floor(result, options)
    _show(result, options, cpus)
    sys.stdout.flush()
    for warning in result.warnings:
        click.echo(f"latlab jitter: {warning}", err=True)
    _exports(result, options)  # last: what can't be written now must not take the result with it
    if result.exceeded is not None:
        return ExitCode.FAILED
    from latlab.model.machine.jitter import DOUBTFUL

    doubtful = any(one.kind in DOUBTFUL for one in result.warnings)
    return ExitCode.NOT_TRUSTWORTHY if doubtful else ExitCode.OK


def _check(options: dict[str, Any]) -> None:
    """Everything that would fail after the measurement fails before it."""
    from latlab.jitter import resolve_task

    if not options["seconds"] > 0:
        raise UsageError(
            f"a run of {seconds(options['seconds'])} measures nothing", remedy="give -r more than 0"
        )
    if options["width"] < 60:
        raise UsageError(f"{options['width']} columns are too few", remedy="give -w at least 60")
    if options["outbuf"] < 0 or options["pause"] < 0:
        raise UsageError("-o and -p can't be negative")
    for name, most in _MOST.items():
        if options[name] > most:
            raise UsageError(f"--{name} is {options[name]:,}; the most is {most:,}")
    if options["least"] is not None and options["least"] < 0:
        raise UsageError("-m can't be negative")
    if options["task"] is not None:
        resolve_task(options["task"])
    if options["output"] and Path(options["output"]).exists() and any(Path(options["output"]).iterdir()):
        raise UsageError(f"{options['output']} is not empty", remedy="name a new folder")
    for key in ("outfile", "html", "hlog", "hgrm", "cyclictest", "sysjitter"):
        path = options[key]
        if path is None:
            continue
        folder = Path(path).parent
        writable = os.access(path, os.W_OK) if Path(path).exists() else os.access(folder, os.W_OK | os.X_OK)
        if not writable or Path(path).is_dir():
            raise UsageError(
                f"{path} can't be written", remedy="name a file in a folder that you may write to"
            )


def _measured(
    cpus: list[int],
    options: dict[str, Any],
    stop: threading.Event | None = None,
    tracer: Tracer | None = None,
) -> JitterResult:
    from latlab.jitter import analyse, measure, measure_task
    from latlab.system.settings.context import measuring

    with measuring(lock_memory=options["lock_memory"]) as conditions:
        for reason in conditions.failed.values():
            click.echo(f"latlab jitter: {reason}; raise `ulimit -l`, or run as root", err=True)
        if options["seconds"] > 3:  # no clock: it would be a gap itself
            say(f"latlab jitter: measuring for {seconds(options['seconds'])}")
        raw = measure(
            cpus,
            options["seconds"],
            threshold_ticks=options["knee"] or 0,
            ring=options["outbuf"],
            pause_ms=options["pause"],
            fifo_priority=options["priority"] or 0,
            trace=not options["no_trace"] and not options["classic"],
            stop_above_ns=options["threshold"] or 0,
            stop=stop,
            tracer=tracer,
        )
    result = analyse(raw)
    if options["classic"]:
        from latlab.model.machine.jitter import WarningKind

        kept = tuple(one for one in result.warnings if one.kind is not WarningKind.NOT_JOINED)
        result = replace(result, warnings=kept)
    if options["task"] is not None:
        task = measure_task(options["task"], options["seconds"], cpus[-1])
        result = replace(result, cores=(*result.cores, *task.cores), task=options["task"])
    return result


def _keep_floor(result: JitterResult, options: dict[str, Any]) -> None:
    """The run is the floor of what is measured here next, where it has earned it."""
    from latlab.system import floor

    if options["pause"] or result.task or options["priority"] or options["classic"]:
        return
    why = floor.refused(result)
    try:
        if why is None:
            floor.remember(result.cores, result.others_busy)
        elif options["seconds"] >= floor.LEAST_S:  # who measures for shorter doesn't ask for a floor
            click.echo(f"latlab jitter: this run is not kept as the machine's floor: {why}", err=True)
    except UnavailableError as error:
        click.echo(f"latlab jitter: {error}", err=True)


def _exports(result: JitterResult, options: dict[str, Any]) -> None:
    from latlab.jitter import (
        cyclictest_json,
        record_run,
        sysjitter_raw,
        write_hdr,
        write_outliers,
        write_text,
    )

    if options["output"]:
        from latlab.formats.recording import RecordingWriter
        from latlab.system.environment import capture

        parameters = {key: options[key] for key in ("cpus", "seconds", "knee", "pause", "priority", "task")}
        with RecordingWriter(
            options["output"], "jitter", parameters=parameters, environment=capture()
        ) as writer:
            record_run(writer, result)
    machine = result.cores[:-1] if result.task else result.cores
    if options["outfile"]:
        write_outliers(options["outfile"], machine)
    if options["cyclictest"]:
        write_text(options["cyclictest"], cyclictest_json(result))
    if options["hlog"] or options["hgrm"]:
        write_hdr(result, hlog=options["hlog"], hgrm=options["hgrm"])
    if options["html"]:
        from latlab.cli.jitter.files import command_line, write_page
        from latlab.reports.jitter.html import report
        from latlab.system.environment import capture

        write_page(report(result, capture(), command_line()), options["html"])
    if options["sysjitter"]:
        write_text(options["sysjitter"], sysjitter_raw(machine))


def _show(result: JitterResult, options: dict[str, Any], cpus: list[int]) -> None:
    from latlab.cli.jitter.files import print_json
    from latlab.reports.jitter.text import above_floor, classic, spectrum_plot, summary

    if options["as_json"]:
        print_json(result.to_json())
        return
    view = {"bins": options["bins"], "width": options["width"], "sums": options["sums"]}
    if options["classic"]:
        text = classic(result.cores[0], min_ticks=options["least"], knee_ticks=options["knee"], **view)
    elif result.task:
        text = summary(result) + "\n" + above_floor(result, options["width"])
    else:
        first = classic(result.cores[0], min_ticks=options["least"], knee_ticks=options["knee"], **view)
        text = f"{first}\n{summary(result)}"
    click.echo(text, nl=False)
    if options["spectrum"]:
        click.echo("\n" + spectrum_plot(result, options["width"]), nl=False)


def _show_matrix(found: CoreMatrix, *, as_json: bool) -> None:
    from latlab.cli.jitter.files import print_json
    from latlab.reports.jitter.text import matrix

    if as_json:
        print_json(found.to_json())
    else:
        click.echo(matrix(found), nl=False)


def _live(cpus: list[int], options: dict[str, Any]) -> int:
    """One run after the other, each shown as it ends; Ctrl-C ends with what the last one measured."""
    from latlab.jitter import disturbance_tracer

    terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    view: type[LiveView] | None = None
    if terminal and not options["as_json"]:
        try:
            from latlab.live.jitter import LiveView

            view = LiveView
        except ImportError:
            click.echo("latlab jitter: the full view needs textual: pip install 'latlab[tui]'", err=True)
    with ExitStack() as stack:
        tracer = None
        if not options["no_trace"] and not options["classic"]:
            try:
                tracer = stack.enter_context(disturbance_tracer(cpus))
            except (UnavailableError, UsageError):
                pass  # each run says why its gaps have no sources
        if view is None:
            return _live_lines(cpus, options, "\x1b[H\x1b[2J" if terminal else "", tracer)
        stop = threading.Event()
        failed = view(lambda: _measured(cpus, options, stop, tracer), stop).run()
        if failed:
            raise LatlabError(failed)
    return ExitCode.OK


def _live_lines(cpus: list[int], options: dict[str, Any], clear: str, tracer: Tracer | None) -> int:
    from latlab.cli.jitter.files import print_json
    from latlab.model.machine.jitter import WarningKind
    from latlab.reports.jitter.text import summary

    try:
        while True:
            result = _measured(cpus, options, tracer=tracer)
            if options["as_json"]:
                print_json(result.to_json(), one_line=True)
            else:
                click.echo(clear + summary(result))
            sys.stdout.flush()
            if any(one.kind is WarningKind.INTERRUPTED for one in result.warnings):
                return ExitCode.OK
    except KeyboardInterrupt:  # between two runs
        return ExitCode.OK
