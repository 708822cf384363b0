"""How many runs a forecast makes, and of what length, on a clock of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from latlab.errors import LatlabError
from latlab.lab.forecast import by_stage_stub
from latlab.lab.forecast.by_stage_stub import STORY_SPEEDUPS, forecast
from latlab.lab.forecast.stage_runs import CAPACITY_S, Fast, Paced, Stubbing
from latlab.lab.trading.layout import slowed
from latlab.model.diagnosis.answer import Forecast
from latlab.model.diagnosis.layout import Layout
from latlab.model.machine.environment import Environment

_PLANTED_NS, _OWN_NS = 8000, 200


class Pipeline:
    """Runs that take their seconds and so much more, and the rows that they leave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, overhead_s: float) -> None:
        self.now, self.overhead_s = 0.0, overhead_s
        self.paced: list[tuple[float, int]] = []  # of each run the length, and what the layout adds
        self.fast = 0
        self.rows: list[dict[str, Any]] = []
        core = SimpleNamespace(varied=lambda: None, slow=lambda: None)
        look = SimpleNamespace(look=lambda: (0.0, 0.0), around=lambda before: before, core=core)
        monkeypatch.setattr(by_stage_stub, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(by_stage_stub, "MachineSpeed", lambda: look)
        monkeypatch.setattr(by_stage_stub, "run_paced", self.run_paced)
        monkeypatch.setattr(by_stage_stub, "run_fast", self.run_fast)

    def run_paced(self, stubbing: Stubbing, layout: Layout, stage: str) -> Paced:
        added = layout.stages[stage].service_ns
        self.paced.append((stubbing.seconds, added))
        self.now += stubbing.seconds + self.overhead_s
        return Paced(30_000.0, added + _OWN_NS, np.full(5000, 10 * (added + 1000)), "book")

    def run_fast(self, _: Stubbing, layout: Layout, stage: str) -> Fast:
        self.fast += 1
        self.now += CAPACITY_S + self.overhead_s
        return Fast(4e8 / (layout.stages[stage].service_ns + 1000), "book")

    def append(self, series: str, row: dict[str, Any]) -> None:
        assert series == "forecast"
        self.rows.append({name: float(value[0]) for name, value in row.items()})

    def forecast(self, budget_s: float, over_s: float, *, seconds: float = 3.0) -> Forecast:
        layout = slowed(Layout(), "book", _PLANTED_NS)
        stubbing = Stubbing(layout, (), seconds, Environment({}), 1)
        writer: Any = self
        return forecast(
            stubbing,
            "book",
            budget_s,
            writer,
            lambda _: None,
            speedups=STORY_SPEEDUPS,
            applied=0.5,
            at_most=budget_s + over_s,
        )


def test_the_first_two_runs_are_of_the_first_round_where_they_are_as_long_as_its_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Pipeline(monkeypatch, 0.4)
    found = made.forecast(27.0, 0.0)
    assert {seconds for seconds, _ in made.paced} == {0.8}
    # Each run that was made is told, none twice.
    kept = [row for row in made.rows if not np.isnan(row["service_ns"])]
    assert len(kept) == len(made.paced)
    assert found.baseline.runs + sum(point.runs for point in found.points) == len(made.paced)
    assert min(found.baseline.runs, *(point.runs for point in found.points)) == 2
    assert {0.0, 0.5, 1.0} <= {point.speedup for point in found.points}


def test_the_first_two_runs_are_not_mixed_with_longer_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Pipeline(monkeypatch, 0.3)
    found = made.forecast(400.0, 0.0, seconds=3.0)
    assert {seconds for seconds, _ in made.paced} == {3.0}
    rounds = [row for row in made.rows if not np.isnan(row["service_ns"])]
    assert len(rounds) == len(made.paced) - 2
    assert found.rounds > 2


@pytest.mark.parametrize("overhead_s", [1.5, 2.5])
def test_a_slow_machine_makes_the_fewest_rounds_within_the_longer_limit(
    monkeypatch: pytest.MonkeyPatch, overhead_s: float
) -> None:
    """Runs that a neighbour slows down: the fix that was asked for still stands beside a forecast."""
    with pytest.raises(LatlabError, match="does not fit"):
        Pipeline(monkeypatch, overhead_s).forecast(27.0, 0.0)
    made = Pipeline(monkeypatch, overhead_s)
    found = made.forecast(27.0, 80.0)
    assert (found.rounds, found.seconds) == (2, 0.8)
    assert 0.5 in {point.speedup for point in found.points}
    assert 27.0 < made.now <= 107.0


def test_a_quiet_machine_does_not_use_the_longer_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Pipeline(monkeypatch, 0.4)
    made.forecast(27.0, 80.0)
    assert made.now <= 27.0


def test_what_does_not_fit_the_longer_limit_either_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Pipeline(monkeypatch, 8.0)
    with pytest.raises(LatlabError, match="does not fit"):
        made.forecast(27.0, 40.0)
    assert len(made.paced) == 2
