"""`latlab market generate, replay, receive`: feeds made, sent and taken."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from latlab import words
from latlab.cli.kit.options import ABOVE_ZERO, Seconds, Share, output
from latlab.cli.kit.progress import say
from latlab.cli.market._options import FILE, JSON, OUTPUT, conclude
from latlab.errors import ExitCode, UsageError
from latlab.reports.json import dumps
from latlab.words import plural

if TYPE_CHECKING:
    from latlab.model.market import Census

_LATE_NS = 100_000  # of p99, from which on the machine's own stillness is told beside it


@click.command()
@click.option("--seed", default=1, help="Seed of the generator.")
@click.option("--messages", type=click.IntRange(min=1), default=1_000_000, help="Number of messages.")
@click.option("--symbols", type=click.IntRange(1, 60_000), default=500, help="Largest number of symbols.")
@OUTPUT
@JSON
def generate(seed: int, messages: int, symbols: int, output: Path, as_json: bool) -> int:
    """Write a deterministic ITCH-5.0 day with the character of the real feed (*.gz, *.zst: compressed)."""
    from latlab.market import generate as write

    size = write(output, seed=seed, messages=messages, symbols=symbols)
    if as_json:
        document = {"schema": 1, "output": str(output), "messages": messages, "bytes": size, "seed": seed}
        click.echo(dumps(document), err=str(output) == "-")
    say(f"latlab: wrote {messages:,} messages ({plural(size, 'byte')}) to {output}")
    return ExitCode.OK


@click.command()
@FILE
@click.option(
    "--to", "to_", required=True, help="Target: udp://HOST:PORT[,HOST:PORT], tcp://HOST:PORT or a file."
)
@click.option("--requests", help="HOST:PORT of the retransmission server (udp).")
@click.option(
    "--linger",
    type=Seconds(zero=True),
    default=1.0,
    help="Seconds to answer requests after the last message.",
)
@click.option("--fixed", type=click.FloatRange(min=0), help="Microseconds between messages.")
@click.option("--burst", help="B:US: B messages every US microseconds.")
@click.option("--speed", type=ABOVE_ZERO, help="Keep the feed's own timing, this many times faster.")
@click.option(
    "--loss", type=Share(zero=True), default=0.0, show_default=False,
    help="Share of messages dropped on purpose.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=False, help="Seed of the losses.")
@click.option("--messages", type=click.IntRange(min=1), help="Stop after this number of messages.")
@JSON
def replay(
    file: Path | str,
    to_: str,
    requests: str | None,
    linger: float,
    fixed: float | None,
    burst: str | None,
    speed: float | None,
    loss: float,
    seed: int,
    messages: int | None,
    as_json: bool,
) -> int:
    """Send the messages of FILE, ITCH or binary PITCH, at planned times, and report how late they went."""
    from dataclasses import asdict

    from latlab.market import MoldTarget, RequestServer, guard, host_and_port, machine_floor_ns, target_of
    from latlab.market import replay as send

    census: list[Census] = []
    pair = None
    if burst is not None:
        count, _, period = burst.partition(":")
        try:
            pair = (int(count), int(float(period) * 1000))
        except ValueError:
            raise UsageError(f"--burst must be B:US, not '{burst}'") from None
    guard([file], [to_])
    target = target_of(to_)
    with ExitStack() as stack:
        if requests is not None:
            if not isinstance(target, MoldTarget):
                raise UsageError("--requests is for a replay to udp://HOST:PORT")
            stack.enter_context(RequestServer(target, *host_and_port(requests, "--requests")))
            target.linger_s = linger
        report = send(
            file,
            target,
            fixed_ns=None if fixed is None else int(fixed * 1000),
            burst=pair,
            speed=speed,
            loss=loss,
            seed=seed,
            limit=messages,
            tell=census.append,
        )
    status = conclude(census[0]) if census else ExitCode.OK
    if as_json:
        click.echo(dumps({"schema": 1} | asdict(report)))
    else:
        late = (report.error_p50_ns, report.error_p99_ns, report.error_max_ns)
        p50, p99, most = map(words.duration, late)
        click.echo(
            f"{words.count(report.messages)} messages in {words.duration(report.seconds * 1e9)}, "
            f"{words.count(report.dropped)} dropped on purpose; late by p50 {p50}, p99 {p99}, max {most}"
        )
    if report.error_p99_ns > _LATE_NS:
        floor = words.duration(machine_floor_ns())
        click.echo(
            f"latlab: the machine pauses for up to {floor} at a time; `latlab jitter` shows why",
            err=True,
        )
    return status


@click.command()
@click.argument("feed")
@output("Write the messages as BinaryFILE, or PITCH units.")
@click.option(
    "--inside", "changes", type=click.Path(path_type=Path), help="Write every change of the inside."
)
@JSON
def receive(feed: str, output: Path | None, changes: Path | None, as_json: bool) -> int:
    """Receive a feed until its session ends, into a file, into books, or both.

    FEED is udp://GROUP:PORT[,GROUP:PORT], which may go on with
    ?requests=HOST:PORT&interface=ADDRESS&idle=SECONDS: the lines carry the same messages and are arbitrated;
    lost messages are requested from the retransmission server. They are MoldUDP64, or with protocol=pitch
    PITCH units. Prints the census; ends with the session, a silence of 10 seconds, or Ctrl-C.
    """
    import signal

    from latlab.market import LiveSource
    from latlab.market import receive as listen
    from latlab.reports.market.text import census_text

    def started(source: LiveSource) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: source.stop())
        say(f"latlab: listening on {feed}")

    found = listen(feed, output=output, changes=changes, started=started)
    click.echo(dumps(found.document()) if as_json else census_text(found))
    return conclude(found)
