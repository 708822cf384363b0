"""`latlab market`: market data to the inside, the statistics, and the delay between two feeds."""

from __future__ import annotations

import click

from latlab.cli.kit.lazy import LazyGroup

# Each subcommand's module in latlab.cli, and its help: nothing is imported before it is called.
SUBCOMMANDS = {
    "bars": ("market.tables", "Write bars of trades by time, volume or number: OHLC, VWAP, imbalance."),
    "census": ("market.books", "Count messages by type, and list errors with their offsets."),
    "decode": ("market.tables", "Write every field of every message as Parquet."),
    "delay": ("market.delay", "Measure how far one feed is behind another."),
    "depth": ("market.books", "Count how far from the inside events are, and how deep the books."),
    "generate": ("market.feeds", "Write a deterministic ITCH-5.0 day with the character of the real feed."),
    "inside": ("market.books", "Write every true change of the inside."),
    "lobster": ("market.snapshots", "Write a symbol's message and orderbook files as LOBSTER has them."),
    "receive": ("market.feeds", "Receive a feed until its session ends, into a file, into books, or both."),
    "replay": ("market.feeds", "Send a feed's messages at planned times, and report how late they went."),
    "snapshot": ("market.snapshots", "Write books as they stood: at a time, at even times, at every change."),
    "stats": ("market.stats", "Statistics per symbol: counts, rates, inter-arrival and processing times."),
    "trades": ("market.tables", "Write every trade, with its aggressor and whether it was broken."),
}


@click.group(cls=LazyGroup, subcommands=SUBCOMMANDS)
def market() -> None:
    """Market data: ITCH and PITCH to the inside, tables for research, statistics, delays.

    A FILE is an input of any kind and compression, '-' (stdin), a pipe, or MoldUDP64 lines on the wire:
    udp://GROUP:PORT[,GROUP:PORT], which may go on with ?requests=HOST:PORT&interface=ADDRESS&idle=SECONDS.
    """
