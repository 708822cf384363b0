"""What the options of `latlab market` hold, and how its commands end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli.kit.options import JSON, Duration
from latlab.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from latlab.model.market import Census


__all__ = [
    "BOOK",
    "CAPACITY",
    "DATE",
    "EVERY",
    "FILE",
    "FROM",
    "JSON",
    "LENIENT",
    "OUTPUT",
    "SYMBOLS",
    "TO",
    "Feed",
    "conclude",
    "names_of",
    "period_of",
    "time_of",
]


class Feed(click.ParamType):  # type: ignore[type-arg]
    """A file's path, ``-``, or the address of a feed on the wire as it was given."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, str) and value.startswith("udp://") else Path(value)


EVERY = Duration(least=1_000)
FILE = click.argument("file", type=Feed())
OUTPUT = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="File to write; '-' for stdout."
)
LENIENT = click.option(
    "--lenient", is_flag=True, help="Skip and count damaged messages, and exit with code 3."
)
SYMBOLS = click.option("--symbols", default="", help="Only these symbols, separated by commas.")
FROM = click.option("--from", "from_", help="Begin: HH:MM:SS[.fraction] or ns since midnight.")
TO = click.option("--to", help="End (inclusive).")
DATE = click.option("--date", "day", help="Date of the session, YYYY-MM-DD [default: from FILE's name].")
BOOK = click.option(
    "--book",
    default="ladder",
    show_default=True,
    type=click.Choice(["ladder", "array", "map"]),
    help="Design of the book sides; all give the same result.",
)
CAPACITY = click.option("--capacity", default=8192, show_default=True, help="Ticks that the array holds.")


def conclude(found: Census, *, books: bool = True) -> ExitCode:
    """Say on stderr what was skipped, lost or could not be applied; and the exit code that follows."""
    from latlab.reports.market.text import damage_text

    for line in damage_text(found, books=books):
        click.echo(f"latlab: warning: {line}", err=True)
    return ExitCode.NOT_TRUSTWORTHY if found.damage(books=books) else ExitCode.OK


def names_of(symbols: str) -> tuple[str, ...]:
    """The symbols of a list with commas."""
    return tuple(name.strip() for name in symbols.split(",") if name.strip())


def period_of(from_: str | None, to: str | None) -> dict[str, Any]:
    """The arguments `from_ns` and `to_ns`, as far as they are given."""
    period = {}
    if from_ is not None:
        period["from_ns"] = time_of(from_, "--from")
    if to is not None:
        period["to_ns"] = time_of(to, "--to")
    return period


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
