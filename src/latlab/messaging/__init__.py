"""How fast do messages travel."""

from latlab.messaging._analysis import analyse, latencies, overheads, stability
from latlab.messaging._measure import check, measure, measure_and_analyse
from latlab.messaging._recording import load_run, save_run
from latlab.messaging._registry import every_transport, facts_of, missing

__all__ = [
    "analyse",
    "check",
    "every_transport",
    "facts_of",
    "latencies",
    "load_run",
    "measure",
    "measure_and_analyse",
    "missing",
    "overheads",
    "save_run",
    "stability",
]
