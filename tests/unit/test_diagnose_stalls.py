"""Stages that stood still, told from those that were blocked behind them."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.lab.judge.disturbances import stalls_in_words
from latlab.model.queues.observation import Observation, Queue, QueueKind

MS = 1_000_000


def observed(behind: int) -> Observation:
    """For 300 ms `work` takes nothing of what waits in front of it; behind it lie so many of 10 events."""
    sweeps = np.arange(0, 1000) * MS
    took = np.append(np.arange(0.5, 400, 2.0), np.arange(700.5, 1000, 2.0)) * MS
    out = np.searchsorted(took, sweeps, side="right").astype(np.uint64)
    held = np.where((sweeps >= 395 * MS) & (sweeps <= 705 * MS), behind, 0).astype(np.uint64)
    parts = (
        {"queue": 0, "in": out + np.uint64(7), "out": out},
        {"queue": 1, "in": out + np.uint64(10), "out": out + np.uint64(10) - held},
    )
    zeros = np.zeros(len(sweeps), np.uint64)
    columns = [
        {
            "t_ns": sweeps,
            "t_end_ns": sweeps + 100,
            "queue": np.full(len(sweeps), part["queue"], np.uint32),
            "in": part["in"],
            "out_low": part["out"],
            "out_high": part["out"],
            **dict.fromkeys(("dropped", "blocked", "empty"), zeros),
            "skipped": np.zeros(len(sweeps), np.uint32),
        }
        for part in parts
    ]
    samples = {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}
    order = np.argsort(samples["t_ns"], kind="stable")
    return Observation(
        queues=(
            Queue(0, "jobs", QueueKind.BOUNDED, 100, source_name="load", drain_name="work"),
            Queue(1, "results", QueueKind.BOUNDED, 10, source_name="work", drain_name="send"),
        ),
        stages=(),
        processes=(),
        samples={name: values[order] for name, values in samples.items()},
        sweeps={"t_ns": sweeps, "duration_ns": np.full(len(sweeps), 100), "read": np.ones(len(sweeps))},
        threads={},
    )


@pytest.mark.parametrize(("behind", "told"), [(2, True), (10, False)])
def test_a_stage_that_could_not_put_its_results_on_did_not_stand_still(behind: int, told: bool) -> None:
    found = stalls_in_words(observed(behind))

    assert any(line.startswith("work stood still for 30") for line in found) == told
