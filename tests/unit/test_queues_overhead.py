from __future__ import annotations

import numpy as np
import pytest

from latlab.lab.trading.overhead import OverheadRun, compared
from latlab.reports.queues.overhead_text import overhead_lines
from latlab.stats.quantiles import median_bounds
from latlab.system.kernel.counters import CacheCount


def runs(slowdown: float, rounds: int = 6) -> list[list[OverheadRun]]:
    """Rounds that differ from one another tenfold, with a sampler that slows every event alike."""
    made = []
    for number in range(rounds):
        base = np.arange(100, 200) * 1000 * (1 + 9 * (number % 2))
        there = {"q": base, "": 3 * base}
        seen = {name: np.rint(times * (1 + slowdown)).astype(np.int64) for name, times in there.items()}
        made.append(
            [OverheadRun(0, there), OverheadRun(100_000, seen, 120_000.0, CacheCount(200 + number, 20))]
        )
    return made


def test_a_slowdown_is_seen_through_rounds_that_differ_tenfold() -> None:
    found = compared(runs(0.05), 2.0, (), "")
    cost = found.watched[1].whole
    assert cost is not None
    assert cost.slowdown == pytest.approx(0.05, abs=1e-4)
    assert cost.slowdown_low == pytest.approx(0.05, abs=1e-4)


def test_unobserved_runs_have_no_slowdown_of_their_own() -> None:
    found = compared(runs(0.05), 2.0, (), "")
    assert found.watched[0].period_ns == 0
    assert all(cost.slowdown is None for cost in found.watched[0].queues)


def test_five_rounds_give_no_interval() -> None:
    cost = compared(runs(0.05, rounds=5), 2.0, (), "").watched[1].whole
    assert cost is not None
    assert (cost.slowdown_low, cost.slowdown_high) == (None, None)


def test_identical_runs_are_no_slowdown() -> None:
    cost = compared(runs(0.0), 2.0, (), "").watched[1].whole
    assert cost is not None
    assert (cost.slowdown_low, cost.slowdown, cost.slowdown_high) == (0.0, 0.0, 0.0)


def test_the_cache_is_counted_per_run_or_told_to_be_unavailable() -> None:
    counted = compared(runs(0.0), 2.0, (), "")
    assert (counted.watched[1].llc_loads, counted.watched[1].llc_misses) == (202.5, 20.0)
    assert counted.watched[0].llc_loads is None
    missing = overhead_lines(compared(runs(0.0), 2.0, (), "no counter"))
    assert "unavailable: no counter" in missing


def test_what_was_dropped_or_starved_is_warned_of() -> None:
    rows = [[OverheadRun(0, {}, dropped=3), OverheadRun(100_000, {}, 900_000.0)]]
    first, second = compared(rows, 2.0, (), "").warnings
    assert first.startswith("3 messages were dropped")
    assert "900 µs (p99)" in second


@pytest.mark.parametrize(("count", "bounds"), [(5, None), (6, (1, 6)), (9, (2, 8)), (20, (6, 15))])
def test_the_interval_of_a_median_goes_by_binomial_ranks(count: int, bounds: tuple[int, int] | None) -> None:
    # Ranks as tabled: David and Nagaraja, "Order Statistics", section 7.1.
    assert median_bounds(range(1, count + 1)) == bounds
