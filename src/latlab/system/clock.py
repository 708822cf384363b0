"""The laboratory's clock from Python: readings, the rate over a measured interval, and what the clock is
worth.

The counter's rate is never calibrated beforehand. Two readings of counter and CLOCK_MONOTONIC, one at each
end of what was measured, give the rate over that very interval: see docs/explanation/clock.md.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from latlab._core import clock as _clock
from latlab.model.machine.clock import ClockDescription

__all__ = ["Calibration", "Reference", "calibrate", "describe", "quantum_ticks", "reference", "ticks"]

ticks = _clock.ticks


@dataclass(frozen=True, slots=True)
class Reference:
    """The counter and CLOCK_MONOTONIC at one instant.

    Attributes:
        ticks: the counter.
        ns: CLOCK_MONOTONIC.
        width_ticks: how far apart the two readings of the counter were that enclose the one of
            CLOCK_MONOTONIC: the two belong together to half of that.
    """

    ticks: int
    ns: int
    width_ticks: int = 0


@dataclass(frozen=True, slots=True)
class Calibration:
    """The line that turns counter readings into CLOCK_MONOTONIC nanoseconds.

    Attributes:
        start: where the measured interval began.
        end: where it ended.
        rate_hz: counter steps per second between the two.
    """

    start: Reference
    end: Reference
    rate_hz: float

    @property
    def uncertainty_ppm(self) -> float:
        """By how much the rate may be off, in parts per million: half of each end's width over the
        interval."""
        width = (self.start.width_ticks + self.end.width_ticks) / 2
        return width / (self.end.ticks - self.start.ticks) * 1e6

    def to_ns(self, readings: ArrayLike) -> NDArray[np.int64]:
        """Counter readings as CLOCK_MONOTONIC nanoseconds, in the shape of `readings`."""
        # The distance to the start is exact in integers, and small enough for a float's 53 bits.
        offset = np.asarray(readings, dtype=np.uint64).astype(np.int64) - np.int64(self.start.ticks)
        ns = np.rint(offset * (1e9 / self.rate_hz)).astype(np.int64) + self.start.ns
        return np.asarray(ns, dtype=np.int64)

    def duration_ns(self, durations: ArrayLike) -> NDArray[np.float64]:
        """Distances in ticks as nanoseconds, in the shape of `durations`."""
        return np.asarray(durations, dtype=np.float64) * (1e9 / self.rate_hz)


def reference(attempts: int = 16) -> Reference:
    """Read counter and CLOCK_MONOTONIC together: the closest of so many attempts."""
    return Reference(*_clock.reference(attempts))


def calibrate(start: Reference, end: Reference) -> Calibration:
    """The counter's rate between two references that enclose a measurement.

    Raises:
        ValueError: when they are one instant, or in the wrong order.
    """
    if end.ns <= start.ns or end.ticks <= start.ticks:
        raise ValueError("the second reference doesn't lie after the first, so there is no rate between them")
    return Calibration(start, end, (end.ticks - start.ticks) * 1e9 / (end.ns - start.ns))


def quantum_ticks(readings: int = 4096) -> int:
    """The step that the counter moves in, in ticks; about 0.1 ms."""
    return _clock.quantum_ticks(readings)


def describe(
    seconds: float = 0.05, *, wait: Callable[[float], None] = time.sleep, root: Path = Path("/")
) -> ClockDescription:
    """Measure the clock.

    Args:
        seconds: over how long an interval its rate is taken; 50 ms are good for ±2 ppm.
        wait: what lets that interval pass.
        root: where /sys is found.
    """
    start = reference()
    quantum = _clock.quantum_ticks(16384)
    plain, ordered, monotonic = _clock.read_cost_ticks(101)
    backward = _clock.largest_backward_step(10_000)
    wait(seconds)
    line = calibrate(start, reference())
    ns_per_tick = 1e9 / line.rate_hz
    counter, invariant, source = _counter(), _clock.invariant(), _kernel_source(root)
    return ClockDescription(
        counter=counter,
        invariant=invariant,
        kernel_source=source,
        rate_hz=line.rate_hz,
        rate_uncertainty_ppm=line.uncertainty_ppm,
        interval_ns=line.end.ns - line.start.ns,
        quantum_ticks=quantum,
        quantum_ns=quantum * ns_per_tick,
        read_cost_ns=plain * ns_per_tick,
        ordered_read_cost_ns=ordered * ns_per_tick,
        monotonic_read_cost_ns=monotonic * ns_per_tick,
        remarks=tuple(_remarks(invariant, source, backward)),
    )


def _counter() -> str:
    return {"x86_64": "tsc", "aarch64": "cntvct"}.get(platform.machine(), "clock_monotonic")


def _kernel_source(root: Path) -> str | None:
    path = root / "sys/devices/system/clocksource/clocksource0/current_clocksource"
    return path.read_text().strip() if path.is_file() else None


def _remarks(invariant: bool, source: str | None, backward_ticks: int) -> list[str]:
    found = []
    if not invariant:
        found.append(
            "the counter's rate follows the CPU's frequency: compare intervals of one frequency only"
        )
    if (
        source is not None
        and platform.machine() == "x86_64"
        and source not in ("tsc", "kvm-clock", "hyperv_clocksource_tsc_page")
    ):
        found.append(f"the kernel itself uses '{source}' and not the TSC: see 'dmesg | grep -i tsc' for why")
    if backward_ticks:
        found.append(f"the counter stepped back by {backward_ticks} ticks: time stamps are not ordered")
    return found
