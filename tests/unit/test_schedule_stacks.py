from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.files.tables import table_of

from latlab.model.schedule import INTERVAL, WAKE, Frame, Losses, Schedule, ScheduledThread, State, Wait
from latlab.schedule.code.names import entry_of, plain
from latlab.schedule.code.stacks import with_stacks
from latlab.system.kernel import jit_map
from latlab.system.kernel import stacks as kernel_stacks
from latlab.system.kernel.binaries.unwind_table import UnwindTable
from latlab.system.kernel.jit_map import jit_name, parse_jit_map, read_jit_map
from latlab.system.kernel.python_graft import graft
from latlab.system.kernel.python_stacks import PythonSamples, Seen, parse_chrome_trace
from latlab.system.kernel.stacks import Stacks

MS = 1_000_000
CRUNCH = Frame("crunch(double)", "a.cpp", 7, "/bin/a", 0x10)
WAITS = Frame("__futex_wait", "", 0, "/lib/libc.so.6", 0x20)
STARTS = Frame("start_thread", "", 0, "/lib/libc.so.6", 0x30)
FRAMES = (CRUNCH, WAITS, STARTS)
RUNS, BLOCKS = (0, 2), (1, 0, 2)


def _schedule() -> Schedule:
    rows = [
        (State.RUNNING, 0, 10),
        (State.BLOCKED, 10, 20),
        (State.RUNNING, 20, 30),
        (State.RUNNABLE, 30, 40),
    ]
    intervals = np.zeros(len(rows), INTERVAL)
    for row, (state, begin, end) in zip(intervals, rows, strict=True):
        row["state"], row["begin"], row["end"] = state, begin * MS, end * MS
        row["wait"] = Wait.FUTEX if state == State.BLOCKED else Wait.NONE
        row["sample"] = -1
    thread = ScheduledThread(71, 70, "a", "a", 0, 40 * MS)
    empty = np.empty(0, WAKE)
    return Schedule(0, 40 * MS, (0,), (thread,), intervals, empty, empty, Losses("bpf"))


def _stacks(samples: list[tuple[int, int, int, int]], notes: tuple[str, ...] = ()) -> Stacks:
    columns = np.array(samples, np.int64).reshape(-1, 4).T
    return Stacks(
        columns[0],
        np.full(columns.shape[1], 70, np.int32),
        columns[1].astype(np.int32),
        columns[2].astype(np.uint8),
        columns[3].astype(np.int32),
        (RUNS, BLOCKS),
        FRAMES,
        notes=notes,
    )


def test_a_blocked_interval_points_at_the_stack_that_was_taken_where_it_began() -> None:
    joined = with_stacks(_schedule(), _stacks([(10 * MS + 3000, 71, 0, 1)]))
    assert joined.intervals["sample"].tolist() == [-1, 0, -1, -1]
    sample = joined.samples[0]
    assert [joined.frames[i] for i in joined.stacks[sample["stack"]]] == [WAITS, CRUNCH, STARTS]
    assert int(sample["running"]) == 0


def test_the_stack_of_a_preempted_thread_is_no_place_where_it_blocks() -> None:
    assert len(with_stacks(_schedule(), _stacks([(30 * MS, 71, 0, 0)])).samples) == 0


def test_a_stack_far_from_any_beginning_is_left_out() -> None:
    assert len(with_stacks(_schedule(), _stacks([(14 * MS, 71, 0, 1)])).samples) == 0


def test_samples_of_strangers_are_left_out() -> None:
    joined = with_stacks(_schedule(), _stacks([(5 * MS, 99, 1, 0), (6 * MS, 71, 1, 0)]))
    assert joined.samples["time"].tolist() == [6 * MS]


def test_of_two_threads_with_one_number_each_gets_its_own_samples() -> None:
    schedule = _schedule()
    first = replace(schedule.threads[0], ended=True, ended_ns=8 * MS)
    second = replace(schedule.threads[0], began_ns=9 * MS)
    joined = with_stacks(
        replace(schedule, threads=(first, second)), _stacks([(5 * MS, 71, 1, 0), (25 * MS, 71, 1, 0)])
    )
    assert joined.samples["thread"].tolist() == [0, 1]


def test_a_thread_is_told_by_the_function_it_starts_in() -> None:
    assert with_stacks(_schedule(), _stacks([(5 * MS, 71, 1, 0)])).threads[0].entry == "crunch"


def test_what_the_sampler_could_not_see_is_told_with_the_losses() -> None:
    joined = with_stacks(_schedule(), _stacks([(5 * MS, 71, 1, 0)], notes=("apt install libdw1",)))
    assert joined.losses.notes == ("apt install libdw1",)


test_a_function_s_plain_name_has_no_arguments = table_of(
    plain,
    {
        "crunch(double)": "crunch",
        "feed::Parser::run(int, std::vector<int, std::allocator<int> >) const": "feed::Parser::run",
        "void pool::work<int, 3>(pool::Task<int>&)": "pool::work",
        "main::{lambda()#1}::operator()() const": "lambda #1 in main",
        "feed(int)::{lambda(int, char)#2}::operator()(int, char) const": "lambda #2 in feed",
        "memcpy@@GLIBC_2.14": "memcpy",
        "deflate.isra.0": "deflate",
        "(anonymous namespace)::compress(Block*)": "compress",
        "Table::operator()(int)": "Table::operator()",
        "main": "main",
        "<lambda>": "<lambda>",
        "Queue.get": "Queue.get",
    },
)


