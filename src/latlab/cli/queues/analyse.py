"""`latlab queues analyse`."""

from __future__ import annotations

from pathlib import Path

from latlab.cli.kit.options import JSON
from latlab.cli.queues._exclude import on_run, tell_unknown
from latlab.reports.json import dumps


@on_run("analyse")
@JSON
def analyse_(run: Path, exclude: tuple[str, ...], as_json: bool) -> None:
    """Name the bottleneck of the application that RUN recorded."""
    from latlab.queues import analyse, load
    from latlab.reports.queues.text import analysis_lines

    observation = load(run)
    tell_unknown([observation], exclude)
    analysis = analyse(observation, exclude=exclude)
    if as_json:
        print(dumps(analysis.to_json(), indent=2))
        return
    print("\n".join(analysis_lines(analysis)))
