"""The simulation of a captured schedule, on schedules of which every interval is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from latlab.model import schedule as layouts
from latlab.model.schedule import Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.model.simulation import Scenario
from latlab.schedule.simulation.forecast import forecast, kind_of
from latlab.schedule.simulation.simulate import simulate
from latlab.schedule.simulation.steps import word_of

MS = 1_000_000
RUN, READY, BLOCKED = State.RUNNING, State.RUNNABLE, State.BLOCKED

Row = tuple[State, int, int, int, Source, Wait]  # state, begin, end (ms), waker, source, wait


def run(begin: int, end: int) -> Row:
    return (RUN, begin, end, -1, Source.UNKNOWN, Wait.NONE)


def ready(begin: int, end: int) -> Row:
    return (READY, begin, end, -1, Source.UNKNOWN, Wait.NONE)


def woken(begin: int, end: int, waker: int, wait: Wait = Wait.FUTEX) -> Row:
    return (BLOCKED, begin, end, waker, Source.THREAD, wait)


def nap(begin: int, end: int) -> Row:
    return (BLOCKED, begin, end, -1, Source.TIMER, Wait.TIMER)


def disk(begin: int, end: int) -> Row:
    return (BLOCKED, begin, end, -1, Source.DISK, Wait.DISK)


def schedule_of(
    *threads: list[Row], cpus: int = 2, foreign: tuple[tuple[int, int, int], ...] = ()
) -> Schedule:
    """A schedule; the first thread is the program's own, which ends last."""
    rows, made = [], []
    for number, intervals in enumerate(threads):
        for state, begin, end, waker, source, wait in intervals:
            cpu = number % cpus if state == RUN else -1
            thing = 77 if wait == Wait.FUTEX else -1
            rows.append((number, state, wait, source, cpu, begin * MS, end * MS, waker, thing, -1))
        began, ended = intervals[0][1] * MS, intervals[-1][2] * MS
        parent = -1 if number == 0 else 0
        made.append(ScheduledThread(100 + number, 100, f"t{number}", "p", began, ended, True, parent))
    end = max(one.ended_ns for one in made)
    others = np.array([(cpu, a * MS, b * MS, 9) for cpu, a, b in foreign], layouts.FOREIGN)
    return Schedule(
        0, end, tuple(range(cpus)), tuple(made), np.array(rows, layouts.INTERVAL), np.empty(0, layouts.WAKE),
        others,
        Losses("bpf"), exit_code=0,
    )  # fmt: skip


def shares(schedule: Schedule, scenario: Scenario) -> list[float]:
    base, (found,) = forecast(schedule, [scenario], seeds=1)
    assert found.withheld == ""
    return [round(point.time_ns.value / base.recorded_ns, 3) for point in found.points]


def handed_on(rounds: int, producer: int, consumer: int) -> Schedule:
    """The main thread waits for a consumer that is slower than the producer that feeds it."""
    feeding = [run(i * producer, (i + 1) * producer) for i in range(rounds)]
    first = producer
    taking = [
        woken(0, first, 1),
        *(run(first + i * consumer, first + (i + 1) * consumer) for i in range(rounds)),
    ]
    end = first + rounds * consumer
    return schedule_of([woken(0, end - 1, 2), run(end - 1, end)], feeding, taking)


def test_an_unchanged_program_takes_its_own_time() -> None:
    found = simulate(handed_on(20, 2, 5))

    assert found.withheld == ""
    assert abs(found.error) < 0.005


def test_the_slower_thread_pays_until_the_other_one_limits() -> None:
    assert shares(handed_on(20, 2, 5), Scenario("role", "consumer", (2,))) == pytest.approx(
        [0.81, 0.52, 0.41, 0.41], abs=0.04
    )


def test_the_faster_thread_buys_nothing() -> None:
    base, (found,) = forecast(handed_on(20, 2, 5), [Scenario("role", "producer", (1,))], seeds=1)

    assert base.withheld == ""
    assert found.kind == "none"


def test_a_wait_for_a_cpu_is_no_fixed_delay() -> None:
    # Two of 20 ms take turns on one CPU, and the main thread waits for both.
    turns = 10
    one = [part for i in range(turns) for part in (run(4 * i, 4 * i + 2), ready(4 * i + 2, 4 * i + 4))][:-1]
    other = [part for i in range(turns) for part in (ready(4 * i, 4 * i + 2), run(4 * i + 2, 4 * i + 4))]
    main = [woken(0, 38, 1), woken(38, 40, 2), ready(40, 41), run(41, 42)]
    schedule = schedule_of(main, one, other, cpus=1)

    assert shares(schedule, Scenario("role", "t1", (1,)))[1] == pytest.approx(0.75, abs=0.05)


