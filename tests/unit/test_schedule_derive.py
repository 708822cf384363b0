"""Intervals of threads from the kernel's events, by hand."""

from __future__ import annotations

import platform
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from latlab.model.evidence.said import kind_of
from latlab.model.evidence.threads import ScheduleNote
from latlab.model.schedule import Source, State, Wait
from latlab.schedule import tree
from latlab.schedule.capture import gone
from latlab.schedule.derive import Facts, derive
from latlab.schedule.syscalls import BY_DESCRIPTOR, waits_of
from latlab.schedule.tree import Member
from latlab.system.kernel.samples import Events, EventTable, Forgotten

OURS, OTHER = 11, 78


def table(name: str, columns: dict[str, Any], rows: list[tuple[Any, ...]]) -> EventTable:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return EventTable(
        name, {key: np.array(given, kind) for (key, kind), given in zip(columns.items(), values, strict=True)}
    )


def events(
    switches: list[tuple[int, int, int, int, int]],
    wakings: list[tuple[int, int]],
    moves: list[tuple[int, int, int]] | None = None,
) -> Events:
    """Switches: (time, cpu, from, its state, to); wakings of ours: (time, cpu), by the other.

    Moves of ours: (time, from, to); None where the kernel tells of none.
    """
    seen = {"time_ns": np.int64, "cpu": np.int32, "pid": np.int32, "tid": np.int32}
    tables = [
        table(
            "sched:sched_switch",
            {**seen, "prev_pid": np.int32, "prev_state": np.int64, "next_pid": np.int32, "prev_comm": "S16",
             "next_comm": "S16"},
            [(t, cpu, a, a, a, state, b, b"a", b"b") for t, cpu, a, state, b in switches],
        ),
        table(
            "sched:sched_waking", {**seen, "event_pid": np.int32},
            [(t, cpu, OTHER, OTHER, OURS) for t, cpu in wakings],
        ),
        table("sched:sched_process_fork", {**seen, "child_pid": np.int32}, []),
    ]  # fmt: skip
    if moves is not None:
        columns = {**seen, "event_pid": np.int32, "orig_cpu": np.int32, "dest_cpu": np.int32}
        told = [(t, 0, OTHER, OTHER, OURS, a, b) for t, a, b in moves]
        tables.append(table("sched:sched_migrate_task", columns, told))
    return Events({one.name: one for one in tables}, 0, (0, 1))


@pytest.mark.parametrize(
    ("switches", "wakings", "cpu"),
    [
        # Preempted, and back on the same CPU.
        ([(10, 1, 0, 1, OURS), (100, 1, OURS, 0, OTHER), (200, 1, OTHER, 0, OURS)], [], 1),
        # Preempted, and back on another one: when it moved isn't known.
        ([(10, 1, 0, 1, OURS), (100, 1, OURS, 0, OTHER), (200, 0, 0, 1, OURS)], [], -1),
        # Woken where it ran before, and where it runs then.
        ([(10, 1, 0, 1, OURS), (50, 1, OURS, 1, OTHER), (200, 1, OTHER, 0, OURS)], [(100, 0)], 1),
        # Woken, and then on another one than before.
        ([(10, 1, 0, 1, OURS), (50, 1, OURS, 1, OTHER), (200, 0, 0, 1, OURS)], [(100, 0)], -1),
        # Nobody saw where it had been.
        ([(200, 1, OTHER, 0, OURS)], [(100, 0)], -1),
    ],
)  # fmt: skip
def test_a_runnable_thread_waits_for_the_cpu_that_it_ran_on_and_goes_on_on(
    switches: list[Any], wakings: list[Any], cpu: int
) -> None:
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    rows = derive(events(switches, wakings), facts, 0, 300, "bpf").intervals
    last = rows[rows["state"] == State.RUNNABLE][-1]
    assert (last["end"], last["cpu"]) == (200, cpu)


