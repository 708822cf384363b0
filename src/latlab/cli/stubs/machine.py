"""`latlab stubs calibrate` and `load`."""

from __future__ import annotations

from pathlib import Path

import click

from latlab.cli.kit.offered import offered
from latlab.cli.kit.options import ABOVE_ZERO, CPUS, JSON, JSON_ASIDE, Seconds, renamed
from latlab.cli.kit.progress import say
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import document, dumps
from latlab.words import duration, number, rate


def _kinds() -> tuple[str, ...]:
    from latlab.stubs.loads.calibrate import KINDS

    return KINDS


@click.command()
@JSON
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    shell_complete=offered(_kinds),
    help="Only this kind of stub (repeatable).",
)
@click.option(
    "--time",
    "times_us",
    multiple=True,
    type=ABOVE_ZERO,
    help="Duration of a stub in microseconds (repeatable).",
)
@click.option("--tolerance", type=ABOVE_ZERO, default=0.01, help="Median error that still counts as held.")
@click.option("--seconds", type=Seconds(), default=0.1, help="Time to measure each stub.")
def calibrate(
    as_json: bool, kinds: tuple[str, ...], times_us: tuple[float, ...], tolerance: float, seconds: float
) -> int:
    """Measure every kind of stub, idle and beside a competitor on the same core.

    Exit code 3 where a kind or time that was asked for by name isn't held.
    """
    from latlab import stubs
    from latlab.reports.stubs import text as stubs_text
    from latlab.stubs.loads import calibrate as _calibrate

    result = stubs.calibrate(
        kinds=kinds or _calibrate.KINDS,
        lengths_ns=[round(time * 1e3) for time in times_us] or _calibrate.LENGTHS_NS,
        tolerance=tolerance,
        seconds=seconds,
    )
    click.echo(dumps(result.as_json()) if as_json else stubs_text.calibration(result))
    return ExitCode.NOT_TRUSTWORTHY if (kinds or times_us) and result.refused else ExitCode.OK


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--cores", type=click.IntRange(min=1), help="Number of CPUs to keep busy.")
@click.option("--cpus", type=CPUS, help="Keep these CPUs busy: 0,3-5.")
@click.option(
    "--duty", type=click.FloatRange(0, 1, min_open=True), default=1.0, help="Busy share of each 10 ms."
)
@renamed(
    "--memory-rate",
    "--memory",
    "memory",
    type=float,
    help="GB a second read and written, beyond the caches; 0 for as much as possible.",
)
@click.option(
    "--disk", type=float, help="MB a second written and synced, in --disk-folder; 0 for as much as possible."
)
@click.option(
    "--disk-folder", type=click.Path(path_type=Path, exists=True, file_okay=False), default=Path(),
    show_default=False, help="Folder for --disk [default: the current folder].",
)  # fmt: skip
@JSON_ASIDE
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True)
def load(
    cores: int | None, cpus: tuple[int, ...] | None, duty: float, memory: float | None, disk: float | None,
    disk_folder: Path, as_json: bool, command: tuple[str, ...],
) -> int:  # fmt: skip
    """Run COMMAND while the whole system is loaded, and report the load that was reached.

    Exit code 1 where the command fails.
    """
    import subprocess
    import time

    from latlab import stubs
    from latlab.stubs.studies import runner as _lab

    if cpus is None and cores is None and memory is None and disk is None:
        raise UsageError("there is nothing to load", remedy="give --cores, --cpus, --memory-rate or --disk")
    if cpus is not None and cores is not None:
        raise UsageError("give --cores or --cpus, not both")
    _lab.check_command(list(command))
    chosen: int | list[int] = list(cpus) if cpus is not None else cores or 0
    begin = time.monotonic_ns()
    with stubs.load(
        cpus=chosen, duty=duty, memory=None if memory is None else memory * 1e9,
        disk=None if disk is None else disk_folder, disk_bytes_per_s=(disk or 0.0) * 1e6,
    ) as achieved:  # fmt: skip
        # 2: with --json stdout is the document's.
        code = subprocess.run(command, check=False, stdout=2 if as_json else None).returncode
        lasted = time.monotonic_ns() - begin
        busy = achieved.busy_ns / lasted if chosen else None
        memory_hz = achieved.memory_bytes / lasted * 1e9 if memory is not None else None
        disk_hz = achieved.disk_bytes / lasted * 1e9 if disk is not None else None
    said = [f"{number(busy)} CPUs busy"] if busy is not None else []
    said += [f"{rate(memory_hz, 'B')} of memory"] if memory_hz is not None else []
    said += [f"{rate(disk_hz, 'B')} of disk"] if disk_hz is not None else []
    say(f"latlab: for {duration(lasted)}: {', '.join(said)}")
    if as_json:
        reached = {"busy_cpus": busy, "memory_bytes_per_s": memory_hz, "disk_bytes_per_s": disk_hz}
        click.echo(document({"ns": lasted, **reached, "exit_code": code}))
    if code:
        click.echo(f"latlab: the command ended with exit code {code}", err=True)
    return ExitCode.FAILED if code else ExitCode.OK
