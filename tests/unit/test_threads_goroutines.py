"""What limits a Go program: roles of goroutines, on schedules that are made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.threads_made import MS, Made, found_in

from latlab.model.schedule import Frame, Source, State, Wait
from latlab.model.threads import LimitKind, Role
from latlab.reports.diagnosis.threads_text import role_rows
from latlab.schedule.code.names import is_own, makes_durable
from latlab.threads.goroutines.names import goroutine_of

BEGIN = "runtime.goexit.abi0"
IDLE = ("runtime.futex.abi0", "runtime.stopm", "runtime.findRunnable", "runtime.schedule", "runtime.mcall")
WEIGH = ("main.weigh", "main.main.func2", BEGIN)
STOW = ("main.stow", "main.main", "runtime.main", BEGIN)


def frames(*names: str) -> list[Frame]:
    return [Frame(name, module="/srv/port") for name in names]


def program(busy: float, *stacks: tuple[int, tuple[str, ...]]) -> Made:
    """Two threads of Go's runtime that wake each other and run the same goroutines, so many samples of each.

    Args:
        busy: ms of each 10 that a thread runs.
    """
    made = Made()
    first, second = made.thread("port"), made.thread("port")
    made.turns(first, busy, second)
    made.turns(second, busy, first)
    whole = sum(times for times, _ in stacks)
    for times, stack in stacks:
        for thread in (first, second):
            made.stack(thread, *stack, times=times)
    # Samples are spread over the time, whatever they show.
    step, count = 1000 / whole, len(made.samples)
    order = sorted(range(count), key=lambda i: (i * 7919) % count)
    made.samples = [(int((place // 2) * step * 1e6), *made.samples[i][1:]) for place, i in enumerate(order)]
    made.stack(first, *IDLE, running=False)
    return made


def test_the_goroutine_that_runs_nearly_always_limits_though_threads_share_it() -> None:
    found = found_in(program(6, (80, WEIGH), (20, STOW)))
    assert (found.limit.kind, found.limit.name) == (LimitKind.THREAD, "goroutine main.main.func2")
    assert found.limit.code[0].function == "main.weigh"
    (role,) = [one for one in found.roles if one.name == "goroutine main.main.func2"]
    assert role.running == pytest.approx(0.96, abs=0.03)
    assert role.threads == ()  # no thread is this goroutine's: nobody may take one for it


def test_the_main_goroutine_has_the_name_of_its_program() -> None:
    found = found_in(program(6, (20, WEIGH), (80, STOW)))
    assert (found.limit.kind, found.limit.name) == (LimitKind.THREAD, "port")


def test_of_two_equally_busy_goroutines_none_is_named() -> None:
    found = found_in(program(9.5, (50, WEIGH), (50, STOW)))
    assert found.limit.kind is LimitKind.UNKNOWN
    assert "about equally busy" in found.limit.sentence


def test_goroutines_that_fill_the_cpus_limit_by_their_parts_of_the_work() -> None:
    found = found_in(program(9.8, (30, WEIGH), (30, STOW), (40, ("main.load", "main.main.func1", BEGIN))))
    assert found.limit.kind is LimitKind.UNKNOWN
    shares = {role.name: role.limits for role in found.roles}
    assert shares["goroutine main.main.func1"] == pytest.approx(0.4, abs=0.06)


def locking(contending: int, other: int) -> Made:
    slow = ("sync.runtime_doSpin", "sync.(*Mutex).lockSlow", "main.(*Book).enter", "main.main.func1", BEGIN)
    inside = ("main.(*Book).enter", "main.main.func1", BEGIN)
    return program(5, (contending, slow), (95, inside), (other, ("main.greet", "main.main.func1", BEGIN)))


def test_a_mutex_for_which_goroutines_wait_is_named_by_who_takes_it() -> None:
    found = found_in(locking(3, 5))
    assert (found.limit.kind, found.limit.name) == (LimitKind.LOCK, "mutex in main.(*Book).enter")
    assert "goroutine main.main.func1" in " ".join(found.limit.evidence)


@pytest.mark.parametrize(("contending", "other"), [(0, 5), (3, 150)])
def test_a_mutex_is_not_named_that_nobody_waits_for_or_that_is_rarely_held(
    contending: int, other: int
) -> None:
    assert found_in(locking(contending, other)).limit.kind is not LimitKind.LOCK


def in_turn(
    goroutines: int, *, held: bool = True, threads: int = 3, one_after_the_other: bool = False
) -> Made:
    """Goroutines that run `seal` one at a time on threads of Go's runtime; none is ever seen to wait."""
    made = Made()
    runs = [made.thread("vault") for _ in range(threads)]
    for at in range(0, 1000, 10):
        for thread, ran in zip(runs[1:], (0.2, 0.1), strict=False):
            made.run(thread, at, at + ran)
            made.wait(thread, at + ran, at + 10, source=Source.UNKNOWN)
    made.run(runs[0], 0, 1000)  # it hands the mutex on, and runs whoever has it then
    made.frames = frames("crypto/sha256.block", "main.(*Vault).seal", "main.clerk", BEGIN)
    made.frames[1] = replace(made.frames[1], in_mutex=held)
    made.stacks = [(0, 1, 2, 3)]
    made.samples = [(2 * i * MS, runs[0], 1, 0) for i in range(500)]
    made.stack(runs[0], *IDLE, running=False)
    part = 500 // goroutines
    made.bases = [0xC000 + 64 * (i // part if one_after_the_other else i % goroutines) for i in range(500)]
    return made


def test_a_mutex_that_is_held_for_long_is_told_by_goroutines_that_run_in_turn() -> None:
    limit = found_in(in_turn(4)).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "mutex in main.(*Vault).seal")
    assert limit.evidence[0].startswith("4 goroutines run in main.(*Vault).seal, one at a time")


@pytest.mark.parametrize(
    "made",
    [
        in_turn(1),
        in_turn(4, held=False),  # what it does is not done under a mutex
        in_turn(4, threads=2),  # Go may use one CPU only: the other thread watches over it
        in_turn(4, one_after_the_other=True),
    ],
)
def test_goroutines_that_do_not_wait_for_a_mutex_are_told_as_themselves(made: Made) -> None:
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.THREAD, "goroutine main.clerk")


