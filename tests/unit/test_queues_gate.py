"""Verdicts are said or withheld: contradictions, and shapes beyond a line, planted in observations.

Over 400 lines: one builder of observations, and a test of each contradiction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.lab.diagnosis.budget import mean_budget
from latlab.lab.judge.disturbances import losses_in_words
from latlab.model.queues.analysis import Doubt, DoubtKind, Verdict
from latlab.model.queues.observation import Observation, Queue, QueueKind, SocketBuffer, Stage
from latlab.queues import analyse
from latlab.queues.judge.gate import doubts_about
from latlab.queues.judge.lines import lines_of, unseen_queues
from latlab.queues.judge.measures.measured import measure
from latlab.queues.judge.measures.queues import queue_results
from latlab.queues.judge.measures.series import expand, steady_window
from latlab.queues.judge.measures.stages import stage_views
from latlab.queues.judge.sentences import burst_sentence
from latlab.queues.judge.verdict import _explained, _Judged
from latlab.queues.model.tandem import Line, observe, simulate
from latlab.reports.queues.doubts import doubt_in_words
from latlab.reports.queues.text import analysis_lines
from latlab.schedule.interpreter_lock import takes_one_cpu

PERIOD = 100_000.0
MS = 1_000_000


def line(slow: int, seed: int = 1, **more: Any) -> Observation:
    shape = Line(**{"slower": 0.5, **more})
    return observe(shape, simulate(shape, np.array([slow]), 8_000, seed), 0, PERIOD)


def kinds(observation: Observation, **more: Any) -> set[DoubtKind]:
    return {doubt.kind for doubt in analyse(observation, **more).doubts}


def changed(observation: Observation, number: int, **more: Any) -> Observation:
    queues = list(observation.queues)
    queues[number] = replace(queues[number], **more)
    return replace(observation, queues=tuple(queues))


def recorded(
    queues: dict[str, tuple[str, str, int]],
    put: dict[str, Any],
    taken: dict[str, Any],
    end_ms: float,
    period_ms: float = 0.2,
    **more: Any,
) -> Observation:
    """Queues whose events were put and taken at given times, in ms: name → (source, drain, capacity)."""
    at = np.arange(10.05, end_ms, period_ms)  # not in step with times in whole ms
    columns: dict[str, list[Any]] = {name: [] for name in ("t_ns", "queue", "in", "out")}
    for number, name in enumerate(queues):
        columns["t_ns"].append((at * MS).astype(np.int64))
        columns["queue"].append(np.full(len(at), number, np.uint32))
        columns["in"].append(np.searchsorted(np.sort(put[name]), at, side="right"))
        columns["out"].append(np.searchsorted(np.sort(taken[name]), at, side="right"))
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(joined["t_ns"], kind="stable")
    t_ns, out = joined["t_ns"][order], joined["out"][order].astype(np.uint64)
    zero = np.zeros(len(t_ns), np.uint64)
    described = tuple(
        Queue(number, name, QueueKind.BOUNDED, capacity, source_name=source, drain_name=drain, **more)
        for number, (name, (source, drain, capacity)) in enumerate(queues.items())
    )
    samples = {"t_ns": t_ns, "t_end_ns": t_ns, "queue": joined["queue"][order]}
    samples |= {"in": joined["in"][order].astype(np.uint64), "out_low": out, "out_high": out}
    samples |= dict.fromkeys(("dropped", "blocked", "empty"), zero) | {"skipped": zero.astype(np.uint32)}
    sweeps = (at * MS).astype(np.int64)
    nothing = np.zeros(len(at), np.uint32)
    return Observation(
        described,
        (),
        (),
        samples,
        {"t_ns": sweeps, "duration_ns": nothing, "read": nothing},
        period_ns=200_000,
    )


def test_a_stage_that_rarely_has_work_and_room_is_not_named() -> None:
    # Queues of one hide what a stage has in hand: the counts favour the last, which is none of the slow.
    found = analyse(line(0, slower=0.25, capacity=1, holds=True))
    assert (found.limiting_stage, found.verdict) == (None, Verdict.UNKNOWN)
    assert {doubt.kind for doubt in found.doubts} == {DoubtKind.RARELY_AT_WORK}


def test_a_queue_that_holds_more_than_it_can_withholds_the_name() -> None:
    observation = line(2, load=1.5)
    assert analyse(observation).limiting_stage == "stage-2"
    assert DoubtKind.ABOVE_CAPACITY in kinds(changed(observation, 2, capacity=4))
    assert analyse(changed(observation, 2, capacity=4)).limiting_stage is None


def test_more_events_out_of_a_queue_than_in_withhold_the_name() -> None:
    observation = line(2, load=1.5)
    samples = dict(observation.samples)
    mine = samples["queue"] == 4
    samples["in"] = np.where(mine, samples["in"] - np.minimum(samples["in"], 100), samples["in"])
    assert DoubtKind.MORE_OUT_THAN_IN in kinds(replace(observation, samples=samples))


def with_threads(observation: Observation, first: int = 100, step: int = 1) -> Observation:
    for number in range(len(observation.queues)):
        tids = {"producer_tid": first + step * number, "consumer_tid": first + step * (number + 1)}
        observation = changed(observation, number, **tids)
    return observation


def test_ends_that_contradict_the_threads_withhold_the_name() -> None:
    observation = with_threads(line(2, load=1.5))
    assert kinds(observation) == set()
    swapped = changed(observation, 3, source_name="stage-3", drain_name="stage-2")
    assert DoubtKind.SWAPPED_ENDS in kinds(swapped)


def test_one_thread_at_both_ends_of_all_queues_contradicts_nothing() -> None:
    observation = with_threads(line(2, load=1.5), step=0)
    assert kinds(observation) == set()


def test_a_name_in_front_of_a_queue_that_is_not_observed_is_withheld() -> None:
    found = analyse(line(2, load=1.5), exclude=("queue-2",))
    assert found.limiting_stage is None
    assert {(doubt.kind, doubt.where, doubt.other) for doubt in found.doubts} == {
        (DoubtKind.UNSEEN_QUEUE, "stage-1", "stage-2")
    }


def both(one: Observation, two: Observation) -> Observation:
    """Two lines that were observed at once."""
    count = min(len(one.sweeps["t_ns"]), len(two.sweeps["t_ns"]))
    number = len(one.queues)
    shift = int(one.sweeps["t_ns"][0]) - int(two.sweeps["t_ns"][0])
    last = int(one.sweeps["t_ns"][count - 1])
    parts = []
    for observation, add, move in ((one, 0, 0), (two, number, shift)):
        samples = dict(observation.samples)
        samples["queue"] = samples["queue"] + np.uint32(add)
        samples["t_ns"] = samples["t_end_ns"] = samples["t_ns"] + move
        keep = samples["t_ns"] <= last
        parts.append({name: values[keep] for name, values in samples.items()})
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(joined["t_ns"], kind="stable")
    queues = tuple(
        replace(
            queue,
            number=number + queue.number,
            name=f"b-{queue.name}",
            source_name=f"b-{queue.source_name}",
            drain_name=f"b-{queue.drain_name}",
        )
        for queue in two.queues
    )
    return replace(
        one,
        queues=(*one.queues, *queues),
        samples={name: values[order] for name, values in joined.items()},
        sweeps={name: values[:count] for name, values in one.sweeps.items()},
    )


def test_two_lines_that_no_queue_connects_have_a_verdict_each() -> None:
    found = analyse(both(line(1, load=1.5), line(3, load=1.5, seed=2, slower=0.8)))
    assert {one.limiting_stage for one in found.lines} == {"stage-1", "b-stage-3"}
    assert not found.doubts
    assert any("Bottleneck: b-stage-3" in text for text in analysis_lines(found))


def test_a_queue_that_was_not_seen_leads_from_what_was_taken_first_to_what_was_put_after() -> None:
    # A line cut in the middle: what its first part took comes out of its second, and not the other way round.
    observation = line(2, load=1.5, capacity=8)
    first, second = observation.queues[0], observation.queues[2]
    cut = replace(observation, queues=(first, second))
    series = expand(cut)
    found = unseen_queues(series, lines_of(series))
    assert [(one.where, one.other) for one in found] == [(first.drain, second.source)]


def test_stages_that_a_queue_connects_are_one_line() -> None:
    observation = line(1, load=1.5)
    assert len(lines_of(expand(observation))) == 1
    assert analyse(observation).lines == ()


def test_unlike_stages_that_fill_one_queue_are_one_line_with_who_drains_it() -> None:
    at = np.arange(1.0, 900.0)
    queues = {"eu": ("router", "eu", 8), "us": ("router", "us", 8), "merged": ("eu + us", "reporter", 8)}
    put = {"eu": at, "us": at, "merged": np.repeat(at + 0.6, 2)}
    taken = {"eu": at + 0.1, "us": at + 0.1, "merged": np.repeat(at + 0.7, 2)}
    series = expand(recorded(queues, put, taken, 900.0))
    assert len(lines_of(series)) == 1
    made = mean_budget(analyse(recorded(queues, put, taken, 900.0)))
    assert made is not None
    assert made.events == pytest.approx(2 * 890, abs=20)
    outputs = {view.label: view.outputs for view in stage_views(recorded(queues, put, taken, 900.0), series)}
    assert outputs["eu"] == outputs["us"] == (2,)


def test_who_takes_from_several_queues_in_turn_joins_nothing() -> None:
    at = np.arange(20.0, 900.0)
    queues = {"a": ("f", "sum", 8), "b": ("g", "sum", 8), "out": ("sum", "write", 8)}
    put = {"a": at, "b": at, "out": np.concatenate((at + 0.3, at + 0.6))}
    taken = {"a": at + 0.1, "b": at + 0.4, "out": np.concatenate((at + 0.35, at + 0.65))}
    observation = recorded(queues, put, taken, 900.0)
    assert [view.joins for view in stage_views(observation, expand(observation))] == [False, False]
    put["out"], taken["out"] = at + 0.6, at + 0.65
    observation = recorded(queues, put, taken, 900.0)
    assert [view.joins for view in stage_views(observation, expand(observation))] == [True, False]


def window_of_two() -> Observation:
    """Two events go round; `line` keeps each for 8 ms, and is busy with none."""
    begun = [11.0, 12.0]
    for n in range(400):
        begun.append(begun[n] + 10.0)
    at = np.array(begun)
    queues = {"wire": ("client", "line", 0), "served": ("line", "server", 0), "back": ("server", "client", 0)}
    put = {"wire": at, "served": at + 8.2, "back": at + 9.4}
    taken = {"wire": at + 0.1, "served": at + 8.3, "back": at + 9.5}
    return recorded(queues, put, taken, float(at[-1]) - 20)


def test_where_no_event_comes_from_outside_nothing_waits_for_load() -> None:
    found = analyse(window_of_two())
    assert [(one.kind, one.where) for one in found.doubts] == [(DoubtKind.GOES_ROUND, "line")]
    assert found.doubts[0].limit == pytest.approx(2.0, abs=0.1)
    assert found.doubts[0].value == pytest.approx(1.6, abs=0.2)


def test_what_a_stage_keeps_is_a_part_of_the_mean() -> None:
    made = mean_budget(analyse(window_of_two()))
    assert made is not None
    assert made.total_ns == pytest.approx(10e6, rel=0.1)


def join(slow: str) -> Observation:
    """`pair` takes one event of each side; one of the sides, or itself, is slow."""
    left, right, pair = (1.0 if name == slow else 0.3 for name in ("left", "right", "pair"))
    count, room = 900, 8
    times: dict[str, list[float]] = {name: [] for name in ("a", "b", "put_c", "put_d", "c", "d", "done")}

    def at(name: str, n: int) -> float:
        return times[name][n] if n >= 0 else 0.0

    for n in range(count):
        times["a"].append(max(at("put_c", n - 1), n * 0.01))
        times["b"].append(max(at("put_d", n - 1), n * 0.01))
        times["put_c"].append(max(at("a", n) + left, at("c", n - room)))
        times["put_d"].append(max(at("b", n) + right, at("d", n - room)))
        times["c"].append(max(at("put_c", n), at("done", n - 1)))
        times["d"].append(max(at("put_d", n), at("c", n)))
        times["done"].append(at("d", n) + pair)
    sides = {"a": ("feed-1", "left", 8), "b": ("feed-2", "right", 8)}
    sides |= {"c": ("left", "pair", 8), "d": ("right", "pair", 8)}
    put = {name: [0.0] * room + times[name][: count - room] for name in ("a", "b")}
    put |= {"c": times["put_c"], "d": times["put_d"]}
    return recorded(sides, put, {name: times[name] for name in "abcd"}, times["done"][-1] - 20)


@pytest.mark.parametrize("slow", ["left", "right", "pair"])
def test_a_join_has_work_only_where_both_sides_hold_an_event(slow: str) -> None:
    found = analyse(join(slow))
    assert (found.limiting_stage, found.verdict) == (slow, Verdict.STAGE)
    ready = {stage.label: stage.ready or 0.0 for stage in found.stages}
    assert (ready["pair"] > 0.9) == (slow == "pair")


def pool(connections: int) -> Observation:
    """Four threads take a connection each for 1 ms."""
    count = 900
    began = np.arange(count) / connections + 5.0
    queues = {"jobs": ("source", "worker", 8), "connections": ("worker", "worker", connections)}
    queues["done"] = ("worker", "store", 8)
    ended = began + 0.99
    in_front = began - (10 - connections) / connections  # six of them wait, the others are in hand
    put = {"jobs": np.maximum(in_front, 0), "done": ended}
    put["connections"] = np.concatenate([np.zeros(connections), ended])
    taken = {"jobs": began - (4 - connections) / connections, "connections": began, "done": ended + 0.01}
    return recorded(queues, put, taken, float(began[-1]) - 20)


def test_an_empty_pool_limits_where_events_in_hand_wait_for_it() -> None:
    found = analyse(pool(1))
    assert (found.limiting_stage, found.verdict) == ("connections", Verdict.POOL)
    (waited,) = [queue.pool_wait_ns for queue in found.queues if queue.name == "connections"]
    assert waited == pytest.approx(3e6, rel=0.1)


def test_a_pool_that_is_as_large_as_its_users_are_many_does_not_limit() -> None:
    found = analyse(pool(4))
    assert (found.limiting_stage, found.verdict) == ("worker", Verdict.STAGE)


def last_with_pool(connections: int) -> Observation:
    """The same four, behind whom no queue counts what they hold: they publish how long they work."""
    seen = pool(connections)
    queues = tuple(queue for queue in seen.queues if queue.name != "done")
    kept = np.isin(seen.samples["queue"], [queue.number for queue in queues])
    at = seen.sweeps["t_ns"]
    work = min(1.0, connections / 4)  # of each one's time
    stages = tuple(Stage(i, "", "worker", tid=100 + i) for i in range(4))
    columns: dict[str, np.ndarray] = {
        "t_ns": np.tile(at, 4),
        "stage": np.repeat(np.arange(4), len(at)),
        "busy_ns": np.tile(((at - at[0]) * work).astype(np.int64), 4),
        "blocked_ns": np.zeros(4 * len(at), np.int64),
        "events": np.tile(((at - at[0]) // 4_000_000).astype(np.uint64), 4),
    }
    columns["transitions"] = columns["events"]
    samples = {name: values[kept] for name, values in seen.samples.items()}
    return replace(seen, queues=queues, samples=samples, stages=stages, stage_times=columns)


def test_a_pool_limits_who_have_work_and_are_not_at_it_also_where_nothing_is_behind_them() -> None:
    found = analyse(last_with_pool(1))
    assert (found.limiting_stage, found.verdict) == ("connections", Verdict.POOL)
    found = analyse(last_with_pool(4))
    assert (found.limiting_stage, found.verdict) == ("worker", Verdict.STAGE)


def test_what_is_waited_for_a_pool_is_no_service_of_who_takes_from_it() -> None:
    (worker,) = [one for one in analyse(last_with_pool(1)).stages if one.label == "worker"]
    assert worker.service_ns == pytest.approx(1e6, rel=0.05)


def pool_and_who_is_behind(spent: float) -> Observation:
    """Four take one object by turns, and publish that they wait; who takes their results works too."""
    seen = pool(1)
    at = seen.sweeps["t_ns"]
    labels = ["worker"] * 4 + ["store"]
    busy = [0.25] * 4 + [spent]
    stuck = [0.75] * 4 + [0.0]
    lasted = at - at[0]
    columns = {
        "t_ns": np.tile(at, 5),
        "stage": np.repeat(np.arange(5), len(at)),
        "busy_ns": np.concatenate([(lasted * share).astype(np.int64) for share in busy]),
        "blocked_ns": np.concatenate([(lasted * share).astype(np.int64) for share in stuck]),
        "events": np.concatenate(
            [(lasted // each).astype(np.uint64) for each in [4_000_000] * 4 + [1_000_000]]
        ),
    }
    columns["transitions"] = columns["events"]
    stages = tuple(Stage(i, "", label, tid=100 + i) for i, label in enumerate(labels))
    return replace(seen, stages=stages, stage_times=columns)


@pytest.mark.parametrize("spent", [0.1, 0.55])
def test_a_pool_limits_before_a_busier_stage_that_has_time_to_spare(spent: float) -> None:
    found = analyse(pool_and_who_is_behind(spent))
    assert (found.limiting_stage, found.verdict) == ("connections", Verdict.POOL)


def stops(after: float) -> Observation:
    """Three stages of 1 ms; the second takes nothing any more."""
    count, room = 2000, 8
    begin = np.arange(count) * 1.0
    kept = begin[begin < after]
    queues = {"p": ("source", "one", 8), "q": ("one", "two", 8), "r": ("two", "three", 8)}
    put = {
        "p": np.maximum(begin - 4, 0)[: len(kept) + 2 * room],
        "q": begin[: len(kept) + room],
        "r": kept + 0.9,
    }
    taken = {"p": begin[: len(kept) + room], "q": kept, "r": kept + 0.95}
    return recorded(queues, put, taken, 2000.0)


def test_a_stage_that_takes_nothing_any_more_is_told_as_stopped_first() -> None:
    found = analyse(stops(900))
    assert (found.limiting_stage, found.verdict) == ("two", Verdict.STOPPED)
    assert "has taken nothing since 8" in found.evidence[0]


def test_a_stage_that_pauses_at_the_end_for_a_moment_has_not_stopped() -> None:
    assert analyse(stops(1700)).verdict is not Verdict.STOPPED


def loop(blocks: bool) -> Observation:
    """Three tasks on one thread: `hold` has an event in hand 0.9 of each ms."""
    n = np.arange(1500) * 1.0
    spread = 0.05 if blocks else 0.9
    queues = {"p": ("source", "one", 8), "q": ("one", "hold", 8), "r": ("hold", "two", 8)}
    queues["s"] = ("two", "three", 8)
    phase = (
        0.92 + np.linspace(0, 0.05, len(n)) if blocks else np.random.default_rng(1).uniform(0, spread, len(n))
    )
    put = {"p": n + phase - 3, "q": n + phase - 2, "r": n + 0.9, "s": n + 1 + phase + 0.01}
    taken = {"p": n + phase - 2.01, "q": n, "r": n + 1 + phase, "s": n + 1 + phase + 0.02}
    return recorded(
        queues, put, taken, 1400.0, 0.1, producer_tid=7, consumer_tid=7, implementation="asyncio.queues.Queue"
    )


def test_the_task_that_holds_the_event_loop_is_named() -> None:
    found = analyse(loop(blocks=True))
    assert (found.limiting_stage, found.verdict) == ("hold", Verdict.STAGE)
    assert "holds the event loop" in found.evidence[0]


def test_a_task_that_waits_while_others_move_does_not_hold_the_loop() -> None:
    assert "holds the event loop" not in " ".join(analyse(loop(blocks=False)).evidence)


def idle() -> Observation:
    return line(-1, slower=0.0, load=0.5, variation=0.5)


def with_socket(observation: Observation, drain: str, full: float) -> Observation:
    """The same beside a receive buffer that dropped 971 datagrams and was nearly full so often."""
    t_ns = np.linspace(observation.sweeps["t_ns"][0], observation.sweeps["t_ns"][-1], 50).astype(np.int64)
    fill = np.where(np.arange(50) < 50 * full, 2600, 100).astype(np.uint64)
    samples: dict[str, Any] = {"t_ns": t_ns, "socket": np.zeros(50, np.uint32), "fill_bytes": fill}
    samples |= {"capacity_bytes": np.full(50, 4096, np.uint64)}
    samples["dropped"] = np.linspace(0, 971, 50).astype(np.uint64)
    socket = SocketBuffer(0, "udp", "127.0.0.1:9", "", 1, 0, drain=drain)
    return replace(observation, sockets=(socket,), socket_samples=samples)


def test_nothing_limits_is_withheld_where_the_kernel_dropped_datagrams() -> None:
    assert analyse(idle()).verdict is Verdict.NONE
    found = analyse(with_socket(idle(), "", 0.9))
    assert (found.verdict, [doubt.value for doubt in found.doubts]) == (Verdict.UNKNOWN, [971.0])
    assert any("971" in said for said in losses_in_words((), None, found.sockets))


def test_who_reads_a_socket_that_stands_full_and_drops_is_named() -> None:
    found = analyse(with_socket(idle(), "source", 0.9))
    assert (found.verdict, found.limiting_stage, found.doubts) == (Verdict.STAGE, "source", ())
    assert found.evidence[0].startswith("the kernel dropped 971 datagrams in front of source")


def test_a_socket_that_drops_and_mostly_has_room_meets_bursts() -> None:
    found = analyse(with_socket(idle(), "source", 0.1))
    assert (found.verdict, found.limiting_stage) == (Verdict.BURST, None)


def test_a_stage_that_limits_stays_named_beside_what_its_socket_lost() -> None:
    found = analyse(with_socket(line(2), "source", 0.9))
    assert found.limiting_stage == "stage-2"
    (said,) = losses_in_words((), found.limiting_stage, found.sockets)
    assert said.endswith("because stage-2 cannot keep up")


def judged(verdict: Verdict, **queue: Any) -> tuple[Doubt, ...]:
    observation = idle()
    window = steady_window(observation)
    series = expand(observation, window)
    queues = tuple(replace(one, **queue) if one.number == 2 else one for one in queue_results(series))
    return doubts_about(None, verdict, observation, measure(observation, series, window), series, queues, 1.0)


def test_nothing_limits_is_withheld_where_a_queue_stands_full() -> None:
    assert [doubt.kind for doubt in judged(Verdict.NONE, full=0.5)] == [DoubtKind.BACKED_UP]
    assert judged(Verdict.NONE, full=0.1) == ()


def test_a_stage_that_is_busy_for_more_than_the_time_is_a_contradiction() -> None:
    observation = line(2, load=1.5)
    window = steady_window(observation)
    series = expand(observation, window)
    measured = measure(observation, series, window)
    twice = replace(measured, busy=2 * measured.busy)
    found = doubts_about("stage-2", Verdict.STAGE, observation, twice, series, queue_results(series), 1.0)
    assert DoubtKind.ABOVE_WHOLE in {doubt.kind for doubt in found}


def test_a_burst_is_told_of_an_input_that_rose_and_not_within_a_circle() -> None:
    queue = queue_results(expand(idle()))[0]
    risen = replace(queue, full=0.02, fill_p50=1, capacity=16, source="source")
    assert burst_sentence((risen,)) is not None
    assert burst_sentence((replace(risen, source=risen.drain, drain="other"), risen)) is not None
    circle = (replace(risen, source="b", drain="a"), replace(risen, source="a", drain="b"))
    assert burst_sentence(circle) is None
    assert burst_sentence((replace(risen, capacity=1),)) is None
    assert burst_sentence((replace(risen, fill_p50=15),)) is None


@pytest.mark.parametrize("kind", list(DoubtKind))
def test_every_contradiction_has_words_that_name_where_it_is(kind: DoubtKind) -> None:
    assert "decode" in doubt_in_words(Doubt(kind, "decode", "book", 0.5, 4.0))


@pytest.mark.parametrize(("used", "one"), [(0.7, False), (0.8, True), (1.1, True), (1.3, False)])
def test_threads_of_one_lock_take_about_one_cpu(used: float, one: bool) -> None:
    assert takes_one_cpu(used) == one


@pytest.mark.parametrize(("share", "withheld"), [(0.95, True), (0.3, False)])
def test_nothing_is_said_to_limit_where_the_event_loop_always_runs(share: float, withheld: bool) -> None:
    arrivals = np.arange(20.0, 1500.0, 4.0)
    seen = recorded(
        {"orders": ("feed", "book", 8)},
        {"orders": arrivals},
        {"orders": arrivals + 0.01},
        1500.0,
        implementation="asyncio.Queue",
        producer_tid=7,
        consumer_tid=7,
    )
    at = np.array([seen.sweeps["t_ns"][0], seen.sweeps["t_ns"][-1]], np.int64)
    ran = np.array([0, int(share * (at[1] - at[0]))], np.int64)
    none = np.zeros(2, np.int64)
    threads = {"t_ns": at, "tid": np.array([7, 7]), "cpu_ns": ran, "wait_ns": none}
    found = analyse(replace(seen, threads={**threads, "voluntary": none, "involuntary": none}))
    assert (DoubtKind.BUSY_LOOP in {doubt.kind for doubt in found.doubts}) == withheld


def paced(wait_ms: float, cpu: float = 0.08, tells: bool = False) -> Observation:
    """A task that is at work nearly always, for 2 ms an event; its events wait so long for it."""
    puts = np.arange(20.0, 1500.0, 2.0)
    ends: dict[str, Any] = {"producer_tid": 7, "consumer_tid": 7, "implementation": "asyncio.Queue"}
    seen = recorded({"q": ("first", "second", 4)}, {"q": puts}, {"q": puts + wait_ms}, 1500.0, **ends)
    at = seen.sweeps["t_ns"].astype(np.int64)
    labels = ("second", "first") if tells else ("second",)
    counts, still = np.arange(len(at)), np.zeros(len(at), np.int64)
    busy = {"busy_ns": ((at - at[0]) * 0.97).astype(np.int64), "blocked_ns": still}
    rows = [
        {
            "t_ns": at,
            "stage": np.full(len(at), number, np.uint32),
            "events": counts,
            "transitions": counts,
            **busy,
        }
        for number in range(len(labels))
    ]
    times = {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
    ends_ns = np.array([at[0], at[-1]])
    none = np.zeros(2, np.int64)
    threads = {
        "t_ns": ends_ns,
        "tid": np.array([7, 7]),
        "wait_ns": none,
        "voluntary": none,
        "involuntary": none,
    }
    threads["cpu_ns"] = np.array([0, int(cpu * (at[-1] - at[0]))], np.int64)
    stages = tuple(Stage(number, "", name) for number, name in enumerate(labels))
    return replace(seen, stages=stages, stage_times=times, threads=threads)


@pytest.mark.parametrize(
    ("seen", "doubted"),
    [
        (paced(0.01), True),  # nothing ever waits: its source may be as slow
        (paced(3.0), True),  # nor does a queue that is half empty hold its source up
        (paced(7.0), False),  # its queue is nearly full
        (paced(0.01, cpu=0.9), False),  # it computes, and may hold its source up by that
        (paced(0.01, tells=True), False),  # its source tells of itself, which is judged elsewhere
    ],
)
def test_a_stage_that_sleeps_and_never_falls_behind_is_not_named(seen: Observation, doubted: bool) -> None:
    found = analyse(seen)
    assert (DoubtKind.NEVER_BEHIND in {doubt.kind for doubt in found.doubts}) == doubted
    if doubted:
        assert found.limiting_stage is None
        assert "second hardly falls behind first, which feeds it" in doubt_in_words(found.doubts[0])


def test_a_task_that_waits_for_an_executor_leaves_the_name_to_the_executors_stage() -> None:
    (queue, *_) = queue_results(expand(line(2)))
    unseen = Doubt(DoubtKind.UNSEEN_QUEUE, "work", "loop")
    outer = _Judged(None, Verdict.UNKNOWN, 0.0, ["?"], (), (), (), (unseen,))
    inner = _Judged("resize", Verdict.STAGE, 1.0, ["!"], (), (replace(queue, source="loop"),), ())
    told, same = _explained([outer, inner])
    assert (told.doubts, told.evidence) == ((), ["what work takes goes on to resize, which limits"])
    assert same is inner
    idle = replace(inner, stage=None, verdict=Verdict.NONE)
    assert _explained([outer, idle])[0].doubts == (unseen,)


def test_a_stage_whose_output_always_holds_an_event_is_not_named() -> None:
    observation = line(1)
    window = steady_window(observation)
    series = expand(observation, window)
    measured, queues = measure(observation, series, window), queue_results(series)
    assert doubts_about("stage-1", Verdict.STAGE, observation, measured, series, queues, 1.0) == ()
    full = replace(series, low=np.where(np.arange(len(series.low))[:, None] == 2, 5, series.low))
    found = doubts_about("stage-1", Verdict.STAGE, observation, measured, full, queues, 1.0)
    assert [(doubt.kind, doubt.where) for doubt in found] == [(DoubtKind.NEVER_STARVED, "queue-2")]
    assert "no faster" in doubt_in_words(found[0])


def gated(waits: float) -> Observation:
    """Ten tasks that take turns at a semaphore of one, and wait for a part of their time; no queue beside."""
    taken = np.arange(0, 2_000, 10.0)
    given = np.concatenate(([-1.0], taken + 9.9))
    seen = recorded({"gate": ("fetch", "fetch", 1)}, {"gate": given}, {"gate": taken}, 2_000)
    t_ns = np.tile(seen.sweeps["t_ns"], 10)
    number = np.repeat(np.arange(10), len(seen.sweeps["t_ns"]))
    columns = {"t_ns": t_ns, "stage": number.astype(np.uint32), "transitions": (t_ns // MS).astype(np.uint64)}
    columns |= {"events": (t_ns // (100 * MS)).astype(np.uint64)}
    columns |= {"blocked_ns": (t_ns * waits).astype(np.uint64)}
    columns |= {"busy_ns": (t_ns * (1 - waits)).astype(np.uint64), "idle_ns": np.zeros(len(t_ns), np.uint64)}
    stages = tuple(Stage(one, "", "fetch") for one in range(10))
    return replace(seen, stages=stages, stage_times=columns)


def test_a_semaphore_for_which_tasks_wait_is_named_where_no_queue_stands_beside() -> None:
    found = analyse(gated(0.9))
    assert (found.limiting_stage, found.verdict) == ("gate", Verdict.POOL)


def test_a_semaphore_that_is_held_all_the_time_and_hardly_waited_for_is_not_named() -> None:
    assert analyse(gated(0.1)).verdict is Verdict.UNKNOWN


def test_what_is_waited_for_a_pool_without_a_queue_beside_it_is_in_the_budget() -> None:
    found = analyse(gated(0.9))
    budget = mean_budget(found)
    assert budget is not None
    # Ten tasks take the one object 100 times a second in all, and wait for 90 % of the time each.
    parts = {(part.kind, part.where): round(part.ns / MS) for part in budget.parts}
    assert (parts["waiting", "gate"], parts["service", "fetch"]) == (90, 10)


def test_a_pool_for_which_users_wait_in_a_part_of_the_time_only_is_less_sure() -> None:
    always, seen = analyse(gated(0.9)), gated(0.95)
    times = seen.stage_times
    waited = (np.minimum(times["t_ns"], 1_080 * MS) * 0.95).astype(np.uint64)  # nothing after 54 % of it
    half = analyse(
        replace(seen, stage_times={**times, "blocked_ns": waited, "busy_ns": times["t_ns"] - waited})
    )
    assert (always.verdict, half.verdict) == (Verdict.POOL, Verdict.POOL)
    assert 0.5 < half.confidence < 0.9 < always.confidence < 1


def test_a_user_who_has_ended_waits_for_no_object_any_more() -> None:
    seen = gated(0.9)
    times = seen.stage_times
    early = times["t_ns"] < 600 * MS
    ended = {name: values[(times["stage"] == 0) | early] for name, values in times.items()}
    found = analyse(replace(seen, stage_times=ended))
    assert (found.limiting_stage, found.verdict) == ("gate", Verdict.POOL)


def test_users_who_are_never_quick_enough_for_a_pool_wait_for_it_too() -> None:
    """Two of ten get the object by turns, and the others nothing: these do not count by their events."""
    seen = gated(0.9)
    times = {name: values.copy() for name, values in seen.stage_times.items()}
    starved = times["stage"] >= 2
    times["events"][starved] = 0
    times["blocked_ns"][~starved] = times["t_ns"][~starved] // 4
    times["busy_ns"][~starved] = times["t_ns"][~starved] * 3 // 4
    times["blocked_ns"][starved], times["busy_ns"][starved] = times["t_ns"][starved], 0
    found = analyse(replace(seen, stage_times=times))
    assert (found.limiting_stage, found.verdict) == ("gate", Verdict.POOL)
    budget = mean_budget(found)
    assert budget is not None
    assert {part.where: round(part.ns / MS) for part in budget.parts if part.kind == "waiting"} == {
        "gate": 85
    }


def test_a_task_whose_turn_comes_after_half_a_second_has_not_stopped_when_it_does_not_have_it() -> None:
    # Of an event loop whose tasks hold it until nothing is left to take; the last turn is over at 1,550 ms.
    taken = np.concatenate([500 * turn + 0.2 * np.arange(250) for turn in range(4)])
    put = np.concatenate((np.zeros(300), taken))
    seen = recorded({"q": ("one", "two", 300)}, {"q": put}, {"q": taken}, 2000.0)
    assert analyse(seen).verdict is not Verdict.STOPPED
    once = recorded({"q": ("one", "two", 300)}, {"q": put[:550]}, {"q": taken[:250]}, 2000.0)
    assert analyse(once).verdict is Verdict.STOPPED
