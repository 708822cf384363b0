"""`latlab bench`: microbenchmarks with a verdict that can be audited."""

from __future__ import annotations

from typing import Any

import click

from latlab.cli.kit.lazy import LazyGroup, by_name

# Each module of latlab.cli with its commands and their help: nothing is imported before it is called.
SUBCOMMANDS = by_name(
    {
        "bench.ab": {
            "aa": "Compare a fixture with itself: how often this host reports a false difference.",
            "ab": "Compare two fixtures or commands in interleaved process pairs.",
        },
        "bench.compare": {
            "accept": "Accept a level that `bench history` calls slower.",
            "compare": "Judge results of latlab, pyperf, Google Benchmark, hyperfine, pytest-benchmark.",
            "history": "Find the changes of level in a series of results.",
        },
        "bench.rev": {
            "rev": "Compare two revisions: a worktree and a build each, interleaved.",
        },
        "bench.run": {
            "command": "Measure a command; the same as `latlab bench -- CMD`.",
            "run": "Measure the fixtures of a file.",
        },
        "bench.study": {
            "study": "Find the conditions under which this machine's times scatter least.",
        },
    }
)


class BenchGroup(LazyGroup):
    """Takes what follows `--` without a subcommand for a command to measure."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`latlab bench [run] [OPTIONS] -- CMD` is `latlab bench command [OPTIONS] -- CMD`."""
        if "--" in args and args[0].startswith("-"):
            args = ["command", *args]
        elif args[:1] == ["run"] and "--" in args[1:-1]:
            args = ["command", *args[1:]]
        return super().parse_args(ctx, args)


@click.group(cls=BenchGroup, subcommands=SUBCOMMANDS)
def bench(**_: Any) -> None:
    """Measure code, and tell whether a change made it faster."""
