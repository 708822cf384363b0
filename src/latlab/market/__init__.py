"""Market data: ITCH and PITCH feeds to books, statistics and delays."""

from __future__ import annotations

from latlab.market import signals
from latlab.market._delay import (
    Calibration,
    DelayEstimate,
    DelayEstimator,
    FeedDelay,
    calibrate,
    delay,
    lag_histogram,
)
from latlab.market._generate import generate
from latlab.market._output import write_table
from latlab.market._passes import census, depth, inside, snapshot, trades
from latlab.market._records import EVENT_KINDS, RECORD_TYPES, decode, read, read_events
from latlab.market._replay import (
    MoldReceiver,
    MoldTarget,
    ReplayReport,
    RequestServer,
    replay,
    target_of,
)
from latlab.market._stats import stats, stats_archive, stats_csv, write_stats

__all__ = [
    "EVENT_KINDS",
    "RECORD_TYPES",
    "Calibration",
    "DelayEstimate",
    "DelayEstimator",
    "FeedDelay",
    "MoldReceiver",
    "MoldTarget",
    "ReplayReport",
    "RequestServer",
    "calibrate",
    "census",
    "decode",
    "delay",
    "depth",
    "generate",
    "inside",
    "lag_histogram",
    "read",
    "read_events",
    "replay",
    "signals",
    "snapshot",
    "stats",
    "stats_archive",
    "stats_csv",
    "target_of",
    "trades",
    "write_stats",
    "write_table",
]