@pytest.mark.parametrize(
    ("switches", "wakings", "moves", "cpu"),
    [
        # Never moved: it waited where it runs then, also where nobody saw it before.
        ([(200, 1, OTHER, 0, OURS)], [(100, 0)], [], 1),
        # Moved as it was woken: it waited where it was moved to.
        ([(10, 1, 0, 1, OURS), (50, 1, OURS, 1, OTHER), (200, 0, 0, 1, OURS)], [(100, 0)], [(101, 1, 0)], 0),
        # Moved when another CPU had nothing to do any more: it waited at the first for most of the time.
        ([(10, 1, 0, 1, OURS), (100, 1, OURS, 0, OTHER), (200, 0, 0, 1, OURS)], [], [(190, 1, 0)], 1),
        # There and back again.
        ([(10, 1, 0, 1, OURS), (100, 1, OURS, 0, OTHER), (200, 1, OTHER, 1, OURS)], [],
         [(110, 1, 0), (180, 0, 1)], 0),
        # What another time moved it is none of this wait.
        ([(10, 1, 0, 1, OURS), (100, 1, OURS, 0, OTHER), (200, 1, OTHER, 1, OURS)], [],
         [(5, 0, 1), (250, 1, 0)], 1),
    ],
)  # fmt: skip
def test_a_runnable_thread_waits_in_the_queue_of_the_cpu_that_the_kernel_moved_it_to(
    switches: list[Any], wakings: list[Any], moves: list[Any], cpu: int
) -> None:
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    rows = derive(events(switches, wakings, moves), facts, 0, 300, "bpf").intervals
    last = rows[rows["state"] == State.RUNNABLE][-1]
    assert (last["end"], last["cpu"]) == (200, cpu)


def test_a_thread_that_no_switch_brought_is_unseen_only_since_its_cpu_was_last_seen_and_until_it_acts() -> (
    None
):
    switches = [(10, 1, 0, 0, OURS), (50, 1, OURS, 1, 0), (200, 1, 0, 0, OTHER), (260, 1, OURS, 1, 0)]
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    seen = events(switches, [])
    silent = derive(seen, facts, 0, 300, "bpf").intervals
    own = [(State(one["state"]), int(one["begin"]), int(one["end"])) for one in silent if one["begin"] >= 10]
    assert own == [
        (State.RUNNING, 10, 50), (State.BLOCKED, 50, 200), (State.UNSEEN, 200, 260), (State.BLOCKED, 260, 300)
    ]  # fmt: skip
    columns = dict.fromkeys(("cpu", "pid", "tid", "event_pid"), np.int32)
    wakes = table("sched:sched_waking", {"time_ns": np.int64, **columns}, [(240, 1, OURS, OURS, 99)])
    acting = derive(replace(seen, tables={**seen.tables, "sched:sched_waking": wakes}), facts, 0, 300, "bpf")
    own = [(State(one["state"]), int(one["begin"]), int(one["end"])) for one in acting.intervals]
    assert own[2:] == [
        (State.BLOCKED, 50, 200), (State.UNSEEN, 200, 240), (State.RUNNING, 240, 260),
        (State.BLOCKED, 260, 300),
    ]  # fmt: skip


def test_of_a_turn_it_is_told_for_how_long_its_cpu_served_interrupts() -> None:
    made = events(
        [(10, 1, 0, 1, OURS), (110, 1, OURS, 1, OTHER), (200, 1, OTHER, 1, OURS), (300, 1, OURS, 1, 0)], []
    )
    columns: Any = made["sched:sched_switch"].columns
    # Ours: 40 of 100 ns, then what must be an interrupt whose end was not seen.
    columns["context"] = np.array([0, 40, 41, 5_000], np.int64)
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    found = derive(made, facts, 0, 400, "bpf").interrupted
    assert found.tolist() == [(0, 10, 110, 40)]