def test_a_stack_that_ends_too_early_names_no_beginning() -> None:
    assert entry_of([CRUNCH]) == ""


def test_a_python_thread_begins_in_its_target() -> None:
    frames = [
        Frame("parse", "/x/feed.py", 3),
        Frame("worker", "/x/feed.py", 12),
        Frame("Thread.run", "/usr/lib/python3.11/threading.py", 975),
        Frame("Thread._bootstrap", "/usr/lib/python3.11/threading.py", 995),
    ]
    assert entry_of(frames) == "worker"
    assert entry_of([Frame("load", "/x/feed.py", 3), Frame("<module>", "/x/feed.py", 40)]) == "feed.py"


def test_code_that_was_compiled_at_run_time_is_named_by_its_map(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/perf-12.map").write_text("7f10 20 LazyCompile:~handle app.js:3\nbroken\n7f00 10 stub\n")
    known = read_jit_map(12, root=tmp_path)
    assert jit_name(known, 0x7F12) == "LazyCompile:~handle app.js:3"
    assert jit_name(known, 0x7F0F) == "stub"
    assert jit_name(known, 0x7F30) == ""
    assert jit_name(parse_jit_map([]), 0x10) == ""


def test_a_map_of_endless_functions_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_map, "_MOST_ENTRIES", 10)
    begins, _ = parse_jit_map(f"{number:x} 1 a" for number in range(100))
    assert begins == list(range(10))
    monkeypatch.setattr(jit_map, "_MOST_BYTES", 32)  # two lines of 11 bytes, and the end of one
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp/perf-12.map").write_text("".join(f"{number:x} 10 stub\n" for number in range(256)))
    begins, _ = read_jit_map(12, root=tmp_path)
    assert begins == [0xFE, 0xFF]


def _event(kind: str, name: str, time_us: int, file: str = "", line: int = 0) -> dict[str, object]:
    return {
        "ph": kind,
        "name": name,
        "ts": time_us,
        "pid": 70,
        "tid": 5,
        "args": {"filename": file, "line": line},
    }


TRACE = [
    _event("B", "thread (71): decode", 100),
    _event("B", "worker", 100, "/x/feed.py", 12),
    _event("B", "parse", 100, "/x/feed.py", 3),
    _event("E", "parse", 40_100, "/x/feed.py", 3),
    _event("E", "worker", 60_100, "/x/feed.py", 12),
    _event("E", "thread (71): decode", 60_100),
]
WORKER, PARSE = Frame("worker", "/x/feed.py", 12), Frame("parse", "/x/feed.py", 3)


def test_a_recording_of_py_spy_gives_a_sample_a_step() -> None:
    samples = parse_chrome_trace(TRACE, 20_000)
    assert [(tid, at) for tid, at, _ in samples] == [(71, 100), (71, 20_100), (71, 40_100)]
    assert [stack for _, _, stack in samples] == [(PARSE, WORKER), (PARSE, WORKER), (WORKER,)]


def _grafted(running: int, python: PythonSamples, called: Frame = WAITS) -> list[Frame]:
    evaluates = Frame("_PyEval_EvalFrameDefault", "", 0, "/usr/bin/python3", 1)
    adds = Frame("PyNumber_Add", "", 0, "/usr/bin/python3", 2)
    frames = [called, adds, evaluates, STARTS]
    stacks: list[tuple[int, ...]] = [(0, 1, 2, 3)]
    stack = graft(
        np.array([MS]), np.array([71]), np.array([running]), np.array([0], np.int32), stacks, frames, python
    )
    return [frames[i] for i in stacks[int(stack[0])]]


def test_the_interpreter_s_frames_give_way_to_the_program_s() -> None:
    seen = (np.array([MS]), [0])
    assert _grafted(1, PythonSamples({71: seen}, {71: seen}, [(PARSE, WORKER)])) == [PARSE, WORKER]


def test_a_call_in_which_the_kernel_computes_for_the_disk_stays() -> None:
    seen, syncs = (np.array([MS]), [0]), Frame("fsync", "", 0, "/lib/libc.so.6", 0x40)
    assert _grafted(1, PythonSamples({71: seen}, {71: seen}, [(PARSE,)]), syncs) == [syncs, PARSE]


def test_the_collector_of_the_interpreter_stays_in_front_of_the_function_that_it_interrupts() -> None:
    seen, collects = (np.array([MS]), [0]), Frame("gc_collect_main", "", 0, "/usr/bin/python3", 0x50)
    assert _grafted(1, PythonSamples({71: seen}, {71: seen}, [(PARSE,)]), collects) == [collects, PARSE]


