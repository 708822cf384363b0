"""End-to-end latency of a running application, by the events that it traces: percentiles of the last seconds.

An event's time is from its first put-in to its end, over all processes of the application: they share the
time-stamp counter.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from latlab._core import clock as core_clock
from latlab.errors import InputError
from latlab.formats.event_traces.files import FINISHED
from latlab.formats.event_traces.growing import GrowingTraces, trace_files
from latlab.model.queues.live import LatencyNow
from latlab.stats.quantiles import nearest_rank

__all__ = ["EndToEnd"]

_FIND_S = 2.0  # between two looks at what a process has mapped
_EVERY_S = 1.0  # between two points
_GRACE_S = 0.2  # an event that was in a stage's hands for so long when we came is taken for a younger one
_KEPT_S = 10.0  # hops of events whose end has not come
_QUANTILES = (0.5, 0.99, 0.999)


class EndToEnd:
    """Follows the trace files of some processes; `look` as often as wanted, from one thread.

    Args:
        window_seconds: that the percentiles are over.
    """

    def __init__(self, window_seconds: float = 5.0) -> None:
        self._window_s = window_seconds
        self._files: dict[Path, GrowingTraces] = {}
        self._next_find = self._next = 0.0
        self._reference = core_clock.reference()[:2]
        self._from_ticks = self._reference[0]
        self._event = np.empty(0, np.uint64)
        self._push = np.empty(0, np.uint64)
        self._ended: deque[tuple[float, NDArray[np.float64]]] = deque()
        self._now: LatencyNow | None = None

    def look(self, pids: Iterable[int]) -> LatencyNow | None:
        """Percentiles of what ended in the last seconds; None where none of the processes traces events."""
        now = time.monotonic()
        if now >= self._next_find:
            self._next_find = now + _FIND_S
            self._find(pids)
        if not self._files:
            return None
        if now >= self._next:
            self._next = now + _EVERY_S
            try:
                self._read(now)
                self._now = self._percentiles()
            except InputError:  # a file that was cut short or spoilt under us: nothing more is believed of it
                self._files, self._now = {}, None
        return self._now

    def _find(self, pids: Iterable[int]) -> None:
        mapped = {path for pid in pids for path in trace_files(pid)}
        self._files = {path: one for path, one in self._files.items() if path in mapped}
        for path in sorted(mapped - set(self._files)):
            try:
                self._files[path] = GrowingTraces(path)
            except InputError:  # it went away, or was mended meanwhile: the next look finds it or not
                continue
            self._from_ticks = core_clock.reference()[0]

    def _full(self) -> bool:
        return any(one.full for one in self._files.values())

    def _hz(self) -> float:
        ticks, ns, _ = core_clock.reference()
        return (ticks - self._reference[0]) * 1e9 / max(1, ns - self._reference[1])

    def _read(self, now: float) -> None:
        files = list(self._files.values())
        ended_by = [one.counts() for one in files]
        hops_by = [one.counts() for one in files]
        read = [one.read(*counts) for one, *counts in zip(files, ended_by, hops_by, strict=True)]
        hops = np.concatenate([part for part, _ in read])
        ends = np.concatenate([part for _, part in read])
        event = np.concatenate([self._event, hops["event"]])
        push = np.concatenate([self._push, hops["push_ticks"]])
        order = np.lexsort((push, event))
        event, push = event[order], push[order]
        first = np.append(True, event[1:] != event[:-1]) if event.size else np.empty(0, bool)
        event, push = event[first], push[first]
        hz = self._hz()
        done = ends[ends["end"] == FINISHED]
        at = np.searchsorted(event, done["event"])
        at[at == event.size] = 0
        known = (event[at] == done["event"]) if event.size else np.zeros(done.size, bool)
        # Of an event that was on its way when we came, the first hop may not be known.
        began, over = push[at[known]], done["push_ticks"][known]
        whole = began >= self._from_ticks + np.uint64(_GRACE_S * hz)
        times = (over[whole].astype(np.int64) - began[whole].astype(np.int64)) * (1e9 / hz)
        if self._full():
            # An event whose first hop found no room would seem to have begun later than it did.
            times = times[:0]
        self._ended.append((now, times))
        while self._ended[0][0] < now - self._window_s:
            self._ended.popleft()
        oldest = max(0, core_clock.ticks() - round(_KEPT_S * hz))
        young = push >= np.uint64(oldest)
        self._event, self._push = event[young], push[young]

    def _percentiles(self) -> LatencyNow:
        times = np.concatenate([part for _, part in self._ended])
        full = self._full()
        if not times.size:
            return LatencyNow(0, None, None, None, self._window_s, full)
        p50, p99, p99_9 = (
            float(nearest_rank(times, q)) if round(times.size * (1 - q), 6) >= 1 else None for q in _QUANTILES
        )
        return LatencyNow(int(times.size), p50, p99, p99_9, self._window_s, full)
