"""What a shell is offered for a value that no fixed choice lists: what this machine, or another room, knows.

A shell asks at every press of its key, and shows what we print: whatever fails offers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import click

from latlab.errors import LatlabError

__all__ = ["APPLICATIONS", "TRANSPORTS", "Offer", "offered"]

Offer = Callable[[click.Context, click.Parameter, str], list[str]]


def offered(names: Callable[[], Iterable[str]] | Sequence[str], *, listed: bool = False) -> Offer:
    """The `shell_complete` of an option whose values are these names.

    Args:
        listed: several may be given with commas between them; the last one is completed.
    """

    def offer(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",") if listed else ("", "", incomplete)
        try:
            known = list(names() if callable(names) else names)
        except (LatlabError, OSError, ImportError):
            return []
        given = before.split(",")
        return [f"{before}{comma}{name}" for name in known if name.startswith(last) and name not in given]

    return offer


def _living() -> list[str]:
    from latlab.queues import applications

    return sorted({one.application for one in applications() if one.live and one.application})


def _known() -> list[str]:
    from latlab.messaging import every_transport

    return list(every_transport())


APPLICATIONS: Offer = offered(_living)  # those that publish their queues now

TRANSPORTS: Offer = offered(_known)  # installed or not
