"""Pairs of a pilot whose processes are dear count among the experiment's."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from latlab.bench.measuring import experiment as experiment_module
from latlab.bench.measuring import pilot as pilot_module
from latlab.bench.measuring.experiment import Asked, run_ab
from latlab.bench.results.recorder import Recorder
from latlab.bench.results.targets import Target
from latlab.model.bench import Sample, Settings
from latlab.model.statistics.paired import Ruling
from latlab.stats.experiments.paired import interleaving

SIDES = [Target("python", f"{side}.py:Work", fixture="Work") for side in "ab"]


class Machine:
    """Processes of 10 ms calls that take so long to start; the first of each pair is faster."""

    def __init__(self, process_s: float, change: float, seed: int = 1) -> None:
        self.process_s, self.change, self.noise = process_s, change, np.random.default_rng(seed)
        self.order: list[str] = []
        self.now_s = 1000.0

    def clock(self) -> float:
        return self.now_s

    def once(self, target: Target, settings: Settings) -> Sample:
        level = 1e7 * (1 + self.change * (target is SIDES[1])) * np.exp(0.01 * self.noise.normal())
        times = level * np.exp(0.01 * self.noise.normal(size=settings.iterations))
        self.now_s += self.process_s
        return Sample(
            times, 1, process_s=self.process_s, turn=settings.turn, measuring_s=2e-9 * float(times.sum())
        )

    def pair(self, first: Target, second: Target, settings: Settings, _: int = 0) -> tuple[Sample, Sample]:
        self.order.append("A" if first is SIDES[0] else "B")
        one, other = self.once(first, settings), self.once(second, settings)
        slower = dataclasses.replace(other, times_ns=1.02 * other.times_ns, position=1)
        return one, slower


def run(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, *, seed: int, pairs: int
) -> tuple[Ruling, Recorder]:
    monkeypatch.setattr(pilot_module, "measure_once", machine.once)
    monkeypatch.setattr(pilot_module, "measure_pair", machine.pair)
    monkeypatch.setattr(experiment_module, "measure_pair", machine.pair)
    monkeypatch.setattr(pilot_module, "awake", machine.clock)
    monkeypatch.setattr(experiment_module, "awake", machine.clock)
    monkeypatch.setattr(experiment_module, "conditions_for", lambda a, b, s: (s, 0.01))
    recorder = Recorder()
    asked = Asked(seconds=10.0, seed=seed, max_pairs=pairs)
    judged, _ = run_ab(SIDES[0], SIDES[1], Settings(), asked, recorder, control=False)
    return judged.result.verdict, recorder


def order_of(recorder: Recorder) -> list[str]:
    return [row.side for row in recorder.rows if row.position == 0]


def test_the_first_pairs_are_the_pilots_with_the_experiments_first_coins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted = set()
    for seed in range(6):
        machine = Machine(0.3, 0.0)
        _, recorder = run(monkeypatch, machine, seed=seed, pairs=12)
        coins = [first for first, _ in itertools.islice(interleaving(seed, block_pairs=1), 12)]
        pairs = len(recorder.rows) // 2
        assert [row.pair for row in recorder.rows] == sorted(2 * list(range(pairs)))
        assert order_of(recorder) == coins[:pairs]
        counted.add(len(machine.order) - pairs)
    assert counted == {0}


def test_a_pilot_whose_processes_are_cheap_stays_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(0.1, 0.0)
    _, recorder = run(monkeypatch, machine, seed=3, pairs=40)
    assert len(machine.order) >= len(recorder.rows) // 2 + pilot_module.PILOT_PAIRS


@pytest.mark.long
def test_identical_sides_are_seldom_called_different_and_a_change_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {0.0: 0, 0.1: 0}
    for change, seed in itertools.product(found, range(60)):
        verdict, _ = run(monkeypatch, Machine(0.3, change, seed), seed=seed, pairs=14)
        found[change] += verdict in (Ruling.SLOWER, Ruling.FASTER, Ruling.MIXED)
        assert verdict is not Ruling.FASTER or not change
    assert found[0.0] <= 4
    assert found[0.1] >= 54
