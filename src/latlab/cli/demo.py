"""`latlab demo`: run a trading pipeline, observe it from outside, name what limits it."""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import click

from latlab.cli._durations import Duration
from latlab.errors import ExitCode, MissingExtraError


@click.command()
@click.option(
    "--seconds",
    type=click.FloatRange(0.2, 3600),
    default=8.0,
    show_default=True,
    help="How long the feeds play.",
)
@click.option(
    "--input",
    "feed",
    type=click.Path(path_type=Path),
    help="An ITCH-5.0 file (.gz too) instead of generated feeds.",
)
@click.option(
    "--layout",
    "layout_file",
    type=click.Path(path_type=Path),
    help="A layout file, as examples/trading.toml.",
)
@click.option(
    "--slow", multiple=True, metavar="STAGE=NS", help="Plant service time in a stage, or one instance of it."
)
@click.option(
    "--delay",
    type=Duration(bare=True, least=0),
    metavar="TIME",
    help="Between packets of a venue, as 20us (a bare number is ns), instead of the layout's.",
)
@click.option(
    "--period",
    type=Duration(bare=True, least=10_000),
    metavar="TIME",
    help="The sampler's, as 1ms (a bare number is ns), instead of the layout's.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Of the generated feeds.")
@click.option(
    "--symbols",
    type=click.IntRange(1, 60_000),
    default=200,
    show_default=True,
    help="Of the generated feeds.",
)
@click.option("--find-rate", is_flag=True, help="Search the smallest packet delay that loses nothing.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The recording's folder [default: runs/demo-TIME].",
)
@click.option("--json", "as_json", is_flag=True, help="Print the diagnosis as JSON.")
def demo(
    seconds: float,
    feed: Path | None,
    layout_file: Path | None,
    slow: tuple[str, ...],
    delay: int | None,
    period: int | None,
    seed: int,
    symbols: int,
    find_rate: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Run a trading pipeline on market data, observe it from outside, name the limiting stage.

    Exit code 3 says that the run is not trustworthy as it stands (drops, a starved sampler, an overloaded
    machine), and the output why.
    """
    from latlab.lab.demo import DemoOptions, run_demo
    from latlab.lab.find_rate import find_rate as search
    from latlab.reports.demo_html import write_report
    from latlab.reports.demo_text import text
    from latlab.reports.text import wants_style
    from latlab.system.environment import capture

    options = DemoOptions(
        layout=_layout(layout_file, slow, delay, period),
        seconds=seconds,
        output=output or Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S"),
        input=feed,
        seed=seed,
        symbols=symbols,
    )

    def tell(line: str) -> None:
        click.echo(f"latlab demo: {line}", err=True)

    rate: dict[str, Any] | None = None
    if find_rate:
        options, rate = search(options, tell)
    run = run_demo(options, tell)
    report = options.output / "report.html"
    try:
        write_report(
            report,
            run.diagnosis,
            run.observation,
            run.residence.end_to_end,
            run.residence.waiting,
            capture(),
            shlex.join(["latlab", *sys.argv[1:]]),
            seed,
            rate,
        )
    except MissingExtraError as error:
        # The diagnosis stands without its pictures.
        tell(f"no report: {error}")
        report = options.output
    if as_json:
        document = run.diagnosis.to_json()
        if rate is not None:
            document["rate"] = rate
        click.echo(json.dumps(document, allow_nan=False))
    else:
        click.echo(text(run.diagnosis, styled=wants_style(sys.stdout)))
        if rate is not None:
            click.echo(f"\n{rate['sentence']}")
    tell(f"the report lies in {report}")
    return ExitCode.NOT_TRUSTWORTHY if run.diagnosis.distrust else ExitCode.OK


def _layout(file: Path | None, slow: tuple[str, ...], delay: int | None, period: int | None) -> Any:
    """The layout of the run: the file's, or the default, with what the options change."""
    import dataclasses

    from latlab.lab.layout import load_layout, slowed_by
    from latlab.model.layout import Layout

    layout = load_layout(file) if file is not None else Layout()
    layout = slowed_by(layout, slow)
    if delay is not None:
        layout = dataclasses.replace(layout, replay=dataclasses.replace(layout.replay, delay_ns=delay))
    if period is not None:
        layout = dataclasses.replace(layout, period_ns=period)
    return layout
