"""Intervals of threads from looks at /proc."""

import numpy as np

from latlab.model.schedule import Source, State, Wait
from latlab.schedule.looks import _RUNS, _intervals

MS = 1_000_000


def spent(rows: list[tuple[int, int, int, int]]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for one in _intervals(0, rows):
        key = (int(one["state"]), int(one["wait"]))
        found[key] = found.get(key, 0) + int(one["end"] - one["begin"])
    return found


def test_running_and_runnable_times_are_the_kernels_own() -> None:
    rows = [(k * 10 * MS, k * 3 * MS, k * 2 * MS, int(Wait.FUTEX)) for k in range(11)]
    assert spent(rows) == {
        (State.RUNNING, Wait.NONE): 30 * MS,
        (State.RUNNABLE, Wait.NONE): 20 * MS,
        (State.BLOCKED, Wait.FUTEX): 50 * MS,
    }


def test_a_thread_that_only_runs_is_not_blocked_while_the_kernel_has_yet_to_tell() -> None:
    # Its time is brought up to date every 4 ms, which is not in step with the looks.
    rows = [(k * 5 * MS, k * 5 // 4 * 4 * MS, 0, _RUNS) for k in range(41)]
    assert spent(rows) == {(State.RUNNING, Wait.NONE): 200 * MS}


def test_a_thread_that_waits_for_a_cpu_is_runnable_before_the_kernel_tells() -> None:
    rows = [(k * 10 * MS, 0, 0, _RUNS) for k in range(10)] + [(100 * MS, 0, 100 * MS, _RUNS)]
    assert spent(rows)[State.RUNNABLE, Wait.NONE] >= 80 * MS


def test_one_sleep_over_many_looks_is_one_wait_that_its_timer_ended() -> None:
    table = _intervals(3, [(k * 10 * MS, 0, 0, int(Wait.TIMER)) for k in range(6)])
    assert len(table) == 1
    assert (table["source"][0], table["end"][0] - table["begin"][0]) == (Source.TIMER, 50 * MS)
    assert np.all(table["thread"] == 3)
