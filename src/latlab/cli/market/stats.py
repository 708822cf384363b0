"""`latlab market stats`: statistics per symbol."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from latlab.cli.kit.options import renamed
from latlab.cli.kit.progress import say
from latlab.cli.market._options import JSON, LENIENT, conclude
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import dumps

if TYPE_CHECKING:
    from latlab.model.market import Census


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the table here, as CSV.")
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write plots and fits here.")
@click.option(
    "--over",
    default="inside",
    type=click.Choice(["inside", "messages"]),
    help="Events to count: changes of the inside, or messages.",
)
@renamed(
    "--dask",
    "--scheduler",
    metavar="ADDRESS",
    help="FILE is a folder: its files over Dask, at ADDRESS or 'local'.",
)
@LENIENT
@JSON
def stats(
    file: Path,
    output: Path | None,
    page: Path | None,
    over: str,
    dask: str | None,
    lenient: bool,
    as_json: bool,
) -> int:
    """Statistics per symbol as CSV: counts, rates, inter-arrival and processing times.

    FILE may be a folder of days: their histograms are merged, and OUT.parts keeps each day's to resume. With
    --html alone it may also be a table that was written before (*.csv, *.csv.gz).
    """
    from latlab.market import guard, stats_archive, write_stats
    from latlab.market import stats as measure

    if output is None and page is None:
        raise UsageError("say where the result goes: -o OUT.csv, --html OUT.html, or both")
    table = file.name.endswith((".csv", ".csv.gz"))
    if output is None and not table:
        raise UsageError("--html needs -o OUT.csv too, or a table of statistics as FILE")
    if dask is not None and not file.is_dir():
        raise UsageError("--dask is for a folder of files")
    days = sorted(path for path in file.iterdir() if path.is_file()) if file.is_dir() else [file]
    guard(days, [output, page])
    guard(days, ["-"])
    status = ExitCode.OK
    if output is not None:
        if file.is_dir():
            parts = output.with_name(output.name + ".parts")
            tell = lambda name: say(f"latlab: {name} done")  # noqa: E731
            censuses: dict[Path, Census] = {}
            found = stats_archive(
                file,
                parts,
                over=over,
                lenient=lenient,
                scheduler=dask,
                notice=tell,
                tell=censuses.__setitem__,
            )
            status = max(conclude(census, of=day) for day, census in censuses.items())
        else:
            found, census = measure(file, over=over, lenient=lenient)
            status = conclude(census)
        write_stats(found, output)
        say(f"latlab: wrote {len(found) - 1:,} symbols and the aggregate to {output}")
    if str(output) == "-" and (page is not None or as_json):
        raise UsageError("-o - prints the table: give it a name for --html or --json")
    if page is not None:
        _statistics_page(file, output or file, page, lenient)
    if as_json:
        from latlab.market import read_statistics, without_aggregate

        written = {"output": output and str(output), "html": page and str(page)}
        symbols = len(without_aggregate(read_statistics(output or file)).names)
        click.echo(dumps({"schema": 1, **written, "symbols": symbols}))
    return status


def _statistics_page(file: Path, table: Path, page: Path, lenient: bool) -> None:
    from latlab.market import fit_counts, microbursts, read_statistics, without_aggregate
    from latlab.reports.market.html import statistics_page
    from latlab.system.environment import capture

    symbols = without_aggregate(read_statistics(table))
    try:
        fit = fit_counts(symbols)
    except UsageError as error:
        click.echo(f"latlab: warning: no law is fitted: {error}", err=True)
        fit = None
    bursts = microbursts(file, lenient=lenient) if file != table and not file.is_dir() else None
    drawn = statistics_page(f"Statistics of {file.name}", symbols, fit, bursts)
    drawn.reproduce(shlex.join(["latlab", "market", "stats", str(file), "--html", str(page)]), capture())
    drawn.write(page)
    say(f"latlab: wrote {page}")
