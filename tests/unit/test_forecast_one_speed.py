"""Runs at full load that follow the machine's speed are compared at one speed of it."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.lab.forecast.intervals import quantile_interval
from latlab.lab.forecast.one_speed import at_usual_speed, usual_speed
from latlab.lab.forecast.stage_runs import Fast, Paced

SLOW = np.log([1.0, 1.0, 1.8, 1.7, 1.0, 1.8, 1.1, 1.6, 1.0, 1.8])


def fast(rates: np.ndarray) -> list[Fast]:
    return [
        Fast(float(rate), "none", speed=(float(slow), 0.0)) for rate, slow in zip(rates, SLOW, strict=True)
    ]


def test_rates_that_fall_with_the_machine_are_as_at_its_usual_speed() -> None:
    runs = fast(1e5 / np.exp(SLOW))
    moved, explained = at_usual_speed({None: fast(np.full(10, 3e4)), 1.0: runs})

    assert explained > 0.95
    usual = float(np.exp(usual_speed(runs)[0]))
    assert [run.rate_hz for run in moved[1.0]] == pytest.approx([1e5 / usual] * 10, rel=1e-6)
    assert [run.rate_hz for run in moved[None]] == [3e4] * 10  # a stage paces them, whatever the machine does


def test_runs_whose_speed_is_not_known_stay_as_they_are() -> None:
    runs = [Fast(float(n), "none") for n in range(1, 11)]
    assert at_usual_speed({1.0: runs}) == ({1.0: runs}, 0.0)


def test_a_tail_that_grows_as_the_machine_gets_slower_is_the_one_at_its_usual_speed() -> None:
    runs = [
        Paced(1.0, 1.0, np.array([round(1e6 * np.exp(slow))]), "none", speed=(float(slow), 0.0))
        for slow in SLOW
    ]
    plain, moved = quantile_interval(runs, 0.999), quantile_interval(runs, 0.999, (0.0, 0.0))
    assert plain is not None
    assert moved is not None
    assert moved.value == pytest.approx(1e6, rel=0.01)
    assert plain.value > 1.2 * moved.value
