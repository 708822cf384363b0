"""Options of the commands that run the demonstration's pipeline, and what such a command does at its end."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from latlab.cli.kit.options import JSON, together
from latlab.errors import ExitCode
from latlab.reports.json import dumps

__all__ = ["feed_and_output", "finish", "folder_of", "saying_what_stays"]

Function = Callable[..., Any]


def feed_and_output(command: str, slow_help: str) -> Callable[[Function], Function]:
    """What is played, what is planted, and where the result goes.

    Args:
        command: its name, for the folder of the recording.
        slow_help: what --slow plants time in.
    """
    path = click.Path(path_type=Path)
    return together(
        click.option(
            "--input",
            "feed",
            type=path,
            help="An ITCH-5.0 file (.gz too) for the pipeline, instead of generated feeds.",
        ),
        click.option("--slow", multiple=True, metavar="STAGE=DURATION", help=slow_help),
        click.option(
            "-o", "--output", type=path, help=f"The recording's folder [default: runs/{command}-TIME]."
        ),
        JSON,
    )


def folder_of(command: str, output: Path | None) -> Path:
    """Where the recording goes."""
    return output or Path("runs") / time.strftime(f"{command}-%Y%m%d-%H%M%S")


@contextmanager
def saying_what_stays(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Of a run that is interrupted, say where the steps are kept that had ended."""
    from latlab.formats.recording import is_recording

    try:
        yield
    except KeyboardInterrupt:
        if is_recording(folder):
            tell(f"interrupted; the steps that had ended are kept: see 'latlab runs show {folder}'")
        raise


def finish(
    folder: Path,
    write: Callable[[Path, str], None],
    document: dict[str, Any] | None,
    text: Callable[[], str],
    distrust: bool,
    tell: Callable[[str], None],
) -> int:
    """Write the report, print the result, and the report's path as the last line; the exit code.

    Args:
        folder: of the recording.
        write: writes the report to a path, given the command line.
        document: of --json; None: `text` is printed.
    """
    report = folder / "report.html"
    write(report, shlex.join(["latlab", *sys.argv[1:]]))
    if document is None:
        click.echo(f"{text()}\n\nreport: {report}")
    else:
        click.echo(dumps(document))
        tell(f"report: {report}")
    return ExitCode.NOT_TRUSTWORTHY if distrust else ExitCode.OK