@pytest.mark.parametrize(
    ("call", "limit", "due"),
    [("epoll_wait", 30, [(0, 50, 30_000_050)]), ("epoll_wait", 0xFFFF_FFFF, []), ("read", 30, [])],
)
def test_of_a_wait_for_what_comes_first_it_is_told_until_when_it_waits(
    call: str, limit: int, due: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latlab.schedule.derive.TIMED", frozenset({232}))
    made = events([(10, 1, 0, 1, OURS), (50, 1, OURS, 1, OTHER), (200, 1, OTHER, 0, OURS)], [(100, 1)])
    columns: Any = made["sched:sched_switch"].columns
    columns["call"] = np.full(3, {"epoll_wait": 232, "read": 0}[call], np.int64)
    # The upper half of an int's register says nothing.
    columns["argument"], columns["fourth"] = np.full(3, 5, np.int64), np.full(3, (7 << 32) | limit, np.int64)
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    assert derive(made, facts, 0, 300, "bpf").deadlines.tolist() == due


def test_a_process_that_woke_ours_and_has_ended_has_the_threads_that_were_seen_of_it() -> None:
    switches = [(10, 1, OTHER, 1, OURS), (20, 1, OURS, 1, OTHER), (30, 1, OTHER, 0, OURS)]
    assert gone(events(switches, []), OTHER) == [Member(OTHER, OTHER, "a")]


def test_of_too_much_the_last_part_is_what_it_is_in_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    switches, wakings, at, done = [], [], 0, 99  # another thread of ours has ended before all of it
    switches.append((1, 0, done, 0x10, OTHER))
    for _ in range(300):
        at += int(rng.integers(5, 50))
        switches.append((at, 1, 0, 1, OURS))
        at += int(rng.integers(5, 50))
        switches.append((at, 1, OURS, 1, OTHER))
        at += int(rng.integers(5, 50))
        wakings.append((at, 0))
    facts = Facts({OURS: Member(OURS, OURS, "ours"), done: Member(done, OURS, "done")}, {}, {}, {})
    made = events(switches, wakings)
    whole = derive(made, facts, 0, at + 100, "bpf")
    monkeypatch.setattr("latlab.schedule.derive.LATEST", 200)
    last = derive(made, facts, 0, at + 100, "bpf", most=500)
    rows = whole.intervals[whole.intervals["end"] > last.began_ns].copy()
    rows["begin"] = np.maximum(rows["begin"], last.began_ns)
    assert last.began_ns == last.left_out_ns > 0
    assert 190 < len(last.intervals) < 220
    assert last.intervals[last.intervals["thread"] == 0].tolist() == rows[rows["thread"] == 0].tolist()
    assert len(last.intervals) == len(rows)
    assert "are analysed" in last.losses.notes[-1]
    assert derive(made, facts, 0, at + 100, "bpf", most=5000).left_out_ns == 0


def test_of_what_was_forgotten_the_schedule_says_how_much_it_leaves_out() -> None:
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    made = events([(500, 0, 0, 1, OURS), (700, 0, OURS, 1, 0)], [(480, 0)])
    kept = derive(replace(made, forgotten=Forgotten(1000, 400)), facts, 0, 1000, "bpf")
    # The first that is there is later than the last that is gone.
    assert (kept.began_ns, kept.left_out_ns) == (480, 480)
    # What is forgotten is of all programs and kinds: of the program's own turns only the rest is counted.
    assert "with more than 3 turns the last" in kept.losses.notes[-1]


def test_a_thread_that_was_made_and_has_ended_before_the_beginning_does_not_wait_for_a_cpu_ever_after() -> (
    None
):
    dead, child, began = 16, 12, 100
    seen = events([(20, 0, OURS, 0, child), (40, 0, child, dead, OURS)], [])
    columns = {name: column.dtype for name, column in seen["sched:sched_process_fork"].columns.items()}
    made = table("sched:sched_process_fork", columns, [(10, 0, OURS, OURS, child)])
    seen = replace(seen, tables={**seen.tables, made.name: made})
    found = derive(seen, Facts({OURS: Member(OURS, OURS, "ours", "R", ())}, {}, {}, {}), began, 1000, "bpf")
    (ours,) = (index for index, one in enumerate(found.threads) if one.tid == OURS)
    assert set(found.intervals["thread"].tolist()) == {ours}


def test_who_wakes_a_thread_after_the_end_is_not_whom_it_waited_for() -> None:
    blocked = [(10, 1, 0, 1, OURS), (50, 1, OURS, 1, OTHER)]
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    within = derive(events([*blocked, (400, 1, OTHER, 0, OURS)], [(290, 0)]), facts, 0, 300, "bpf")
    behind = derive(events([*blocked, (400, 1, OTHER, 0, OURS)], [(310, 0), (500, 0)]), facts, 0, 300, "bpf")
    assert within.intervals[-2]["source"] == Source.THREAD  # who is a stranger
    last = behind.intervals[-1]
    assert (last["state"], last["end"], last["source"]) == (State.BLOCKED, 300, Source.UNKNOWN)


def test_a_thread_that_is_seen_only_when_it_is_ended_ran_until_then() -> None:
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    rows = derive(events([(310, 1, OURS, 0x10, OTHER)], []), facts, 0, 300, "bpf").intervals
    assert [(row["state"], row["begin"], row["end"]) for row in rows] == [(State.RUNNING, 0, 300)]


@pytest.mark.parametrize(
    ("call", "wait"),
    [(162, Wait.TIMER), (118, Wait.SYNC), (168, Wait.POLL), (3, Wait.UNKNOWN), (35, Wait.UNKNOWN)],
)
def test_calls_of_a_32_bit_program_are_not_read_as_those_of_a_64_bit_one(
    call: int, wait: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nanosleep has the number of the other's sync; its arguments are in other registers."""
    monkeypatch.setattr("latlab.schedule.derive.platform.machine", lambda: "x86_64")
    monkeypatch.setattr("latlab.schedule.derive.WAITS", waits_of("x86_64"))
    made = events([(10, 1, 0, 1, OURS), (50, 1, OURS, 1, OTHER), (200, 1, OTHER, 0, OURS)], [(100, 1)])
    columns: Any = made["sched:sched_switch"].columns
    columns["call"], columns["argument"] = np.full(3, call, np.int64), np.full(3, 5, np.int64)
    facts = Facts(
        {OURS: Member(OURS, OURS, "ours")}, {}, {(OURS, 5): "pipe:[3]"}, {}, narrow=frozenset({OURS})
    )
    found = derive(made, facts, 0, 300, "bpf")
    rows = found.intervals[found.intervals["state"] == State.BLOCKED]
    assert (rows["wait"].tolist(), rows["object"].tolist()) == ([wait], [-1])
    assert [kind_of(note) for note in found.losses.notes] == [ScheduleNote.NARROW]


# Of descriptor 3: a file at 10 to 20, then a pipe at 60, as at 90; a socket at 120.
_CHANGED = ((10, 20, "/etc/hosts"), (60, 90, "pipe:[5]"), (120, 120, "socket:[6]"))


@pytest.mark.parametrize(
    ("began", "ended", "wait", "thing"),
    [
        (1, 5, Wait.DISK, "/etc/hosts"),  # before anybody looked
        (12, 15, Wait.DISK, "/etc/hosts"),  # between two looks that agree
        (30, 40, Wait.UNKNOWN, None),  # between two that don't: it may be either
        (30, 70, Wait.PIPE, "pipe:[5]"),  # a look while it waited
        (62, 64, Wait.PIPE, "pipe:[5]"),
        (100, 110, Wait.UNKNOWN, None),
        (130, 140, Wait.SOCKET, "socket:[6]"),  # after the last look
    ],
)
def test_a_descriptor_that_was_opened_anew_is_what_it_was_during_each_wait(
    began: int, ended: int, wait: Wait, thing: str | None
) -> None:
    seen = events([(0, 1, 0, 1, OURS), (began, 1, OURS, 1, OTHER), (ended, 1, OTHER, 0, OURS)], [])
    switches = seen["sched:sched_switch"]
    read = next(number for number, one in waits_of(platform.machine()).items() if one == BY_DESCRIPTOR)
    calls = {"call": np.full(3, read), "argument": np.full(3, 3)}
    table = EventTable(switches.name, {**switches.columns, **calls})
    facts = Facts(
        {OURS: Member(OURS, OURS, "ours")}, {}, {(OURS, 3): "socket:[6]"}, {}, changed={(OURS, 3): _CHANGED}
    )
    found = derive(replace(seen, tables={**seen.tables, switches.name: table}), facts, 0, 300, "bpf")
    rows = found.intervals[found.intervals["begin"] == began]
    assert [Wait(kind) for kind in rows["wait"]] == [wait]
    assert [found.objects.get(int(one)) for one in rows["object"]] == [thing]


def test_a_descriptor_is_told_each_time_that_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its looks are 20 ms apart at first; that one was closed meanwhile doesn't end what it was."""
    now = [0]
    links: dict[tuple[int, int], str] = {}
    monkeypatch.setattr("latlab.schedule.tree.time.monotonic_ns", lambda: now[0])
    monkeypatch.setattr(tree, "described", lambda pid, descriptor: links.get((pid, descriptor), ""))
    seen, told = tree.Descriptors(), []
    for at, link in (
        (5, ""),
        (10, "pipe:[1]"),
        (15, "pipe:[2]"),
        (40, "pipe:[1]"),
        (90, ""),
        (150, "pipe:[3]"),
    ):
        now[0], links[7, 3] = at * 1_000_000, link
        told.append(seen.look(7, 3))
    assert told == ["", "pipe:[1]", "", "", "", "pipe:[3]"]
    assert seen.changed() == {
        (7, 3): ((10_000_000, 40_000_000, "pipe:[1]"), (150_000_000, 150_000_000, "pipe:[3]"))
    }
    assert seen.latest == {(7, 3): "pipe:[3]"}


@pytest.mark.parametrize(
    ("state", "stopped"), [(4, True), (8, True), (0x202, True), (0x201, True), (1, False), (2, False)]
)
def test_who_is_stopped_or_frozen_waits_for_nothing_else(state: int, stopped: bool) -> None:
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    seen = events([(10, 1, 0, 1, OURS), (50, 1, OURS, state, OTHER), (200, 1, OTHER, 0, OURS)], [(190, 1)])
    rows = derive(seen, facts, 0, 300, "bpf").intervals
    blocked = rows[rows["state"] == State.BLOCKED][-1]
    assert (blocked["begin"], blocked["wait"] == Wait.STOPPED) == (50, stopped)


@pytest.mark.parametrize(("lost", "unseen"), [(40_000, 0.3), (0, 0.0)])
def test_a_sleeper_may_have_run_while_switches_were_lost(lost: int, unseen: float) -> None:
    # On CPU 1 none is seen between 200 and 800, as when a ring is full: who left then had not come.
    switches = [
        (10, 1, 0, 1, OURS), (100, 1, OURS, 1, OTHER), (200, 1, OTHER, 0, 0), (800, 1, OTHER, 0, OURS),
        (900, 1, OURS, 1, 0),
    ]  # fmt: skip
    seen = replace(events(switches, [(790, 1)]), lost=lost)
    facts = Facts({OURS: Member(OURS, OURS, "ours")}, {}, {}, {})
    found = derive(seen, facts, 0, 1000, "bpf")
    assert (found.losses.breaks, found.losses.events) == (1, lost)
    assert found.losses.unseen_share == pytest.approx(unseen)
