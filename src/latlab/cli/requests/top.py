"""`latlab requests top`: a server's requests now, one look after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from latlab.cli.kit.options import DURATION_NS, JSON
from latlab.errors import InputError, UsageError

if TYPE_CHECKING:
    from latlab.model.requests import Requests


@click.command()
@click.option(
    "--pid",
    type=click.IntRange(1),
    required=True,
    help="Process id of a running server; its children are included.",
)
@click.option("--period", type=DURATION_NS, default="2s", help="Duration of each observation.")
@click.option("--count", type=click.IntRange(min=1), help="End after this number of observations.")
@JSON
def top(pid: int, period: int, count: int | None, as_json: bool) -> None:
    """Show the requests of a running server live: percentiles, kinds, where the slow ones spend their time.

    Each look observes the server anew, for --period; requests between two looks are not seen. Ends with the
    server. With --json each look is one line.
    """
    from latlab.requests import record

    if not as_json and not sys.stdout.isatty():
        raise UsageError(
            "'latlab requests top' needs a terminal", remedy="use --json, or latlab requests record"
        )
    said = 0
    with _screen(as_json) as show:
        while count is None or said < count:
            try:
                _, result = record([pid], (), period / 1e9, stacks=False)
            except InputError:
                if said:
                    return  # the server has ended between two looks
                raise
            said += 1
            show(result)


def _screen(as_json: bool) -> AbstractContextManager[Callable[[Requests], None]]:
    if as_json:
        from latlab.reports.json import dumps

        return nullcontext(lambda result: click.echo(dumps(result.to_json())))
    from latlab.live.requests_top import screen

    return screen()
