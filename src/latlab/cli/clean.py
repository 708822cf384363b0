"""`latlab clean`: what killed runs left behind."""

from __future__ import annotations

import click

from latlab import words
from latlab.cli.kit.options import JSON
from latlab.errors import ExitCode
from latlab.reports.json import document as json_of

__all__ = ["clean"]


@click.command()
@click.option("--list", "only_list", is_flag=True, help="List what is left, and remove nothing.")
@JSON
def clean(only_list: bool, as_json: bool) -> int:
    """Remove what killed runs left in shared memory and in the temporary folder.

    Only files and folders of your own dead processes go: their names hold the process's id and start time.
    """

    from latlab.system.scratch import leftovers, remove

    found = leftovers()
    kept = [left for left in found if not only_list and not remove(left)]
    if as_json:
        rows = [
            {
                "path": str(left.path),
                "purpose": left.purpose,
                "pid": left.pid,
                "size_bytes": left.size_bytes,
                "removed": not only_list and left not in kept,
            }
            for left in found
        ]
        click.echo(json_of({"leftovers": rows}))
    else:
        for left in found:
            click.echo(f"{words.size(left.size_bytes):>10}  {left.purpose:10}  {left.path}")
    total = words.size(sum(left.size_bytes for left in found))
    did = "left by dead processes" if only_list else "removed"
    click.echo(
        f"{words.plural(len(found), 'leftover')} {did}, {total}" if found else "nothing is left", err=True
    )
    for left in kept:
        click.echo(f"latlab: {left.path} can't be removed", err=True)
    return ExitCode.FAILED if kept else ExitCode.OK
