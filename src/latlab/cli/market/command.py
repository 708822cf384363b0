"""`latlab market`: market data to the inside, the statistics, and the delay between two feeds."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latlab.cli._lazy import SuggestingGroup
from latlab.cli._options import JSON
from latlab.cli.market._options import names_of, period_of, time_of
from latlab.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from latlab.model.market import Census


class _Input(click.ParamType):  # type: ignore[type-arg]
    """A file's path, or the address of a feed on the wire as it was given."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if isinstance(value, str) and value.startswith("udp://") else Path(value)


_FILE = click.argument("file", type=_Input())
_OUTPUT = click.option("-o", "--output", type=click.Path(path_type=Path), required=True)
_JSON = JSON
_LENIENT = click.option("--lenient", is_flag=True, help="Skip and count malformed messages.")
_SYMBOLS = click.option("--symbols", default="", help="Only these, separated by commas.")
_FROM = click.option("--from", "from_", help="Time of day, HH:MM:SS[.fraction] or ns since midnight.")
_TO = click.option("--to", help="Likewise; both ends belong to it.")
_BOOK = click.option(
    "--book", default="ladder", show_default=True, type=click.Choice(["ladder", "array", "map"])
)
_CAPACITY = click.option("--capacity", default=8192, show_default=True, help="Ticks that the array holds.")


@click.group(cls=SuggestingGroup)
def market() -> None:
    """Market data: ITCH and PITCH to the inside, statistics, delays.

    A FILE is an input of any kind, or udp://GROUP:PORT[,GROUP:PORT][?requests=HOST:PORT&interface=ADDRESS
    &idle=SECONDS], MoldUDP64 lines on the wire.
    """


@market.command()
@click.option("--seed", default=1, show_default=True, help="Of the generator.")
@click.option("--messages", default=1_000_000, show_default=True, help="Exactly so many.")
@click.option("--symbols", default=500, show_default=True, help="At most so many.")
@_OUTPUT
@_JSON
def generate(seed: int, messages: int, symbols: int, output: Path, as_json: bool) -> int:
    """Write a deterministic ITCH-5.0 day with the character of the real feed (*.gz, *.zst: compressed)."""
    from latlab.market import generate as write

    size = write(output, seed=seed, messages=messages, symbols=symbols)
    if as_json:
        document = {"schema": 1, "output": str(output), "messages": messages, "bytes": size, "seed": seed}
        click.echo(json.dumps(document))
    click.echo(f"latlab: wrote {messages:,} messages ({size:,} bytes) to {output}", err=True)
    return ExitCode.OK


@market.command()
@_FILE
@_JSON
@_LENIENT
def census(file: Path | str, as_json: bool, lenient: bool) -> int:
    """Count the messages of FILE by type, and list its errors with their offsets."""
    from latlab.market import census as count

    found = count(file, lenient=lenient)
    if as_json:
        click.echo(json.dumps(found.document()))
    else:
        from latlab.reports.market.text import census_text

        click.echo(census_text(found))
    _warn(found)
    if found.errors and not lenient:
        first = found.errors[0]
        click.echo(
            f"latlab: {file}: offset {first.offset}: {first.what}; --lenient reads on where it can", err=True
        )
        return ExitCode.FAILED
    return ExitCode.OK


@market.command()
@_FILE
@_OUTPUT
@_BOOK
@_CAPACITY
@click.option("--levels", default=1, show_default=True, help="The best so many levels.")
@_SYMBOLS
@_FROM
@_TO
@_LENIENT
@click.option("--resume", is_flag=True, help="Go on behind what a killed run wrote.")
@_JSON
def inside(
    file: Path | str,
    output: Path,
    book: str,
    capacity: int,
    levels: int,
    symbols: str,
    from_: str | None,
    to: str | None,
    lenient: bool,
    resume: bool,
    as_json: bool,
) -> int:
    """Write every true change of the inside: ts_ns locate symbol bid_px bid_qty offer_px offer_qty.

    Text (*.gz, *.zst: compressed) or *.parquet; prices are in 1/10,000, an empty side is 0 0.
    """
    from latlab.market import inside as write

    done = write(
        file,
        output,
        book=book,
        capacity=capacity,
        levels=levels,
        symbols=names_of(symbols),
        lenient=lenient,
        resume=resume,
        **period_of(from_, to),
    )
    _warn(done.census)
    if as_json:
        document: dict[str, Any] = {"schema": 1, "changes": done.rows, "messages": done.census.messages}
        document |= {"anomalies": done.census.anomalies, "array": done.side_counts}
        click.echo(json.dumps(document))
    click.echo(
        f"latlab: wrote {done.rows:,} changes of {done.census.messages:,} messages to {output}", err=True
    )
    return ExitCode.OK


