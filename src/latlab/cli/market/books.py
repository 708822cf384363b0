"""`latlab market census, inside, depth`: what a feed holds, and the inside of its books."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from latlab.cli.kit.progress import say
from latlab.cli.market._options import (
    BOOK,
    CAPACITY,
    FILE,
    JOBS,
    JSON,
    LENIENT,
    OUTPUT,
    conclude,
    selecting,
)
from latlab.errors import ExitCode
from latlab.reports.json import dumps


@click.command()
@FILE
@JSON
@LENIENT
@JOBS
def census(file: Path | str, as_json: bool, lenient: bool, jobs: int) -> int:
    """Count the messages of FILE by type, and list its errors with their offsets."""
    from latlab.market import census as count

    found = count(file, lenient=lenient, jobs=jobs)
    if as_json:
        click.echo(dumps(found.document()))
    else:
        from latlab.reports.market.text import census_text

        click.echo(census_text(found))
    if found.errors and not lenient:
        first = found.errors[0]
        click.echo(
            f"latlab: {file}: offset {first.offset}: {first.what}; --lenient skips what is damaged", err=True
        )
        return ExitCode.FAILED
    return conclude(found)


@click.command()
@FILE
@OUTPUT
@BOOK
@CAPACITY
@click.option("--levels", type=click.IntRange(min=1), default=1, help="Number of best levels.")
@selecting()
@click.option("--resume", is_flag=True, help="Continue after the last row that an interrupted run wrote.")
@JOBS
@JSON
def inside(
    file: Path | str,
    output: Path,
    book: str,
    capacity: int,
    levels: int,
    chosen: dict[str, Any],
    resume: bool,
    jobs: int,
    as_json: bool,
) -> int:
    """Write every true change of the inside: ts_ns locate symbol bid_px bid_qty offer_px offer_qty.

    Text (*.txt, *.gz, *.zst, - for stdout), or a table (*.parquet, *.feather, *.csv); prices are in 1/10,000,
    an empty side is 0 0. OUT takes its name when it is whole; what came before an error is in OUT.part.
    """
    from latlab.market import inside as write

    done = write(
        file,
        output,
        book=book,
        capacity=capacity,
        levels=levels,
        resume=resume,
        jobs=jobs,
        **chosen,
    )
    status = conclude(done.census)
    if as_json:
        document: dict[str, Any] = {"schema": 1, "changes": done.rows, "messages": done.census.messages}
        document |= {"anomalies": done.census.anomalies, "array": done.side_counts}
        click.echo(dumps(document))
    say(f"latlab: wrote {done.rows:,} changes of {done.census.messages:,} messages to {output}")
    return status


@click.command()
@FILE
@BOOK
@CAPACITY
@selecting(day=False)
@JOBS
@JSON
def depth(
    file: Path | str,
    book: str,
    capacity: int,
    chosen: dict[str, Any],
    jobs: int,
    as_json: bool,
) -> int:
    """Count how far from the inside the book events of FILE are, and how many levels the books have."""
    from latlab.market import depth as measure

    found = measure(
        file,
        book=book,
        capacity=capacity,
        jobs=jobs,
        **chosen,
    )
    status = conclude(found.census)
    if as_json:
        click.echo(dumps(found.document()))
    else:
        from latlab.reports.market.text import depth_text

        click.echo(depth_text(found))
    return status
