"""`latlab stubs capture` and `emit`."""

from __future__ import annotations

from pathlib import Path

import click

from latlab.cli.kit.files import check_stdout, put_text
from latlab.cli.kit.options import JSON, JSON_ASIDE, Seconds, output
from latlab.cli.kit.progress import clock
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import dumps


@click.command(context_settings={"ignore_unknown_options": True})
@output("Folder for the result.", required=True)
@click.option("--merge", default=20.0, help="Blocked slices below this many us become runs.")
@click.option("--faults", is_flag=True, help="Record every page fault (about 1 us each).")
@click.option(
    "--linger", type=Seconds(zero=True), default=0.0, show_default=False,
    help="Seconds for which processes that outlive COMMAND are followed.",
)  # fmt: skip
@click.option(
    "--perf", "--perf-script", "perf_script", type=click.Path(path_type=Path),
    help="Read this file of `perf sched record`, or `perf script`'s text of it, instead.",
)  # fmt: skip
@click.option(
    "--ctf", type=click.Path(path_type=Path), help="Read this LTTng trace, or babeltrace2's text of it."
)
@click.option(
    "--pid", type=click.IntRange(min=1),
    help="Follow this process, which runs already; with --perf and --ctf: the one in the recording.",
)  # fmt: skip
@click.option("--seconds", type=Seconds(), default=5.0, help="With --pid: for how long at most.")
@JSON_ASIDE
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def capture(
    output: Path,
    merge: float,
    faults: bool,
    linger: float,
    perf_script: Path | None,
    ctf: Path | None,
    pid: int | None,
    seconds: float,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run COMMAND, follow it and all its children, and write their action files and timeline.

    With --pid a process that runs already is followed for a time, and left as it is.

    Exit code 1 where the command fails.
    """
    from latlab import stubs
    from latlab.reports.stubs import text as stubs_text

    if merge < 0 or linger < 0:
        raise UsageError("--merge and --linger can't be negative")
    code = 0
    if perf_script is not None or ctf is not None:
        if pid is None or (perf_script is not None and ctf is not None):
            raise UsageError(
                "--perf and --ctf read one recording each, of the process that --pid names",
                remedy="its number is in `perf script -F comm,pid` or `babeltrace2`'s text",
            )
        read = stubs.from_perf_script if ctf is None else stubs.from_ctf
        found = read(perf_script or ctf or Path(), pid, output, merge_ns=round(merge * 1e3))
    elif pid is not None:
        if command:
            raise UsageError("give a COMMAND or --pid, not both")
        if seconds <= 0:
            raise UsageError("--seconds must be greater than 0")
        with clock(f"following process {pid}", seconds):
            found = stubs.capture_pid(
                pid, output, seconds=seconds, merge_ns=round(merge * 1e3), faults=faults
            )
    else:
        if not command:
            raise UsageError(
                "no command to run", remedy="latlab stubs capture -o DIR -- COMMAND, or --pid PID"
            )
        found, code = stubs.capture(
            command, output, merge_ns=round(merge * 1e3), faults=faults, linger_s=linger, aside=as_json
        )
    if as_json:
        counts = {"threads": len(found.threads), "processes": len({one.pid for one in found.threads})}
        document = {"schema": 1, "output": str(output), **counts, "total_ns": found.total_ns}
        click.echo(dumps({**document, "notes": list(found.notes), "exit_code": code}))
    click.echo(stubs_text.timeline(found), err=True)
    if code:
        click.echo(f"latlab: the command ended with exit code {code}", err=True)
    return ExitCode.FAILED if code else ExitCode.OK


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--language", type=click.Choice(["c++", "python"]), required=True, help="Language of the source."
)
@output("File to write [default: stdout].")
@JSON
def emit(folder: Path, language: str, output: Path | None, as_json: bool) -> None:
    """Write the action files of FOLDER as a program's source."""
    from latlab import stubs

    check_stdout(output, as_json)
    source = stubs.emit(stubs.load_actions(folder), language)
    put_text(source, output, as_json=as_json, language=language)
