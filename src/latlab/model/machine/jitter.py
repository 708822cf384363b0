"""What a measurement of system latency jitter found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

__all__ = [
    "DOUBTFUL",
    "SCHEMA",
    "CoreJitter",
    "Exceeded",
    "JitterResult",
    "JitterWarning",
    "Period",
    "Source",
    "WarningKind",
]

SCHEMA = 1


@dataclass(frozen=True)
class CoreJitter:
    """One core.

    Attributes:
        deltas: distances between two back-to-back readings of the counter, inside of blocks.
        wall_ticks: from the first reading to the last; pure + bridge + gap + paused is exactly this.
        threshold_ticks: a delta above is a gap (an outlier).
        quantum_ticks: the step by which the counter advances. A delta of 1 on a coarser counter says that
            it stood still.
        values_ticks: the distinct deltas (from 4,096 ticks on: the upper bounds of bins of at most 0.8 %),
            ascending.
        counts: how often each of them came.
        outliers: gaps, also those that the ring did not keep.
        gap_start_ns: when each kept gap began, CLOCK_MONOTONIC, ascending.
        gap_each_ns: how long it was.
        host: the machine, where runs of several are merged.
        preempted: 1 where the kernel ran something else meanwhile, 0 where not, 2 where unknown.
    """

    cpu: int
    deltas: int
    wall_ticks: int
    pure_ticks: int
    bridge_ticks: int
    gap_ticks: int
    paused_ticks: int
    threshold_ticks: int
    counter_hz: float
    quantum_ticks: int
    start_ns: int
    values_ticks: np.ndarray[Any, Any]
    counts: np.ndarray[Any, Any]
    outliers: int
    max_ticks: int
    gap_start_ns: np.ndarray[Any, Any]
    gap_each_ns: np.ndarray[Any, Any]
    preempted: np.ndarray[Any, Any]
    migrations: int = 0
    host: str = ""

    def ns(self, ticks: float) -> float:
        """Ticks of this core's counter in nanoseconds, by the rate over the measured interval."""
        return ticks * 1e9 / self.counter_hz

    @property
    def min_ticks(self) -> int:
        """The smallest delta that is one: at least the counter's step."""
        real = self.values_ticks[self.values_ticks >= max(1, self.quantum_ticks - 1)]
        return max(int(real[0]), self.quantum_ticks) if len(real) else self.quantum_ticks

    def percentile_ticks(self, percent: float) -> int:
        """The nearest-rank percentile: the upper bound of the bin that holds it."""
        total = np.cumsum(self.counts)
        if not len(total):
            return 0
        rank = max(1, int(np.ceil(percent / 100.0 * float(total[-1]))))
        at = int(self.values_ticks[int(np.searchsorted(total, rank))])
        return min(max(at, self.quantum_ticks), self.max_ticks)

    @property
    def mean_ticks(self) -> float:
        """The average of all counted deltas."""
        total = int(self.counts.sum())
        return float((self.values_ticks * self.counts.astype(float)).sum() / total) if total else 0.0

    @property
    def std_dev_ticks(self) -> float:
        """The population standard deviation of all counted deltas."""
        total = int(self.counts.sum())
        if not total:
            return 0.0
        off = self.values_ticks - self.mean_ticks
        return float(np.sqrt((off * off * self.counts).sum() / total))

    def to_json(self) -> dict[str, Any]:
        """The core's entry of the JSON contract."""
        return {
            **({"host": self.host} if self.host else {}),
            "cpu": self.cpu,
            "deltas": self.deltas,
            "wall_ns": self.ns(self.wall_ticks),
            "pure_ns": self.ns(self.pure_ticks),
            "bridge_ns": self.ns(self.bridge_ticks),
            "gap_ns": self.ns(self.gap_ticks),
            "paused_ns": self.ns(self.paused_ticks),
            "wall_ticks": self.wall_ticks,
            "pure_ticks": self.pure_ticks,
            "bridge_ticks": self.bridge_ticks,
            "gap_ticks": self.gap_ticks,
            "paused_ticks": self.paused_ticks,
            "counter_hz": self.counter_hz,
            "quantum_ticks": self.quantum_ticks,
            "threshold_ns": self.ns(self.threshold_ticks),
            "min_ns": self.ns(self.min_ticks),
            "mean_ns": self.ns(self.mean_ticks),
            "std_dev_ns": self.ns(self.std_dev_ticks),
            "p50_ns": self.ns(self.percentile_ticks(50)),
            "p99_ns": self.ns(self.percentile_ticks(99)),
            "p99.9_ns": self.ns(self.percentile_ticks(99.9)),
            "max_ns": self.ns(self.max_ticks),
            "outliers": self.outliers,
            "outliers_kept": len(self.gap_start_ns),
        }


@dataclass(frozen=True)
class _Entry:
    def to_json(self) -> dict[str, Any]:
        """Its entry of the JSON contract."""
        return {key: getattr(self, key) for key in self.__dataclass_fields__}


