"""What the stacks of a Go program say: which goroutine runs, and what its runtime does."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from latlab.model.schedule import Frame, Schedule

__all__ = ["COLLECTOR", "MAIN", "go_processes", "goroutine_of", "is_written"]


def _of_runtime(names: str) -> re.Pattern[str]:
    return re.compile(rf"^runtime\.({names})(\.abi0)?$")


_BEGINS = _of_runtime("goexit")
_RUNTIME = _of_runtime("goexit|mstart|mcall|rt0_go|systemstack|gogo")
_COLLECTS = re.compile(
    r"^runtime\.(gcBgMarkWorker|gcDrain|bgsweep|bgscavenge|sweepone|runfinq|forcegchelper|gcMark\w*|"
    r"\(\*pageAlloc\)\.scavenge)"
)
#: What the compiler makes of `go f(x)`: a closure that calls f.
_CLOSURE = re.compile(r"^(?P<parent>.*)\.(func|gowrap)[\d.]+$")
_LIBRARY = re.compile(r"^golang\.org/x/")
COLLECTOR = "garbage collector"
MAIN = "main.main"


def goroutine_of(frames: Sequence[Frame]) -> str:
    """The function in which the goroutine of a stack starts; "" where the stack is of Go's scheduler.

    Of a library's function, such as that of a pool, the program's own that it calls. Of a stack that ends
    within the program, since a frame was larger than what was copied of it, the outermost that is there.

    Args:
        frames: innermost first.
    """
    names = [frame.function for frame in frames]
    if any(_COLLECTS.match(name) for name in names) and all(name.startswith("runtime.") for name in names):
        return COLLECTOR
    if not names or not (_BEGINS.match(names[-1]) or is_written(names[-1])):
        return ""
    outer = [name for name in reversed(names) if name and not name.startswith("runtime.")]
    if not outer:
        return ""
    at = next((i for i, name in enumerate(outer) if is_written(name)), 0)
    while at + 1 < len(outer) and _wraps(outer[at], outer[at + 1]):
        at += 1
    return outer[at]


def is_written(function: str) -> bool:
    """Whether a function belongs to the program or to a module of somebody, and not to Go's library."""
    first, more, _ = function.partition("/")
    package = first if more else function.partition(".")[0]
    return (package == "main" or ("." in package and bool(more))) and not _LIBRARY.match(function)


def _wraps(outer: str, inner: str) -> bool:
    one, other = _CLOSURE.match(outer), _CLOSURE.match(inner)
    if one is None:
        return False
    return ".gowrap" in outer or (other is not None and one["parent"] == other["parent"])


def go_processes(schedule: Schedule) -> frozenset[int]:
    """Processes in whose stacks Go's runtime is seen."""
    samples = schedule.samples
    if not samples.size:
        return frozenset()
    runs = [any(_RUNTIME.match(schedule.frames[one].function) for one in stack) for stack in schedule.stacks]
    if not any(runs):
        return frozenset()
    threads = np.unique(samples["thread"][np.array(runs)[samples["stack"]]])
    return frozenset(schedule.threads[one].pid for one in threads.tolist())
