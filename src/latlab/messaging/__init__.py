"""Measure how fast messages travel, from a ring to a broker."""

from latlab.messaging._analysis import analyse, latencies, overheads
from latlab.messaging._experiments import calibrate, compare, disturbance, sweep
from latlab.messaging._limit import find_limit, parse_objective
from latlab.messaging._measure import check, conform, measure, measure_and_analyse
from latlab.messaging._pairs import Comparison, compare_pairs
from latlab.messaging._recording import load_run, reserved, save_run
from latlab.messaging._registry import every_transport, facts_of, missing
from latlab.messaging._workload import load_workload
from latlab.messaging.judging.stability import stability
from latlab.messaging.running.transport import Transport, TransportClosed
from latlab.messaging.running.ways.remote import serve
from latlab.model.messaging.results import Facts

__all__ = [
    "Comparison",
    "Facts",
    "Transport",
    "TransportClosed",
    "analyse",
    "calibrate",
    "check",
    "compare",
    "compare_pairs",
    "conform",
    "disturbance",
    "every_transport",
    "facts_of",
    "find_limit",
    "latencies",
    "load_run",
    "load_workload",
    "measure",
    "measure_and_analyse",
    "missing",
    "overheads",
    "parse_objective",
    "reserved",
    "save_run",
    "serve",
    "stability",
    "sweep",
]
