from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from latlab.messaging.judging import conformity, plugin_probe
from latlab.messaging.judging.probe import IDLE_S
from latlab.messaging.running.processes import moments
from latlab.messaging.running.standing import Standing
from latlab.model.messaging.results import Facts, Settings


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


def test_a_time_limit_leaves_out_what_its_watcher_stood_still_itself() -> None:
    clock = Clock()
    steps = []
    for step in moments(1.0, now=clock):
        steps.append(step)
        clock.now_s += 60.0 if len(steps) == 3 else step
    assert 8 <= len(steps) <= 10


def test_a_receive_that_took_long_once_keeps_to_its_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle(*times_s: float) -> str | None:
        times = iter(times_s)

        class Probe:
            pid = 0

            def __init__(self, *_: object) -> None: ...

            def ask(self, word: str, _patience_s: float = 0.0) -> dict[str, Any]:
                what = {"idle": "none", "after": "closed"}.get(word, "")
                took = next(times) if word == "idle" else 0.0
                return {"what": what, "took_s": took, "cpu_s": 0.0, "sleeps": 0}

            def kill(self) -> None: ...

        monkeypatch.setattr(conformity, "_Probe", Probe)
        monkeypatch.setattr(conformity, "_places", lambda *_: nullcontext([{}]))
        facts = Facts("own", "own", True, True, 1024, "here")
        return conformity._idle_and_over("", None, facts, Settings("own"), None)[0][1]

    assert idle(60.0, IDLE_S) is None
    assert idle(60.0, 5.0, 5.0) is not None


def test_a_plug_in_brought_what_it_brought_though_the_machine_stood_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(plugin_probe, "time", SimpleNamespace(monotonic=clock))

    def brought(*receives: tuple[float, int]) -> list[int]:
        way, rest = object.__new__(plugin_probe._Way), list(receives)
        way._slow = 0

        def receive() -> tuple[int, bytes]:
            took, count = rest.pop(0) if rest else (0.1, 0)
            clock.now_s += took
            return count, b""

        monkeypatch.setattr(way, "receive", receive)
        return [way.awaited()[0] for _ in range(sum(count for _, count in receives) or 1)]

    assert brought((60.0, 1), (0.0, 1)) == [1, 1]
    assert brought((60.0, 0), (0.0, 1)) == [1]
    assert brought((0.1, 0)) == [0]
    assert brought(*[(1.0, 1)] * 3) == [1, 1, 0]
