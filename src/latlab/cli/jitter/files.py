"""`latlab jitter` on what was measured before: periods, compare, merge; and study.

Which measures many times.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab import words
from latlab.cli.kit.files import writing
from latlab.cli.kit.options import CPUS, JSON, Seconds
from latlab.cli.kit.progress import teller
from latlab.errors import ExitCode, UsageError
from latlab.words import duration

if TYPE_CHECKING:
    from latlab.reports.html import Page


def print_json(document: dict[str, Any], *, one_line: bool = False) -> None:
    """A document on stdout."""
    from latlab.formats.documents import dumps

    click.echo(dumps(document, indent=None if one_line else 2))


def command_line() -> str:
    """How to make this run again."""
    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])


def write_page(page: Page, path: str) -> None:
    """Write a report, or say in one line why not.

    Raises:
        UsageError: it can't be written.
    """
    with writing(path):
        page.write(path)


_COARSE_NS = 1e5  # a clock's step that may be taken for a beat


@click.command()
@click.argument("file", type=click.Path())
@JSON
def periods(file: str, as_json: bool) -> int:
    """Find periods in an outlier FILE (x,y on each line: ms since the start, µs)."""
    from dataclasses import replace

    from latlab.jitter import clock_step, find_periods, name_period, read_outliers

    times, lengths = read_outliers(file)
    found = [
        replace(one, cause=name_period(one.period_ns)) for one in find_periods(times, lengths_ns=lengths)
    ]
    if as_json:
        print_json(
            {"schema": 1, "outliers": len(times), "periods": [one.to_json() for one in found], "warnings": []}
        )
    elif found:
        for one in found:
            click.echo(f"{one.cause} (phase {duration(one.phase_ns)}, p {one.p_value:.1g})")
    else:
        click.echo(
            f"no period in {len(times)} outliers (the longest took {duration(max(lengths, default=0))})"
        )
        if (step := clock_step(times)) >= _COARSE_NS:
            click.echo(
                f"Every time is a multiple of {duration(step)}: the step of the clock that stamped them, or a"
                " beat of which a part came. Times to the nanosecond would tell."
            )
    return ExitCode.OK


@click.command()
@click.argument("before", type=click.Path())
@click.argument("after", type=click.Path())
@click.option("--seed", type=int, default=1, help="Seed of the resampling.")
@JSON
def compare(before: str, after: str, seed: int, as_json: bool) -> int:
    """Compare two recorded runs; exit code 4 when something got worse."""
    from latlab.jitter import compare_runs
    from latlab.reports.jitter.text import comparison

    found = compare_runs(before, after, seed=seed)
    for line in found.unlike:
        click.echo(f"latlab jitter compare: the environments differ: {line}", err=True)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(comparison(found), nl=False)
    return ExitCode.REGRESSION if found.regressed else ExitCode.OK


@click.command()
@click.argument("runs", type=click.Path(), nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(), help="Record the merged run in this folder.")
@JSON
def merge(runs: tuple[str, ...], output: str | None, as_json: bool) -> int:
    """Merge recorded RUNS, of one host or many, into one; no count and no gap is lost."""
    from latlab.jitter import merge_runs, record_run
    from latlab.reports.jitter.text import summary

    result = merge_runs(runs)
    if output:
        from latlab.formats.recording import RecordingWriter
        from latlab.system.environment import capture

        with RecordingWriter(
            output, "jitter", parameters={"merged": list(runs)}, environment=capture()
        ) as writer:
            record_run(writer, result)
    if as_json:
        print_json(result.to_json())
    else:
        click.echo(summary(result), nl=False)
    return ExitCode.OK


@click.command()
@click.option("--cpus", type=CPUS, help="Cores, as 0-3,7; all allowed ones by default.")
@click.option("-r", "--seconds", type=Seconds(), default=0.5, help="Duration of a run.")
@click.option("--rounds", type=click.IntRange(1), default=3, help="Number of runs of each condition.")
@click.option("--seed", type=int, default=1, help="Seed of the order.")
@click.option("--html", type=click.Path(), help="Write a page with the plots.")
@JSON
def study(
    cpus: tuple[int, ...] | None, seconds: float, rounds: int, seed: int, html: str | None, as_json: bool
) -> int:
    """Repeat a measurement under many conditions, in random order."""
    from latlab.jitter import allowed_cpus, run_study
    from latlab.reports.jitter.text import study_table

    if not seconds > 0:
        raise UsageError(f"a run of {words.seconds(seconds)} measures nothing", remedy="give -r more than 0")
    chosen = allowed_cpus() if cpus is None else list(cpus)
    found = run_study(
        chosen,
        seconds,
        rounds=rounds,
        seed=seed,
        progress=teller("jitter study"),
    )
    if as_json:
        print_json(found.to_json())
    else:
        click.echo(study_table(found), nl=False)
    if html:
        from latlab.reports.jitter.html import study_report
        from latlab.system.environment import capture

        write_page(study_report(found, capture(), command_line()), html)
    return ExitCode.OK
