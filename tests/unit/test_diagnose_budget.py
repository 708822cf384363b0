"""The budget of an event's time, on traces whose parts are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latlab.formats.event_traces.files import FILTERED, FINISHED
from latlab.lab.diagnosis.budget import budget, mean_budget
from latlab.lab.judge.residence import TraceTable
from latlab.model.diagnosis.answer import Budget, PartKind
from latlab.queues import analyse
from latlab.queues.model.tandem import Line, observe, simulate


def traces(*events: tuple[int, list[tuple[str, str, int, int]], int, int]) -> TraceTable:
    """(event, hops as (queue, drain, push, pop), end, when) as a table."""
    rows = []
    for event, hops, end, when in events:
        rows += [(event, push, pop, drain, queue, 0) for queue, drain, push, pop in hops]
        rows.append((event, when, when, hops[-1][1] if hops else "x", "", end))
    columns = list(zip(*rows, strict=True))
    drains = np.array(columns[3])
    return TraceTable(
        event=np.array(columns[0], np.uint64),
        push_ns=np.array(columns[1], np.int64),
        pop_ns=np.array(columns[2], np.int64),
        source=np.array([""] * len(rows)),
        drain=drains,
        queue=np.array(columns[4]),
        end=np.array(columns[5], np.uint16),
    )


def two_stages(event: int, begin: int) -> tuple[int, list[tuple[str, str, int, int]], int, int]:
    """Waits 10 in front of a, is served 5, waits 20 in front of b, is served 7."""
    hops = [("to-a", "a", begin, begin + 10), ("to-b", "b", begin + 15, begin + 35)]
    return event, hops, FINISHED, begin + 42


def sum_of(found: Budget, kind: PartKind) -> float:
    """All parts of a kind, in ns."""
    return sum(part.ns for part in found.parts if part.kind == kind)


def test_waiting_and_service_of_every_hop_sum_to_the_quantile() -> None:
    found = budget(traces(*(two_stages(i, 100 * i) for i in range(1, 40))), 0.999, 0.0)

    assert found is not None
    parts = {(part.kind, part.where): part.ns for part in found.parts}
    assert parts == {
        ("waiting", "to-b"): pytest.approx(20),
        ("waiting", "to-a"): pytest.approx(10),
        ("service", "b"): pytest.approx(7),
        ("service", "a"): pytest.approx(5),
        ("floor", "machine"): 0.0,
        ("unexplained", ""): 0.0,
    }
    assert found.total_ns == 42
    assert sum(parts.values()) == pytest.approx(42)


def test_the_machines_share_is_taken_out_of_the_services() -> None:
    found = budget(traces(*(two_stages(i, 100 * i) for i in range(1, 40))), 0.5, 0.25)

    assert found is not None
    assert sum_of(found, "floor") == pytest.approx(3)
    assert sum_of(found, "service") == pytest.approx(9)
    assert sum_of(found, "waiting") == pytest.approx(30)


def test_what_a_lost_hop_would_have_said_is_unexplained() -> None:
    # The end at c leads back to the queue in front of it; what took the event before that was not kept.
    hops = [("to-a", "a", 100, 400), ("to-c", "c", 170, 180)]

    found = budget(traces(*((i, hops, FINISHED, 190) for i in range(1, 20))), 0.999, 0.0)

    assert found is not None
    assert found.total_ns == 90
    assert sum_of(found, "waiting") == pytest.approx(10)
    assert sum_of(found, "service") == pytest.approx(10)
    assert sum_of(found, "unexplained") == pytest.approx(70)


def test_events_that_were_filtered_have_no_end_to_end_time() -> None:
    assert budget(traces((1, [("to-a", "a", 1, 2)], FILTERED, 3)), 0.999, 0.0) is None


def test_the_budget_is_of_the_tail_and_not_of_the_bulk() -> None:
    bulk = [two_stages(i, 100 * i) for i in range(1, 2001)]
    tail = [
        (
            i,
            [("to-a", "a", 100 * i, 100 * i + 900), ("to-b", "b", 100 * i + 905, 100 * i + 925)],
            FINISHED,
            100 * i + 932,
        )
        for i in range(2001, 2041)
    ]

    found = budget(traces(*bulk, *tail), 0.999, 0.0)

    assert found is not None
    assert found.total_ns == 932
    assert found.parts[0].where == "to-a"
    assert found.parts[0].ns == pytest.approx(900)


@pytest.mark.parametrize(("entered", "weight"), [(5_143, 1.0), (4_700, 1.0), (9_883, 0.5)])
def test_a_service_is_the_stages_own_where_only_what_was_inside_makes_a_difference(
    entered: int, weight: float
) -> None:
    line = Line(stages=3, slower=1.0, load=1.5, capacity=256, variation=0.3)
    found = analyse(observe(line, simulate(line, np.array([1]), 6_000, 1), 0, 100_000.0))
    first = replace(found.queues[0], total_in=entered)

    made = mean_budget(replace(found, queues=(first, *found.queues[1:])))

    assert made is not None
    services = {part.where: part.ns for part in made.parts if part.kind == "service"}
    known = {stage.label: stage.service_ns for stage in found.stages}
    assert services == {label: pytest.approx(weight * (ns or 0.0), rel=0.06) for label, ns in known.items()}
    assert made.total_ns == pytest.approx(sum(part.ns for part in made.parts))


@pytest.mark.parametrize(("events", "told"), [(1, False), (19, False), (20, True)])
def test_a_mean_of_a_few_events_is_no_budget(events: int, told: bool) -> None:
    line = Line(stages=3, slower=1.0, load=1.5, capacity=256, variation=0.3)
    found = analyse(observe(line, simulate(line, np.array([1]), 6_000, 1), 0, 100_000.0))
    first = replace(found.queues[0], total_in=events)

    assert (mean_budget(replace(found, queues=(first, *found.queues[1:]))) is not None) is told
