"""Between a stub's measured points the time falls linearly to the next limit; the rate is its inverse."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.stats.stub_law import rates_between, times_between

AT = [0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]


def test_a_rate_between_twenty_and_a_hundred_per_cent_rises_to_the_knee_and_stays() -> None:
    # 40 µs a event as it is, and another stage that takes 20: the knee is at 50 %.
    truth = [1e6 / max(20, 40 * (1 - s)) for s in AT]
    found = rates_between([0.0, 0.2, 1.0], [1e6 / 40, 1e6 / 32, 1e6 / 20], AT)
    assert found.tolist() == pytest.approx(truth)


def test_where_every_part_pays_the_line_is_straight_in_time() -> None:
    assert times_between([0.0, 0.2, 1.0], [10.0, 8.4, 2.0], AT).tolist() == pytest.approx(
        [10 - 8 * s for s in AT]
    )


def test_a_knee_before_the_first_point_is_not_drawn_past_it() -> None:
    found = times_between([0.0, 0.2, 1.0], [10.0, 9.0, 9.0], [0.0, 0.1, 0.2, 0.5, 1.0])
    assert found.tolist() == pytest.approx([10, 9.5, 9, 9, 9])


def test_all_points_before_the_knee_have_a_say() -> None:
    noisy = [10.0, 8.3, 6.0, 3.0, 3.0]
    found = times_between([0.0, 0.2, 0.4, 0.8, 1.0], noisy, AT)
    assert np.all(np.diff(found) <= 0)
    assert found[3] == pytest.approx(6.0, rel=0.05)


def test_a_stub_that_makes_it_slower_is_drawn_as_slower() -> None:
    assert times_between([0.0, 0.5, 1.0], [5.0, 6.0, 7.0], [0.0, 0.5, 1.0]).tolist() == [5.0, 6.0, 7.0]
