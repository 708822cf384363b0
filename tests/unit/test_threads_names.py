"""What threads, roles and programs are called."""

from __future__ import annotations

import re

import pytest
from tests.unit.threads_made import Made, found_in, pipeline

from latlab.model.schedule import Frame, Source, Wait
from latlab.model.threads import Code, LimitKind
from latlab.schedule.code.names import telling
from latlab.system.kernel.polling import LOOKS, TAKES
from latlab.threads import analyse
from latlab.threads._code import spin_lock
from latlab.threads._roles import groups_of


def named(thread: str, command: tuple[str, ...]) -> str:
    """How the one thread of a process is called that runs all the time."""
    made = Made()
    made.run(made.thread(thread), 0, 1000)
    made.commands[100] = command
    return found_in(made).limit.name


@pytest.mark.parametrize(
    ("name", "line"),
    [("pigz", "exec pigz"), ("sha512sum", "dd | sha512sum")],  # the second begins like its shell's name
)
def test_a_shell_that_became_another_program_has_its_name(name: str, line: str) -> None:
    assert named(name, ("sh", "-c", line)) == name


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


@pytest.mark.parametrize(
    ("entries", "names"),
    [
        ({1: "rank0", 2: "rank1"}, ["app", "rank0", "rank1"]),
        ({1: "rank0", 2: "rank0"}, ["app", "rank"]),
        ({1: "sparse", 2: "dense"}, ["app", "rank (dense)", "rank (sparse)"]),
    ],
)
def test_threads_of_one_name_that_start_in_unlike_functions_are_told_by_these(
    entries: dict[int, str], names: list[str]
) -> None:
    """rank-0 and rank-1 are not "rank" and "rank'" where they run rank0 and rank1."""
    made = Made()
    for name in ("app", "rank-0", "rank-1"):
        made.run(made.thread(name), 0, 300)
    assert sorted(group.name for group in groups_of(made.schedule(), entries)) == names


@pytest.mark.parametrize(
    ("commands", "on", "names"),
    [
        (("log write 5", "log read 0"), Wait.PIPE, ["log read", "log write"]),
        (("python3 log.py write", "python3 log.py read"), Wait.SOCKET, ["log.py read", "log.py write"]),
        (("gzip -c", "gzip -d"), Wait.PIPE, ["gzip -c", "gzip -d"]),
        (("log write", "log read"), Wait.FUTEX, ["log"]),  # nothing is handed over
        (("sort a.txt", "sort b.txt"), Wait.PIPE, ["sort"]),
        (("log 1", "log 2"), Wait.PIPE, ["log"]),
        (("log read 1", "log read 2"), Wait.PIPE, ["log"]),
        (("log", "log"), Wait.PIPE, ["log"]),
    ],
)
def test_processes_of_one_program_that_hand_each_other_work_are_told_by_their_task(
    commands: tuple[str, str], on: Wait, names: list[str]
) -> None:
    made = Made()
    for pid, command in enumerate(commands, 100):
        made.thread(command.split()[0], pid)
        made.commands[pid] = tuple(command.split())
    made.in_turn(0, 1, 5, on=on)
    assert sorted(group.name for group in groups_of(made.schedule(), {})) == names


def test_an_interpreter_is_named_by_its_script() -> None:
    assert named("python3", ("/usr/bin/python3", "-X", "dev", "feed.py", "7")) == "feed.py"


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
    assert named(command[0], command) == "feed.py"


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


def test_threads_of_one_name_of_which_some_have_a_label_are_one_role() -> None:
    made = pipeline(fast=2, slow=10)
    made.names[1:3] = ["parse_page", "pool"]
    schedule = made.schedule()
    found = analyse(schedule, labels={schedule.threads[2].tid: "parse_page"})
    assert sorted((role.name, role.count) for role in found.roles) == [("app", 1), ("parse_page", 2)]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("nginx: master process nginx -p /srv/data -c /srv/nginx.conf", "nginx: master process nginx"),
        ("nginx: worker process", "nginx: worker process"),
        ("nginx: master process /usr/sbin/nginx", "nginx: master process"),
    ],
)
def test_a_title_names_a_process_without_what_it_was_started_with(title: str, name: str) -> None:
    assert named("nginx", (title,)) == name


def test_an_interpreter_that_a_shim_became_is_called_by_what_it_runs() -> None:
    assert named("python3", ("bash", "/home/me/.pyenv/shims/python3", "-u", "ship.py", "120")) == "ship.py"


def test_what_keeps_track_of_a_programs_resources_is_called_so() -> None:
    line = "from multiprocessing.resource_tracker import main;main(5)"
    assert named("python3", ("/usr/bin/python3", "-c", line)) == "multiprocessing resource tracker"


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


