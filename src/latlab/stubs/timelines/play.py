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
from latlab.model.evidence.said import said
from latlab.model.evidence.studies import TimelineSaid
from latlab.model.stubs import Timeline, TimelineThread
from latlab.stubs.timelines import actions as _actions
from latlab.stubs.timelines import schedule as _schedule
from latlab.words import seconds

_STATES = ("running", "blocked", "ready")
_MEASURED = ("run_ns", "blocked_ns", "ready_ns", "start_ns", "end_ns", "budget_ns", "switches", "faults")
PRIORITIES = ("other", "high", "fifo")
PACES = ("auto", "schedule", "free")

# A run is undisturbed where no thread's start or end lies further from the schedule's than a part of the
# total, and no thread's CPU time further from its budget than a part of that, or than so much (the larger).
KEPT_NS, KEPT = 40_000, 0.0005
SPENT_NS, SPENT = 100_000, 0.003
# How often auto plays to find such a run, and for how long.
MOST_PLAYS, PLAYING_S = 6, 3.0


def _shares_cpus(spans: list[tuple[int, int]]) -> bool:
    """Whether more threads than CPUs may want to run at once, so that they need the scheduler's time slices.

    Counted as the program would run if every action took its own time and a CPU were always free.
    """
    cpus = len(os.sched_getaffinity(0))
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


def _disturbed(played: dict[str, Any], accountable: bool) -> float:
    """By how much the worst thread missed what it was asked for; 1 is what an undisturbed run may.

    `accountable`: all CPU time is asked for; reading, writing and touching memory cost what they cost.
    """
    allowed = max(KEPT_NS, KEPT * int(played["total_ns"]))
    late = max(abs(int(row["late_ns"])) for row in played["threads"]) / allowed
    if not accountable:
        return late
    spent = max(
        abs(int(row["run_ns"]) - int(row["budget_ns"])) / max(SPENT_NS, SPENT * int(row["budget_ns"]))
        for row in played["threads"]
    )
    return max(late, spent)


def play(
    program: _actions.Program, *, timeout_s: float = 60.0, scheduling: str = "auto", pace: str = "auto"
) -> Timeline:
    """Run every thread's actions from one start barrier and say what each did.

    Args:
        program: checked action files; see `latlab.stubs.load_actions`.
        scheduling: "high" is nice -20 where that is allowed; "fifo" is real time: nothing else gets between,
            and each switch costs up to 10 us more CPU time; "other" is the caller's own; "auto" is fifo where
            something else is running on this machine, and else high; a run that the machine disturbed (one
            that didn't keep to its schedule, or to its CPU time) is then repeated by fifo and high in turn,
            up to six runs and 3 s in all, and the least disturbed one is told.
        pace: "schedule" lets sleeps end by the times that the actions add up to, so that late wake-ups don't
            add up; "free" gives each sleep its own length and lets threads contend for CPUs (`ready` is then
            left out); "auto" is schedule where no CPU has to be shared.
        timeout_s: after which the player gives up, since a thread waits for an event that never comes.

    Raises:
        UnavailableError: the threads or the memory can't be had.
        LatlabError: the threads hadn't ended at the time limit; it names those that hadn't.
    """
    found = None if pace == "free" else _schedule.schedule(program)
    scheduled = found is not None and (pace == "schedule" or not _shares_cpus(found.spans))
    # What contends for the CPUs comes as it comes; what keeps a schedule can keep its order too.
    compiled = _actions.compile_threads(program, found.turns() if found and scheduled else {})
    threads, created, semaphores, numbers = compiled
    uses_machine = any(
        action.verb == "memory" or action.verb.startswith("io ")
        for actions in program.threads.values()
        for action in actions
    )
    handle, path = tempfile.mkstemp(prefix="latlab-play-")
    os.close(handle)
    try:
        chosen = scheduling
        if scheduling == "auto":
            chosen = "fifo" if scheduled and _others_run() else "high"
        first = chosen

        def at(priority: str) -> dict[str, Any]:
            number = PRIORITIES.index(priority)
            return native.play(threads, created, semaphores, path, int(timeout_s * 1e9), number, scheduled)

        def disturbed(run: dict[str, Any]) -> float:
            return _disturbed(run, not uses_machine)

        begin = time.monotonic()
        played = at(chosen)
        plays = 1
        while (
            scheduling == "auto"
            and not played["timed_out"]
            and disturbed(played) > 1
            and plays < MOST_PLAYS
            and time.monotonic() - begin < PLAYING_S
        ):
            # By turns: the one holds its CPU against others, the other switches cheaply.
            priority = ("high", "fifo")[(plays + (first == "fifo")) % 2]
            again = at(priority)
            plays += 1
            if not again["timed_out"] and disturbed(again) < disturbed(played):
                played, chosen = again, priority
    except RuntimeError as error:
        raise UnavailableError(f"{program.source} can't be played: {error}") from error
    finally:
        Path(path).unlink()
    if played["timed_out"]:
        stuck = [str(n) for n, row in zip(numbers, played["threads"], strict=True) if not row["finished"]]
        raise LatlabError(
            f"{program.source}: not at an end after {seconds(timeout_s)} "
            f"(threads {', '.join(stuck) or 'all'})",
            remedy="look for a 'wait' whose 'signal' comes too rarely, or raise --timeout",
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
                **{name: row[name] for name in _MEASURED},
                slices=tuple((begin, end, _STATES[kind]) for begin, end, kind in slices),
            )
        )
    return Timeline(
        "played",
        played["total_ns"],
        tuple(rows),
        tuple(_notes(played, chosen, scheduled, plays)),
        tuple(_order(played, numbers)),
    )


def _notes(played: dict[str, Any], scheduling: str, scheduled: bool, plays: int) -> Iterator[str]:
    if plays > 1:
        yield said(TimelineSaid.LEAST_DISTURBED, runs=plays)
    if scheduling == "fifo":
        yield said(TimelineSaid.FIFO)
    if not scheduled:
        yield said(TimelineSaid.CPUS_SHARED)
    if played["refused"]:
        yield said(TimelineSaid.PRIORITY_REFUSED, scheduling=scheduling)
    if scheduled and not played["awake"]:
        yield said(TimelineSaid.CPUS_HALT)


def _order(played: dict[str, Any], numbers: list[int]) -> Iterator[str]:
    """What was created and joined, in order of time."""
    rows = [row for thread in played["threads"] for row in thread["events"].reshape(-1, 3).tolist()]
    for _, kind, index in sorted(rows, key=lambda row: row[0]):
        yield f"{('create', 'join')[kind]} {numbers[index]}"
