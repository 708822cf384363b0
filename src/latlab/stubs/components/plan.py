"""The plan that a study hands to the programs under study, by LATLAB_STUBS_PLAN: one line a component.

Over 400 lines: reader and writer of one format, which must agree.

    latlab-stubs-plan 3
    MODE FACTOR DELAY_NS FLAGS STATE NAME

separated by tabs. MODE is off, measure, record, delay, flat, busy or idle; FACTOR scales the busy time of
`busy` and `idle`; FLAGS are joined by commas, `-` where there are none: `released` (the component works
without the GIL), `shared` (threads take their calls from one queue, so that a call's number doesn't tell
its thread), `keyed` (results by arguments), `waitless` (waits are left out), `wait=PART` (a stub keeps that
part of them), `profile` (sample which functions run), `work=RATE` (a busy stub does RATE iterations of the
loop in stub_work.hpp for a ns, and does not spin until a deadline), `marks` (keep when each call began and
ended: of programs with one thread), `opening` (keep when the first call began), `timed` (measure what each
call of a busy stub takes), `lazy`, `views` and `pickles` (as in `replay`), `period=N` (the factor is of each
call's Nth working period alone), `told` (PROCESS.held says how much memory the results hold), `mutates=A+B`
(places whose state after a call is part of its function; see state.py), `watch` (recording, look at what
calls change: PROCESS.changes; replaying, compare the state after calls: PROCESS.differs). With `watch`
and `told` the file `files` holds the paths that any process opened to write, each with a NUL. NAME of one in
C++ may be NAME@FILE:LINE, its place. STATE is a folder. Without a trace of its own a process takes any.trace.
Each process keeps its own files in it, named PROCESS.trace, PROCESS.times, PROCESS.spent, PROCESS.spans,
PROCESS.threads, PROCESS.marks, PROCESS.outcome and PROCESS.profile, where PROCESS is the checksum of its
command line and its number among processes with the same one; of a pool's processes `worker` and a number,
and each of them replays what all of them recorded.

PROCESS.times: for each thread u32 number, u32 zero, u64 count, i64 begin of its first and i64 end of its last
call (CLOCK_MONOTONIC), i64 lost_ns (within calls, ready without a CPU or taken by the machine), then count
times i64 busy_ns, i64 blocked_ns. A row is a call: a wait, then work. Where blocked_ns is negative it is a
working period of a call: the wait comes after it, and the next row goes on with the same call. PROCESS.spent:
the same of a stub's calls. PROCESS.spans: of each measured call i64 thread number, thread id, begin and end.
PROCESS.marks: begin and end of each call, or the begin of the first, i64 ns (CLOCK_MONOTONIC).
PROCESS.threads: the threads' names, a line each (Python). PROCESS.outcome: calls, inside_ns (time within the
stub where it simulates none) and left (recorded results that were not handed out).

The same text is read by include/latlab/stub_engine.hpp, for C++ programs and the shim that stands in for a
command, and by _inject/sitecustomize.py. Each refuses another version.
"""

from __future__ import annotations

import atexit
import os
import struct
import sys
import threading
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple

from latlab._core import stubs_replay
from latlab.errors import InputError

if TYPE_CHECKING:
    from latlab.stubs.components.hook import Hook
    from latlab.stubs.components.profile import Sampler

VARIABLE = "LATLAB_STUBS_PLAN"
ANY_TRACE = "any.trace"
FILES = "files"
CALIBRATION = "LATLAB_STUBS_CALIBRATION"
HEAD = stubs_replay.PLAN_HEAD
MODES = ("off", "measure", "record", "delay", "flat", "busy", "idle")
_BLOCK = struct.Struct(stubs_replay.TIMES_HEAD_FORMAT)
_ROW_BYTES = stubs_replay.CALL_TIME_BYTES


