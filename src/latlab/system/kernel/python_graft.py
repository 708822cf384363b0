"""Python's own frames in the place of its interpreter's, in sampled native stacks.

The native samples say when a thread ran or left its CPU, and how often; a native stack that goes through the
interpreter gets the frames that py-spy saw in the same thread at about the same time: for a running one such
as were seen running, for one that waits such as mostly were not. Py-spy looks 50 times a second, and what
takes a few milliseconds now and then is mostly between two looks: so where a line that was seen names what
the interpreter called (`os.fsync(file)`, and `os_fsync` in the native stack), the stack with it is taken,
also of another time or thread. None is taken that contradicts: who syncs a file reads no socket."""

from __future__ import annotations

import linecache
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
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
#: What nobody does in a line of the modules that read sockets.
_AWAY = re.compile(
    r"^_*(GI_|libc_)?_*(fsync|fdatasync|msync|syncfs|sync_file_range|(clock_)?nanosleep)(64)?(@.*)?$"
)
_SOCKETS = ("/socket.py", "/selectors.py", "/ssl.py")
_SHORTEST = 4  # letters of a name that tells something
_TELL_NOTHING = frozenset(("call", "impl", "item", "iter", "func", "object", "python"))
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
    called = [_called(one, frames) for one in stacks[:native]]
    lines = _Lines(python)
    number_of = {frame: index for index, frame in enumerate(frames)}
    known = {one: index for index, one in enumerate(stacks)}
    for index in range(len(out)):
        ran = bool(running[index])
        inner = kept[ran][int(out[index])]
        if inner is None:
            continue
        thread = int(tid[index])
        at, whole = int(time_ns[index]), int(out[index])
        chosen = lines.that_call(called[whole], thread, at) if called[whole] else None
        if chosen is None:
            chosen = _nearest(python.running.get(thread) if ran else waiting.get(thread), at)
        if chosen is None:
            chosen = _nearest(python.everything.get(thread), at)
        if chosen is None or _contradicts(stacks[whole], frames, python.stacks[chosen]):
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


class _Lines:
    """The stacks of Python whose innermost line names what was called there."""

    def __init__(self, python: PythonSamples) -> None:
        self._python = python
        self._lines = [
            linecache.getline(one[0].file, one[0].line) if one and one[0].line else ""
            for one in python.stacks
        ]
        self._seen: dict[tuple[frozenset[str], int], Seen] = {}

    def that_call(self, names: frozenset[str], tid: int, time_ns: int) -> int | None:
        """The nearest such stack of this thread, else of any."""
        for one in (tid, -1):
            key = names, one
            if key not in self._seen:
                self._seen[key] = self._find(*key)
            times, numbers = self._seen[key]
            if numbers:
                after = int(np.searchsorted(times, time_ns))
                near = [at for at in (after - 1, after) if 0 <= at < len(times)]
                return numbers[min(near, key=lambda at: abs(int(times[at]) - time_ns))]
        return None

    def _find(self, names: frozenset[str], tid: int) -> Seen:
        word = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
        telling = {number for number, line in enumerate(self._lines) if word.search(line)}
        found = sorted(
            (int(time), number)
            for one, seen in self._both()
            if tid in (one, -1)
            for time, number in zip(seen[0].tolist(), seen[1], strict=True)
            if number in telling
        )
        return np.array([time for time, _ in found], np.int64), [number for _, number in found]

    def _both(self) -> Iterator[tuple[int, Seen]]:
        yield from self._python.running.items()
        yield from self._python.everything.items()


def _line_of(frame: Frame) -> str:
    """The text of a line; "" where its file isn't at hand."""
    return linecache.getline(frame.file, frame.line) if Path(frame.file).is_file() else ""


def _called(stack: tuple[int, ...], frames: Sequence[Frame]) -> frozenset[str]:
    """By which names a line of Python may call what the interpreter had called: os_fsync_impl is fsync."""
    inner = next((i for i, number in enumerate(stack) if goes_through_python(frames[number])), 0)
    names = set()
    for number in stack[:inner]:
        frame = frames[number]
        if os.path.basename(frame.module).startswith(_SERVES):  # noqa: PTH119
            continue
        words = frame.function.removesuffix("_impl").lstrip("_").split("_")
        names |= {"_".join(words[at:]) for at in range(1, len(words))}
    return frozenset(one for one in names if len(one) >= _SHORTEST and one not in _TELL_NOTHING)


def _contradicts(stack: tuple[int, ...], frames: Sequence[Frame], python: Sequence[Frame]) -> bool:
    """Whether a thread was certainly not there: it syncs, or sleeps, and the line reads a socket."""
    away = bool(stack) and _AWAY.match(frames[stack[0]].function) is not None
    return away and bool(python) and python[0].file.endswith(_SOCKETS)


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
