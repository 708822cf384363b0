"""The exceptions that a user sees. A leaf: it imports nothing of latlab.

Every one of them carries what the command line prints, which is one line: where, what, and the remedy.
"""

from __future__ import annotations

import errno
from enum import IntEnum
from os import PathLike, fspath


class ExitCode(IntEnum):
    """What a latlab command tells its caller."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_TRUSTWORTHY = 3
    REGRESSION = 4


class LatlabError(Exception):
    """Something that the user can understand and mend.

    Args:
        what: what is wrong, as a clause without a full stop.
        remedy: what the user can do about it, as a command or an instruction.
    """

    exit_code = ExitCode.FAILED

    def __init__(self, what: str, *, remedy: str | None = None) -> None:
        self.what = what
        self.remedy = remedy
        super().__init__(what if remedy is None else f"{what}; {remedy}")


class InputError(LatlabError):
    """A file (or another input) that can't be read as what it should be.

    Args:
        source: the file's path or the input's name.
        what: what is wrong with it.
        place: where in it: a byte offset ("offset 1234"), a line ("line 7") or a key ("stages.book.threads").
        remedy: what the user can do about it.
    """

    def __init__(
        self,
        source: str | PathLike[str],
        what: str,
        *,
        place: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.source = fspath(source)
        self.what = what = what.replace("\n", " ")  # it may repeat what stands in the file
        self.place = place
        where = self.source if place is None else f"{self.source}: {place}"
        super().__init__(f"{where}: {what}", remedy=remedy)


class UsageError(LatlabError):
    """Arguments that make no sense together, or that the machine can't serve."""

    exit_code = ExitCode.USAGE


def unwritten(path: str | PathLike[str], error: OSError) -> LatlabError:
    """What to raise for a file that can't be written.

    A wrong place is the user's mistake (exit code 2). A full disk and the like are a failure (1), since the
    command was right.
    """
    what = f"{fspath(path)}: can't be written ({error.strerror or error})"
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EMFILE, errno.ENFILE):
        return LatlabError(what, remedy="free some space or raise the limit, or write elsewhere")
    return UsageError(what, remedy="name a file in a folder that is there and yours")


class MissingExtraError(LatlabError):
    """An optional dependency that this command needs is not installed.

    Args:
        package: the distribution that is missing.
        extra: the extra of latlab that brings it.
    """

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed", remedy=f"run: pip install 'latlab[{extra}]'")


class SkippedError(LatlabError):
    """What was to be measured says that it does not go here, which is no failure."""


class UnavailableError(LatlabError):
    """The machine, the kernel or our rights don't offer what was asked for."""


class NotTrustworthyError(LatlabError):
    """The measurement ended, but its result must not be believed."""

    exit_code = ExitCode.NOT_TRUSTWORTHY