# Tuples, since dataclasses take longer to import than all the rest, and this runs in programs under study.
class Entry(NamedTuple):
    """What one component has to do."""

    mode: str
    name: str
    state: str
    factor: float = 1.0
    delay_ns: int = 0
    flags: tuple[str, ...] = ()

    def work_per_ns(self) -> float:
        """Of the flag `work=`; 0 where there is none."""
        return next((float(flag[5:]) for flag in self.flags if flag.startswith("work=")), 0.0)

    def period(self) -> int:
        """Of the flag `period=`; 0 where there is none."""
        return next((int(flag[7:]) for flag in self.flags if flag.startswith("period=")), 0)

    def wait(self) -> float:
        """The part of its waits that a stub keeps: of the flag `wait=`; 1 where there is none."""
        if "waitless" in self.flags:
            return 0.0
        return next((float(flag[5:]) for flag in self.flags if flag.startswith("wait=")), 1.0)

    def mutates(self) -> tuple[str | int, ...]:
        """Of the flag `mutates=`; empty where there is none."""
        named = next((flag[8:].split("+") for flag in self.flags if flag.startswith("mutates=")), [])
        return tuple(int(name) if name.isdigit() else name for name in named)

    def line(self) -> str:
        """The entry as a line of the plan."""
        flags = ",".join(self.flags) or "-"
        words = (self.mode, repr(float(self.factor)), str(self.delay_ns), flags, self.state, self.name)
        return "\t".join(words)


def text(entries: list[Entry]) -> str:
    """The whole plan."""
    return "\n".join([HEAD, *(entry.line() for entry in entries)]) + "\n"


def parse(content: str, source: str) -> list[Entry]:
    """Read a plan.

    Raises:
        InputError: it is none, or of another version.
    """
    lines = content.splitlines()
    if not lines or lines[0] != HEAD:
        raise InputError(source, "is not a plan of this version", place="line 1")
    entries = []
    for number, line in enumerate(lines[1:], start=2):
        words = line.split("\t", 5)
        if len(words) != 6 or words[0] not in MODES:
            raise InputError(source, f"is not an entry: '{line}'", place=f"line {number}")
        mode, factor, delay, flags, state, name = words
        found = () if flags == "-" else tuple(flags.split(","))
        entries.append(Entry(mode, name, state, float(factor), int(delay), found))
    return entries


def current() -> list[Entry]:
    """The plan of this process; empty where there is none."""
    path = os.environ.get(VARIABLE)
    if not path:
        return []
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read(), path)
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from error


class ThreadTimes(NamedTuple):
    """The calls of one thread: (busy_ns, blocked_ns) as int64, and when they began and ended."""

    rows: bytes
    first_ns: int = 0
    last_ns: int = 0
    lost_ns: int = 0


def read_times(path: str) -> dict[int, ThreadTimes]:
    """The times of each call, for each thread.

    Raises:
        InputError: the file is missing or damaged.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise InputError(path, f"can't be read ({error.strerror})") from error
    found: dict[int, ThreadTimes] = {}
    at = 0
    while at < len(data):
        if len(data) - at < _BLOCK.size:
            raise InputError(path, "is cut short")
        thread, _, count, *rest = _BLOCK.unpack_from(data, at)
        at += _BLOCK.size
        rows = data[at : at + count * _ROW_BYTES]
        if len(rows) != count * _ROW_BYTES:
            raise InputError(path, "is cut short")
        found[thread] = ThreadTimes(rows, *rest)
        at += len(rows)
    return found


def write_times(path: str, times: dict[int, ThreadTimes]) -> None:
    """Write the times of each call, for each thread."""
    with open(path, "wb") as file:
        for thread, one in times.items():
            file.write(_BLOCK.pack(thread, 0, len(one.rows) // _ROW_BYTES, *one[1:]))
            file.write(one.rows)


#: A pool's processes have this name and a number, and replay what all of them recorded.
WORKER = "worker"


def _of_pool(child: object) -> bool:
    from latlab.stubs.components.hook import of_pool

    return of_pool(child)


def _child() -> object | None:
    """This process among multiprocessing's children; None where it is none."""
    found = sys.modules.get("multiprocessing.process")
    if found is None or found.parent_process() is None:
        return None
    return found.current_process()  # type: ignore[no-any-return]


