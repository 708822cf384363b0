"""Market data: ITCH and PITCH feeds to books, statistics and delays."""

from __future__ import annotations

from latlab.market import signals
from latlab.market._delay import (
    Calibration,
    DelayEstimate,
    DelayEstimator,
    calibrate,
)
from latlab.market._feed_delay import FeedDelay, delay, delay_windows, lag_histogram, window_delay
from latlab.market._generate import generate
from latlab.market._laws import fit_counts, microbursts, read_statistics, without_aggregate
from latlab.market._output import write_table
from latlab.market._passes import census, depth, inside, snapshot, trades
from latlab.market._receive import LiveSource, MoldReceiver, receive
from latlab.market._records import (
    EVENT_KINDS,
    PITCH_ASCII_RECORD_TYPES,
    PITCH_RECORD_TYPES,
    RECORD_TYPES,
    decode,
    read,
    read_events,
)
from latlab.market._replay import (
    MoldTarget,
    PitchTarget,
    ReplayReport,
    RequestServer,
    replay,
    target_of,
)
from latlab.market._source import UdpAddress, parse_udp
from latlab.market._stats import stats, stats_archive, stats_csv, write_stats

__all__ = [
    "EVENT_KINDS",
    "PITCH_ASCII_RECORD_TYPES",
    "PITCH_RECORD_TYPES",
    "RECORD_TYPES",
    "Calibration",
    "DelayEstimate",
    "DelayEstimator",
    "FeedDelay",
    "LiveSource",
    "MoldReceiver",
    "MoldTarget",
    "PitchTarget",
    "ReplayReport",
    "RequestServer",
    "UdpAddress",
    "calibrate",
    "census",
    "decode",
    "delay",
    "delay_windows",
    "depth",
    "fit_counts",
    "generate",
    "inside",
    "lag_histogram",
    "microbursts",
    "parse_udp",
    "read",
    "read_events",
    "read_statistics",
    "receive",
    "replay",
    "signals",
    "snapshot",
    "stats",
    "stats_archive",
    "stats_csv",
    "target_of",
    "trades",
    "window_delay",
    "without_aggregate",
    "write_stats",
    "write_table",
]
