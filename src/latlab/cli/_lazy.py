"""A command group whose subcommands are imported when they are called, and not before."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """Finds subcommands by a table, so that the group's help imports none of them.

    A subclass sets `subcommands`: for each name the module of `latlab.cli` that holds a click command of
    that name (with an underscore behind it where the name alone would hide a builtin), and its help.
    """

    subcommands: Mapping[str, tuple[str, str]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every subcommand's name, in the order of the table."""
        return list(self.subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the subcommand's module, or say that there is no such subcommand."""
        if cmd_name not in self.subcommands:
            return None
        module = importlib.import_module(f"latlab.cli.{self.subcommands[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_", None) or getattr(module, cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.subcommands.items()])
