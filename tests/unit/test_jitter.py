from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.errors import InputError, UsageError
from latlab.jitter import (
    INFINITE,
    analyse,
    automatic_range,
    bin_bounds,
    cyclictest_json,
    find_periods,
    hdr_of,
    histogram,
    merge_bursts,
    name_period,
    read_outliers,
    recommendations,
    sysjitter_raw,
    write_hdr,
    write_outliers,
)
from latlab.jitter._attribution import (
    Disturbance,
    _fill,
    attribute,
    count_only,
    disturbances,
    is_kernel_thread,
)
from latlab.jitter._beat import _even
from latlab.jitter._measure import Measured, allowed_cpus, interrupt_counts
from latlab.model.machine.jitter import CoreJitter, JitterResult
from latlab.reports.jitter.text import classic, summary
from latlab.stats.quantum import detect_quantum
from latlab.system.kernel.samples import Events, EventTable
from latlab.system.quota import Throttling, cpu_throttling

SECOND = 1e9


def core(**changes: object) -> CoreJitter:
    values = {
        "cpu": 1,
        "deltas": 1003,
        "wall_ticks": 52_000,
        "pure_ticks": 50_000,
        "bridge_ticks": 1_000,
        "gap_ticks": 1_000,
        "paused_ticks": 0,
        "threshold_ticks": 500,
        "counter_hz": 2.6e9,
        "quantum_ticks": 26,
        "start_ns": 1_000_000,
        "values_ticks": np.array([1, 26, 52, 1_000]),
        "counts": np.array([2, 900, 100, 1]),
        "outliers": 1,
        "max_ticks": 1_000,
        "gap_start_ns": np.array([2_000_000.0]),
        "gap_each_ns": np.array([384.6]),
        "preempted": np.array([1], np.uint8),
    }
    return CoreJitter(**{**values, **changes})  # type: ignore[arg-type]


def test_the_two_spacings_are_linear_to_the_knee_and_then_by_2_and_10() -> None:
    assert bin_bounds(20, 10, 50) == (
        *(14, 18, 22, 26, 30, 34, 38, 42, 46, 50),
        *(100, 500, 1000, 5000, 10_000, 50_000, 100_000, 500_000, 1_000_000, INFINITE),
    )


@pytest.mark.parametrize(
    ("bins", "low", "knee"), [(21, 10, 50), (0, 10, 50), (20, 50, 50), (20, 60, 50), (20, 45, 50)]
)
def test_bins_that_make_no_sense_are_refused(bins: int, low: int, knee: int) -> None:
    with pytest.raises(UsageError):
        bin_bounds(bins, low, knee)


@given(
    st.dictionaries(st.integers(0, 1 << 40), st.integers(1, 1 << 30), min_size=1, max_size=30),
    st.integers(1, 10),
    st.integers(0, 1000),
    st.integers(10, 10_000),
)
def test_every_delta_is_in_exactly_one_bin_whose_bound_it_does_not_exceed(
    deltas: dict[int, int], half: int, low: int, room: int
) -> None:
    values, counts = np.array(sorted(deltas)), np.array([deltas[key] for key in sorted(deltas)])
    seen = histogram(values, counts, 2 * half, low, low + room)
    assert sum(seen.counts) == counts.sum()
    for bound, running in zip(seen.bounds_ticks, np.cumsum(seen.counts), strict=True):
        assert running == counts[values <= bound].sum()


def test_recommendations_follow_the_settings_faults() -> None:
    values, counts = np.array([26, 400]), np.array([95, 5])
    assert recommendations(histogram(values, counts, 20, 10, 50), 26) == []
    assert recommendations(histogram(values, counts, 20, 100, 390), 26) == ["set min to 21 ticks"]
    [low] = recommendations(histogram(values, np.array([80, 20]), 20, 10, 50), 26)
    [high] = recommendations(histogram(values, np.array([995, 5]), 20, 10, 50), 26)
    assert low.startswith("raise the knee")
    assert high.startswith("lower the knee")


