from __future__ import annotations

import os

import pytest

from latlab.bench.measuring import probes as _probes
from latlab.bench.measuring.conditions import Knobs, hogs
from latlab.system.settings.context import measuring

CPU = max(os.sched_getaffinity(0))


def fifo_allowed() -> bool:
    with measuring(scheduling="fifo", priority=10) as conditions:
        return "scheduling" in conditions.applied


needs_fifo = pytest.mark.skipif(not fifo_allowed(), reason="SCHED_FIFO isn't allowed here")


@needs_fifo
def test_a_real_time_process_is_seen_to_preempt_and_an_ordinary_one_to_share() -> None:
    with Knobs([]) as knobs:
        found = _probes.probe("scheduling", ("other", "fifo"), knobs, CPU, 99)
    assert found.effective, found
    assert found.figures["fifo"] > found.figures["other"] + 0.2


def test_a_priority_that_preempts_nobody_is_not_called_effective(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = _probes.processor_share
    monkeypatch.setattr(_probes, "processor_share", lambda cpu, _: measured(cpu, 0))
    with Knobs([]) as knobs:
        assert _probes.probe("scheduling", ("other", "fifo"), knobs, CPU, 99).effective is False


def test_the_load_generator_keeps_every_core_busy_with_a_process_of_its_own() -> None:
    with hogs() as load:
        before = load.spent_s()
        assert min(_probes.busy_shares(0.5).values()) > 0.9
        after = load.spent_s()
        assert sorted(before) == sorted(os.sched_getaffinity(0))
        assert load.running() == len(before)
        assert all(after[core] > before[core] for core in before)
        next(iter(load.processes.values())).kill()
        next(iter(load.processes.values())).wait()
        assert load.running() == len(before) - 1


def test_a_load_generator_that_idles_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hogs, "spent_s", lambda self: dict.fromkeys(self.processes, 0.0))
    with Knobs([]) as knobs:
        found = _probes.probe("load", ("idle", "hog"), knobs, CPU, 99)
    assert found.effective is None
    assert "the load generator did not run on cores" in found.why
