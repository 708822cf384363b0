from __future__ import annotations

import pytest

from latlab.messaging.running.standing import Standing


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def after(
    *steps: float, got: tuple[float, float] = (0.0, 0.0), stopped: bool = False, asleep: bool = True
) -> Standing:
    """What is known after these looks, in none of which a message arrived; `got` is of the receiver, in s."""
    clock = Clock()
    standing = Standing(0.1, asleep=asleep, now=clock)
    standing.look(7, {}, stopped=False)
    for step in steps:
        clock.now_s += step
        receiver = (int(got[0] * 1e9), int(got[1] * 1e9))
        standing.look(7, {"sender": (int(step * 1e9), 0), "receiver": receiver}, stopped=stopped)
    return standing


def test_a_quiet_run_stands_for_as_long_as_nothing_arrives() -> None:
    standing = after(*[0.1] * 5)
    assert [standing.for_s, standing.free_s] == pytest.approx([0.5, 0.5])


def test_a_message_begins_the_time_anew() -> None:
    standing = after(*[0.1] * 5)
    standing.look(8, {}, stopped=False)
    assert (standing.for_s, standing.free_s) == (0.0, 0.0)


def test_a_machine_that_stood_still_for_a_minute_has_not_lost_a_message() -> None:
    standing = after(0.1, 60.0, 0.1)
    assert standing.free_s == pytest.approx(0.2)
    assert standing.for_s < 1.0


def test_a_part_that_is_stopped_by_a_signal_may_still_deliver() -> None:
    standing = after(*[0.1] * 30, stopped=True)
    assert [standing.for_s, standing.free_s] == pytest.approx([3.0, 0.0])


def test_time_without_a_cpu_does_not_count() -> None:
    assert after(*[0.1] * 10, got=(0.005, 0.09)).free_s == pytest.approx(0.1)


def test_a_part_that_works_on_what_is_under_way_may_still_deliver() -> None:
    assert after(*[0.1] * 10, got=(0.05, 0.0)).free_s == 0.0
    assert after(*[0.1] * 10, got=(0.1, 0.0), asleep=False).free_s == pytest.approx(1.0)
