"""Edits of captured programs, on recordings made by simulating a program of which every step is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.model.stubs import Timeline
from latlab.schedule.simulation.simulate import run_steps
from latlab.stubs.timelines.actions import Action, Program, check, parse_thread, scale
from latlab.stubs.timelines.edit import edited
from latlab.stubs.timelines.schedule import schedule
from latlab.stubs.timelines.simulated import played_back, simulable

US = 1000


def program(**threads: str) -> Program:
    return Program({int(k[1:]): parse_thread(v, k) for k, v in threads.items()})


def recorded(known: Program, cpus: int) -> tuple[Program, Timeline]:
    """What a capture of the program would be: how long it lacks a CPU, and of its waits those that block."""
    one = simulable(known, cpus)
    out = run_steps(one.steps, turns=True)
    found, timeline = played_back(one, out, known, None)
    times = schedule(found).after
    early = {
        action.name
        for number, actions in found.threads.items()
        for before, after, action in zip([0, *times[number]], times[number], actions, strict=False)
        if action.verb == "wait" and after == before
    }
    kept = {
        number: tuple(action for action in actions if action.name not in early)
        for number, actions in found.threads.items()
    }
    return Program(kept), replace(timeline, kind="captured")


def line(costs_us: tuple[int, ...], items: int, room: int = 4) -> Program:
    """A main thread, and stages that hand each item on by queues with some room."""
    stages = range(len(costs_us))
    threads = {0: [Action("create", thread=n + 1) for n in stages]}
    threads[0] += [Action("join", thread=n + 1) for n in stages]
    for stage, cost in enumerate(costs_us):
        rows = threads[stage + 1] = []
        last = stage + 1 == len(costs_us)
        for item in range(items):
            if stage:
                rows += [
                    Action("wait", name=f"item-{stage}-{item}"),
                    Action("signal", name=f"room-{stage}-{item}"),
                ]
            rows.append(Action("run", amount=cost * US))
            if not last and item >= room:
                rows.append(Action("wait", name=f"room-{stage + 1}-{item - room}"))
            if not last:
                rows.append(Action("signal", name=f"item-{stage + 1}-{item}"))
    found = Program({number: tuple(rows) for number, rows in threads.items()})
    check(found)
    return found


def test_a_wait_for_a_cpu_shrinks_with_the_stage_that_had_it() -> None:
    # Three stages on two CPUs. What the others lack a CPU for is the middle's work, and halves with it.
    known = line((500, 1000, 700), 60)
    captured, timeline = recorded(known, 2)
    really = recorded(scale(known, 2, factor=0.5), 2)[1].total_ns
    changed = scale(captured, 2, factor=0.5)

    found = edited(captured, changed, timeline)

    assert found.result.withheld == ""
    assert found.result.after_ns == pytest.approx(really, rel=0.03)
    assert found.result.low_ns <= really <= found.result.high_ns
    assert schedule(found.program).total_ns == found.result.after_ns
    # With the waits as they were captured it is another program.
    assert abs(schedule(changed).total_ns / really - 1) > 0.1


def test_the_edited_timeline_is_what_its_action_files_do() -> None:
    captured, timeline = recorded(line((500, 1000, 700), 20), 2)

    found = edited(captured, scale(captured, 2, factor=0.5), timeline)

    check(found.program)
    assert found.timeline is not None
    by_actions = schedule(found.program)
    assert by_actions.total_ns == found.timeline.total_ns
    for thread in found.timeline.threads:
        assert by_actions.after[thread.id][-1] == thread.end_ns
        assert found.program.budgets_ns()[thread.id] == thread.run_ns
        assert all(a[1] == b[0] for a, b in zip(thread.slices, thread.slices[1:], strict=False))


def test_a_program_that_is_edited_by_nothing_takes_its_own_time() -> None:
    captured, timeline = recorded(line((500, 1000, 700), 20), 2)

    found = edited(captured, scale(captured, 2, factor=1.0), timeline)

    assert found.result.after_ns == pytest.approx(timeline.total_ns, rel=0.01)
    assert found.result.before_ns == timeline.total_ns


def test_threads_that_get_slower_come_to_compete() -> None:
    # Two of 10 ms on two CPUs, and a third that is done by then; at four times its work it needs a CPU, too.
    known = program(
        t0="create 1\ncreate 2\njoin 1\njoin 2\nready 5", t1="ready 5\nrun 10000", t2="ready 5\nrun 10000"
    )
    captured, timeline = recorded(known, 1)
    found = edited(captured, scale(captured, 2, factor=2.0), timeline)

    assert found.result.after_ns == pytest.approx(30_000 * US, rel=0.02)


def test_a_wake_up_stays_as_long_as_it_was() -> None:
    known = program(
        t0="create 1\nrun 100\nsignal go\njoin 1\nready 30", t1="ready 20\nwait go\nready 50\nrun 80"
    )

    found = edited(known, scale(known, 1, factor=0.5), Timeline("captured", 0, (), cpus=2))

    assert [action.text() for action in found.program.threads[1]] == [
        "ready 20.000", "wait go", "ready 50.000", "run 40.000",
    ]  # fmt: skip


def test_actions_that_nobody_lacked_a_cpu_for_are_left_as_they_are() -> None:
    known = program(t0="create 1\nrun 100\njoin 1", t1="repeat 3\nrun 20\nend")
    changed = scale(known, 1, factor=0.5)

    found = edited(known, changed)

    assert found.program is changed
    assert (found.timeline, found.result.simulated, found.result.withheld) == (None, False, "")


def test_a_recording_that_the_simulation_does_not_give_back_changes_no_wait() -> None:
    # On one CPU two threads can't both have run for 10 ms within 19.
    known = program(
        t0="create 1\ncreate 2\njoin 1\njoin 2", t1="run 10000", t2="run 10000\nready 40\nrun 9000"
    )

    found = edited(known, scale(known, 2, factor=0.5), Timeline("captured", 0, (), cpus=1))

    assert found.result.withheld.startswith("the simulation of the unchanged program is off by")
    assert not found.result.simulated


def test_a_capture_that_other_programs_disturbed_is_told_as_one() -> None:
    # Its thread lacked a CPU for 2 ms of 22 while none of its own had one.
    known = program(t0="run 10000\nready 2000\nrun 10000")

    found = edited(known, scale(known, 0, factor=0.5), Timeline("captured", 0, (), cpus=1))

    assert found.result.withheld.startswith("other programs took CPUs from its threads, for 9.1 % of")


def test_other_programs_are_blamed_only_where_they_had_cpus() -> None:
    # Bound to a CPU that another of its threads has: nobody else took one.
    known = program(t0="run 10000\nready 2000\nrun 10000")
    captured = Timeline("captured", 0, (), cpus=2)

    def why(others_ns: int | None) -> str:
        one = replace(captured, others_ns=others_ns)
        return edited(known, scale(known, 0, factor=0.5), one).result.withheld

    assert why(None).startswith("other programs took CPUs")
    assert why(2_000 * US).startswith("other programs took CPUs")
    assert "no other program had it" in why(100 * US)
