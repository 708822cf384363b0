"""What the laboratory's clock can tell, and how well."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ClockDescription"]


@dataclass(frozen=True, slots=True)
class ClockDescription:
    """The clock of one machine.

    Attributes:
        counter: which counter it is: "tsc", "cntvct" or "clock_monotonic".
        invariant: whether the counter keeps one rate through changes of frequency and sleep.
        kernel_source: the kernel's own clock source; None where it isn't known.
        rate_hz: counter steps per second over the interval that was measured.
        rate_uncertainty_ppm: by how much that rate may be off, from the width of the two simultaneous
            readings.
        interval_ns: the length of that interval.
        quantum_ticks: the step that the counter moves in.
        quantum_ns: that step in nanoseconds: no two readings can be told apart by less.
        read_cost_ns: of one reading, back to back.
        ordered_read_cost_ns: of one reading that waits for what comes before it and holds back what comes
            after.
        monotonic_read_cost_ns: of clock_gettime(CLOCK_MONOTONIC), for comparison.
        remarks: what a user of the clock must know; empty when nothing.
    """

    counter: str
    invariant: bool
    kernel_source: str | None
    rate_hz: float
    rate_uncertainty_ppm: float
    interval_ns: int
    quantum_ticks: int
    quantum_ns: float
    read_cost_ns: float
    ordered_read_cost_ns: float
    monotonic_read_cost_ns: float
    remarks: tuple[str, ...] = ()
