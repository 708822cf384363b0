from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.files.messaging_made import measurement

from latlab.messaging import analyse
from latlab.messaging.judging.periods import find_period
from latlab.model.messaging.results import Facts, Limiting, Measurement, PartUse, Settings, Side, Throttled
from latlab.reports.messaging.verdict import finding, verdict

FACTS = Facts("tcp", "TCP", True, True, 1 << 20, "here", "native")
MS = 1_000_000


def measured(
    latency: Any = 50_000, *, load: str = "max", gap_ns: int = 100_000, count: int = 5000, **changes: Any
) -> Measurement:
    """Half a second of messages through a broker, by default on a quiet machine with nothing to do."""
    due = np.arange(count) * gap_ns
    took = np.broadcast_to(np.asarray(latency, dtype=np.int64), (count,))
    plain = measurement(
        Settings("tcp", messages=count, load=load),
        FACTS,
        due,
        due + took,
        intended_ns=None if load == "max" else due,
        process_cpu_ns=500 * MS,
        foreign_cpu_ns=0,
        elapsed_ns=500 * MS,
        wait="block",
        parts={"sender": PartUse(50 * MS, 0), "broker": PartUse(50 * MS, 0), "receiver": PartUse(50 * MS, 0)},
        cpus=4,
    )
    return replace(plain, **changes)


def parts(
    sender: int, broker: int, receiver: int, waited: tuple[int, int, int] = (0, 0, 0)
) -> dict[str, PartUse]:
    names = ("sender", "broker", "receiver")
    both = zip(names, (sender, broker, receiver), waited, strict=True)
    return {name: PartUse(used * MS, without * MS) for name, used, without in both}


@pytest.mark.parametrize(
    ("used", "named"),
    [
        ((495, 50, 40), ("sender",)),
        ((40, 495, 40), ("broker",)),
        ((40, 50, 495), ("receiver",)),
        ((490, 50, 495), ("sender", "receiver")),
    ],
)
def test_a_part_that_uses_a_core_is_what_was_measured(used: tuple[int, int, int], named: Any) -> None:
    v = analyse(measured(parts=parts(*used))).verdict
    assert (v.limiting, v.parts) == (Limiting.PART, named)


@pytest.mark.parametrize("loop", ["native", "python"])
def test_a_part_that_always_ran_or_waited_for_a_cpu_limits_and_is_not_called_saturated(loop: str) -> None:
    run = measured(parts=parts(30, 300, 30, (0, 190, 0)))
    result = analyse(replace(run, facts=replace(run.facts, loop=loop)))
    v = result.verdict
    assert (v.limiting, v.parts) == (Limiting.PART, ("broker",))
    assert finding(result) == (
        "The broker limits, for want of a CPU: it got 60 % of a core and waited for one nearly all the rest "
        "of the time."
    )


def test_parts_that_share_a_busy_core_limit_together() -> None:
    used = {
        "sender": PartUse(100 * MS, 0, 0),
        "broker": PartUse(250 * MS, 0, 1),
        "receiver": PartUse(230 * MS, 0, 1),
    }
    v = analyse(measured(parts=used)).verdict
    assert (v.limiting, v.parts) == (Limiting.CORE, ("broker", "receiver"))


def test_without_a_busy_part_nobody_is_named() -> None:
    assert analyse(measured()).verdict.limiting is Limiting.ASLEEP


def test_a_load_below_the_limit_saturates_nothing_though_its_sender_spins() -> None:
    result = analyse(measured(load="rate", parts=parts(499, 30, 20)))
    assert (result.verdict.limiting, result.verdict.parts) == (Limiting.NOTHING, ("broker",))
    assert "the paced sender not counted: the broker used 6 % of a core" in finding(result)


def test_a_queue_that_grows_behind_a_paced_sender_is_its_receivers() -> None:
    result = analyse(measured(np.arange(5000) * 40_000, load="rate", parts=parts(690, 30, 695)))
    assert (result.verdict.limiting, result.verdict.parts) == (Limiting.PART, ("receiver",))
    assert [d.kind for d in result.verdict.doubts] == ["rising"]


def test_a_run_of_a_few_milliseconds_has_no_verdict() -> None:
    v = analyse(measured(gap_ns=1000)).verdict
    assert (v.limiting, v.why) == (Limiting.UNKNOWN, "short")


def test_threads_that_poll_say_nothing_about_what_limits() -> None:
    v = analyse(measured(wait="poll", parts=parts(499, 499, 499))).verdict
    assert (v.limiting, v.why, v.shares) == (Limiting.UNKNOWN, "poll", {})


@pytest.mark.parametrize(("latency", "named"), [(80_000_000, "receiver"), (1000, "sender")])
def test_a_ring_that_is_full_or_empty_tells_which_end_limits(latency: int, named: str) -> None:
    m = measured(latency, wait="poll", facts=replace(FACTS, name="ring"))
    v = analyse(replace(m, settings=m.settings.with_(topology="direct"))).verdict
    assert (v.limiting, v.parts) == (Limiting.PART, (named,))


