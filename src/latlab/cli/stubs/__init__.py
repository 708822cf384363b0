"""`latlab stubs`: what would be gained by making a part faster."""

from __future__ import annotations

from latlab.cli.kit.lazy import lazy_group


# Each module of latlab.cli with its commands and their help: nothing is imported before it is called.
@lazy_group(
    {
        "stubs.capture": {
            "capture": "Follow a real program and derive its action files.",
            "emit": "Write action files as a C++ or Python program.",
        },
        "stubs.machine": {
            "calibrate": "Measure how exactly this machine's stubs hold their times.",
            "load": "Run a command while CPUs, memory or the disk are loaded.",
        },
        "stubs.study": {
            "decode": "Print a trace as text.",
            "record": "Record a component's results into a trace.",
            "replay": "Run a command with recorded results in a component's place.",
            "spec": "Write the serialisation of a C++ class.",
            "study": "Forecast what a faster component would gain.",
            "validate": "Check that a component is deterministic and its stub passes the tests.",
        },
        "stubs.timeline": {
            "compare": "Compare two timelines: the error of each thread.",
            "edit": "Make one thread of the action files faster, slower or idle.",
            "play": "Re-execute action files with real threads.",
        },
    }
)
def stubs() -> None:
    """Forecast what a faster part would gain, with performance stubs."""
