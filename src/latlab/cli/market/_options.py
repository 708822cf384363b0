"""What the options of `latlab market` hold, and how its commands end."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.options import JSON, Duration, together
from latlab.cli.kit.progress import say
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import dumps

if TYPE_CHECKING:
    from latlab.model.market import Census


__all__ = [
    "BOOK",
    "CAPACITY",
    "EVERY",
    "FILE",
    "JOBS",
    "JSON",
    "LENIENT",
    "OUTPUT",
    "SYMBOLS",
    "Feed",
    "conclude",
    "names_of",
    "selecting",
    "time_of",
    "wrote",
]


class Feed(click.ParamType):  # type: ignore[type-arg]
    """A file's path, ``-``, or the address of a feed on the wire as it was given."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.startswith("udp://"):
            return value
        from latlab.market import guard

        guard([value], ["-"])  # what a command prints must not go into its input
        return Path(value)


EVERY = Duration(least=1_000)
FILE = click.argument("file", type=Feed())
OUTPUT = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="File to write; '-' for stdout."
)
LENIENT = click.option(
    "--lenient", is_flag=True, help="Skip and count damaged messages, and exit with code 3."
)
JOBS = click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=1,
    help="Number of threads, which share the symbols; the result is the same.",
)
SYMBOLS = click.option(
    "--symbols", default="", show_default=False, help="Only these symbols, separated by commas."
)
_FROM = click.option("--from", "from_", help="Begin: HH:MM:SS[.fraction] or ns since midnight.")
_TO = click.option("--to", help="End (inclusive).")
_DATE = click.option("--date", "day", help="Date of the session, YYYY-MM-DD [default: from FILE's name].")
BOOK = click.option(
    "--book",
    default="ladder",
    type=click.Choice(["ladder", "array", "map"]),
    help="Design of the book sides; all give the same result.",
)
CAPACITY = click.option(
    "--capacity", type=click.IntRange(min=1), default=8192, help="Ticks that the array holds."
)


def conclude(found: Census, *, books: bool = True, of: Path | None = None) -> ExitCode:
    """Say on stderr what was skipped, lost or could not be applied; and the exit code that follows.

    Args:
        of: which of several inputs it is.
    """
    from latlab.reports.market.text import damage_text, unchecked_text

    if note := unchecked_text(found):
        click.echo(f"latlab: {f'{of}: ' if of else ''}{note}", err=True)
    for line in damage_text(found, books=books):
        click.echo(f"latlab: warning: {f'{of}: ' if of else ''}{line}", err=True)
    return ExitCode.NOT_TRUSTWORTHY if found.damage(books=books) else ExitCode.OK


def wrote(
    what: str,
    rows: int,
    files: Sequence[Path],
    found: Census,
    as_json: bool,
    of: str = "",
    *,
    books: bool = True,
) -> ExitCode:
    """Say how many rows of what were written to where, as JSON where asked; then as `conclude`.

    Args:
        what: their key in the document.
        files: where they are, the folder where it is one.
        of: their words on stderr, where the key alone says too little.
    """
    if as_json:
        document = {"schema": 1, what: rows, "messages": found.messages, "files": list(files)}
        click.echo(dumps(document | {"anomalies": found.anomalies}))
    say(f"latlab: wrote {rows:,} {of or what} to {' and '.join(map(str, files))}")
    return conclude(found, books=books)


def names_of(symbols: str) -> tuple[str, ...]:
    """The symbols of a list with commas."""
    return tuple(name.strip() for name in symbols.split(",") if name.strip())


def selecting(
    *, symbols: bool = True, day: bool = True
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """What of a feed a command reads: --symbols, --from, --to, --date and --lenient.

    The command takes them as `chosen`: the arguments of that name of the functions of `latlab.market`.

    Args:
        symbols, day: whether it has that option.
    """

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapped(*, from_: str | None, to: str | None, **options: Any) -> int:
            chosen: dict[str, Any] = {"lenient": options.pop("lenient")}
            if symbols:
                chosen["symbols"] = names_of(options.pop("symbols"))
            if day:
                chosen["day"] = options.pop("day")
            if from_ is not None:
                chosen["from_ns"] = time_of(from_, "--from")
            if to is not None:
                chosen["to_ns"] = time_of(to, "--to")
            return function(chosen=chosen, **options)

        asked = [SYMBOLS] * symbols + [_FROM, _TO] + [_DATE] * day + [LENIENT]
        return together(*asked)(wrapped)

    return decorate


_CLOCK = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")
_DAY_NS = 86_400_000_000_000


def time_of(text: str, option: str) -> int:
    """A time of day in ns since midnight.

    Raises:
        UsageError: it is none.
    """
    if text.isdigit():
        ns = int(text)
    elif found := _CLOCK.fullmatch(text):
        hours, minutes, seconds = int(found[1]), int(found[2]), int(found[3] or 0)
        if minutes > 59 or seconds > 59:
            raise UsageError(f"{option}: '{text}' is not a time of day")
        ns = (hours * 3600 + minutes * 60 + seconds) * 1_000_000_000 + int((found[4] or "").ljust(9, "0"))
    else:
        raise UsageError(f"{option} must be HH:MM:SS[.fraction] or ns since midnight, not '{text}'")
    if ns > _DAY_NS:
        raise UsageError(f"{option}: '{text}' is later than 24:00:00")
    return ns
