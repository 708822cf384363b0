from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.files.messaging_made import measurement

from latlab.errors import LatlabError, UsageError
from latlab.messaging import analyse, check, compare, measure, overheads, stability
from latlab.messaging._summaries import summarise
from latlab.messaging.running.schedule import schedule
from latlab.model.messaging.results import Facts, Measurement, Settings, Side
from latlab.reports.messaging.json import result_json
from latlab.stats.quantiles import summary

FACTS = Facts("ring", "a ring", True, True, 1 << 20, "here", "native")


def measured(
    sent: list[int], received: list[int], intended: list[int] | None = None, **changes: object
) -> Measurement:
    asked = Settings("ring", messages=len(sent), **changes)  # type: ignore[arg-type]
    return measurement(
        asked,
        FACTS,
        np.array(sent, dtype=np.int64),
        np.array(received, dtype=np.int64),
        intended_ns=None if intended is None else np.array(intended, dtype=np.int64),
        sender=Side(count=len(sent), cpu_ns=100),
        receiver=Side(count=len(sent), cpu_ns=300),
        process_cpu_ns=500,
        elapsed_ns=1,
        wait="poll",
    )


def test_latency_is_received_minus_sent_message_by_message() -> None:
    result = analyse(measured([0, 10, 20, 30], [5, 18, 25, 60]))
    assert result.latency is not None
    assert (result.latency.median, result.latency.maximum) == (5, 30)
    assert result.latency.mean == (5 + 8 + 5 + 30) / 4


def test_overheads_are_undefined_for_the_first_m_messages() -> None:
    assert overheads(np.array([0, 10, 30, 60]), 2).tolist() == [30, 50]
    result = analyse(measured([0, 10, 30, 60], [1, 2, 3, 4], window=4))
    assert (result.sending_overhead, result.sending_throughput.windows) == (None, None)
    assert any("overheads are undefined" in note for note in result.notes)


def test_the_throughput_of_an_overhead_of_zero_is_undefined_and_counted() -> None:
    result = analyse(measured([0, 0, 0, 10], [1, 1, 1, 11], window=1))
    assert result.sending_throughput.undefined == 2
    assert result.sending_throughput.windows is not None
    assert result.sending_throughput.windows.median == 1e8


def test_sending_and_receiving_throughput_are_two_numbers() -> None:
    result = analyse(measured([0, 10, 20], [100, 200, 300], window=1))
    assert result.sending_throughput.messages_per_s == 1e8
    assert result.receiving_throughput.messages_per_s == 1e7


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=2, max_size=60))
@settings(max_examples=60, deadline=None)
def test_the_identity_holds_in_integers_for_every_message(steps: list[tuple[int, int]]) -> None:
    sent = np.cumsum([a for a, _ in steps])
    received = sent + [b for _, b in steps]
    ro, so = overheads(received, 1), overheads(sent, 1)
    assert (ro - so).tolist() == np.diff(received - sent).tolist()
    assert analyse(measured(sent.tolist(), received.tolist())).identity_violations == 0


def test_lost_messages_are_counted_and_not_averaged() -> None:
    result = analyse(measured([0, 10, 20], [4, -1, 26]))
    assert (result.sent, result.received, result.lost) == (3, 2, 1)
    assert result.latency is not None
    assert result.latency.mean == 5.0


def test_of_a_run_that_broke_off_what_was_under_way_is_not_lost() -> None:
    broken = replace(measured([0, 10, 20, 30, 40, -1], [4, -1, 26, -1, -1, -1]), partial="interrupted")
    result = analyse(replace(broken, sender=Side(count=5, cpu_ns=100)))
    assert (result.sent, result.received, result.lost) == (5, 2, 1)
    assert any(note.startswith("2 messages were under way when the run broke off") for note in result.notes)


def test_a_run_in_which_nothing_arrives_has_latencies_of_null() -> None:
    document = result_json(analyse(measured([0, 10], [-1, -1])))
    assert document["lost"] == 2
    assert document["latency_ns"]["p99.9"] is None


def test_intended_latency_counts_from_when_the_message_was_due() -> None:
    result = analyse(measured([0, 50], [5, 55], intended=[0, 10]))
    assert result.intended_latency is not None
    assert result.intended_latency.maximum == 45


def test_a_clock_that_steps_back_is_reported() -> None:
    assert analyse(measured([0, 10, 5], [20, 21, 22])).clock_steps == 1
    assert analyse(measured([10, 20], [5, 25])).clock_steps == 1


def test_cpu_parts_and_the_rest_add_up_to_the_total() -> None:
    cpu = analyse(measured([0, 1], [2, 3])).cpu
    assert (cpu.sender, cpu.receiver, cpu.other, cpu.total) == (50.0, 150.0, 50.0, 250.0)


