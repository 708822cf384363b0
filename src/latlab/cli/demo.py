"""`latlab demo`: run a trading pipeline, observe it from outside, name what limits it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from latlab.cli.kit.options import Duration, Seconds
from latlab.cli.kit.pipeline_options import feed_and_output, finish, folder_of, saying_what_stays
from latlab.cli.kit.progress import clock, teller

_AROUND_S = 3.0  # for feeds that are generated before, and the diagnosis after


@click.command()
@click.option("--seconds", type=Seconds(0.2, 3600), default=8.0, help="Duration of the feeds.")
@feed_and_output(
    "demo", "Plant service time in a stage, or one instance of it: book=30us (a bare number is ns)."
)
@click.option(
    "--layout",
    "layout_file",
    type=click.Path(path_type=Path),
    help="Layout file, such as examples/trading.toml.",
)
@click.option(
    "--delay",
    type=Duration(bare=True, least=0),
    metavar="TIME",
    help="Time between packets of a venue, such as 20us (a bare number is ns) [default: the layout's].",
)
@click.option(
    "--period",
    type=Duration(bare=True, least=10_000),
    metavar="TIME",
    help="Period of the sampler, such as 1ms (a bare number is ns) [default: the layout's].",
)
@click.option("--seed", type=click.IntRange(0), default=1, help="Seed of the generated feeds.")
@click.option(
    "--symbols", type=click.IntRange(1, 60_000), default=200, help="Symbols of the generated feeds."
)
@click.option("--scheduler", is_flag=True,
              help="Record the threads' scheduler events, too, for 'latlab queues tail'.")  # fmt: skip
@click.option("--find-rate", is_flag=True, help="Search for the smallest packet delay that loses nothing.")
def demo(
    seconds: float,
    feed: Path | None,
    layout_file: Path | None,
    slow: tuple[str, ...],
    delay: int | None,
    period: int | None,
    seed: int,
    symbols: int,
    scheduler: bool,
    find_rate: bool,
    output: Path | None,
    as_json: bool,
) -> int:
    """Run a trading pipeline on market data, observe it from outside, name the limiting stage.

    Exit code 3 says that the run is not trustworthy as it stands (drops, a starved sampler, an overloaded
    machine), and the output why.
    """
    from latlab.lab.trading.demo import DemoOptions, run_demo
    from latlab.lab.trading.find_rate import find_rate as search
    from latlab.model.diagnosis.pipeline import run_json
    from latlab.reports.diagnosis.demo_html import write_report
    from latlab.reports.diagnosis.demo_text import text
    from latlab.system.environment import capture
    from latlab.words import wants_style

    options = DemoOptions(
        layout=_layout(layout_file, slow, delay, period),
        seconds=seconds,
        output=folder_of("demo", output),
        input=feed,
        seed=seed,
        symbols=symbols,
        scheduler=scheduler,
    )
    tell = teller("demo")
    rate: dict[str, Any] | None = None
    if find_rate:
        options, rate = search(options, tell)
    with saying_what_stays(options.output, tell), clock("demo", seconds + _AROUND_S):
        run = run_demo(options, tell)
    found = run.watched.diagnosis

    def write(report: Path, command: str) -> None:
        times = run.watched.residence
        write_report(
            report,
            found,
            run.watched.observation,
            times.end_to_end,
            times.waiting,
            capture(),
            command,
            seed,
            rate,
        )

    def words() -> str:
        said = text(found, styled=wants_style(sys.stdout))
        return said if rate is None else f"{said}\n\n{rate['sentence']}"

    document = {**run_json(found), **({} if rate is None else {"rate": rate})} if as_json else None
    return finish(options.output, write, document, words, bool(found.reasons), tell)


def _layout(file: Path | None, slow: tuple[str, ...], delay: int | None, period: int | None) -> Any:
    """The layout of the run: the file's, or the default, with what the options change."""
    import dataclasses

    from latlab.lab.trading.layout import load_layout, slowed_by
    from latlab.model.diagnosis.layout import Layout

    layout = load_layout(file) if file is not None else Layout()
    layout = slowed_by(layout, slow)
    if delay is not None:
        layout = dataclasses.replace(layout, replay=dataclasses.replace(layout.replay, delay_ns=delay))
    if period is not None:
        layout = dataclasses.replace(layout, period_ns=period)
    return layout
