"""`latlab queues model` and `latlab queues simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from latlab.cli.kit.files import check_stdout, put_text
from latlab.cli.kit.options import JSON, output, renamed
from latlab.cli.queues._exclude import on_run, tell_unknown
from latlab.errors import UsageError
from latlab.reports.json import dumps


@on_run("model")
@output("TOML file to write [default: stdout].")
@JSON
def model_(run: Path, exclude: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Fit a queueing model to RUN: arrivals, service times and routes, as TOML."""
    from latlab.formats.queue_model import model_text
    from latlab.queues import fit_model, load

    check_stdout(output, as_json)
    observation = load(run)
    tell_unknown([observation], exclude)
    model = fit_model(observation, exclude=exclude)
    counts = {name: len(getattr(model, name)) for name in ("sources", "stages", "queues")}
    put_text(model_text(model), output, as_json=as_json, **counts)


@click.command("simulate")
@click.argument("model", type=click.Path(path_type=Path))
@renamed(
    "--faster",
    "--speed",
    "speeds",
    multiple=True,
    metavar="STAGE=FACTOR",
    help="Make a stage faster, such as book=2.",
)
@click.option(
    "--service", "services", multiple=True, metavar="STAGE=TIME", help="Set a service time, such as 12us."
)
@click.option("--workers", multiple=True, metavar="STAGE=N", help="Set the number of workers.")
@click.option(
    "--capacity", "capacities", multiple=True, metavar="QUEUE=N", help="Set the capacity; 0 for none."
)
@click.option(
    "--events", type=click.IntRange(min=100), default=20_000, show_default=False,
    help="Number of events to simulate [default: 20,000].",
)  # fmt: skip
@click.option("--seed", type=int, default=1, help="Seed of the simulation.")
@JSON
def simulate_(
    model: Path,
    speeds: tuple[str, ...],
    services: tuple[str, ...],
    workers: tuple[str, ...],
    capacities: tuple[str, ...],
    events: int,
    seed: int,
    as_json: bool,
) -> None:
    """Forecast throughput and waiting times from MODEL (of 'latlab queues model'), as it is or changed.

    STAGE is a stage, or a type of stages: all of them.
    """
    from latlab.cli.kit.options import DURATION_NS
    from latlab.formats.queue_model import read_model
    from latlab.queues import forecast
    from latlab.reports.queues.text import forecast_lines

    changed = original = read_model(model)
    for name, value in map(_pair, speeds):
        changed = changed.with_stage(name, speed=_number(name, value, float))
    for name, value in map(_pair, services):
        changed = changed.with_stage(name, service_ns=float(DURATION_NS.convert(value, None, None)))
    for name, value in map(_pair, workers):
        changed = changed.with_stage(name, workers=_number(name, value, int))
    for name, value in map(_pair, capacities):
        changed = changed.with_capacity(name, _number(name, value, int))
    found = forecast(changed, events=events, seed=seed)
    if as_json:
        print(dumps(found.to_json(), indent=2))
        return
    before = None if changed == original else forecast(original, events=events, seed=seed)
    print("\n".join(forecast_lines(found, before)))


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.rpartition("=")
    if not sign or not name or not value:
        raise UsageError(f"'{text}' is not NAME=VALUE")
    return name, value


def _number(name: str, text: str, kind: type) -> Any:
    try:
        value = kind(text)
    except ValueError:
        raise UsageError(f"{name}: '{text}' is not a {'whole ' if kind is int else ''}number") from None
    if not 0 <= value < 1e9:
        raise UsageError(f"{name}: {text} is out of range")
    return value
