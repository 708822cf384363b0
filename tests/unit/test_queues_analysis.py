import dataclasses
import heapq
from typing import Any

import numpy as np
import pytest

from latlab.errors import NotTrustworthyError
from latlab.model.queues.analysis import DoubtKind, Verdict
from latlab.model.queues.observation import Observation, Process, Queue, QueueKind, Stage
from latlab.queues import analyse
from latlab.queues.judge.measures.series import expand, steady_window
from latlab.queues.model.tandem import EventTimes, Line, observe, simulate
from latlab.reports.queues.doubts import doubt_in_words
from latlab.reports.queues.text import answer

PERIOD = 100_000.0


def observed(line: Any, slow: Any, events: Any = 8_000, seed: Any = 1) -> Any:
    return observe(line, simulate(line, np.array([slow]), events, seed), 0, PERIOD)


def hand_made(fills: Any, capacity: Any = 10, period_ns: Any = 1_000, **queue: Any) -> Any:
    """One queue whose fill is given for every sweep: what comes in are rises, what goes out are falls."""
    fills = np.asarray(fills)
    steps = np.diff(fills, prepend=0)
    t_ns = np.arange(len(fills), dtype=np.int64) * period_ns
    came, went = np.cumsum(np.maximum(steps, 0)), np.cumsum(np.maximum(-steps, 0))
    zero = np.zeros(len(fills), np.uint64)
    samples = {
        "t_ns": t_ns,
        "t_end_ns": t_ns,
        "queue": zero.astype(np.uint32),
        "in": came.astype(np.uint64),
        "out_low": went.astype(np.uint64),
        "out_high": went.astype(np.uint64),
        "dropped": zero,
        "blocked": zero,
        "empty": zero,
        "skipped": zero.astype(np.uint32),
    }
    sweeps = {"t_ns": t_ns, "duration_ns": zero.astype(np.uint32), "read": zero.astype(np.uint32)}
    described = {"kind": QueueKind.BOUNDED, "source_name": "a", "drain_name": "b", **queue}
    return Observation((Queue(0, "q", capacity=capacity, **described),), (), (), samples, sweeps)


@pytest.mark.parametrize("slow", range(5))
@pytest.mark.parametrize("load", [1.5, 0.92])
@pytest.mark.parametrize("holds", [False, True])
def test_a_stage_that_is_a_quarter_slower_is_named_wherever_it_stands(
    slow: Any, load: Any, holds: Any
) -> None:
    line = Line(slower=0.25, load=load, holds=holds)
    found = analyse(observed(line, slow))
    assert (found.limiting_stage, found.verdict) == (f"stage-{slow}", Verdict.STAGE)
    assert found.confidence > 0.95


@pytest.mark.parametrize("slow", [0, 2, 4])
@pytest.mark.parametrize("waits_first", [False, True])
def test_a_slow_stage_is_named_also_where_queues_hold_only_two(slow: Any, waits_first: Any) -> None:
    line = Line(slower=0.25, capacity=2, holds=True, waits_first=waits_first)
    found = analyse(observed(line, slow))
    assert (found.limiting_stage, found.verdict) == (f"stage-{slow}", Verdict.STAGE)


@pytest.mark.parametrize("seed", range(5))
def test_a_pipeline_at_half_its_load_is_limited_by_nothing(seed: Any) -> None:
    found = analyse(observed(Line(slower=0.0, load=0.5, variation=0.5), -1, seed=seed))
    assert (found.limiting_stage, found.verdict) == (None, Verdict.NONE)


def test_a_bottleneck_that_moves_is_seen_in_the_timeline_and_said() -> None:
    line = Line(slower=0.5)
    first, second = observed(line, 1, seed=1), observed(line, 3, seed=2)
    shift = int(first.sweeps["t_ns"][-1]) + int(PERIOD)
    counts = {
        name: np.array([first.samples[name][first.samples["queue"] == q][-1] for q in range(5)])
        for name in ("in", "out_low", "out_high")
    }
    moved = {name: values.copy() for name, values in second.samples.items()}
    for name in ("t_ns", "t_end_ns"):
        moved[name] = moved[name] + shift
    for name, last in counts.items():
        moved[name] = moved[name] + last[second.samples["queue"]]
    samples = {name: np.concatenate([first.samples[name], moved[name]]) for name in moved}
    sweeps = {
        name: np.concatenate([first.sweeps[name], second.sweeps[name] + (shift if name == "t_ns" else 0)])
        for name in first.sweeps
    }
    found = analyse(dataclasses.replace(first, samples=samples, sweeps=sweeps))
    assert [p.stage for p in found.timeline if p.stage is not None] == ["stage-1", "stage-3"]
    assert any("the bottleneck moves" in sentence for sentence in found.evidence)


