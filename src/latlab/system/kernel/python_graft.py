"""Python's own frames in the place of its interpreter's, in sampled native stacks.

The native samples say when a thread ran or left its CPU, and how often; a native stack that goes through the
interpreter gets the frames that py-spy saw in the same thread at about the same time: for a running one such
as were seen running, for one that waits such as mostly were not."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from latlab.model.schedule import Frame
from latlab.system.kernel.python_stacks import PythonSamples, Seen

__all__ = ["COLLECTS", "goes_through_python", "graft"]

_FAR_NS = 1_000_000_000  # a stack that was seen longer ago tells nothing of now
_AT_WORK = 0.5  # of the times that a stack was seen at all
_EVALUATES = ("_PyEval_EvalFrame", "PyEval_EvalCode", "PyEval_EvalFrame", "py::")
_SERVES = ("libc.", "libc-", "libpthread", "libm.", "libm-", "ld-linux", "[vdso]")
#: Calls in which the kernel computes for the disk.
_STORES = re.compile(r"^_*(GI_|libc_)?_*(fsync|fdatasync|msync|syncfs|p?(read|write)(64|v)?)$")
#: CPython's garbage collector (Modules/gcmodule.c, from 3.13 on Python/gc.c), as its functions' names begin.
COLLECTS = ("gc_collect_", "_PyGC_Collect", "PyGC_Collect")
#: Of the interpreter's own functions those that are worth telling: its lock, and its collector.
_TOLD = ("take_gil", "drop_gil", *COLLECTS)


def graft(
    time_ns: np.ndarray[Any, Any],
    tid: np.ndarray[Any, Any],
    running: np.ndarray[Any, Any],
    stack: np.ndarray[Any, Any],
    stacks: list[tuple[int, ...]],
    frames: list[Frame],
    python: PythonSamples,
) -> np.ndarray[Any, Any]:
    """Replace the interpreter's part of native stacks; `stacks` and `frames` grow.

    Returns:
        The new stack of each sample.
    """
    out = np.array(stack, np.int32)
    native = len(stacks)
    kept = [[_kept(one, frames, ran) for one in stacks[:native]] for ran in (False, True)]
    waiting = {tid: _only_waiting(seen, python.running.get(tid)) for tid, seen in python.everything.items()}
    number_of = {frame: index for index, frame in enumerate(frames)}
    known = {one: index for index, one in enumerate(stacks)}
    for index in range(len(out)):
        ran = bool(running[index])
        inner = kept[ran][int(out[index])]
        if inner is None:
            continue
        thread = int(tid[index])
        chosen = _nearest(python.running.get(thread) if ran else waiting.get(thread), int(time_ns[index]))
        if chosen is None:
            chosen = _nearest(python.everything.get(thread), int(time_ns[index]))
        if chosen is None:
            continue
        grafted = inner
        for frame in python.stacks[chosen]:
            number = number_of.setdefault(frame, len(frames))
            if number == len(frames):
                frames.append(frame)
            grafted += (number,)
        if grafted not in known:
            known[grafted] = len(stacks)
            stacks.append(grafted)
        out[index] = known[grafted]
    return out


def goes_through_python(frame: Frame) -> bool:
    """Whether a native frame is the interpreter's loop, or the trampoline of 3.12 in its place."""
    return frame.function.startswith(_EVALUATES)


def _kept(stack: tuple[int, ...], frames: Sequence[Frame], ran: bool) -> tuple[int, ...] | None:
    """The native frames that the interpreter called and that tell something; None where it isn't in it.

    Extension modules' always; the C library's only where the thread waits in it, or where it moves data.
    """
    inner = next((i for i, number in enumerate(stack) if goes_through_python(frames[number])), None)
    if inner is None:
        return None
    interpreter = frames[stack[inner]].module
    kept = []
    for number in stack[:inner]:
        frame = frames[number]
        name = os.path.basename(frame.module)  # noqa: PTH119
        if frame.module == interpreter:
            if frame.function.startswith(_TOLD):
                kept.append(number)
        elif not ran or not name.startswith(_SERVES) or _STORES.match(frame.function):
            kept.append(number)
    return tuple(kept)


def _only_waiting(everything: Seen, running: Seen | None) -> Seen | None:
    """Those of all stacks of a thread that were hardly ever seen while it ran."""
    if running is None:
        return everything
    at_work = Counter(running[1])
    seen = Counter(everything[1])
    chosen = [i for i, number in enumerate(everything[1]) if at_work[number] < _AT_WORK * seen[number]]
    return (everything[0][chosen], [everything[1][i] for i in chosen]) if chosen else None


def _nearest(seen: Seen | None, time_ns: int) -> int | None:
    if seen is None:
        return None
    times, numbers = seen
    after = int(np.searchsorted(times, time_ns))
    near = [i for i in (after - 1, after) if 0 <= i < len(times)]
    best = min(near, key=lambda i: abs(int(times[i]) - time_ns), default=None)
    if best is None or abs(int(times[best]) - time_ns) > _FAR_NS:
        return None
    return numbers[best]