@market.command()
@_FILE
@_BOOK
@_CAPACITY
@_SYMBOLS
@_FROM
@_TO
@_LENIENT
@_JSON
def depth(
    file: Path | str,
    book: str,
    capacity: int,
    symbols: str,
    from_: str | None,
    to: str | None,
    lenient: bool,
    as_json: bool,
) -> int:
    """How many ticks from the inside the book events of FILE are, and how many levels the books have."""
    from latlab.market import depth as measure

    found = measure(
        file,
        book=book,
        capacity=capacity,
        symbols=names_of(symbols),
        lenient=lenient,
        **period_of(from_, to),
    )
    _warn(found.census)
    if as_json:
        click.echo(json.dumps(found.document()))
    else:
        from latlab.reports.market.text import depth_text

        click.echo(depth_text(found))
    return ExitCode.OK


@market.command()
@_FILE
@_OUTPUT
@_SYMBOLS
@_FROM
@_TO
@_LENIENT
def trades(
    file: Path | str, output: Path, symbols: str, from_: str | None, to: str | None, lenient: bool
) -> int:
    """Write every trade of FILE (*.csv, *.csv.gz or *.parquet)."""
    from latlab.market import trades as collect
    from latlab.market import write_table

    table = collect(file, symbols=names_of(symbols), lenient=lenient, **period_of(from_, to))
    write_table(table, output)
    click.echo(f"latlab: wrote {table.num_rows:,} trades to {output}", err=True)
    return ExitCode.OK


@market.command()
@_FILE
@_OUTPUT
@click.option("--at", required=True, help="Time of day, HH:MM:SS[.fraction] or ns since midnight.")
@_LENIENT
def snapshot(file: Path | str, output: Path, at: str, lenient: bool) -> int:
    """Write every level of every book as it stood at a time (*.csv, *.csv.gz or *.parquet)."""
    from latlab.market import snapshot as take
    from latlab.market import write_table

    table = take(file, at_ns=time_of(at, "--at"), lenient=lenient)
    write_table(table, output)
    click.echo(f"latlab: wrote {table.num_rows:,} levels to {output}", err=True)
    return ExitCode.OK


@market.command()
@_FILE
@_OUTPUT
@click.option("--per", default="type", show_default=True, type=click.Choice(["type", "event"]))
@_LENIENT
@click.option("--resume", is_flag=True, help="Go on behind the parts that a killed run wrote.")
def decode(file: Path | str, output: Path, per: str, lenient: bool, resume: bool) -> int:
    """Write every field of every message as Parquet: a folder with a table a type, or one of book events."""
    from latlab.market import decode as write

    rows = write(file, output, per=per, lenient=lenient, resume=resume)
    click.echo(f"latlab: wrote {sum(rows.values()):,} rows of {len(rows)} tables to {output}", err=True)
    return ExitCode.OK


