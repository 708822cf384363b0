"""Where a server's slow requests spent their time, seen from outside."""

from latlab.requests.connections import Found, find_requests
from latlab.requests.histograms import write_log
from latlab.requests.judging.compare import compare
from latlab.requests.record import of_transfers, record
from latlab.requests.summary import summarise

__all__ = ["Found", "compare", "find_requests", "of_transfers", "record", "summarise", "write_log"]
