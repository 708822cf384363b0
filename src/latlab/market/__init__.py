"""Market data: ITCH and PITCH feeds to books, statistics and delays."""

from __future__ import annotations

from latlab.market import signals
from latlab.market.books.bars import bar_stream, bars, bars_of
from latlab.market.books.depths import depth
from latlab.market.books.lobster import lobster
from latlab.market.books.passes import census, write_inside
from latlab.market.books.tables import (
    TableStream,
    inside,
    inside_stream,
    snapshot,
    snapshot_stream,
    snapshots,
    trade_stream,
    trades,
)
from latlab.market.delays.estimator import (
    Calibration,
    DelayEstimate,
    DelayEstimator,
    calibrate,
)
from latlab.market.delays.feed_delay import FeedDelay, delay, delay_windows
from latlab.market.delays.lags import lag_histogram, window_delay
from latlab.market.files.generate import generate
from latlab.market.files.output import guard
from latlab.market.files.session_date import date_of
from latlab.market.files.table_output import TableOutput, table_kind, write_table, write_tables
from latlab.market.records.decoding import decode, read, read_events
from latlab.market.records.layouts import (
    EVENT_KINDS,
    PITCH_ASCII_RECORD_TYPES,
    PITCH_RECORD_TYPES,
    RECORD_TYPES,
)
from latlab.market.statistics.laws import fit_counts, microbursts, read_statistics, without_aggregate
from latlab.market.statistics.stats import stats, stats_archive, stats_csv, write_stats
from latlab.market.wire.addresses import UdpAddress, host_and_port, parse_udp
from latlab.market.wire.receive import LiveSource, MoldReceiver
from latlab.market.wire.record import receive
from latlab.market.wire.replay import ReplayReport, machine_floor_ns, replay
from latlab.market.wire.targets import MoldTarget, PitchTarget, RequestServer, target_of
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
    "host_and_port",
    "inside",
    "inside_stream",
    "lag_histogram",
    "lobster",
    "machine_floor_ns",
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
    "write_tables",
]
