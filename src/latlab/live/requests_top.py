"""A server's requests on a terminal, redrawn in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from latlab.model.requests import Requests
from latlab.reports.requests.text import requests_lines

__all__ = ["screen"]


@contextmanager
def screen(console: Console | None = None) -> Iterator[Callable[[Requests], None]]:
    """A function that shows the requests of one look in place of those before."""
    with Live(
        Text("Observing the first requests …"), console=console, auto_refresh=False, screen=console is None
    ) as live:

        def show(found: Requests) -> None:
            unsure = [f"Not trustworthy: {reason}." for reason in found.distrust]
            live.update(Text("\n".join((*requests_lines(found), *unsure))), refresh=True)

        yield show
