"""What made a gap: kernel events, interrupts, preemptions, and what stays unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jitter_made import core, put

from latlab.jitter import (
    analyse,
)
from latlab.jitter._attribution import (
    KernelDisturbance,
    _fill,
    attribute,
    count_only,
    disturbances,
    is_kernel_thread,
)
from latlab.jitter._measure import MeasuredRun
from latlab.model.evidence.jitter import BeatCause
from latlab.model.evidence.said import said
from latlab.model.machine.jitter import JitterResult
from latlab.reports.jitter.text import summary
from latlab.system.kernel.samples import Events, EventTable


def events(**tables: Any) -> Events:
    made = {}
    for name, columns in tables.items():
        filled = {key: np.array(value) for key, value in columns.items()}
        filled["cpu"] = np.full(len(filled["time_ns"]), 1)
        full = name.replace("__", ":")
        made[full] = EventTable(full, filled)
    return Events(made, 0, (1,))


def switches(*ran: tuple[int, int, bytes]) -> dict[str, Any]:
    """The kernel's switches to threads: when, to which number and to which name."""
    at, pids, names = zip(*ran, strict=True)
    return {"sched__sched_switch": {"time_ns": list(at), "next_pid": list(pids), "next_comm": list(names)}}


VANDAL: dict[str, Any] = {
    **switches((2_000_100, 1 << 22, b"vandal"), (2_050_100, 7, b"latlab-jitter")),
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
        (KernelDisturbance(a, a + n, "thread", "kernel", name) for a, n, name in spans),
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
    ran = switches((2_020_000, 1 << 22, b"vandal"), (2_050_000, 7, b"latlab-jitter"))
    one = core(gap_start_ns=np.array([2_000_000.0]), gap_each_ns=np.array([90_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**ran), "latlab-jitter", 1.0)
    [vandal] = [source for source in found.sources if source.name == "vandal"]
    assert (vandal.ran_ns, vandal.gaps_ns) == (30_000.0, 90_000.0)
    said = summary(JitterResult((one,), found.sources))
    assert "vandal ran for 30 µs on CPU 1; its gaps took 90 µs" in said


def test_somebody_else_who_measures_on_the_core_is_a_source_of_its_gaps() -> None:
    name = b"latlab-jitter"
    ran = switches((1_000_000, 7, name), (2_020_000, 1 << 22, name), (2_050_000, 7, name))
    one = core(gap_start_ns=np.array([2_010_000.0]), gap_each_ns=np.array([50_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**ran), "latlab-jitter", 1.0, own_tids=frozenset({7}))
    assert [(source.layer, source.name, source.ran_ns) for source in found.sources] == [
        ("other threads", "latlab-jitter", 30_000.0)
    ]
    # In a container the numbers of our threads are not those of the trace.
    found = attribute([one], events(**ran), "latlab-jitter", 1.0, own_tids=frozenset({3}))
    assert "latlab-jitter" not in [source.name for source in found.sources]


def test_a_gap_that_ended_a_run_without_a_trace_is_not_said_to_be_empty() -> None:
    measured = MeasuredRun(
        (core(gap_each_ns=np.array([51_000.0]), wall_ticks=26_000_000),),
        None, None, {}, None, False, whole=False, stopped_cpu=1, trace_stopped="stopped",
    )  # fmt: skip
    result = analyse(measured)
    assert result.to_json()["exceeded"]["ran"] is None
    assert "what ran in it is not known" in summary(result)
    assert "nothing of this kernel" not in summary(result)


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
    measured = MeasuredRun(
        (one,), events(**VANDAL), None, {}, None, False, whole=False, stopped_cpu=1, trace_stopped="stopped"
    )  # fmt: skip
    result = analyse(measured)
    assert result.exceeded is not None
    assert result.exceeded.ran is not None
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
    measured = MeasuredRun((one,), found, None, {}, None, False, tick_hz=250)
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
        [replace(one, **gap)],
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
    twice = switches(
        (2_000_100, 1 << 22, b"vandal"),
        (2_020_000, (1 << 22) + 1, b"other"),
        (2_030_000, 1 << 22, b"vandal"),
        (2_050_100, 7, b"latlab-jitter"),
    )
    one = core(gap_each_ns=np.array([51_000.0]), wall_ticks=26_000_000)
    found = attribute([one], events(**twice), "latlab-jitter", 1.0)
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
    ran = switches((2_000_100, 1 << 22, b"hog"), (52_000_000, 7, b"latlab-jitter"))
    one = core(gap_each_ns=np.array([50e6]), wall_ticks=26_000_000)
    for real_time, name in ((True, "real-time limit or fair server: 50 ms for others"), (False, "hog")):
        found = attribute([one], events(**ran), "latlab-jitter", 1.0, real_time=real_time)
        assert [source.name for source in found.sources] == [name]


def test_what_the_tick_alone_raises_is_the_tick_at_its_rate_and_no_other() -> None:
    from latlab.jitter._analyse import _ticks_alone
    from latlab.model.machine.jitter import Period

    beat = Period(4e6, 0.0, 1e-9, said(BeatCause.UNDECIDED, candidates=["rcu", "timer", "sched"]), 0.5)
    assert _ticks_alone(beat, 250)
    assert not _ticks_alone(beat, 1000)
    assert not _ticks_alone(replace(beat, cause=said(BeatCause.UNDECIDED, candidates=["rcu", "python"])), 250)
    assert not _ticks_alone(replace(beat, cause=said(BeatCause.UNKNOWN)), 250)
