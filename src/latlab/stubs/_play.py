"""Plays action files with real threads."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from latlab._core import stubs as native
from latlab.errors import LatlabError, UnavailableError
from latlab.model.stubs import Timeline, TimelineThread
from latlab.stubs import _actions

_STATES = ("running", "blocked")


def play(program: _actions.Program, *, timeout_s: float = 60.0) -> Timeline:
    """Run every thread's actions from one start barrier and say what each did.

    Args:
        program: checked action files; see `latlab.stubs.load_actions`.
        timeout_s: after which the player gives up, since a thread waits for an event that never comes.

    Raises:
        UnavailableError: the threads or the memory can't be had.
        LatlabError: the threads hadn't ended at the time limit; it names those that hadn't.
    """
    threads, created, semaphores, numbers = _actions.compile_threads(program)
    handle, path = tempfile.mkstemp(prefix="latlab-play-")
    os.close(handle)
    try:
        played = native.play(threads, created, semaphores, path, int(timeout_s * 1e9))
    except RuntimeError as error:
        raise UnavailableError(f"{program.source} can't be played: {error}") from error
    finally:
        Path(path).unlink()
    if played["timed_out"]:
        stuck = [str(n) for n, row in zip(numbers, played["threads"], strict=True) if not row["finished"]]
        raise LatlabError(
            f"{program.source}: not at an end after {timeout_s:g} s (threads {', '.join(stuck) or 'all'})",
            remedy="look for a 'wait' whose 'signal' comes too seldom, or raise --timeout",
        )
    creators = program.creator_of()
    rows = []
    for number, row in zip(numbers, played["threads"], strict=True):
        slices = row["slices"].reshape(-1, 3).tolist()
        rows.append(
            TimelineThread(
                id=number,
                parent=creators.get(number),
                pid=0,
                name="",
                run_ns=row["run_ns"],
                blocked_ns=row["blocked_ns"],
                ready_ns=row["ready_ns"],
                start_ns=row["start_ns"],
                end_ns=row["end_ns"],
                budget_ns=row["budget_ns"],
                switches=row["switches"],
                faults=row["faults"],
                slices=tuple((begin, end, _STATES[kind]) for begin, end, kind in slices),
            )
        )
    return Timeline("played", played["total_ns"], tuple(rows))