def process_of(state: str) -> str:
    """This process's name: found again in the next run, where processes start in the same order."""
    child = _child()
    if child is not None and _of_pool(child):
        return _numbered(state, WORKER)
    try:
        with open("/proc/self/cmdline", "rb") as file:
            command = file.read()
    except OSError:
        command = "\0".join(sys.argv).encode()
    return _numbered(state, f"{zlib.crc32(command):08x}")


def _numbered(state: str, key: str) -> str:
    # One byte is appended by each process: the length before it is the process's number, without a lock.
    descriptor = os.open(f"{state}/{key}.count", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, b"x")
        number = os.lseek(descriptor, 0, os.SEEK_CUR) - 1
    finally:
        os.close(descriptor)
    return f"{key}-{number}"


_applied: dict[str, tuple[Hook, Entry]] = {}
_kept_by = 0  # the process that has kept everything already
_keeping = 0  # the process that does so now
_process: str | None = None
_samplers: dict[str, Sampler] = {}


def apply(hook: Hook) -> None:
    """Give a component the mode that the plan of this process has for it."""
    for entry in current():
        if entry.name == hook.name:
            if not _applied:
                atexit.register(_finish)
                _finish_before_exit()
                os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
            _applied[hook.name] = (hook, entry)
            if _child() is not None:
                _settle(None)
            elif "multiprocessing.process" in sys.modules:
                # Perhaps a spawned process that is about to start, with whose main module this one came in,
                # or a server that forks such: neither is told by register_after_fork.
                _settle_before_run()
            if "profile" in entry.flags and "latlab-sampler" not in _samplers:
                from latlab.stubs.components import profile as _profile

                sampler = _samplers["latlab-sampler"] = _profile.Sampler()
                sampler.start()
            _set(hook, entry)


def _set(hook: Hook, entry: Entry) -> None:
    from latlab.stubs.components import hook as _component
    from latlab.stubs.components import session as _session

    global _process
    if _process is None:
        _process = process_of(entry.state)
    hook.require_plain()
    hook.shared = "shared" in entry.flags
    hook.mutates = entry.mutates() or hook.mutates
    hook.numbering = entry.mode == "measure"
    hook.pooled = _process.startswith(WORKER)
    flags = entry.flags
    keep = ("marks" in flags, "opening" in flags, "timed" in flags)
    hook.callable.latlab_set_study(entry.work_per_ns(), entry.wait(), *keep, entry.period())
    released = "released" in entry.flags
    if entry.mode == "measure":
        hook.callable.latlab_set_mode(_component.MEASURE, 1.0, 0, False, False, False)
    elif entry.mode == "record":
        path = f"{entry.state}/{_process}.trace"
        session = _session.Session(path, replaying=False, keyed="keyed" in entry.flags or hook.pooled)
        hook.record(session, watching="watch" in flags)
    elif entry.mode == "delay":
        hook.callable.latlab_set_mode(_component.DELAY, 1.0, entry.delay_ns, False, released, False)
    else:
        _load(hook, entry, released)


