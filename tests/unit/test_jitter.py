"""Jitter: bins, outliers, exports, the causes of gaps, and what its result warns of."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jitter_made import core, put

from latlab.cli._main import main
from latlab.errors import InputError, UsageError
from latlab.jitter import (
    INFINITE,
    automatic_range,
    bin_bounds,
    cyclictest_json,
    hdr_of,
    histogram,
    read_outliers,
    recommendations,
    sysjitter_raw,
    write_hdr,
    write_outliers,
)
from latlab.jitter._measure import _refusals, allowed_cpus, interrupt_counts
from latlab.model.machine.jitter import DOUBTFUL, JitterResult, JitterWarning, WarningKind
from latlab.reports.jitter.text import classic
from latlab.stats.quantum import detect_quantum
from latlab.system.quota import QuotaWatch, Throttling, cpu_throttling, disk_limit


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


def test_interrupt_lines_are_read_by_cpu() -> None:
    text = (
        "           CPU0       CPU1\n  4:   1   2   IO-APIC  ttyS0\n"
        "LOC:  10  20  Local timer interrupts\nERR:  0\n"
    )
    assert interrupt_counts(text) == {
        0: {"IO-APIC ttyS0": 1, "Local timer interrupts": 10},
        1: {"IO-APIC ttyS0": 2, "Local timer interrupts": 20},
    }


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


def test_what_a_group_lets_its_processes_have_of_disks_is_told_of_both_versions(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/cgroup", "0::/box/inner\n")
    assert disk_limit(tmp_path) == ""
    put(tmp_path, "sys/fs/cgroup/box/io.max", "254:0 rbps=40000000 wbps=max riops=max wiops=120\n")
    put(tmp_path, "sys/devices/vda/dev", "254:0")
    (tmp_path / "sys/dev/block").mkdir(parents=True)
    (tmp_path / "sys/dev/block/254:0").symlink_to(tmp_path / "sys/devices/vda")
    assert disk_limit(tmp_path) == "40 MB/s read, 120 writes/s, of vda"
    other = tmp_path / "v1"
    put(other, "proc/self/cgroup", "4:blkio:/box\n0::/\n")
    put(other, "sys/fs/cgroup/blkio/box/blkio.throttle.write_bps_device", "8:0 2000000\n")
    assert disk_limit(other) == "2 MB/s written, of device 8:0"
    watch = QuotaWatch(lambda: 0.0, other)
    put(other, "proc/7/cgroup", "4:blkio:/box\n0::/\n")
    watch.look([7])
    assert watch.disk == "2 MB/s written, of device 8:0"


def test_watched_quotas_are_read_each_time_and_looked_for_once_a_second(tmp_path: Path) -> None:
    def count(group: str, times: int) -> None:
        put(tmp_path, f"sys/fs/cgroup/{group}/cpu.max", "50000 100000\n")
        put(tmp_path, f"sys/fs/cgroup/{group}/cpu.stat", f"nr_throttled {times}\nthrottled_usec {times}\n")

    now = 0.0
    watch = QuotaWatch(lambda: now, tmp_path)
    put(tmp_path, "proc/7/cgroup", "0::/box\n")
    count("box", 1)
    count("other", 10)
    watch.look([7])
    count("box", 3)
    now = 0.5
    watch.look([7])
    assert watch.worst == Throttling("50 ms in each 100 ms", 2, 2000)
    put(tmp_path, "proc/7/cgroup", "0::/other\n")
    now = 1.1
    watch.look([7])
    count("other", 15)
    now = 1.2
    watch.look([7])
    assert watch.worst == Throttling("50 ms in each 100 ms", 5, 5000)


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


def test_a_warning_is_asked_for_its_kind_and_printed_as_its_sentence() -> None:
    warning = JitterWarning(WarningKind.QUOTA, "a CPU quota stopped us")
    document = JitterResult((core(),), warnings=(warning,)).to_json()
    assert (document["warnings"], document["warning_kinds"]) == (["a CPU quota stopped us"], ["quota"])
    assert (str(warning), warning.kind in DOUBTFUL) == ("a CPU quota stopped us", True)


@pytest.mark.parametrize("size", [("-o", "--outbuf"), ("-b", "--bins"), ("-w", "--width")])
def test_a_size_that_no_machine_has_room_for_is_a_usage_error(
    size: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["jitter", size[0], "99999999999998"])
    assert left.value.code == 2
    assert f"{size[1]} is 99,999,999,999,998; the most is" in capsys.readouterr().err


def test_cores_that_are_refused_for_one_reason_are_one_line() -> None:
    fine = {"affinity_error": 0, "scheduling_error": 0, "migrations": 0}
    raw = [{**fine, "cpu": 0}, *({**fine, "cpu": cpu, "affinity_error": 22} for cpu in (2, 3, 4))]

    assert [str(one) for one in _refusals(raw)] == [
        "CPUs 2-4 were refused (Invalid argument): offline or outside of our cpuset"
    ]
    assert [str(one) for one in _refusals(raw[:2])] == [
        "CPU 2 was refused (Invalid argument): offline or outside of our cpuset"
    ]
