"""The kit of options: what means the same is declared once, reads the same, and is checked the same.

Types: `Duration` (ns), `Seconds`, `Share`, `Count`, `CpuList`, `Words`. Options: `JSON`, `JSON_ASIDE`,
`output`, `ALL_USERS`.
How quantities are written and read back is `latlab.words`' business.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab import words
from latlab.cli.kit.offered import offered

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = [
    "ABOVE_ZERO",
    "ALL_USERS",
    "CPUS",
    "DURATION_NS",
    "EFFECT",
    "JSON",
    "JSON_ASIDE",
    "Count",
    "CpuList",
    "Duration",
    "Seconds",
    "Share",
    "Words",
    "json_option",
    "listening",
    "output",
    "renamed",
    "together",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator; the help lists them in this order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def flag(name: str, text: str) -> Decorator:
    """Something that is done, or not."""
    return click.option(name, is_flag=True, help=text)


def json_option(text: str = "Print the result as JSON.") -> Decorator:
    """`--json`, as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help=text)


JSON = json_option()
# Of a command that runs another, whose output would stand within the document.
JSON_ASIDE = json_option("Print the result as JSON; COMMAND's output goes to stderr.")
ABOVE_ZERO = click.FloatRange(min=0, min_open=True)


def listening(port: int, *, token: str, no_token: str) -> Decorator:
    """Where a server listens, and whom it lets in: `--port`, `--address`, `--token`, `--no-token`.

    Args:
        port: by default.
        token, no_token: the help of these two.
    """
    return together(
        click.option("--port", type=click.IntRange(0, 65535), default=port,
                     help="Port to listen on; 0 takes a free one."),
        click.option("--address", default="127.0.0.1", help="Address to listen on."),
        click.option("--token", help=token),
        click.option("--no-token", is_flag=True, help=no_token),
    )  # fmt: skip


def _read_all_users(_ctx: click.Context, _param: click.Parameter, chosen: bool) -> None:
    """Said to the whole process, and to those that it starts: every reader asks."""
    if not chosen:
        return
    if os.geteuid() != 0:
        raise click.UsageError("--all-users is for root: only root can read other users' files")
    os.environ["LATLAB_ALL_USERS"] = "1"


ALL_USERS: Decorator = click.option(
    "--all-users",
    is_flag=True,
    expose_value=False,
    callback=_read_all_users,
    help="As root, read other users' applications, too.",
)


def output(text: str, *, required: bool = False, name: str = "output") -> Decorator:
    """`-o`, `--output`: where the result is kept."""
    path: click.Path[Path] = click.Path(path_type=Path)
    return click.option("-o", "--output", name, type=path, required=required, help=text)


def renamed(new: str, old: str, name: str | None = None, **attributes: Any) -> Decorator:
    """An option by its new name; the `old` spelling works for one release, hidden, and prints a hint.

    Args:
        name: of the parameter; by default the new name's.
    """
    key = f"{__name__}.{new}"

    def remember(ctx: click.Context, _param: click.Parameter, value: Any) -> None:
        if value not in (None, ()):
            click.echo(f"{ctx.command_path}: {old} is now {new}", err=True)
            ctx.meta[key] = value

    def either(ctx: click.Context, _param: click.Parameter, value: Any) -> Any:
        return ctx.meta.get(key, value)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        shared = {one: value for one, value in attributes.items() if one not in ("help", "default")}
        command = click.option(
            old, hidden=True, is_eager=True, expose_value=False, callback=remember, **shared
        )(command)
        return click.option(*((new,) if name is None else (new, name)), callback=either, **attributes)(
            command
        )

    return decorate