def _load(hook: Hook, entry: Entry, released: bool) -> None:
    """Load the recording; `off` loads it too, so that every variant of a study starts alike."""
    from latlab.stubs.components import data as _data
    from latlab.stubs.components import hook as _component
    from latlab.stubs.components import session as _session
    from latlab.stubs.components import trace as _trace

    _data.trusted = "pickles" in entry.flags
    _say_once(_component.ReplayError)
    base = f"{entry.state}/{_process}"
    trace, shared = f"{base}.trace", f"{entry.state}/{ANY_TRACE}"
    traces = _of_workers(entry.state, "trace") if hook.pooled else [trace]
    if not any(os.access(one, os.R_OK) for one in traces):
        if entry.mode == "off":
            return
        traces = [shared]
    flags = entry.flags
    keyed = "keyed" in flags or hook.pooled
    watched = "watch" in flags and not keyed and not hook.shared
    before = _session.resident_bytes() if "told" in flags else 0
    loaded: dict[str, _trace.Definition] = {}
    for one in traces if os.access(traces[0], os.R_OK) else []:
        loaded = _session.joined(hook.name, loaded, {d.name: d for d in _trace.read(one)})
    session = _session.Session(traces[0], replaying=True, keyed=keyed)
    if hook.name in loaded:
        _session.load(
            hook, session, loaded, lazy="lazy" in flags, views="views" in flags, shared=hook.shared,
            watched=watched,
        )  # fmt: skip
    else:
        hook.session = session  # this process has imported it, and never called it
    one_by_one = keyed or watched or bool(hook.ordered)
    if one_by_one:
        hook.callable.latlab_set_sequences([([], b"")])
    if hook.pooled:
        rows = [one.rows for path in _of_workers(entry.state, "times") for one in read_times(path).values()]
        hook.callable.latlab_set_times([b"".join(rows)])
    elif hook.name in loaded and os.access(f"{base}.times", os.R_OK):
        hook.callable.latlab_set_times(_times(hook, base, single=one_by_one or hook.shared))
    mode = _component.OFF if entry.mode == "off" else _component.SLOW if one_by_one else _component.REPLAY
    factor = 0.0 if entry.mode == "flat" else entry.factor
    if "told" in flags:
        del loaded
        with open(f"{base}.held", "w", encoding="ascii") as file:
            file.write(str(max(0, _session.resident_bytes() - before)))
    hook.callable.latlab_set_mode(mode, factor, 0, entry.mode == "idle", released, True)


def _say_once(kind: type[BaseException]) -> None:
    """What ends a replay is said in one line by the command that replays, not by a traceback of ours, too."""

    def quiet(before: Any) -> Any:
        def said(*of: Any) -> None:
            found = of[0] if isinstance(of[0], type) else of[0].exc_type
            if not issubclass(found, kind):
                before(*of)

        said.latlab = True  # type: ignore[attr-defined]
        return said

    if not hasattr(sys.excepthook, "latlab"):
        sys.excepthook = quiet(sys.excepthook)
        threading.excepthook = quiet(threading.excepthook)


def _of_workers(state: str, suffix: str) -> list[str]:
    """Files of all processes of pools."""
    names = sorted(name for name in os.listdir(state) if name.startswith(f"{WORKER}-"))  # noqa: PTH208
    return [f"{state}/{name}" for name in names if name.endswith(f".{suffix}")]


def _times(hook: Hook, base: str, *, single: bool) -> list[bytes]:
    """In the order of the trace's threads; threads are told by their names."""
    times = {thread: one.rows for thread, one in read_times(f"{base}.times").items()}
    if single:
        return [b"".join(times.values())]
    with open(f"{base}.threads", encoding="utf-8") as file:
        names = file.read().splitlines()
    result = [b""] * len(hook.threads)
    for number, name in enumerate(names):
        if name in hook.threads:
            result[hook.threads[name]] = times.get(number, b"")
    return result


def _finish() -> None:
    """Keep what this process measured or recorded."""
    global _kept_by, _keeping
    _kept_by = _keeping = os.getpid()
    try:
        _keep()
    finally:
        _keeping = 0


