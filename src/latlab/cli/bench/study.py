"""`latlab bench study`."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import click

from latlab.cli.bench.options import check_outputs, measuring, parameters_of, recorder_of, settings_of
from latlab.cli.kit.options import Words
from latlab.reports.json import document as json_of


def _factors() -> tuple[str, ...]:
    from latlab.bench import FACTORS

    return FACTORS


@click.command()
@click.argument("fixture")
@click.option("--blocks", type=click.IntRange(min=1), default=5, help="Number of runs of each combination.")
@click.option(
    "--factors", type=Words(_factors, "factor"), help="Factors to vary, separated by commas [default: all]."
)
@measuring
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write table and boxplots as a page."
)
def study(fixture: str, blocks: int, factors: tuple[str, ...] | None, **options: Any) -> None:
    """Find the conditions of least scatter: scheduling, governor, real-time limit, fair server, load,
    input."""
    from latlab import bench
    from latlab.reports.bench import text as bench_text
    from latlab.system.environment import capture

    varied = factors or bench.FACTORS
    target = bench.settle(bench.parse(fixture, parameters_of(options)), timeout_s=options["timeout"])
    check_outputs(options)
    settings = dataclasses.replace(
        settings_of(options), fitting=False, iterations=options["iterations"] or 100
    )
    environment = capture()
    asked = {"fixture": fixture, "blocks": blocks, "factors": varied, "seed": options["seed"]}
    meta: dict[str, Any] = {"kind": "bench-study", "asked": asked}
    with contextlib.ExitStack() as stack:
        recorder = recorder_of(stack, options["output"], meta, environment, options["seed"])
        found = bench.study(target, settings, recorder, blocks=blocks, seed=options["seed"], factors=varied)
        if recorder.writer is not None:
            recorder.writer.put("result", {"schema": 1, **found})
    facts = {**meta, "environment": environment.to_json()}
    if options["raw"]:
        bench.write_raw(options["raw"], facts, recorder.rows)
    if options["html"]:
        import numpy as np

        from latlab.reports.bench.html import study_page

        raw = bench.Raw(facts, recorder.rows)
        names = [",".join(f"{k}={v}" for k, v in row["levels"].items()) for row in found["combinations"]]
        times = {name: np.concatenate([s.times_ns for s in raw.samples(name)]) for name in names}
        study_page(found, times, facts).write(options["html"])
    click.echo(json_of(found) if options["as_json"] else bench_text.study_text(found))
    for factor, why in found["unavailable"].items():
        click.echo(f"latlab: {factor}: unavailable: {why}", err=True)
    for factor, seen in found["probes"].items():
        if seen["effective"] is False:
            click.echo(f"latlab: {factor}: {seen['why']}", err=True)