def test_a_thread_paced_by_a_timer_keeps_its_period_when_its_work_gets_faster() -> None:
    # It wakes every 10 ms, whether its work took 2 or 6.
    rows = []
    for i in range(12):
        rows += [run(10 * i, 10 * i + 2 + 4 * (i % 2)), nap(10 * i + 2 + 4 * (i % 2), 10 * i + 10)]

    found = shares(schedule_of([*rows, run(120, 122)]), Scenario("role", "ticker", (0,)))

    assert min(found) > 0.97


def test_a_pause_of_fixed_length_stays_behind_work_that_gets_faster() -> None:
    # Work of 2 and 6 ms in turn, and 5 ms of pause each time.
    rows, at = [], 0
    for i in range(12):
        work = 2 + 4 * (i % 2)
        rows += [run(at, at + work), nap(at + work, at + work + 5)]
        at += work + 5

    found = shares(schedule_of([*rows, run(at, at + 1)]), Scenario("role", "worker", (0,)))

    assert found[-1] == pytest.approx(60 / 109, abs=0.02)


def test_a_faster_disk_and_a_shorter_nap_pay_by_what_was_waited_for_them() -> None:
    rows = [part for i in range(10) for part in (run(20 * i, 20 * i + 5), disk(20 * i + 5, 20 * i + 20))]
    schedule = schedule_of([*rows, run(200, 201)])

    assert shares(schedule, Scenario("disk", "disk"))[1] == pytest.approx(126 / 201, abs=0.01)
    assert shares(schedule, Scenario("timer", "naps"))[1] == 1.0


def test_a_wait_that_was_waited_for_in_naps_ends_with_its_wake() -> None:
    # The main thread looks every 5 ms whether the other has handed over; it does at 50 ms.
    naps = [(BLOCKED, 5 * i, 5 * i + 5, -1, Source.TIMER, Wait.FUTEX) for i in range(9)]
    schedule = schedule_of([*naps, woken(45, 50, 1), run(50, 51)], [run(0, 50)])

    assert shares(schedule, Scenario("role", "t1", (1,)))[1] == pytest.approx(0.51, abs=0.02)


def test_a_loop_that_naps_until_a_thread_has_ended_ends_with_it() -> None:
    naps = [nap(5 * i, 5 * i + 5) for i in range(10)]
    schedule = schedule_of([*naps, run(50, 51)], [run(0, 49)])

    assert shares(schedule, Scenario("role", "t1", (1,)))[1] == pytest.approx(0.52, abs=0.03)


def test_one_wait_for_another_thread_behind_many_naps_is_simulated() -> None:
    naps = [row for i in range(50) for row in (nap(2 * i, 2 * i + 1), run(2 * i + 1, 2 * i + 2))]
    schedule = schedule_of([*naps, woken(100, 120, 1), run(120, 130)], [run(0, 130)], cpus=3)

    base, (found,) = forecast(schedule, [Scenario("role", "t1", (1,))])
    assert base.withheld == ""
    assert found.scenario.name == "t1"


def test_strangers_keep_their_share_of_a_cpu() -> None:
    # A stranger had the only CPU for 4 of every 8 ms.
    rows = [part for i in range(10) for part in (run(8 * i, 8 * i + 4), ready(8 * i + 4, 8 * i + 8))]
    foreign = tuple((0, 8 * i + 4, 8 * i + 8) for i in range(10))
    schedule = schedule_of([*rows, run(80, 81)], cpus=1, foreign=foreign)

    assert simulate(schedule).error == pytest.approx(0.0, abs=0.06)


def test_a_simulation_that_does_not_give_back_the_time_forecasts_nothing() -> None:
    # It waited for a CPU although both were free: nothing that is simulated would do that.
    schedule = schedule_of([run(0, 10), ready(10, 60), run(60, 70)])

    base, (found,) = forecast(schedule, [Scenario("role", "t0", (0,))])

    assert "less than the program did" in base.withheld
    assert found.points == ()
    assert found.kind is None


