"""The flight recorder: the last seconds at full rate in memory, to be written when something happens."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.model.queues.observation import Queue, QueueKind
from latlab.queues.sample.recorder import Sink
from latlab.queues.sample.window import Window
from latlab.words import duration

__all__ = ["CAUSES", "Detector", "Flight", "Trigger"]

CAUSES = ("drop", "full", "latency")


@dataclass(frozen=True)
class Trigger:
    """What happened.

    Attributes:
        cause: drop, full (of a pool: empty) or latency.
        queue: its number.
        name: of the queue.
        t_ns: when it was seen.
        value: events dropped, events in the queue, or the age of its oldest event in ns (at least).
    """

    cause: str
    queue: int
    name: str
    t_ns: int
    value: int

    def __str__(self) -> str:
        what = self.name or f"queue {self.queue}"
        return {
            "drop": f"{what} dropped {self.value} events",
            "full": f"{what} was full with {self.value} events" if self.value else f"{what} was empty",
            "latency": f"an event waited {duration(self.value)} in {what}",
        }[self.cause]


class Detector:
    """Sees in samples that something happened.

    A drop is one more than before; a queue becomes full (a pool: empty) when it was seen otherwise before.
    The age of a queue's oldest event follows from first-in-first-out counts: the event with number
    out + 1 is in
    it since the first sample whose `in` had reached that, at the latest.

    Args:
        causes: of `CAUSES`.
        objective_ns: an event may wait this long in one queue.
        exclude: names of queues that trigger nothing.
    """

    def __init__(self, causes: Sequence[str], *, objective_ns: int = 0, exclude: Sequence[str] = ()) -> None:
        self._causes = frozenset(causes)
        self._objective_ns = objective_ns
        self._exclude = frozenset(exclude)
        self._dropped: dict[int, int] = {}
        self._was_full: dict[int, bool] = {}
        self._waiting: dict[int, tuple[NDArray[Any], NDArray[Any]]] = {}  # queue: times and `in` not yet out

    def samples(self, batch: Mapping[str, Any], queues: Sequence[Queue]) -> Trigger | None:
        """The first thing that happened in a chunk of samples, or None."""
        found = []
        for number in np.unique(batch["queue"]).tolist():
            if number >= len(queues) or queues[number].name in self._exclude:
                continue
            rows = np.flatnonzero(batch["queue"] == number)
            columns = {name: np.asarray(batch[name])[rows].astype(np.int64) for name in _NEEDED}
            for look in (self._drop, self._full, self._latency):
                trigger = look(queues[number], columns)
                if trigger is not None and trigger.cause in self._causes:
                    found.append(trigger)
        return min(found, key=lambda trigger: trigger.t_ns, default=None)

    def time(self, now_ns: int, queues: Sequence[Queue]) -> Trigger | None:
        """Whether an event has waited too long by now, in a queue whose counts stand still."""
        if "latency" not in self._causes or not self._objective_ns:
            return None
        for number, (times, _) in self._waiting.items():
            if len(times) and now_ns - times[0] > self._objective_ns:
                return Trigger("latency", number, queues[number].name, now_ns, int(now_ns - times[0]))
        return None

    def _drop(self, queue: Queue, rows: Mapping[str, NDArray[Any]]) -> Trigger | None:
        dropped = rows["dropped"]
        before = self._dropped.get(queue.number, int(dropped[0]))
        self._dropped[queue.number] = int(dropped[-1])
        more = np.flatnonzero(dropped > before)
        if not len(more):
            return None
        return Trigger(
            "drop", queue.number, queue.name, int(rows["t_ns"][more[0]]), int(dropped[-1]) - before
        )

    def _full(self, queue: Queue, rows: Mapping[str, NDArray[Any]]) -> Trigger | None:
        if queue.kind == QueueKind.POOL:
            full = rows["in"] <= rows["out_low"]
        elif queue.capacity:
            full = rows["in"] - rows["out_high"] >= queue.capacity
        else:
            return None
        was = self._was_full.get(queue.number, bool(full[0]))
        self._was_full[queue.number] = bool(full[-1])
        became = np.flatnonzero(full & ~np.concatenate(([was], full[:-1])))
        if not len(became):
            return None
        at = became[0]
        fill = int(rows["in"][at] - rows["out_high"][at])
        return Trigger("full", queue.number, queue.name, int(rows["t_ns"][at]), max(0, fill))

    def _latency(self, queue: Queue, rows: Mapping[str, NDArray[Any]]) -> Trigger | None:
        if not self._objective_ns or queue.kind == QueueKind.POOL:
            return None
        none = np.empty(0, np.int64)
        times, came = self._waiting.get(queue.number, (none, none))
        times = np.concatenate((times, rows["t_ns"]))
        came = np.concatenate((came, rows["in"]))
        oldest = rows["out_high"] + 1
        at = np.searchsorted(came, oldest)
        keep = int(at[-1])
        self._waiting[queue.number] = (times[keep:], came[keep:])
        there = at < len(came)
        age = np.where(there, rows["t_ns"] - times[np.minimum(at, len(came) - 1)], 0)
        late = np.flatnonzero(age > self._objective_ns)
        if not len(late):
            return None
        first = late[0]
        return Trigger("latency", queue.number, queue.name, int(rows["t_ns"][first]), int(age[first]))


_NEEDED = ("t_ns", "in", "out_low", "out_high", "dropped")


class Flight(Window):
    """A window that watches what passes through it.

    Args:
        seconds: to keep before what happens.
        after_seconds: to go on after it, before `ready`.
        detector: says when something happened.
        queues: those that are followed.
    """

    def __init__(
        self,
        seconds: float,
        detector: Detector,
        queues: Callable[[], Sequence[Queue]],
        *,
        after_seconds: float = 1.0,
    ) -> None:
        super().__init__(seconds + after_seconds)
        self._detector = detector
        self._queues = queues
        self._after_ns = int(after_seconds * 1e9)
        self.trigger: Trigger | None = None
        self.ready = threading.Event()
        """Something happened, and what came after it is in: `write_to`, then `arm`."""

    def append(self, series: str, batch: Mapping[str, Any]) -> None:
        """Keep one chunk, and look at it."""
        super().append(series, batch)
        seen = None
        if series == "samples":
            seen = self._detector.samples(batch, self._queues())
        elif series == "sweeps":
            now = int(batch["t_ns"][-1])
            seen = self._detector.time(now, self._queues())
            if self.trigger is not None and now >= self.trigger.t_ns + self._after_ns:
                self.ready.set()
        if self.trigger is None:
            self.trigger = seen

    def write_to(self, sink: Sink) -> None:
        """Write all that is kept, and what happened."""
        if self.trigger is not None:
            sink.put("trigger", {"schema": 1, **asdict(self.trigger)})
        super().write_to(sink)

    def arm(self) -> None:
        """Wait for the next thing to happen."""
        self.trigger = None
        self.ready.clear()