def test_bursts_that_overflow_a_queue_of_idle_stages_are_their_own_verdict() -> None:
    burst = [*range(2, 11), *range(10, 0, -1)]
    found = analyse(hand_made((burst + [0] * 80) * 40))
    assert (found.limiting_stage, found.verdict) == (None, Verdict.BURST)
    assert len(found.queues[0].bursts) == 40
    assert {b.height for b in found.queues[0].bursts} == {10}


@pytest.mark.parametrize(("without_cpu", "verdict"), [(0.02, Verdict.BURST), (0.2, Verdict.UNKNOWN)])
def test_a_queue_that_overflows_since_its_threads_came_late_shows_no_burst(
    without_cpu: float, verdict: Verdict
) -> None:
    fills = np.tile([10] * 2 + list(range(9, 0, -1)) + [0] * 89, 40)
    observation = hand_made(fills, period_ns=100_000, producer_tid=100, consumer_tid=101)
    late = with_threads(observation, [0.05, 0.05], [without_cpu, 0.0], cpus=8)
    found = analyse(dataclasses.replace(late, stages=()))
    assert (found.limiting_stage, found.verdict) == (None, verdict)
    doubts = [(doubt.kind, doubt.other) for doubt in found.doubts]
    assert doubts == ([] if verdict is Verdict.BURST else [(DoubtKind.CAME_LATE, "a")])
    assert all("quieter machine" in doubt_in_words(doubt) for doubt in found.doubts)


def test_too_little_is_not_judged() -> None:
    found = analyse(hand_made([0, 1, 0, 1, 2, 1, 0]))
    assert (found.limiting_stage, found.verdict) == (None, Verdict.UNKNOWN)
    with pytest.raises(NotTrustworthyError):
        analyse(hand_made([1]))


def test_queue_statistics_are_those_of_the_fills_that_were_sampled() -> None:
    fills = [0, 2, 4, 10, 10, 6, 0, 0] * 100
    queue = analyse(hand_made(fills)).queues[0]
    assert queue.nonempty_samples == (500, 500)
    assert queue.sum_of_fills == (sum(fills), sum(fills))
    assert queue.mean_fill == pytest.approx(np.mean(fills))
    assert queue.mean_nonzero_fill == pytest.approx(6.4)
    assert (queue.fill_p50, queue.fill_p99, queue.fill_max) == (2, 10, 10)
    assert (queue.above_50, queue.above_80, queue.full) == pytest.approx((0.375, 0.25, 0.25))
    assert queue.total_in == 10 * 100
    # Little: a mean fill of 4, and 10 events in 8 µs.
    assert queue.residence_ns == pytest.approx(4 / 10 * 8_000, rel=0.01)


