"""What `latlab show` says about a file, and who says it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Reader", "Shown", "Table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table to print: its title, the headings, and the rows."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Shown:
    """A file in a few words.

    Attributes:
        what: one line: which kind of file it is.
        document: the same for programs; the command puts the schema version in front.
        tables: what a human reads.
    """

    what: str
    document: Mapping[str, Any]
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who can show one kind of file.

    Attributes:
        name: what the kind is called, in the list of what latlab reads.
        recognises: whether a path is of that kind, from the path and its first 4096 bytes (none of a folder).
        show: reads it; raises `latlab.errors.InputError` for a damaged one.
    """

    name: str
    recognises: Callable[[Path, bytes], bool]
    show: Callable[[Path], Shown]
