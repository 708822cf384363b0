"""What a thread spins is no work of its own: it waits for who ends the loop."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.threads_made import MS, Made, found_in, named_in

from latlab.model.schedule import Frame, Source, Wait
from latlab.model.threads import LimitKind
from latlab.threads.spins import waits

WORK, SPIN = "work", "wait_for_flag"


def doing(made: Made, thread: int, *parts: tuple[float, float, str], every: float = 2.0) -> None:
    """What a thread does in each ms of a round, in all of a second; it runs without a break. Sampled."""
    end = parts[-1][1]
    made.run(thread, 0, 1000)
    stacks = {}
    for name in {name for _, _, name in parts}:
        where = f"{made.names[thread]}_{name}"
        made.frames.append(Frame(where, "app.cpp", 7, "/app", polls="looks" if name == SPIN else ""))
        made.stacks.append((len(made.frames) - 1,))
        stacks[name] = len(made.stacks) - 1
    # The CPUs' clocks tick beside each other.
    for i in range(int(1000 / every)):
        at = i * every + 0.3 * (thread + 1)
        name = next(name for low, high, name in parts if low <= at % end < high)
        made.samples.append((int(at * MS), thread, 1, stacks[name]))


def crew(made: Made, *names: str) -> list[int]:
    main = made.thread("app")
    made.wait(main, 0, 1000, source=Source.UNKNOWN, item=1)
    return [made.thread(name) for name in names]


@pytest.mark.parametrize("round_ms", [40.0, 3.1])
def test_who_is_late_at_a_barrier_that_spins_is_named(round_ms: float) -> None:
    made = Made()
    mill, sieve = crew(made, "mill", "sieve")
    doing(made, mill, (0, round_ms, WORK))
    doing(made, sieve, (0, round_ms / 2, WORK), (round_ms / 2, round_ms, SPIN))
    assert named_in(made) == (LimitKind.THREAD, "mill")
    role = found_in(made).role("sieve")
    assert role is not None
    assert role.running == pytest.approx(0.5, abs=0.05)
    assert role.blocked["spinning"] == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("round_ms", [40.0, 1.37])
def test_of_two_that_spin_for_each_other_the_one_that_works_for_most_of_the_time_is_named(
    round_ms: float,
) -> None:
    """Rounds that are shorter than the time from sample to sample, too."""
    made = Made()
    compose, stamp = crew(made, "compose", "stamp")
    done = 0.75 * round_ms
    doing(made, compose, (0, done, WORK), (done, round_ms, SPIN))
    doing(made, stamp, (0, done, SPIN), (done, round_ms, WORK))
    assert named_in(made) == (LimitKind.THREAD, "compose")


@pytest.mark.parametrize("round_ms", [40.0, 1.37])
def test_of_two_equal_ones_that_spin_for_each_other_none_is_named(round_ms: float) -> None:
    made = Made()
    left, right = crew(made, "left", "right")
    half = round_ms / 2
    doing(made, left, (0, half, WORK), (half, round_ms, SPIN))
    doing(made, right, (0, half, SPIN), (half, round_ms, WORK))
    assert named_in(made)[0] is LimitKind.UNKNOWN


@pytest.mark.parametrize(("polls", "kind"), [("takes", LimitKind.LOCK), ("looks", LimitKind.UNKNOWN)])
def test_of_threads_alike_that_spin_for_each_other_a_word_that_they_take_is_named(
    polls: str, kind: LimitKind
) -> None:
    """What they only look at may be a barrier as well."""
    made = Made()
    left, right = crew(made, "visitor-1", "visitor-2")
    doing(made, left, (0, 20, WORK), (20, 40, SPIN))
    doing(made, right, (0, 20, SPIN), (20, 40, WORK))
    enter = Frame("enter", "app.cpp", 7, "/app", polls=polls)
    made.frames = [enter if one.polls else replace(one, function="use") for one in made.frames]
    assert named_in(made)[0] is kind


def test_a_thread_that_computes_beside_is_not_what_is_waited_for() -> None:
    """It works at each end of the spinning, as it always does: so the others' work tells more."""
    made = Made()
    compose, stamp, hog = crew(made, "compose", "stamp", "hog")
    doing(made, compose, (0, 30, WORK), (30, 40, SPIN))
    doing(made, stamp, (0, 30, SPIN), (30, 40, WORK))
    doing(made, hog, (0, 40, WORK))
    assert named_in(made)[1] != "hog"


