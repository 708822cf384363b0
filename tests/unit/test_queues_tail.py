import dataclasses
from typing import Any

import numpy as np
import pytest

from latlab.errors import InputError, UsageError
from latlab.model.queues.observation import Stage
from latlab.model.queues.tail import TailEvent, TailHop
from latlab.queues import tail
from latlab.queues.model.tandem import Line, observe, simulate
from latlab.reports.queues.text import tail_lines

LINE = Line(stages=3, slower=0.3, load=0.8)


def longest(event: TailEvent) -> TailHop:
    found = event.longest
    assert found is not None
    return found


@pytest.fixture(scope="module")
def traced() -> Any:
    """A line of three stages in which every event is traced, with one of them held up by 50 ms at stage-1."""
    times = simulate(LINE, np.array([1]), 3_000, seed=4)
    put, taken, done = times.put[0], times.taken[0], times.done[0]
    events = np.arange(1_000, 2_000)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("event", "push_ns", "pop_ns", "queue", "stage", "end")
    }
    late = 50e6 * (events >= 1_500)  # all that come later are late as well, but began later
    for stage in range(3):
        shift = late * (events == 1_500) if stage else 0 * late
        columns["event"].append(events)
        columns["push_ns"].append(put[stage, events] + (shift if stage > 1 else 0))
        columns["pop_ns"].append(taken[stage, events] + shift)
        columns["queue"].append(np.full(1_000, stage))
        columns["stage"].append(np.full(1_000, f"stage-{stage}"))
        columns["end"].append(np.zeros(1_000, int))
    over = done[events] + late * (events == 1_500)
    ends = {"event": events, "push_ns": over, "pop_ns": over, "queue": np.full(1_000, -1)}
    ends |= {"stage": np.full(1_000, "stage-2"), "end": np.ones(1_000, int)}
    for name, values in ends.items():
        columns[name].append(values)
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    joined = {n: v if n == "stage" else v.astype(np.int64) for n, v in joined.items()}
    return observe(LINE, times, 0, 20_000.0, warm_up=0.0), joined


def test_the_slowest_event_is_the_one_that_was_held_up_and_where(traced: Any) -> None:
    found = tail(*traced)
    assert (found.traced, found.beyond) == (1_000, 1)
    assert found.events[0].event == 1_500
    assert longest(found.events[0]).queue == "queue-1"
    assert longest(found.events[0]).waited_ns >= 50_000_000
    assert [hop.queue for hop in found.events[0].hops] == ["queue-0", "queue-1", "queue-2"]


def test_the_waits_and_services_of_an_event_add_up_to_its_time(traced: Any) -> None:
    for event in tail(*traced, share=0.9).events:
        assert sum(hop.waited_ns + hop.served_ns for hop in event.hops) == pytest.approx(
            event.total_ns, abs=10
        )


def test_what_stood_in_front_is_the_fill_of_the_last_sample_before(traced: Any) -> None:
    observation, columns = traced
    hop = tail(observation, columns, share=0.9).events[-1].hops[0]
    samples = observation.samples
    mine = (samples["queue"] == 0) & (samples["t_ns"] <= hop.push_ns)
    assert hop.fill == int(samples["in"][mine][-1]) - int(samples["out_low"][mine][-1])


def test_a_thread_that_had_no_cpu_while_an_event_waited_is_said(traced: Any) -> None:
    observation, columns = traced
    end = int(observation.sweeps["t_ns"][-1])
    at = np.array([0, end, end + 60_000_000])
    threads = {"t_ns": at, "pid": np.ones(3), "tid": np.full(3, 7), "cpu_ns": at // 10, "wait_ns": at // 2}
    threads |= {"voluntary": np.zeros(3), "involuntary": np.zeros(3)}
    stage = Stage(0, "", "stage-1", tid=7)
    found = tail(dataclasses.replace(observation, stages=(stage,), threads=threads), columns)
    assert longest(found.events[0]).no_cpu == pytest.approx(0.5, abs=0.01)
    assert "waited for a CPU 50 %" in "\n".join(tail_lines(found))


def test_a_filtered_event_is_no_tail(traced: Any) -> None:
    observation, columns = traced
    spoiled = {**columns, "end": np.where(columns["event"] == 1_500, 2 * columns["end"], columns["end"])}
    assert tail(observation, spoiled).traced == 999
    assert 1_500 not in {event.event for event in tail(observation, spoiled).events}


def test_traces_without_an_end_and_no_quantile_are_refused(traced: Any) -> None:
    observation, columns = traced
    with pytest.raises(InputError, match="no traced event came to an end"):
        tail(observation, {**columns, "end": 0 * columns["end"]})
    with pytest.raises(UsageError):
        tail(observation, columns, share=1.0)


def test_what_the_scheduler_did_to_the_stage_is_told_for_the_longest_stay(traced: Any) -> None:
    observation, columns = traced
    hop = longest(tail(observation, columns).events[0])
    begin = hop.push_ns
    scheduler = {
        "t_ns": np.array([begin - 5_000_000, begin + 1_000_000, begin + 41_000_000]),
        "event": np.zeros(3, int),
        "tid": np.array([0, 7, 99]),
        "other": np.array([7, 99, 7]),
        "value": np.zeros(3, int),
        "cpu": np.zeros(3, int),
    }
    stage = Stage(0, "", "stage-1", tid=7)
    names = {7: "stage-1", 99: "hog"}
    seen = dataclasses.replace(
        observation, stages=(stage,), scheduler=scheduler, thread_names=names, scheduler_missing=""
    )
    found = tail(seen, columns)
    waiting = longest(found.events[0]).waiting
    assert waiting is not None
    assert waiting.run_queue_ns == 40_000_000
    assert waiting.cpu_held_by == "hog (99)"
    assert "runnable without a CPU for 40 ms, which hog (99) had" in "\n".join(tail_lines(found))


def test_that_no_scheduler_events_were_recorded_is_said_in_one_line(traced: Any) -> None:
    observation, columns = traced
    missing = dataclasses.replace(observation, scheduler_missing="tracing is not allowed")
    lines = [line for line in tail_lines(tail(missing, columns)) if "scheduler" in line]
    assert lines == ["what the scheduler did isn't known: tracing is not allowed"]
