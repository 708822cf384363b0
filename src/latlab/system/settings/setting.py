"""What a setting is: one class with available, show, files and write, below a file-system root.

Writing goes through the kernel's own files; nothing here knows a vendor's tool.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from latlab.errors import LatlabError, UnavailableError
from latlab.model.evidence.machine import SettingUnknown
from latlab.model.evidence.said import said

__all__ = [
    "FactSetting",
    "FileSetting",
    "Finding",
    "PlainSetting",
    "Setting",
    "chosen",
    "put",
    "read_text",
    "reason",
]  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """What one setting is, and what that means for a measurement.

    Attributes:
        value: as the kernel writes it; None where it is unavailable.
        unavailable: why it can't be known.
        good: whether it leaves measurements alone; None where it is unavailable.
        cost: what it does to them.
        command: the exact command that mends it, "" where none is needed.
        source: where it is described.
    """

    name: str
    value: str | None
    unavailable: str | None
    good: bool | None
    cost: str
    command: str
    source: str = ""

    def to_json(self) -> dict[str, object]:
        """The finding's entry of ``latlab system check --json``."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


class Setting(Protocol):
    """One setting."""

    @property
    def name(self) -> str:
        """What it is called in `check` and in the profiles."""

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""

    def show(self) -> Finding:
        """What it is."""

    def files(self) -> dict[Path, str]:
        """The files that `write` would change, with what is to be written to go back."""

    def groups(self) -> list[Path]:
        """The control groups that `write` makes: to go back, their tasks go to the parent, and they go."""

    def write(self) -> None:
        """Set it as measurements need it."""


class PlainSetting:
    """What most settings share: they make no control groups, and one that isn't there is shown with why."""

    name: str
    cost: str

    def groups(self) -> list[Path]:
        """None."""
        return []

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""
        raise NotImplementedError

    def found(self) -> Finding:
        """What it is, where it is there."""
        raise NotImplementedError

    def show(self) -> Finding:
        """What it is, or why it isn't there."""
        why = self.available()
        return self.found() if why is None else Finding(self.name, None, why, None, self.cost, "")


@dataclass(frozen=True)
class FileSetting(PlainSetting):
    """A setting in one file of the kernel, or in one a CPU.

    Attributes:
        patterns: globs below the root; the first that finds files is used.
        wanted: what to write; None for a setting that no file can mend.
        accept: whether a value is good.
        mend: the command for what `wanted` can't do; by default the `echo` that writes it.
        missing: what its absence means.
        meaning: what values mean, where the kernel writes a number.
        every: the files of every pattern are used, and not of the first that finds some.
    """

    root: Path
    name: str
    patterns: tuple[str, ...]
    wanted: str | None
    cost: str
    accept: Callable[[str], bool]
    mend: str = ""
    missing: str = said(SettingUnknown.NO_SETTING)
    every: bool = False
    meaning: Mapping[str, str] = field(default_factory=dict)

    def _paths(self) -> list[Path]:
        each = [sorted(self.root.glob(pattern)) for pattern in self.patterns]
        return [path for found in each for path in found] if self.every else next(filter(None, each), [])

    def available(self) -> str | None:
        """Why it isn't there; None where it is."""
        paths = self._paths()
        if not paths:
            return self.missing
        try:
            read_text(paths[0])
        except OSError as error:
            return said(SettingUnknown.UNREADABLE, path=str(paths[0]), why=error.strerror)
        return None

    def files(self) -> dict[Path, str]:
        """Each file and its content."""
        return {path: chosen(read_text(path)) for path in self._paths()}

    def found(self) -> Finding:
        """Its values, each once."""
        values = list(dict.fromkeys(self.files().values()))
        good = all(self.accept(value) for value in values)
        meant = [self.meaning.get(value, value) for value in values]
        value = meant[0] if len(meant) == 1 else ", ".join(meant)
        return Finding(self.name, value, None, good, self.cost, "" if good else self._command())

    def _command(self) -> str:
        if self.mend or self.wanted is None:
            return self.mend
        found = ["/" + one for one in self.patterns if any(self.root.glob(one))]
        return f"echo {self.wanted} | sudo tee {' '.join(found if self.every else found[:1])}"

    def write(self) -> None:
        """Write the wanted value into every file.

        Raises:
            UnavailableError: it is not there, can't be written, or reads back as something else.
        """
        if self.wanted is None:
            raise UnavailableError(f"{self.name} can't be changed while running", remedy=self.mend or None)
        why = self.available()
        if why is not None:
            raise UnavailableError(f"{self.name}: {why}")
        for path in self._paths():
            put(path, self.wanted)
            after = chosen(read_text(path))
            if not self.accept(after):
                raise UnavailableError(f"{path} still reads {after} after writing {self.wanted}")


@dataclass(frozen=True)
class FactSetting(PlainSetting):
    """Something that no file of the kernel sets: it is read, judged and explained.

    Attributes:
        read: gives the value, and whether it is good; raises `UnavailableError` with the reason where it
            can't.
    """

    name: str
    cost: str
    mend: str
    read: Callable[[], tuple[str, bool]]

    def available(self) -> str | None:
        """Why it can't be known; None where it can."""
        try:
            self.read()
        except UnavailableError as error:
            return reason(error)
        return None

    def files(self) -> dict[Path, str]:
        """None: nothing is written."""
        return {}

    def show(self) -> Finding:
        """The judged value."""
        try:
            value, good = self.read()
        except UnavailableError as error:
            return Finding(self.name, None, reason(error), None, self.cost, "")
        return Finding(self.name, value, None, good, self.cost, "" if good else self.mend)

    def write(self) -> None:
        """Refuse.

        Raises:
            UnavailableError: always.
        """
        raise UnavailableError(f"{self.name} can't be changed while running", remedy=self.mend)


def reason(error: LatlabError) -> str:
    """What an error says, as a kind where it is one."""
    if error.remedy is None:
        return error.what
    return said(SettingUnknown.REMEDY, what=error.what, remedy=error.remedy)


def read_text(path: Path) -> str:
    """A kernel file without its line end."""
    return path.read_text(errors="replace").strip()  # a thread names itself as it likes


def chosen(text: str) -> str:
    """``always [madvise] never`` is madvise."""
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else text


def put(path: Path, text: str, *, make: bool = False) -> None:
    """Write a kernel file in one call; `make` makes it where the kernel does not (a tree of plain files).

    Raises:
        UnavailableError: the kernel refused.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | (os.O_CREAT if make else 0), 0o644)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise UnavailableError(f"{path} can't be written ({error.strerror})", remedy="run as root") from None