def test_a_python_client_that_uses_its_core_is_said_to_be_what_was_measured() -> None:
    m = measured(facts=replace(FACTS, loop="python"), sender=Side(count=5000, cpu_ns=490 * MS))
    assert finding(analyse(m)) == "You measured the Python client: the sender used 98 % of a core."


def test_cpu_that_others_took_is_a_doubt_where_we_waited_for_it() -> None:
    quiet = measured(load="rate", foreign_cpu_ns=150 * MS)
    assert analyse(quiet).verdict.doubts == ()
    harmed = replace(quiet, parts=parts(50, 50, 50, (0, 0, 100)))
    assert [d.kind for d in analyse(harmed).verdict.doubts] == ["others"]


def test_a_machine_that_others_use_gives_no_figures_of_our_own() -> None:
    crowded = analyse(measured(load="rate", foreign_cpu_ns=1000 * MS)).verdict.doubts
    assert [(d.kind, d.amount) for d in crowded] == [("others", 2.0)]


def test_a_quota_that_stopped_the_broker_limits_and_is_a_doubt() -> None:
    result = analyse(measured(throttled=(Throttled("broker", "20 ms in each 100 ms", 4, 300 * MS),)))
    assert (result.verdict.limiting, result.verdict.parts) == (Limiting.QUOTA, ("broker",))
    assert "a CPU quota stopped the broker for 60.0 % of the time" in verdict(result)[-1]


def test_every_thousandth_message_that_is_slow_is_a_period() -> None:
    random = np.random.default_rng(1)
    latency = random.integers(20_000, 60_000, 50_000)
    latency[700::1000] += 40 * MS
    period = find_period(np.arange(50_000), latency, np.arange(50_000) * 10_000)
    assert period is not None
    assert (period.every, period.seen) == (1000, 50)
    assert period.late_ns == pytest.approx(40 * MS, rel=0.01)


def test_every_second_message_that_is_slow_is_a_period_of_messages() -> None:
    random = np.random.default_rng(1)
    latency = random.integers(20_000, 60_000, 5000)
    latency[::2] += 2 * MS
    period = find_period(
        np.arange(5000), latency, np.cumsum(random.exponential(10_000, 5000)).astype(np.int64)
    )
    assert period is not None
    assert period.every == 2


def test_every_tenth_message_that_is_slow_is_a_period() -> None:
    random = np.random.default_rng(1)
    latency = random.integers(20_000, 60_000, 50_000)
    latency[::10] += 2 * MS
    period = find_period(np.arange(50_000), latency, np.arange(50_000) * 10_000)
    assert period is not None
    assert period.every == 10


def test_a_pause_every_few_milliseconds_is_a_period_of_time() -> None:
    random = np.random.default_rng(1)
    due = np.cumsum(random.exponential(20_000, 100_000)).astype(np.int64)
    latency = random.integers(20_000, 60_000, due.size)
    phase = due % (50 * MS)
    latency[phase < MS] += MS - phase[phase < MS]
    period = find_period(np.arange(due.size), latency, due)
    assert period is not None
    assert period.every is None
    assert period.time_ns == pytest.approx(50 * MS, rel=0.01)


def test_slow_messages_at_random_are_hardly_ever_a_period() -> None:
    random = np.random.default_rng(3)
    found = 0
    for chance in (0.3, 0.1, 0.02, 0.001) * 25:
        latency = random.lognormal(10, 0.5, 20_000).astype(np.int64)
        latency[random.random(latency.size) < chance] += 2 * MS
        found += find_period(np.arange(latency.size), latency, np.arange(latency.size) * 10_000) is not None
    assert found == 0


def test_a_peak_within_a_planted_stall_is_explained_by_it() -> None:
    latency = np.full(5000, 50_000)
    latency[2500:2504] = 30 * MS
    begin = 2500 * 100_000
    result = analyse(measured(latency, load="rate", stalls_ns=((2500, begin, begin + 29 * MS),)))
    assert [peak.cause for peak in result.peaks] == ["planted stall"]


def test_a_peak_while_the_broker_waited_for_a_cpu_is_explained_by_that() -> None:
    latency = np.full(5000, 50_000)
    latency[2500:2504] = 60 * MS
    looks = {
        "at_ns": (0, 100 * MS, 200 * MS, 300 * MS, 400 * MS), "sender": (0, 0, 0, 0, 0),
        "broker": (0, 0, 0, 58 * MS, 58 * MS), "throttled": (0,) * 5, "stopped": (0,) * 5,
    }  # fmt: skip
    assert [peak.cause for peak in analyse(measured(latency, load="rate", looks=looks)).peaks] == ["broker"]
    elsewhere = {**looks, "broker": (0, 58 * MS, 58 * MS, 58 * MS, 58 * MS)}
    assert [peak.cause for peak in analyse(measured(latency, load="rate", looks=elsewhere)).peaks] == [None]


def looks(**waited: Any) -> dict[str, tuple[int, ...]]:
    """Looks every 100 ms; of each part what it has waited for a CPU so far."""
    count = max(len(values) for values in waited.values())
    columns = dict.fromkeys(("sender", "broker", "receiver", "throttled", "stopped"), (0,) * count)
    return {"at_ns": tuple(i * 100 * MS for i in range(count)), **columns, **waited}


