"""Which queues of Python programs are pools: who takes an object gives that very object back."""

from __future__ import annotations

from typing import Any

import pytest

from latlab.queues._inject.latlab_injected.counter_file import BLOCKED, IDLE
from latlab.queues._inject.latlab_injected.objects import Objects

CONNECTIONS = [object(), object()]


class _Counts:
    """Stands in for the counts of a queue."""

    def __init__(self) -> None:
        self.put: Any = None
        self.get: Any = None
        self.user, self.pooled, self.came = 0, False, [0, 0]
        self.objects = Objects(
            self, lambda: self.user, lambda _=None: self._count(0), lambda _=None: self._count(1)
        )

    def _count(self, side: int) -> None:
        self.came[side] += 1

    def is_pool(self) -> None:
        self.pooled = True


class _Times:
    def __init__(self) -> None:
        self.state = IDLE

    def enter(self, state: int) -> None:
        self.state = state


def given_back(counts: _Counts, rounds: int, back: Any = None) -> None:
    """Two users take an object by turns, and give it back, or another one."""
    for one in range(rounds):
        counts.user = one % 2
        taken = CONNECTIONS[one % 2]
        counts.get(taken)
        counts.put(taken if back is None else back(one))


def test_a_queue_from_which_objects_are_taken_and_given_back_is_a_pool_whoever_filled_it() -> None:
    counts = _Counts()
    counts.user = 7
    for one in CONNECTIONS:
        counts.put(one)
    given_back(counts, 20)
    assert (counts.pooled, counts.came) == (True, [22, 20])


@pytest.mark.parametrize("found", [lambda one: f"page {one}", lambda one: object()])
def test_a_queue_into_which_users_put_something_else_than_they_took_is_none(found: Any) -> None:
    counts = _Counts()
    given_back(counts, 40, found)
    given_back(counts, 40)
    assert (counts.pooled, counts.came) == (False, [80, 80])


def test_a_queue_of_which_some_events_are_tried_again_is_no_pool() -> None:
    counts = _Counts()
    for _ in range(10):
        event = object()
        counts.get(event)
        counts.put(event)
    for _ in range(40):
        counts.get(object())
    assert (counts.pooled, counts.came) == (False, [10, 50])


def test_who_waits_when_it_turns_out_to_be_a_pool_waits_for_an_object() -> None:
    counts, times = _Counts(), _Times()
    counts.objects.wants(times)
    given_back(counts, 15)
    before = times.state
    given_back(counts, 1)
    assert (before, times.state) == (IDLE, BLOCKED)


def test_a_user_who_has_ended_with_an_object_does_not_make_it_a_queue_of_events() -> None:
    counts = _Counts()
    counts.user = 1
    counts.get(CONNECTIONS[0])
    counts.objects.forget(1)
    given_back(counts, 20)
    assert counts.pooled
