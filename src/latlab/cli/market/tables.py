"""`latlab market decode, trades, bars`: messages and trades as tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.files import check_stdout
from latlab.cli.market._options import (
    EVERY,
    FILE,
    JSON,
    LENIENT,
    OUTPUT,
    selecting,
    wrote,
)

if TYPE_CHECKING:
    from latlab.model.market import Census


@click.command()
@FILE
@OUTPUT
@click.option(
    "--per",
    default="type",
    type=click.Choice(["type", "event"]),
    help="One table per message type, or one of book events.",
)
@LENIENT
@click.option("--resume", is_flag=True, help="Continue after the parts that a killed run wrote.")
@JSON
def decode(file: Path | str, output: Path, per: str, lenient: bool, resume: bool, as_json: bool) -> int:
    """Write every field of every message as Parquet: a folder with a table a type, or one of book events."""
    from latlab.market import decode as write

    census: list[Census] = []
    rows = write(file, output, per=per, lenient=lenient, resume=resume, tell=census.append)
    of = f"rows of {len(rows)} tables"
    return wrote("rows", sum(rows.values()), [output], census[0], as_json, of, books=False)


@click.command()
@FILE
@OUTPUT
@selecting()
@JSON
def trades(file: Path | str, output: Path, chosen: dict[str, Any], as_json: bool) -> int:
    """Write every trade of FILE, with its aggressor's side, and whether it was broken later.

    As *.parquet, *.feather or *.csv[.gz|.zst]; '-' prints CSV. Crosses without shares are left out.
    """
    from latlab.market import trades as collect

    return _keep("trades", collect, file, output, as_json, chosen)


@click.command()
@FILE
@OUTPUT
@click.option("--every", type=EVERY, help="Bars by time, such as 1s, 1m.")
@click.option("--volume", type=click.IntRange(1), help="Bars by volume: shares of each.")
@click.option("--ticks", type=click.IntRange(1), help="Bars by trades: trades of each.")
@selecting()
@JSON
def bars(
    file: Path | str,
    output: Path,
    every: int | None,
    volume: int | None,
    ticks: int | None,
    chosen: dict[str, Any],
    as_json: bool,
) -> int:
    """Write bars of FILE's trades: open, high, low, close, volume, VWAP and imbalance of aggressors.

    Trades that are not printable, or broken later, are left out. As *.parquet, *.feather or *.csv[.gz|.zst].
    """
    from latlab.market import bars as make

    by = {"every_ns": every or 0, "volume": volume or 0, "ticks": ticks or 0}
    return _keep("bars", make, file, output, as_json, chosen | by)


def _keep(
    what: str,
    make: Callable[..., Any],
    file: Path | str,
    output: Path,
    as_json: bool,
    options: dict[str, Any],
) -> int:
    """Make a table of the feed, write it, and say how long it is."""
    from latlab.market import guard, table_kind, write_table

    check_stdout(output, as_json)
    guard([file], [output])
    table_kind(output)
    census: list[Census] = []
    table = make(file, tell=census.append, **options)
    write_table(table, output)
    return wrote(what, table.num_rows, [output], census[0], as_json)
