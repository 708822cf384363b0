"""What a benchmark measured: one process at a time, and what was asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from latlab.model.statistics.paired import PairedResult

__all__ = ["COSTS", "Control", "Judgement", "Measure", "Plan", "Sample", "Settings", "Shift"]


# What a call costs beside its time, in the order in which the measuring processes write it.
COSTS = (
    "instructions",
    "branches",
    "branch_misses",
    "cache_misses",
    "voluntary_switches",
    "involuntary_switches",
    "minor_faults",
    "major_faults",
    "allocations",
    "allocated_bytes",
)


@dataclass(frozen=True)
class Settings:
    """How a process measures.

    Attributes:
        iterations: measured iterations a process.
        warmup: iterations before them.
        warm_s: seconds that those may take, beside the first of them, where the time of a call is known.
        batch: runs in one iteration; 0 lets the process find how many the clock needs.
        cpu: the processor to stay on; None leaves the affinity alone.
        cpus: the processors to stay on instead of `cpu`, for what has several threads; () for none.
        fitting: whether commands and fixtures that start threads get all processors and the ordinary
            scheduling instead: on one processor, or at SCHED_FIFO, those that wait for one another by
            spinning would hang.
        priority: of SCHED_FIFO; 0 leaves the scheduling alone.
        nice: whether the process comes before all other ordinary work, by the least nice value: those that
            wait by spinning do not hang there.
        lock_memory: whether to lock all memory.
        memory_limit_bytes: address space that the fixture may take; 0 for no limit.
        timeout_s: seconds after which a process counts as hung.
        turn: iterations after which a process hands over to that of the other side; 0 lets each measure in
            one go, one after the other.
        unmeasured: iterations at the beginning of a turn that aren't measured, or up to twice as many.
        cold: whether the caches are emptied before each call.
        count: calls whose costs are counted before anything is timed; 0 for none.
        moved: whether each pair's compiled files are copies that lie a drawn distance further.
    """

    iterations: int = 100
    warmup: int = 10
    warm_s: float = 0.03
    batch: int = 0
    cpu: int | None = None
    cpus: tuple[int, ...] = ()
    fitting: bool = False
    priority: int = 0
    nice: bool = False
    lock_memory: bool = True
    memory_limit_bytes: int = 0
    timeout_s: float = 60.0
    turn: int = 0
    unmeasured: int = 0
    cold: bool = False
    count: int = 0
    moved: bool = False


@dataclass(frozen=True, eq=False)
class Sample:
    """What one process measured of one side.

    Attributes:
        times_ns: time of one operation in each iteration, in the order measured; float64.
        batch: runs in one iteration.
        operations: of one run.
        quantum_ns: the clock's measured step.
        read_ns: measured cost of a reading, which is part of every iteration's time.
        position: 1 where it was the second process of a pair.
        process_s: wall time of the whole process.
        turn: iterations of each turn that it took with the other side; 0 if it measured in one go.
        measuring_s: wall time from its first to its last iteration.
        context: which of "pinned", "fifo", "nice", "locked", "placed" came about: the last is a layout of
            code and data that both processes of a pair have in common; "threads" where the fixture started
            some.
        singles_ns: times of the operations that were timed one by one, between the batches, the cost of a
            reading subtracted; float64, and empty of what was read back from a file.
        tail_quantile: the highest of p90, p99 and p99.9 that those carry; 0 where they carry none.
        tail_ns: that quantile of them, the cost of a reading subtracted.
        items: that a run handles, as the fixture says; 0 where it doesn't.
        bytes: the same in bytes.
        costs: of `COSTS`, of a run, those that something counted; empty where nothing was asked for.
    """

    times_ns: npt.NDArray[np.float64]
    batch: int = 1
    operations: int = 1
    quantum_ns: float = 0.0
    read_ns: float = 0.0
    process_s: float = 0.0
    turn: int = 0
    measuring_s: float = 0.0
    context: tuple[str, ...] = ()
    singles_ns: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    tail_quantile: float = 0.0
    tail_ns: float = 0.0
    items: float = 0.0
    bytes: float = 0.0
    costs: Mapping[str, float] = field(default_factory=dict)
    position: int = 0


@dataclass(frozen=True)
class Plan:
    """What the pilot found, and what was chosen for it.

    Attributes:
        iterations: a process.
        warmup: iterations before them.
        batch: runs in an iteration, the same on both sides.
        turn: iterations after which the sides' processes take turns; 0 if one runs after the other.
        unmeasured: iterations at the beginning of a turn that aren't measured.
        process_deviation: relative standard deviation between processes (of a pair's ratio, where they take
            turns), beyond what their iterations (turns) explain.
        iteration_deviation: that between the iterations of a process (the ratios of turns).
        effective_share: effective over actual number of iterations (turns), by their autocorrelation.
        build_deviation: that of builds, beyond what their pairs explain; None where nothing is rebuilt.
        block_pairs: pairs of a block, which share a build; the test's unit.
        builds: of each side, expected to be needed; 1 where nothing is rebuilt, None where `pairs` is.
        pairs: expected to be needed for the smallest effect; None where that is 0.
        seconds: expected to be needed, the builds included.
        build_s: seconds that both sides' build takes.
        pair_s: seconds that a pair takes.
        power: probability to find the smallest effect, which `pairs` is planned for.
        budget_pairs: pairs that the budget holds after the pilot; None where it has no end.
        budget_effect: the smallest relative change that these pairs find with this power; None where they
            are too few for any verdict.
        why: sentences.
        displaced: how many times as long an operation takes beside the other side's process, which may
            displace its data from the caches, as alone; 1 where that isn't known.
    """

    iterations: int
    warmup: int
    batch: int
    turn: int
    unmeasured: int
    process_deviation: float
    iteration_deviation: float
    effective_share: float
    build_deviation: float | None
    block_pairs: int
    builds: int | None
    pairs: int | None
    seconds: float | None
    build_s: float
    pair_s: float
    power: float
    budget_pairs: int | None
    budget_effect: float | None
    why: str
    displaced: float = 1.0


@dataclass(frozen=True)
class Shift:
    """The relative change of one quantile, with an interval over process pairs."""

    quantile: str
    effect: float | None
    interval: tuple[float | None, float | None]
    withheld: str | None = None


@dataclass(frozen=True)
class Measure:
    """One of the measures that a verdict is over.

    Attributes:
        name: "typical", "mean" (per operation) or the tail's quantile, such as "p99".
        result: of this measure alone; its level is its part of the whole, its smallest effect the margin
            within
            which it counts as equivalent.
    """

    name: str
    result: PairedResult


@dataclass(frozen=True)
class Judgement:
    """A verdict with everything that a reader may doubt.

    Attributes:
        result: the verdict over all measures; effect and interval are those of the measure that decided it.
        shifts: of the distribution's quantiles.
        smallest_effect_why: where the smallest effect that matters comes from.
        typical_ns: median over processes of each side's typical time of an operation.
        warnings: sentences, each with a remedy.
        details: humps, warm-up, autocorrelation and what else was looked at, by side.
        measures: what the verdict is over, the typical time first.
        decided_by: the name of the measure that decided it.
    """

    result: PairedResult
    shifts: tuple[Shift, ...]
    smallest_effect_why: str
    typical_ns: tuple[float, float]
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    measures: tuple[Measure, ...] = ()
    decided_by: str = "typical"


@dataclass(frozen=True)
class Control:
    """How often this host calls identical code different.

    Attributes:
        comparisons: made.
        called_different: of them.
        upper95: one-sided upper bound of the rate at 95 % (Clopper and Pearson).
        lower95: one-sided lower bound.
        alpha: level of each comparison.
    """

    comparisons: int
    called_different: int
    upper95: float
    lower95: float
    alpha: float

    @property
    def rate(self) -> float:
        """Called different over comparisons."""
        return self.called_different / self.comparisons if self.comparisons else 0.0

    @property
    def failed(self) -> bool:
        """Whether the host certainly calls more than alpha different."""
        return self.lower95 > self.alpha
