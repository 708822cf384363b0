"""`latlab dashboard`: an application's queues and stages in a browser, live."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING

import click

from latlab.cli.kit.offered import APPLICATIONS
from latlab.cli.kit.options import ALL_USERS, Duration, listening
from latlab.cli.queues.live import is_local, one_thread_for_algebra
from latlab.cli.queues.observe import targets
from latlab.errors import UsageError

if TYPE_CHECKING:
    from latlab.queues import Application


def title(target: Sequence[str], known: Sequence[Application]) -> str:
    """What the page is called: the applications' names, with the process id beside where one was given."""
    names = {str(one.pid): one.application for one in known if one.live and one.application}
    return ", ".join(f"{names[text]} ({text})" if text in names else text for text in target)


@click.command()
@click.argument("target", nargs=-1, required=True, shell_complete=APPLICATIONS)
@listening(
    8765,
    token="Token that a browser must send [default: random].",
    no_token="Let every user of this machine see it.",
)
@click.option("--period", type=Duration(least=20_000_000), default="100ms", help="Time between two updates.")
@ALL_USERS
@click.option("--exclude", multiple=True, metavar="QUEUE", help="Leave this queue out; repeatable.")
def dashboard(
    target: tuple[str, ...],
    port: int,
    address: str,
    token: str | None,
    no_token: bool,
    period: int,
    exclude: tuple[str, ...],
) -> None:
    """Show TARGET (process ids or application names) in a browser: topology, fills, rates, what limits."""
    one_thread_for_algebra()
    from latlab.live.access import link, new_token
    from latlab.live.dashboard import Dashboard
    from latlab.queues import Happenings, Live, applications

    if no_token and (token is not None or not is_local(address)):
        raise UsageError("--no-token is allowed on loopback addresses only", remedy="leave out --no-token")
    if token is None and not no_token:
        token = new_token()
    with Live(targets(target), exclude=exclude, period_ns=10_000_000, every_seconds=3.0) as live:
        try:
            page = Dashboard(
                live,
                Happenings().feed,
                title(target, applications()),
                per_second=1e9 / period,
                address=address,
                port=port,
                token=token,
            )
        except OSError as error:
            raise UsageError(
                f"can't listen on {address}:{port}: {error.strerror}", remedy="choose another --port, or 0"
            ) from None

        def end(_number: int, _frame: FrameType | None) -> None:
            page.stop()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        click.echo(link(address, page.port, "/", token), err=True)
        page.run()
