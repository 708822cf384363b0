"""`latlab queues tail`."""

from __future__ import annotations

from pathlib import Path

import click

from latlab.cli.kit.options import JSON
from latlab.reports.json import dumps


@click.command("tail")
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--quantile", type=click.FloatRange(0, 1), default=0.999, help="Percentile beyond which events are shown."
)
@click.option("--most", type=click.IntRange(min=1), default=10, help="Number of events to show.")
@JSON
def tail_(run: Path, quantile: float, most: int, as_json: bool) -> None:
    """Show the slowest traced events of RUN: where each waited, and what stood in front of it."""
    from latlab.errors import InputError
    from latlab.formats.recording import open_recording
    from latlab.queues import load, tail
    from latlab.reports.queues.text import tail_lines

    recording = open_recording(run)
    if "traces" not in recording.names():
        raise InputError(run, "holds no event traces", remedy="trace events while they are recorded")
    table = recording.series("traces")
    names = ("event", "push_ns", "pop_ns", "queue", "stage", "end")
    missing = [name for name in names if name not in table]
    if missing:
        raise InputError(recording.path / "traces.arrows", f"has no column '{missing[0]}'")
    columns = {name: table[name] for name in names}
    found = tail(load(run), columns, share=quantile, most=most)
    print(dumps(found.to_json(), indent=2) if as_json else "\n".join(tail_lines(found)))