@pytest.mark.parametrize(("contending", "named"), [(3, True), (0, False)])
def test_a_mutex_is_named_by_the_part_of_its_taker_in_which_one_at_a_time_always_is(
    contending: int, named: bool
) -> None:
    slow = ("sync.runtime_doSpin", "sync.(*Mutex).lockSlow", "main.main.func1", BEGIN)
    guarded = ("main.spin", "main.aggregate", "main.main.func1", BEGIN)
    free = ("main.spin", "main.readEvent", "main.main.func1", BEGIN)
    found = found_in(program(7, (contending, slow), (70, guarded), (27, free)))

    assert ((found.limit.kind, found.limit.name) == (LimitKind.LOCK, "mutex in main.main.func1")) == named


def test_the_sleeps_of_a_goroutine_are_of_the_one_that_runs_after_them() -> None:
    made = Made()
    first = made.thread("port")
    made.turns(first, 0.2, on=Wait.POLL, source=Source.TIMER)
    made.stack(first, *WEIGH, times=100)
    made.samples = [(int((10 * (i + 1) + 0.1) * 1e6), *one[1:]) for i, one in enumerate(made.samples)]
    found = found_in(made)
    assert (found.limit.kind, found.limit.name) == (LimitKind.TIMER, "goroutine main.main.func2")


