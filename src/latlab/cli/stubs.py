"""`latlab stubs`: what would be gained by making a part faster."""

from __future__ import annotations

import click

from latlab.cli._lazy import LazyGroup

# One line a subcommand: the module of latlab.cli with a click command of that name, and its help.
SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "calibrate": ("_stubs_machine", "What this machine's stubs can hold: requested against achieved."),
    "capture": ("_stubs_capture", "Follow a real program and derive its action files."),
    "compare": ("_stubs_timeline", "Two timelines, and the error of each thread."),
    "edit": ("_stubs_timeline", "Make one thread of the action files faster, slower or idle."),
    "emit": ("_stubs_capture", "Write action files as a C++ or Python program."),
    "decode": ("_stubs_study", "Print a trace as text."),
    "load": ("_stubs_machine", "Run a command while CPUs, memory or the disk are loaded."),
    "play": ("_stubs_timeline", "Re-execute action files with real threads."),
    "record": ("_stubs_study", "Record a component's results into a trace."),
    "replay": ("_stubs_study", "Run a command with recorded results in a component's place."),
    "spec": ("_stubs_study", "Write the serialisation of a C++ class."),
    "study": ("_stubs_study", "Forecast what a faster component buys."),
    "validate": ("_stubs_study", "Is the component deterministic, and does its stub pass the tests?"),
}


class StubsGroup(LazyGroup):
    """The subcommands of `latlab stubs`."""

    subcommands = SUBCOMMANDS


@click.group(cls=StubsGroup)
def stubs() -> None:
    """What would I gain if this part were faster?"""
