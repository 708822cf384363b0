"""Recordings of requests before and after a change."""

from __future__ import annotations

import random

from latlab.model.requests import Requests
from latlab.reports.requests.text import comparison_lines
from latlab.requests import compare


def run(p50: float, p99: float, at_least: tuple[str, ...] = ()) -> Requests:
    return Requests(
        1.0, 100, 100.0, 1, "resp", int(p50), int(p99), int(2 * p99), int(3 * p99), 0, (), (), (), 0, (), 0,
        at_least=at_least,
    )  # fmt: skip


def pairs(count: int, change: float) -> list[tuple[Requests, Requests]]:
    chance = random.Random(7)

    def noise() -> float:
        return 1 + chance.uniform(-0.02, 0.02)

    return [
        (run(1e5 * noise(), 1e6 * noise()), run(1e5 * noise(), change * 1e6 * noise())) for _ in range(count)
    ]


def test_one_pair_of_recordings_gives_no_verdict() -> None:
    found = compare(pairs(1, 3.0))
    assert found.verdict == "inconclusive"
    assert round(found.changes[1].effect) == 2
    assert "pairs of recordings" in comparison_lines(found)[-1]


def test_a_slower_tail_is_found_and_the_median_is_equivalent() -> None:
    found = compare(pairs(24, 1.5))
    assert found.verdict == "slower"
    assert [one.verdict for one in found.changes] == ["equivalent", "slower", "slower"]


def test_the_same_server_is_not_slower() -> None:
    assert compare(pairs(24, 1.0)).verdict == "equivalent"


def test_a_quantile_that_is_a_lower_bound_gives_no_verdict() -> None:
    found = compare([(run(1e5, 1e6), run(1e5, 5e6, ("p99_ns",)))] * 24)
    assert [one.verdict for one in found.changes][1] == "inconclusive"
