"""Requests simulated with something changed, of a server that was written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.schedule import (
    FOREIGN,
    INTERVAL,
    WAKE,
    Losses,
    Schedule,
    ScheduledThread,
    Source,
    State,
    Wait,
)
from latlab.requests.connections import REQUEST
from latlab.requests.judging.forecast import _quantiles, forecasts
from latlab.requests.parts import Account

US = 1_000
EVERY = 1_000 * US
WORK, WAKE_NS, HELD = 100 * US, 5 * US, 4_000 * US
TIDS = (11, 12)


def interval(
    thread: int, state: State, begin: int, end: int, wait: Wait = Wait.NONE, source: Source = Source.UNKNOWN,
    waker: int = -1, word: int = -1,
) -> Any:  # fmt: skip
    return (thread, state, wait, source, thread, begin, end, waker, word, -1)


def server(held_ns: int = HELD, count: int = 2_000) -> tuple[Schedule, np.ndarray[Any, Any]]:
    """Two threads with a connection each; every 50th request of one holds a lock that the other wants."""
    intervals: list[Any] = []
    rows: list[Any] = []
    free = [0, 0]
    for number in range(count):
        begin = (number + 1) * EVERY
        for thread in (0, 1):
            if number % 50 > 0 and begin < free[thread]:
                continue  # asks again when it has its answer
            arrived = begin + thread * 20 * US
            runs = arrived + WAKE_NS
            intervals.append(
                interval(thread, State.BLOCKED, free[thread], arrived, Wait.SOCKET, Source.NETWORK)
            )
            intervals.append(interval(thread, State.RUNNABLE, arrived, runs))
            end = runs + WORK
            if number % 50 == 0 and thread == 0:
                intervals.append(interval(0, State.RUNNING, runs, runs + 10 * US))
                woken = runs + 10 * US + held_ns
                intervals.append(interval(0, State.BLOCKED, runs + 10 * US, woken, Wait.TIMER, Source.TIMER))
                end = woken + WORK
                intervals.append(interval(0, State.RUNNING, woken, end))
            elif number % 50 == 0:
                let_go = rows[-1][2] - WORK + 50 * US
                intervals.append(interval(1, State.RUNNING, runs, runs + 10 * US))
                intervals.append(
                    interval(1, State.BLOCKED, runs + 10 * US, let_go, Wait.FUTEX, Source.THREAD, 0, 0x40)
                )
                end = let_go + WORK
                intervals.append(interval(1, State.RUNNING, let_go, end))
            else:
                intervals.append(interval(thread, State.RUNNING, runs, end))
            rows.append((arrived, runs, end, end, TIDS[thread], TIDS[thread], thread, 0, 1, 1, 1, 0))
            free[thread] = end
    ended = (count + 10) * EVERY
    for thread in (0, 1):
        intervals.append(interval(thread, State.BLOCKED, free[thread], ended, Wait.SOCKET))
    table = np.array(sorted(intervals, key=lambda one: (one[0], one[5])), INTERVAL)
    threads = tuple(ScheduledThread(tid, 10, "server", "server", 0, ended) for tid in TIDS)
    made = Schedule(0, ended, (0, 1), threads, table, np.zeros(0, WAKE), np.zeros(0, FOREIGN), Losses("bpf"))
    return made, np.array(sorted(rows), REQUEST)


def told(held_ns: int = HELD) -> tuple[Any, str]:
    schedule, rows = server(held_ns)
    times = rows["sent"] - rows["arrived"]
    slow = np.argsort(times)[-len(times) // 100 :].tolist()
    return forecasts(schedule, rows, Account(schedule, rows, ("request",)), slow)


def test_the_unchanged_server_is_given_back() -> None:
    found, why = told()
    assert why == ""
    for one in found[0].quantiles[:2]:
        assert abs(one.unchanged_ns - one.seen_ns) <= 0.02 * one.seen_ns


def test_a_lock_held_half_as_long_gives_what_a_server_that_holds_it_half_as_long_shows() -> None:
    found, _ = told()
    lock = next(one for one in found if one.change == "lock")
    _, rows = server(HELD // 2)
    truth = int(np.quantile(rows["sent"] - rows["arrived"], 0.99, method="inverted_cdf"))
    p99 = lock.quantiles[1]
    assert lock.name == "futex 0x40"
    assert p99.seen_ns > 1.8 * truth
    assert abs(p99.ns - truth) < 0.1 * truth


def test_of_a_file_that_is_locked_no_shorter_hold_is_forecast() -> None:
    schedule, rows = server()
    intervals = schedule.intervals.copy()
    intervals["wait"][intervals["wait"] == Wait.FUTEX] = Wait.FILE_LOCK
    made = replace(schedule, intervals=intervals)
    slow = np.argsort(rows["sent"] - rows["arrived"])[-len(rows) // 100 :].tolist()
    account = Account(made, rows, ("request",))
    assert any(kind == "lock" for index in slow for kind, _ in account.of(index))
    found, _ = forecasts(made, rows, account, slow)
    assert "lock" not in [one.change for one in found]


def test_one_more_worker_is_not_told_where_each_connection_has_its_thread() -> None:
    found, _ = told()
    worker = next(one for one in found if one.change == "worker")
    assert (worker.quantiles, worker.withheld) == ((), "each connection has a thread of its own")


def test_threads_that_read_now_one_connection_and_now_another_have_none_of_their_own() -> None:
    schedule, rows = server()
    rows = rows.copy()
    rows["connection"][::2] = 1 - rows["connection"][::2]
    slow = np.argsort(rows["sent"] - rows["arrived"])[-len(rows) // 100 :].tolist()
    found, _ = forecasts(schedule, rows, Account(schedule, rows, ("request",)), slow)
    worker = next(one for one in found if one.change == "worker")
    assert worker.withheld == "which requests one more thread would take is not known"


def test_one_more_cpu_buys_nothing_where_one_is_free() -> None:
    found, _ = told()
    cpu = next(one for one in found if one.change == "cpu")
    assert abs(cpu.quantiles[1].ns - cpu.quantiles[1].seen_ns) < 0.02 * cpu.quantiles[1].seen_ns


def test_nothing_is_told_of_few_requests() -> None:
    schedule, rows = server()
    found, why = forecasts(schedule, rows[:50], Account(schedule, rows[:50], ("request",)), [0])
    assert (found, why) == ((), "50 answered requests are too few to simulate")


def test_no_forecast_says_that_a_request_may_take_no_time() -> None:
    """The tail all but vanishes: its interval ends at what the median requests take, or it isn't told."""
    rng = np.random.default_rng(3)
    base = np.where(np.arange(6_000) % 50 == 7, 20_000 * US, 100 * US) + rng.integers(0, 9 * US, 6_000)
    after = np.full(6_000, 110 * US) + rng.integers(0, 9 * US, 6_000)
    seen = {name: int(np.quantile(base, q)) for name, q in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))}
    told = {one.name: one for one in _quantiles(seen, [base, base], [after, after])}
    assert not told["p99"].withheld
    assert 90 * US < told["p99"].low_ns <= told["p99"].ns < 200 * US
    nothing = np.where(np.arange(6_000) % 2, 0, 20_000 * US)
    lost = _quantiles(seen, [base, base], [after // 1_000, nothing])
    assert all(one.withheld or one.low_ns > 0 for one in lost)
    assert lost[0].withheld
