"""`latlab runs`: the recordings in a folder: list, show, compare, export, remove."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from latlab import words
from latlab.cli.kit.lazy import SuggestingGroup
from latlab.cli.kit.offered import offered
from latlab.cli.kit.options import JSON
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import dumps

# Whose `compare` understands which kind of recording.
_COMPARED = {"diagnosis": "diagnose"} | {kind: kind for kind in ("jitter", "messaging", "bench", "queues")}
_KINDS = sorted(
    {*_COMPARED, "bench-ab", "bench-run", "bench-study", "queues-overhead", "requests", "stubs-study"}
)


@click.group(cls=SuggestingGroup)
def runs() -> None:
    """List, show, compare, export and remove the recordings in a folder."""


@runs.command("list")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("runs"))
@click.option(
    "--kind", shell_complete=offered(_KINDS), help="Only recordings of this kind, as queues or jitter."
)
@JSON
def list_(folder: Path, kind: str | None, as_json: bool) -> None:
    """List the recordings below FOLDER [default: runs], the latest first."""
    from latlab.formats.runs import find_runs
    from latlab.words import table, wants_style

    found = [run for run in find_runs(folder) if kind is None or run.kind == kind]
    if as_json:
        click.echo(dumps({"schema": 1, "runs": [run.to_json() for run in found]}, indent=2))
        return
    if not found:
        click.echo(f"no recordings below {folder}")
        return
    rows = [
        [
            run.name,
            run.kind or None,
            run.started_at[:19],
            # Why it can't be read is a sentence, too wide for a table: it is told below.
            run.state if run.kind else "damaged",
            words.size(run.bytes),
            _short(run.answer),
        ]
        for run in found
    ]
    columns = ("run", "kind", "started", "state", "size", "found")
    click.echo(table(columns, rows, styled=wants_style(sys.stdout)))
    for run in found:
        if not run.kind:
            click.echo(f"latlab: {run.state}", err=True)


def _short(text: str, most: int = 60) -> str | None:
    first = text.split(". ")[0]
    return (first if len(first) <= most else first[: most - 1].rstrip() + "…") or None


@runs.command()
@click.argument("run", type=click.Path(path_type=Path))
@JSON
@click.pass_context
def show(context: click.Context, run: Path, as_json: bool) -> Any:
    """Say what is in a recording, and what command made it."""
    from latlab.cli.show import show as any_file

    return context.invoke(any_file, file=run, as_json=as_json)


@runs.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@JSON
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def compare(before: Path, after: Path, as_json: bool, options: tuple[str, ...]) -> Any:
    """Compare two recordings of one kind, by the tool that made them.

    OPTIONS after `--` go to that tool's own compare.
    """
    from latlab.cli._main import latlab
    from latlab.formats.recording import open_recording

    kinds = [open_recording(path).kind for path in (before, after)]
    if kinds[0] != kinds[1]:
        raise UsageError(
            f"{before} holds {kinds[0]} and {after} holds {kinds[1]}: they have nothing to compare"
        )
    group = _COMPARED.get(kinds[0])
    if group is None:
        raise UsageError(
            f"recordings of {kinds[0]} can't be compared", remedy=f"known: {', '.join(_COMPARED)}"
        )
    options = ("--json", *options) if as_json else options
    words = [group, "compare", str(before), str(after), *options]
    return latlab.main(words, prog_name="latlab", standalone_mode=False)


@runs.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The archive: .tar.gz or .tar."
)
@JSON
def export(run: Path, output: Path, as_json: bool) -> None:
    """Pack a recording into one archive that opens without latlab: CSV, JSON and its report."""
    from latlab.formats.runs import export_run

    export_run(run, output)
    document = {"schema": 1, "archive": str(output), "bytes": output.stat().st_size}
    click.echo(dumps(document) if as_json else str(output))


@runs.command()
@click.argument("run", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Don't ask.")
@JSON
def remove(run: tuple[Path, ...], yes: bool, as_json: bool) -> int:
    """Delete recordings; other folders are left alone."""
    from latlab.errors import InputError
    from latlab.formats.recording import is_recording
    from latlab.formats.runs import remove_run

    for path in run:
        if not is_recording(path):
            raise InputError(path, "is not a recording, so nothing was removed")
    if not yes:
        click.confirm(f"remove {', '.join(map(str, run))}?", abort=True, err=True)
    removed = [(path, remove_run(path)) for path in run]
    if as_json:
        gone = [{"path": str(path), "bytes": size} for path, size in removed]
        click.echo(dumps({"schema": 1, "removed": gone}))
        return ExitCode.OK
    for path, size in removed:
        click.echo(f"removed {path}: {words.size(size)}")
    return ExitCode.OK
