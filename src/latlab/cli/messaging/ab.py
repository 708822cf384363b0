"""`latlab messaging ab, report`: several workloads, several recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from latlab.cli.kit.options import JSON, Seconds, Share
from latlab.cli.kit.progress import say
from latlab.errors import ExitCode, unwritten
from latlab.reports.json import dumps
from latlab.words import seconds

_CODES = {
    "slower": ExitCode.REGRESSION,
    "mixed": ExitCode.REGRESSION,
    "inconclusive": ExitCode.NOT_TRUSTWORTHY,
    "refused": ExitCode.NOT_TRUSTWORTHY,
}


@click.command("ab")
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("--effect", type=Share(), default="5%", help="Smallest change that matters, as 5%.")
@click.option("--alpha", type=click.FloatRange(1e-9, 0.5), default=0.02, help="Level.")
@click.option(
    "--seconds", type=Seconds(), default=120.0, help="Time budget; a pair that has begun is finished."
)
@click.option("--pairs", type=click.IntRange(min=2), default=1000, help="Largest number of pairs.")
@click.option("--seed", type=click.IntRange(min=0), default=1, help="Seed of the order.")
@click.option("--duration", type=Seconds(), help="Duration of each run, whatever the files say.")
@click.option("--no-control", is_flag=True, help="Skip the null control, which measures A against itself.")
@JSON
def ab_command(a: str, b: str, as_json: bool, **options: Any) -> int:
    """Compare workloads A and B by interleaved runs of two workload files (TOML).

    Exit code 4: slower; 3: not decided.
    """
    from latlab.messaging import compare_pairs, load_workload
    from latlab.reports.messaging.pairs import comparison_json, render_comparison

    sides = [load_workload(path, duration=options["duration"]) for path in (a, b)]

    seen = 0

    def told(pairs: int, left_s: float) -> None:
        nonlocal seen
        if pairs > seen:
            seen = pairs
            say(f"latlab messaging: {pairs} pairs; at most {seconds(round(max(0.0, left_s)))} left")

    found = compare_pairs(
        *sides,
        smallest_effect=options["effect"],
        alpha=options["alpha"],
        seconds=options["seconds"],
        pairs=options["pairs"],
        seed=options["seed"],
        control=not options["no_control"],
        told=told,
    )
    if as_json:
        workloads = {"a": {"file": a, **sides[0].to_json()}, "b": {"file": b, **sides[1].to_json()}}
        click.echo(dumps({"schema": 1, **comparison_json(found), "workloads": workloads}))
    else:
        click.echo(render_comparison(found, a, b))
    return _CODES.get(found.verdict, ExitCode.OK)


@click.command("report")
@click.argument("recordings", type=click.Path(), nargs=-1, required=True)
@click.option("-o", "--output", type=click.Path(), required=True, help="The folder to write to.")
@JSON
def report_command(recordings: tuple[str, ...], output: str, as_json: bool) -> int:
    """Put recordings side by side: latency by nines and against load, throughput and CPU against size.

    What differs in more than that one setting, or is from another machine, is a curve of its own.
    """
    from latlab.formats.recording import open_recording
    from latlab.messaging import analyse, load_run
    from latlab.reports.messaging.systems import Kept, systems_json, write_systems

    kept = []
    for path in recordings:
        measurement = load_run(path)
        name = Path(path).name if len({Path(p).name for p in recordings}) == len(recordings) else path
        kept.append(Kept.of(name, open_recording(path), measurement, analyse(measurement)))
    try:
        written = [str(path) for path in write_systems(Path(output), kept)]
    except OSError as error:
        raise unwritten(output, error) from None
    document = {"schema": 1, "written": written, **systems_json(kept)}
    # Outside of the try: a full output is not an error of the folder.
    click.echo(dumps(document) if as_json else "\n".join(written))
    return ExitCode.OK
