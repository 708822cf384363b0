"""What can't be written, said in one line: a full disk, a closed pipe, a read-only folder, too few files.

One place for every command. What was measured has been shown or kept by then, step by step; this says what of
it has not, and gives the exit code. What standard output could not take is kept in a file.
"""

from __future__ import annotations

import contextlib
import errno
import io
import math
import os
import sys
import tempfile
import time
from typing import Any, TextIO

import click

from latlab.errors import ExitCode

__all__ = ["flush_output", "is_closed_pipe", "leave_closed_pipe", "open_streams", "say_failure"]

_REMEDIES = {
    errno.ENOSPC: "free some space, or write elsewhere",
    errno.EDQUOT: "free some space, or write elsewhere",
    errno.EROFS: "write elsewhere",
    errno.EACCES: "write elsewhere, or ask for permission",
    errno.EPERM: "ask for permission",
    errno.EMFILE: "raise the limit: ulimit -n",
    errno.ENFILE: "close other programs: the machine has too many files open",
    errno.EFBIG: "raise the limit: ulimit -f",
    errno.ENOMEM: "raise the limit on memory, or close other programs",
}


_MOST_KEPT = 1 << 20  # characters: a result; more is data, which is made again
_SAYS_S = 10.0  # from the first piece of a result to its last; what goes on for longer has no end of its own


class _Shown(io.TextIOWrapper):
    """Standard output, with what was written to it so far, as long as that is a result's length.

    What finds no room is not told before the end: a result has many pieces, and all of them are to be kept.

    Attributes:
        text: the pieces; none of what was longer.
        failed: why it could not take all of them.
    """

    def __init__(self, below: io.TextIOWrapper) -> None:
        super().__init__(below.buffer, below.encoding, below.errors, line_buffering=below.line_buffering)
        self._below = below  # which would close what both write to
        self._room = _MOST_KEPT
        self._until = math.inf
        self.text: list[str] = []
        self.failed: OSError | None = None

    def write(self, text: Any, /) -> int:
        if not isinstance(text, str):  # click tries bytes, to see whether it may
            return super().write(text)
        self._room -= len(text)
        if self._room >= 0:
            self.text.append(text)
        else:
            self.text.clear()
        if self._takes():
            try:
                super().write(text)
            except OSError as error:
                self._refused(error)
        return len(text)

    def flush(self) -> None:
        if self._takes():
            try:
                super().flush()
            except OSError as error:
                self._refused(error)

    def _takes(self) -> bool:
        if self.failed is not None and (self._room < 0 or time.monotonic() > self._until):
            raise self.failed
        return self.failed is None

    def _refused(self, error: OSError) -> None:
        if isinstance(error, BrokenPipeError) or self._room < 0:
            raise error
        self.failed, self._until = error, time.monotonic() + _SAYS_S


class _Unheeded(io.FileIO):
    """Standard error: what it can't take is lost, and neither a result nor its exit code with it."""

    def write(self, data: Any, /) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return memoryview(data).nbytes


def open_streams() -> None:
    """Make the standard streams fit to be written to: call this first.

    Nobody reads a closed one (`>&-`), whose number would be that of the next file that is opened, and of a
    measuring process's results: it is opened here, and takes everything.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, flags)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    # Not what a test or a notebook has put in its place.
    if type(sys.stdout) is io.TextIOWrapper and _is_first(sys.stdout):
        sys.stdout = _Shown(sys.stdout)
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        errors = io.BufferedWriter(_Unheeded(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            errors, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )


def _is_first(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 1
    except (OSError, ValueError):
        return False


def flush_output() -> None:
    """Write what is left for standard output; at the end.

    Raises:
        OSError: it could not take all that a command has said.
    """
    sys.stdout.flush()
    if isinstance(sys.stdout, _Shown) and sys.stdout.failed is not None:
        raise sys.stdout.failed


def _rescued() -> str:
    """The file that holds what standard output could not take; "" where it took all, or none can be had."""
    shown = sys.stdout
    if isinstance(shown, _Shown) and shown.failed is not None and shown.text:
        with (
            contextlib.suppress(OSError),
            tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", prefix="latlab-output-", suffix=".txt", delete=False
            ) as kept,
        ):
            kept.writelines(shown.text)
            return kept.name
    return ""


def say_failure(error: OSError | MemoryError, *, keep: bool = True) -> ExitCode:
    """One line on what could not be written or opened, and with what remedy.

    Args:
        keep: whether what standard output could not take is worth a file.
    """
    if isinstance(error, MemoryError):
        what, remedy = "there is no memory left", _REMEDIES[errno.ENOMEM]
    elif error.errno == errno.ENOENT and error.filename is None:  # `tempfile`, which has tried every place
        what, remedy = "no temporary folder can be written", "set TMPDIR to one that can"
    else:
        reason = error.strerror or str(error) or type(error).__name__
        where = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else "the output"
        # Without a name it is a pipe or a socket that could not be had, and no output.
        nameless = error.filename is None and error.errno in (errno.EMFILE, errno.ENFILE)
        what = reason if nameless else f"{where}: {reason}"
        kept = _rescued() if keep else ""
        remedy = f"what it was to say is in {kept}" if kept else _REMEDIES.get(error.errno or 0, "")
    try:
        click.echo(f"latlab: {what}{'; ' + remedy if remedy else ''}", err=True)
    except OSError:  # stderr is full, too: then the exit code says it alone
        _forget(sys.stderr)
    _forget_output()
    return ExitCode.FAILED


def is_closed_pipe(status: SystemExit) -> bool:
    """Whether click has left since our reader has gone: it leaves with 1, and a marked stdout."""
    return status.code == 1 and type(sys.stdout).__name__.endswith("PacifyFlushWrapper")


def leave_closed_pipe() -> ExitCode:
    """Our reader has gone (`latlab … | head`): nothing is wrong, and nothing more can be said."""
    _forget_output()
    return ExitCode.OK


def _forget_output() -> None:
    _forget(sys.stdout)


def _forget(stream: TextIO) -> None:
    """What is still buffered can't be written: the interpreter must not complain of it at its end."""
    if isinstance(stream, _Shown):
        stream.failed = None
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
