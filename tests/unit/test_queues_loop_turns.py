"""Tasks that hold an event loop by turns: which one holds it for longest, if any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from latlab.queues.judge import loops
from latlab.queues.judge.loops import LoopHold

BLOCKS, SECONDS = 192, 5.0


def by_turns(seed: int, services_ms: list[float], turn: int) -> tuple[list[LoopHold], Any]:
    """Tasks that each take what waits for them, up to a turn's events, and tell it when they have done."""
    random = np.random.default_rng(seed)
    held = np.zeros((len(services_ms), BLOCKS))
    taken = np.zeros((len(services_ms), BLOCKS), int)
    now, at = 0.0, random.integers(len(services_ms))
    while True:
        events = int(random.integers(turn // 2, turn + 1))
        lasts = events * services_ms[at] / 1e3 * random.lognormal(0, 0.1)
        now += lasts
        if now >= SECONDS:
            break
        block = int(now / SECONDS * BLOCKS)
        held[at, block] += lasts / SECONDS
        taken[at, block] += events
        at = (at + int(random.integers(1, len(services_ms)))) % len(services_ms)
    names = [f"task-{number}" for number in range(len(services_ms))]
    holds = [LoopHold(name, float(row.sum()), "", row) for name, row in zip(names, held, strict=True)]
    measured = SimpleNamespace(views=[SimpleNamespace(label=name) for name in names], taken=taken)
    return sorted(holds, key=lambda hold: -hold.share), measured


def sure(seed: int, services_ms: list[float], turn: int) -> tuple[str, float]:
    holds, measured = by_turns(seed, services_ms, turn)
    return holds[0].label, loops._sure_of_first(holds, measured)


@pytest.mark.long
@pytest.mark.parametrize("turn", [4, 50])
def test_of_equal_tasks_none_is_named_for_the_turns_that_it_had(turn: int) -> None:
    named = [sure(seed, [1.0] * 4, turn)[1] >= loops._SURE for seed in range(60)]
    assert sum(named) <= 1


@pytest.mark.parametrize(("turn", "least"), [(4, 19), (50, 14)])
def test_a_task_that_takes_longer_for_an_event_is_named(turn: int, least: int) -> None:
    told = [sure(seed, [1.0, 1.0, 2.5], turn) for seed in range(20)]
    assert sum(name == "task-2" and confidence >= loops._SURE for name, confidence in told) >= least
    assert all(name == "task-2" for name, confidence in told if confidence >= loops._SURE)