@pytest.mark.parametrize("state", ["idle", "idle in transaction", "COMMIT", "LOCK TABLE waiting"])
def test_what_a_server_does_at_the_moment_is_no_part_of_its_name(state: str) -> None:
    assert named("postgres", (f"postgres: bench shop [local] {state}",)) == "postgres: bench shop [local]"


def test_short_threads_of_one_name_are_one_role_though_few_were_sampled() -> None:
    made = Made()
    made.thread("app")
    for number in range(6):
        late = made.thread("late")
        made.run(late, 100 * number, 100 * number + 60)
        if number == 2:
            made.stack(late, "crunch(int)", "begin(void*)", "start_thread", "clone3", times=30)

    late_ones = [(role.name, role.count) for role in found_in(made).roles if "late" in role.name]
    assert late_ones == [("late (begin)", 6)]


def test_the_function_that_calls_the_hottest_one_is_told() -> None:
    made = pipeline(2, 10)
    made.stack(2, "spin(long)", "book::match(int)", "book_thread", times=40)
    limit = found_in(made).limit

    assert [(code.function, code.caller) for code in limit.code] == [("spin", "book::match")]
    assert "spin, called by book::match" in limit.sentence


def test_a_function_without_a_name_is_the_place_and_not_the_one_with_a_name_that_called_it() -> None:
    made = pipeline(2, 10)
    made.stack(2, "", "", "filter_add", "crunch_thread", times=40)
    library = "/usr/lib/libfilter.so.8"
    inner, middle, outer, _ = made.stacks[-1]
    made.frames[inner] = Frame("", module=library, offset=0x3ECA18, begin=0x3EC780)
    made.frames[middle] = Frame("", module=library, offset=0x2F1400, begin=0x2F13A0)
    made.frames[outer] = Frame("filter_add", module=library, offset=0x1BAC50)
    limit = found_in(made).limit

    assert "libfilter.so.8+0x3ec780, called by filter_add" in limit.sentence


def test_the_next_one_is_told_by_what_it_ran_and_what_it_lacked() -> None:
    made = pipeline(2, 10)
    evidence = " ".join(found_in(made).limit.evidence)

    assert "the next one, " in evidence
    assert "is busy" not in evidence
    assert re.search(
        r"the next one, .*, ran \d[\d.]* % of the time, and was runnable without a CPU", evidence
    )


def test_what_a_lock_is_held_for_is_told_and_by_whom_mostly() -> None:
    made = Made()
    made.thread("app")
    threads = [made.thread(name) for name in ("writer", "reader")]
    taken = ("__lll_lock_wait", "pthread_mutex_lock", "session")
    stacks = [made.stack(one, *taken, running=False) for one in threads]
    for i in range(100):
        mine, other = threads[i % 2], threads[1 - i % 2]
        long = 14 if i % 2 == 0 else 6
        at = 10 * i if i % 2 == 0 else 10 * i + 4
        made.run(mine, at, at + long)
        made.wait(other, at, at + long, mine, item=0x7000, sample=stacks[1 - i % 2])
    for thread in threads:
        made.stack(thread, "spin", "append_journal", "session", times=500)
    limit = found_in(made).limit

    assert limit.kind is LimitKind.LOCK
    assert "mostly in append_journal" in limit.sentence
    assert "held by writer (session) (70.0 %), reader (session) (30.0 %)" in limit.sentence


def test_parts_that_do_not_wait_for_each_other_have_no_one_limit() -> None:
    made = Made()
    main, hog = made.thread("app"), made.thread("statistics")
    made.run(hog, 0, 1000)
    made.turns(main, 1, on=Wait.TIMER, source=Source.TIMER)
    found = found_in(made)

    assert found.limit.kind is LimitKind.UNKNOWN
    assert "statistics (thread)" in found.limit.sentence
    assert "app (timer)" in found.limit.sentence
    assert found.apart


def test_a_function_that_has_lines_of_other_files_inlined_is_told_once() -> None:
    made = pipeline(2, 10)
    made.stack(2, "spin", "book_thread", times=30)
    made.stack(2, "spin", "book_thread", times=10)
    first, second = len(made.frames) - 4, len(made.frames) - 2
    made.frames[first] = Frame("spin", "app.rs", 7, "app")
    made.frames[second] = Frame("spin", "num.rs", 9, "app")
    code = found_in(made).limit.code

    assert [(one.function, one.file, one.share) for one in code] == [("spin", "app.rs", 1.0)]


_RUSTC = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/intrinsics/mod.rs"