def test_the_step_of_a_coarse_counter_is_found_and_one_tick_is_no_minimum() -> None:
    random = np.random.default_rng(1)
    steps = random.integers(1, 120, 4000) * 26 - random.integers(0, 2, 4000)
    values, counts = np.unique(
        np.concatenate([steps, np.full(9000, 26), np.ones(200, int)]), return_counts=True
    )
    assert detect_quantum(values, counts) == 26
    one = core(values_ticks=values, counts=counts)
    assert one.min_ticks == 26


def test_a_fine_counter_has_a_step_of_1_or_2() -> None:
    values = np.unique(np.random.default_rng(1).integers(18, 4000, 900))
    assert detect_quantum(values, np.ones_like(values)) == 1
    assert detect_quantum(np.unique(values // 2 * 2), np.ones_like(np.unique(values // 2 * 2))) == 2


def test_percentiles_are_nearest_rank_and_never_below_the_step() -> None:
    one = core()
    assert [one.percentile_ticks(p) for p in (0.1, 50, 99, 99.9, 100)] == [26, 26, 52, 52, 1000]


def test_the_classic_view_is_28_lines_by_80_columns_and_its_largest_bin_fills_the_width() -> None:
    lines = classic(core()).splitlines()
    assert len(lines) == 28
    assert max(len(line) for line in lines) == 80
    assert lines[1:].count("") == 2
    assert sum(len(line) == 80 and line.endswith("*") for line in lines) == 1
    assert "Infinite Infinite" in lines[21]


def test_the_classic_view_with_sums_shows_time() -> None:
    assert "ms" not in classic(core())
    assert "9 µs" in classic(core(), sums=True)  # 900 times 26 ticks


def test_an_automatic_range_is_one_that_the_view_accepts() -> None:
    low, knee = automatic_range(core(), 20)
    assert bin_bounds(20, low, knee)
    assert low <= 26 <= knee


def planted(seconds: float, period: float, seed: int) -> np.ndarray:  # type: ignore[type-arg]
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


def test_the_kept_series_of_a_100_hz_disturbance_has_that_beat() -> None:
    times, lengths = read_outliers(DATA / "planted-100hz.csv")
    [one] = find_periods(times, lengths_ns=lengths)
    assert one.period_ns == pytest.approx(1e7, rel=1e-4)
    assert one.phase_ns == pytest.approx(2.5e6, abs=1e5)


def test_the_kept_series_of_aperiodic_bursts_has_no_beat() -> None:
    times, lengths = read_outliers(DATA / "aperiodic-bursts.csv")
    assert len(times) > 1000
    assert find_periods(times, lengths_ns=lengths) == []


def thinned(count: int, share: float, period: float, seed: int, off: float = 0.0) -> np.ndarray:  # type: ignore[type-arg]
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
def test_a_beat_of_exact_times_is_not_taken_for_rounded_chance(seed: int) -> None:
    [one] = find_periods(thinned(40, 0.3, 4e6, seed))
    assert one.period_ns == pytest.approx(4e6, rel=1e-6)


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


def filled_by(*parts: tuple[str, np.ndarray, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:  # type: ignore[type-arg]
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


def chance(kind: str, seed: int) -> np.ndarray:  # type: ignore[type-arg]
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


def test_two_beats_are_told_apart() -> None:
    times = np.concatenate([planted(5, 1e7, 1), np.arange(1e6, 5 * SECOND, 4e6)])
    assert sorted(round(one.period_ns / 1e6, 2) for one in find_periods(times)) == [4.0, 10.0]


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


def test_outliers_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "out"
    write_outliers(str(path), [core(), core(cpu=2)])
    times, lengths = read_outliers(path)
    assert times.tolist() == pytest.approx([1e6, 1e6])
    assert lengths.tolist() == pytest.approx([385, 385], abs=0.5)


def test_an_outlier_file_may_have_a_heading_and_spaces(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("x,y\n\n# later\n2.5, 4\n1.5,3\n")
    assert [list(column) for column in read_outliers(path)] == [[1.5e6, 2.5e6], [3e3, 4e3]]


@pytest.mark.parametrize("text", ["1,2\n3\n", "1,2\nx,y\n", "1,nan\n", "1,2,3\n"])
def test_a_line_that_is_no_pair_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "out"
    path.write_text(text)
    with pytest.raises(InputError, match=r"line [12]: "):
        read_outliers(path)


def test_cyclictest_and_sysjitter_exports_keep_every_count() -> None:
    result = JitterResult((core(),))
    assert '"cycles": 1003' in cyclictest_json(result)
    assert sysjitter_raw(result.cores) == "# cpu 1\n1000000 385\n"


def test_the_hdr_log_agrees_with_the_hdrhistogram_package_count_for_count(tmp_path: Path) -> None:
    from hdrh.histogram import HdrHistogram
    from hdrh.log import HistogramLogReader

    random = np.random.default_rng(3)
    values, counts = np.unique((26 * random.lognormal(2, 2, 5000)).astype(int) + 26, return_counts=True)
    one = core(values_ticks=values, counts=counts)
    write_hdr(JitterResult((one, core(cpu=2))), hlog=str(tmp_path / "x.hlog"), hgrm=str(tmp_path / "x.hgrm"))
    theirs = HdrHistogram(1, 3_600_000_000_000, 3)
    for value, count in zip(np.rint(values * 1e9 / 2.6e9).astype(int).tolist(), counts.tolist(), strict=True):
        theirs.record_value(value, count)
    reader = HistogramLogReader(str(tmp_path / "x.hlog"), HdrHistogram(1, 3_600_000_000_000, 3))
    first = reader.get_next_interval_histogram()
    reader.close()
    assert first.get_tag() == "cpu1"
    read = {
        item.value_iterated_to: item.count_added_in_this_iter_step for item in first.get_recorded_iterator()
    }
    recorded = {
        item.value_iterated_to: item.count_added_in_this_iter_step for item in theirs.get_recorded_iterator()
    }
    assert read == recorded
    assert hdr_of(one).count == counts.sum()
    assert "Total count" in (tmp_path / "x.hgrm").read_text()


def events(**tables: dict[str, list[object]]) -> Events:
    made = {}
    for name, columns in tables.items():
        filled = {key: np.array(value) for key, value in columns.items()}
        filled["cpu"] = np.full(len(filled["time_ns"]), 1)
        full = name.replace("__", ":")
        made[full] = EventTable(full, filled)
    return Events(made, 0, (1,))


VANDAL = {
    "sched__sched_switch": {
        "time_ns": [2_000_100, 2_050_100],
        "next_pid": [1 << 22, 7],
        "next_comm": [b"vandal", b"latlab-jitter"],
    },
    "irq_vectors__local_timer_entry": {"time_ns": [2_001_000]},
    "irq_vectors__local_timer_exit": {"time_ns": [2_003_000]},
}


def test_a_gap_is_given_to_the_innermost_disturbance_and_its_edges_to_the_main_one() -> None:
    one = core(gap_each_ns=np.array([51_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**VANDAL), "latlab-jitter", 1.0)
    shares = {source.name: source.total_ns for source in found.sources}
    assert shares == pytest.approx({"vandal": 49_000.0, "local_timer": 2_000.0})
    assert found.share == 1.0
    assert found.named[1] == (("vandal", "local_timer"),)
    assert {source.layer for source in found.sources} == {"other threads", "kernel"}


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 40), st.sampled_from("abcd")), min_size=1, max_size=12
    )
)
def test_each_instant_of_a_gap_goes_to_the_disturbance_that_began_last(
    spans: list[tuple[int, int, str]],
) -> None:
    ran = sorted(
        (Disturbance(a, a + n, "thread", "kernel", name) for a, n, name in spans),
        key=lambda one: (one.start_ns, -one.end_ns),
    )
    expected: dict[str, float] = {}
    for at in range(10, 60):
        inner = [one for one in ran if one.start_ns <= at and one.end_ns >= at + 1]
        if inner:
            expected[inner[-1].name] = expected.get(inner[-1].name, 0.0) + 1.0
    filled = _fill(10.0, 50.0, ran)
    rest = 50.0 - sum(expected.values())
    if rest:
        # What no disturbance covers goes to the one that filled most: an edge is up to 4 µs.
        assert sum(ns for ns, _, _ in filled.values()) == pytest.approx(50.0)
    else:
        assert {key[2]: ns for key, (ns, _, _) in filled.items()} == expected


def test_a_thread_that_runs_for_30_us_and_makes_a_gap_of_90_is_told_with_both() -> None:
    ran = {
        "sched__sched_switch": {
            "time_ns": [2_020_000, 2_050_000],
            "next_pid": [1 << 22, 7],
            "next_comm": [b"vandal", b"latlab-jitter"],
        }
    }
    one = core(gap_start_ns=np.array([2_000_000.0]), gap_each_ns=np.array([90_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**ran), "latlab-jitter", 1.0)  # type: ignore[arg-type]
    [vandal] = [source for source in found.sources if source.name == "vandal"]
    assert (vandal.ran_ns, vandal.gaps_ns) == (30_000.0, 90_000.0)
    said = summary(JitterResult((one,), found.sources))
    assert "vandal ran for 30 µs on CPU 1; its gaps took 90 µs" in said


def test_latlabs_own_threads_are_no_source() -> None:
    one = core(gap_each_ns=np.array([51_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**VANDAL), "latlab-jitter", 1.0, own_tids=frozenset({1 << 22}))
    assert [source.name for source in found.sources] == ["local_timer"]
    assert found.own_ns == pytest.approx(49_000.0)
    assert found.named[1] == (("local_timer",),)
    assert found.ours[1].tolist() == [True]
    said = summary(JitterResult((one,), found.sources, own_ns=found.own_ns))
    assert "latlab's own threads took 49 µs of the gap time (not listed)" in said


def test_what_ran_in_the_gap_that_ended_a_run_is_told() -> None:
    one = core(gap_each_ns=np.array([51_000.0]), wall_ticks=26_000_000)
    measured = Measured(
        (one,), events(**VANDAL), None, {}, None, False, whole=False, stopped_cpu=1, trace_stopped="stopped"
    )  # fmt: skip
    result = analyse(measured)
    assert result.exceeded is not None
    assert [row[:2] for row in result.exceeded.ran] == [("thread", "vandal"), ("interrupt", "local_timer")]
    assert result.exceeded.ran[0][3] == pytest.approx(50_000, abs=1_000)
    said = summary(result)
    assert "Stopped by a gap of 51 µs on CPU 1" in said
    assert said.count("vandal") >= 2
    assert result.to_json()["exceeded"]["trace"] == "stopped"


def beat_of_ticks(tick_in_gaps: bool) -> list[str]:
    """Gaps of 4 ms beats filled by whoever ran, beside others; does the tick begin those on the beat?"""
    random = np.random.default_rng(5)
    beats = 2_000_000 + np.arange(250) * 4_000_000
    others = np.sort(random.integers(2_000_000, 1_000_000_000, 200))
    times = np.sort(np.concatenate([beats, others]))
    who = [b"a", b"b", b"c"]
    switch_at, names = [], []
    for i, at in enumerate(times.tolist()):
        switch_at += [at + 2_000, at + 40_000]
        names += [who[i % 3], b"latlab-jitter"]
    timer = beats if tick_in_gaps else others
    found = events(
        sched__sched_switch={"time_ns": switch_at, "next_comm": names,
                             "next_pid": [7 if n == b"latlab-jitter" else 1 << 22 for n in names]},
        irq_vectors__local_timer_entry={"time_ns": (timer + 100).tolist()},
        irq_vectors__local_timer_exit={"time_ns": (timer + 1_500).tolist()},
    )  # fmt: skip
    one = core(
        gap_start_ns=times.astype(float), gap_each_ns=np.full(len(times), 42_000.0), outliers=len(times),
        preempted=np.ones(len(times), np.uint8), start_ns=0, wall_ticks=2_600_000_000,
    )  # fmt: skip
    measured = Measured((one,), found, None, {}, None, False, tick_hz=250)
    return [period.cause for period in analyse(measured).periods]


def test_a_beat_of_the_kernels_tick_is_the_ticks_whoever_it_lets_run() -> None:
    assert beat_of_ticks(True) == ["4.000 ms: the scheduler tick, HZ=250, or a timer of that rate"]
    assert beat_of_ticks(False) == ["4.000 ms: cause unknown: a or b or c"]


def test_a_gap_without_a_disturbance_is_unknown() -> None:
    one = core(gap_start_ns=np.array([5_000_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**VANDAL), "latlab-jitter", 1.0)
    assert found.share == 0.0
    assert [source.layer for source in found.sources] == ["hypervisor or firmware"]


def below(interrupts: dict[str, int], *, hypervisor: bool = True, **gap: object) -> list[str]:
    one = core(gap_start_ns=np.array([5_000_000.0]), wall_ticks=26_000_000, preempted=np.array([0]))
    found = attribute(
        [replace(one, **gap)],  # type: ignore[arg-type]
        events(**VANDAL),
        "latlab-jitter",
        1.0,
        interrupts={1: interrupts},
        hypervisor=hypervisor,
    )
    assert found.joined == 0.0
    assert found.share == (0.0 if found.sources[0].kind == "unknown" else 1.0)
    return [source.layer for source in found.sources]


def test_where_every_interrupt_is_traced_the_rest_is_below_the_kernel() -> None:
    traced = {"Local timer interrupts": 250, "PCI-MSIX-0000:00:04.0 1-edge virtio3-rx": 9}
    assert below(traced) == ["hypervisor"]
    assert below(traced, hypervisor=False) == ["firmware"]


def test_an_interrupt_that_no_trace_shows_leaves_the_rest_unknown() -> None:
    assert below({"Non-maskable interrupts": 3}) == ["hypervisor or firmware"]


def test_a_preemption_that_no_event_explains_is_unknown_and_not_the_hypervisors() -> None:
    assert below({}, preempted=np.array([1])) == ["hypervisor or firmware"]


def test_a_source_that_comes_twice_in_a_gap_is_counted_twice() -> None:
    twice = {
        "sched__sched_switch": {
            "time_ns": [2_000_100, 2_020_000, 2_030_000, 2_050_100],
            "next_pid": [1 << 22, (1 << 22) + 1, 1 << 22, 7],
            "next_comm": [b"vandal", b"other", b"vandal", b"latlab-jitter"],
        }
    }
    one = core(gap_each_ns=np.array([51_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**twice), "latlab-jitter", 1.0)  # type: ignore[arg-type]
    assert {source.name: source.count for source in found.sources} == {"vandal": 2, "other": 1}


def test_a_kernel_thread_is_told_by_its_flags_and_a_gone_one_by_its_name(tmp_path: Path) -> None:
    for tid, flags in ((5, 0x208040), (6, 0x400040), (7, 0x40C)):  # the last has exited: it has no memory
        put(tmp_path, f"{tid}/stat", f"{tid} (a) b) S 2 0 0 0 -1 {flags} 0 0\n")
    assert [is_kernel_thread(tid, "x", tmp_path) for tid in (5, 6, 7)] == [True, False, False]
    assert is_kernel_thread(8, "kworker/0:1", tmp_path)
    assert not is_kernel_thread(8, "cc1plus", tmp_path)


def test_what_a_short_disturbance_can_not_explain_stays_unknown() -> None:
    one = core(gap_start_ns=np.array([2_000_500.0]), gap_each_ns=np.array([1e6]), wall_ticks=26_000_000)
    ran = disturbances(events(**VANDAL), 1, "latlab-jitter", 10**9)
    assert [item.name for item in ran] == ["vandal", "local_timer"]
    found = attribute([one], events(**VANDAL), "latlab-jitter", 1.0)
    assert 0.08 < found.share < 0.12


def test_without_tracing_preemptions_are_told_from_the_rest_and_interrupts_are_counted() -> None:
    one = core(
        gap_start_ns=np.array([1.0, 2.0]), gap_each_ns=np.array([9.0, 4.0]), preempted=np.array([1, 0])
    )
    sources, layers = count_only([one], {1: {"LOC timer": 5}}, 1.0)
    assert [(source.kind, source.total_ns, source.count) for source in sources] == [
        ("preemption", 9.0, 1),
        ("unknown", 4.0, 1),
        ("interrupt", None, 5),
    ]
    assert layers == {"other threads": 9.0, "kernel or below": 4.0}


def test_in_json_what_could_only_be_counted_stands_apart_from_what_has_a_time() -> None:
    one = core(gap_start_ns=np.array([1.0]), gap_each_ns=np.array([9.0]), preempted=np.array([1]))
    sources, layers = count_only([one], {1: {"LOC timer": 5}}, 1.0)
    document = JitterResult((one,), sources, layers_ns=layers).to_json()
    assert [source["total_ns"] for source in document["sources"]] == [9.0]
    assert [(source["name"], source["count"]) for source in document["counted"]] == [("LOC timer", 5)]


def test_a_real_time_threads_gap_of_50_ms_is_the_kernels_limit_whoever_ran_in_it() -> None:
    ran = {
        "sched__sched_switch": {
            "time_ns": [2_000_100, 52_000_000],
            "next_pid": [1 << 22, 7],
            "next_comm": [b"hog", b"latlab-jitter"],
        }
    }
    one = core(gap_each_ns=np.array([50e6]), wall_ticks=26_000_000)
    for real_time, name in ((True, "real-time limit or fair server: 50 ms for others"), (False, "hog")):
        found = attribute([one], events(**ran), "latlab-jitter", 1.0, real_time=real_time)  # type: ignore[arg-type]
        assert [source.name for source in found.sources] == [name]


def test_interrupt_lines_are_read_by_cpu() -> None:
    text = (
        "           CPU0       CPU1\n  4:   1   2   IO-APIC  ttyS0\n"
        "LOC:  10  20  Local timer interrupts\nERR:  0\n"
    )
    assert interrupt_counts(text) == {
        0: {"IO-APIC ttyS0": 1, "Local timer interrupts": 10},
        1: {"IO-APIC ttyS0": 2, "Local timer interrupts": 20},
    }


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_a_quota_is_found_in_both_versions_of_cgroups(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "0::/box\n")
    assert cpu_throttling(tmp_path) is None
    put(tmp_path, "sys/fs/cgroup/box/cpu.max", "50000 100000\n")
    put(tmp_path, "sys/fs/cgroup/box/cpu.stat", "usage_usec 1\nnr_throttled 7\nthrottled_usec 9\n")
    assert cpu_throttling(tmp_path) == Throttling("50 ms in each 100 ms", 7, 9000)
    other = tmp_path / "v1"
    put(other, "proc/self/cgroup", "3:cpu,cpuacct:/box\n")
    put(other, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "50000\n")
    put(other, "sys/fs/cgroup/cpu,cpuacct/box/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_time 8\n")
    put(other, "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "20000\n")
    assert cpu_throttling(other) == Throttling("50 ms in each 20 ms", 3, 8)
    assert Throttling("", 5, 50).since(Throttling("", 3, 8)) == Throttling("", 2, 42)


def test_isolated_cpus_are_allowed_though_the_inherited_mask_lacks_them(tmp_path: Path) -> None:
    put(tmp_path, "sys/devices/system/cpu/online", "0-4000\n")
    put(tmp_path, "sys/devices/system/cpu/isolated", "3000-3001\n")
    assert {3000, 3001} < set(allowed_cpus(tmp_path))


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("3:cpuset:/box", "cpuset/box/cpuset.effective_cpus"),
        ("0::/box", "box/cpuset.cpus.effective"),
        ("0::/the/hosts/path", "cpuset.cpus.effective"),
    ],
)
def test_of_the_cpusets_our_own_counts_and_not_the_topmost(tmp_path: Path, group: str, file: str) -> None:
    put(tmp_path, "sys/devices/system/cpu/online", "0-4000\n")
    put(tmp_path, "proc/self/cgroup", group + "\n")
    put(tmp_path, "sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-4000\n")
    put(tmp_path, f"sys/fs/cgroup/{file}", "2000-2001\n")
    assert set(allowed_cpus(tmp_path)) == {2000, 2001} | os.sched_getaffinity(0)


def test_json_has_the_contracts_keys() -> None:
    [one] = JitterResult((replace(core(), host="a"),)).to_json()["cores"]
    keys = "cpu deltas wall_ns pure_ns bridge_ns gap_ns counter_hz quantum_ticks"
    keys += " min_ns p50_ns p99_ns p99.9_ns max_ns outliers"
    assert set(keys.split()) <= set(one)
