"""`latlab queues top`, `watch` and `serve`: what an application does now."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import TYPE_CHECKING

import click

from latlab.cli.kit.offered import APPLICATIONS
from latlab.cli.kit.options import ALL_USERS, DURATION_NS, listening
from latlab.cli.kit.progress import say
from latlab.cli.queues._exclude import EXCLUDE
from latlab.cli.queues.observe import targets
from latlab.errors import MissingExtraError, UsageError
from latlab.reports.json import dumps
from latlab.words import duration, number, share, size

if TYPE_CHECKING:
    from latlab.model.queues.live import Snapshot
    from latlab.queues import Attachment


def is_local(address: str) -> bool:
    """Whether only programs of this machine can connect to an address."""
    return address in ("127.0.0.1", "localhost", "::1")


def one_thread_for_algebra() -> None:
    """Say, before numpy is loaded, that its matrix products need no thread of their own.

    OpenBLAS's threads spin for a while after each product: for as long again as a judgement takes, on a core
    that the observed application may need. The variable is read once, when the library is loaded.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@click.command("top")
@click.argument("target", nargs=-1, required=True, shell_complete=APPLICATIONS)
@click.option("--period", type=DURATION_NS, default="1s", help="Time between two updates.")
@EXCLUDE
@ALL_USERS
def top_(target: tuple[str, ...], period: int, exclude: tuple[str, ...]) -> None:
    """Show the stages and queues of TARGET live: fills, rates, what limits; Enter shows one queue."""
    if not sys.stdout.isatty():
        raise UsageError("'latlab queues top' needs a terminal", remedy="use 'latlab queues watch'")
    one_thread_for_algebra()
    try:
        from latlab.live.queues_top import Top
    except ModuleNotFoundError as error:
        raise MissingExtraError("textual", "tui") from error
    from latlab.queues import Live

    with Live(targets(target), exclude=exclude) as live:
        Top(live, period_seconds=period / 1e9, title=" ".join(target)).run()


@click.command("watch")
@click.argument("target", nargs=-1, required=True, shell_complete=APPLICATIONS)
@click.option("--period", type=DURATION_NS, default="1s", help="Time between two reports.")
@click.option("--count", type=click.IntRange(min=1), help="End after this number of reports.")
@EXCLUDE
@ALL_USERS
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, one document a line.")
def watch_(
    target: tuple[str, ...], period: int, count: int | None, exclude: tuple[str, ...], as_json: bool
) -> None:
    """Stream what the queues of TARGET do: fills, rates, drops, what limits. Ends with the application."""
    one_thread_for_algebra()
    from latlab.queues import Live

    with Live(targets(target), exclude=exclude) as live:
        said = 0
        while live.alive:
            snapshot = live.look()
            if said > 0 or as_json:
                _say(snapshot, as_json)
            said += 1
            if count is not None and said >= count:
                return
            time.sleep(period / 1e9)


def _say(snapshot: Snapshot, as_json: bool) -> None:
    if as_json:
        print(dumps(snapshot.to_json()))
    else:
        if snapshot.limiting_stage is not None:
            print(
                f"Bottleneck: {snapshot.limiting_stage} (confidence {share(snapshot.confidence, digits=0)})"
            )
        for queue in snapshot.queues:
            of = f"/{queue.capacity}" if queue.capacity else ""
            rates = f"{number(queue.rate_in_hz)}/s in, {number(queue.rate_out_hz)}/s out, "
            filled = f"{queue.fill_high}{of}"
            if queue.kind == "socket":
                filled, rates = f"{size(queue.fill_high)} of {size(queue.capacity)}", ""
            print(
                f"{queue.name or queue.number:<24} {queue.source} → {queue.drain}  {filled}  "
                f"{rates}{queue.dropped} dropped"
            )
    sys.stdout.flush()


@click.command("serve")
@click.argument("target", nargs=-1, required=True, shell_complete=APPLICATIONS)
@listening(
    9464,
    token="Token that a scrape must send [default: random].",
    no_token="Let every user of this machine read it.",
)
@click.option("--otlp", metavar="URL", help="Send to this OpenTelemetry collector instead of serving.")
@click.option("--period", type=DURATION_NS, default="10s", help="With --otlp: time between two exports.")
@click.option("--most-series", type=click.IntRange(min=1), default=2000,
              help="Largest number of series; queues beyond it are left out and counted.")  # fmt: skip
@EXCLUDE
@ALL_USERS
def serve_(
    target: tuple[str, ...],
    port: int,
    address: str,
    token: str | None,
    no_token: bool,
    otlp: str | None,
    period: int,
    most_series: int,
    exclude: tuple[str, ...],
) -> None:
    """Serve the queues of TARGET to Prometheus, or send them to an OpenTelemetry collector.

    A scrape brings the token: `authorization: {credentials: TOKEN}` in Prometheus' scrape_config.
    """
    from latlab.queues import Attachment

    if no_token and (token is not None or not is_local(address)):
        raise UsageError("--no-token is allowed on loopback addresses only", remedy="leave out --no-token")
    attachment = Attachment(targets(target), exclude=exclude)
    if otlp is not None:
        _send(attachment, otlp, period, most_series)
        return
    from latlab.live.access import link, new_token
    from latlab.live.prometheus import serve

    if token is None and not no_token:
        token = new_token()
    try:
        server = serve(attachment, address, port, most_series, token)
    except OSError as error:
        raise UsageError(
            f"can't listen on {address}:{port}: {error.strerror}", remedy="choose another --port, or 0"
        ) from None
    server.start()
    click.echo(f"serving {link(address, server.port, '/metrics', token)}", err=True)
    try:
        threading.Event().wait()
    finally:
        server.stop()


def _send(attachment: Attachment, url: str, period: int, most_series: int) -> None:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    except ModuleNotFoundError as error:
        raise MissingExtraError("opentelemetry", "export") from error
    from latlab.live.opentelemetry import instruments

    reader = PeriodicExportingMetricReader(OTLPMetricExporter(url), export_interval_millis=period / 1e6)
    provider = MeterProvider([reader])
    instruments(provider.get_meter("latlab.queues"), attachment, most_series=most_series)
    say(f"sending to {url} every {duration(period)}")
    try:
        while attachment.alive:
            time.sleep(min(1.0, period / 1e9))
    finally:
        provider.shutdown()