class Duration(click.ParamType[int]):
    """A number with a unit, in nanoseconds.

    Args:
        bare: a number without a unit is nanoseconds.
        least: the shortest that is allowed, in ns.
    """

    name = "duration"

    def __init__(self, *, bare: bool = False, least: int = 1) -> None:
        self._bare, self._least = bare, least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Nanoseconds of a text such as 100us."""
        if isinstance(value, int):
            return value
        if self._bare and str(value).strip().isdecimal():
            value = f"{value}ns"
        try:
            ns = words.duration_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if ns < self._least:
            self.fail(f"'{value}' is too short; the least is {words.duration(self._least)}", param, ctx)
        if ns >= 1 << 63:
            self.fail(f"'{value}' is too long", param, ctx)
        return ns


class Seconds(click.ParamType[float]):
    """A time in seconds: 5, 0.5, 5s, 500ms, 2m.

    Args:
        least, most: the bounds, in s; `least` itself is allowed unless it is 0.
        zero: 0 is allowed.
    """

    name = "seconds"

    def __init__(self, least: float = 0.0, most: float = 1e7, *, zero: bool = False) -> None:
        self._least, self._most, self._zero = least, most, zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of a text; a number without a unit is seconds."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        try:
            seconds = words.duration_of(text if text[-1:].isalpha() else f"{text}s") / 1e9
        except ValueError:
            self.fail(f"'{value}' isn't a time; write 5, 5s or 500ms", param, ctx)
        if not self._least <= seconds <= self._most or (seconds == 0 and not self._zero):
            least = "more than 0" if self._least == 0 and not self._zero else f"{self._least:g}"
            self.fail(f"{text} is out of range; it takes {least} to {self._most:,g} seconds", param, ctx)
        return seconds


class Share(click.ParamType[float]):
    """A share: 2% or 0.02.

    Args:
        least, most: the bounds; `zero` says whether 0 itself is allowed.
    """

    name = "share"

    def __init__(self, *, most: float = 1.0, zero: bool = False) -> None:
        self._most, self._zero = most, zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """0.02 of 2%."""
        if isinstance(value, float):
            return value
        try:
            share = words.share_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if share > self._most or (share == 0 and not self._zero):
            bounds = f"{'0' if self._zero else 'above 0'} to {words.share(self._most, digits=0)}"
            self.fail(f"'{value}' is out of range; it takes {bounds}", param, ctx)
        return share


class Count(click.ParamType[int]):
    """A number of things or of bytes: 64, 1k, 1M, 64MiB."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number."""
        if isinstance(value, int):
            return value
        try:
            return words.count_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class CpuList(click.ParamType[tuple[int, ...]]):
    """CPUs as the kernel writes them: 0-3,7 or 0-6:2. One that this machine doesn't run is refused here."""

    name = "cpus"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The CPUs' numbers, ascending."""
        if isinstance(value, tuple):
            return value
        from latlab.errors import UsageError
        from latlab.system.cpus import online_cpus, parse_cpu_list

        try:
            cpus, online = tuple(parse_cpu_list(str(value))), online_cpus()
        except UsageError as error:
            self.fail(str(error), param, ctx)
        if not cpus:
            self.fail("it names no CPU; write for example 0-3,7", param, ctx)
        if absent := sorted(set(cpus) - set(online)):
            missing, there = (", ".join(map(str, some)) for some in (absent[:8], online))
            self.fail(f"this machine runs no CPU {missing}; it runs {there}", param, ctx)
        return cpus

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Every CPU, and all of them."""
        from click.shell_completion import CompletionItem

        from latlab.system.cpus import online_cpus

        before, comma, last = incomplete.rpartition(",")
        online = online_cpus()
        names = [*map(str, online), *([f"{online[0]}-{online[-1]}"] if len(online) > 1 else [])]
        return [CompletionItem(f"{before}{comma}{name}") for name in names if name.startswith(last)]


class Words(click.ParamType[tuple[str, ...]]):
    """Some of these words, with commas between them: typical,mean.

    Args:
        known: which there are, or what finds them, where that takes an import.
        what: what one of them is called.
    """

    name = "words"

    def __init__(self, known: Sequence[str] | Callable[[], Sequence[str]], what: str) -> None:
        self._known, self._what = known, what

    def _words(self) -> Sequence[str]:
        return self._known() if callable(self._known) else self._known

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The words, each once, as they came."""
        if isinstance(value, tuple):
            return value
        given = tuple(dict.fromkeys(one.strip() for one in str(value).split(",") if one.strip()))
        if unknown := [one for one in given if one not in self._words()]:
            known = ", ".join(self._words())
            near = words.nearest(unknown[0], self._words())
            self.fail(f"no {self._what} {unknown[0]}; {near or f'there are {known}'}", param, ctx)
        if not given:
            self.fail(f"it names no {self._what}; there are {', '.join(self._words())}", param, ctx)
        return given

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The words that aren't given yet."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(one) for one in offered(self._words, listed=True)(ctx, param, incomplete)]


DURATION_NS = Duration()
EFFECT = Share(most=10.0, zero=True)
CPUS = CpuList()
