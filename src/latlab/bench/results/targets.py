"""What is measured, as the command line names it: a fixture or function in a file, or a whole command."""

from __future__ import annotations

import mmap
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from latlab.bench.results.google import is_google
from latlab.errors import UsageError

__all__ = ["Target", "named", "parse"]

Kind = Literal["python", "object", "program", "google", "command"]
MARKER = b"latlab-bench-program 1"


@dataclass(frozen=True)
class Target:
    """One thing to measure.

    Attributes:
        kind: how it is driven.
        text: as the user wrote it.
        path: the file; None of a command.
        fixture: in the file; None where the file is still to be asked.
        command: of a command.
        parameters: for the fixture.
        cwd: the folder that it runs in; None for latlab's own.
        search: folders in which Python looks first for modules.
        interpreter: of another Python, which measures without latlab's native loop; None for latlab's own.
        title: how results call it, where not by its command or its fixture and parameters.
        suite: the module of a folder of fixtures that it is in, which its name begins with.
    """

    kind: Kind
    text: str
    path: Path | None = None
    fixture: str | None = None
    command: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    cwd: Path | None = None
    search: tuple[str, ...] = ()
    interpreter: str | None = None
    title: str = ""
    suite: str = ""

    @property
    def apart(self) -> bool:
        """Whether its processes can't take turns: it is not latlab's loop that measures."""
        return self.kind in ("command", "google")

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of files, and its fixture a pattern."""
        return self.kind == "python" and self.path is not None and self.path.is_dir()

    @property
    def name(self) -> str:
        """How results call it."""
        if self.title:
            return self.title
        if self.kind == "command":
            return shlex.join(self.command)
        values = ",".join(f"{k}={v}" for k, v in sorted(self.parameters.items()))
        return f"{self.called}[{values}]" if values else self.called

    @property
    def called(self) -> str:
        """Its fixture, whatever the parameters."""
        return f"{self.suite}.{self.fixture}" if self.suite else str(self.fixture)


def parse(text: str, parameters: Mapping[str, Any] | None = None) -> Target:
    """Understand FILE.py[:Fixture], FOLDER[:PATTERN], FILE.so[:Fixture or symbol], PROGRAM[:Fixture] or a
    command.

    A program may be one of latlab's fixtures or of Google Benchmark's.

    Raises:
        UsageError: it is none of them.
    """
    given = dict(parameters or {})
    head, _, name = text.partition(":")  # its names have colons and slashes of their own
    if Path(head).is_file() and is_google(Path(head)):
        if given:
            raise UsageError("Google Benchmark's fixtures take no --param", remedy="name FILE:BENCHMARK/ARG")
        return Target("google", text, Path(head).resolve(), name or None)
    file, _, fixture = text.rpartition(":")
    if not file or "/" in fixture or " " in fixture:
        file, fixture = text, ""
    path = Path(file)
    if path.is_dir():
        return Target("python", text, path.resolve(), fixture or None, parameters=given)
    kind: Kind | None = None
    if path.suffix == ".py":
        kind = "python"
    elif ".so" in path.suffixes:
        kind = "object"
    elif path.is_file() and _is_program(path):
        kind = "program"
    if kind is not None and (path.is_file() or not _starts_a_program(text)):
        if not path.is_file():
            raise UsageError(f"{file}: there is no such file", remedy="give a fixture's file or a command")
        return Target(kind, text, path.resolve(), fixture or None, parameters=given)
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"'{text}' is not a command ({error})", remedy="check its quotes") from None
    return of_command(words, given)


def _starts_a_program(text: str) -> bool:
    """Whether these are a program's name and its arguments, which may end like a fixture's file."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    return len(words) > 1 and shutil.which(words[0]) is not None


def of_command(words: tuple[str, ...], parameters: Mapping[str, Any] | None = None) -> Target:
    """A whole command as target.

    Raises:
        UsageError: there is no such program.
    """
    if not words or shutil.which(words[0]) is None:
        raise UsageError(
            f"'{words[0] if words else ''}' is neither a file of fixtures nor a program",
            remedy="name FILE.py, FILE.so, FILE:Fixture or a command",
        )
    if parameters:
        raise UsageError("a command takes no --param", remedy="write its options into the command")
    return Target("command", shlex.join(words), command=words)


def named(target: Target, fixtures: Mapping[str, Any]) -> Target:
    """The target with its fixture settled, where the file holds just one.

    Raises:
        UsageError: it holds none or several.
    """
    if target.kind == "command" or target.fixture is not None:
        return target
    if len(fixtures) != 1:
        some = ", ".join(f"{target.text}:{name}" for name in list(fixtures)[:4])
        what = "several fixtures" if fixtures else "no fixture"
        raise UsageError(
            f"{target.text} holds {what}", remedy=f"name one: {some}" if some else "see docs/how-to/bench.md"
        )
    return replace(target, fixture=next(iter(fixtures)))


def _is_program(path: Path) -> bool:
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return False
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(MARKER) >= 0
