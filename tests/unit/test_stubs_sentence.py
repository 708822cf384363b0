from __future__ import annotations

import numpy as np
import pytest

from latlab.stubs.studies.forecast import SPEEDUPS, sentence

GAINS = np.asarray(SPEEDUPS) * 0.4


def said(kind: str, **given: object) -> str:
    return sentence(kind, GAINS, 1.0, 0.0, "x", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("slope", "rate"),
    [
        (None, "pays off in proportion all the way"),
        ((0.97, 0.05), "pays off 1:1 all the way"),
        ((0.5, 0.02), "pays off by 50 % (48 % to 52 %) of the time it saves all the way"),
        ((1.0, 0.6), "pays off by 100 % (40 % to 160 %) of the time it saves all the way"),
    ],
)
def test_one_to_one_is_said_only_where_the_measured_slope_says_so(
    slope: tuple[float, float] | None, rate: str
) -> None:
    assert rate in said("total", slope=slope)


def test_all_the_way_is_said_only_where_a_limit_would_stand_out_of_the_noise() -> None:
    assert "all the way" in said("total", half=0.02)
    assert said("total", half=0.1) == (
        "speeding up `x` pays off in proportion; without its work the system's time falls by 40.0 % "
        "(± 10.0 %), unless something takes over beyond 75 %, which would not stand out of the noise"
    )


def test_a_gain_that_may_be_none_is_not_told_at_a_rate() -> None:
    assert said("total", half=0.5, slope=(0.7, 0.8)) == (
        "what speeding up `x` buys does not stand out of the noise: without its work the system's time falls "
        "by 40.0 % (± 50.0 %)"
    )


def test_the_part_that_was_asked_for_is_named() -> None:
    assert said("none").startswith("speeding up `x` does not pay")
    assert said("total", part="wait").startswith("speeding up the waits of `x`")
    assert "without both the system's time falls by 40" in said("total", part="both")


def test_none_is_not_said_of_a_gain_that_may_hide_in_the_noise() -> None:
    assert said("none", most=0.14) == (
        "no gain of speeding up `x` stands out of the noise: at most 14.0 % of the system's time"
    )
    assert "does not pay" in said("none", most=0.01)