def test_an_unbounded_queue_has_a_growth_rate() -> None:
    observation = hand_made(np.arange(1000) // 10, capacity=0, period_ns=1_000_000)
    queue = dataclasses.replace(observation.queues[0], kind=QueueKind.UNBOUNDED)
    found = analyse(dataclasses.replace(observation, queues=(queue,)))
    assert found.queues[0].growth_hz == pytest.approx(100, rel=0.01)


def test_start_up_and_shutdown_that_are_marked_are_left_out() -> None:
    observation = hand_made([9] * 100 + [1, 0] * 200 + [9] * 100)
    phases = ((0, 0, "starting"), (100_000, 0, "running"), (500_000, 0, "stopping"))
    observation = dataclasses.replace(observation, phases=phases)
    assert steady_window(observation) == (100_000, 500_000)
    assert analyse(observation).queues[0].fill_max == 1


def test_an_excluded_queue_is_nowhere() -> None:
    assert analyse(hand_made([0, 1] * 500), exclude=("q",)).queues == ()


def test_samples_that_are_intervals_give_bounds() -> None:
    observation = hand_made([3, 2] * 300)
    samples = dict(observation.samples)
    samples["out_high"] = samples["out_high"] + np.uint64(1)
    queue = analyse(dataclasses.replace(observation, samples=samples)).queues[0]
    assert queue.sum_of_fills == (900, 1500)


def test_what_did_not_change_holds_until_the_next_sample() -> None:
    observation = hand_made([4] * 50 + [1] * 50)
    samples = {name: values[[0, 50]] for name, values in observation.samples.items()}
    series = expand(dataclasses.replace(observation, samples=samples))
    np.testing.assert_array_equal(series.low[0], [4] * 50 + [1] * 50)


def test_a_queue_that_is_gone_holds_nothing_any_more() -> None:
    observation = hand_made([3] * 50 + [4] * 50)
    gone = dataclasses.replace(observation.queues[0], retired_ns=50_000)
    series = expand(dataclasses.replace(observation, queues=(gone,)))
    np.testing.assert_array_equal(series.low[0], [3] * 50 + [0] * 50)


def with_threads(observation: Any, shares: Any, wait: Any, cpus: Any = 2) -> Any:
    """Threads of the stages: (cpu, wait) shares each over the whole time."""
    end = int(observation.sweeps["t_ns"][-1])
    stages = tuple(Stage(i, "", f"stage-{i}", tid=100 + i) for i in range(len(shares)))
    rows = [(t, 1, 100 + i, int(c * t), int(w * t), 0, t // 10_000_000) for t in (0, end)
            for i, (c, w) in enumerate(zip(shares, wait, strict=True))]  # fmt: skip
    names = ("t_ns", "pid", "tid", "cpu_ns", "wait_ns", "voluntary", "involuntary")
    columns = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return dataclasses.replace(observation, stages=stages, threads=columns, cpus=cpus)


def test_a_stage_whose_thread_is_kept_from_running_is_the_scheduler_s_doing() -> None:
    observation = observed(Line(slower=0.25), 2)
    kept = with_threads(observation, [0.3, 0.3, 0.3, 0.3, 0.3], [0.0, 0.0, 0.6, 0.0, 0.0], cpus=8)
    found = analyse(kept)
    assert (found.limiting_stage, found.verdict) == ("stage-2", Verdict.SCHEDULER)


@pytest.mark.parametrize(("most", "expected"), [(10, "b"), (9, None)])
def test_one_that_lacks_a_cpu_is_named_below_all_of_the_time_where_its_input_stands_full(
    most: int, expected: str | None
) -> None:
    # It has an event for 92 % of the time, works for half of it, and wants a CPU for the rest.
    observation = hand_made(np.tile([most] * 40 + [5] * 52 + [0] * 8, 40), period_ns=100_000)
    end = int(observation.sweeps["t_ns"][-1])
    rows = [(t, 1, 100, int(0.5 * t), int(0.4 * t), 0, 0) for t in (0, end)]
    names = ("t_ns", "pid", "tid", "cpu_ns", "wait_ns", "voluntary", "involuntary")
    threads = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    at, busy = np.array([0, end]), np.array([0, int(0.9 * end)])
    times = {"t_ns": at, "stage": np.zeros(2, np.uint32), "busy_ns": busy, "events": at // 100_000}
    times |= {"transitions": times["events"], "blocked_ns": np.zeros_like(busy)}
    stages = (Stage(0, "", "b", tid=100),)
    found = analyse(
        dataclasses.replace(observation, stages=stages, threads=threads, stage_times=times, cpus=8)
    )
    assert (found.limiting_stage, found.verdict) == (expected, Verdict.SCHEDULER)


def test_a_machine_whose_cpus_are_full_is_a_verdict_of_its_own() -> None:
    observation = observed(Line(slower=0.25), 2)
    # Busy for 100 % of the time or for 80 %, the thread of each runs for 40 % of it.
    found = analyse(with_threads(observation, [0.4] * 5, [0.4, 0.4, 0.6, 0.4, 0.4]))
    assert (found.limiting_stage, found.verdict) == (None, Verdict.CPU)


@pytest.mark.parametrize("slow", [0, 3, None])
def test_threads_that_share_the_interpreter_s_lock_are_compared_by_their_cpu_time(slow: Any) -> None:
    # By the queues, stage-2 is the slowest: it waits longest for the lock.
    observation = observed(Line(slower=0.25), 2)
    python = tuple(
        dataclasses.replace(queue, implementation="latlab.queues.count.standard.Queue")
        for queue in observation.queues
    )
    observation = dataclasses.replace(observation, queues=python, processes=(Process(0, 1, 1, "app"),))
    shares = [0.24 if stage == slow else 0.19 for stage in range(5)]
    found = analyse(with_threads(observation, shares, [0.02] * 5))
    expected = (None, Verdict.UNKNOWN) if slow is None else (f"stage-{slow}", Verdict.STAGE)
    assert (found.limiting_stage, found.verdict) == expected
    assert any("the interpreter's lock" in sentence for sentence in found.evidence)


@pytest.mark.parametrize("slow", range(5))
def test_on_a_full_machine_stages_are_compared_by_the_cpu_time_that_they_need(slow: Any) -> None:
    observation = observed(Line(slower=0.25), slow)
    shares = [0.5 if stage == slow else 0.4 for stage in range(5)]
    found = analyse(with_threads(observation, shares, [0.3] * 5))
    assert (found.limiting_stage, found.verdict) == (f"stage-{slow}", Verdict.STAGE)
    assert found.evidence[0].startswith(f"stage-{slow} needs a CPU")


@pytest.mark.parametrize(
    ("load", "expected"), [(1.5, ("stage-2", Verdict.STAGE)), (0.85, (None, Verdict.CPU))]
)
def test_threads_that_poll_on_a_full_machine_are_named_only_when_they_are_busy_all_the_time(
    load: Any, expected: Any
) -> None:
    observation = observed(Line(slower=0.25, load=load), 2)
    found = analyse(with_threads(observation, [0.38] * 5, [0.62] * 5))
    assert (found.limiting_stage, found.verdict) == expected


def test_a_stage_that_computes_most_limits_also_on_a_full_machine() -> None:
    observation = observed(Line(slower=0.25), 2)
    found = analyse(with_threads(observation, [0.2, 0.2, 0.9, 0.3, 0.3], [0.4] * 5))
    assert (found.limiting_stage, found.verdict) == ("stage-2", Verdict.STAGE)


def test_stages_that_lack_a_cpu_where_none_is_slow_are_the_scheduler_s_doing_and_none_is_named() -> None:
    observation = observed(Line(slower=0.0, load=0.9, variation=0.5), -1)
    found = analyse(with_threads(observation, [0.3] * 5, [0.4] * 5, cpus=8))
    assert (found.limiting_stage, found.verdict) == (None, Verdict.SCHEDULER)
    assert answer(found).startswith("no stage limits, but the scheduler")


def test_a_thread_that_waits_for_a_cpu_now_and_then_does_not_hide_its_stage() -> None:
    observation = observed(Line(slower=0.25), 2)
    found = analyse(with_threads(observation, [0.01] * 5, [0.02] * 5))
    assert (found.limiting_stage, found.verdict) == ("stage-2", Verdict.STAGE)


def test_the_copies_of_queues_that_a_fork_left_change_no_judgement() -> None:
    observation = observed(Line(slower=0.25), 2)
    count = len(observation.queues)
    copies = tuple(dataclasses.replace(queue, number=queue.number + count) for queue in observation.queues)
    idle = {name: np.zeros(count, values.dtype) for name, values in observation.samples.items()}
    idle["queue"] = np.arange(count, 2 * count, dtype=np.uint32)
    samples = {name: np.concatenate([idle[name], values]) for name, values in observation.samples.items()}
    forked = dataclasses.replace(observation, queues=observation.queues + copies, samples=samples)
    alone, both = analyse(observation), analyse(forked)
    assert (both.limiting_stage, both.confidence) == (alone.limiting_stage, alone.confidence)
    assert [s.service_ns for s in both.stages] == [s.service_ns for s in alone.stages]


def pooled_line(
    workers: Any, load: Any, seed: Any, events: Any = 4_000, service_ns: Any = 1_000_000.0
) -> Any:
    """Stages in a row with so many workers each, all of which take as many events a second."""
    rng = np.random.default_rng(seed)
    put = np.cumsum(rng.exponential(service_ns / load, events))
    came, went = [], []
    for count in workers:
        free = [0.0] * count
        taken, left = [], []
        for at, time in zip(put, rng.gamma(4.0, service_ns * count / 4, events), strict=True):
            begin = max(at, heapq.heappop(free))
            heapq.heappush(free, begin + time)
            taken.append(begin)
            left.append(begin + time)
        came.append(put)
        went.append(np.sort(taken))
        put = np.sort(left)
    line = Line(stages=len(workers), capacity=256)
    return observe(line, EventTimes(np.array([came]), np.array([went]), put[None]), 0, service_ns / 4)


@pytest.mark.parametrize("seed", range(10))
def test_a_pool_of_workers_at_a_lower_load_does_not_make_the_stages_behind_it_look_busy(seed: Any) -> None:
    found = analyse(pooled_line([1, 3, 1, 1], 0.6, seed))
    assert (found.limiting_stage, found.verdict) == (None, Verdict.NONE)
    assert found.stages[3].utilisation == pytest.approx(0.6, abs=0.1)


def two_books(slow_ns: Any, shares: tuple[float, ...] = (1.0, 1.0)) -> Any:
    """A source that deals events to two stages of one type; each is busy for `slow_ns[i]` an event.

    Args:
        shares: of the events that a stage could nearly serve, those that it gets.
    """
    rng = np.random.default_rng(3)
    period, sweeps = 100_000, 8_000
    end = period * sweeps
    at = np.arange(sweeps, dtype=np.int64) * period
    parts = []
    for number, (service, share) in enumerate(zip(slow_ns, shares, strict=True)):
        arrivals = np.sort(rng.uniform(0, end, int(share * end / 22_000)))
        free, taken = 0.0, []
        for arrival, time in zip(arrivals, rng.exponential(service, len(arrivals)), strict=True):
            free = max(free, arrival) + time
            taken.append(free)
        parts.append((np.full(sweeps, number), at, np.searchsorted(arrivals, at), np.searchsorted(taken, at)))
    of, t_ns, came, went = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(t_ns, kind="stable")
    zero = np.zeros(len(t_ns), np.uint64)
    samples: dict[str, Any] = {
        "t_ns": t_ns[order],
        "t_end_ns": t_ns[order],
        "queue": of[order].astype(np.uint32),
    }
    samples |= {"in": came[order].astype(np.uint64), "out_low": went[order].astype(np.uint64)}
    samples |= {"out_high": samples["out_low"], "dropped": zero, "blocked": zero, "empty": zero}
    samples |= {"skipped": zero.astype(np.uint32)}
    queues = tuple(
        Queue(
            i,
            f"q{i}",
            QueueKind.UNBOUNDED,
            0,
            source_name="source",
            drain_type="book",
            drain_name=f"book-{i}",
        )
        for i in range(len(slow_ns))
    )
    sweep: dict[str, Any] = {
        "t_ns": at,
        "duration_ns": np.zeros(sweeps, np.uint32),
        "read": np.full(sweeps, 2, np.uint32),
    }
    return Observation(queues, (), (), samples, sweep, period_ns=period)


def test_stages_of_one_type_that_are_slow_alike_are_named_by_their_type() -> None:
    found = analyse(two_books([24_000.0, 24_000.0]))
    assert (found.limiting_stage, found.verdict) == ("book", Verdict.STAGE)


def test_one_stage_of_a_type_that_is_slow_alone_is_named_itself() -> None:
    found = analyse(two_books([24_000.0, 1_000.0]))
    assert (found.limiting_stage, found.verdict) == ("book-0", Verdict.STAGE)


def test_one_stage_of_a_type_that_has_most_of_its_events_is_named_itself() -> None:
    # Each event takes as long at every one of them: a hot partition.
    found = analyse(two_books([24_000.0, 24_000.0], shares=(1.0, 0.1)))
    assert (found.limiting_stage, found.verdict) == ("book-0", Verdict.STAGE)


def test_the_confidence_that_nothing_limits_falls_near_the_load_that_would() -> None:
    low = analyse(observed(Line(slower=0.0, load=0.4), -1))
    assert (low.verdict, low.confidence) == (Verdict.NONE, 1.0)
