"""`latlab market delay`: by how much a feed is behind another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from latlab.cli.kit.options import ABOVE_ZERO, Seconds
from latlab.cli.market._options import JSON, LENIENT, SYMBOLS, Feed, conclude, names_of
from latlab.errors import ExitCode
from latlab.reports.json import dumps
from latlab.words import duration


@click.command()
@click.argument("a", type=Feed())
@click.argument("b", type=Feed())
@SYMBOLS
@click.option("--window", type=Seconds(), default=60.0, help="Window of an estimate, in seconds.")
@click.option("--max-delay", type=ABOVE_ZERO, default=5.0, help="Largest delay to look for, in milliseconds.")
@click.option("--resolution", type=ABOVE_ZERO, default=1.0, help="Width of a bin of lags, in microseconds.")
@click.option(
    "--follow", type=Seconds(), help="Follow growing files; end after this many seconds without new data."
)
@LENIENT
@JSON
def delay(
    a: Path | str,
    b: Path | str,
    symbols: str,
    window: float,
    max_delay: float,
    resolution: float,
    follow: float | None,
    lenient: bool,
    as_json: bool,
) -> int:
    """Measure how far feed B is behind feed A, window by window, by the moves of the inside that both have.

    The confidence is the share of estimates of such a confidence that are within 1 us of the truth. Each
    window is printed when both feeds are past it; with --json, that of two whole files is one list, and that
    of growing files or of feeds on the wire an object a line.
    """
    from dataclasses import asdict

    from latlab.market import delay_windows
    from latlab.reports.market.text import clock

    streaming = follow is not None or any(isinstance(feed, str) for feed in (a, b))
    found, census = [], list[Any]()
    empty: list[int] = []
    for one in delay_windows(
        a,
        b,
        symbols=names_of(symbols),
        window_ns=int(window * 1e9),
        max_delay_ns=int(max_delay * 1e6),
        bin_ns=int(resolution * 1e3),
        lenient=lenient,
        follow_s=follow,
        tell=census.append,
        nothing=empty.append,
    ):
        found.append(one)
        if not as_json:
            click.echo(f"{clock(one.at_ns)}  {duration(one.delay_ns):>12}  confidence {one.confidence:.2f}")
        elif streaming:
            click.echo(dumps(asdict(one)))
    if as_json and not streaming:
        click.echo(dumps([asdict(one) for one in found]))
    if not found:
        click.echo("latlab: no window has enough moves that both feeds share", err=True)
    elif len(empty) > len(found):
        click.echo(
            f"latlab: warning: {len(empty):,} of {len(empty) + len(found):,} windows have too few moves that "
            "both feeds share; a longer --window has more",
            err=True,
        )
    # Damage of either feed, and what neither has.
    return max([ExitCode.OK if found else ExitCode.NOT_TRUSTWORTHY, *map(conclude, census)])
