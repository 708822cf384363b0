"""Stages that stand still, planted in observations."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from latlab.model.queues.observation import Observation, Queue, QueueKind
from latlab.queues import stalls

MS = 1_000_000


def observed(
    took_ms: list[float], *, seconds: float = 1.0, blind: tuple[float, float] | None = None
) -> Observation:
    """A queue that is never empty, whose drain takes one event at each of these times; sampled every ms."""
    sweeps = np.arange(0, int(seconds * 1000)) * MS
    if blind is not None:
        sweeps = sweeps[(sweeps < blind[0] * MS) | (sweeps > blind[1] * MS)]
    out = np.searchsorted(np.array(took_ms) * MS, sweeps, side="right").astype(np.uint64)
    samples: dict[str, Any] = {
        "t_ns": sweeps,
        "t_end_ns": sweeps + 100,
        "queue": np.zeros(len(sweeps), np.uint32),
        "in": out + np.uint64(7),
        "out_low": out,
        "out_high": out,
        **{name: np.zeros(len(sweeps), np.uint64) for name in ("dropped", "blocked", "empty")},
        "skipped": np.zeros(len(sweeps), np.uint32),
    }
    queue = Queue(0, "orders", QueueKind.BOUNDED, 100, source_name="book", drain_name="send", consumer_tid=9)
    threads_at = np.arange(0, int(seconds * 1000), 50) * MS
    threads: dict[str, Any] = {
        "t_ns": threads_at,
        "pid": np.ones(len(threads_at), np.uint32),
        "tid": np.full(len(threads_at), 9, np.uint32),
        "cpu_ns": np.zeros(len(threads_at), np.uint64),
        "wait_ns": np.zeros(len(threads_at), np.uint64),
        "voluntary": np.zeros(len(threads_at), np.uint64),
        "involuntary": np.zeros(len(threads_at), np.uint64),
    }
    return Observation(
        queues=(queue,),
        stages=(),
        processes=(),
        samples=samples,
        sweeps={"t_ns": sweeps, "duration_ns": np.full(len(sweeps), 100), "read": np.ones(len(sweeps))},
        threads=threads,
    )


STEADY = list(np.arange(0.5, 1000, 2.0))


def test_a_stage_that_stood_still_is_found_with_when_and_how_long() -> None:
    (stall,) = stalls(observed([t for t in STEADY if not 400 < t < 700]))

    assert (stall.stage, stall.queue) == ("send", "orders")
    assert stall.from_ns == pytest.approx(400 * MS, abs=3 * MS)
    assert stall.to_ns == pytest.approx(700 * MS, abs=3 * MS)
    assert stall.without_cpu == 0.0


def test_a_slow_stage_does_not_stand_still() -> None:
    assert stalls(observed(list(np.arange(0.5, 1000, 60.0)))) == ()


def test_a_gap_of_the_sampler_is_no_stall() -> None:
    assert stalls(observed([t for t in STEADY if not 400 < t < 700], blind=(402, 698))) == ()


def test_a_steady_stage_has_none() -> None:
    assert stalls(observed(STEADY)) == ()


def test_a_stall_right_after_the_start_up_that_was_seen_is_part_of_it() -> None:
    seen = observed([t for t in STEADY if t < 110 or t > 190])
    phases = ((0, 0, "starting"), (100 * MS, 0, "running"))
    assert stalls(seen)
    assert not stalls(dataclasses.replace(seen, phases=phases))


def test_a_stall_late_enough_after_the_start_up_is_one() -> None:
    seen = observed([t for t in STEADY if not 400 < t < 700])
    assert stalls(dataclasses.replace(seen, phases=((0, 0, "starting"), (100 * MS, 0, "running"))))


def test_standing_still_while_the_sources_end_is_no_stall() -> None:
    seen = observed([t for t in STEADY if t < 820])
    phases = ((0, 0, "running"), (900 * MS, 0, "stopping"))
    assert stalls(seen)
    assert not stalls(dataclasses.replace(seen, phases=phases))


def test_the_time_before_a_stage_took_its_first_event_is_its_start() -> None:
    assert not stalls(observed([t for t in STEADY if t > 300]))


def test_a_stage_that_takes_nothing_at_all_stands_still() -> None:
    (stall,) = stalls(observed([]))
    assert stall.to_ns - stall.from_ns > 900 * MS
