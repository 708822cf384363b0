"""`latlab bench`: microbenchmarks with a verdict that can be audited."""

from __future__ import annotations

import importlib
from typing import Any

import click

# Where each subcommand lives, and its help, so that `latlab bench --help` imports none of them.
SUBCOMMANDS = {
    "aa": ("_bench_ab", "Compare a fixture with itself: how often does this host cry wolf?"),
    "ab": ("_bench_ab", "Compare two fixtures or commands in interleaved process pairs."),
    "compare": (
        "_bench_compare",
        "Judge results of latlab, pyperf, Google Benchmark, hyperfine, pytest-benchmark.",
    ),
    "command": ("_bench_run", "Measure a command; the same as `latlab bench -- CMD`."),
    "history": ("_bench_compare", "Find the changes of level in a series of results."),
    "run": ("_bench_run", "Measure the fixtures of a file."),
    "study": ("_bench_study", "Under which conditions do this machine's times scatter least?"),
}


class BenchGroup(click.Group):
    """Finds subcommands lazily, and takes what follows `--` without one for a command to measure."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every subcommand."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a subcommand's module."""
        if cmd_name not in SUBCOMMANDS:
            return None
        module = importlib.import_module(f"latlab.cli.{SUBCOMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the subcommands from the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in SUBCOMMANDS.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`latlab bench [OPTIONS] -- CMD` is `latlab bench command [OPTIONS] -- CMD`."""
        if "--" in args and args[0].startswith("-"):
            args = ["command", *args]
        return super().parse_args(ctx, args)


@click.group(cls=BenchGroup)
def bench(**_: Any) -> None:
    """How fast is this piece of code, and did my change help?"""
