"""`latlab queues`: observe any application's queues, and name what limits it."""

from __future__ import annotations

import click

from latlab.cli._lazy import LazyGroup

# Each subcommand's module in latlab.cli, and its help: nothing is imported before it is called.
SUBCOMMANDS = {
    "analyse": ("_queues_analyse", "Name what limits the application that was recorded."),
    "compare": ("_queues_report", "Two recordings side by side."),
    "report": ("_queues_report", "An HTML page of a recording, with its plots."),
    "tail": ("_queues_tail", "The slowest traced events: where each waited, and for what."),
    "model": ("_queues_model", "Fit a queueing model to a recording."),
    "simulate": ("_queues_model", "Forecast throughput and waiting times from a model."),
    "export": ("_queues_export", "Write a recording for another tool: CSV, gnuplot, Perfetto, Graphviz …"),
    "list": ("_queues_observe", "Applications that publish counters, live or dead."),
    "overhead": ("_queues_overhead", "What observing costs: the demo pipeline unobserved and observed."),
    "record": ("_queues_observe", "Record an application's queues from outside."),
    "serve": ("_queues_live", "Serve an application's queues to Prometheus."),
    "top": ("_queues_live", "Show an application's stages and queues live, with what limits it."),
    "verify": ("_queues_verify", "Hold samples against event traces: the proof."),
    "watch": ("_queues_live", "Stream what an application's queues do now."),
}


class QueuesGroup(LazyGroup):
    """The subcommands of `latlab queues`."""

    subcommands = SUBCOMMANDS


@click.group(cls=QueuesGroup)
def queues() -> None:
    """Observe any application's queues live, and name what limits it."""
