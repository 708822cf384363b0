"""`latlab queues`: observe any application's queues, and name what limits it."""

from __future__ import annotations

from latlab.cli.kit.lazy import lazy_group


# Each module of latlab.cli with its commands and their help: nothing is imported before it is called.
@lazy_group(
    {
        "queues.analyse": {
            "analyse": "Name the bottleneck of a recorded application.",
        },
        "queues.export": {
            "export": "Write a recording for another tool: CSV, gnuplot, Perfetto, Graphviz …",
        },
        "queues.live": {
            "serve": "Serve an application's queues to Prometheus.",
            "top": "Show an application's stages and queues live, with what limits it.",
            "watch": "Stream what an application's queues do now.",
        },
        "queues.model": {
            "model": "Fit a queueing model to a recording.",
            "simulate": "Forecast throughput and waiting times from a model.",
        },
        "queues.observe": {
            "list": "List applications that publish counters, live or dead.",
            "record": "Record an application's queues from outside.",
        },
        "queues.overhead": {
            "overhead": "Measure what observing costs: the demo pipeline unobserved and observed.",
        },
        "queues.report": {
            "compare": "Compare two recordings.",
            "report": "Write an HTML page of a recording, with its plots.",
        },
        "queues.tail": {
            "tail": "Show the slowest traced events: where each waited, and for what.",
        },
        "queues.verify": {
            "verify": "Check samples against event traces.",
        },
    }
)
def queues() -> None:
    """Observe any application's queues live, and name what limits it."""
