"""Market data: ITCH and PITCH feeds to books, statistics and delays."""

from __future__ import annotations

from latlab.market import signals
from latlab.market._bars import bar_stream, bars, bars_of
from latlab.market._delay import (
    Calibration,
    DelayEstimate,
    DelayEstimator,
    calibrate,
)
from latlab.market._feed_delay import FeedDelay, delay, delay_windows, lag_histogram, window_delay
from latlab.market._generate import generate
from latlab.market._laws import fit_counts, microbursts, read_statistics, without_aggregate
from latlab.market._lobster import lobster
from latlab.market._open import UdpAddress, parse_udp
from latlab.market._output import TableOutput, guard, table_kind, write_table
from latlab.market._passes import census, depth, write_inside
from latlab.market._receive import LiveSource, MoldReceiver
from latlab.market._record_feed import receive
from latlab.market._record_tables import (
    EVENT_KINDS,
    PITCH_ASCII_RECORD_TYPES,
    PITCH_RECORD_TYPES,
    RECORD_TYPES,
)
from latlab.market._records import decode, read, read_events
from latlab.market._replay import (
    MoldTarget,
    PitchTarget,
    ReplayReport,
    RequestServer,
    replay,
    target_of,
)
from latlab.market._session_date import date_of
from latlab.market._stats import stats, stats_archive, stats_csv, write_stats
from latlab.market._tables import (
    TableStream,
    inside,
    inside_stream,
    snapshot,
    snapshot_stream,
    snapshots,
    trade_stream,
    trades,
)
from latlab.model.market import DamagedInputWarning

__all__ = [
    "EVENT_KINDS",
    "PITCH_ASCII_RECORD_TYPES",
    "PITCH_RECORD_TYPES",
    "RECORD_TYPES",
    "Calibration",
    "DamagedInputWarning",
    "DelayEstimate",
    "DelayEstimator",
    "FeedDelay",
    "LiveSource",
    "MoldReceiver",
    "MoldTarget",
    "PitchTarget",
    "ReplayReport",
    "RequestServer",
    "TableOutput",
    "TableStream",
    "UdpAddress",
    "bar_stream",
    "bars",
    "bars_of",
    "calibrate",
    "census",
    "date_of",
    "decode",
    "delay",
    "delay_windows",
    "depth",
    "fit_counts",
    "generate",
    "guard",
    "inside",
    "inside_stream",
    "lag_histogram",
    "lobster",
    "microbursts",
    "parse_udp",
    "read",
    "read_events",
    "read_statistics",
    "receive",
    "replay",
    "signals",
    "snapshot",
    "snapshot_stream",
    "snapshots",
    "stats",
    "stats_archive",
    "stats_csv",
    "table_kind",
    "target_of",
    "trade_stream",
    "trades",
    "window_delay",
    "without_aggregate",
    "write_inside",
    "write_stats",
    "write_table",
]
