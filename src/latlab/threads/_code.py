"""Where in the code: the hottest functions of threads, those in which they start, and spinning.

Over 400 lines: one question to the samples a function, all of which walk the same stacks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from latlab.model.schedule import Frame, Schedule, State, Wait
from latlab.model.threads import Code
from latlab.schedule.code.names import (
    called,
    caller_of,
    entered,
    is_own,
    makes_durable,
    of_library,
    plain,
    telling,
)
from latlab.system.kernel.polling import TAKES

__all__ = [
    "asking",
    "coroutine_of",
    "entries_of",
    "forked_workers",
    "hottest",
    "in_sync",
    "not_running",
    "own_function",
    "own_place",
    "runs_in",
    "spin_lock",
    "spinning",
    "spins_in",
    "waiting_places",
    "while_held",
]

_MOST_CODE = 5
_LEAST_SAMPLES = 20
_SPIN = re.compile(r"sched_yield|cpu_relax|spin_?wait|spin_?lock|SpinWait|_mm_pause|YieldProcessor", re.I)
_SPIN_LOCK = re.compile(r"^_*pthread_spin_lock\b")
# Of an interpreter's functions, whose instructions tell nothing; of others these do, and a name may mislead.
_PAUSE = re.compile(r"(^|_)(busy_?wait|busy_?poll|poll_until|wait_until)", re.I)
_MOSTLY = 0.7
_PLACED = 0.4
_SELDOM = 0.05  # of a thread's samples
_NEAR = 8  # frames: a loop that looks may have called the clock
_SPUN = 0.25  # of the running samples: so much two threads spin that share a lock half of the time
# What a loop calls that asks again and again whether it may go on: a queue with room, a lock that is free.
_TRIES = re.compile(
    r"(^|::|\.|_)try_?(put|push|pop|take|lock|send|recv|receive|get|enqueue|dequeue|acquire|insert|read|write)",
    re.I,
)
_LOCKS = re.compile(
    r"^_*(GI_+)?(pthread_(mutex|rwlock|spin)_\w*lock\w*|lll_\w*lock\w*)|^std::(sync::)?mutex::(try_)?(un)?lock"
)
_CLOCK = re.compile(r"clock_gettime|gettimeofday|(steady|system)_clock::now|Instant::now")
_MOVES = re.compile(r"^_*(GI_|libc_)?_*p?(read|write)(64|v|v2)?$")
_COMPREHENSION = re.compile(r"(.*\.)?<(listcomp|setcomp|dictcomp|genexpr)>$")
# Threads of Python's library without a name of their own for the kernel, by where they start.
_LIBRARY_THREADS = {("Queue._feed", "multiprocessing/queues.py"): "QueueFeederThread"}
_HANDLE = re.compile(r"(^|\.)_run$")


def hottest(schedule: Schedule, threads: Iterable[int], *, running: bool = True) -> tuple[Code, ...]:
    """The functions in which the samples of these threads lie, the innermost of the program's own.

    A sample in a library of the system counts for the function of the program that called it.
    """
    samples = schedule.samples
    if not samples.size:
        return ()
    mine = np.isin(samples["thread"], list(threads)) & (samples["running"] == (1 if running else 0))
    return _places_of(schedule, samples["stack"][mine])


def _places_of(schedule: Schedule, taken: np.ndarray[Any, Any]) -> tuple[Code, ...]:
    stacks, counts = np.unique(taken, return_counts=True)
    places: Counter[tuple[str, str]] = Counter()
    lines: dict[tuple[str, str], Counter[tuple[str, int]]] = {}
    callers: dict[tuple[str, str], Counter[str]] = {}
    for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True):
        frames = [schedule.frames[one] for one in schedule.stacks[stack]]
        frame = telling(frames)
        if frame is None:
            continue
        # Of what is inlined into a function lines of other files are its own, too.
        key = (called(frame), frame.module or frame.file)
        places[key] += number
        lines.setdefault(key, Counter())[frame.file or frame.module, frame.line] += number
        callers.setdefault(key, Counter())[caller_of(frames, frame)] += number
    total = max(1, int(counts.sum()))  # what runs without a name, as code made at run time, included
    found = []
    for (function, module), number in places.most_common(_MOST_CODE):
        if number >= 0.02 * total:
            caller, calls = callers[function, module].most_common(1)[0]
            file, line = _line_of(lines[function, module], module)
            own = (caller, calls / number) if caller and calls > _MOSTLY * number else ("", 1.0)
            found.append(Code(function, file, line, number / total, *own))
    return tuple(found)


def _line_of(lines: Mapping[tuple[str, int], int], module: str) -> tuple[str, int]:
    """Where most samples of a function lie, of the lines of the program's own files.

    Where all lie in what a library has inlined there, and its source is on nobody's disk, the module.
    """
    own = [place for place in lines if not of_library(place[0])]
    file, line = max(own or lines, key=lambda place: lines[place])
    return (module, 0) if file.startswith("/rustc/") else (file, line)


def not_running(schedule: Schedule, holds: Mapping[int, Sequence[tuple[int, int]]]) -> tuple[float, float]:
    """Of the time in which a lock is held, the shares that its holders sleep, and that they are blocked.

    Args:
        holds: of each thread the times in which it held it.
    """
    asleep = blocked = held = 0.0
    for thread, times in holds.items():
        spans = np.array(sorted(times), np.float64)
        held += float((spans[:, 1] - spans[:, 0]).sum())
        rows = schedule.of_thread(thread)
        rows = rows[rows["state"] == State.BLOCKED]
        asleep += _within(rows[rows["wait"] == Wait.TIMER], spans)
        blocked += _within(rows, spans)
    return (asleep / held, blocked / held) if held else (0.0, 0.0)


def _within(rows: np.ndarray[Any, Any], spans: np.ndarray[Any, Any]) -> float:
    """The time of a thread's intervals, which don't overlap, that lies within these spans."""
    begin, end = (rows[name].astype(np.float64) for name in ("begin", "end"))
    before = np.concatenate(([0.0], np.cumsum(end - begin)))

    def up_to(time: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        at = np.searchsorted(begin, time, "right")
        over = np.where(at > 0, end[np.maximum(at, 1) - 1] - time, 0.0) if len(end) else np.zeros(len(time))
        return before[at] - np.maximum(over, 0.0)

    return float((up_to(spans[:, 1]) - up_to(spans[:, 0])).sum())


def while_held(
    schedule: Schedule, holds: Mapping[int, Sequence[tuple[int, int]]], takers: Sequence[str]
) -> tuple[str, tuple[Code, ...]]:
    """What runs while a lock is held for which others wait: its part, and the hottest functions.

    Args:
        holds: of each thread the times in which it held it.
        takers: the functions that take it; what such a one calls is the part that is told, "" where the
            samples tell none.
    """
    samples = schedule.samples[schedule.samples["running"] == 1]
    inside = np.zeros(len(samples), bool)
    for thread, times in holds.items():
        spans = np.array(sorted(times))
        at = np.searchsorted(spans[:, 0], samples["time"], "right") - 1
        inside |= (samples["thread"] == thread) & (at >= 0) & (samples["time"] < spans[np.maximum(at, 0), 1])
    taken = samples["stack"][inside]
    if len(taken) < _LEAST_SAMPLES:
        return "", ()
    parts: Counter[str] = Counter()
    for stack, number in Counter(taken.tolist()).items():
        frames = [schedule.frames[one] for one in schedule.stacks[stack]]
        own = [plain(one.function) for one in frames if is_own(one)]
        outer = next((at for at, name in enumerate(own) if name in takers), 0)
        parts[own[max(0, outer - 1)] if own else ""] += number
    part, number = parts.most_common(1)[0]
    return part if number > 0.5 * len(taken) else "", _places_of(schedule, taken)


def _stacks_run(schedule: Schedule, threads: Iterable[int]) -> dict[int, int]:
    """The stacks in which these threads were seen on a CPU, and how often each."""
    samples = schedule.samples
    if not samples.size:
        return {}
    mine = np.isin(samples["thread"], list(threads)) & (samples["running"] == 1)
    stacks, counts = np.unique(samples["stack"][mine], return_counts=True)
    return dict(zip(stacks.tolist(), counts.tolist(), strict=True))


def coroutine_of(schedule: Schedule, threads: Iterable[int]) -> Code | None:
    """The coroutine or callback that holds an asyncio event loop for most of the time that its thread runs.

    It is what the loop's `Handle._run` called. None where these threads run no loop, or none holds it mostly.
    """
    ran = _stacks_run(schedule, threads)
    if not ran:
        return None
    places: Counter[tuple[str, str]] = Counter()
    lines: dict[tuple[str, str], Counter[int]] = {}
    for stack, number in ran.items():
        frames = [schedule.frames[one] for one in schedule.stacks[stack]]
        for inner, outer in pairwise(frames):
            if _HANDLE.search(outer.function) and outer.file.endswith("asyncio/events.py"):
                key = (inner.function, inner.file)
                places[key] += number
                lines.setdefault(key, Counter())[inner.line] += number
                break
    if not places:
        return None
    (function, file), number = places.most_common(1)[0]
    part = number / sum(ran.values())
    if part < _MOSTLY:
        return None
    return Code(function, file, lines[function, file].most_common(1)[0][0], part)


def in_sync(schedule: Schedule, threads: Iterable[int], *, moves: bool = False) -> float:
    """The share of these threads' running samples inside of a call that makes data durable.

    What the kernel computes for it is the disk's time, too: it goes when the call does.

    Args:
        moves: also in calls that read and write, of threads that wait for the disk in them.
    """
    samples = schedule.samples
    mine = samples["stack"][np.isin(samples["thread"], list(threads)) & (samples["running"] == 1)]
    if not mine.size:
        return 0.0
    stacks, counts = np.unique(mine, return_counts=True)
    inside = sum(
        number
        for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True)
        if schedule.stacks[stack]
        and (
            makes_durable([schedule.frames[one] for one in schedule.stacks[stack]])
            or (moves and _MOVES.search(schedule.frames[schedule.stacks[stack][0]].function))
        )
    )
    return float(inside / mine.size)


def at_page_faults(schedule: Schedule, threads: Iterable[int]) -> float:
    """The share of these threads' running samples at the places of the code where they wait for pages.

    There the kernel reads the page; nothing tells its work from what the code does with what is in it.
    """
    samples, rows, mine = schedule.samples, schedule.intervals, list(threads)
    waits = rows[np.isin(rows["thread"], mine) & (rows["wait"] == Wait.FAULT) & (rows["sample"] >= 0)]
    ran = samples["stack"][np.isin(samples["thread"], mine) & (samples["running"] == 1)]
    if not waits.size or not ran.size:
        return 0.0

    def place(stack: int) -> tuple[str, str, int] | None:
        frame = schedule.frames[schedule.stacks[stack][0]] if schedule.stacks[stack] else None
        return None if frame is None else (frame.function, frame.file, frame.line)

    waited = {place(one) for one in np.unique(samples["stack"][waits["sample"]]).tolist()} - {None}
    stacks, counts = np.unique(ran, return_counts=True)
    there = sum(n for one, n in zip(stacks.tolist(), counts.tolist(), strict=True) if place(one) in waited)
    return float(there / ran.size)


def own_function(schedule: Schedule, thread: int, others: Iterable[int]) -> str:
    """The outermost function of a thread that none of the others calls; "" without one."""
    samples = schedule.samples
    if not samples.size:
        return ""

    def stacks_of(one: int) -> list[tuple[int, list[str]]]:
        stacks, counts = np.unique(samples["stack"][samples["thread"] == one], return_counts=True)
        return [
            (number, [_own_name(one) for one in _since_its_start([schedule.frames[at] for at in stack])])
            for stack, number in zip((schedule.stacks[one] for one in stacks), counts.tolist(), strict=True)
        ]

    theirs: set[str] = set()
    for one in others:
        seen: Counter[str] = Counter()
        for number, names in stacks_of(one):
            seen.update(dict.fromkeys(names, number))
        # Who forks may once be seen in what only the new process calls.
        least = max(1.0, _SELDOM * int((samples["thread"] == one).sum()))
        theirs |= {name for name, number in seen.items() if number >= least}
    found: Counter[str] = Counter()
    total = 0
    for number, names in stacks_of(thread):
        total += number
        found[next((name for name in reversed(names) if name and name not in theirs), "")] += number
    name, number = found.most_common(1)[0] if found else ("", 0)
    return name if number > 0.5 * total else ""


def forked_workers(schedule: Schedule) -> frozenset[int]:
    """The first threads of processes that Python's `multiprocessing` forked, by their stacks."""
    started = [_begins(frame) for frame in schedule.frames]
    inside = np.array([any(started[frame] for frame in stack) for stack in schedule.stacks], bool)
    samples = schedule.samples
    if not samples.size or not inside.any():
        return frozenset()
    count = len(schedule.threads)
    told = np.bincount(samples["thread"], minlength=count)
    mine = np.bincount(samples["thread"], weights=inside[samples["stack"]], minlength=count)
    # Their parent may have been seen in one as it forked.
    seen = np.flatnonzero(mine > 0.5 * told).tolist()
    return frozenset(one for one in seen if schedule.threads[one].tid == schedule.threads[one].pid)


