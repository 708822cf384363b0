"""What limits, on schedules that are made by hand.

Over 500 lines: one builder of schedules, and a test of each rule.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from latlab.model import schedule as layouts
from latlab.model.schedule import Frame, Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.model.threads import LimitKind, ThreadFindings
from latlab.threads import analyse
from latlab.threads._tracks import latest

MS = 1_000_000
SECOND = 1000 * MS


@dataclass
class Made:
    """A schedule in the making; times in ms."""

    seconds: float = 1.0
    names: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    commands: dict[int, tuple[str, ...]] = field(default_factory=dict)
    rows: list[tuple[int, ...]] = field(default_factory=list)
    foreign: list[tuple[int, int, int, int]] = field(default_factory=list)
    samples: list[tuple[int, int, int, int]] = field(default_factory=list)
    stacks: list[tuple[int, ...]] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    parents: dict[int, int] = field(default_factory=dict)

    def thread(self, name: str, pid: int = 100) -> int:
        self.names.append(name)
        self.pids.append(pid)
        return len(self.names) - 1

    def run(self, thread: int, begin: float, end: float) -> None:
        self.rows.append((thread, State.RUNNING, 0, 0, 0, int(begin * MS), int(end * MS), -1, -1, -1))

    def ready(self, thread: int, begin: float, end: float) -> None:
        self.rows.append((thread, State.RUNNABLE, 0, 0, 0, int(begin * MS), int(end * MS), -1, -1, -1))

    def wait(
        self,
        thread: int,
        begin: float,
        end: float,
        waker: int = -1,
        *,
        on: Wait = Wait.FUTEX,
        item: int = 4096,
        source: Source = Source.THREAD,
        sample: int = -1,
    ) -> None:
        self.rows.append(
            (thread, State.BLOCKED, on, source, -1, int(begin * MS), int(end * MS), waker, item, sample)
        )

    def turns(
        self, thread: int, ran: float, waker: int = -1, *, period: int = 10, on: Wait = Wait.FUTEX,
        item: int = 4096, source: Source = Source.THREAD,
    ) -> None:  # fmt: skip
        """Of every period it runs so many ms, and waits for the rest."""
        for at in range(0, 1000, period):
            self.run(thread, at, at + ran)
            self.wait(thread, at + ran, at + period, waker, on=on, item=item, source=source)

    def without_cpu(self, thread: int, ran: float, period: int = 10) -> None:
        """Of every period it runs so many ms, and has no CPU for the rest."""
        for at in range(0, 1000, period):
            self.run(thread, at, at + ran)
            self.ready(thread, at + ran, at + period)

    def in_turn(
        self, first: int, second: int, ran: float, *, on: Wait = Wait.FUTEX, item: int = 4096,
        sample: int = -1,
    ) -> None:  # fmt: skip
        """Of every 10 ms the first runs so many, and the second the rest; each waits for the other."""
        for at in range(0, 1000, 10):
            self.run(first, at, at + ran)
            self.wait(first, at + ran, at + 10, second, on=on, item=item, sample=sample)
            self.wait(second, at, at + ran, first, on=on, item=item, sample=sample)
            self.run(second, at + ran, at + 10)

    def stack(self, thread: int, *functions: str, running: bool = True, times: int = 1) -> int:
        """Samples of a stack, innermost first; the index of the first."""
        first = len(self.samples)
        self.frames += [Frame(name, "app.c", 7) for name in functions]
        self.stacks.append(tuple(range(len(self.frames) - len(functions), len(self.frames))))
        self.samples += [(i * MS, thread, int(running), len(self.stacks) - 1) for i in range(times)]
        return first

    def schedule(self, **losses: object) -> Schedule:
        end = int(self.seconds * SECOND)
        threads = tuple(
            ScheduledThread(
                tid=pid + sum(other == pid for other in self.pids[:index]),
                pid=pid,
                name=name,
                process=next(n for n, p in zip(self.names, self.pids, strict=True) if p == pid),
                began_ns=0,
                ended_ns=end,
                parent=self.parents.get(index, -1),
                command=self.commands.get(pid, ()),
            )
            for index, (name, pid) in enumerate(zip(self.names, self.pids, strict=True))
        )
        rows = np.array(self.rows, layouts.INTERVAL)
        return Schedule(
            0,
            end,
            (0, 1),
            threads,
            np.sort(rows, order=("thread", "begin")),
            np.empty(0, layouts.WAKE),
            np.array(self.foreign, layouts.FOREIGN),
            Losses("bpf", **losses),  # type: ignore[arg-type]
            samples=np.array(self.samples, layouts.SAMPLE),
            stacks=tuple(self.stacks),
            frames=tuple(self.frames),
            foreign_names={9: "neighbour"},
        )


def pipeline(fast: float, slow: float, *, period: float = 10.0) -> Made:
    """Source -> fast -> slow: `slow` ms of each period the last stage works, `fast` the first."""
    made = Made()
    main, first, last = made.thread("app"), made.thread("parse"), made.thread("book")
    made.wait(main, 0, 1000, source=Source.UNKNOWN, item=1)
    periods = int(1000 / period)
    for i in range(periods):
        at = i * period
        made.run(first, at, at + fast)
        made.wait(first, at + fast, at + period, last, item=8192)
        made.run(last, at, at + slow)
        if slow < period:
            made.wait(last, at + slow, at + period, first, item=4096)
    return made


def found_in(made: Made) -> ThreadFindings:
    return analyse(made.schedule())


def named_in(made: Made) -> tuple[LimitKind, str]:
    limit = found_in(made).limit
    return limit.kind, limit.name


def test_the_stage_that_all_others_wait_for_is_the_bottleneck() -> None:
    limit = found_in(pipeline(fast=2, slow=10)).limit
    assert (limit.kind, limit.name) == (LimitKind.THREAD, "book")
    assert limit.share > 0.95
    assert limit.confidence > 0.95


def test_of_more_turns_than_are_analysed_the_latest_are_and_the_notes_say_so() -> None:
    whole = pipeline(fast=2, slow=10).schedule()
    part = latest(whole, 150)
    assert 150 <= len(part.intervals) < len(whole.intervals)
    assert int(part.intervals["begin"].min()) == part.began_ns > whole.began_ns
    assert part.losses.notes[-1].startswith("of 1 s with 301 turns the last ")
    assert analyse(part).limit.name == "book"


def test_a_main_thread_that_only_waits_for_the_end_has_no_voice() -> None:
    made = pipeline(fast=2, slow=10)
    made.rows = [row for row in made.rows if row[0] != 0]
    made.wait(0, 0, 1000, on=Wait.TIMER, source=Source.TIMER)
    assert found_in(made).limit.name == "book"


def test_two_stages_that_are_equally_slow_are_not_named() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("parse"), made.thread("book")
    made.turns(first, 9.9, last)
    made.turns(last, 9.8, first)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.UNKNOWN, "")
    assert "parse" in limit.sentence
    assert "book" in limit.sentence


def test_two_that_take_turns_are_not_named() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("ask"), made.thread("reply")
    made.in_turn(first, last, 5)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "in turn" in limit.sentence


def contended(sample: bool) -> Made:
    """Two threads that hold one lock by turns all the time."""
    made = Made()
    made.thread("app")
    threads = [made.thread("worker-1"), made.thread("worker-2")]
    stacks = [-1, -1]
    if sample:
        stacks = [
            made.stack(t, "__lll_lock_wait", "pthread_mutex_lock", "deposit", running=False) for t in threads
        ]
    for i in range(100):
        mine, other = threads[i % 2], threads[1 - i % 2]
        made.run(mine, 10 * i, 10 * i + 10)
        made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000, sample=stacks[1 - i % 2])
    return made


@pytest.mark.parametrize(("clock", "tries", "withheld"), [(50, 30, True), (50, 2, False), (2, 50, False)])
def test_a_thread_that_mostly_tries_and_reads_the_clock_may_wait_in_a_loop(
    clock: int, tries: int, withheld: bool
) -> None:
    made = Made()
    feeder, bath = made.thread("feeder"), made.thread("bath", 100)
    made.run(feeder, 0, 1000)
    for at in range(0, 1000, 10):
        made.wait(bath, at, at + 9, source=Source.TIMER, on=Wait.TIMER)
        made.run(bath, at + 9, at + 10)
    made.stack(feeder, "clock_gettime", "main", times=clock)
    made.stack(feeder, "Rack::try_put", "main", times=tries)
    made.stack(feeder, "cast", "main", times=100 - clock - tries)
    limit = analyse(made.schedule(), root=100).limit
    assert (limit.kind is LimitKind.UNKNOWN) == withheld, limit.sentence
    assert not withheld or "in a loop" in limit.sentence


@pytest.mark.parametrize("sample", [False, True])
def test_a_lock_that_workers_hand_to_each_other_is_the_bottleneck(sample: bool) -> None:
    assert named_in(contended(sample)) == (
        LimitKind.LOCK,
        "lock 0x7000 in deposit" if sample else "lock 0x7000",
    )


def test_a_stack_says_in_which_function_a_lock_is_waited_for() -> None:
    assert any("deposit" in line for line in found_in(contended(sample=True)).limit.evidence)


def test_processes_that_wait_for_the_lock_of_a_file_wait_for_a_lock() -> None:
    made = Made()
    offices = [made.thread("office-0", pid=100), made.thread("office-1", pid=200)]
    stacks = [made.stack(one, "flock", "post_voyage", "main", running=False) for one in offices]
    for i in range(100):
        mine, other = i % 2, 1 - i % 2
        made.run(offices[mine], 10 * i, 10 * i + 10)
        made.wait(
            offices[other], 10 * i, 10 * i + 10, offices[mine],
            on=Wait.FILE_LOCK, item=0, sample=stacks[other],
        )  # fmt: skip
    schedule = replace(made.schedule(), objects={0: "/tmp/ledger"})
    limit = analyse(schedule).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "file lock on /tmp/ledger")


def lending(roles: tuple[str, ...], hog: int) -> Made:
    """Threads at one semaphore; `hog` of ten turns are the first one's, the others' go round."""
    made = Made()
    main = made.thread("app")
    made.wait(main, 0, 1000, source=Source.UNKNOWN, item=1)
    threads = [made.thread(name) for name in roles]
    acquire = ("__new_sem_wait_slow64", "std::counting_semaphore<8l>::acquire()", "draw")
    stacks = [made.stack(one, *acquire, running=False) for one in threads]
    for i in range(100):
        mine = 0 if i % 10 < hog else 1 + i % (len(threads) - 1)
        made.run(threads[mine], 10 * i, 10 * i + 10)
        for other in range(len(threads)):
            if other != mine:
                made.wait(
                    threads[other], 10 * i, 10 * i + 10, threads[mine], item=0x7000, sample=stacks[other]
                )
    return made


def test_a_lock_of_python_is_called_a_lock_though_it_is_made_of_a_semaphore() -> None:
    made = lending(("worker-1", "worker-2", "worker-3"), 5)
    made.frames = [
        replace(frame, function="PyThread_acquire_lock_timed") if "acquire" in frame.function else frame
        for frame in made.frames
    ]
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "lock 0x7000 in draw")


def test_a_function_of_python_that_waits_for_a_semaphore_waits_for_a_lock() -> None:
    made = lending(("worker-1", "worker-2", "worker-3"), 5)
    made.frames = [
        Frame("Cabinet.take_key", "/srv/app.py", 7) if "acquire" in frame.function else frame
        for frame in made.frames
    ]
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "lock 0x7000 in Cabinet.take_key")


def test_a_condition_of_python_is_no_lock_though_its_waits_use_one() -> None:
    made = lending(("player-1", "player-2"), 5)
    made.frames = [
        Frame("Condition.wait", "/usr/lib/python3.11/threading.py", 327)
        if "acquire" in frame.function
        else frame
        for frame in made.frames
    ]
    assert found_in(made).locks == ()


@pytest.mark.parametrize("hog", [5, 9])
def test_a_semaphore_that_threads_of_one_role_take_and_give_is_a_lock(hog: int) -> None:
    limit = found_in(lending(("worker-1", "worker-2", "worker-3"), hog)).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "semaphore 0x7000 in draw")


def test_a_posix_semaphore_of_two_threads_of_one_role_is_a_lock() -> None:
    limit = found_in(lending(("worker-1", "worker-2"), 5)).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "semaphore 0x7000 in draw")


def test_a_semaphore_by_which_one_role_hands_work_to_another_is_no_lock() -> None:
    assert found_in(lending(("parse", "book"), 9)).limit.kind is not LimitKind.LOCK


def test_a_turn_that_goes_round_by_semaphores_side_by_side_is_no_lock() -> None:
    made = Made()
    painters = [made.thread(f"painter-{number}") for number in range(3)]
    stacks = [made.stack(one, "std::binary_semaphore::acquire", "sit", running=False) for one in painters]
    for i in range(100):
        made.run(painters[i % 3], 10 * i, 10 * i + 10)
    for number, one in enumerate(painters):
        for i in range(number, 100, 3):
            begin = max(0, 10 * (i - 2))
            if begin < 10 * i:  # two words of 4 bytes each are seen as one
                made.wait(
                    one, begin, 10 * i, painters[number - 1], item=0x7000 + 4 * number, sample=stacks[number]
                )
        last = 10 * max(range(number, 100, 3)) + 10
        if last < 1000:
            made.wait(one, last, 1000, source=Source.UNKNOWN, item=0x7000 + 4 * number)
    assert found_in(made).limit.kind is not LimitKind.LOCK


def test_the_lock_of_an_interpreter_has_its_name() -> None:
    made = contended(sample=False)
    made.stack(1, "take_gil", "eval", running=False)
    made.rows = [(*row[:9], 0) if row[1] == State.BLOCKED else row for row in made.rows]
    assert found_in(made).limit.name == "GIL"


def test_the_word_of_a_thread_that_parks_is_no_lock_though_a_channel_has_one_for_a_moment() -> None:
    made = pipeline(fast=2, slow=10)
    inside = ("<std::sync::mpmc::array::Channel>::recv::{closure#1}", "app::main")
    parked = made.stack(2, "syscall", "<std::thread::thread::Thread>::park", *inside, running=False)
    made.stack(2, "syscall", "<std::sys::sync::mutex::futex::Mutex>::lock_contended", *inside, running=False)
    rows = [row for row in made.rows if row[1] == State.BLOCKED and row[2] == Wait.FUTEX]
    for at, row in enumerate(rows):
        made.rows[made.rows.index(row)] = (*row[:9], parked + (at % 9 == 0))
    assert found_in(made).locks == ()


def test_a_condition_variable_is_no_lock() -> None:
    assert found_in(pipeline(fast=2, slow=10)).locks == ()


def test_threads_that_only_look_whether_they_may_go_on_are_waiting_all_the_time() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("book"), made.thread("wait")
    made.run(first, 0, 1000)
    for i in range(100):
        made.wait(last, 10 * i, 10 * i + 9.95, source=Source.TIMER, item=64)
        if i < 99:
            made.run(last, 10 * i + 9.95, 10 * i + 10)
    made.wait(last, 999.95, 1000, first, item=64)
    assert found_in(made).limit.name == "book"


def test_a_program_that_sleeps_between_its_steps_paces_itself() -> None:
    made = Made()
    made.turns(made.thread("ticker"), 1, on=Wait.TIMER, source=Source.TIMER)
    assert named_in(made) == (LimitKind.TIMER, "ticker")


def test_of_several_that_sleep_whichever_leads_nothing_is_short() -> None:
    made = Made()
    for name in ("lamp", "horn"):
        made.turns(made.thread(name), 1, on=Wait.TIMER, source=Source.TIMER)
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.TIMER, "lamp, horn")
    assert limit.sentence.startswith("No resource is short")


def test_a_program_that_waits_for_its_disk_is_limited_by_it() -> None:
    made = Made()
    made.turns(made.thread("writer"), 1, on=Wait.SYNC, source=Source.DISK)
    assert found_in(made).limit.kind is LimitKind.DISK


def test_a_program_that_waits_for_strangers_waits_for_work() -> None:
    made = Made()
    made.turns(made.thread("server"), 1, on=Wait.POLL)
    assert found_in(made).limit.kind is LimitKind.LOAD


def test_a_program_in_which_nothing_happens_waits_for_work() -> None:
    made = Made()
    main = made.thread("server")
    made.wait(main, 0, 1000, on=Wait.POLL, source=Source.UNKNOWN)
    assert found_in(made).limit.kind is LimitKind.LOAD


def test_a_thread_that_has_no_cpu_half_of_the_time_is_limited_by_the_neighbour() -> None:
    made = Made()
    made.without_cpu(made.thread("app"), 5)
    made.foreign += [(0, (at + 5) * MS, (at + 10) * MS, 9) for at in range(0, 1000, 10)]
    limit = found_in(made).limit
    assert limit.kind is LimitKind.CPU
    assert "neighbour" in limit.name


def test_more_threads_than_cpus_are_limited_by_the_cpus() -> None:
    made = Made()
    made.thread("app")
    for thread in [made.thread(f"worker-{i}") for i in range(4)]:
        for i in range(50):
            early = (thread % 2) * 10
            made.run(thread, 20 * i + early, 20 * i + early + 10)
            at = 20 * i + 10 - early
            made.ready(thread, at, at + 10)
    assert named_in(made) == (LimitKind.CPU, "CPUs")


def competing(*shares: tuple[float, float]) -> Made:
    """Workers on two CPUs: of each the shares that it runs and that it has no CPU; else it sleeps."""
    made = Made()
    made.thread("app")
    for ran, ready in shares:
        thread = made.thread(f"worker-{len(made.names)}")
        for i in range(33):
            at, on, off = 30 * i, 30 * ran, 30 * (ran + ready)
            made.run(thread, at, at + on)
            made.ready(thread, at + on, at + off)
            if off < 30:
                made.wait(thread, at + off, at + 30, on=Wait.TIMER, source=Source.TIMER)
    return made


def test_as_many_threads_that_compute_as_there_are_cpus_limit_and_not_the_cpus() -> None:
    assert named_in(competing((0.78, 0.22), (0.78, 0.22), (0.25, 0.02))) == (LimitKind.THREAD, "worker")


def test_where_a_cpu_and_a_faster_thread_would_both_help_neither_is_named() -> None:
    limit = found_in(competing(*[(0.64, 0.22)] * 3)).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "another CPU or a faster 3 × worker would help" in limit.sentence


def test_a_housekeeper_that_sleeps_beside_those_that_work_does_not_limit() -> None:
    made = Made()
    main, keeper = made.thread("app"), made.thread("keeper")
    workers = [made.thread("left"), made.thread("right")]
    made.wait(main, 0, 1000, keeper, item=1)
    made.wait(keeper, 0, 999, on=Wait.TIMER, source=Source.TIMER)
    made.run(keeper, 999, 1000)
    for worker in workers:
        made.run(worker, 0, 450)
        made.wait(worker, 450, 1000, keeper, item=8192)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "they hardly depend on it" in limit.sentence


@pytest.mark.parametrize(("busy", "kind"), [(False, LimitKind.PROCESS), (True, LimitKind.CPU)])
def test_a_cpu_that_wakes_up_for_a_thread_is_no_lack_of_cpus(busy: bool, kind: LimitKind) -> None:
    made = Made()
    client, server = made.thread("client"), made.thread("server", pid=200)
    for at in range(0, 1000, 10):
        made.wait(client, at, at + 7, server, on=Wait.SOCKET)
        made.ready(client, at + 7, at + 9)
        made.run(client, at + 9, at + 10)
        made.ready(server, at, at + 3)
        made.run(server, at + 3, at + 7)
        made.wait(server, at + 7, at + 10, client, on=Wait.SOCKET)
        if busy:
            made.foreign += [(0, at * MS, (at + 3) * MS, 9), (0, (at + 7) * MS, (at + 9) * MS, 9)]
    assert found_in(made).limit.kind is kind


def test_a_lack_of_cpus_that_nobody_was_seen_to_cause_has_no_name() -> None:
    made = Made()
    made.without_cpu(made.thread("app"), 5)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "who had them was not seen" in limit.sentence


def test_a_quota_is_told_from_a_neighbour() -> None:
    made = Made()
    made.turns(made.thread("app"), 30, period=100, on=Wait.THROTTLED, source=Source.TIMER)
    assert named_in(made) == (LimitKind.CPU, "CPU quota")


def test_the_one_late_worker_is_named_and_not_its_role() -> None:
    made = Made()
    main = made.thread("app")
    workers = [made.thread(f"worker-{i}") for i in range(4)]
    for i in range(10):
        at = 100 * i
        made.wait(main, at, at + 100, workers[2])
        for worker in workers:
            until = at + (100 if worker == workers[2] else 30)
            made.run(worker, at, until)
            if until < at + 100:
                made.wait(worker, until, at + 100, workers[2])
    assert named_in(made) == (LimitKind.THREAD, "worker-2")


def test_a_slow_child_is_another_process() -> None:
    made = Made()
    main, child = made.thread("client"), made.thread("server", pid=200)
    made.parents[child] = main
    made.in_turn(main, child, 1, on=Wait.SOCKET, item=3)
    assert named_in(made) == (LimitKind.PROCESS, "server")


def test_a_server_that_waits_for_its_client_waits_for_work() -> None:
    made = Made()
    main, client = made.thread("server"), made.thread("client", pid=200)
    made.in_turn(main, client, 1, on=Wait.SOCKET, item=3)
    found = analyse(made.schedule(), listens=frozenset({100}))
    assert found.limit.kind is LimitKind.LOAD


def test_of_two_equal_stages_the_one_without_a_cpu_is_not_named_for_it() -> None:
    made = Made()
    made.thread("app")
    first, last = made.thread("parse"), made.thread("book")
    for i in range(100):
        at = 10 * i
        made.run(first, at, at + 7)
        made.ready(first, at + 7, at + 9.9)
        made.wait(first, at + 9.9, at + 10, last)
    made.turns(last, 6.9, first)
    assert found_in(made).limit.kind is LimitKind.UNKNOWN


def test_a_shell_that_became_another_program_has_its_name() -> None:
    made = Made()
    main = made.thread("pigz")
    made.commands[100] = ("sh", "-c", "exec pigz")
    made.run(main, 0, 1000)
    assert found_in(made).limit.name == "pigz"


def test_what_was_not_seen_is_not_guessed() -> None:
    made = Made()
    main = made.thread("app")
    made.run(main, 0, 500)
    made.rows.append((main, State.UNSEEN, 0, 0, -1, 500 * MS, 1000 * MS, -1, -1, -1))
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "could not be seen" in limit.sentence


def test_a_moment_is_too_short_for_an_answer() -> None:
    made = Made(seconds=0.05)
    made.run(made.thread("app"), 0, 50)
    assert found_in(made).limit.kind is LimitKind.UNKNOWN


def test_a_thread_that_spins_is_not_taken_for_the_one_that_works() -> None:
    made = Made()
    made.thread("app")
    spins, works = made.thread("spins"), made.thread("works")
    made.run(spins, 0, 1000)
    made.run(works, 0, 1000)
    made.stack(spins, "sched_yield", "pop", times=50)
    made.stack(works, "compute", "book", times=50)
    found = found_in(made)
    assert (found.limit.kind, found.limit.name.split(" ")[0]) == (LimitKind.THREAD, "works")
    assert [role.name.split(" ")[0] for role in found.roles if role.spins] == ["spins"]


def test_code_names_the_function_of_the_program_and_not_of_a_library() -> None:
    made = pipeline(fast=2, slow=10)
    made.stack(2, "crunch", "book_loop", times=50)
    code = found_in(made).limit.code
    assert [(c.function, c.file, c.line, c.share) for c in code] == [("crunch", "app.c", 7, 1.0)]


def test_threads_of_one_name_with_numbers_are_one_role() -> None:
    made = Made()
    made.thread("app")
    for i in range(3):
        made.run(made.thread(f"worker-{i}"), 0, 1000)
    assert [(r.name, r.count) for r in found_in(made).roles if r.name == "worker"] == [("worker", 3)]


def test_an_interpreter_is_named_by_its_script() -> None:
    made = Made()
    main = made.thread("python3")
    made.commands[100] = ("/usr/bin/python3", "-X", "dev", "feed.py", "7")
    made.run(main, 0, 1000)
    assert found_in(made).limit.name == "feed.py"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("perl", "-e", "while (<>) { print }"), "perl -e"),
        (("perl", "-ne", "print if /x/", "log"), "perl -ne"),
        (("java", "-cp", "/tmp/made", "Glacier", "2"), "Glacier"),
        (("node", "polls.js"), "polls.js"),
    ],
)
def test_a_program_of_a_runtime_has_its_own_name_before_that_of_the_runtimes_function(
    command: tuple[str, ...], name: str
) -> None:
    made = Made()
    made.thread(command[0])
    made.commands[100] = command
    made.wait(0, 0, 1000, source=Source.UNKNOWN, item=1)
    worker = made.thread(command[0])
    made.run(worker, 0, 1000)
    made.stack(worker, "interpret", "ThreadJavaMain", times=40)
    assert found_in(made).limit.name == f"{name}: ThreadJavaMain"


@pytest.mark.parametrize("command", [("python3", "-E", "feed.py"), ("bash", "-e", "feed.py")])
def test_an_option_that_comes_before_a_script_does_not_hide_its_name(command: tuple[str, ...]) -> None:
    made = Made()
    made.run(made.thread(command[0]), 0, 1000)
    made.commands[100] = command
    assert found_in(made).limit.name == "feed.py"


def test_edges_say_who_ends_whose_waits_how_often() -> None:
    edge = found_in(pipeline(fast=2, slow=10)).edges[0]
    assert (edge.source, edge.to, edge.kind, edge.per_second) == ("book", "parse", "futex", 100.0)
    assert edge.waiting == pytest.approx(0.8)


def test_the_shares_of_the_progress_sum_to_one() -> None:
    assert sum(found_in(pipeline(fast=2, slow=10)).progress.values()) == pytest.approx(1.0, abs=0.01)


def test_a_lock_that_is_held_while_sleeping_is_the_limit_though_another_lock_is_taken_on_the_way() -> None:
    # As in CPython: who got the lock takes the interpreter's first, from the one that has just given it up.
    made = Made()
    workers = [made.thread("worker") for _ in range(2)]
    lock, other = 4096, 8192
    stack = made.stack(0, "pthread_mutex_lock", "update", running=False)
    for i in range(100):
        at, me, last = i * 10, workers[i % 2], workers[(i + 1) % 2]
        made.wait(me, at + 0.3, at + 9.9, on=Wait.TIMER, source=Source.TIMER, item=-1)
        made.run(me, at + 9.9, at + 10.3)
        made.wait(last, at + 0.3, at + 10.0, me, item=lock, sample=stack)
        made.wait(last, at + 10.0, at + 10.05, me, item=other)
        made.run(last, at + 10.05, at + 10.3)
    assert named_in(made) == (LimitKind.LOCK, f"lock {lock:#x} in update")


def test_a_quota_that_stopped_the_group_is_why_there_was_no_cpu() -> None:
    made = Made()
    made.without_cpu(made.thread("app"), 30, period=100)
    schedule = replace(made.schedule(), quota="30 ms in each 100 ms", throttled_ns=700 * MS)
    limit = analyse(schedule).limit
    assert (limit.kind, limit.name) == (LimitKind.CPU, "CPU quota")
    assert "30 ms in each 100 ms" in limit.sentence


def test_who_only_supervises_and_kills_at_the_end_does_not_limit() -> None:
    made = Made()
    shell, timer = made.thread("bash", 100), made.thread("timeout", 101)
    main, worker = made.thread("pigz", 102), made.thread("pigz", 102)
    made.wait(shell, 0, 1000, timer, on=Wait.CHILD)
    made.wait(timer, 0, 1000, source=Source.TIMER, on=Wait.SIGNAL)
    made.wait(main, 0, 999, timer)
    made.run(main, 999, 1000)
    made.run(worker, 0, 1000)
    made.parents.update({timer: shell, main: timer, worker: main})
    limit = found_in(made).limit
    # Who waits for the one process that it started is a wrapper: what limits is a thread of the program.
    assert (limit.kind, limit.name) == (LimitKind.THREAD, "pigz: thread")


def test_threads_have_the_names_of_the_stages_that_they_run() -> None:
    made = pipeline(fast=2, slow=10)
    made.names[1:3] = ["stage", "stage"]
    schedule = made.schedule()
    tids = [thread.tid for thread in schedule.threads]
    found = analyse(schedule, labels={tids[1]: "parser", tids[2]: "writer"})
    assert found.limit.name == "writer"
    assert {role.name for role in found.roles} == {"app", "parser", "writer"}


def test_a_pool_has_one_name_though_one_of_its_threads_is_known() -> None:
    made = Made()
    made.thread("app")
    for _ in range(3):
        made.run(made.thread("worker"), 0, 1000)
    schedule = made.schedule()
    (pool,) = [
        role for role in analyse(schedule, labels={schedule.threads[2].tid: "hash"}).roles if role.count > 1
    ]
    assert (pool.name, pool.count) == ("hash", 3)


def test_a_time_out_that_nobody_waits_on_after_is_a_sleep() -> None:
    made = Made()
    made.turns(made.thread("app"), 1, source=Source.TIMER)
    assert found_in(made).limit.kind is LimitKind.TIMER


def test_a_word_for_which_all_wait_nearly_always_is_no_lock_of_theirs() -> None:
    # As at a queue's signal: who got it hands it on, and all of them wait nearly always.
    made = Made()
    made.thread("app")
    takers = [made.thread("taker-1"), made.thread("taker-2")]
    for i in range(100):
        mine, other = takers[i % 2], takers[1 - i % 2]
        made.run(mine, 10 * i, 10 * i + 0.5)
        made.wait(mine, 10 * i + 0.5, 10 * i + 10, other, item=0x7000)
        made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000)
    assert found_in(made).locks == ()


def test_threads_that_park_on_words_of_their_own_and_take_turns_are_not_named() -> None:
    # As Java's monitors: each waits for its own word, and the one that leaves wakes the next.
    made = Made()
    made.thread("app")
    tellers = [made.thread(f"teller-{k}") for k in range(3)]
    for i in range(99):
        mine = tellers[i % 3]
        made.run(mine, 10 * i, 10 * i + 10)
        for k, other in enumerate(tellers):
            if other != mine:
                made.wait(other, 10 * i, 10 * i + 10, mine, item=0x7000 + 64 * k)
    limit = found_in(made).limit
    assert limit.kind is LimitKind.UNKNOWN
    assert "wait for each other" in limit.sentence


def test_threads_that_park_to_enter_a_monitor_wait_for_one_lock() -> None:
    made = Made()
    made.thread("app")
    tellers = [made.thread(f"teller-{k}") for k in range(3)]
    other = [made.thread(f"porter-{k}") for k in range(2)]  # of another monitor
    park = ("__futex_abstimed_wait_common", "pthread_cond_wait", "os::PlatformEvent::park()")
    enters = ("ObjectMonitor::EnterI(JavaThread*)", "ObjectMonitor::enter(JavaThread*)", "deposit")
    stacks = {one: made.stack(one, *park, *enters, running=False) for one in (*tellers, *other)}
    made.frames[:] = [
        replace(one, module="/jvm/libjvm.so") if "::" in one.function else one for one in made.frames
    ]
    for i in range(99):
        for crew, ran in ((tellers, 10), (other, 1)):
            mine = crew[i % len(crew)]
            made.run(mine, 10 * i, 10 * i + ran)
            for one in crew:
                if one != mine:
                    word = 0x7000 + 64 * one
                    made.wait(one, 10 * i, 10 * i + ran, mine, item=word, sample=stacks[one])
    found = found_in(made)
    assert (found.limit.kind, found.limit.name) == (LimitKind.LOCK, "Java monitor in deposit")
    assert [(lock.waiters, lock.address) for lock in found.locks] == [
        (("teller (deposit)",), 0),
        (("porter (deposit)",), 0),
    ]


def test_a_main_thread_that_works_like_its_workers_is_one_of_them() -> None:
    made = Made()
    main, worker = made.thread("app"), made.thread("app")
    for thread, name in ((main, "main"), (worker, "start_thread")):
        made.run(thread, 0, 990)
        made.wait(thread, 990, 1000, 1 - thread)
        made.stack(thread, "search", "explore", name, times=40)
    assert [(one.name, one.count) for one in found_in(made).roles] == [("explore", 2)]


def test_a_function_with_spin_in_its_name_may_work() -> None:
    made = Made()
    made.thread("app")
    works = made.thread("carrier")
    made.run(works, 0, 1000)
    made.stack(works, "weave", "spin_yarn", "carrier", times=50)
    made.frames[:] = [replace(one, module="/usr/bin/mill") for one in made.frames]
    found = found_in(made)
    assert (found.limit.kind, found.limit.name.split(" ")[0]) == (LimitKind.THREAD, "carrier")


def test_samples_without_a_name_count_beside_those_with_one() -> None:
    made = Made()
    made.thread("app")
    works = made.thread("presser")
    made.run(works, 0, 1000)
    made.stack(works, "", times=95)  # code that was made at run time
    made.stack(works, "signal_next", times=5)
    made.frames[0] = Frame("", "", 0)
    role = next(one for one in found_in(made).roles if one.name.startswith("presser"))
    assert [(one.function, one.share) for one in role.code] == [("signal_next", 0.05)]
    assert "mostly in" not in found_in(made).limit.sentence


def test_two_threads_in_one_spin_lock_of_a_library_wait_for_a_lock() -> None:
    made = Made()
    threads = [made.thread("app"), made.thread("worker-1"), made.thread("worker-2")]
    made.wait(threads[0], 0, 1000, source=Source.UNKNOWN, item=1)
    for thread in threads[1:]:
        made.run(thread, 0, 1000)
        made.stack(thread, "pthread_spin_lock", "count_word", "counter", times=40)
        made.stack(thread, "count_word", "counter", times=60)
    limit = found_in(made).limit
    assert (limit.kind, "count_word" in limit.name) == (LimitKind.LOCK, True)


def test_threads_that_spin_for_a_lock_on_too_few_cpus_wait_for_the_lock() -> None:
    made = Made()
    made.wait(made.thread("app"), 0, 1000, source=Source.UNKNOWN, item=1)
    threads = [made.thread(f"pump-{number}") for number in range(3)]
    for i in range(100):
        for at, thread in enumerate(threads):
            if at == i % 3:
                made.ready(thread, 10 * i, 10 * i + 10)
            else:
                made.run(thread, 10 * i, 10 * i + 10)
    for thread in threads:
        made.stack(thread, "pthread_spin_lock", "rebalance", times=60)
        made.stack(thread, "rebalance", times=40)
    limit = found_in(made).limit
    assert (limit.kind, "rebalance" in limit.name) == (LimitKind.LOCK, True)


def test_the_lock_of_an_interpreter_in_which_one_thread_works_does_not_limit() -> None:
    made = Made()
    made.thread("app")
    planner, helper = made.thread("planner"), made.thread("helper")
    stack = made.stack(helper, "take_gil", "eval", running=False)
    made.in_turn(planner, helper, 9.5, item=0x7000, sample=stack)
    assert named_in(made) == (LimitKind.THREAD, "planner")


def test_processes_that_hand_a_system_v_semaphore_round_wait_for_a_lock() -> None:
    made = Made()
    hands = [made.thread("farmhand", pid=100 * (1 + one)) for one in range(3)]
    stacks = [made.stack(one, "semop", "drill", "main", running=False) for one in hands]
    order = np.random.default_rng(3).integers(1, 3, 100)
    mine = 0
    for i in range(100):
        made.run(hands[mine], 10 * i, 10 * i + 10)
        for other in range(3):
            if other != mine:
                made.wait(
                    hands[other], 10 * i, 10 * i + 10, hands[mine],
                    on=Wait.SEMAPHORE, item=32769, sample=stacks[other],
                )  # fmt: skip
        mine = (mine + int(order[i])) % 3
    limit = found_in(made).limit
    assert (limit.kind, limit.name) == (LimitKind.LOCK, "System V semaphore 32769 in drill")
    assert "the System V semaphore 32769, waited for in drill" in limit.sentence


@pytest.mark.parametrize(("due", "kind"), [(True, LimitKind.TIMER), (False, LimitKind.UNKNOWN)])
def test_who_sleeps_until_its_next_round_is_due_paces_itself_however_much_it_works(
    due: bool, kind: LimitKind
) -> None:
    made = Made()
    main, keeper = made.thread("app"), made.thread("keeper")
    made.wait(main, 0, 1000, source=Source.UNKNOWN, item=1)
    at, works = 0.0, np.random.default_rng(7).uniform(4.5, 7.0, 200)
    for work in works.tolist():
        sleep = 10.0 - work if due else 4.25
        if at + work + sleep > 1000:
            break
        made.run(keeper, at, at + work)
        made.wait(keeper, at + work, at + work + sleep, on=Wait.TIMER, source=Source.TIMER)
        at += work + sleep
    found = found_in(made)
    assert found.limit.kind is kind
    if due:
        assert found.limit.name == "keeper"
        assert found.limit.sentence.startswith("No resource is short: keeper paces itself.")
        assert found.limit.share > 0.95


def test_a_program_with_a_thread_that_waits_for_its_child_is_no_supervisor() -> None:
    made = Made()
    main, watcher, site = made.thread("app"), made.thread("waitpid-0"), made.thread("site", 200)
    made.parents.update({watcher: main, site: watcher})
    made.in_turn(main, site, 9, on=Wait.SOCKET, item=0)
    made.wait(watcher, 0, 1000, site, on=Wait.CHILD)
    found = found_in(made)
    assert found.root == 100
    assert (found.limit.kind, found.limit.name) == (LimitKind.THREAD, "app")
