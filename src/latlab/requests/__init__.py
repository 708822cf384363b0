"""Where a server's slow requests spent their time, seen from outside."""

from latlab.requests.connections import Found, find_requests
from latlab.requests.histograms import write_log
from latlab.requests.judging.compare import compare
from latlab.requests.judging.summary import summarise
from latlab.requests.record import of_transfers, record

__all__ = ["Found", "compare", "find_requests", "of_transfers", "record", "summarise", "write_log"]
