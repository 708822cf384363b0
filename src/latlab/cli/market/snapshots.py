"""`latlab market snapshot, lobster`: books as they stood."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.files import check_stdout
from latlab.cli.market._options import (
    EVERY,
    FILE,
    JSON,
    OUTPUT,
    selecting,
    time_of,
    wrote,
)
from latlab.errors import UsageError

if TYPE_CHECKING:
    from latlab.model.market import Census


@click.command()
@FILE
@OUTPUT
@click.option("--at", help="One snapshot: HH:MM:SS[.fraction] or ns since midnight.")
@click.option("--every", type=EVERY, help="A row of each symbol at even times, such as 1s, 100ms, 5m.")
@click.option("--on-change", is_flag=True, help="A row whenever one of the best levels changes.")
@click.option(
    "--levels",
    type=click.IntRange(min=1),
    show_default="1",
    help="Number of best levels; with --at all are written.",
)
@click.option("--long", "long_", is_flag=True, help="One row per level and side instead of one per time.")
@selecting()
@JSON
def snapshot(
    file: Path | str,
    output: Path,
    at: str | None,
    every: int | None,
    on_change: bool,
    levels: int | None,
    long_: bool,
    chosen: dict[str, Any],
    as_json: bool,
) -> int:
    """Write books as they stood: every level at one time, or the best levels at even times or every change.

    Each level has its shares and its number of orders. As *.parquet, *.feather or *.csv[.gz|.zst]; '-'
    prints CSV.
    """
    from latlab.market import guard, table_kind, write_table
    from latlab.market import snapshot as take

    if (at is not None) + (every is not None) + on_change != 1:
        raise UsageError("give one of --at TIME, --every PERIOD and --on-change")
    others = {"--levels": levels, "--long": long_, "--date": chosen["day"]}
    others |= {"--from": chosen.get("from_ns"), "--to": chosen.get("to_ns")}
    for option, value in others.items():
        if at is not None and value not in (None, False):
            raise UsageError(f"--at takes no {option}: it writes every level of the books at that time")
    check_stdout(output, as_json)
    guard([file], [output])
    table_kind(output)
    census: list[Census] = []
    if at is not None:
        table = take(
            file,
            at_ns=time_of(at, "--at"),
            symbols=chosen["symbols"],
            lenient=chosen["lenient"],
            tell=census.append,
        )
        write_table(table, output)
        return wrote("levels", table.num_rows, [output], census[0], as_json)
    from latlab.market import snapshot_stream, write_tables

    tables = snapshot_stream(
        file,
        every_ns=every or 0,
        levels=levels or 1,
        long=long_,
        tell=census.append,
        **chosen,
    )
    rows = write_tables(tables, output)
    return wrote("rows", rows, [output], census[0], as_json)


@click.command()
@FILE
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The folder to write to."
)
@click.option("--symbol", required=True, help="The symbol.")
@click.option("--levels", type=click.IntRange(min=1), default=10, help="Number of best levels.")
@selecting(symbols=False)
@JSON
def lobster(
    file: Path | str,
    output: Path,
    symbol: str,
    levels: int,
    chosen: dict[str, Any],
    as_json: bool,
) -> int:
    """Write a symbol's message and orderbook files as LOBSTER has them."""
    from latlab.market import lobster as write

    census: list[Census] = []
    messages, books, lines = write(
        file,
        output,
        symbol=symbol,
        levels=levels,
        tell=census.append,
        **chosen,
    )
    return wrote("lines", lines, [messages, books], census[0], as_json)