def test_time_that_was_not_seen_withholds_the_forecast() -> None:
    rows: list[Row] = [run(0, 10), (State.UNSEEN, 10, 20, -1, Source.UNKNOWN, Wait.NONE), run(20, 30)]
    whole = schedule_of(rows)
    losses = Losses("perf", unseen_share=0.33)
    schedule = Schedule(
        0, whole.ended_ns, whole.cpus, whole.threads, whole.intervals, whole.wakes, whole.foreign, losses
    )

    assert "33 %" in simulate(schedule).withheld


def test_one_more_cpu_lets_threads_that_shared_one_run_beside_each_other() -> None:
    one = [part for i in range(10) for part in (run(4 * i, 4 * i + 2), ready(4 * i + 2, 4 * i + 4))][:-1]
    other = [part for i in range(10) for part in (ready(4 * i, 4 * i + 2), run(4 * i + 2, 4 * i + 4))]
    main = [woken(0, 38, 1), woken(38, 40, 2), ready(40, 41), run(41, 42)]

    found = shares(schedule_of(main, one, other, cpus=1), Scenario("cpus", "one more CPU"))

    assert found == [pytest.approx(21 / 42, abs=0.05)]


@pytest.mark.parametrize(
    ("kind", "gains"),
    [("total", [1.0, 0.84, 0.6, 0.36, 0.2]), ("limited", [1.0, 0.8, 0.5, 0.48, 0.48]), ("none", [1.0] * 5)],
)
def test_what_pays_is_told_by_the_slopes(kind: str, gains: list[float]) -> None:
    assert kind_of([0.0, 0.2, 0.5, 0.8, 1.0], gains) == kind


def rounds() -> tuple[list[Row], list[Row]]:
    """Rounds that end when both are through: 10 ms of one, 4 ms of the other, which waits."""
    slow = [run(10 * i, 10 * i + 10) for i in range(10)]
    quick = [part for i in range(10) for part in (run(10 * i, 10 * i + 4), woken(10 * i + 4, 10 * i + 10, 1))]
    return slow, quick


def test_who_meets_another_one_every_time_waits_for_it_when_it_gets_faster() -> None:
    slow, quick = rounds()
    schedule = schedule_of([woken(0, 100, 1), run(100, 102)], slow, [*quick, run(100, 101)], cpus=3)

    assert shares(schedule, Scenario("role", "slow", (1,))) == pytest.approx(
        [0.81, 0.51, 0.42, 0.41], abs=0.03
    )


def test_ways_to_wait_that_fit_alike_and_forecast_apart_leave_the_end_open() -> None:
    # Whether the slow one waits for the other was never seen, and its end is the program's.
    slow, quick = rounds()
    quick = [replace_waker(row, 0) for row in quick]

    base, (found,) = forecast(schedule_of([*slow, run(100, 101)], quick), [Scenario("role", "slow", (0,))])

    assert base.withheld == ""
    assert found.kind == "open"  # half as slow as it was, it is as slow as the other: then the ways part
    assert [point.speedup for point in found.points] == [0.2, 0.5]
    assert found.points[1].time_ns.value == pytest.approx(50.5e6, rel=0.02)
    assert found.knee is None


def replace_waker(row: Row, waker: int) -> Row:
    return (*row[:3], waker if row[3] >= 0 else -1, *row[4:])


def test_who_observes_is_in_the_null_test_and_not_in_the_forecast() -> None:
    # The program has the only CPU for 6 ms of every 10, who observes it for the rest.
    rows = [part for i in range(10) for part in (run(10 * i, 10 * i + 6), ready(10 * i + 6, 10 * i + 10))]
    watched = schedule_of([*rows, run(100, 101)], cpus=1)
    turns = np.array([(0, (10 * i + 6) * MS, (10 * i + 10) * MS, 9) for i in range(10)], layouts.FOREIGN)
    schedule = replace(watched, watching=turns)

    assert abs(simulate(schedule).error) < 0.02
    assert shares(schedule, Scenario("role", "t0", (0,)))[1] == pytest.approx(0.5, abs=0.01)


def test_strangers_of_idle_priority_do_not_take_a_cpu_from_the_program() -> None:
    # They have the CPU while it naps; without its naps it has it all the time.
    rows = [part for i in range(20) for part in (run(10 * i, 10 * i + 2), nap(10 * i + 2, 10 * i + 10))]
    others = tuple((0, 10 * i + 2, 10 * i + 10) for i in range(20))
    schedule = schedule_of([*rows, run(200, 202)], cpus=1, foreign=others)
    schedule = replace(schedule, priorities={100: 98, 9: 120})

    assert shares(schedule, Scenario("timer", "naps", (0,)))[-1] == pytest.approx(0.21, abs=0.02)


