"""What is told on stderr while something is done: the steps as they begin, and how long one still takes.

Every command has `-q` and `-v` by its group (`with_verbosity`); warnings and errors are
always told.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from latlab import words
from latlab.errors import LatlabError

__all__ = ["clock", "is_watched", "say", "teller", "with_verbosity"]

_QUIET, _VERBOSE = "latlab.quiet", "latlab.verbose"
_SHORT_S = 3.0  # what is over by then needs no clock
_EVERY_S = 1.0


def with_verbosity(command: click.Command) -> click.Command:
    """The command with -q and -v, where their names are free; what only groups leaves it to its commands."""
    taken = {name for parameter in command.params for name in parameter.opts}
    if (isinstance(command, click.Group) and not command.invoke_without_command) or "--quiet" in taken:
        return command
    for names, key, text in (
        (["-q", "--quiet"], _QUIET, "Hide progress on stderr; warnings and errors stay."),
        (["-v", "--verbose"], _VERBOSE, "Show where an error came from, too."),
    ):
        free = [name for name in names if name not in taken]

        def keep(ctx: click.Context, _param: click.Parameter, chosen: bool, key: str = key) -> None:
            if chosen:
                ctx.meta[key] = True

        command.params.append(click.Option(free, is_flag=True, expose_value=False, callback=keep, help=text))
    invoke = command.invoke

    def telling(ctx: click.Context) -> Any:
        try:
            return invoke(ctx)
        except LatlabError:
            if ctx.invoked_subcommand is None:  # else that has said it
                _say_where()
            raise

    command.invoke = telling  # type: ignore[method-assign]
    return command


def _asked(key: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(key))


def _say_where() -> None:
    """With -v, where the error that is being handled came from."""
    if _asked(_VERBOSE):
        click.echo(traceback.format_exc(), err=True, nl=False)


def is_watched() -> bool:
    """Whether somebody sees a line that is drawn again and again."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not _asked(_QUIET)


def say(line: str) -> None:
    """A line of progress."""
    if not _asked(_QUIET):
        click.echo(line, err=True)


def teller(command: str) -> Callable[[str], None]:
    """Says lines of progress as of a command."""
    return lambda line: say(f"latlab {command}: {line}")


@contextmanager
def clock(what: str, seconds: float | None) -> Iterator[None]:
    """Shows on a terminal how long something has taken, and how long it still takes at most.

    Args:
        what: as "recording".
        seconds: that it takes; None where that is not known.
    """
    if not is_watched() or (seconds is not None and seconds <= _SHORT_S):
        yield
        return
    over = threading.Event()
    begin = time.monotonic()

    def tick() -> None:
        if over.wait(_SHORT_S):
            return
        while not over.wait(_EVERY_S):
            passed = time.monotonic() - begin
            left = (
                ""
                if seconds is None
                else f", at most {words.seconds(round(max(0.0, seconds - passed)))} left"
            )
            click.echo(f"\r\x1b[K{what}: {words.seconds(round(passed))}{left}", err=True, nl=False)

    thread = threading.Thread(target=tick, name="latlab-clock", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        click.echo("\r\x1b[K", err=True, nl=False)
