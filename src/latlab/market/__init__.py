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
from latlab.market._laws import fit_counts, microbursts, read_statistics, without_aggregate
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
    "fit_counts",
    "generate",
    "inside",
    "lag_histogram",
    "microbursts",
    "read",
    "read_events",
    "read_statistics",
    "replay",
    "signals",
    "snapshot",
    "stats",
    "stats_archive",
    "stats_csv",
    "target_of",
    "trades",
    "without_aggregate",
    "write_stats",
    "write_table",
]
