"""Plays action files with real threads."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from latlab._core import stubs as native
from latlab.errors import LatlabError, UnavailableError
from latlab.model.stubs import Timeline, TimelineThread
from latlab.stubs import _actions, _schedule

_STATES = ("running", "blocked", "ready")


PRIORITIES = ("other", "high", "fifo")
SCHEDULING = ("auto", *PRIORITIES)


PACES = ("auto", "schedule", "free")

# How far a thread's end may lie from the schedule's, relative to the total, before auto plays again.
KEPT = 0.002


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


def _others_run() -> bool:
    """Whether something else than this thread wants a CPU, most of the time."""
    found = []
    for _ in range(21):
        with Path("/proc/stat").open(encoding="ascii") as file:
            found += [int(line.split()[1]) for line in file if line.startswith("procs_running")]
        time.sleep(0.001)
    return bool(found) and sorted(found)[len(found) // 2] > 1


def _lateness(played: dict[str, Any]) -> float:
    """The worst end of a thread against the schedule's, relative to the total."""
    worst = max(abs(int(row["late_ns"])) for row in played["threads"])
    return worst / max(int(played["total_ns"]), 1)


def play(
    program: _actions.Program, *, timeout_s: float = 60.0, scheduling: str = "auto", pace: str = "auto"
) -> Timeline:
    """Run every thread's actions from one start barrier and say what each did.

    Args:
        program: checked action files; see `latlab.stubs.load_actions`.
        scheduling: "high" is nice -20 where that is allowed; "fifo" is real time: nothing else gets between,
            and each switch costs up to 10 us more CPU time; "other" is the caller's own; "auto" is fifo where
            something else is running on this machine, and else high, and fifo after all where that run didn't
            keep to its schedule.
        pace: "schedule" lets sleeps end by the times that the actions add up to, so that late wake-ups don't
            add up; "free" gives each sleep its own length and lets threads contend for CPUs (`ready` is then
            left out); "auto" is schedule where no CPU has to be shared.
        timeout_s: after which the player gives up, since a thread waits for an event that never comes.

    Raises:
        UnavailableError: the threads or the memory can't be had.
        LatlabError: the threads hadn't ended at the time limit; it names those that hadn't.
    """
    threads, created, semaphores, numbers = _actions.compile_threads(program)
    handle, path = tempfile.mkstemp(prefix="latlab-play-")
    os.close(handle)
    try:
        scheduled = pace == "schedule" or (pace == "auto" and not _needs_turns(program))
        chosen = scheduling
        if scheduling == "auto":
            chosen = "fifo" if scheduled and _others_run() else "high"

        def at(priority: str) -> dict[str, Any]:
            number = PRIORITIES.index(priority)
            return native.play(threads, created, semaphores, path, int(timeout_s * 1e9), number, scheduled)

        played = at(chosen)
        if scheduling == "auto" and chosen == "high" and _lateness(played) > KEPT and not played["timed_out"]:
            again = at("fifo")
            if _lateness(again) < _lateness(played):
                played, chosen = again, "fifo"
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
    return Timeline(
        "played",
        played["total_ns"],
        tuple(rows),
        tuple(_notes(played, chosen, scheduled)),
        tuple(_order(played, numbers)),
    )


def _notes(played: dict[str, Any], scheduling: str, scheduled: bool) -> Iterator[str]:
    if scheduling == "fifo":
        yield "played by SCHED_FIFO: each switch costs up to 10 us more CPU time"
    if not scheduled:
        yield "threads share CPUs: each sleep has its own length, and late wake-ups add up"
    if played["refused"]:
        yield f"a priority of '{scheduling}' isn't allowed here: what else runs gets in between"
    if scheduled and not played["awake"]:
        yield "idle CPUs may halt (/dev/cpu_dma_latency isn't allowed here): wake-ups are later"


def _order(played: dict[str, Any], numbers: list[int]) -> Iterator[str]:
    """What was created and joined, in order of time."""
    rows = [row for thread in played["threads"] for row in thread["events"].reshape(-1, 3).tolist()]
    for _, kind, index in sorted(rows, key=lambda row: row[0]):
        yield f"{('create', 'join')[kind]} {numbers[index]}"
