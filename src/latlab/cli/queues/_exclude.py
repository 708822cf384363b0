"""`--exclude` of the commands that read a recording of queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from latlab.model.queues.observation import Observation

EXCLUDE = click.option("--exclude", multiple=True, metavar="QUEUE", help="Leave this queue out; repeatable.")


def tell_unknown(observations: Iterable[Observation], exclude: tuple[str, ...]) -> None:
    """Say on stderr what is to be left out and was never there: a name that is mistyped."""
    known = {queue.name for observation in observations for queue in observation.queues}
    for name in exclude:
        if name not in known:
            click.echo(f"latlab: --exclude {name}: there is no such queue", err=True)
