"""`latlab market`: market data to the inside, the statistics, and the delay between two feeds."""

from __future__ import annotations

from pathlib import Path

import click

from latlab.errors import ExitCode


@click.group()
def market() -> None:
    """Market data: ITCH and PITCH to the inside, statistics, delays."""


@market.command()
@click.option("--seed", default=1, show_default=True, help="Of the generator.")
@click.option("--messages", default=1_000_000, show_default=True, help="Exactly so many.")
@click.option("--symbols", default=500, show_default=True, help="At most so many.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="Compressed if *.gz or *.zst."
)
def generate(seed: int, messages: int, symbols: int, output: Path) -> int:
    """Write a deterministic ITCH-5.0 day with the character of the real feed."""
    from latlab.market import generate as write

    size = write(output, seed=seed, messages=messages, symbols=symbols)
    click.echo(f"latlab: wrote {messages:,} messages ({size:,} bytes) to {output}", err=True)
    return ExitCode.OK
