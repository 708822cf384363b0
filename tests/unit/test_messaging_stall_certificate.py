"""The stall certificate of `benchmarks/messaging_stall.py` is a check that can fail."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.files.started import module_of

AT = Path(__file__).parents[2] / "benchmarks" / "messaging_stall.py"


@pytest.fixture(scope="module")
def certificate() -> Any:
    return module_of(AT)


def measured(plan: Any, *, shrink: float = 0.0, exaggerate: float = 0.0, hide: bool = False) -> Any:
    """What a run of the plan gives where a broker reads its whole queue before it delivers much of it.

    A tool may make lateness smaller, believe that stalls were longer, or not see them.
    """
    due = np.array(plan.due_ns, dtype=np.int64) - plan.due_ns[0]
    received, stalls = due + 100_000, []
    for message, ns in plan.stalls:
        start = int(due[message]) + 20_000
        end = start + ns
        stalls.append((message, start, end + round(exaggerate * ns)))
        waiting = int(np.searchsorted(due, end)) - message
        k = np.arange(waiting)
        answered = end + 2_000_000 + 50_000 * np.minimum(k, waiting // 3) + 9_000 * k
        if not hide:
            queue = slice(message, message + waiting)
            received[queue] = np.rint(answered - shrink * (answered - due[queue]))
    facts = SimpleNamespace(broker=None)
    return SimpleNamespace(facts=facts, intended_ns=due, received_ns=received, stalls_ns=tuple(stalls))


@pytest.mark.parametrize("milliseconds", [20, 100, 500])
def test_an_honest_tool_is_within_the_bar_though_the_answer_depends_on_the_queues_length(
    certificate: Any, milliseconds: int
) -> None:
    plan = certificate.Plan.of(milliseconds * 1_000_000, 30, 4)
    found = certificate.errors(measured(plan), plan, 30)
    assert found.shape == (4, 4)
    assert float(np.nanmax(np.abs(found))) < certificate.BAR / 4


@pytest.mark.parametrize("wrong", [{"shrink": 0.05}, {"exaggerate": 0.05}, {"hide": True}])
def test_a_tool_that_gets_a_stall_of_100_ms_wrong_misses_the_bar(certificate: Any, wrong: Any) -> None:
    plan = certificate.Plan.of(100_000_000, 30, 4)
    found = certificate.errors(measured(plan, **wrong), plan, 30)
    assert float(np.nanmax(np.abs(np.nanmedian(found, axis=0)))) > certificate.BAR


def test_pilots_of_long_stalls_are_half_as_long_and_as_many_messages_wait_for_them(certificate: Any) -> None:
    plan = certificate.Plan.of(100_000_000, 30, 4)
    due = np.array(plan.due_ns)
    for which, length in [(plan.pilots, 50_000_000), (plan.checked, 100_000_000)]:
        for message, ns in (plan.stalls[i] for i in which):
            waiting = int(np.searchsorted(due, due[message] + ns)) - message
            assert (ns, abs(waiting - 30) <= 1) == (length, True)  # periods are whole ns


def test_the_uncertainty_falls_with_the_root_of_the_number_of_stalls(certificate: Any) -> None:
    one = np.random.default_rng(1).normal(0, 0.01, (100, 4))
    ratio = certificate.uncertainty(one) / certificate.uncertainty(np.tile(one, (4, 1)))
    assert ratio == pytest.approx(2.0)
