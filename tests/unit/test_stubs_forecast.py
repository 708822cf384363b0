"""The forecast from measured points: planted curves, noise and all."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from latlab.stubs import forecast
from latlab.stubs.studies.forecast import SPEEDUPS, _Points


def measured(
    time: Callable[[float], float],
    *,
    noise: float = 0.005,
    rounds: int = 10,
    seed: int = 1,
    drift: float = 0.0,
) -> tuple[list[dict[float, float]], list[float]]:
    """Rounds of a system, each a little slower than the one before, with noise that only makes slower."""
    random = np.random.default_rng(seed)

    def one(value: float, round_number: int) -> float:
        return value * (1 + 0.01 * round_number) * (1 + noise * abs(random.standard_normal()))

    points = [{s: one(time(s) * (1 + drift * (1 - s)), r) for s in SPEEDUPS} for r in range(rounds)]
    return points, [one(time(0.0), r) for r in range(rounds)]


def total(s: float) -> float:
    return 100 - 40 * s


def limited(s: float) -> float:
    return 100 - 80 * min(s, 0.43)


def test_a_straight_line_is_a_total_bottleneck() -> None:
    rounds, base = measured(total)
    found = forecast(rounds, baseline=base, name="score")
    assert found.component_class == "total"
    assert found.t_limit is None
    assert abs(found.curve[-1].gain - 0.4) < 0.01


def test_where_runs_scatter_a_gain_that_is_not_seen_is_not_denied() -> None:
    rounds, base = measured(lambda _: 100.0, noise=0.05)
    found = forecast(rounds, baseline=base, name="score")
    assert found.sentence.startswith("no gain of speeding up `score` stands out of the noise: at most ")


def test_a_flat_line_is_no_bottleneck() -> None:
    rounds, base = measured(lambda _: 100.0, noise=0.002)
    found = forecast(rounds, baseline=base, name="score")
    assert found.component_class == "none"
    assert "does not pay" in found.sentence


@pytest.mark.parametrize("seed", range(8))
def test_noise_alone_is_never_called_a_gain(seed: int) -> None:
    rounds, base = measured(lambda _: 100.0, noise=0.05, seed=seed)
    assert forecast(rounds, baseline=base, name="score").component_class == "none"


@pytest.mark.long
@pytest.mark.parametrize("knee", [0.15, 0.43, 0.77])
def test_a_knee_is_found_where_it_was_planted(knee: float) -> None:
    rounds, base = measured(lambda s: 100 - 70 * min(s, knee))
    found = forecast(rounds, baseline=base, name="book", takes_over="strategy")
    assert found.component_class == "limited"
    assert found.t_limit is not None
    assert abs(found.t_limit - knee) <= 0.03
    assert found.t_limit_interval is not None
    assert found.t_limit_interval[0] <= knee <= found.t_limit_interval[1]
    assert "since `strategy` takes over" in found.sentence


def test_a_part_that_still_pays_less_after_the_knee_is_said_so() -> None:
    rounds, base = measured(lambda s: 100 - 60 * min(s, 0.4) - 20 * s, noise=0.002)
    found = forecast(rounds, baseline=base, name="book")
    assert found.component_class == "limited"
    assert found.pays_beyond is not None
    assert abs(found.pays_beyond - 0.25) < 0.05
    assert abs(found.curve[-1].gain - 0.44) < 0.01


@pytest.mark.long
@pytest.mark.parametrize("shape", [total, limited, lambda _: 100.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_curve_is_within_a_point_and_its_intervals_cover_it(
    shape: Callable[[float], float], seed: int
) -> None:
    rounds, base = measured(shape, noise=0.01, seed=seed)
    found = forecast(rounds, baseline=base, name="score")
    truth = [1 - shape(s) / shape(0.0) for s in SPEEDUPS]
    errors = [abs(point.gain - true) for point, true in zip(found.curve, truth, strict=True)]
    assert max(errors) <= 0.015
    covered = [
        point.interval[0] - 1e-9 <= true <= point.interval[1] + 1e-9
        for point, true in zip(found.curve, truth, strict=True)
    ]
    assert sum(covered) >= 10


def test_what_the_stub_does_not_reproduce_leaves_with_the_component() -> None:
    # The stub at full time is 4 % faster than the component, which disturbs others too.
    rounds, base = measured(total, drift=-0.04, noise=0.001)
    found = forecast(rounds, baseline=base, name="score")
    assert abs(found.drift + 0.04) < 0.005
    assert abs(found.curve[-1].gain - 0.4) < 0.01
    assert abs(found.curve[5].gain - 0.2) < 0.015


def test_a_rate_is_judged_by_its_time_per_event() -> None:
    rounds, _ = measured(limited, noise=0.002)
    rates = [{s: 1e6 / value for s, value in one.items()} for one in rounds]
    found = forecast(rates, name="book", better="more", what="throughput")
    assert found.component_class == "limited"
    assert abs((found.t_limit or 0) - 0.43) <= 0.03
    assert abs(found.curve[-1].gain - 0.344) < 0.01
    assert abs(found.curve[-1].value / found.base - 1 / (1 - 0.344)) < 0.02
    assert re.search("throughput rises by 5[23] %", found.sentence)


def test_points_that_are_missing_from_some_rounds_are_no_harm() -> None:
    rounds, base = measured(limited, noise=0.002)
    thinned = [
        {s: v for s, v in one.items() if s in (0.0, 1.0) or (i + round(s * 10)) % 2}
        for i, one in enumerate(rounds)
    ]
    found = forecast(thinned, baseline=base, name="book")
    assert abs((found.t_limit or 0) - 0.43) <= 0.03


def test_points_of_few_rounds_do_not_make_the_intervals_narrow() -> None:
    rounds, base = measured(total, noise=0.05, rounds=6)
    dealt = [
        {s: v for s, v in one.items() if s in (0.0, 1.0) or round(s * 10) % 6 == i}
        for i, one in enumerate(rounds)
    ]
    found = forecast(dealt, baseline=base, name="score")
    assert found.curve[5].interval[1] - found.curve[5].interval[0] > 0.05


def test_few_rounds_are_a_warning_and_still_give_intervals() -> None:
    rounds, base = measured(total, rounds=4)
    found = forecast(rounds, baseline=base, name="score")
    assert any("only 4 rounds" in warning for warning in found.warnings)
    assert found.curve[5].interval[0] < found.curve[5].gain < found.curve[5].interval[1]


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        ([{0.0: 1.0, 1.0: 1.0}], "at least two rounds"),
        ([{0.0: 1.0}, {0.0: 1.0}], "speedup 0 and speedup 1"),
        ([{0.0: 1.0, 1.0: 0.0}] * 2, "positive"),
    ],
)
def test_measures_that_carry_nothing_are_refused(rounds: list[dict[float, float]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        forecast(rounds, name="score")


@pytest.mark.parametrize(("rounds", "wider"), [(4, 1.62), (7, 1.25), (20, 1.07)])
def test_what_few_rounds_cannot_tell_of_their_spread_is_in_the_intervals(rounds: int, wider: float) -> None:
    points, base = measured(total, noise=0.03, rounds=rounds)
    few = _Points(list(zip(base, points, strict=True)), simulated=True)
    many = _Points(list(zip(base, points, strict=True)), simulated=True)
    many._rounds = 1_000_000
    ratio = few.half_widths([1.0]) / many.half_widths([1.0])
    assert ratio[0] == pytest.approx(wider, abs=0.01)


def test_intervals_hold_points_that_lie_off_every_curve() -> None:
    # A system that gains less again once the component hardly takes time: others then contend with it.
    rounds, base = measured(lambda s: 100 - 60 * min(s, 0.5) + 24 * max(0.0, s - 0.5))
    found = forecast(rounds, baseline=base, name="score")
    assert any("lie off every curve" in one for one in found.warnings)
    low, high = found.curve[-1].interval
    assert low <= 0.18 <= high