def test_of_goroutines_that_run_by_turns_after_a_sleep_none_is_told_as_the_one_that_slept() -> None:
    made = Made()
    first = made.thread("port")
    made.turns(first, 0.2, on=Wait.POLL, source=Source.TIMER)
    made.stack(first, *WEIGH, times=50)
    made.stack(first, *STOW, times=50)
    order = [at // 2 + 50 * (at % 2) for at in range(100)]
    made.samples = [(int((10 * (i + 1) + 0.1) * 1e6), *made.samples[at][1:]) for i, at in enumerate(order)]
    found = found_in(made)
    assert (found.limit.kind, found.limit.name) == (LimitKind.TIMER, "goroutines of port")
    assert found.limit.sentence.startswith("No resource is short: the program waits for the sleeps of gor")
    assert all(role.limits < 0.05 for role in found.roles if role.entry)


def test_the_thread_that_only_looks_after_the_others_does_not_limit() -> None:
    made = program(6, (80, WEIGH), (20, STOW))
    monitor = made.thread("port")
    made.turns(monitor, 0.1, on=Wait.TIMER, source=Source.TIMER)
    made.stack(monitor, "runtime.usleep.abi0", "runtime.sysmon", "runtime.mstart.abi0", running=False)
    found = found_in(made)
    assert found.limit.name == "goroutine main.main.func2"
    assert not any("timer" in what for what in found.progress)


@pytest.mark.parametrize(
    ("stack", "begins"),
    [
        (("main.weigh", "main.main.func2", BEGIN), "main.main.func2"),
        (("main.weigh", "main.main", "runtime.main", BEGIN), "main.main"),
        (("main.(*Book).enter", "main.main.func1", "main.main.func2", BEGIN), "main.main.func1"),
        (("main.(*Book).enter", "main.serve", "main.main.gowrap1", BEGIN), "main.serve"),
        (("main.answer", "net/http.(*conn).serve", BEGIN), "main.answer"),
        (("main.build", "golang.org/x/sync/errgroup.(*Group).Go.func1", BEGIN), "main.build"),
        (("fmt.Sprint", "github.com/acme/pool.(*Worker).run", BEGIN), "github.com/acme/pool.(*Worker).run"),
        (("bufio.(*Reader).Read", "net/http.(*conn).serve", BEGIN), "net/http.(*conn).serve"),
        (("runtime.scanobject", "runtime.gcDrain", "runtime.gcBgMarkWorker", BEGIN), "garbage collector"),
        (("crypto/sha256.block", "main.(*Vault).seal", "main.clerk"), "main.clerk"),  # cut within the program
        (("runtime.mallocgc", "runtime.newproc"), ""),  # cut within the runtime
        (IDLE, ""),
        ((), ""),
    ],
)
def test_a_goroutine_is_told_by_the_programs_function_in_which_it_begins(
    stack: tuple[str, ...], begins: str
) -> None:
    assert goroutine_of(frames(*stack)) == begins


def test_functions_of_gos_library_say_nothing_of_the_program() -> None:
    assert not any(is_own(one) for one in frames("math.cos", "crypto/sha256.block", "os.(*File).Sync"))
    assert is_own(frames("main.weigh")[0])
    assert is_own(Frame("os.walk", "/app/os_helpers.py", 3))  # no module: a class of an interpreter's program


def test_a_sync_is_seen_above_the_system_call_that_go_makes_itself() -> None:
    assert makes_durable(frames("runtime/internal/syscall.Syscall6", "syscall.Fsync", "os.(*File).Sync"))
    assert not makes_durable(frames("main.weigh", "main.main"))
    assert not makes_durable([])


def test_the_parts_of_a_goroutines_time_are_no_more_than_the_whole() -> None:
    made = program(6, (80, WEIGH), (20, STOW))
    for thread in (0, 1):
        for at in range(0, 1000, 10):
            made.ready(thread, at + 6, at + 10)
    made.rows = [row for row in made.rows if row[1] != State.BLOCKED]
    rows = {row[0]: row for row in role_rows(found_in(made).roles)}
    for role in found_in(made).roles:
        assert role.running + role.runnable + sum(role.blocked.values()) <= 1.0 + 1e-6
    assert "goroutine main.main.func2" in rows


def test_what_a_row_of_a_role_misses_is_told() -> None:
    rest = {"futex": 0.2}
    known = Role("crossing", 1, (7,), 0.5, 0.1, rest, 0.6, 1.0, threads=(2,))
    go = Role("u37", 1, (7,), 0.01, 0.01, {}, 0.02, 1.0)
    scheduler = replace(known, name="u37: Go's scheduler")
    whole = replace(known, blocked={"futex": 0.2, "pipe": 0.1, "disk": 0.08})
    told = [row[-1] for row in role_rows((known, go, scheduler, whole))]

    assert told[0] == "futex 20.0 %, not seen 20.0 %"
    assert told[1] == "waiting in Go 98.0 %"
    assert told[2] == "futex 20.0 %, in goroutines 20.0 %"
    assert told[3] == "futex 20.0 %, pipe 10.0 %, others 8.0 %"
