"""Where in the code: the hottest functions of threads, those in which they start, and spinning."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from latlab.model.schedule import Frame, Schedule
from latlab.model.threads import Code

__all__ = ["entries_of", "hottest", "spinning", "waiting_places"]

_MOST_CODE = 5
_LEAST_SAMPLES = 20
_STARTERS = re.compile(
    r"^(_*start_thread|_*clone\d*|_start|_*libc_start.*|_*libc_start_call_main|main|thread_run|"
    r"std::thread::.*|std::__invoke.*|void std::__invoke.*|std::invoke.*|execute_native_thread_routine|"
    r"_bootstrap(_inner)?|Thread\._bootstrap.*|Thread\.run|pythread_wrapper|<module>|\?\?|)$"
)
_SPIN = re.compile(r"sched_yield|cpu_relax|spin_?wait|spin_?lock|SpinWait|_mm_pause|YieldProcessor", re.I)
_PAUSE = re.compile(r"(^|_)(spin|busy_?wait|busy_?poll|poll_until|wait_until)", re.I)
_MOSTLY = 0.7
_RUNTIME = re.compile(r"^\[?(ld-linux|ld-musl|libc[.-]|libpthread|libstdc\+\+|libm[.-]|vdso|kernel)")


def hottest(schedule: Schedule, threads: Iterable[int], *, running: bool = True) -> tuple[Code, ...]:
    """The functions in which the samples of these threads lie, the innermost of the program's own.

    A sample in a library of the system counts for the function of the program that called it.
    """
    samples = schedule.samples
    if not samples.size:
        return ()
    mine = np.isin(samples["thread"], list(threads)) & (samples["running"] == (1 if running else 0))
    stacks, counts = np.unique(samples["stack"][mine], return_counts=True)
    places: Counter[tuple[str, str]] = Counter()
    lines: dict[tuple[str, str], Counter[int]] = {}
    for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True):
        frame = _telling(schedule, schedule.stacks[stack])
        if frame is None:
            continue
        key = (_function(frame), frame.file or frame.module)
        places[key] += number
        lines.setdefault(key, Counter())[frame.line] += number
    total = sum(places.values())
    return tuple(
        Code(function, file, lines[function, file].most_common(1)[0][0], number / total)
        for (function, file), number in places.most_common(_MOST_CODE)
        if number >= 0.02 * total
    )


def _function(frame: Frame) -> str:
    if frame.function:
        return frame.function
    return f"{frame.module}+{frame.offset:#x}" if frame.module else "unknown"


def _telling(schedule: Schedule, stack: Sequence[int]) -> Frame | None:
    frames = [schedule.frames[one] for one in stack]
    for frame in frames:
        module = frame.module.rsplit("/", 1)[-1]
        if frame.function and not _RUNTIME.match(module) and not _STARTERS.match(frame.function):
            return frame
    return next((frame for frame in frames if frame.function or frame.module), None)


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
            name = next(
                (
                    one.function
                    for one in reversed(frames)
                    if not _STARTERS.match(one.function) and not _RUNTIME.match(one.module.rsplit("/", 1)[-1])
                ),
                "",
            )
            outer[name] += number
        name, number = outer.most_common(1)[0]
        if name and number > _MOSTLY * sum(outer.values()):
            found[thread] = name
    return found


def spinning(schedule: Schedule) -> frozenset[int]:
    """Threads whose running samples lie mostly in a loop that waits: they yield, pause, or poll."""
    samples = schedule.samples
    found = set()
    if not samples.size:
        return frozenset()
    running = samples[samples["running"] == 1]
    for thread in np.unique(running["thread"]).tolist():
        mine = running[running["thread"] == thread]
        if mine.size < _LEAST_SAMPLES:
            continue
        spins = 0
        stacks, counts = np.unique(mine["stack"], return_counts=True)
        for stack, number in zip(stacks.tolist(), counts.tolist(), strict=True):
            names = [schedule.frames[one].function for one in schedule.stacks[stack][:3]]
            if any(_SPIN.search(name) or _PAUSE.search(name) for name in names):
                spins += number
        if spins > _MOSTLY * mine.size:
            found.add(thread)
    return frozenset(found)
