"""What sampled stacks say of threads, on stacks that are made by hand."""

from __future__ import annotations

import numpy as np

from latlab.model.schedule import FOREIGN, INTERVAL, SAMPLE, WAKE, Frame, Losses, Schedule, ScheduledThread
from latlab.threads._code import coroutine_of, forked_workers, hottest, in_sync, own_function, own_place

LIBRARY = "/usr/lib/python3.11"
RUN = Frame("Handle._run", f"{LIBRARY}/asyncio/events.py", 84)
ONCE = Frame("BaseEventLoop._run_once", f"{LIBRARY}/asyncio/base_events.py", 1922)
BLOCKING = Frame("enrich", "/app/feed.py", 31)
OTHER = Frame("publish", "/app/feed.py", 50)
HASHING = Frame("digest", "/app/work.py", 9)

Stack = tuple[Frame, ...]


def schedule(*samples: tuple[int, Stack, int], running: bool = True) -> Schedule:
    """(thread, its stack, innermost first, how many samples of it)."""
    frames = list({frame: None for _, stack, _ in samples for frame in stack})
    rows = [
        (0, thread, int(running), number)
        for number, (thread, _, times) in enumerate(samples)
        for _ in range(times)
    ]
    return Schedule(
        0,
        10**9,
        (0, 1),
        tuple(ScheduledThread(100 + i, 100 + i, "python", "python", 0, 10**9) for i in range(2)),
        np.empty(0, INTERVAL),
        np.empty(0, WAKE),
        np.empty(0, FOREIGN),
        Losses("bpf"),
        samples=np.array(rows, SAMPLE),
        stacks=tuple(tuple(frames.index(frame) for frame in stack) for _, stack, _ in samples),
        frames=tuple(frames),
    )


def test_the_coroutine_that_holds_the_event_loop_is_named_with_its_line() -> None:
    held = coroutine_of(
        schedule((0, (HASHING, BLOCKING, RUN, ONCE), 80), (0, (OTHER, RUN, ONCE), 10), (0, (ONCE,), 10)), [0]
    )
    assert held is not None
    assert (held.function, held.file, held.line, held.share) == ("enrich", "/app/feed.py", 31, 0.8)


def test_of_coroutines_that_share_the_loop_none_is_named() -> None:
    assert coroutine_of(schedule((0, (BLOCKING, RUN), 50), (0, (OTHER, RUN), 50)), [0]) is None


def test_a_thread_without_an_event_loop_runs_no_coroutine() -> None:
    assert coroutine_of(schedule((0, (HASHING, BLOCKING), 50)), [0]) is None


def test_what_a_thread_computes_for_a_disk_is_the_disks() -> None:
    sync, computing = Frame("fdatasync", module="/lib/libc.so.6"), Frame("append", "/app/log.c", 4)
    seen = schedule((0, (sync, computing), 30), (0, (computing,), 10), (1, (computing,), 10))
    assert (in_sync(seen, [0]), in_sync(seen, [1])) == (0.75, 0.0)


def test_a_process_is_named_by_the_function_that_only_it_calls() -> None:
    main, serve = Frame("main", "/app/app.py", 3), Frame("serve", "/app/app.py", 20)
    start = Frame("BaseProcess._bootstrap", f"{LIBRARY}/multiprocessing/process.py", 314)
    seen = schedule((0, (HASHING, main), 40), (1, (HASHING, serve, start, main), 40))
    assert (own_function(seen, 1, [0]), own_function(seen, 0, [1])) == ("serve", "")
    # What the parent was in when it forked is no function of the child's.
    made = Frame("<listcomp>", "/app/app.py", 30)
    seen = schedule((0, (HASHING, main), 40), (1, (HASHING, serve, start, made, main), 40))
    assert own_function(seen, 1, [0]) == "serve"
    assert forked_workers(seen) == {1}
    seen = schedule((0, (HASHING, main), 40), (0, (HASHING, serve, start, main), 1), (1, (serve, start), 9))
    assert forked_workers(seen) == {1}
    assert own_function(seen, 1, [0]) == "serve"


def test_functions_of_libraries_name_no_thread() -> None:
    sleep, wait = (
        Frame("clock_nanosleep", module="/lib/libc.so.6"),
        Frame("wait", f"{LIBRARY}/threading.py", 3),
    )
    stage = Frame("stage", "/app/app.py", 8)
    seen = schedule((0, (sleep, stage), 40), (1, (wait, stage), 40))
    assert (own_function(seen, 0, [1]), own_place(seen, [0]), own_place(seen, [1])) == ("", "stage", "stage")
    assert own_place(schedule((0, (sleep,), 40)), [0]) == ""


def test_who_calls_a_function_is_told_with_how_much_of_it_where_others_call_it_too() -> None:
    work, resize, load = (Frame(name, f"/app/{name}.c", 3) for name in ("work", "resize", "load"))
    (code,) = hottest(schedule((0, (work, resize), 80), (0, (work, load), 20)), [0])
    assert (code.function, code.caller, code.calls, code.share) == ("work", "resize", 0.8, 1.0)
    assert code.told == "work, 80 % of it called by resize"
    (code,) = hottest(schedule((0, (work, resize), 98), (0, (work, load), 2)), [0])
    assert code.told == "work, called by resize"


def test_a_library_without_symbols_is_told_by_what_was_called_in_it() -> None:
    inside = tuple(Frame("", module="/lib/libz.so.1", offset=0x4A00 + i) for i in range(8))
    call, program = Frame("deflate", module="/lib/libz.so.1"), Frame("", module="/usr/bin/pigz", offset=0x900)
    (code,) = hottest(schedule(*((0, (one, call, program), 10) for one in inside)), [0])
    assert (code.function, code.file, code.share) == ("deflate", "/lib/libz.so.1", 1.0)
    # What the program itself does has no name, whatever library's function has called it.
    copy, caller = Frame("memmove", module="/lib/libc.so.6"), Frame("bsearch_r", module="/lib/libother.so")
    (code,) = hottest(schedule((0, (copy, program, caller), 10)), [0])
    assert code.function == "pigz+0x900"


def test_what_a_thread_computes_in_a_read_is_the_disks_only_where_it_waits_for_the_disk_there() -> None:
    read, computing = Frame("__libc_pread64", module="/lib/libc.so.6"), Frame("drill", "/app/core.c", 4)
    seen = schedule((0, (read, computing), 30), (0, (computing,), 10))
    assert (in_sync(seen, [0], moves=True), in_sync(seen, [0])) == (0.75, 0.0)
