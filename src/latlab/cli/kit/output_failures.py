"""What can't be written, said in one line: a full disk, a closed pipe, a read-only folder, too few files.

One place for every command. What was measured has been shown or kept by then, step by step; this says what of
it has not, and gives the exit code.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Any, TextIO

import click

from latlab.errors import ExitCode

__all__ = ["is_closed_pipe", "leave_closed_pipe", "open_streams", "say_failure"]

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
    if sys.stderr is None or sys.stderr is sys.__stderr__:
        errors = io.BufferedWriter(_Unheeded(2, "w", closefd=False))
        sys.stderr = io.TextIOWrapper(
            errors, encoding="utf-8", errors="backslashreplace", line_buffering=True
        )


def say_failure(error: OSError | MemoryError) -> ExitCode:
    """One line on what could not be written or opened, and with what remedy."""
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
        remedy = _REMEDIES.get(error.errno or 0, "")
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
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
