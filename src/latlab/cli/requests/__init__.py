"""`latlab requests`: every request of a server that nobody prepared, and where the slow ones wait."""

from __future__ import annotations

from typing import Any

from latlab.cli.kit.lazy import lazy_group


# Each module of latlab.cli with its commands and their help: nothing is imported before it is called.
@lazy_group(
    {
        "requests.record": {
            "compare": "Judge recordings after a change against those before it.",
            "record": "Observe a server's requests, and say where the slow ones spend their time.",
            "show": "Print a recording of requests again.",
        },
        "requests.top": {
            "top": "Show a running server's requests live.",
        },
    }
)
def requests(**_: Any) -> None:
    """Find where a server's slow requests spend their time, without changing it."""