def _begins(frame: Frame) -> bool:
    return frame.function.endswith("_bootstrap") and frame.file.endswith("multiprocessing/process.py")


def _since_its_start(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Of a process that Python's `multiprocessing` forked, without those in which its parent was."""
    return next((frames[:at] for at, frame in enumerate(frames) if _begins(frame)), frames)


def _own_name(frame: Frame) -> str:
    """A function's name; "" of one that says nothing of the program."""
    return plain(frame.function) if is_own(frame) and not _COMPREHENSION.match(frame.function) else ""


def own_place(schedule: Schedule, threads: Iterable[int]) -> str:
    """The program's own function in which these threads mostly run; "" where none is, or has no name."""
    samples = schedule.samples
    if not samples.size:
        return ""
    mine = np.isin(samples["thread"], list(threads)) & (samples["running"] == 1)
    stacks, counts = np.unique(samples["stack"][mine], return_counts=True)
    found: Counter[str] = Counter()
    for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True):
        frame = entered([schedule.frames[one] for one in schedule.stacks[stack]])
        found[_own_name(frame) if frame is not None else ""] += number
    name, number = found.most_common(1)[0] if found else ("", 0)
    return name if number > _PLACED * sum(found.values()) else ""


def runs_in(schedule: Schedule, thread: int, function: str) -> bool:
    """Whether a thread mostly runs inside of this function, of those samples that tell anything."""
    samples = schedule.samples
    if not samples.size:
        return False
    mine = (samples["thread"] == thread) & (samples["running"] == 1)
    stacks, counts = np.unique(samples["stack"][mine], return_counts=True)
    within = sum(
        number
        for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True)
        if any(plain(schedule.frames[one].function) == function for one in schedule.stacks[stack])
    )
    return bool(counts.sum() >= _LEAST_SAMPLES and within > _MOSTLY * counts.sum())


