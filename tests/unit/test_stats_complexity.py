from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from latlab.stats.shapes.complexity import growth

SIZES = [100, 300, 1000, 3000, 10_000, 30_000]
LAWS: dict[str, Callable[[int], float]] = {
    "1": lambda n: 50.0,
    "log n": lambda n: 5 * math.log2(n + 1),
    "n": lambda n: 40 + 2.0 * n,
    "n log n": lambda n: n * math.log2(n + 1),
    "n²": lambda n: 100 + 0.1 * n * n,
}


@pytest.mark.parametrize("law", LAWS)
def test_a_law_is_found_where_it_was_planted_with_an_overhead_and_noise(law: str) -> None:
    for seed in range(10):
        noise = np.exp(0.003 * np.random.default_rng(seed).normal(size=len(SIZES)))
        assert growth(SIZES, [LAWS[law](n) * x for n, x in zip(SIZES, noise, strict=True)]).laws == (law,)


def test_laws_that_noise_does_not_tell_apart_are_all_named() -> None:
    noise = np.exp(0.1 * np.random.default_rng(1).normal(size=len(SIZES)))
    found = growth(SIZES, [n * x for n, x in zip(SIZES, noise, strict=True)]).laws
    assert {"n", "n log n"} <= set(found)


def test_too_few_sizes_and_no_law_are_said() -> None:
    assert growth([1, 2, 4], [1.0, 2.0, 4.0]).laws == ()
    assert growth(SIZES, [1.0, 100.0, 1.0, 100.0, 1.0, 100.0]).laws == ()
