from __future__ import annotations

import time

import numpy as np
import pytest

from latlab.system import clock
from latlab.system.clock import Calibration, Reference


def test_readings_become_nanoseconds_by_the_line_between_the_references() -> None:
    line = clock.calibrate(Reference(1000, 500), Reference(3000, 1500))
    assert line.rate_hz == 2e9
    np.testing.assert_array_equal(line.to_ns([1000, 2000, 900]), [500, 1000, 450])


def test_an_epochs_worth_of_ticks_keeps_its_nanoseconds() -> None:
    start = 2**62
    line = Calibration(Reference(start, 10**18), Reference(start + 10**10, 10**18 + 10**10), 1e9)
    np.testing.assert_array_equal(
        line.to_ns(np.array([start + 1, start + 10**9 + 1], dtype=np.uint64)),
        [10**18 + 1, 10**18 + 10**9 + 1],
    )


def test_the_uncertainty_of_a_rate_shrinks_with_the_interval() -> None:
    short = clock.calibrate(Reference(0, 0, 50), Reference(10**6, 10**6, 50))
    long = clock.calibrate(Reference(0, 0, 50), Reference(10**9, 10**9, 50))
    assert short.uncertainty_ppm == 50.0
    assert long.uncertainty_ppm == pytest.approx(0.05)


def test_two_references_in_the_wrong_order_have_no_rate() -> None:
    with pytest.raises(ValueError, match="no rate"):
        clock.calibrate(Reference(5, 5), Reference(5, 5))


def test_a_reference_agrees_with_the_monotonic_clock_of_python() -> None:
    before = time.monotonic_ns()
    found = clock.reference()
    after = time.monotonic_ns()
    assert before <= found.ns <= after


def test_the_machines_clock_describes_itself() -> None:
    found = clock.describe(0.01)
    assert found.rate_hz > 1e5
    assert found.quantum_ticks >= 1
    assert found.quantum_ns == pytest.approx(found.quantum_ticks * 1e9 / found.rate_hz)
    assert min(found.read_cost_ns, found.ordered_read_cost_ns, found.monotonic_read_cost_ns) > 0
    assert found.interval_ns >= 10_000_000
    assert found.rate_uncertainty_ppm > 0


def test_the_quantum_of_this_machine_divides_its_readings() -> None:
    quantum = clock.quantum_ticks()
    readings = np.array([clock.ticks() for _ in range(1000)], dtype=np.uint64)
    fresh = np.diff(readings)
    fresh = fresh[fresh > 1]
    phases = np.bincount((readings % np.uint64(quantum)).astype(int))
    assert phases.max() >= 900 if quantum > 1 else fresh.size > 0