def late(**changes: Any) -> Measurement:
    """Four messages at 250 ms that took 60 ms."""
    latency = np.full(5000, 50_000)
    latency[2500:2504] = 60 * MS
    return measured(latency, load="rate", **changes)


def test_a_message_that_was_sent_in_time_is_not_late_because_its_sender_waited_for_a_cpu() -> None:
    seen = looks(sender=(0, 0, 0, 58 * MS, 58 * MS, 58 * MS))
    run = late(looks=seen)
    assert [peak.cause for peak in analyse(run).peaks] == [None]
    sent = run.sent_ns.copy()
    sent[2500:2504] += 59 * MS
    assert [peak.cause for peak in analyse(replace(run, sent_ns=sent)).peaks] == ["sender"]


def test_a_part_that_always_waits_for_a_cpu_is_not_the_cause_of_one_peak() -> None:
    always = tuple(i * 40 * MS for i in range(12))
    assert [peak.cause for peak in analyse(late(looks=looks(broker=always))).peaks] == [None]
    more = tuple(i * 40 * MS + (58 * MS if i > 2 else 0) for i in range(12))
    assert [peak.cause for peak in analyse(late(looks=looks(broker=more))).peaks] == ["broker"]


def test_cpu_that_others_took_is_a_doubt_at_any_rate_of_messages() -> None:
    # Ten waits of 4 ms in half a second; at 100,000 messages a second each has 400 messages in it.
    due = np.arange(50_000) * 10_000
    within = due % (50 * MS)
    latency = np.where(within < 4 * MS, 4 * MS - within, 30_000)
    waits = parts(50, 50, 50, (0, 40, 0))
    taken = measured(latency, load="rate", gap_ns=10_000, count=50_000, foreign_cpu_ns=200 * MS, parts=waits)
    assert [d.kind for d in analyse(taken).verdict.doubts] == ["others"]
    assert analyse(replace(taken, parts=parts(50, 50, 50))).verdict.doubts == ()


def test_a_sender_that_waits_for_a_cpu_while_no_message_is_due_is_not_harmed() -> None:
    idle = measured(load="rate", foreign_cpu_ns=200 * MS, parts=parts(50, 50, 50, (100, 0, 0)))
    assert analyse(idle).verdict.doubts == ()
    due = np.arange(5000) * 100_000
    sent = due + np.maximum(20 * MS - due % (100 * MS), 0)  # stands still for 20 ms of 100
    harmed = replace(idle, sent_ns=sent, received_ns=sent + 50_000)
    assert [d.kind for d in analyse(harmed).verdict.doubts] == ["others"]


def test_a_run_that_was_stopped_as_a_whole_is_not_trusted() -> None:
    run = measured(load="rate")
    stamps = [np.where(s > 480 * MS, s + 60_000 * MS, s) for s in (run.sent_ns, run.received_ns)]
    at = (0, 100 * MS, 200 * MS, 300 * MS, 400 * MS, 60_490 * MS)
    seen = {**looks(broker=(0,) * 6), "at_ns": at}
    stopped = analyse(replace(run, sent_ns=stamps[0], received_ns=stamps[1], looks=seen))
    assert [d.kind for d in stopped.verdict.doubts] == ["standstill"]
    assert stopped.verdict.doubts[0].amount == pytest.approx(60.09)
    assert {peak.cause for peak in stopped.peaks} == {"standstill"}
    assert "nothing of this run ran" in verdict(stopped)[1]
    # One that goes on meanwhile was only not looked at.
    busy = {**looks(broker=(0,) * 3), "at_ns": (0, 100 * MS, 3000 * MS)}
    assert analyse(measured(load="rate", gap_ns=MS, looks=busy)).verdict.doubts == ()


def test_a_period_is_seen_among_shorter_delays_without_one() -> None:
    random = np.random.default_rng(1)
    latency = random.integers(20_000, 60_000, 20_000)
    for at in random.integers(0, latency.size - 20, 120):
        latency[at : at + 10] += random.integers(MS, 6 * MS)
    latency[999::1000] += 40 * MS
    period = find_period(np.arange(latency.size), latency, np.arange(latency.size) * 200_000)
    assert period is not None
    assert (period.every, period.seen) == (1000, 20)


def test_a_load_is_above_the_limit_only_where_messages_queue_up() -> None:
    n = np.arange(5000)
    slower = analyse(measured(30_000 + 6 * n, load="rate"))  # half as long again, and no message waits
    assert (slower.stability, slower.verdict.doubts) == ("stable", ())
    above = measured(30_000 + 3000 * n, load="rate")
    assert [d.kind for d in analyse(above).verdict.doubts] == ["rising"]
    # Where others took the CPUs, it may be they that latencies grow by.
    taken = replace(measured(30_000 + 1500 * n, load="rate"), foreign_cpu_ns=1000 * MS)
    assert [d.kind for d in analyse(taken).verdict.doubts] == ["others"]
    assert [d.kind for d in analyse(replace(above, foreign_cpu_ns=1000 * MS)).verdict.doubts] == [
        "others",
        "rising",
    ]
