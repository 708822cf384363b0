"""What stands still counts for no budget and no time limit."""

import subprocess
import time
from typing import Any, cast

import pytest

from latlab.bench.processes import stops


class Clock:
    """Time that passes only where somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Waited:
    """A process that ends after so many waits; in the first it is waited for so much longer."""

    pid = -1

    def __init__(self, clock: Clock, waits: int, stood_s: float = 0.0) -> None:
        self.clock, self.waits, self.stood_s = clock, waits, stood_s

    def communicate(self, timeout: float) -> tuple[bytes, bytes]:
        self.clock.now += timeout + self.stood_s
        self.stood_s = 0.0
        self.waits -= 1
        if self.waits > 0:
            raise subprocess.TimeoutExpired("it", timeout)
        return b"out", b"err"


def waited(clock: Clock, waits: int, stood_s: float = 0.0) -> Any:
    return cast("subprocess.Popen[bytes]", Waited(clock, waits, stood_s))


def test_a_minute_in_which_nobody_ran_spends_no_time_limit() -> None:
    clock = Clock()
    watch = stops.Watch(2.0, clock=clock)
    assert watch.output(waited(clock, 4, stood_s=60.0)) == (b"out", b"err")
    assert watch.lost_s == pytest.approx(60.0)


def test_time_that_was_used_spends_the_time_limit() -> None:
    clock = Clock()
    watch = stops.Watch(2.0, clock=clock)
    with pytest.raises(subprocess.TimeoutExpired):
        watch.output(waited(clock, 1000, stood_s=60.0))
    assert clock.now - 100.0 == pytest.approx(62.0, abs=0.3)


def test_a_thread_that_comes_back_a_little_late_was_not_stopped() -> None:
    clock = Clock()
    watch = stops.Watch(2.0, clock=clock)
    watch.output(waited(clock, 3, stood_s=0.8))
    assert watch.lost_s == 0.0


def test_a_budget_stands_still_with_what_was_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    before = stops.awake()
    stops.Watch(2.0, clock=clock).output(waited(clock, 2, stood_s=60.0))
    assert stops.awake() - before == pytest.approx(0.5)


def test_a_process_that_a_signal_stopped_spends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    states = iter([True] * 40)
    monkeypatch.setattr(stops, "_stopped", lambda _: next(states, False))
    watch = stops.Watch(2.0, clock=clock)
    watch.output(waited(clock, 45))
    assert watch.lost_s == pytest.approx(10.0)