@pytest.mark.parametrize(
    ("library", "own", "told"),
    [
        (_RUSTC, "src/app.rs", ("src/app.rs", 7)),
        ("/usr/include/c++/12/bits/stl_vector.h", "app.cpp", ("app.cpp", 7)),
        ("/root/.cargo/registry/src/index-1/hashbrown-0.15.2/src/map.rs", "app.rs", ("app.rs", 7)),
        (_RUSTC, _RUSTC, ("app", 0)),  # a path that is on nobody's disk
    ],
)
def test_a_function_is_told_by_a_line_of_its_program_where_most_lie_in_what_is_inlined(
    library: str, own: str, told: tuple[str, int]
) -> None:
    made = pipeline(2, 10)
    made.stack(2, "spin", "book_thread", times=30)
    made.stack(2, "spin", "book_thread", times=10)
    first, second = len(made.frames) - 4, len(made.frames) - 2
    made.frames[first] = Frame("spin", library, 434, "app")
    made.frames[second] = Frame("spin", own, 7, "app")
    code = found_in(made).limit.code

    assert [(one.function, one.file, one.line) for one in code] == [("spin", *told)]


def test_where_threads_spin_for_a_lock_is_told_by_a_line_of_their_program() -> None:
    made = Made()
    thread = made.thread("app")
    made.run(thread, 0, 1000)
    made.stack(thread, "pass_gate", times=30)
    made.stack(thread, "pass_gate", times=10)
    made.frames[-2] = Frame("pass_gate", _RUSTC, 434, "app", polls=TAKES)
    made.frames[-1] = Frame("pass_gate", "app.rs", 7, "app", polls=TAKES)

    assert spin_lock(made.schedule(), [thread]) == Code("pass_gate", "app.rs", 7, 1.0)


def test_what_a_loop_pauses_by_is_part_of_the_lock_that_it_waits_for() -> None:
    made = Made()
    thread = made.thread("app")
    made.run(thread, 0, 1000)
    made.stack(thread, "_mm_pause()", "Spin::lock()", times=30)
    made.stack(thread, "Spin::lock()", times=2)
    made.frames[-3] = Frame("_mm_pause()", "pause.h", 3, "app", polls=LOOKS)
    made.frames[-2] = Frame("Spin::lock()", "app.cpp", 8, "app")
    made.frames[-1] = Frame("Spin::lock()", "app.cpp", 8, "app", polls=TAKES)

    assert spin_lock(made.schedule(), [thread]) == Code("Spin::lock", "app.cpp", 8, 1.0)


def test_a_thread_that_the_program_named_is_not_told_by_where_its_runtime_starts_threads() -> None:
    made = Made()
    made.thread("ruby")
    made.commands[100] = ("ruby", "press.rb")
    typeset = made.thread("typeset")
    made.run(typeset, 0, 1000)
    made.stack(typeset, "rb_ary_sort", "rb_vm_invoke_proc", "start_thread", "clone3", times=30)

    assert [role.name for role in found_in(made).roles if "typeset" in role.name] == ["press.rb: typeset"]


@pytest.mark.parametrize(
    ("library", "name"),
    [("/usr/lib/x86_64-linux-gnu/libz.so.1", ""), ("/usr/lib/libcrypto.so.3", "SHA256_Final")],
)
def test_what_python_code_has_a_library_compute_is_told_as_that_code(library: str, name: str) -> None:
    native = Frame(name, module=library, offset=0x5D80, begin=0 if name else 0x5D00)
    inside = Frame("compress", "/usr/lib/python3.11/zlib.py", 3)
    own = Frame("parse_page", "/home/me/app.py", 4)
    outer = Frame("main", "/home/me/app.py", 20)
    assert telling([native, Frame("deflate", module=library), inside, own, outer]) is own
    mine = Frame("blend", module="/home/me/fast.cpython-311-x86_64-linux-gnu.so", begin=64)
    assert telling([mine, own, outer]) is mine
    assert telling([native]) is native


def test_the_thread_that_feeds_a_queue_between_processes_is_called_so() -> None:
    made = Made()
    made.thread("python3")
    feeder = made.thread("python3")
    made.commands[100] = ("python3", "thumbs.py")
    made.run(feeder, 0, 1000)
    made.stack(feeder, "dumps", "Queue._feed", "Thread.run", times=50)
    library = "/usr/lib/python3.11/multiprocessing/"
    made.frames[0] = Frame("dumps", library + "reduction.py", 51)
    made.frames[1] = Frame("Queue._feed", library + "queues.py", 244)
    made.frames[2] = Frame("Thread.run", "/usr/lib/python3.11/threading.py", 982)
    assert "QueueFeederThread" in {role.name for role in found_in(made).roles}
