"""`latlab queues overhead`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from latlab.cli.kit.options import JSON, Duration, Seconds
from latlab.cli.kit.progress import teller
from latlab.errors import ExitCode
from latlab.reports.json import dumps


@click.command("overhead")
@click.option(
    "--period",
    "periods",
    type=Duration(bare=True, least=10_000),
    multiple=True,
    default=(10_000_000, 1_000_000, 100_000),
    show_default="10ms, 1ms and 100us",
    metavar="TIME",
    help="Time between two sweeps; repeatable.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=6,
              help="Number of rounds, each unobserved and at every period; an interval needs 6.")  # fmt: skip
@click.option("--seconds", type=Seconds(0.2, 600), default=2.0, help="Duration of each run.")
@click.option(
    "--layout", type=click.Path(path_type=Path), help="Layout of the pipeline, such as examples/trading.toml."
)
@click.option("--seed", type=click.IntRange(0), default=1,
              help="Seed of the generated feeds and of the order of the runs.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Folder for the figures of every run.")
@JSON
def overhead_(
    periods: tuple[int, ...],
    rounds: int,
    seconds: float,
    layout: Path | None,
    seed: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Measure what observing costs the demonstration's pipeline.

    It runs unobserved and observed at several periods, interleaved, and reports the latency of each queue,
    the loads and misses of the last-level cache, and the time to sample each queue.
    """
    from latlab.lab.trading.layout import load_layout
    from latlab.lab.trading.overhead import measure_overhead
    from latlab.model.diagnosis.layout import Layout
    from latlab.reports.queues.overhead_text import overhead_lines

    found = measure_overhead(
        load_layout(layout) if layout else Layout(),
        periods,
        rounds=rounds,
        seconds=seconds,
        seed=seed,
        output=output,
        tell=teller("queues overhead"),
    )
    print(dumps(found.to_json(), indent=2) if as_json else "\n".join(overhead_lines(found)))
    for warning in found.warnings:
        click.echo(f"latlab queues: {warning}", err=True)
    sys.exit(ExitCode.NOT_TRUSTWORTHY if found.warnings else ExitCode.OK)