@dataclass(frozen=True)
class Source(_Entry):
    """Something that filled gaps.

    Attributes:
        kind: ``thread``, ``interrupt``, ``softirq``, ``fault``, ``preemption``, ``throttling``,
            ``hypervisor``, ``firmware`` or ``unknown``.
        layer: ``hardware``, ``firmware``, ``hypervisor``, ``kernel`` or ``other threads``; ``hypervisor or
            firmware`` or ``kernel or below`` where that can't be told apart.
        count: how often it came; a gap may hold it more than once.
        total_ns: the gap time that it filled; None where it could only be counted.
        gaps_ns: the whole length of the gaps that it filled most of: a thread that runs for 30 µs may make
            one of 90.
        ran_ns: how long it ran itself in gaps, without the way in and out; None where that is not known.
    """

    kind: str
    layer: str
    name: str
    cpu: int
    count: int
    total_ns: float | None
    max_ns: float | None
    rate_hz: float
    gaps_ns: float | None = None
    ran_ns: float | None = None


@dataclass(frozen=True)
class Period(_Entry):
    """A beat in the outliers.

    Attributes:
        phase_ns: when its first beat came, after the start.
        p_value: how likely aperiodic outliers show as strong a beat anywhere in the searched range.
        share: of the expected beats, how many came.
    """

    period_ns: float
    phase_ns: float
    p_value: float
    cause: str
    share: float = 0.0
    cpu: int | None = None


@dataclass(frozen=True)
class Exceeded:
    """The gap that ended a run, since it was over the threshold that was given.

    Attributes:
        at_ns: when it began, after the start.
        ran: what ran in it, by its start: kind, name, when (ns after the gap began) and for how long; None
            where the kernel's events were not recorded.
        trace: what became of the kernel's own trace.
    """

    cpu: int
    at_ns: float
    length_ns: float
    ran: tuple[tuple[str, str, float, float], ...] | None
    trace: str

    def to_json(self) -> dict[str, Any]:
        """The gap's entry of the JSON contract."""
        keys = ("kind", "name", "after_ns", "ran_ns")
        return {
            **{key: getattr(self, key) for key in ("cpu", "at_ns", "length_ns", "trace")},
            "ran": None if self.ran is None else [dict(zip(keys, one, strict=True)) for one in self.ran],
        }


class WarningKind(StrEnum):
    """What a warning about a run is of: exit codes and branches ask this, never the sentence."""

    CPU_REFUSED = "cpu refused"
    PRIORITY_REFUSED = "priority refused"
    CPU_WENT_AWAY = "cpu went away"
    INTERRUPTED = "interrupted"
    EVENTS_LOST = "events lost"
    NOT_JOINED = "not joined"
    RING_WRAPPED = "ring wrapped"
    QUOTA = "quota"
    REAL_TIME_LIMIT = "real-time limit"
    UNKNOWN = "unknown"  # of a recording that an earlier latlab wrote


# After these what was measured is not the machine's jitter, or not all of it.
DOUBTFUL = frozenset({WarningKind.CPU_WENT_AWAY, WarningKind.EVENTS_LOST, WarningKind.QUOTA})


@dataclass(frozen=True)
class JitterWarning:
    """What a reader of a run must know: its kind, and the sentence with its numbers."""

    kind: WarningKind
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class JitterResult:
    """A run over some cores.

    Attributes:
        attributed: the share of gap time with a known source; None where nothing could be traced.
        joined: the share of gap time that was joined to a kernel event; the rest of `attributed` is below the
            kernel by exclusion.
        layers_ns: gap time per layer.
        task: the task whose durations stand in ``cores`` of a run with ``--task``; None for the machine
            alone.
        own_ns: gap time of latlab's own threads, left out of the sources.
        exceeded: the gap that ended the run.
        whole: the run was not broken off.
        others_busy: how many CPUs other processes used meanwhile; None where that is not known.
    """

    cores: tuple[CoreJitter, ...]
    sources: tuple[Source, ...] = ()
    periods: tuple[Period, ...] = ()
    warnings: tuple[JitterWarning, ...] = ()
    attributed: float | None = None
    layers_ns: Mapping[str, float] = field(default_factory=dict)
    task: str | None = None
    joined: float | None = None
    own_ns: float = 0.0
    exceeded: Exceeded | None = None
    whole: bool = True
    others_busy: float | None = None

    def to_json(self) -> dict[str, Any]:
        """The document that ``latlab jitter --json`` prints."""
        document: dict[str, Any] = {
            "schema": SCHEMA,
            "cores": [core.to_json() for core in self.cores],
            "sources": [source.to_json() for source in self.sources if source.total_ns is not None],
            "counted": [source.to_json() for source in self.sources if source.total_ns is None],
            "periods": [period.to_json() for period in self.periods],
            "warnings": [one.text for one in self.warnings],
            "warning_kinds": [str(one.kind) for one in self.warnings],
            "attributed": self.attributed,
            "joined": self.joined,
            "layers_ns": dict(self.layers_ns),
            "own_ns": self.own_ns,
            "others_busy": self.others_busy,
        }
        if self.exceeded is not None:
            document["exceeded"] = self.exceeded.to_json()
        if self.task is not None:
            document["task"] = self.task
        return document
