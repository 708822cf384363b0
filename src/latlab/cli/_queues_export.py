"""`latlab queues export`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from latlab.errors import UsageError

FORMATS = ("csv", "gnuplot", "perfetto", "graphviz", "mermaid", "grafana")


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--to", "form", type=click.Choice(FORMATS), required=True)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="A file; by default stdout.")
def export_(run: Path | None, form: str, output: Path | None) -> None:
    """Write RUN in another tool's format; the Grafana dashboard needs no RUN."""
    from latlab.queues import analyse, load
    from latlab.reports.queues_export import EXPORTS

    what, write = EXPORTS[form]
    if what and run is None:
        raise UsageError(f"--to {form} needs a recording", remedy="'latlab queues record' makes one")
    subject = None
    if run is not None and what:
        observation = load(run)
        subject = analyse(observation) if what == "analysis" else observation
    pieces = write(subject)
    if output is None:
        sys.stdout.writelines(pieces)
        return
    try:
        with open(output, "w", encoding="utf-8") as file:
            file.writelines(pieces)
    except OSError as error:
        raise UsageError(f"{output}: can't be written ({error.strerror})") from None
