"""Threads that do the same, each with a queue of its own, are one pool where none has more to do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.lab.judge.lanes import alike_lanes
from latlab.model.queues.analysis import Analysis, StageResult, Verdict
from latlab.model.queues.observation import Observation, Queue, QueueKind


def found(**busy: float) -> Analysis:
    stages = tuple(
        StageResult(name.replace("_", "-"), (), (), part, 0.0, 0.0, part, 1e6, 200.0)
        for name, part in busy.items()
    )
    return Analysis(None, Verdict.UNKNOWN, 0.0, (), (), (), stages, 0, 5 * 10**9)


def fed(*ends: tuple[str, str]) -> Observation:
    queues = [
        Queue(i, f"q{i}", QueueKind.UNBOUNDED, 0, source_name=source, drain_name=drain)
        for i, (source, drain) in enumerate(ends)
    ]
    return Observation(tuple(queues), (), (), {}, {}, {}, {})


LANES = fed(("main", "worker"), ("main", "worker-2"), ("main", "worker-3"))


def test_lanes_that_are_as_busy_as_each_other_are_one_pool() -> None:
    pool = found(main=0.1, worker=0.85, worker_2=0.86, worker_3=0.8)
    assert alike_lanes(pool, LANES) == dict.fromkeys(("worker", "worker-2", "worker-3"), "worker")
    assert alike_lanes(replace(pool, verdict=Verdict.STAGE), LANES) == {}


@pytest.mark.parametrize(
    ("busy", "ends"),
    [
        ({"worker": 0.3, "worker_2": 0.86, "worker_3": 0.8}, None),  # `worker` is one that has less to do
        ({"worker": 0.3, "worker_2": 0.86, "worker_3": 0.3}, None),  # a hot one
        ({"worker": 0.8, "main": 0.86}, None),  # others
        ({"worker": 0.8, "worker_2": 0.86}, (("main", "worker"), ("worker", "worker-2"))),  # in turn
        ({"worker": 0.8, "worker_2": 0.86}, (("left", "worker"), ("right", "worker-2"))),  # of two lines
    ],
)
def test_others_are_none(busy: dict[str, float], ends: tuple[tuple[str, str], ...] | None) -> None:
    assert alike_lanes(found(**busy), LANES if ends is None else fed(*ends)) == {}