def test_of_several_that_always_work_nothing_tells_which_is_waited_for() -> None:
    made = Made()
    sieve, mill, hog = crew(made, "sieve", "mill", "hog")
    doing(made, sieve, (0, 10, WORK), (10, 40, SPIN))
    doing(made, mill, (0, 40, WORK))
    doing(made, hog, (0, 40, WORK))
    assert named_in(made)[0] is LimitKind.UNKNOWN


def test_one_that_polls_a_device_alone_works() -> None:
    made = Made()
    (driver,) = crew(made, "driver")
    doing(made, driver, (0, 20, WORK), (20, 40, SPIN))
    role = found_in(made).role("driver")
    assert role is not None
    assert role.running == 1.0


def test_who_spins_until_one_has_slept_waits_for_its_sleeps() -> None:
    made = Made()
    looks, ticks = crew(made, "looks", "ticks")
    doing(made, looks, (0, 5, WORK), (5, 40, SPIN))
    for at in range(0, 1000, 40):
        made.wait(ticks, at, at + 39.9, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.run(ticks, at + 39.9, at + 40)
    assert named_in(made) == (LimitKind.TIMER, "ticks")


def test_a_stretch_before_the_first_sample_of_a_thread_that_spins_ends_nothing() -> None:
    made = Made()
    mill, sieve = crew(made, "mill", "sieve")
    doing(made, mill, (0, 40, WORK))
    doing(made, sieve, (0, 20, WORK), (20, 40, SPIN))
    made.rows = [row for row in made.rows if row[0] != sieve]
    made.samples = [one for one in made.samples if one[1] != sieve or one[0] > 10 * MS]
    made.run(sieve, 0, 1)  # without a sample
    made.wait(sieve, 1, 2, mill, item=64)
    made.run(sieve, 2, 1000)
    assert named_in(made) == (LimitKind.THREAD, "mill")


def test_how_long_a_thread_had_run_is_reckoned_once_and_not_for_each_of_its_stretches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that waits for moments only has hundreds of thousands of them: its answer would take minutes."""
    asked: list[int] = []

    def counted(begin: waits.Array, end: waits.Array) -> tuple[waits.Array, waits.Array]:
        asked.append(len(begin))
        return ran_until(begin, end)

    ran_until = waits._ran_until
    monkeypatch.setattr(waits, "_ran_until", counted)
    made = Made()
    mill, sieve = crew(made, "mill", "sieve")
    for thread, (first, then) in ((mill, (WORK, WORK)), (sieve, (WORK, SPIN))):
        stacks = []
        for name in (first, then):
            where = f"{made.names[thread]}_{name}"
            made.frames.append(Frame(where, "app.cpp", 7, "/app", polls="looks" if name == SPIN else ""))
            made.stacks.append((len(made.frames) - 1,))
            stacks.append(len(made.stacks) - 1)
        for i in range(200):
            made.run(thread, 5 * i, 5 * i + 4)
            made.wait(thread, 5 * i + 4, 5 * i + 5, source=Source.UNKNOWN, item=7)
            made.samples += [((5 * i + 1 + 2 * j) * MS, thread, 1, stacks[j]) for j in range(2)]

    role = found_in(made).role("sieve")
    assert role is not None
    assert role.blocked["spinning"] > 0.2
    assert asked.count(200) == 1