def waiting_places(schedule: Schedule, threads: Iterable[int]) -> tuple[Code, ...]:
    """The functions in which these threads block."""
    return hottest(schedule, threads, running=False)


def entries_of(schedule: Schedule) -> dict[int, str]:
    """Of each thread the outermost function of its own, where all its stacks agree on it."""
    samples = schedule.samples
    found: dict[int, str] = {}
    if not samples.size:
        return found
    for thread in np.unique(samples["thread"]).tolist():
        outer: Counter[str] = Counter()
        stacks, counts = np.unique(samples["stack"][samples["thread"] == thread], return_counts=True)
        for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True):
            frames = [schedule.frames[one] for one in schedule.stacks[stack]]
            name = next((plain(one.function) for one in reversed(frames) if is_own(one)), "")
            outer[name or _of_library(frames)] += number
        name, number = outer.most_common(1)[0]
        if name and number > _MOSTLY * sum(outer.values()):
            found[thread] = name
    return found


def _of_library(frames: Sequence[Frame]) -> str:
    """What a thread that the standard library started does for the program; "" of others."""
    for (function, file), name in _LIBRARY_THREADS.items():
        if any(one.function == function and one.file.endswith(file) for one in frames):
            return name
    return ""


def spins_in(schedule: Schedule) -> np.ndarray[Any, Any]:
    """Of each stack whether it is in a loop that waits: that yields, pauses, or polls."""
    return np.array(
        [
            any(schedule.frames[one].polls for one in stack[:_NEAR])
            or any(
                _SPIN.search(one.function) or (not one.module and _PAUSE.search(one.function))
                for one in (schedule.frames[at] for at in stack[:3])
            )
            for stack in schedule.stacks
        ],
        bool,
    )


