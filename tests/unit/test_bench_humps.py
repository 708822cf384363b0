from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from latlab.bench.judging.humps import iteration_humps
from latlab.model.bench import Sample

Floats = npt.NDArray[np.float64]


def normal(random: np.random.Generator, count: int) -> Floats:
    return 1 + 0.02 * random.normal(size=count)


def skewed(random: np.random.Generator, count: int) -> Floats:
    return 1 + 0.05 * random.exponential(size=count)


def disturbed(random: np.random.Generator, count: int) -> Floats:
    return normal(random, count) + np.where(random.random(count) < 0.03, random.exponential(2, count), 0)


def alike(random: np.random.Generator, count: int) -> Floats:
    out, steps = np.zeros(count), random.normal(size=count)
    for i in range(1, count):
        out[i] = 0.5 * out[i - 1] + steps[i]
    return 1 + 0.01 * out


def stepped(random: np.random.Generator, count: int) -> Floats:
    """Of a clock of 10 ns that is about as wide as the distribution, and of a scaled counter's odd steps."""
    times = np.round(normal(random, count) * 1e3 / 10) * 10 + random.choice([0.0, 0.3], size=count)
    return np.asarray(times / 1e3)


UNIMODAL = (normal, skewed, disturbed, alike, stepped)


def run(draw: Callable[[np.random.Generator, int], Floats], seed: int, processes: int = 10) -> list[Sample]:
    """Processes whose levels differ."""
    random = np.random.default_rng(seed)
    levels = 1e3 * (1 + 0.05 * random.normal(size=processes))
    return [Sample(level * draw(random, 200), quantum_ns=10.0) for level in levels]


@pytest.mark.parametrize("draw", UNIMODAL, ids=lambda draw: draw.__name__)
@pytest.mark.parametrize("processes", [1, 10])
def test_processes_of_one_hump_are_called_several_in_at_most_5_of_100_runs(
    draw: Callable[[np.random.Generator, int], Floats], processes: int
) -> None:
    found = [iteration_humps(run(draw, seed, processes)) for seed in range(60)]
    assert set(found) <= {1, 2}
    assert found.count(2) <= 0.05 * 60


@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("draw", UNIMODAL, ids=lambda draw: draw.__name__)
def test_a_slow_path_that_some_iterations_take_is_a_hump_of_its_own(
    draw: Callable[[np.random.Generator, int], Floats], share: float
) -> None:
    def two(random: np.random.Generator, count: int) -> Floats:
        return draw(random, count) * np.where(random.random(count) < share, 1.4, 1.0)

    assert [iteration_humps(run(two, seed)) for seed in range(10)].count(2) >= 9


def test_processes_of_two_levels_are_no_humps_of_their_iterations() -> None:
    samples = run(normal, 1)
    slow = [Sample(s.times_ns * (1.3 if i % 2 else 1.0), quantum_ns=10.0) for i, s in enumerate(samples)]
    assert iteration_humps(slow) == 1


def test_with_too_few_iterations_nothing_is_said() -> None:
    assert iteration_humps([Sample(np.full(1, 5.0))] * 30) is None
    assert iteration_humps([]) is None
