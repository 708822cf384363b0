"""`latlab queues analyse`."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("analyse")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--exclude", multiple=True, metavar="QUEUE", help="Leave this queue out; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def analyse_(run: Path, exclude: tuple[str, ...], as_json: bool) -> None:
    """Name what limits the application that RUN recorded."""
    from latlab.queues import analyse, load
    from latlab.reports.queues_text import analysis_lines

    analysis = analyse(load(run), exclude=exclude)
    if as_json:
        print(json.dumps(analysis.to_json(), indent=2))
        return
    print("\n".join(analysis_lines(analysis)))
