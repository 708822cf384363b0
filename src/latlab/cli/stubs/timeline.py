"""`latlab stubs play`, `compare` and `edit`: action files and timelines."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from latlab.cli.kit.options import JSON, Seconds
from latlab.cli.kit.progress import say
from latlab.errors import ExitCode, UsageError
from latlab.formats.documents import write_text
from latlab.reports.json import dumps


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@JSON
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Keep the timeline in this folder.")
@click.option("--perfetto", type=click.Path(path_type=Path), help="Write a trace for ui.perfetto.dev.")
@click.option("--timeout", type=Seconds(), default=60.0, help="Seconds after which the player gives up.")
@click.option(
    "--scheduling", type=click.Choice(["auto", "high", "other", "fifo"]), default="auto",
    help="high: nice -20 where allowed; fifo: real time; auto: fifo where something else runs.",
)  # fmt: skip
@click.option(
    "--pace", type=click.Choice(["auto", "schedule", "free"]), default="auto",
    help="schedule: sleeps end by the times that the actions add up to; free: threads contend for CPUs; "
    "auto: schedule where no CPU has to be shared.",
)  # fmt: skip
def play(
    folder: Path, as_json: bool, output: Path | None, perfetto: Path | None, timeout: float, scheduling: str,
    pace: str,
) -> None:  # fmt: skip
    """Re-execute the action files of FOLDER with real threads, from one start barrier."""
    from latlab import stubs
    from latlab.reports.stubs import text as stubs_text

    if timeout <= 0:
        raise UsageError("--timeout must be greater than 0")
    played = stubs.play(stubs.load_actions(folder), timeout_s=timeout, scheduling=scheduling, pace=pace)
    if output is not None:
        stubs.save_timeline(played, output)
    if perfetto is not None:
        write_text(perfetto, dumps(stubs.to_perfetto(played)))
    click.echo(dumps(played.as_json()) if as_json else stubs_text.timeline(played))


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@JSON
@click.option("--html", "page", type=click.Path(path_type=Path), help="Draw both into this page.")
@click.option("--perfetto", type=click.Path(path_type=Path), help="Write both for ui.perfetto.dev.")
def compare(a: Path, b: Path, as_json: bool, page: Path | None, perfetto: Path | None) -> None:
    """Compare timeline B with timeline A: folders, or files that `play --json` wrote."""
    from latlab import stubs
    from latlab.reports.stubs import text as stubs_text

    first, second = stubs.load_timeline(a), stubs.load_timeline(b)
    result = stubs.compare(first, second)
    if page is not None:
        from latlab.reports.stubs import timeline_html as stubs_html
        from latlab.system.environment import capture

        drawn = stubs_html.comparison(first, second, result, (str(a), str(b)))
        drawn.reproduce(
            shlex.join(["latlab", "stubs", "compare", str(a), str(b), "--html", str(page)]), capture()
        )
        drawn.write(page)
    if perfetto is not None:
        traces = [stubs.to_perfetto(first), stubs.to_perfetto(second)]
        for event in traces[1]["traceEvents"]:
            event["pid"] = 2
        events = [event for trace in traces for event in trace["traceEvents"]]
        write_text(perfetto, dumps({"traceEvents": events}))
    click.echo(dumps(result.as_json()) if as_json else stubs_text.comparison(first, second, result))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--thread", type=int, required=True, help="The thread to change.")
@click.option("--scale", "factor", type=float, help="Factor for its run times.")
@click.option("--idle", is_flag=True, help="Replace its runs by sleeps (an idle stub).")
@click.option("--replace", "other", type=click.Path(path_type=Path), help="Replace it by this action file.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Folder for the result.")
@JSON
def edit(
    folder: Path, thread: int, factor: float | None, idle: bool, other: Path | None, output: Path,
    as_json: bool,
) -> int:  # fmt: skip
    """Make one thread of FOLDER's action files faster, slower, idle, or another one.

    What was captured is simulated with the change: where threads share CPUs, they compete for them anew. The
    result says how long the program takes then, and holds its timeline beside the action files.

    Exit code 3 where the simulation does not give back the unchanged program, or leaves the time open.
    """
    from latlab import stubs
    from latlab.reports.stubs import text as stubs_text

    if factor is None and not idle and other is None:
        raise UsageError("nothing to change", remedy="give --scale, --idle or --replace")
    before = stubs.load_actions(folder)
    changed = before
    if other is not None:
        changed = stubs.replace_thread(changed, thread, other)
    if factor is not None or idle:
        changed = stubs.scale(changed, thread, factor=factor, idle=idle)
    captured = stubs.load_timeline(folder) if (folder / stubs.TIMELINE_FILE).is_file() else None
    found = stubs.edited(before, changed, captured)
    stubs.save_actions(found.program, output)
    if found.timeline is not None:
        stubs.save_timeline(found.timeline, output)
    say(f"{output}: {len(found.program.threads)} action files")
    if as_json:
        click.echo(dumps({**found.result.as_json(), "output": str(output)}))
    else:
        click.echo(stubs_text.edit(found.result))
    return ExitCode.NOT_TRUSTWORTHY if found.result.withheld else ExitCode.OK