def test_a_thread_that_waits_gets_a_line_at_which_it_was_not_seen_running() -> None:
    running = (np.array([MS]), [0])
    everything = (np.array([MS, 2 * MS]), [0, 1])
    python = PythonSamples({71: running}, {71: everything}, [(PARSE, WORKER), (WORKER,)])
    assert _grafted(0, python) == [WAITS, WORKER]


SYNCS = Frame("fsync", "", 0, "/lib/libc.so.6", 0x40)


def _waiting_in_fsync(everything: Seen, stacks: Sequence[tuple[Frame, ...]]) -> list[str]:
    """What is told of a thread that waits in os.fsync, by what py-spy saw of it."""
    called = Frame("os_fsync_impl", "", 0, "/usr/bin/python3", 3)
    evaluates = Frame("_PyEval_EvalFrameDefault", "", 0, "/usr/bin/python3", 1)
    frames = [SYNCS, called, evaluates]
    native: list[tuple[int, ...]] = [(0, 1, 2)]
    stack = graft(
        np.array([MS]), np.array([71]), np.array([0]), np.array([0], np.int32), native, frames,
        PythonSamples({}, {71: everything}, stacks),
    )  # fmt: skip
    return [frames[i].function for i in native[int(stack[0])]]


def test_a_line_that_names_what_the_interpreter_called_is_taken_though_another_one_was_seen_nearer(
    tmp_path: Path,
) -> None:
    (tmp_path / "ledger.py").write_text("def store(f):\n    os.fsync(f)\n\ndef handle(s):\n    s.recv(9)\n")
    store = Frame("store", str(tmp_path / "ledger.py"), 2)
    handle = Frame("handle", str(tmp_path / "ledger.py"), 5)
    near, far = np.array([MS, 9_000 * MS]), [1, 0]
    assert _waiting_in_fsync((near, far), [(store,), (handle,)]) == ["fsync", "store"]
    # Without such a line the nearest one.
    assert _waiting_in_fsync((near[:1], [0]), [(handle,), (store,)]) == ["fsync", "handle"]


def test_who_syncs_a_file_is_in_no_line_that_reads_a_socket() -> None:
    reads = (Frame("SocketIO.readinto", "/usr/lib/python3.11/socket.py", 706), WORKER)
    assert _waiting_in_fsync((np.array([MS]), [0]), [reads])[-1] == "_PyEval_EvalFrameDefault"


def test_without_python_s_frames_the_native_ones_stay() -> None:
    assert len(_grafted(1, PythonSamples({}, {}, []))) == 4


def test_a_pipe_or_somebody_else_s_file_in_a_map_s_place_is_no_map(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    os.mkfifo(tmp_path / "tmp/perf-12.map")
    assert read_jit_map(12, root=tmp_path) == ([], [])
    if os.geteuid() == 0:
        (tmp_path / "proc/13").mkdir(parents=True)
        (tmp_path / "tmp/perf-13.map").write_text("10 20 f\n")
        os.chown(tmp_path / "tmp/perf-13.map", 12345, 12345)
        assert read_jit_map(13, root=tmp_path) == ([], [])
        os.chown(tmp_path / "proc/13", 12345, 12345)
        assert jit_name(read_jit_map(13, root=tmp_path), 0x10) == "f"


def test_what_steers_a_terminal_is_in_no_name_of_compiled_code() -> None:
    assert jit_name(parse_jit_map(["10 20 \x1b[2Jf\x9b"]), 0x10) == "?[2Jf?"


def test_what_a_runtime_starts_its_threads_by_gives_way_to_what_that_calls() -> None:
    node = "/usr/bin/node"
    starts = "node::worker::Worker::StartThread(v8::Args const&)::{lambda(void*)#1}::operator()(void*) const"
    stack = (Frame("node::worker::Worker::Run()", module=node), Frame(starts, module=node), STARTS)

    assert entry_of(stack) == "node::worker::Worker::Run"
    assert entry_of(stack[1:]) == "lambda #1 in StartThread"
    own = Frame("Pool::StartThread()::{lambda()#1}::operator()() const", module="/opt/pool")
    assert entry_of((CRUNCH, own, STARTS)) == "lambda #1 in StartThread"  # the program's own


def test_a_symbol_without_a_size_ends_where_the_next_function_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    table = UnwindTable(np.array([0x100, 0x200]), [(0, 0, 0x1000)])
    monkeypatch.setattr(UnwindTable, "read", lambda _: table)

    class Took:
        every_thread, lost, thinned = True, 0, 1

    empty = np.empty(0, np.int64)
    raw: dict[str, Any] = dict.fromkeys(("time_ns", "pid", "tid", "running", "stack", "base"), empty)
    raw |= {"by_dwarf": True, "stacks": ()}
    places = [
        ("inner_asm", "", 0, "/lib/libx.so", at, at, 7, at - 0x100) for at in (0x150, 0x250)
    ]  # both are behind the symbol at 0x100
    frames = kernel_stacks._stacks(raw, places, Took()).frames  # type: ignore[arg-type]

    assert frames[0].function == "inner_asm"
    assert (frames[1].function, frames[1].place) == ("", "libx.so+0x200")
