"""Who holds an event loop, and from which line on: of every callback the time that it ran, if long."""

from __future__ import annotations

import os
import sys
import time
import weakref

from . import counter_file
from .counter_file import StageTimes

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["note"]

_LEAST_NS = 50_000  # shorter ones hold nobody up, and telling of one costs a few thousand
_MOST = 64  # holders that are told apart

_holders: dict[tuple[str, str], Any] = {}
_holding: Any = weakref.WeakSet()  # tasks that held it before: their lines are looked up


def note(stages: Any) -> None:
    """From now on; more than once is once.

    Args:
        stages: that know what the tasks are called which take from queues.
    """
    events = sys.modules.get("asyncio.events")
    handle = getattr(events, "Handle", None)
    if handle is None or hasattr(handle._run, "latlab_notes"):
        return
    run, clock = handle._run, time.monotonic_ns

    def _run(self: Any) -> Any:
        callback = self._callback
        line = _line(callback) if _holding else ""
        begin = clock()
        result = run(self)
        held = clock() - begin
        if held >= _LEAST_NS:
            try:
                _held(callback, line, held, stages)
            except Exception:  # noqa: BLE001, S110
                pass  # a callback of another kind: nothing is said of it
        return result

    _run.latlab_notes = True  # type: ignore[attr-defined]
    handle._run = _run


def _line(callback: Any) -> Any:
    """Where a task stands that held the loop before."""
    task = getattr(callback, "__self__", None)
    if task is None or not hasattr(task, "get_coro") or task not in _holding:
        return ""
    frame = getattr(task.get_coro(), "cr_frame", None)
    if frame is None:
        return ""
    return "%s:%d" % (os.path.basename(frame.f_code.co_filename), frame.f_lineno)


def _held(callback: Any, line: Any, held: Any, stages: Any) -> None:
    task: Any = getattr(callback, "__self__", None)
    if hasattr(task, "get_coro"):
        _holding.add(task)
        name = stages.label(id(task)) or task.get_name()
    else:
        name = getattr(callback, "__qualname__", type(callback).__name__)
    holder = _holders.get((name, line))
    if holder is None:
        if len(_holders) >= _MOST or counter_file._file is None:
            return
        holder = _holders[name, line] = StageTimes(name, 0, "event loop", line)
    holder.add(held)


counter_file.after_fork.append(_holders.clear)
