"""Queues and stages at one look."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

from latlab.model.queues.analysis import QueueFlow

__all__ = ["LatencyNow", "Observable", "QueueNow", "Snapshot", "StageNow"]


@dataclass(frozen=True)
class QueueNow(QueueFlow):
    """A queue at one look.

    Attributes:
        kind: as `QueueKind`. A socket's fill, capacity and high-water mark are bytes; its events are not
            counted.
        fill_low, fill_high: bounds of the fill.
        high_water: the most that was seen at any look.
        rate_in_hz, rate_out_hz: since the look before; 0 at the first.
    """

    fill_low: int
    fill_high: int
    high_water: int
    group: str = ""
    implementation: str = ""

    @property
    def fill_share(self) -> float | None:
        """Of the capacity; None where it has none."""
        return self.fill_high / self.capacity if self.capacity else None


@dataclass(frozen=True)
class StageNow:
    """A stage at one look.

    Attributes:
        state: idle, busy or blocked; "" where it publishes no times of its own.
        busy, blocked: shares of the time since the look before, or None.
        rate_hz: events since the look before, by the queues that it drains.
        waiting: events in the queues that it drains.
    """

    label: str
    type: str
    group: str
    state: str
    busy: float | None
    blocked: float | None
    rate_hz: float
    waiting: int


@dataclass(frozen=True)
class LatencyNow:
    """End-to-end latency of the traced events that ended in the last seconds.

    Attributes:
        events: that ended.
        p50_ns, p99_ns, p99_9_ns: nearest ranks; None where fewer events ended than the quantile needs.
        window_s: the seconds.
        full: a process has no room for more traces: what it does from then on is not in here.
    """

    events: int
    p50_ns: float | None
    p99_ns: float | None
    p99_9_ns: float | None
    window_s: float
    full: bool = False


@dataclass(frozen=True)
class Snapshot:
    """All queues and stages at one look.

    Attributes:
        limiting_stage: by the last seconds, or None; `verdict` says why there is none.
        verdict: as `Verdict`, or "" where nobody judged.
        confidence: from 0 to 1.
        latency: from end to end; None where the application traces no events, or nobody looked.
    """

    t_ns: int
    queues: tuple[QueueNow, ...]
    stages: tuple[StageNow, ...] = ()
    limiting_stage: str | None = None
    verdict: str = ""
    confidence: float = 0.0
    latency: LatencyNow | None = None

    def to_json(self) -> dict[str, Any]:
        """A line of `latlab queues watch --json`."""
        return {"schema": 1, **asdict(self)}


class Observable(Protocol):
    """Something that can be looked at: an attachment."""

    @property
    def alive(self) -> bool:
        """The application runs."""

    def look(self) -> Snapshot:
        """What it is now."""
