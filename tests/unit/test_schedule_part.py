"""A stretch stands for a schedule that is too long to be simulated, where all of it is alike."""

from __future__ import annotations

import pytest
from tests.unit.threads_made import Made

from latlab.model.schedule import Schedule, State
from latlab.model.simulation import Scenario
from latlab.schedule.simulation import part
from latlab.schedule.simulation.forecast import forecast


def pair(ran: list[float]) -> Schedule:
    """Two threads that hand each other the CPU: of every 10 ms the first has so many, in turn."""
    made = Made()
    first, second = made.thread("first"), made.thread("second")
    for turn in range(100):
        own, at = ran[turn * len(ran) // 100], 10 * turn
        made.run(first, at, at + own)
        made.wait(first, at + own, at + 10, second)
        made.wait(second, at, at + own, first)
        made.run(second, at + own, at + 10)
    return made.schedule()


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "MOST_STEPS", 400)


def test_a_stretch_of_a_steady_program_is_its_middle() -> None:
    whole = pair([4.0])
    found = part.stretch_of(whole)
    assert found is not None
    assert 0.3 < found.seconds < 0.5
    assert found.began_ns - whole.began_ns == pytest.approx(whole.ended_ns - found.ended_ns, abs=2)
    assert found.intervals["begin"].min() == found.began_ns
    assert found.intervals["end"].max() == found.ended_ns
    rows = found.intervals[(found.intervals["thread"] == 0) & (found.intervals["state"] == State.RUNNING)]
    assert (rows["end"] - rows["begin"]).sum() / 1e9 == pytest.approx(0.4 * found.seconds, rel=0.1)


def test_a_program_that_does_one_thing_first_and_another_one_later_has_none() -> None:
    assert part.stretch_of(pair([2.0, 5.0, 5.0, 2.0])) is None


def test_what_can_be_simulated_is_its_own_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "MOST_STEPS", 4000)
    whole = pair([4.0])
    assert part.stretch_of(whole) is whole


def test_a_stretch_gains_the_share_that_the_whole_does() -> None:
    whole = pair([4.0])
    short = part.stretch_of(whole)
    assert short is not None
    asked = [Scenario("role", "second", (1,))]
    gains = []
    for one in (whole, short):
        base, made = forecast(one, asked)
        assert not base.withheld, base.withheld
        gains.append([point.time_ns.value / base.recorded_ns for point in made[0].points])
    assert gains[1] == pytest.approx(gains[0], abs=0.03)
