"""A run's distribution as HdrHistogram's log and percentile table, in nanoseconds."""

from __future__ import annotations

import time

import numpy as np

from latlab.errors import unwritten
from latlab.formats.hdr.hlog import LogWriter, write_hgrm
from latlab.model.machine.jitter import CoreJitter, JitterResult
from latlab.model.statistics.histogram import Histogram

__all__ = ["hdr_of", "write_hdr"]


def hdr_of(core: CoreJitter, *, digits: int = 3) -> Histogram:
    """Every counted delta of a core, in whole nanoseconds."""
    made = Histogram(digits=digits)
    values = np.rint(core.values_ticks * 1e9 / core.counter_hz).astype(np.int64)
    inside = values <= made.bins.highest
    np.add.at(made.counts, made.bins.index(values[inside]), core.counts[inside])
    made.beyond = int(core.counts[~inside].sum())
    made.largest_beyond = int(values[~inside].max(initial=0))
    return made


def write_hdr(result: JitterResult, *, hlog: str | None = None, hgrm: str | None = None) -> None:
    """Write a log with one tagged interval a core, a percentile table over all cores, or both.

    Raises:
        UsageError: a file can't be written.
    """
    writing = hlog or hgrm or ""
    try:
        if hlog:
            begin = min(core.start_ns for core in result.cores)
            offset_s = time.time() - time.monotonic()
            with LogWriter(hlog, start_time_s=begin / 1e9 + offset_s, comment="latlab jitter") as log:
                for core in result.cores:
                    start = core.start_ns / 1e9 + offset_s
                    log.write(hdr_of(core), start, start + core.ns(core.wall_ticks) / 1e9, f"cpu{core.cpu}")
        if hgrm:
            writing = hgrm
            whole = Histogram()
            for core in result.cores:
                whole.merge(hdr_of(core))
            write_hgrm(hgrm, whole)
    except OSError as error:
        raise unwritten(writing, error) from None