@pytest.mark.parametrize(("slope", "verdict"), [(0.0, "stable"), (2.0, "rising"), (-2.0, "falling")])
def test_a_queue_that_grows_is_told_from_a_stable_run(slope: float, verdict: str) -> None:
    random = np.random.default_rng(1)
    n = np.arange(8000)
    latency = (20_000 + slope * n + random.exponential(500, n.size)).astype(np.int64)
    assert stability(n * 1000, latency)[0] == verdict


def test_peaks_are_placed_at_start_end_and_load_changes() -> None:
    due = np.arange(10_000) * 1000
    due[5000:] = due[5000] + np.arange(5000) * 100
    latency = np.full(10_000, 50)
    latency[[0, 5000, 9999]] = 5000
    latency[7000] = 4000
    result = analyse(measured(due.tolist(), (due + latency).tolist(), due.tolist(), load="file"))
    assert [(p.first, p.where) for p in result.peaks] == [
        (0, "start"), (5000, "load change"), (7000, "middle"), (9999, "end"),
    ]  # fmt: skip


def test_a_stalls_peak_names_every_message_that_it_delayed() -> None:
    due = np.arange(20_000) * 1000
    latency = np.random.default_rng(3).integers(40, 60, due.size)
    latency[8000:8400] = np.linspace(400_000, 1000, 400)  # 2 % of the messages: p99.9 lies amid them
    latency[12_000] = 90_000  # above the limit, and not above p99.9
    (peak,) = analyse(measured(due.tolist(), (due + latency).tolist())).peaks
    assert (peak.first, peak.last, peak.messages, peak.max_ns) == (8000, 8399, 400, 400_000)


def test_a_second_path_is_no_peak_as_long_as_the_run() -> None:
    due = np.arange(20_000) * 1000
    random = np.random.default_rng(4)
    latency = random.integers(40, 60, due.size)
    latency[random.random(due.size) < 0.05] += 5000
    peaks = analyse(measured(due.tolist(), (due + latency).tolist())).peaks
    assert all(peak.messages < 20 and peak.last - peak.first < 500 for peak in peaks)


def test_a_sender_that_is_held_up_is_no_change_of_the_load() -> None:
    sent = np.arange(10_000) * 100
    sent[5000:] += 1_000_000
    latency = np.full(10_000, 50)
    latency[5000] = 5000
    result = analyse(measured(sent.tolist(), (sent + latency).tolist()))
    assert [(p.first, p.where) for p in result.peaks] == [(5000, "middle")]


@given(st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=100))
@settings(max_examples=80, deadline=None)
def test_the_counted_summary_is_the_houses_summary(values: list[int]) -> None:
    mine, house = summarise(np.array(values)), summary(np.array(values))
    assert mine is not None
    assert (mine.median, mine.maximum, mine.quantiles) == (house.median, house.maximum, dict(house.quantiles))
    assert mine.median_distance == house.median_distance
    assert mine.robust_deviation == pytest.approx(house.robust_deviation)
    assert mine.rms_distance == pytest.approx(house.rms_distance)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"messages": 0}, "at least 1 message"),
        ({"size": 0}, "0 bytes"),
        ({"transport": "udp", "size": 70_000}, "65,507"),
        ({"transport": "upd"}, "did you mean 'udp'"),
        ({"batch": 0}, "--batch"),
        ({"topology": "direct", "stalls": ((1, 1),)}, "no broker"),
        ({"half": True}, "pingpong"),
        ({"batch": 1 << 30}, "1 GiB"),
        ({"buffer_bytes": 0}, "--buffer 0"),
        ({"timeout_s": 0.0}, "--timeout 0"),
        ({"seed": -1}, "--seed -1"),
        ({"messages": 10, "stalls": ((10, 1000),)}, "message 10 of 10"),
        ({"server": "127.0.0.1:1"}, "has no server"),
    ],
)
def test_what_no_run_can_do_is_refused_with_the_option_to_change(
    change: dict[str, object], named: str
) -> None:
    with pytest.raises(UsageError, match=named):
        check(Settings(**{"transport": "ring", **change}))  # type: ignore[arg-type]


def test_a_run_that_the_memory_has_no_room_for_is_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=64_000_000))
    with pytest.raises(LatlabError, match="--messages 500000"):
        measure(Settings("ring", messages=1_000_001))


