"""`latlab queues`: observe any application's queues, and name what limits it."""

from __future__ import annotations

import click

from latlab.cli.kit.lazy import LazyGroup

# Each subcommand's module in latlab.cli, and its help: nothing is imported before it is called.
SUBCOMMANDS = {
    "analyse": ("queues.analyse", "Name the bottleneck of a recorded application."),
    "compare": ("queues.report", "Compare two recordings."),
    "report": ("queues.report", "Write an HTML page of a recording, with its plots."),
    "tail": ("queues.tail", "Show the slowest traced events: where each waited, and for what."),
    "model": ("queues.model", "Fit a queueing model to a recording."),
    "simulate": ("queues.model", "Forecast throughput and waiting times from a model."),
    "export": ("queues.export", "Write a recording for another tool: CSV, gnuplot, Perfetto, Graphviz …"),
    "list": ("queues.observe", "List applications that publish counters, live or dead."),
    "overhead": (
        "queues.overhead",
        "Measure what observing costs: the demo pipeline unobserved and observed.",
    ),
    "record": ("queues.observe", "Record an application's queues from outside."),
    "serve": ("queues.live", "Serve an application's queues to Prometheus."),
    "top": ("queues.live", "Show an application's stages and queues live, with what limits it."),
    "verify": ("queues.verify", "Check samples against event traces."),
    "watch": ("queues.live", "Stream what an application's queues do now."),
}


@click.group(cls=LazyGroup, subcommands=SUBCOMMANDS)
def queues() -> None:
    """Observe any application's queues live, and name what limits it."""
