"""What an event loop's requests wait for while it serves others, of schedules that were written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.model import schedule as layouts
from latlab.model.schedule import Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.requests.connections import REQUEST
from latlab.requests.parts import Account

LOOP, CLIENT, BACKEND = 11, 12, 77
MS = 1_000_000
ROUND, RUN = 100_000, 9_000  # a client asks in each round, ns, and is answered after so long
ROUNDS, EVERY = 4_000, 100  # a slow request each so many rounds
SLOW_NS = 30 * MS + 1_000
UNKNOWN = ("unexplained", "what the event loop waited for")


def request(read: int, sent: int) -> Any:
    return (read, read, sent, sent, LOOP, LOOP, 0, 0, 1, 1, 1, 0)


def a_loop(timers: bool) -> tuple[Schedule, Any, list[int]]:
    """A loop that a client wakes in each round, and that goes on with a slow request in one of them.

    Its wait before that has a timer that is due, if there are `timers`; each other one has a far one.
    """
    intervals: list[Any] = []
    deadlines = []
    slow = {at * ROUND + 5_000: at * ROUND + 5_000 + SLOW_NS for at in range(0, ROUNDS - 400, EVERY)}
    goes_on = {end // ROUND for end in slow.values()}
    rows = []
    for at in range(ROUNDS):
        begin = at * ROUND
        intervals.append((0, State.RUNNING, 0, 0, 0, begin, begin + RUN, -1, -1, -1))
        intervals.append(
            (0, State.BLOCKED, Wait.POLL, Source.NETWORK, -1, begin + RUN, begin + ROUND, 1, 5, -1)
        )
        near = timers and at + 1 in goes_on
        deadlines.append((0, begin + RUN, begin + RUN + (1 if near else 500) * MS))
        rows.append((begin + 1_000, begin + 4_000))
    ended = ROUNDS * ROUND
    intervals.append((1, State.BLOCKED, 0, 0, -1, 0, ended, -1, -1, -1))
    found = np.array([request(*one) for one in sorted([*rows, *slow.items()])], REQUEST)
    threads = tuple(ScheduledThread(tid, 10, name, "server", 0, ended)
                    for tid, name in ((LOOP, "loop"), (CLIENT, "client")))  # fmt: skip
    schedule = Schedule(
        0, ended, (0,), threads, np.array(intervals, layouts.INTERVAL), np.zeros(0, layouts.WAKE),
        np.zeros(0, layouts.FOREIGN), Losses("bpf"), foreign_names={BACKEND: "backend"},
        deadlines=np.array(deadlines, layouts.DEADLINE),
    )  # fmt: skip
    return schedule, found, np.flatnonzero(found["answered"] - found["read"] > MS).tolist()


def account(schedule: Schedule, rows: Any, asked: Any = None) -> Account:
    return Account(schedule, rows, ("request",), asked=asked, clients=frozenset({CLIENT}))


def waited(one: dict[Any, float]) -> set[Any]:
    """For what it waited, apart from the rounds in which it came and in which it was answered."""
    return {key for key, ns in one.items() if key[0] != "running" and ns > ROUND}


def test_requests_that_go_on_when_a_timer_of_their_loop_is_due_have_waited_for_it() -> None:
    schedule, rows, slow = a_loop(timers=True)
    told = account(schedule, rows)
    for index in slow:
        assert waited(told.of(index)) == {("timer", "a timer of the event loop")}
        assert told.of(index)["timer", "a timer of the event loop"] == pytest.approx(SLOW_NS, rel=0.1)


@pytest.mark.parametrize("timers", [True, False])
def test_where_no_timer_is_known_to_be_due_it_is_not_said_what_they_waited_for(timers: bool) -> None:
    schedule, rows, slow = a_loop(timers)
    if timers:
        schedule = replace(schedule, deadlines=np.zeros(0, layouts.DEADLINE))
    assert all(waited(account(schedule, rows).of(index)) == {UNKNOWN} for index in slow)


def test_a_loop_that_always_has_a_timer_that_is_due_says_nothing_of_its_requests() -> None:
    schedule, rows, slow = a_loop(timers=True)
    always = schedule.deadlines.copy()
    always["due"] = always["begin"] + MS
    told = account(replace(schedule, deadlines=always), rows)
    assert all(waited(told.of(index)) == {UNKNOWN} for index in slow)


def test_too_few_requests_that_are_alike_say_nothing() -> None:
    schedule, rows, slow = a_loop(timers=True)
    rows = np.delete(rows, slow[4:])
    (last,) = np.flatnonzero(rows["answered"] - rows["read"] > MS)[-1:].tolist()
    assert waited(account(schedule, rows).of(last)) == {UNKNOWN}


@pytest.mark.long
def test_requests_that_go_on_when_another_process_answers_have_waited_for_that() -> None:
    schedule, rows, slow = a_loop(timers=False)
    told = rows["answered"][slow] - 1_000
    asked = {LOOP: (told, np.full(len(told), BACKEND))}
    assert all(waited(account(schedule, rows, asked).of(index)) == {("process", "backend")} for index in slow)
    # Also while a timer is due in half of the loop's turns, as it is by chance.
    often = schedule.deadlines.copy()
    often["due"][::2] = often["begin"][::2] + MS
    by_chance = account(replace(schedule, deadlines=often), rows, asked)
    assert all(waited(by_chance.of(index)) == {("process", "backend")} for index in slow)


def test_what_others_are_answered_by_another_process_is_not_what_a_timer_let_go_on() -> None:
    schedule, rows, slow = a_loop(timers=True)
    rounds = np.arange(ROUNDS)
    told = rounds[rounds % 3 > 0] * ROUND + 4_000  # in two of three rounds, for those that are answered there
    asked = {LOOP: (told, np.full(len(told), BACKEND))}
    rows["answered"][slow] += 2_000
    found = account(schedule, rows, asked)
    assert all(waited(found.of(index)) == {("timer", "a timer of the event loop")} for index in slow)


def one_thread(*requests: Any) -> Any:
    ended = max(one[3] for one in requests)
    threads = (ScheduledThread(LOOP, 10, "loop", "server", 0, ended),)
    running = np.array([(0, State.RUNNING, 0, 0, 0, 0, ended, -1, -1, -1)], layouts.INTERVAL)
    schedule = Schedule(0, ended, (0,), threads, running, np.zeros(0, layouts.WAKE),
                        np.zeros(0, layouts.FOREIGN), Losses("bpf"))  # fmt: skip
    return account(schedule, np.array(list(requests), REQUEST))


def test_a_request_that_later_ones_overtake_does_not_wait_for_their_thread() -> None:
    others = [request(at, at + 90) for at in range(100, 1_000, 100)]
    found = one_thread(request(0, 1_050), *others).of(0)
    # The first may have been ahead in the round, and before the last is answered it may be ready again.
    assert found["thread", "loop was busy with request"] == 2 * 90
    assert found[UNKNOWN] == 7 * 90


def test_of_a_batch_that_is_answered_in_reverse_no_request_overtakes_another() -> None:
    batch = [request(at, 1_000 - at) for at in range(0, 500, 100)]
    assert UNKNOWN not in one_thread(*batch).of(0)


def test_what_a_loop_computes_for_long_is_never_taken_for_others_work() -> None:
    others = [request(at, at + 90) for at in range(100, 1_000, 100)]
    long = request(1_000, 9_000)
    found = one_thread(request(0, 9_050), *others, long).of(0)
    assert found["thread", "loop was busy with request"] == 90 + 8_000


@pytest.mark.parametrize(
    ("wait", "woken_by", "said"),
    [
        (Wait.SOCKET, 0, UNKNOWN),  # it had nothing to answer until the loop asked
        (Wait.SOCKET, 1, ("process", "backend")),  # it waited for somebody else
        (Wait.TIMER, -1, ("process", "backend")),
        (Wait.POLL, 0, ("process", "backend")),  # it may serve others, and owe this one an answer
    ],
)
def test_who_has_not_been_asked_yet_is_not_who_is_waited_for(wait: Wait, woken_by: int, said: Any) -> None:
    schedule, rows, slow = a_loop(timers=False)
    ended = schedule.ended_ns
    threads = (*schedule.threads, ScheduledThread(BACKEND, 20, "backend", "backend", 0, ended, peer=True))
    told = rows["answered"][slow] - 1_000
    # It answers 300 µs after the end of its wait.
    ends = (told - 300_000).tolist()
    backend: list[Any] = []
    for begin, end, answers in zip([0, *told.tolist()], [*ends, ended], [*told.tolist(), ended], strict=True):
        backend.append((2, State.BLOCKED, wait, Source.UNKNOWN, -1, begin, end, woken_by, 7, -1))
        backend.append((2, State.RUNNING, 0, 0, 1, end, answers, -1, -1, -1))
    intervals = np.concatenate([schedule.intervals, np.array(backend, layouts.INTERVAL)])
    seen = replace(
        schedule, threads=threads, intervals=intervals[np.lexsort((intervals["begin"], intervals["thread"]))]
    )
    asked = {LOOP: (told, np.full(len(told), BACKEND))}
    assert waited(account(seen, rows[slow[:1]], asked).of(0)) == {said}
