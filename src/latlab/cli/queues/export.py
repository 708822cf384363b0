"""`latlab queues export`."""

from __future__ import annotations

from pathlib import Path

import click

from latlab.cli.kit.files import check_stdout, put_text
from latlab.cli.kit.options import JSON, output
from latlab.cli.queues._exclude import EXCLUDE, tell_unknown
from latlab.errors import UsageError

FORMATS = ("csv", "gnuplot", "perfetto", "graphviz", "mermaid", "grafana")


@click.command("export")
@click.argument("run", type=click.Path(path_type=Path), required=False)
@click.option("--to", "form", type=click.Choice(FORMATS), required=True, help="Format to write.")
@output("File to write [default: stdout].")
@EXCLUDE
@JSON
def export_(
    run: Path | None, form: str, output: Path | None, exclude: tuple[str, ...], as_json: bool
) -> None:
    """Write RUN in another tool's format; the Grafana dashboard needs no RUN."""
    from latlab.formats.recording import open_recording
    from latlab.queues import analyse, landmarks, load
    from latlab.reports.queues.export import EXPORTS, Subject

    check_stdout(output, as_json)
    what, write = EXPORTS[form]
    if what and run is None:
        raise UsageError(f"--to {form} needs a recording", remedy="'latlab queues record' makes one")
    subject = None
    if run is not None and what:
        observation = load(run, exclude=exclude)
        tell_unknown([observation], exclude)
        traces = {}
        if what == "traces" and "traces" in open_recording(run).names():
            table = open_recording(run).series("traces")
            traces = {name: table[name] for name in ("event", "push_ns", "pop_ns", "queue")}
        analysis = analyse(observation, exclude=exclude) if what == "analysis" else None
        subject = Subject(observation, analysis, traces, landmarks(observation, exclude=exclude))
    put_text(write(subject), output, as_json=as_json, format=form)
