"""`latlab stubs calibrate`."""

from __future__ import annotations

import json

import click

from latlab.errors import ExitCode


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option("--kind", "kinds", multiple=True, help="Only this kind of stub (repeatable).")
@click.option(
    "--time", "times_us", multiple=True, type=float, help="Only this many microseconds (repeatable)."
)
@click.option("--tolerance", default=0.01, show_default=True, help="Median error that still counts as held.")
@click.option("--seconds", default=0.1, show_default=True, help="Time for one kind, length and condition.")
def calibrate(
    as_json: bool, kinds: tuple[str, ...], times_us: tuple[float, ...], tolerance: float, seconds: float
) -> int:
    """Measure every kind of stub, idle and beside a competitor on the same core.

    Exit code 3 where a kind or time that was asked for by name isn't held.
    """
    from latlab import stubs
    from latlab.reports import stubs_text
    from latlab.stubs import _calibrate

    result = stubs.calibrate(
        kinds=kinds or _calibrate.KINDS,
        lengths_ns=[round(time * 1e3) for time in times_us] or _calibrate.LENGTHS_NS,
        tolerance=tolerance,
        seconds=seconds,
    )
    click.echo(json.dumps(result.as_json()) if as_json else stubs_text.calibration(result))
    return ExitCode.NOT_TRUSTWORTHY if (kinds or times_us) and result.refused else ExitCode.OK
