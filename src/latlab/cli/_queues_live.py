"""`latlab queues watch` and `latlab queues serve`: what an application does now."""

from __future__ import annotations

import json
import sys
import threading
import time

import click

from latlab.cli._durations import DURATION_NS
from latlab.cli._queues_observe import targets


@click.command("watch")
@click.argument("target", nargs=-1, required=True)
@click.option("--period", type=DURATION_NS, default="1s", show_default=True, help="Between two reports.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many reports.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document a line.")
def watch_(target: tuple[str, ...], period: int, count: int | None, as_json: bool) -> None:
    """Stream what the queues of TARGET do: fills, rates, drops. Ends with the application."""
    from latlab.queues import attach

    attachment = attach(targets(target))
    said = 0
    while attachment.alive:
        snapshot = attachment.look()
        if said > 0 or as_json:
            if as_json:
                print(json.dumps(snapshot.to_json()))
            else:
                for queue in snapshot.queues:
                    of = f"/{queue.capacity}" if queue.capacity else ""
                    fill = f"{queue.fill_high}{of}"
                    print(
                        f"{queue.name or queue.number:<24} {queue.source} → {queue.drain}  {fill}  "
                        f"{queue.rate_in_hz:.0f}/s in, {queue.rate_out_hz:.0f}/s out, {queue.dropped} dropped"
                    )
            sys.stdout.flush()
        said += 1
        if count is not None and said >= count:
            return
        time.sleep(period / 1e9)


@click.command("serve")
@click.argument("target", nargs=-1, required=True)
@click.option("--port", type=click.IntRange(0, 65535), default=9464, show_default=True)
@click.option("--address", default="127.0.0.1", show_default=True)
@click.option("--most-series", type=click.IntRange(min=1), default=2000, show_default=True,
              help="Queues beyond this many series are left out, and counted.")  # fmt: skip
def serve_(target: tuple[str, ...], port: int, address: str, most_series: int) -> None:
    """Serve the queues of TARGET to Prometheus, until interrupted."""
    from latlab.queues import attach
    from latlab.reports.queues_prometheus import serve

    server = serve(attach(targets(target)), address, port, most_series)
    click.echo(f"serving http://{address}:{server.server_address[1]}/metrics", err=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        threading.Event().wait()
    finally:
        server.shutdown()