def test_schedules_are_due_when_their_shape_says() -> None:
    bursts = Settings("ring", messages=5, load="bursts", burst=2, burst_period_ns=100)
    assert schedule(bursts).due_ns(5).tolist() == [0, 0, 100, 100, 200]
    steady = Settings("ring", messages=3, load="rate", rate_hz=1e6)
    assert schedule(steady).due_ns(3).tolist() == [0, 1000, 2000]
    poisson = Settings("ring", messages=20_000, load="poisson", rate_hz=1e6, seed=3)
    gaps = np.diff(schedule(poisson).due_ns(20_000))
    assert gaps.mean() == pytest.approx(1000, rel=0.03)
    assert gaps.std() == pytest.approx(1000, rel=0.05)


def humps_of(latency: np.ndarray) -> list[tuple[float, float]]:
    sent = np.arange(latency.size) * 1_000_000
    found = analyse(measured(sent.tolist(), (sent + latency.astype(np.int64)).tolist()))
    return [(hump.at_ns, hump.weight) for hump in found.humps]


def test_latencies_of_one_mode_are_hardly_ever_said_to_have_two() -> None:
    random = np.random.default_rng(5)
    shapes: tuple[Callable[[int], Any], ...] = (
        lambda n: np.exp(10 + 0.3 * random.standard_normal(n)),
        lambda n: 5000 + random.gamma(2, 3000, n),
        lambda n: random.uniform(5000, 20_000, n),
        lambda n: 5000 * (1 + random.pareto(1.5, n)),
        lambda n: np.round(random.normal(700, 120, n) / 100) * 100,  # a coarse clock
    )
    alarms = sum(len(humps_of(shape(800))) > 1 for shape in shapes for _ in range(20))
    assert alarms <= 5  # of 100


@pytest.mark.parametrize("asleep", [0.2, 0.5])
def test_sleeping_wake_ups_of_25_us_are_told_from_awake_ones_of_7_us(asleep: float) -> None:
    random = np.random.default_rng(6)
    spread = np.exp(0.15 * random.standard_normal(5000))
    low, high = humps_of(np.where(random.random(5000) < asleep, 25_000, 7_000) * spread)
    assert low[0] == pytest.approx(7_000, rel=0.1)
    assert high[0] == pytest.approx(25_000, rel=0.1)
    assert high[1] == pytest.approx(asleep, abs=0.03)


def test_a_comparison_leaves_the_warm_up_out() -> None:
    random = np.random.default_rng(1)
    due = [n * 1000 for n in range(4000)]
    quick = [t + int(x) for t, x in zip(due, random.integers(500, 600, 4000), strict=True)]
    slow_start = [t + 10**6 for t in due[:1000]] + quick[1000:]
    runs = []
    for received in (quick, slow_start):
        m = measured(due, received, due)
        runs.append(replace(m, settings=m.settings.with_(messages=3000, warmup=1000)))
    assert {change.verdict for change in compare(*runs)} == {"not decided"}
    assert {change.ratio for change in compare(*runs)} == {1.0}


@pytest.mark.parametrize(("others", "verdict"), [(0, "slower"), (2_000_000_000, "not decided")])
def test_two_runs_are_not_compared_where_others_took_the_cpus_of_one(others: int, verdict: str) -> None:
    due = [n * 250_000 for n in range(4000)]
    quick = measured(due, [at + 10_000 + at % 977 for at in due], due)
    slow = measured(due, [at + 90_000 + at % 977 for at in due], due)
    quick = replace(quick, elapsed_ns=1_000_000_000, cpus=2)
    slow = replace(slow, elapsed_ns=1_000_000_000, cpus=2, foreign_cpu_ns=others)

    assert compare(quick, slow)[0].verdict == verdict


@pytest.mark.parametrize("parts", [2, 4, 10])
@pytest.mark.parametrize("count", [1000, 30_000])
def test_latencies_of_a_batch_that_repeat_to_the_nanosecond_are_as_many_humps(count: int, parts: int) -> None:
    due = [n * 1_000_000 for n in range(count)]
    received = [at + 100_000 * (1 + n % parts) for n, at in enumerate(due)]

    humps = analyse(measured(due, received, due)).humps

    assert [round(one.at_ns, -4) for one in humps] == [100_000 * (n + 1) for n in range(parts)]
    assert all(abs(one.weight - 1 / parts) < 0.02 for one in humps)


@pytest.mark.parametrize(("total", "other"), [(9_000, 2.0), (6_500, 0.0)])
def test_what_the_parts_leave_of_the_cpu_time_is_never_less_than_nothing(total: int, other: float) -> None:
    m = measured(list(range(1000)), [n + 50 for n in range(1000)])
    m = replace(m, sender=replace(m.sender, cpu_ns=3000), receiver=replace(m.receiver, cpu_ns=4000))

    assert analyse(replace(m, process_cpu_ns=total, broker_cpu_ns=None)).cpu.other == other
