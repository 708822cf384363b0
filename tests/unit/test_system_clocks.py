"""Clocks: their step, their steps back, and which is recommended."""

from __future__ import annotations

import time
from itertools import cycle

import numpy as np

from latlab.system.clocks import facts_of, recommend


def counting(values: list[int]) -> object:
    source = cycle(values)
    return lambda: next(source)


def test_a_clocks_step_and_its_steps_back_are_seen() -> None:
    at = 0

    def coarse() -> int:
        nonlocal at
        at += 1
        return at // 10 * 4_000_000

    seen = facts_of("coarse", "cpu time", coarse, "", readings=1000)
    assert (seen.quantum_ns, seen.monotonic) == (4e6, True)
    back = facts_of("back", "wall", counting([1, 5, 3]), "", readings=9)  # type: ignore[arg-type]
    assert not back.monotonic


def test_the_quantum_of_a_counter_is_found_though_its_reading_takes_several() -> None:
    random = np.random.default_rng(1)
    values = (np.cumsum(random.integers(3, 12, 200_000)) * 26).tolist()
    assert facts_of("tsc", "counter", counting(values), "", readings=5000).quantum_ns == 26.0  # type: ignore[arg-type]


def test_a_clock_that_steps_back_is_recommended_for_nothing() -> None:
    found = [
        facts_of("CLOCK_A", "monotonic", counting([5, 3]), "", readings=10),  # type: ignore[arg-type]
        facts_of("CLOCK_B", "monotonic", time.monotonic_ns, "", readings=10),
    ]
    assert recommend(found)["intervals in Python"] == "CLOCK_B"
