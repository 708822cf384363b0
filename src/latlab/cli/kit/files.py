"""What a command writes into a file, or to stdout: one way to say where it is, and why it could not be."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from latlab.errors import UsageError, unwritten
from latlab.formats.documents import write_text
from latlab.reports.json import document

__all__ = ["check_stdout", "put_text", "writing"]


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """What is written into `path` in this block.

    Raises:
        UsageError: it can't be written there.
        LatlabError: it can't be written anywhere, as on a full disk.
    """
    try:
        yield
    except OSError as error:
        raise unwritten(path, error) from None


def check_stdout(output: Path | None, as_json: bool) -> None:
    """Refuse a file and a document on one standard output.

    Raises:
        UsageError: both were asked for.
    """
    if as_json and str(output or "-") == "-":
        raise UsageError("the file and --json both write to stdout", remedy="give the file a place with -o")


def put_text(
    pieces: str | Iterable[str], output: Path | None, *, as_json: bool = False, **facts: Any
) -> None:
    """Write a text to `output`, or to stdout where that is None; with `as_json` say where it is.

    Args:
        facts: what else the document says.
    """
    check_stdout(output, as_json)
    if output is None:
        sys.stdout.writelines([pieces] if isinstance(pieces, str) else pieces)
        return
    with writing(output):
        write_text(output, pieces)
    if as_json:
        click.echo(document({"output": output, **facts}))
