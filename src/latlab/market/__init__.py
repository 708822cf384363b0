"""Market data: ITCH and PITCH feeds to books, statistics and delays."""

from __future__ import annotations

from latlab.market._generate import generate
from latlab.market._output import write_table
from latlab.market._passes import census, depth, inside, snapshot, trades
from latlab.market._records import EVENT_KINDS, RECORD_TYPES, decode, read, read_events
from latlab.market._stats import stats, stats_archive, stats_csv, write_stats

__all__ = [
    "EVENT_KINDS",
    "RECORD_TYPES",
    "census",
    "decode",
    "depth",
    "generate",
    "inside",
    "read",
    "read_events",
    "snapshot",
    "stats",
    "stats_archive",
    "stats_csv",
    "trades",
    "write_stats",
    "write_table",
]
