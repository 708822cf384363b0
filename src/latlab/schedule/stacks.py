"""Where in the code a schedule's threads run and block: sampled stacks joined to its intervals.

A stack that was taken where a thread left its CPU belongs to the interval that begins there: blocked, it is
kept and the interval points at it; preempted, it is dropped, since the running samples tell that better."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from latlab.model.schedule import SAMPLE, Frame, Schedule, ScheduledThread, State
from latlab.system.kernel.python_graft import goes_through_python
from latlab.system.kernel.stacks import Stacks

__all__ = ["entry_of", "plain_function", "with_stacks"]

_TOLERANCE_NS = 200_000  # between a switch in the schedule and the sample of it

#: What stands outside of a thread's own first function.
_STARTERS = (
    "start_thread",
    "__clone",
    "clone",
    "_start",
    "__libc_start",
    "execute_native_thread_routine",
    "std::thread::",
    "std::__invoke",
    "std::invoke",
    "std::__1::",
    "std::jthread::",
    "std::_Function_handler",
    "std::function<",
    "g_thread_proxy",
    "gomp_thread_start",
    "thread_start",
    "_dl_",
    "dl_main",
    "rtld_",
    "Py_BytesMain",
    "Py_RunMain",
    "pymain_",
    "thread_run",
    "pythread_wrapper",
)
_PYTHON_STARTERS = (
    "_bootstrap",
    "_bootstrap_inner",
    "Thread._bootstrap",
    "Thread._bootstrap_inner",
    "Thread.run",
)
_SYSTEM = ("libc.", "libc-", "libpthread", "libstdc++", "libc++", "ld-linux", "libgomp", "libglib", "[")


def with_stacks(schedule: Schedule, stacks: Stacks) -> Schedule:
    """The schedule with samples: a blocked interval has the stack it blocked in, where that was sampled, and
    a thread the function in which it starts."""
    thread = _threads_of(schedule.threads, stacks)
    intervals = schedule.intervals.copy()
    keep = thread >= 0
    interval_of = np.full(len(stacks), -1, np.int64)
    for index in np.unique(thread[keep & (stacks.running == 0)]).tolist():
        rows = np.flatnonzero((thread == index) & (stacks.running == 0))
        low, high = np.searchsorted(intervals["thread"], [index, index + 1]).tolist()
        if low == high:
            continue  # nothing is known of its intervals: all its stacks are kept
        begins = intervals["begin"][low:high]
        at = np.searchsorted(begins, stacks.time_ns[rows] + _TOLERANCE_NS, side="right") - 1
        # The nearest one, of the last two that began before.
        earlier = np.maximum(at - 1, 0)
        at = np.maximum(at, 0)
        nearer = np.abs(begins[earlier] - stacks.time_ns[rows]) < np.abs(begins[at] - stacks.time_ns[rows])
        at = np.where(nearer, earlier, at)
        state = intervals["state"][low:high][at]
        near = np.abs(begins[at] - stacks.time_ns[rows]) <= _TOLERANCE_NS
        blocked = near & (state == State.BLOCKED)
        keep[rows[~blocked]] = False
        interval_of[rows[blocked]] = low + at[blocked]
    kept = np.flatnonzero(keep)
    samples = np.empty(len(kept), SAMPLE)
    samples["time"] = stacks.time_ns[kept]
    samples["thread"] = thread[kept]
    samples["running"] = stacks.running[kept]
    samples["stack"] = stacks.stack[kept]
    pointing = interval_of[kept]
    intervals["sample"][pointing[pointing >= 0]] = np.flatnonzero(pointing >= 0)
    entries = _entries(samples, stacks)
    return replace(
        schedule,
        intervals=intervals,
        samples=samples,
        stacks=stacks.stacks,
        frames=stacks.frames,
        threads=tuple(
            replace(one, entry=one.entry or entries.get(index, ""))
            for index, one in enumerate(schedule.threads)
        ),
        losses=replace(schedule.losses, notes=schedule.losses.notes + stacks.notes),
    )


def _threads_of(threads: Sequence[ScheduledThread], stacks: Stacks) -> np.ndarray[Any, Any]:
    """The index of each sample's thread, -1 for a stranger's; a tid may have been given twice."""
    out = np.full(len(stacks), -1, np.int32)
    for index, one in enumerate(threads):
        rows = (stacks.tid == one.tid) & (out < 0)
        rows &= stacks.time_ns <= (one.ended_ns + _TOLERANCE_NS if one.ended else np.iinfo(np.int64).max)
        out[rows] = index
    return out


def _entries(samples: np.ndarray[Any, Any], stacks: Stacks) -> Mapping[int, str]:
    """The function in which each thread starts: what most of its whole stacks say."""
    votes: dict[int, dict[str, int]] = {}
    names = [entry_of([stacks.frames[i] for i in stack]) for stack in stacks.stacks]
    for thread, stack in zip(samples["thread"].tolist(), samples["stack"].tolist(), strict=True):
        if names[stack]:
            of_thread = votes.setdefault(thread, {})
            of_thread[names[stack]] = of_thread.get(names[stack], 0) + 1
    return {thread: max(named, key=lambda name: named[name]) for thread, named in votes.items()}


def entry_of(stack: Sequence[Frame]) -> str:
    """The outermost function that belongs to the program; "" where it has no name, or the stack doesn't reach
    down to its beginning."""
    if not stack or not _whole(stack[-1]) or any(goes_through_python(frame) for frame in stack):
        return ""
    for frame in reversed(stack):
        name = frame.function
        if not name or name.startswith(_STARTERS) or name in _PYTHON_STARTERS:
            continue
        if os.path.basename(frame.module).startswith(_SYSTEM):  # noqa: PTH119
            continue
        if os.path.basename(frame.file) in ("threading.py", "runpy.py", "<frozen runpy>"):  # noqa: PTH119
            continue
        if name == "<module>":
            return os.path.basename(frame.file)  # noqa: PTH119
        return plain_function(name)
    return ""


def _whole(outermost: Frame) -> bool:
    """Whether the outermost frame is where threads begin: a starter's, or Python's."""
    if outermost.function.startswith(_STARTERS) or outermost.function in _PYTHON_STARTERS:
        return True
    return not outermost.module and bool(outermost.file)


def plain_function(name: str) -> str:
    """Without arguments and return type: "feed::parse" of "bool feed::parse<int>(char const*) const"."""
    if name.startswith("<"):
        return name
    text = name.replace("(anonymous namespace)::", "")
    for tail in (" const", " &", " &&", " noexcept"):
        text = text.removesuffix(tail)
    text = _without_tail(text, "()")
    if text.endswith("operator"):
        text += "()"  # those were its name, the arguments came before
    if text.endswith("::operator()"):
        inner = text.removesuffix("::operator()")
        text = inner if "{lambda" in inner else text
    if not text.endswith(">") or "operator" in text:
        return _last_word(text)
    return _last_word(_without_tail(text, "<>"))


def _without_tail(text: str, pair: str) -> str:
    """Without the bracketed part at its end."""
    if not text.endswith(pair[1]):
        return text
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += (text[index] == pair[1]) - (text[index] == pair[0])
        if depth == 0:
            return text[:index]
    return text


def _last_word(text: str) -> str:
    """What follows the return type, which templates have before their names."""
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        depth += (text[index] in ")>}]") - (text[index] in "(<{[")
        if text[index] == " " and depth == 0 and not text[:index].endswith("operator"):
            return text[index + 1 :]
    return text
