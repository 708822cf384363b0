"""What the commands that read a recording of queues take: RUN and `--exclude`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from latlab.model.queues.observation import Observation

EXCLUDE = click.option("--exclude", multiple=True, metavar="QUEUE", help="Leave this queue out; repeatable.")


def on_run(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command on a recorded RUN, some of whose queues may be left out."""
    run = click.argument("run", type=click.Path(path_type=Path))
    return lambda function: click.command(name)(run(EXCLUDE(function)))


def tell_unknown(observations: Iterable[Observation], exclude: tuple[str, ...]) -> None:
    """Say on stderr what is to be left out and was never there: a name that is mistyped."""
    known = {queue.name for observation in observations for queue in observation.queues}
    for name in exclude:
        if name not in known:
            click.echo(f"latlab: --exclude {name}: there is no such queue", err=True)
