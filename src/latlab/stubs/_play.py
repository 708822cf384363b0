"""Plays action files with real threads."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from latlab._core import stubs as native
from latlab.errors import LatlabError, UnavailableError
from latlab.model.stubs import Timeline, TimelineThread
from latlab.stubs import _actions, _schedule

_STATES = ("running", "blocked")


SCHEDULING = ("auto", "fifo", "other")


def _needs_turns(program: _actions.Program) -> bool:
    """Whether more threads than CPUs may want to run at once, so that they need the scheduler's time slices.

    Counted as the program would run if every action took its own time and a CPU were always free.
    """
    cpus = len(os.sched_getaffinity(0))
    spans = _schedule.running_spans(program)
    level = overlap = last = 0
    total = sum(end - begin for begin, end in spans)
    edges = sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans])
    for at, step in edges:
        overlap += (at - last) * max(0, level - cpus)
        level, last = level + step, at
    return overlap > 0.02 * total


def play(program: _actions.Program, *, timeout_s: float = 60.0, scheduling: str = "auto") -> Timeline:
    """Run every thread's actions from one start barrier and say what each did.

    Args:
        program: checked action files; see `latlab.stubs.load_actions`.
        scheduling: "fifo" gives a woken thread the idle CPU at once, "other" leaves that to the fair
            scheduler, which often queues it behind its waker; "auto" is fifo where it is allowed and no CPU
            has to be shared.
        timeout_s: after which the player gives up, since a thread waits for an event that never comes.

    Raises:
        UnavailableError: the threads or the memory can't be had.
        LatlabError: the threads hadn't ended at the time limit; it names those that hadn't.
    """
    threads, created, semaphores, numbers = _actions.compile_threads(program)
    handle, path = tempfile.mkstemp(prefix="latlab-play-")
    os.close(handle)
    try:
        real_time = scheduling == "fifo" or (scheduling == "auto" and not _needs_turns(program))
        played = native.play(threads, created, semaphores, path, int(timeout_s * 1e9), real_time)
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
    notes = ("SCHED_FIFO isn't allowed here: played by the fair scheduler",)
    return Timeline(
        "played", played["total_ns"], tuple(rows), notes if real_time and not played["real_time"] else ()
    )
