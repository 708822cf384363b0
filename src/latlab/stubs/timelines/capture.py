"""Captures a real program's scheduler events, and derives its action files."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from latlab.errors import InputError, UnavailableError, UsageError
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import TimelineSaid
from latlab.model.stubs import Timeline
from latlab.stubs.timelines import actions as _actions
from latlab.stubs.timelines import derive as _derive
from latlab.stubs.timelines import events as _events
from latlab.stubs.timelines import timeline as _timeline

_PR_SET_CHILD_SUBREAPER = 36  # <sys/prctl.h>


def capture(
    command: Sequence[str],
    folder: str | Path,
    *,
    merge_ns: int = _derive.MERGE_NS,
    faults: bool = False,
    quiet: bool = False,
    environment: Mapping[str, str] | None = None,
    linger_s: float = 0.0,
    aside: bool = False,
) -> tuple[Timeline, int]:
    """Run a command, follow it and its children, and write their timeline and action files into a folder.

    Args:
        command: what to run; its output goes where ours goes, or to stderr (`aside`).
        merge_ns: blocked slices shorter than this become part of the run around them.
        quiet: throw the command's own output away.
        environment: of the command; our own when None.
        faults: record each page fault too (about 1 us each; a compiler has thousands).
        linger_s: how long to follow processes that outlive the command (daemons, jobs in the background).

    Returns:
        the timeline, and the command's own exit code.

    Raises:
        UsageError: there is no such command.
        UnavailableError: no tracing rights.
    """
    from latlab.system.kernel.tracing import Tracer

    if not command or shutil.which(command[0]) is None:
        raise UsageError(f"there is no command '{command[0] if command else ''}'")
    wanted = [*_events.TRACEPOINTS, *([_events.FAULTS] if faults else [])]
    tracer = Tracer(wanted, ring_bytes=4 << 20)
    before = os.times()
    interrupted = False
    with tracer, _adopting(linger_s) as linger:
        silent = subprocess.DEVNULL if quiet else None
        output = 2 if aside and not quiet else silent
        process = subprocess.Popen(list(command), stdout=output, stderr=silent, env=environment)
        try:
            code = process.wait()
        except KeyboardInterrupt:  # the terminal told the command too: what was recorded is kept
            code, interrupted = _ended(process), True
        except BaseException:
            process.kill()
            process.wait()
            raise
        linger()
        time.sleep(0.005)  # the last switch of the last thread
    after = os.times()
    log = _events.from_tracer(tracer.events())
    timeline, program = _derive.derive(log, process.pid, merge_ns=merge_ns)
    used = after.children_user + after.children_system - before.children_user - before.children_system
    traced = sum(thread.run_ns for thread in timeline.threads) / 1e9
    notes = timeline.notes
    if interrupted:
        notes += (said(TimelineSaid.COMMAND_ENDED),)
    # rusage counts in ticks where the kernel has no exact accounting: only a wide difference says something.
    if abs(used - traced) > max(0.05 * traced, 0.02):
        notes += (said(TimelineSaid.CPU_TIME_DIFFERS, traced_s=traced, used_s=used),)
    timeline = replace(timeline, notes=notes, cpus=len(os.sched_getaffinity(0)))
    write(timeline, program, folder)
    return timeline, code


def capture_pid(
    pid: int,
    folder: str | Path,
    *,
    seconds: float,
    merge_ns: int = _derive.MERGE_NS,
    faults: bool = False,
) -> Timeline:
    """Follow a process that runs already, with its threads and children, and leave it as it is.

    Args:
        seconds: for how long; less where it ends, or at an interrupt from the terminal.
        merge_ns, faults: as of `capture`.

    Raises:
        InputError: there is no such process, or it has ended.
        UnavailableError: no tracing rights.
    """
    from latlab.schedule.tree import threads_of, tree_of
    from latlab.system.kernel.tracing import Tracer

    try:
        cpus = len(os.sched_getaffinity(pid))  # now: it may end while it is followed
    except ProcessLookupError:
        cpus = 0
    if not cpus or not threads_of(pid):
        raise InputError(f"process {pid}", "there is no such process, or it has ended", remedy="see `ps -e`")
    wanted = [*_events.TRACEPOINTS, *([_events.FAULTS] if faults else [])]
    tracer = Tracer(wanted, ring_bytes=4 << 20)
    interrupted = False
    with tracer:
        there = {one.tid: one for each in tree_of([pid]) for one in threads_of(each)}
        until = time.monotonic() + seconds
        try:
            while time.monotonic() < until and any(one.state not in "ZX" for one in threads_of(pid)):
                time.sleep(min(0.05, max(0.0, until - time.monotonic())))
        except KeyboardInterrupt:
            interrupted = True
    log = _events.from_tracer(tracer.events())
    log = replace(log, names={**{tid: one.name for tid, one in there.items()}, **log.names})
    timeline, program = _derive.derive(log, pid, merge_ns=merge_ns, there=there)
    notes = timeline.notes + ((said(TimelineSaid.INTERRUPTED),) if interrupted else ())
    timeline = replace(timeline, notes=notes, cpus=cpus)
    write(timeline, program, folder)
    return timeline


def _ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of a command that is about to end, or is ended now."""
    try:
        return process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


@contextmanager
def _adopting(seconds: float) -> Iterator[Callable[[], None]]:
    """Become the parent of processes whose parent ends (PR_SET_CHILD_SUBREAPER); it gives a wait for them."""
    if seconds <= 0:
        yield lambda: None
        return
    libc = ctypes.CDLL(None, use_errno=True)
    before = _children()

    def wait() -> None:
        limit = time.monotonic() + seconds
        while (left := _children() - before) and time.monotonic() < limit:
            for child in left:
                with suppress(ChildProcessError):
                    os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)

    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise UnavailableError("processes that outlive the command can't be followed by this kernel")
    try:
        yield wait
    finally:
        libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _children() -> set[int]:
    """Processes whose parent we are."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return found


def from_perf_script(path: str | Path, root: int, folder: str | Path, *, merge_ns: int) -> Timeline:
    """Derive action files from perf's file, or `perf script`'s text of it, for one process tree."""
    timeline, program = _derive.derive(_events.from_perf_script(path), root, merge_ns=merge_ns)
    write(timeline, program, folder)
    return timeline


def from_ctf(source: str | Path, root: int, folder: str | Path, *, merge_ns: int) -> Timeline:
    """Derive action files from an LTTng trace, or babeltrace2's text of it, for one process tree."""
    timeline, program = _derive.derive(_events.from_ctf(source), root, merge_ns=merge_ns)
    write(timeline, program, folder)
    return timeline


def write(timeline: Timeline, program: _actions.Program, folder: str | Path) -> None:
    """Write the action files and the timeline; the actions are checked first."""
    _actions.check(program)
    _actions.save(program, folder)
    _timeline.save(timeline, folder)