def spinning(schedule: Schedule) -> frozenset[int]:
    """Threads whose running samples lie mostly in a loop that waits: they yield, pause, or poll."""
    running = schedule.samples[schedule.samples["running"] == 1]
    if not running.size:
        return frozenset()
    spins = spins_in(schedule)[running["stack"]]
    threads, which = np.unique(running["thread"], return_inverse=True)
    taken, spun = np.bincount(which), np.bincount(which, spins)
    return frozenset(threads[(taken >= _LEAST_SAMPLES) & (spun > _MOSTLY * taken)].tolist())


def asking(schedule: Schedule, threads: Iterable[int]) -> tuple[float, float]:
    """Shares of these threads' running samples: that try something or take a lock, and that read the clock.

    A loop that tries again until another thread has made room, and gives up in time, does little else.
    """
    ran = _stacks_run(schedule, threads)
    if not ran:
        return 0.0, 0.0
    tries = clock = 0
    for stack, number in ran.items():
        near = [schedule.frames[one] for one in schedule.stacks[stack][:3]]
        if any(one.module.startswith("[vdso") or _CLOCK.search(one.function) for one in near):
            clock += number
        elif any(_TRIES.search(one.function) or _LOCKS.search(one.function) for one in near):
            tries += number
    total = max(1, sum(ran.values()))
    return tries / total, clock / total


