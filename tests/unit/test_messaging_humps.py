from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.test_messaging_verdict import measured

from latlab.messaging import analyse
from latlab.messaging.judging.humps import humps_of
from latlab.reports.messaging.text import render


def made(random: np.random.Generator, count: int, form: int) -> tuple[Any, int]:
    """Latencies of so many messages, and how many humps: one path, every k-th late, two paths, batches."""
    base, spread = 10 ** random.uniform(3.5, 5), random.uniform(0.02, 0.15)
    values = base * np.exp(spread * random.standard_normal(count))
    if form == 0:
        return base * np.exp(random.uniform(0.02, 0.5) * random.standard_normal(count)), 1
    late = random.random(count) < random.uniform(0.1, 0.9)
    if form == 1:
        late = np.arange(count) % random.integers(2, 11) == 0
    if form == 3:
        batch = int(random.integers(2, 5))
        step = base * random.uniform(1.2, 10)
        return values + step * (np.arange(count) % batch), batch
    values[late] *= random.uniform(2.5, 20)
    return values, 2


@pytest.mark.parametrize("count", [60, 100, 200, 300])
def test_of_few_messages_humps_are_right_or_too_few_to_tell(count: int) -> None:
    random = np.random.default_rng(count)
    wrong, unsure, runs = 0, 0, 120
    for number in range(runs):
        values, truth = made(random, count, number % 4)
        humps, _, too_few = humps_of(np.rint(values).astype(np.int64), 9.0)
        wrong += len(humps) != truth and not too_few
        unsure += too_few
    assert wrong <= 0.02 * runs
    assert unsure <= (0.6 if count < 100 else 0.15) * runs


def test_many_messages_are_enough() -> None:
    random = np.random.default_rng(1)
    assert not any(humps_of(random.normal(50_000, 5000, 2000).astype(np.int64), 9.0)[2] for _ in range(20))


@pytest.mark.parametrize(("every", "count"), [(64, 5000), (64, 200_000), (1000, 40_000), (1000, 1_000_000)])
def test_a_rare_way_of_every_kth_message_is_a_hump(every: int, count: int) -> None:
    random = np.random.default_rng(every)
    values = 20_000 * np.exp(0.1 * random.standard_normal(count))
    values[3::every] *= 5
    humps, _, _ = humps_of(np.rint(values).astype(np.int64), 9.0)
    assert [hump.weight for hump in humps] == pytest.approx([1 - 1 / every, 1 / every], abs=3e-4)


def test_a_rare_way_of_too_few_messages_is_said_to_be_possible() -> None:
    random = np.random.default_rng(2)
    for _ in range(10):
        latency = 20_000 * np.exp(0.15 * random.standard_normal(1000))
        latency[3::64] *= 4
        found = analyse(measured(np.rint(latency).astype(np.int64), count=1000))
        assert found.verdict.period is not None
        assert found.verdict.period.every == 64
        assert len(found.humps) == 2 or found.humps_unsure


def test_steps_of_some_messages_are_no_rare_ways() -> None:
    random = np.random.default_rng(4)
    latency = np.rint(1000 * np.exp(0.2 * random.standard_normal(100_000))).astype(np.int64)
    latency[::7] *= 5
    assert [round(hump.weight, 2) for hump in humps_of(latency, 9.0)[0]] == [0.86, 0.14]


def test_what_one_stall_delayed_is_no_rare_way() -> None:
    random = np.random.default_rng(3)
    values = 20_000 * np.exp(0.1 * random.standard_normal(50_000))
    values[1000:1100] += 4_000_000
    assert len(humps_of(np.rint(values).astype(np.int64), 9.0)[0]) == 1


@pytest.mark.long
def test_the_edge_of_a_hump_is_none_of_its_own_beside_another_hump() -> None:
    wrong = 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        values = 50_000 * np.exp(0.15 * random.standard_normal(10_000))
        values[random.random(10_000) < 0.4] *= 8
        wrong += len(humps_of(np.rint(values).astype(np.int64), 9.0)[0]) != 2
    assert wrong == 0


def test_steps_of_one_reading_of_the_clock_are_not_humps() -> None:
    random = np.random.default_rng(1)
    looks = np.rint(random.normal(19, 1.5, 20_000)) * 10 + random.normal(0, 0.7, 20_000)
    far = np.where(random.random(looks.size) < 0.3, looks + 5000, looks)
    assert len(humps_of(np.rint(looks).astype(np.int64), 9.0)[0]) == 1
    humps, _, _ = humps_of(np.rint(far).astype(np.int64), 9.0)
    assert [round(hump.weight, 1) for hump in humps] == [0.7, 0.3]
    assert len(humps_of(np.rint(looks).astype(np.int64), 1.0)[0]) > 1


def test_the_report_says_where_messages_are_too_few() -> None:
    few = render(analyse(measured(count=60, gap_ns=10_000_000)))
    assert "too few messages to tell whether there are more" in few
    assert "too few messages" not in render(analyse(measured()))
