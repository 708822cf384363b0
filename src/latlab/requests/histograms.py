"""Requests over time as HdrHistogram's log: an interval a second, of all requests and of each kind."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from latlab.errors import UsageError
from latlab.formats.hdr.hlog import LogWriter
from latlab.model.statistics.histogram import Histogram
from latlab.requests.connections import NEVER

__all__ = ["write_log"]

_INTERVAL_NS = 1_000_000_000


def write_log(
    path: str | os.PathLike[str],
    rows: Any,
    kinds: Sequence[str],
    seen_ns: tuple[int, int],
    began_s: float,
) -> None:
    """Write the latencies of answered requests, by their arrival; untagged all, tagged those of each kind.

    Args:
        rows: columns of REQUEST by name. kinds: names of its kinds.
        seen_ns: when the observation began and ended, CLOCK_MONOTONIC; what is not wholly in it is left out.
        began_s: its beginning in seconds since the epoch.

    Raises:
        UsageError: the file can't be written.
    """
    began, ended = seen_ns
    arrived, sent, kind = (np.asarray(rows[name]) for name in ("arrived", "sent", "kind"))
    whole = (arrived >= began) & (arrived < ended) & (sent != NEVER) & (sent <= ended)
    arrived, times, kind = arrived[whole], (sent - arrived)[whole], kind[whole]
    slot = (arrived - began) // _INTERVAL_NS
    tags = _tags(kinds)
    try:
        with LogWriter(path, start_time_s=began_s, comment="latlab requests") as log:
            for number in range(-(-(ended - began) // _INTERVAL_NS)):
                here = slot == number
                start = began_s + number * _INTERVAL_NS / 1e9
                end = min(start + _INTERVAL_NS / 1e9, began_s + (ended - began) / 1e9)
                log.write(Histogram.of(times[here]), start, end)
                for one in np.unique(kind[here]).tolist() if len(kinds) > 1 else ():
                    log.write(Histogram.of(times[here & (kind == one)]), start, end, tags[one])
    except OSError as error:
        raise UsageError(f"{error.filename} can't be written ({error.strerror})") from None


def _tags(kinds: Sequence[str]) -> list[str]:
    """A tag holds no comma and no blank; two kinds never share one."""
    tags: list[str] = []
    for number, kind in enumerate(kinds):
        tag = re.sub(r"[,\s]+", "_", kind) or "request"
        tags.append(f"{tag}#{number}" if tag in tags else tag)
    return tags