def test_a_wait_until_a_time_out_withholds_the_forecast() -> None:
    rows = []
    for i in range(10):
        rows += [run(10 * i, 10 * i + 5), (BLOCKED, 10 * i + 5, 10 * i + 10, -1, Source.TIMER, Wait.FUTEX)]

    assert "until its time-out" in simulate(schedule_of([*rows, run(100, 101)])).withheld


@pytest.mark.parametrize("wait", [Wait.FUTEX, Wait.TIMER])
def test_who_looks_by_time_outs_whether_another_is_done_does_not_hold_the_end(wait: Wait) -> None:
    # It woke the one that works at the beginning, and the recording ends before that one is done.
    main: list[Row] = [run(0, 1)]
    for i in range(9):
        main += [
            (BLOCKED, 1 + 100 * i, 100 * (i + 1), -1, Source.TIMER, wait),
            run(100 * (i + 1), 100 * i + 101),
        ]
    main += [(BLOCKED, 901, 950, -1, Source.UNKNOWN, wait)]
    worker = [run(0, 1), woken(1, 2, 0), run(2, 950)]

    found = shares(schedule_of(main, worker, cpus=2), Scenario("role", "worker", (1,)))

    assert found[:2] == pytest.approx([0.8, 0.5], abs=0.02)


def test_a_heartbeat_that_stops_a_thread_by_the_clock_does_not_pace_it() -> None:
    # Thread 1 makes what thread 2 takes, every 4 ms; every 100 ms thread 3 stops thread 1 for 1 ms.
    main = [run(0, 1), woken(1, 1000, 1)]
    maker: list[Row] = []
    taker: list[Row] = []
    beat: list[Row] = [run(0, 1)]
    for i in range(250):
        begin, end = 4 * i, 4 * (i + 1)
        if i % 25 == 5:
            maker += [run(begin, begin + 2), woken(begin + 2, begin + 3, 3), run(begin + 3, end)]
            beat += [nap(beat[-1][2], begin + 2), run(begin + 2, begin + 3)]
        else:
            maker += [run(begin, end)]
        taker += [woken(taker[-1][2] if taker else 0, end, 1), run(end, end + 2)]
    beat += [nap(beat[-1][2], 1000)]
    whole = schedule_of(main, maker, taker, beat, cpus=4)

    found = shares(whole, Scenario("role", "maker", (1,)))

    assert found[:2] == pytest.approx([0.8, 0.5], abs=0.03)


def test_who_joins_one_thread_waits_for_those_that_ended_meanwhile() -> None:
    # The longer one is waited for; when that one is faster the other one is the last.
    main = [run(0, 1), woken(1, 20, 1), run(20, 60)]

    found = shares(schedule_of(main, [run(1, 20)], [run(1, 15)], cpus=3), Scenario("role", "t1", (1,)))

    assert found[-1] == pytest.approx(55 / 60, abs=0.01)


def test_what_is_held_while_nobody_waits_is_not_forecast() -> None:
    base, (found,) = forecast(handed_on(20, 2, 5), [Scenario("lock", "the lock", object=77)])

    assert base.withheld == ""
    assert "is not seen from outside" in found.withheld


def in_turn(rounds: int, works: int, wakes: int) -> Schedule:
    """Two threads work in turn, each woken by the other, and take their time to run then."""
    threads: tuple[list[Row], list[Row]] = ([], [])
    at = last = 0
    for number in range(2 * rounds):
        mine, other = threads[number % 2], (number + 1) % 2
        if number:
            mine += [woken(last if number > 1 else 0, at, other + 1), ready(at, at + wakes)]
            at += wakes
        mine.append(run(at, at + works))
        last, at = at, at + works
    end = at
    return schedule_of([woken(0, end - 1, 2), run(end - 1, end)], *threads)


def test_a_lock_that_whoever_comes_first_may_take_is_not_handed_over_as_slowly_for_ever() -> None:
    """Of the 16 ms of a turn 4 are from the wake-up to running; with work that is shorter nobody may wait."""
    schedule = in_turn(20, 12, 4)
    both = Scenario("role", "both", (1, 2))
    _, (ordered,) = forecast(schedule, [both], seeds=1)
    assert ordered.points[-1].time_ns.value / schedule.ended_ns == pytest.approx(0.25, abs=0.01)

    _, (any_order,) = forecast(schedule, [both], seeds=1, locks={word_of(77)})
    assert any_order.points == ()
    assert "ways to wait" in any_order.withheld