@market.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the table here, as CSV.")
@click.option("--html", "page", type=click.Path(path_type=Path), help="Write plots and fits here.")
@click.option("--over", default="inside", show_default=True, type=click.Choice(["inside", "messages"]))
@click.option("--scheduler", help="FILE is a folder: its files over Dask, at ADDRESS or 'local'.")
@_LENIENT
@_JSON
def stats(
    file: Path,
    output: Path | None,
    page: Path | None,
    over: str,
    scheduler: str | None,
    lenient: bool,
    as_json: bool,
) -> int:
    """Statistics per symbol as CSV: counts, rates, inter-arrival and processing times.

    FILE may be a folder of days: their histograms are merged, and OUT.parts keeps each day's to resume. With
    --html alone it may also be a table that was written before (*.csv, *.csv.gz).
    """
    from latlab.market import stats as measure
    from latlab.market import stats_archive, write_stats

    if output is None and page is None:
        raise UsageError("say where the result goes: -o OUT.csv, --html OUT.html, or both")
    table = file.name.endswith((".csv", ".csv.gz"))
    if output is None and not table:
        raise UsageError("--html needs -o OUT.csv too, or a table of statistics as FILE")
    if scheduler is not None and not file.is_dir():
        raise UsageError("--scheduler is for a folder of files")
    if output is not None:
        if file.is_dir():
            parts = output.with_name(output.name + ".parts")
            tell = lambda name: click.echo(f"latlab: {name} done", err=True)  # noqa: E731
            found = stats_archive(file, parts, over=over, lenient=lenient, scheduler=scheduler, notice=tell)
        else:
            found, census = measure(file, over=over, lenient=lenient)
            _warn(census)
        write_stats(found, output)
        click.echo(f"latlab: wrote {len(found) - 1:,} symbols and the aggregate to {output}", err=True)
    if page is not None:
        _statistics_page(file, output or file, page, lenient)
    if as_json:
        from latlab.market import read_statistics, without_aggregate

        written = {"output": output and str(output), "html": page and str(page)}
        symbols = len(without_aggregate(read_statistics(output or file)).names)
        click.echo(json.dumps({"schema": 1, **written, "symbols": symbols}))
    return ExitCode.OK


def _statistics_page(file: Path, table: Path, page: Path, lenient: bool) -> None:
    from latlab.market import fit_counts, microbursts, read_statistics, without_aggregate
    from latlab.reports.market.html import statistics_page

    symbols = without_aggregate(read_statistics(table))
    try:
        fit = fit_counts(symbols)
    except UsageError as error:
        click.echo(f"latlab: warning: no law is fitted: {error}", err=True)
        fit = None
    bursts = microbursts(file, lenient=lenient) if file != table and not file.is_dir() else None
    statistics_page(f"Statistics of {file.name}", symbols, fit, bursts).write(page)
    click.echo(f"latlab: wrote {page}", err=True)


@market.command()
@click.argument("a", type=_Input())
@click.argument("b", type=_Input())
@_SYMBOLS
@click.option("--window", default=60.0, show_default=True, help="Seconds of an estimate.")
@click.option("--max-delay", default=5.0, show_default=True, help="Milliseconds; look no further.")
@click.option("--resolution", default=1.0, show_default=True, help="Microseconds of a bin of lags.")
@click.option(
    "--follow", type=float, help="The files grow: wait for more until none came for so many seconds."
)
@_LENIENT
@_JSON
def delay(
    a: Path | str,
    b: Path | str,
    symbols: str,
    window: float,
    max_delay: float,
    resolution: float,
    follow: float | None,
    lenient: bool,
    as_json: bool,
) -> int:
    """By how much feed B is behind feed A, window by window, by the moves of the inside that both have.

    The confidence is the share of estimates of such a confidence that are within 1 us of the truth. Each
    window is printed when both feeds are past it; with --json, that of two whole files is one list, and that
    of growing files or of feeds on the wire an object a line.
    """
    from dataclasses import asdict

    from latlab.market import delay_windows
    from latlab.reports.market.text import clock

    streaming = follow is not None or any(isinstance(feed, str) for feed in (a, b))
    found = []
    for one in delay_windows(
        a,
        b,
        symbols=names_of(symbols),
        window_ns=int(window * 1e9),
        max_delay_ns=int(max_delay * 1e6),
        bin_ns=int(resolution * 1e3),
        lenient=lenient,
        follow_s=follow,
    ):
        found.append(one)
        if not as_json:
            click.echo(
                f"{clock(one.at_ns)}  {one.delay_ns / 1e3:>12,.3f} us  confidence {one.confidence:.2f}"
            )
        elif streaming:
            click.echo(json.dumps(asdict(one)))
    if as_json and not streaming:
        click.echo(json.dumps([asdict(one) for one in found]))
    if not found:
        click.echo("latlab: no window has enough moves that both feeds share", err=True)
        return ExitCode.NOT_TRUSTWORTHY
    return ExitCode.OK