def spin_lock(schedule: Schedule, threads: Iterable[int]) -> Code | None:
    """The function in which these threads spin for a word that they take by an atomic exchange.

    None where they hardly do, or where what they spin for is nothing that they take.
    """
    ran = _stacks_run(schedule, threads)
    if not ran:
        return None
    places: Counter[tuple[str, str]] = Counter()
    lines: dict[tuple[str, str], Counter[tuple[str, int]]] = {}
    takes: set[tuple[str, str]] = set()
    for stack, number in ran.items():
        if not schedule.stacks[stack]:
            continue
        frame = schedule.frames[schedule.stacks[stack][0]]
        by_name = bool(_SPIN_LOCK.search(frame.function))
        if not (frame.polls or by_name):
            continue
        inner = [schedule.frames[one] for one in schedule.stacks[stack][1 if by_name else 0 :]]
        told = telling(inner) or frame
        key = (called(told), told.module or told.file)
        places[key] += number
        lines.setdefault(key, Counter())[told.file or told.module, told.line] += number
        if frame.polls == TAKES or by_name:
            takes.add(key)
    places = Counter({key: number for key, number in places.items() if key in takes})
    if not places:
        return None
    (function, module), number = places.most_common(1)[0]
    part = number / sum(ran.values())
    file, line = _line_of(lines[function, module], module)
    return Code(function, file, line, part) if part >= _SPUN else None
