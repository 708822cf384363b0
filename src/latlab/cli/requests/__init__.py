"""`latlab requests`: every request of a server that nobody prepared, and where the slow ones wait."""

from __future__ import annotations

from typing import Any

import click

from latlab.cli.kit.lazy import LazyGroup

SUBCOMMANDS = {
    "record": (
        "requests.record",
        "Observe a server's requests, and say where the slow ones spend their time.",
    ),
    "compare": ("requests.record", "Judge recordings after a change against those before it."),
    "top": ("requests.top", "Show a running server's requests live."),
    "show": ("requests.record", "Print a recording of requests again."),
}


@click.group(cls=LazyGroup, subcommands=SUBCOMMANDS)
def requests(**_: Any) -> None:
    """Find where a server's slow requests spend their time, without changing it."""
