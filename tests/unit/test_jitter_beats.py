"""Beats of outliers: found, named by what makes them, and none where there is none.

Over 400 lines: one search, and a test of each of its gates, which share what makes series.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.jitter import (
    clock_step,
    find_periods,
    merge_bursts,
    name_period,
    read_outliers,
)
from latlab.jitter._beat import _even, _meeting, _stands_alone, _times
from latlab.model.evidence.jitter import BeatCause
from latlab.model.evidence.said import said
from latlab.model.machine.jitter import Period

SECOND = 1e9


def planted(seconds: float, period: float, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    beat = np.arange(3e6, seconds * SECOND, period)
    return np.sort(
        np.concatenate([beat + random.normal(0, 5e4, len(beat)), random.uniform(0, seconds * SECOND, 400)])
    )


def test_a_planted_100_hz_beat_is_found_with_its_phase() -> None:
    [one] = find_periods(planted(5, 1e7, 1))
    assert one.period_ns == pytest.approx(1e7, rel=1e-4)
    assert one.phase_ns == pytest.approx(3e6, abs=2e5)
    assert one.p_value < 1e-6


def test_a_beat_whose_half_has_some_points_too_is_not_taken_for_twice_as_fast() -> None:
    random = np.random.default_rng(5)
    beat = np.arange(3e6, 20 * SECOND, 1e8)
    between = (beat + 5e7)[random.random(len(beat)) < 0.35]
    found = find_periods(np.concatenate([beat, between]))
    assert [round(one.period_ns / 1e6, 3) for one in found] == [100.0]


def test_three_points_in_200_ms_are_a_beat_of_200_ms_and_not_one_of_50() -> None:
    beat = np.arange(3e6, 20 * SECOND, 1e8)
    found = find_periods(np.concatenate([beat, (beat + 5e7)[::2]]))
    assert round(found[0].period_ns / 1e6, 1) == 200.0


def test_a_weak_beat_of_long_outliers_is_found_among_many_short_ones() -> None:
    random = np.random.default_rng(2)
    beat = np.arange(3e6, 5 * SECOND, 8e7)
    times = np.concatenate([beat, random.uniform(0, 5 * SECOND, 3000)])
    lengths = np.concatenate([np.full(len(beat), 5e4), random.uniform(1e3, 4e3, 3000)])
    assert find_periods(times) == []
    [one] = find_periods(times, lengths_ns=lengths)
    assert one.period_ns == pytest.approx(8e7, rel=1e-4)


def test_a_weak_beat_is_found_by_its_source_and_named_after_it() -> None:
    random = np.random.default_rng(3)
    beat = np.arange(3e6, 5 * SECOND, 8e7)
    others = random.uniform(0, 5 * SECOND, 3000)
    # Its runs lie inside of longer gaps: no gap begins with it.
    [one] = find_periods(others, sources={"other": others, "vandal": beat})
    assert (one.cause, round(one.period_ns / 1e6, 2)) == ("vandal", 80.0)


DATA = Path(__file__).parents[1] / "data" / "jitter"


@pytest.mark.long
def test_the_kept_series_of_a_100_hz_disturbance_has_that_beat() -> None:
    times, lengths = read_outliers(DATA / "planted-100hz.csv")
    [one] = find_periods(times, lengths_ns=lengths)
    assert one.period_ns == pytest.approx(1e7, rel=1e-4)
    assert one.phase_ns == pytest.approx(2.5e6, abs=1e5)


def test_the_kept_series_of_aperiodic_bursts_has_no_beat() -> None:
    times, lengths = read_outliers(DATA / "aperiodic-bursts.csv")
    assert len(times) > 1000
    assert find_periods(times, lengths_ns=lengths) == []


def thinned(count: int, share: float, period: float, seed: int, off: float = 0.0) -> np.ndarray:
    """Of a beat, `count` points by chance; the threshold hid the others."""
    random = np.random.default_rng(seed)
    numbers = np.sort(random.choice(int(count / share), count, replace=False))
    return np.asarray(numbers * period + 3e5 + random.normal(0, off * period, count))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("period", [1e6, 1e7, 2.5e7])
def test_a_beat_of_which_three_in_ten_became_outliers_is_found_from_forty_points(
    period: float, seed: int
) -> None:
    [one] = find_periods(thinned(40, 0.3, period, seed, 0.003))
    assert one.period_ns == pytest.approx(period, rel=1e-3)
    assert one.share == pytest.approx(0.3, abs=0.06)


def test_a_grid_of_10_ms_among_47_outliers_of_a_second_is_found() -> None:
    random = np.random.default_rng(4)
    grid = np.sort(random.choice(100, 45, replace=False)) * 1e7 + random.normal(0, 3e3, 45)
    [one] = find_periods(np.concatenate([grid, random.uniform(0, SECOND, 2)]))
    assert one.period_ns == pytest.approx(1e7, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_exact_times_of_which_a_part_came_may_be_a_clock_s_steps_and_are_no_beat(seed: int) -> None:
    # Times of chance, rounded, of which each line has one at most, are the same series.
    exact = thinned(200, 0.3, 4e6, seed)
    assert find_periods(exact) == []
    assert clock_step(exact) == 4e6
    # No clock stamps a time that is off its grid, and none leaves 10 ns beside its steps.
    for told in (np.append(exact, exact[7] + 1.3e6), thinned(200, 0.3, 4e6, seed, 2.5e-6)):
        assert [one.period_ns for one in find_periods(told)] == [pytest.approx(4e6, rel=1e-5)]


def test_an_exact_beat_of_which_every_one_came_is_one_and_so_is_every_second_step_of_a_clock() -> None:
    beat = np.arange(200) * 1e9 / 1024
    assert clock_step(beat) == 0.0
    [one] = find_periods(beat)
    assert one.period_ns == pytest.approx(1e9 / 1024, rel=1e-6)
    some = (beat + 0.5e9 / 1024)[np.random.default_rng(3).random(200) < 0.3]
    [one] = find_periods(np.concatenate([beat, some]))
    assert one.period_ns == pytest.approx(1e9 / 1024, rel=1e-6)


APART = {
    "dead time": lambda random, count: random.exponential(1.0, count) + random.uniform(0.3, 1.8),
    "gamma": lambda random, count: random.gamma(random.uniform(1.5, 8), 0.4, count),
    "Poisson": lambda random, count: random.exponential(1.5, count),
    "few steps": lambda random, count: random.geometric(random.uniform(0.25, 0.6), count).astype(float),
}


@pytest.mark.parametrize("step_ns", [1e6, 1e9 / 300, 1e9 / 1024, 1e10 / 7])
@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("kind", APART)
def test_times_rounded_to_any_clock_s_steps_have_no_beat(kind: str, once: bool, step_ns: float) -> None:
    # With only grids of whole nanoseconds, or wherever no two share a line, some of these have one.
    for seed in range(4):
        random = np.random.default_rng([seed, 11])
        lines = np.rint(np.cumsum(APART[kind](random, int(random.integers(40, 600)))))
        times = (np.unique(lines) if once else lines) * step_ns
        assert find_periods(times) == [], seed


def test_a_quarter_of_a_beat_is_enough_where_its_points_are_many() -> None:
    [one] = find_periods(thinned(300, 0.24, 5e6, 1, 0.002))
    assert one.period_ns == pytest.approx(5e6, rel=1e-4)


def test_a_run_of_eight_thousand_beats_is_searched_as_densely_as_a_short_one() -> None:
    [one] = find_periods(thinned(2400, 0.3, 1e6, 1, 0.002))
    assert one.period_ns == pytest.approx(1e6, rel=1e-4)


def test_a_loop_that_sleeps_and_so_drifts_has_a_beat_as_long_as_it_is_nearly_in_phase() -> None:
    drifting = np.cumsum(1e7 + np.random.default_rng(6).normal(0, 3e5, 120))
    [one] = find_periods(drifting)
    assert one.period_ns == pytest.approx(1e7, rel=1e-2)
    # Neighbours agree far better than all do, so that only the phase over the whole run speaks for it.
    turned = np.exp(2j * np.pi * drifting / one.period_ns)
    strength = float(abs(turned.mean()))
    assert float((turned[1:] * np.conj(turned[:-1])).real.mean()) - strength**2 > 0.3
    assert 0.7 < strength < 0.85


def test_twenty_regular_points_are_a_beat() -> None:
    [one] = find_periods(np.arange(20) * 1e7 + np.random.default_rng(1).normal(0, 3e4, 20))
    assert one.period_ns == pytest.approx(1e7, rel=1e-3)


@pytest.mark.parametrize(("apart", "times"), [(0.0, 1), (0.001, 1), (0.004, 0), (0.05, 0)])
def test_in_a_long_run_periods_are_one_that_differ_by_two_in_a_thousand(apart: float, times: int) -> None:
    one, other = Period(1e6, 0.0, 0.0, "", 1.0), Period(1e6 * (1.0 + apart), 0.0, 0.0, "", 1.0)
    assert _times(one, other, 100 * SECOND) == times


def test_a_source_that_is_in_a_third_of_a_beat_s_outliers_is_a_candidate_and_not_its_cause() -> None:
    times = np.arange(2e6, 5 * SECOND, 1e7)
    [one] = find_periods(times, filled=filled_by(("a", np.arange(0, len(times), 3), 1.0)))
    assert one.cause == "cause unknown: a"


@pytest.mark.parametrize("seed", range(6))
def test_a_beat_of_which_one_in_ten_came_is_none(seed: int) -> None:
    # Whoever finds it may as well have found its half or its third: nothing tells which one it is.
    assert find_periods(thinned(150, 0.1, 5e6, seed, 0.001)) == []


def test_few_exact_times_on_a_sparse_grid_are_taken_for_rounded_chance() -> None:
    # 25 of 125 lines: by chance, too, they would lie apart in one of ten cases.
    assert find_periods(thinned(25, 0.2, 4e6, 2)) == []


def test_a_rate_that_swings_is_no_beat() -> None:
    random = np.random.default_rng(9)
    times = random.uniform(0, 5 * SECOND, 8000)
    kept = times[random.random(8000) < 0.5 + 0.45 * np.cos(times / SECOND * 2 * np.pi * 200)]
    # Four points a swing: on every beat there is one, and beside it as well.
    assert find_periods(kept) == []


@pytest.mark.parametrize("every", [2, 3, 5])
def test_a_beat_of_whose_multiples_only_one_class_came_is_so_many_times_longer(every: int) -> None:
    assert not _even(np.arange(0, 60 * every, every))
    assert _even(np.arange(60))


def filled_by(*parts: tuple[str, np.ndarray, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    return {name: (which, np.full(len(which), share)) for name, which, share in parts}


def test_a_beat_s_cause_is_the_source_that_it_goes_with_and_not_the_busiest() -> None:
    random = np.random.default_rng(12)
    slices = np.arange(2e6, 5 * SECOND, 8e6)
    flood = random.uniform(0, 5 * SECOND, 1500)
    times = np.concatenate([slices, flood])
    own, others = np.arange(len(slices)), np.arange(len(slices), len(times))
    # The flood's softirq is in every gap, also in those of the slices.
    filled = filled_by(("competitor", own, 0.9), ("net_rx", own, 0.1), ("net_rx", others, 1.0))
    filled["net_rx"] = (np.arange(len(times)), np.concatenate([np.full(len(own), 0.1), np.ones(len(others))]))
    [one] = find_periods(times, lengths_ns=np.full(len(times), 5e3), sources={"net_rx": times}, filled=filled)
    assert (round(one.period_ns / 1e6, 2), one.cause) == (8.0, "competitor")


def test_short_outliers_that_a_thread_leaves_behind_are_not_what_beats() -> None:
    # A thread comes every 10 ms, mostly inside of somebody's longer gap; each time the host runs after it.
    beats = np.arange(2e6, 5 * SECOND, 1e7)
    seen, behind = beats[::4], beats + 1.2e5
    times = np.concatenate([seen, behind])
    lengths = np.concatenate([np.full(len(seen), 1e5), np.full(len(behind), 3e3)])
    own, after = np.arange(len(seen)), np.arange(len(seen), len(times))
    filled = filled_by(("vandal", own, 1.0), ("host", after, 1.0))
    found = find_periods(times, lengths_ns=lengths, filled=filled)
    assert {one.cause for one in found if round(one.period_ns / 1e6) == 10} == {
        "cause unknown: vandal or host"
    }


def test_a_beat_that_two_sources_share_has_no_cause_but_candidates() -> None:
    times = np.arange(2e6, 5 * SECOND, 1e7)
    every = np.arange(len(times))
    [one] = find_periods(times, filled=filled_by(("a", every, 0.55), ("b", every, 0.45)))
    assert one.cause == "cause unknown: a or b"
    assert name_period(one.period_ns, one.cause, tick_hz=100) == "10.000 ms: cause unknown: a or b"


def test_a_beat_of_whose_outliers_no_source_has_a_part_is_unknown() -> None:
    times = np.arange(2e6, 5 * SECOND, 1e7)
    [one] = find_periods(times, filled=filled_by(("a", np.arange(3), 1.0)))
    assert one.cause == "cause unknown"


def test_who_is_let_run_after_each_visit_of_another_is_not_the_cause_of_its_beat() -> None:
    # A thread comes every 2.3 ms for 20 µs; then the scheduler gives the core to a busy one for longer.
    random = np.random.default_rng(3)
    visits = np.arange(1e6, 2 * SECOND, 2.3e6)
    slices = random.uniform(0, 2 * SECOND, 500)
    times = np.concatenate([visits, slices])
    own, every = np.arange(len(visits)), np.arange(len(times))
    filled = {
        "visitor": (own, np.full(len(own), 0.2)),
        "busy": (every, np.where(every < len(own), 0.8, 1.0)),
    }
    came = {"visitor": visits, "busy": np.concatenate([visits + 2e4, slices])}
    found = find_periods(times, lengths_ns=np.full(len(times), 1e5), sources=came, filled=filled)
    assert {one.cause for one in found} == {"cause unknown: visitor or busy"}


def test_a_beat_is_its_that_is_in_all_its_outliers_and_alone_keeps_it() -> None:
    # The visitor has a third of each outlier; who runs beside it comes whenever it likes.
    random = np.random.default_rng(4)
    visits = np.arange(1e6, 5 * SECOND, 1e7)
    own = np.arange(len(visits))
    filled = filled_by(("visitor", own, 0.3), ("a", own, 0.4), ("b", own, 0.3))
    came = {"visitor": visits, **{name: visits + random.uniform(0, 1e7, len(visits)) for name in "ab"}}
    [one] = find_periods(visits, sources=came, filled=filled)
    assert one.cause == "visitor"


def test_a_source_without_a_beat_of_its_own_is_not_the_cause_of_one() -> None:
    visits = np.arange(1e6, 5 * SECOND, 1e7)
    own = np.arange(len(visits))
    came = {"a": np.random.default_rng(5).uniform(0, 5 * SECOND, 500)}
    [one] = find_periods(visits, sources=came, filled=filled_by(("a", own, 0.9)))
    assert one.cause == "cause unknown: a"


def chance(kind: str, seed: int) -> np.ndarray:
    """Points of five seconds without a beat."""
    random = np.random.default_rng([seed, 7])
    count, span = int(random.integers(40, 800)), 5.0 * SECOND
    if kind == "Poisson":
        return random.uniform(0, span, count)
    if kind == "bursty":
        starts = random.uniform(0, span, int(random.integers(20, 150)))
        return np.concatenate(
            [x + np.cumsum(random.exponential(1e5, random.integers(1, 12))) for x in starts]
        )
    if kind == "ramped":
        return np.asarray(span * np.sqrt(random.uniform(0, 1, count)))
    if kind == "rounded":
        grid = random.choice([1e6, 4e6, 1e7])
        return np.asarray(np.round(random.uniform(0, span, min(count, 400)) / grid) * grid)
    shape = float(kind.removeprefix("gamma of "))
    return np.cumsum(random.gamma(shape, span / count / shape, count))


@pytest.mark.parametrize("kind", ["Poisson", "bursty", "ramped", "rounded", "gamma of 3", "gamma of 100"])
def test_series_without_a_beat_have_no_period(kind: str) -> None:
    # With a gate off, some have: "rounded" without the resolution, "gamma of 100" without the wandering.
    assert [seed for seed in range(30) if find_periods(chance(kind, seed))] == []


@pytest.mark.parametrize("count", [12, 13, 14])
def test_a_dozen_regular_points_are_too_few_for_one_in_ten_thousand(count: int) -> None:
    # With a significance of 1e-2 each of these is a period.
    assert find_periods(np.arange(count) * 1e7 + np.random.default_rng(count).normal(0, 3e4, count)) == []


def test_a_beat_of_which_one_in_seven_came_is_none() -> None:
    # With a share of a tenth it is one.
    assert find_periods(thinned(40, 0.15, 5e6, 24, 0.001)) == []


def test_intervals_that_are_regular_by_chance_for_a_while_are_no_clock() -> None:
    # With neighbours of 0.5 this one of them has a period.
    assert find_periods(chance("gamma of 100", 40)) == []


def test_a_beat_that_chance_covers_nearly_as_well_is_not_told() -> None:
    # With as many points on the beat as chance puts there, this one has a period.
    random = np.random.default_rng([7, 4])
    beat = np.arange(0, 2 * SECOND, 2e7)
    assert find_periods(np.sort(np.concatenate([beat, random.uniform(0, 2 * SECOND, 900)]))) == []


def test_two_beats_are_told_apart() -> None:
    times = np.concatenate([planted(5, 1e7, 1), np.arange(1e6, 5 * SECOND, 4e6)])
    assert sorted(round(one.period_ns / 1e6, 2) for one in find_periods(times)) == [4.0, 10.0]


def test_a_whole_fraction_of_a_beat_has_beats_of_its_own_or_is_none() -> None:
    points = np.arange(3e6, 5 * SECOND, 1e7)
    ten, five = Period(1e7, 3e6, 0.0, "a", 1.0), Period(5e6, 3e6, 0.0, "b", 0.5)
    some = np.random.default_rng(6).uniform(0, 5 * SECOND, 60)
    assert not _stands_alone(five, [ten], np.concatenate([points, some]), 5 * SECOND)
    assert _stands_alone(five, [ten], np.arange(3e6, 5 * SECOND, 5e6), 5 * SECOND)
    assert _stands_alone(five, [], points, 5 * SECOND)
    # Two beats of 10 ms, 3 ms from each other, are none of 5 ms.
    assert not _stands_alone(five, [ten], np.concatenate([points, points + 3e6]), 5 * SECOND)


def test_where_two_beats_meet_is_no_third_one_unless_it_has_a_cause() -> None:
    four, ten = Period(4e6, 0.0, 0.0, "tick", 1.0), Period(1e7, 0.0, 0.0, "host", 1.0)
    both = Period(2e7, 0.0, 1e-9, said(BeatCause.UNKNOWN), 1.0)
    assert _meeting(both, [four, ten])
    assert not _meeting(both, [four])
    assert not _meeting(replace(both, phase_ns=6e6), [four, ten])
    assert not _meeting(replace(both, cause="a"), [four, ten])


def test_two_sources_of_one_period_are_both_named_by_their_phases() -> None:
    first = np.arange(1e6, 5 * SECOND, 1e7)
    second = first + 4e6 + np.random.default_rng(8).normal(0, 2e4, len(first))
    times = np.concatenate([first, second])
    own, after = np.arange(len(first)), np.arange(len(first), len(times))
    filled = filled_by(("a", own, 1.0), ("b", after, 1.0))
    found = find_periods(times, sources={"a": first, "b": second}, filled=filled)
    assert {one.cause for one in found if round(one.period_ns / 1e6, 1) == 10.0} == {"a", "b"}


def test_bursts_on_a_beat_have_the_beat_of_the_bursts() -> None:
    times = (np.arange(0, 5 * SECOND, 1e7)[:, None] + np.arange(5) * 1e5).ravel()
    assert [round(one.period_ns / 1e6, 3) for one in find_periods(times)] == [10.0]


@pytest.mark.parametrize("seed", range(12))
def test_aperiodic_bursts_have_no_period(seed: int) -> None:
    random = np.random.default_rng(seed)
    starts = random.uniform(0, 5 * SECOND, random.integers(5, 200))
    regular = [start + np.arange(random.integers(2, 60)) * (1e5 if seed % 2 else 1e6) for start in starts]
    assert find_periods(np.concatenate(regular)) == []


@pytest.mark.parametrize("seed", range(6))
def test_points_by_chance_have_no_period(seed: int) -> None:
    random = np.random.default_rng(100 + seed)
    assert find_periods(random.uniform(0, 5 * SECOND, random.integers(2, 2000))) == []


@given(st.lists(st.floats(0, 1e10), max_size=60))
def test_any_points_are_searched_without_an_error_and_bursts_only_lose_points(times: list[float]) -> None:
    merged = merge_bursts(np.array(times))
    assert set(merged) <= set(times)
    for one in find_periods(np.array(times)):
        assert one.period_ns > 0


def test_the_scheduler_tick_is_named() -> None:
    assert name_period(4e6) == "4.000 ms: the scheduler tick, HZ=250, or a timer of that rate"
    assert name_period(4e6, "vandal") == "4.000 ms: vandal"
    assert name_period(4e6, "vandal", tick_hz=250).endswith("a timer of that rate; it brings vandal")
    assert name_period(4e6, "local_timer", tick_hz=250).startswith("4.000 ms: the scheduler tick, HZ=250")


def test_a_beat_at_another_kernels_tick_is_not_called_ours() -> None:
    assert name_period(1e7, "", tick_hz=250) == "10.000 ms: a timer of 100 Hz"
    assert name_period(1e7, "nothing ran in this kernel", tick_hz=250) == (
        "10.000 ms: the hypervisor, at 100 Hz, its own scheduler tick or a timer of that rate"
    )


@pytest.mark.parametrize("seed", range(4))
def test_two_beats_of_one_period_are_that_period_and_no_fraction_at_which_both_are_in_phase(
    seed: int,
) -> None:
    random = np.random.default_rng(seed)
    beats = [np.arange(phase, 4 * SECOND, 1e7) + random.normal(0, 2e4, 400) for phase in (0.0, 3.6363e6)]
    found = find_periods(np.concatenate([*beats, random.uniform(0, 4 * SECOND, 300)]))
    assert [one.period_ns for one in found] == [pytest.approx(1e7, rel=1e-3)]


@pytest.mark.parametrize(("parts", "come"), [(4, (0, 1, 2)), (7, (0, 3)), (11, (0, 4))])
def test_of_a_beat_that_is_two_longer_ones_some_never_come(parts: int, come: tuple[int, ...]) -> None:
    random = np.random.default_rng(parts)
    numbers = np.arange(2000)
    chance = random.uniform(size=2000) < 0.1
    assert not _even(numbers[np.isin(numbers % parts, come) | chance])
    assert _even(numbers[random.uniform(size=2000) < 0.3])


def test_a_beat_of_which_another_hides_every_seventh_is_one() -> None:
    assert _even(np.flatnonzero(np.arange(2000) % 7 != 3))


@pytest.mark.parametrize("come", [0.3, 0.5])
def test_hardly_any_part_of_a_beat_is_uneven_by_chance(come: float) -> None:
    random = np.random.default_rng(7)
    each = (np.sort(random.choice(round(80 / come), 80, replace=False)) for _ in range(1000))
    assert sum(not _even(numbers) for numbers in each) <= 10


@pytest.mark.parametrize(("parts", "uneven", "even"), [(2, 25, 29), (3, 23, 27), (4, 22, 26), (5, 20, 26)])
def test_a_part_of_a_beat_is_seldom_where_chance_makes_it_so_once_in_a_thousand(
    parts: int, uneven: int, even: int
) -> None:
    lines = np.arange(100 * parts)
    order = np.random.default_rng(1).permuted(np.tile(np.arange(100) / 100, (parts, 1)), axis=1).T.ravel()
    for came, expected in ((uneven, False), (even, True)):
        share = np.where(lines % parts == 1, came / 100, 0.5)
        assert _even(lines[order < share]) is expected