def _keep() -> None:
    for hook, entry in _applied.values():
        base = f"{entry.state}/{_process}"
        if "marks" in entry.flags or "opening" in entry.flags:
            with open(f"{base}.marks", "wb") as kept:
                kept.write(hook.callable.latlab_marks())
        error = hook.session.error if hook.session is not None else None
        if error is not None:
            with open(f"{base}.error", "w", encoding="utf-8") as file:
                file.write(str(error))
        measured = {
            "measure": ("times", hook.callable.latlab_times),
            "busy": ("spent", hook.callable.latlab_spent),
        }
        if entry.mode == "measure" or (entry.mode == "busy" and "timed" in entry.flags):
            name, rows = measured[entry.mode]
            calls = enumerate(zip(rows(), hook.callable.latlab_spans(), strict=True))
            write_times(f"{base}.{name}", {i: ThreadTimes(one, *span) for i, (one, span) in calls})
        if entry.mode == "measure":
            with open(f"{base}.spans", "wb") as kept:
                kept.write(hook.callable.latlab_call_spans())
            with open(f"{base}.threads", "w", encoding="utf-8") as file:
                file.writelines(f"{name}\n" for name in hook.threads)
        elif entry.mode == "record" and hook.session is not None and error is None:
            hook.session.save()
            if hook.watch is not None:
                made, harmless = hook.callable.latlab_calls(), hook.callable.latlab_harmless()
                hook.watch.save(f"{base}.changes", hook.lost, made, harmless)
        elif entry.mode in ("flat", "busy", "idle"):
            left = 0 if "keyed" in entry.flags or hook.pooled else hook.callable.latlab_left()
            if hook.ordered:
                left = sum(len(values) for values, *_ in hook.ordered.values())
                left -= sum(taken + 1 for taken in hook.taken_in_order.values())
            if hook.differs is not None:
                with open(f"{base}.differs", "w", encoding="utf-8") as file:
                    file.write(hook.differs)
            with open(f"{base}.outcome", "w", encoding="utf-8") as file:
                file.write(f"{hook.callable.latlab_calls()} {hook.callable.latlab_inside()} {left}\n")
        for sampler in _samplers.values():
            sampler.save(f"{base}.profile")


def _before_fork() -> None:
    # multiprocessing's children leave without atexit, and forget finalizers that were set before the fork.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_applied_anchor, _settle)


def _after_fork() -> None:
    global _process
    _process = None
    for hook, entry in _applied.values():
        hook.reset()
        _set(hook, entry)


def _settle(_: object) -> None:
    """In a child of multiprocessing: take the recording of its pool, and keep everything at its end."""
    global _process
    sys.modules["multiprocessing.util"].Finalize(None, _finish, exitpriority=0)
    child = _child()
    if child is not None and _of_pool(child) and _process is not None and not _process.startswith(WORKER):
        _process = None
        for hook, entry in _applied.values():
            hook.reset()
            _set(hook, entry)
    _finish_when_terminated()


def _settle_before_run() -> None:
    kind = sys.modules["multiprocessing.process"].BaseProcess
    run = kind.run

    def settled(self: object) -> None:
        kind.run = run
        _settle(None)
        run(self)

    kind.run = settled


def _finish_before_exit() -> None:
    """A forked child often leaves by os._exit, which runs nothing of what is registered."""
    leave = os._exit

    def finished(status: int) -> None:
        if _kept_by != os.getpid():
            _finish()
        leave(status)

    os._exit = finished  # type: ignore[assignment]


def _finish_when_terminated() -> None:
    """A pool that is left ends its processes by a signal, before they could keep anything."""
    import signal

    if threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGTERM)
    if before is _keep_when_terminated:  # of the process that forked this one, without its timer
        stubs_replay.insist(signal.SIGTERM)
    if before is not signal.SIG_DFL:
        return
    signal.signal(signal.SIGTERM, _keep_when_terminated)
    # One that comes just before the process waits for its pool's lock is noted, and nobody looks: it would
    # wait for ever, and who ended it for its end.
    stubs_replay.insist(signal.SIGTERM)


def _keep_when_terminated(number: int, _: object) -> None:
    import signal

    if _keeping == os.getpid():
        return  # it is at its end already: what it writes just now is written once
    signal.signal(number, signal.SIG_IGN)
    _finish()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class _Anchor:
    """multiprocessing holds what it calls after a fork by weak references: to this."""


_applied_anchor = _Anchor()
