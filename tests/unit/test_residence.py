from __future__ import annotations

import numpy as np

from latlab.lab.judge.residence import TraceTable, residence
from latlab.lab.judge.verdict import discrepancy, latency
from latlab.model.queues.observation import Observation, Queue, QueueKind

STAGES = {"decoder": ["decoder-a"], "book": ["book-0", "book-1"]}


def table(*rows: tuple[int, int, int, str, str, str, int]) -> TraceTable:
    """Rows of (event, push, pop, source type, drain, queue, end)."""
    columns = list(zip(*rows, strict=True))
    return TraceTable(
        event=np.array(columns[0], np.uint64),
        push_ns=np.array(columns[1], np.int64),
        pop_ns=np.array(columns[2], np.int64),
        source=np.array(columns[3]),
        drain=np.array(columns[4]),
        queue=np.array(columns[5]),
        end=np.array(columns[6], np.uint16),
    )


ONE_EVENT = table(
    (7, 100, 130, "exchange", "decoder-a", "feed", 0),
    (7, 140, 190, "decoder", "book-1", "routed", 0),
    (7, 250, 250, "", "book-1", "", 1),
)


def test_waiting_is_from_put_in_to_taken_out() -> None:
    times = residence(ONE_EVENT, STAGES)
    assert {name: list(values) for name, values in times.waiting.items()} == {"feed": [30], "routed": [50]}


def test_service_is_from_taken_out_to_put_on_or_to_the_end() -> None:
    times = residence(ONE_EVENT, STAGES)
    assert {name: list(values) for name, values in times.service.items()} == {
        "decoder-a": [10],
        "book-1": [60],
    }


def test_end_to_end_is_from_the_first_push_to_the_end() -> None:
    times = residence(ONE_EVENT, STAGES)
    assert (list(times.end_to_end), list(times.end_to_end_at)) == ([150], [100])


def test_an_event_that_was_filtered_has_been_served_and_has_no_end_to_end_latency() -> None:
    times = residence(
        table((1, 0, 5, "exchange", "decoder-a", "feed", 0), (1, 9, 9, "", "decoder-a", "", 2)), STAGES
    )
    assert (list(times.service["decoder-a"]), times.end_to_end.size) == ([4], 0)


def test_an_event_with_a_fan_out_has_been_served_when_it_leaves_for_the_last_time() -> None:
    times = residence(
        table(
            (1, 0, 10, "exchange", "decoder-a", "feed", 0),
            (1, 12, 30, "decoder", "book-0", "q0", 0),
            (1, 15, 40, "decoder", "book-1", "q1", 0),
        ),
        STAGES,
    )
    assert list(times.service["decoder-a"]) == [5]


def test_no_traces_give_no_times() -> None:
    empty = TraceTable(
        *(np.empty(0, kind) for kind in (np.uint64, np.int64, np.int64, "<U1", "<U1", "<U1", np.uint16))
    )
    times = residence(empty, STAGES)
    assert (dict(times.waiting), dict(times.service), times.end_to_end.size) == ({}, {}, 0)


def observed(fill: int) -> Observation:
    samples = {
        "t_ns": np.array([110]),
        "t_end_ns": np.array([112]),
        "queue": np.array([0], np.uint32),
        "in": np.array([5], np.uint64),
        "out_low": np.array([5 - fill], np.uint64),
        "out_high": np.array([5 - fill], np.uint64),
    }
    queue = Queue(0, "feed", QueueKind.BOUNDED, 8)
    return Observation(queues=(queue,), stages=(), processes=(), samples=samples, sweeps={})


def test_a_sample_that_shows_fewer_events_than_traced_ones_were_inside_is_a_discrepancy() -> None:
    assert discrepancy(observed(fill=0), ONE_EVENT).discrepancies == 1


def test_a_sample_that_shows_the_traced_event_is_none() -> None:
    check = discrepancy(observed(fill=1), ONE_EVENT)
    assert (check.samples, check.discrepancies, check.rate) == (1, 0, 0.0)


def test_quantiles_of_latency_are_nearest_ranks() -> None:
    found = latency(np.arange(1, 1001))
    assert found is not None
    assert (found.p50, found.p90, found.p99, found.p99_9, found.max) == (500, 900, 990, 999, 1000)
