"""`latlab stubs`: what would be gained by making a part faster."""

from __future__ import annotations

import click

from latlab.cli.kit.lazy import LazyGroup

# One line a subcommand: the module of latlab.cli with a click command of that name, and its help.
SUBCOMMANDS = {
    "calibrate": ("stubs.machine", "Measure how exactly this machine's stubs hold their times."),
    "capture": ("stubs.capture", "Follow a real program and derive its action files."),
    "compare": ("stubs.timeline", "Compare two timelines: the error of each thread."),
    "edit": ("stubs.timeline", "Make one thread of the action files faster, slower or idle."),
    "emit": ("stubs.capture", "Write action files as a C++ or Python program."),
    "decode": ("stubs.study", "Print a trace as text."),
    "load": ("stubs.machine", "Run a command while CPUs, memory or the disk are loaded."),
    "play": ("stubs.timeline", "Re-execute action files with real threads."),
    "record": ("stubs.study", "Record a component's results into a trace."),
    "replay": ("stubs.study", "Run a command with recorded results in a component's place."),
    "spec": ("stubs.study", "Write the serialisation of a C++ class."),
    "study": ("stubs.study", "Forecast what a faster component would gain."),
    "validate": ("stubs.study", "Check that a component is deterministic and its stub passes the tests."),
}


@click.group(cls=LazyGroup, subcommands=SUBCOMMANDS)
def stubs() -> None:
    """Forecast what a faster part would gain, with performance stubs."""
