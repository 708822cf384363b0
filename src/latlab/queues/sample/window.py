"""The last seconds of a recording, in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.queues.sample.recorder import COLUMNS, Memory, Sink

__all__ = ["Window"]

_TIMES = {"gaps": "to_ns"}  # of every other series: t_ns


class Window(Memory):
    """A sink that keeps the last seconds of every series, and the whole topology.

    Chunks leave it whole. Of a queue whose last change lies before the window, a row says what it was then:
    it has the time of the window's first sweep, at which that still held.

    Args:
        seconds: to keep.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._keep_ns = int(seconds * 1e9)
        self._kept: dict[str, deque[tuple[int, Mapping[str, Any]]]] = {name: deque() for name in COLUMNS}
        # Of every queue, in the order of their numbers, its last sample that has left.
        self._before = {name: np.empty(0, kind) for name, kind in COLUMNS["samples"].items()}
        self._lock = threading.Lock()

    def append(self, series: str, batch: Mapping[str, Any]) -> None:
        """Keep one chunk, and let go of those that are too old."""
        if series not in COLUMNS:
            super().append(series, batch)
            return
        time = _TIMES.get(series, "t_ns")
        with self._lock:
            kept = self._kept[series]
            kept.append((int(batch[time][-1]), batch))
            horizon = kept[-1][0] - self._keep_ns
            while kept[0][0] < horizon:
                self._let_go(series, kept.popleft()[1])

    def _let_go(self, series: str, batch: Mapping[str, Any]) -> None:
        if series != "samples":
            return
        # A chunk holds thousands of samples: what a queue was last is found for all queues at once.
        queues = np.concatenate([self._before["queue"], batch["queue"]])
        _, from_the_end = np.unique(queues[::-1], return_index=True)
        last = len(queues) - 1 - from_the_end
        self._before = {
            name: np.concatenate([self._before[name], batch[name]])[last] for name in COLUMNS["samples"]
        }

    def columns(self, series: str) -> dict[str, NDArray[Any]]:
        """All rows of a numeric series that are kept."""
        with self._lock:
            chunks = [chunk for _, chunk in self._kept[series]]
            if series == "samples" and len(self._before["queue"]):
                chunks.insert(0, self._as_they_were())
        return {
            name: np.concatenate([np.asarray(c[name]) for c in chunks]) if chunks else np.empty(0, kind)
            for name, kind in COLUMNS[series].items()
        }

    def _as_they_were(self) -> dict[str, NDArray[Any]]:
        columns = dict(self._before)
        count, sweeps = len(columns["queue"]), self._kept["sweeps"]
        if sweeps:
            columns["t_ns"] = columns["t_end_ns"] = np.full(count, sweeps[0][1]["t_ns"][0], np.int64)
        columns["skipped"] = np.zeros(count, np.uint32)
        return columns

    def write_to(self, sink: Sink) -> None:
        """Write all that is kept to another sink, documents and topology included."""
        for chunk in self.chunks.get("topology", []):
            sink.append("topology", chunk)
        for series in COLUMNS:
            columns = self.columns(series)
            if len(next(iter(columns.values()))):
                sink.append(series, columns)
        for name, document in self.documents.items():
            sink.put(name, document)
