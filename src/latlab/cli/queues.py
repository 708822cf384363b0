"""`latlab queues`: observe any application's queues, and name what limits it."""

from __future__ import annotations

import importlib

import click

# Each subcommand's module in latlab.cli, and its help: nothing is imported before it is called.
SUBCOMMANDS = {
    "analyse": ("_queues_analyse", "Name what limits the application that was recorded."),
    "export": ("_queues_export", "Write a recording for another tool: CSV, gnuplot, Perfetto, Graphviz …"),
    "list": ("_queues_observe", "Applications that publish counters, live or dead."),
    "record": ("_queues_observe", "Record an application's queues from outside."),
    "serve": ("_queues_live", "Serve an application's queues to Prometheus."),
    "top": ("_queues_live", "Show an application's stages and queues live, with what limits it."),
    "verify": ("_queues_verify", "Hold samples against event traces: the proof."),
    "watch": ("_queues_live", "Stream what an application's queues do now."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        module = importlib.import_module(f"latlab.cli.{SUBCOMMANDS[cmd_name][0]}")
        command = getattr(module, f"{cmd_name}_")
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in SUBCOMMANDS.items()])


@click.group(cls=_Lazy)
def queues() -> None:
    """Observe any application's queues live, and name what limits it."""
