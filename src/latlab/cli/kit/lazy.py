"""A command group whose commands are imported when they are called, and not before."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

import click

from latlab.cli.kit.numbers import with_numbers
from latlab.cli.kit.progress import with_verbosity
from latlab.words import nearest

__all__ = ["LazyGroup", "SuggestingGroup", "by_name", "lazy_group"]


def by_name(modules: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, str]]:
    """The table of a group, in the order of the names, from its modules' commands and their help."""
    named = {name: (module, text) for module, texts in modules.items() for name, text in texts.items()}
    return dict(sorted(named.items()))


def _fitted(command: click.Command) -> click.Command:
    """The command with what all have: -q and -v, checked numbers, and defaults that its help shows."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.show_default is None:
            parameter.show_default = True
    return with_numbers(with_verbosity(command))


class SuggestingGroup(click.Group):
    """A group that names the nearest command for one that it doesn't know."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a hint; `help COMMAND` is `COMMAND --help`."""
        if args[:1] == ["help"]:  # as git, go and cargo have it: help [COMMAND]
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        name, known = args[0] if args else "", self.list_commands(ctx)
        if name and name not in known and not name.startswith("-"):
            said = "; ".join(filter(None, (f"unknown command '{name}'", nearest(name, known))))
            raise click.UsageError(said, ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """As click does, with the options that every command has."""
        command = super().get_command(ctx, cmd_name)
        return None if command is None else _fitted(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does, with the whole first sentence of each: cut short, it says half of what it should."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, one.get_short_help_str(1000)) for name, one in found if one is not None]
            )


class LazyGroup(SuggestingGroup):
    """Finds commands by a table, so that the group's help imports none of them.

    Args:
        subcommands: for each name the module of `latlab.cli` that holds a click command of that name (with
            an underscore behind it where the name alone would hide a builtin), and its help.
        attributes: as for a click group.
    """

    def __init__(self, *, subcommands: Mapping[str, tuple[str, str]], **attributes: Any) -> None:
        super().__init__(**attributes)
        self.subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command's name, in the order of the table."""
        return list(self.subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module, or say that there is no such command."""
        if cmd_name not in self.subcommands:
            return None
        module = importlib.import_module(f"latlab.cli.{self.subcommands[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return _fitted(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.subcommands.items()])


def lazy_group(modules: Mapping[str, Mapping[str, str]]) -> Callable[[Callable[..., Any]], click.Group]:
    """A group of the commands of these modules, as `by_name` takes them."""
    return click.group(cls=LazyGroup, subcommands=by_name(modules))
