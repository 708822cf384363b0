from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from latlab.model.queues.observation import Queue, QueueKind
from latlab.queues.flight import CAUSES, Detector, Flight, Trigger
from latlab.queues.sample.recorder import COLUMNS, Memory

QUEUES = (
    Queue(0, "orders", QueueKind.BOUNDED, 4),
    Queue(1, "blocks", QueueKind.POOL, 4),
    Queue(2, "log", QueueKind.UNBOUNDED, 0),
)


def batch(*rows: tuple[int, int, int, int, int]) -> dict[str, Any]:
    """Rows of (t_ns, queue, in, out, dropped)."""
    columns = {name: np.zeros(len(rows), kind) for name, kind in COLUMNS["samples"].items()}
    for i, (t_ns, queue, came, gone, dropped) in enumerate(rows):
        columns["t_ns"][i], columns["queue"][i], columns["in"][i] = t_ns, queue, came
        columns["out_low"][i] = columns["out_high"][i] = gone
        columns["dropped"][i] = dropped
    return columns


def sweeps(*t_ns: int) -> dict[str, Any]:
    return {"t_ns": np.array(t_ns), "duration_ns": np.ones(len(t_ns), "u4"), "read": np.ones(len(t_ns), "u4")}


def seen(
    rows: Sequence[tuple[int, int, int, int, int]], causes: Sequence[str] = CAUSES, objective_ns: int = 0
) -> Trigger | None:
    return Detector(causes, objective_ns=objective_ns).samples(batch(*rows), QUEUES)


def test_one_drop_more_than_before_is_a_drop_and_what_was_dropped_earlier_is_not() -> None:
    assert seen([(1, 0, 3, 2, 7), (2, 0, 4, 2, 7)]) is None
    assert seen([(1, 0, 3, 2, 7), (2, 0, 4, 2, 9)]) == Trigger("drop", 0, "orders", 2, 2)


def test_a_queue_that_becomes_full_is_seen_and_one_that_was_full_all_along_is_not() -> None:
    assert seen([(1, 0, 4, 0, 0), (2, 0, 5, 1, 0)]) is None
    assert seen([(1, 0, 3, 0, 0), (2, 0, 4, 0, 0)]) == Trigger("full", 0, "orders", 2, 4)


def test_of_a_pool_empty_is_what_hurts() -> None:
    assert seen([(1, 1, 4, 3, 0), (2, 1, 4, 4, 0)]) == Trigger("full", 1, "blocks", 2, 0)
    assert seen([(1, 1, 4, 3, 0), (2, 1, 7, 3, 0)]) is None


def test_an_event_that_waits_beyond_the_objective_is_seen_when_it_leaves_late() -> None:
    # Event 1 is in at 100 at the latest, and still the oldest at 400.
    rows = [(100, 2, 1, 0, 0), (200, 2, 2, 0, 0), (400, 2, 3, 0, 0)]
    assert seen(rows, objective_ns=299) == Trigger("latency", 2, "log", 400, 300)
    assert seen(rows, objective_ns=300) is None


def test_the_age_is_of_the_oldest_event_and_not_of_the_fill() -> None:
    rows = [(100 * i, 2, i + 1, i, 0) for i in range(1, 9)]  # one event always waits, each for one step
    assert seen(rows, objective_ns=120) is None


def test_an_event_that_waits_in_a_queue_that_stands_still_is_seen_by_the_time() -> None:
    detector = Detector(CAUSES, objective_ns=500)
    assert detector.samples(batch((100, 2, 1, 0, 0)), QUEUES) is None
    assert detector.time(600, QUEUES) is None
    assert detector.time(601, QUEUES) == Trigger("latency", 2, "log", 601, 501)


def test_only_what_was_asked_for_triggers() -> None:
    rows = [(1, 0, 3, 0, 0), (2, 0, 4, 0, 1)]
    for cause in ("drop", "full"):
        found = seen(rows, causes=(cause,))
        assert found is not None
        assert found.cause == cause
    assert Detector(CAUSES, exclude=["orders"]).samples(batch(*rows), QUEUES) is None


def test_a_flight_is_ready_some_time_after_what_happened_and_tells_what_it_was() -> None:
    flight = Flight(1e-6, Detector(CAUSES), lambda: QUEUES, after_seconds=100e-9)
    flight.append("samples", batch((1000, 0, 3, 0, 0), (1010, 0, 4, 0, 0)))
    flight.append("sweeps", sweeps(1000, 1010, 1050))
    assert flight.trigger == Trigger("full", 0, "orders", 1010, 4)
    assert not flight.ready.is_set()
    flight.append("sweeps", sweeps(1110))
    assert flight.ready.is_set()
    sink = Memory()
    flight.write_to(sink)
    assert sink.documents["trigger"]["cause"] == "full"
    assert sink.columns("samples")["in"].tolist() == [3, 4]
    flight.arm()
    assert flight.trigger is None


@pytest.mark.parametrize(
    ("trigger", "said"),
    [
        (Trigger("drop", 0, "orders", 1, 3), "orders dropped 3 events"),
        (Trigger("full", 0, "orders", 1, 4), "orders was full with 4 events"),
        (Trigger("full", 1, "", 1, 0), "queue 1 was empty"),
        (Trigger("latency", 1, "log", 1, 2_500_000), "an event waited 2.5 ms in log"),
    ],
)
def test_what_happened_is_a_sentence(trigger: Trigger, said: str) -> None:
    assert str(trigger) == said
