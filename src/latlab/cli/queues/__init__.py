"""`latlab queues`: observe any application's queues, and name what limits it."""

from __future__ import annotations

import click

from latlab.cli.kit.lazy import LazyGroup

# Each subcommand's module in latlab.cli, and its help: nothing is imported before it is called.
SUBCOMMANDS = {
    "analyse": ("queues.analyse", "Name what limits the application that was recorded."),
    "compare": ("queues.report", "Two recordings side by side."),
    "report": ("queues.report", "An HTML page of a recording, with its plots."),
    "tail": ("queues.tail", "The slowest traced events: where each waited, and for what."),
    "model": ("queues.model", "Fit a queueing model to a recording."),
    "simulate": ("queues.model", "Forecast throughput and waiting times from a model."),
    "export": ("queues.export", "Write a recording for another tool: CSV, gnuplot, Perfetto, Graphviz …"),
    "list": ("queues.observe", "Applications that publish counters, live or dead."),
    "overhead": ("queues.overhead", "What observing costs: the demo pipeline unobserved and observed."),
    "record": ("queues.observe", "Record an application's queues from outside."),
    "serve": ("queues.live", "Serve an application's queues to Prometheus."),
    "top": ("queues.live", "Show an application's stages and queues live, with what limits it."),
    "verify": ("queues.verify", "Hold samples against event traces: the proof."),
    "watch": ("queues.live", "Stream what an application's queues do now."),
}


class QueuesGroup(LazyGroup):
    """The subcommands of `latlab queues`."""

    subcommands = SUBCOMMANDS


@click.group(cls=QueuesGroup)
def queues() -> None:
    """Observe any application's queues live, and name what limits it."""
