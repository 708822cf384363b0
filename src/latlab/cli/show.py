"""`latlab show`: what is in a file, of whatever kind."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import click

from latlab.cli.kit.options import JSON
from latlab.errors import InputError
from latlab.formats.trusted import MOST_TEXT_BYTES, read_file
from latlab.model.shown import Reader

# Who can show what, as module:attribute: imported when a file is shown, and asked in this order. A domain
# adds a line.
READERS = (
    "latlab.formats.views:RECORDING",
    "latlab.formats.views:HLOG",
    "latlab.formats.views:HGRM",
    "latlab.bench.results.shown:RESULTS",
)
ANSWER = "answer.txt"  # in the recording of a diagnosis: what it printed
_HEAD_BYTES = 4096


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@JSON
def show(file: Path, as_json: bool) -> None:
    """Say what is in FILE: a recording, or a foreign file such as a benchmark's results.

    For a diagnosis, print its answer again.
    """
    if (file / ANSWER).is_file():
        _answer(file, as_json)
        return
    found = reader_of(file).show(file)
    if as_json:
        from latlab.reports.json import document

        click.echo(document(found.document))
        return
    from latlab.words import table, wants_style

    click.echo(f"{file}: {found.what}")
    styled = wants_style(sys.stdout)
    for part in found.tables:
        click.echo("\n" + table(part.columns, part.rows, title=part.title or None, styled=styled))


def _answer(folder: Path, as_json: bool) -> None:
    """A diagnosis again, from its recording."""
    try:
        path = folder / ("answer.json" if as_json else ANSWER)
        click.echo(read_file(path, MOST_TEXT_BYTES).decode("utf-8").rstrip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(folder, f"its answer can't be read ({error})") from None


def reader_of(file: Path) -> Reader:
    """Who can show a file.

    Raises:
        InputError: when it isn't there, can't be read, or nobody knows it.
    """
    head = _head(file)
    readers = [_load(name) for name in READERS]
    for reader in readers:
        if reader.recognises(file, head):
            return reader
    known = ", ".join(reader.name for reader in readers)
    what = "is empty" if file.is_file() and not head else "is not a format that latlab can read"
    raise InputError(file, what, remedy=f"it reads {known}")


def _load(name: str) -> Reader:
    module, _, attribute = name.partition(":")
    reader = getattr(import_module(module), attribute)
    assert isinstance(reader, Reader)
    return reader


def _head(file: Path) -> bytes:
    if file.is_dir():
        return b""
    if not file.exists():
        raise InputError(
            file, "there is no such file", remedy="'latlab runs list FOLDER' lists the recordings in it"
        )
    if not file.is_file():
        raise InputError(file, "is neither a file nor a folder")
    try:
        with file.open("rb") as opened:
            return opened.read(_HEAD_BYTES)
    except OSError as error:
        raise InputError(file, f"can't be read ({error.strerror})") from None
