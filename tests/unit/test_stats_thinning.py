from __future__ import annotations

import numpy as np

from latlab.messaging.judging.humps import humps_of
from latlab.stats.thinning import drawn, extremes


def test_no_spike_is_lost_when_a_series_is_thinned_to_be_drawn() -> None:
    values = np.full(200_000, 50_000, np.int64)
    values[[17, 99_999, 180_003]] = 40_000_000
    kept = extremes(values, 20_000)
    assert (len(kept) <= 20_000, np.sort(values[kept])[-3:].tolist()) == (True, [40_000_000] * 3)


def test_a_short_series_and_one_with_gaps_are_kept() -> None:
    assert extremes(np.arange(5), 10).tolist() == [0, 1, 2, 3, 4]
    gaps = np.array([np.nan, 1.0, np.nan, 3.0] * 100)
    assert set(gaps[extremes(gaps, 20)].tolist()) == {1.0, 3.0}


def test_a_random_draw_keeps_order_and_size() -> None:
    values = np.arange(1000)
    found = drawn(values, 100)
    assert (len(found), len(np.unique(found))) == (100, 100)
    assert (np.diff(found) > 0).all()


def test_humps_of_messages_that_alternate_are_both_found_at_every_size() -> None:
    random = np.random.default_rng(1)
    for count in (30_000, 40_000, 100_000, 200_000):
        latency = (random.normal(28_000, 1_000, count)).astype(np.int64)
        latency[1::2] += 250_000
        found, _, _ = humps_of(latency, 9.0)
        assert [round(one.weight, 1) for one in found] == [0.5, 0.5]


def test_every_tenth_message_that_is_late_is_a_hump_of_a_tenth() -> None:
    random = np.random.default_rng(2)
    latency = random.normal(50_000, 2_000, 100_000).astype(np.int64)
    latency[::10] += 2_000_000
    found, _, _ = humps_of(latency, 9.0)
    assert [round(one.weight, 2) for one in found] == [0.9, 0.1]
