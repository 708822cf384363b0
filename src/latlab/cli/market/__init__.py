"""`latlab market`: market data to the inside, the statistics, and the delay between two feeds."""

from __future__ import annotations

from latlab.cli.kit.lazy import lazy_group


# Each module of latlab.cli with its commands and their help: nothing is imported before it is called.
@lazy_group(
    {
        "market.books": {
            "census": "Count messages by type, and list errors with their offsets.",
            "depth": "Count how far from the inside events are, and how deep the books.",
            "inside": "Write every true change of the inside.",
        },
        "market.delay": {
            "delay": "Measure how far one feed is behind another.",
        },
        "market.feeds": {
            "generate": "Write a deterministic ITCH-5.0 day with the character of the real feed.",
            "receive": "Receive a feed until its session ends, into a file, into books, or both.",
            "replay": "Send a feed's messages at planned times, and report how late they went.",
        },
        "market.snapshots": {
            "lobster": "Write a symbol's message and orderbook files as LOBSTER has them.",
            "snapshot": "Write books as they stood: at a time, at even times, at every change.",
        },
        "market.stats": {
            "stats": "Statistics per symbol: counts, rates, inter-arrival and processing times.",
        },
        "market.tables": {
            "bars": "Write bars of trades by time, volume or number: OHLC, VWAP, imbalance.",
            "decode": "Write every field of every message as Parquet.",
            "trades": "Write every trade, with its aggressor and whether it was broken.",
        },
    }
)
def market() -> None:
    """Market data: ITCH and PITCH to the inside, tables for research, statistics, delays.

    A FILE is an input of any kind and compression, '-' (stdin), a pipe, or MoldUDP64 lines on the wire:
    udp://GROUP:PORT[,GROUP:PORT], which may go on with ?requests=HOST:PORT&interface=ADDRESS&idle=SECONDS.
    """