@market.command()
@_FILE
@click.option("--to", "to_", required=True, help="udp://HOST:PORT[,HOST:PORT], tcp://HOST:PORT or a file.")
@click.option("--requests", help="HOST:PORT at which what was lost can be asked for again (udp).")
@click.option("--linger", default=1.0, show_default=True, help="Seconds for requests after the last message.")
@click.option("--fixed", type=float, help="Microseconds between messages.")
@click.option("--burst", help="B:US: B messages every US microseconds.")
@click.option("--speed", type=float, help="The feed's own times, so much faster.")
@click.option("--loss", default=0.0, help="Share of messages dropped on purpose.")
@click.option("--seed", default=0, help="Of the losses.")
@click.option("--messages", type=int, help="At most so many.")
@_JSON
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

    from latlab.market import MoldTarget, RequestServer, target_of
    from latlab.market import replay as send
    from latlab.market._source import host_and_port

    pair = None
    if burst is not None:
        count, _, period = burst.partition(":")
        try:
            pair = (int(count), int(float(period) * 1000))
        except ValueError:
            raise UsageError(f"--burst must be B:US, not '{burst}'") from None
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
        )
    if as_json:
        click.echo(json.dumps({"schema": 1} | asdict(report)))
    else:
        click.echo(
            f"{report.messages:,} messages in {report.seconds:.3f} s, {report.dropped:,} dropped on purpose; "
            f"late by p50 {report.error_p50_ns / 1e3:.1f} us, p99 {report.error_p99_ns / 1e3:.1f} us, "
            f"max {report.error_max_ns / 1e3:.1f} us"
        )
    return ExitCode.OK


@market.command()
@click.argument("feed")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The messages as BinaryFILE, or PITCH units."
)
@click.option("--inside", "changes", type=click.Path(path_type=Path), help="Every change of the inside.")
@_JSON
def receive(feed: str, output: Path | None, changes: Path | None, as_json: bool) -> int:
    """Receive a feed until its session ends, into a file, into books, or both.

    FEED is udp://GROUP:PORT[,GROUP:PORT][?requests=HOST:PORT&interface=ADDRESS&idle=SECONDS]: the lines carry
    the same messages and are arbitrated; what none brought is asked for at the request server. They are
    MoldUDP64, or with protocol=pitch PITCH units. Prints the census; ends with the session, a silence of 10
    seconds, or Ctrl-C.
    """
    import signal

    from latlab.market import LiveSource
    from latlab.market import receive as listen
    from latlab.reports.market.text import census_text

    def started(source: LiveSource) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: source.stop())
        click.echo(f"latlab: listening at {feed}", err=True)

    found = listen(feed, output=output, changes=changes, started=started)
    click.echo(json.dumps(found.document()) if as_json else census_text(found))
    _warn(found)
    return ExitCode.NOT_TRUSTWORTHY if found.transport.get("lost") else ExitCode.OK


def _warn(found: Census) -> None:
    """Say on stderr what was skipped, lost or could not be applied: nothing is absorbed silently."""
    parts = [f"{n:,} {kind.replace('_', ' ')}" for kind, n in found.anomalies.items() if n]
    if parts:
        click.echo(f"latlab: warning: the books could not apply as they came: {', '.join(parts)}", err=True)
    if found.malformed:
        click.echo(f"latlab: warning: {found.malformed:,} malformed messages; see `census --json`", err=True)
    if found.transport.get("lost"):
        click.echo(f"latlab: warning: {found.transport['lost']:,} messages were lost in gaps", err=True)
    if found.absent:
        click.echo(f"latlab: warning: no symbol {', '.join(found.absent)} in the input", err=True)
    if found.out_of_order:
        click.echo(f"latlab: warning: {found.out_of_order:,} messages go back in time", err=True)
