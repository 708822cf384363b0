"""Captures a real program's scheduler events, and derives its action files."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from latlab.errors import UsageError
from latlab.model.stubs import Timeline
from latlab.stubs import _actions, _derive, _events, _timeline


def capture(
    command: Sequence[str],
    folder: str | Path,
    *,
    merge_ns: int = _derive.MERGE_NS,
    faults: bool = False,
    quiet: bool = False,
    environment: Mapping[str, str] | None = None,
) -> tuple[Timeline, int]:
    """Run a command, follow it and its children, and write their timeline and action files into a folder.

    Args:
        command: what to run; its output goes where ours goes.
        merge_ns: blocked slices shorter than this become part of the run around them.
        quiet: throw the command's own output away.
        environment: of the command; our own when None.
        faults: record each page fault too (about 1 us each; a compiler has thousands).

    Returns:
        the timeline, and the command's own exit code.

    Raises:
        UsageError: there is no such command.
        UnavailableError: no tracing rights.
    """
    from latlab.system.tracing import Tracer

    if not command or shutil.which(command[0]) is None:
        raise UsageError(f"there is no command '{command[0] if command else ''}'")
    wanted = [*_events.TRACEPOINTS, *([_events.FAULTS] if faults else [])]
    tracer = Tracer(wanted, ring_bytes=4 << 20)
    before = os.times()
    with tracer:
        silent = subprocess.DEVNULL if quiet else None
        process = subprocess.Popen(list(command), stdout=silent, stderr=silent, env=environment)
        try:
            code = process.wait()
        except BaseException:
            process.kill()
            process.wait()
            raise
        time.sleep(0.005)  # the last switch of the last thread
    after = os.times()
    log = _events.from_tracer(tracer.events())
    timeline, program = _derive.derive(log, process.pid, merge_ns=merge_ns)
    used = after.children_user + after.children_system - before.children_user - before.children_system
    traced = sum(thread.run_ns for thread in timeline.threads) / 1e9
    notes = timeline.notes
    # rusage counts in ticks where the kernel has no exact accounting: only a wide difference says something.
    if abs(used - traced) > max(0.05 * traced, 0.02):
        notes += (f"{traced:.3f} s of CPU time by the trace, {used:.3f} s by rusage",)
    timeline = replace(timeline, notes=notes)
    write(timeline, program, folder)
    return timeline, code


def from_perf_script(path: str | Path, root: int, folder: str | Path, *, merge_ns: int) -> Timeline:
    """Derive action files from `perf script` text, for the process tree of one process."""
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
