"""What a server pushes between its answers, told from these by what its threads wait for. By hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.unit.test_requests import transfers

from latlab.model import schedule as layouts
from latlab.model.schedule import SEVERAL, Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.reports.requests.sentence import finding
from latlab.reports.requests.text import requests_lines
from latlab.requests import Found, find_requests, summarise

_Waits = tuple[int, int, int, int]

MS = 1_000_000
EACH = 40 * MS  # an exchange; its answer takes a ms, what is pushed goes out 20 ms later
READER, OTHER = 11, 12
COUNT = 40
ANSWER, PUSH = b"\x02answer", b"\x01push"
TIMED = (Wait.TIMER, Source.TIMER, -1, -1)  # a wait, its end, who ended it, and its object
CALLED = (Wait.FUTEX, Source.THREAD, 0, 0x40)
POLLED = (Wait.TIMER, Source.TIMER, -1, SEVERAL)
READABLE = (Wait.POLL, Source.NETWORK, -1, 5)
SLEPT = TIMED


def observed(
    tid: int,
    *waits: _Waits,
    every: int = 2,
    answer: bytes = ANSWER,
    asks: bytes = b"\x03q",
) -> tuple[Any, Schedule]:
    """Exchanges, after each so many of which a thread waits and sends more."""
    calls: list[tuple[Any, ...]] = []
    tids, ready = [], []
    intervals: list[Any] = []
    at = {READER: 0, OTHER: 0}

    def blocked(thread: int, until: int, wait: _Waits) -> None:
        kind, source, waker, thing = wait
        index = (READER, OTHER).index(thread)
        intervals.append((index, State.BLOCKED, kind, source, -1, at[thread], until, waker, thing, -1))
        at[thread] = until + 100_000
        intervals.append((index, State.RUNNING, 0, 0, 0, until, at[thread], -1, -1, -1))

    for number in range(COUNT):
        begin = number * EACH + MS
        ready.append(begin)
        calls.append((begin + 10_000, 1, asks))
        blocked(READER, begin, (Wait.SOCKET, Source.NETWORK, -1, 3))
        calls.append((begin + MS, -1, answer))
        tids.append(READER)
        if number % every == 0:
            calls.append((begin + 20 * MS, -1, PUSH))
            tids.append(tid)
            for left, wait in zip(range(len(waits), 0, -1), waits, strict=True):
                blocked(tid, begin + 20 * MS - 150_000 * left, wait)
    given = transfers(calls, ready)
    moved = replace(given, sent={**given.sent, "tid": np.array(tids)})
    ended = COUNT * EACH
    threads = tuple(ScheduledThread(one, 10, "server", "server", 0, ended) for one in (READER, OTHER))
    rows = np.array(sorted(intervals, key=lambda one: (one[0], one[5])), layouts.INTERVAL)
    none = np.zeros(0, layouts.WAKE), np.zeros(0, layouts.FOREIGN)
    return moved, Schedule(0, ended, (0,), threads, rows, *none, Losses("bpf"))


def lengths(found: Found) -> set[int]:
    return set((found.rows["sent"] - found.rows["arrived"]).tolist())


def test_what_a_thread_pushes_by_itself_belongs_to_no_answer() -> None:
    moved, schedule = observed(OTHER, TIMED)
    found = find_requests(moved, schedule)
    assert (lengths(found), found.unasked, found.unended) == ({MS}, COUNT // 2, 0)
    said = summarise(found, schedule, 0)
    assert (said.p99_ns, said.unasked, said.distrust) == (MS, COUNT // 2, ())
    assert any("pushed bytes unasked, 20 times" in line for line in requests_lines(said))


def test_a_protocol_of_lines_is_recognised_beside_lines_that_are_pushed() -> None:
    moved, schedule = observed(OTHER, TIMED, answer=b"yes\n", asks=b"is it?\n")
    found = find_requests(moved, schedule)
    assert (lengths(found), found.framing) == ({MS}, "lines")


def test_what_a_thread_sends_that_is_handed_the_rest_is_part_of_the_answer() -> None:
    for every, waits in ((1, (CALLED,)), (2, (CALLED,)), (2, (CALLED, SLEPT))):
        found = find_requests(*observed(OTHER, *waits, every=every))
        assert (max(lengths(found)), found.unasked, found.unended) == (20 * MS, 0, 0)


def test_as_much_by_itself_after_each_answer_may_be_its_rest() -> None:
    found = find_requests(*observed(OTHER, TIMED, every=1))
    assert (len(found.rows), found.unasked, found.unended) == (0, 0, 1)


@pytest.mark.parametrize("waits", [POLLED, READABLE])
def test_what_a_loop_sends_after_it_waited_for_work_is_an_answers_rest_or_pushed(waits: Any) -> None:
    moved, schedule = observed(READER, waits)
    found = find_requests(moved, schedule)
    assert (len(found.rows), found.unended) == (0, 1)
    said = summarise(found, schedule, 0)
    assert ["on 1 connection the server waits for other work" in one for one in said.distrust] == [True]
    assert finding(said).startswith("No request of which it is known when its answer ends: on 1 connection")


def test_a_thread_that_sleeps_between_two_pieces_streams_its_answer() -> None:
    found = find_requests(*observed(READER, SLEPT))
    assert (max(lengths(found)), found.unasked, found.unended) == (20 * MS, 0, 0)


def test_a_loop_that_waits_for_room_in_the_connection_still_answers() -> None:
    found = find_requests(*observed(READER, READABLE, answer=b"\x02" * (1 << 15)))
    assert (max(lengths(found)), found.unended) == (20 * MS, 0)


def test_a_loop_that_reads_what_it_has_asked_another_for_still_answers() -> None:
    moved, schedule = observed(READER, READABLE)

    def asked(asks: bool) -> Found:
        begins = [number * EACH + MS for number in range(COUNT)]
        calls = [(0, -5)]
        for begin in begins:
            calls += [(begin + 2 * MS, -5)] if asks else []
            calls += [(begin + 20 * MS - 20_000, 5)]
        other = transfers(calls, [])
        sent, received = (
            {**one, "sk": np.full_like(one["sk"], 8), "argument": np.full(len(one["tid"]), 6)}
            for one in (other.sent, other.received)
        )
        both = replace(
            moved,
            sent={key: np.concatenate([moved.sent[key], sent[key]]) for key in sent},
            received={key: np.concatenate([moved.received[key], received[key]]) for key in received},
            descriptors={**moved.descriptors, (10, 6): "socket:[2]"},
            ends={**moved.ends, 2: ("127.0.0.1:4711", False)},
        )
        return find_requests(both, schedule)

    assert (max(lengths(asked(asks=True))), asked(asks=True).unended) == (20 * MS, 0)
    assert asked(asks=False).unended == 1  # a subscription: nobody asked for that now


def test_what_changes_no_quantile_withholds_nothing() -> None:
    moved, schedule = observed(READER, POLLED)
    last = moved.sent["time_ns"].copy()
    pushed = np.arange(len(last)) % 3 == 1
    last[pushed] = last[pushed] - 19 * MS + 60_000  # right after the answer
    rows = schedule.intervals.copy()
    waits = rows["object"] == SEVERAL
    rows["end"][waits] = rows["end"][waits] - 19 * MS + 180_000
    rows["begin"][waits] = rows["end"][waits] - 10_000
    found = find_requests(
        replace(moved, sent={**moved.sent, "time_ns": last}), replace(schedule, intervals=rows[waits])
    )
    assert (len(found.rows), found.unended) == (COUNT, 0)
