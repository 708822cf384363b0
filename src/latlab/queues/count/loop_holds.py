"""Who holds an event loop, and from which line on: every callback's time, as far as it is worth telling.

A task that computes, or calls what blocks, keeps all others from going on, and they seem to be slow. What a
loop runs is one `Handle` after another: whoever holds it for long is published as a stage of the type
"event loop", whose group is the line that the task stood at before.
"""

from __future__ import annotations

import asyncio
import weakref
from pathlib import Path
from typing import Any

from latlab._core import counting

__all__ = ["LOOP", "note_holds", "stage_of"]

LOOP = "event loop"
_LEAST_TICKS = 100_000  # some 25 to 100 µs: shorter ones hold nobody up, and telling of one costs a few
_MOST = 64  # holders that are told apart

stage_of: weakref.WeakKeyDictionary[Any, tuple[str, str]] = weakref.WeakKeyDictionary()
_holders: dict[tuple[str, str], counting.Stage] = {}
_holding: weakref.WeakSet[Any] = (
    weakref.WeakSet()
)  # tasks that held it before: of those the line is looked up
_ticks = counting.ticks


def note_holds() -> None:
    """From now on; more than once is once."""
    handle: Any = asyncio.events.Handle
    run = handle._run
    if hasattr(run, "latlab_counts"):
        return

    def _run(self: Any) -> None:
        callback = self._callback
        line = _line(callback) if _holding else ""
        begin = _ticks()
        run(self)
        held = _ticks() - begin
        if held >= _LEAST_TICKS:
            _held(callback, line, held)

    _run.latlab_counts = True  # type: ignore[attr-defined]
    handle._run = _run


def _line(callback: Any) -> str:
    """Where a task stands that held the loop before."""
    task = getattr(callback, "__self__", None)
    if not isinstance(task, asyncio.Future) or task not in _holding:
        return ""
    frame = getattr(task.get_coro(), "cr_frame", None)  # type: ignore[attr-defined]
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame is not None else ""


def _held(callback: Any, line: str, ticks: int) -> None:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        _holding.add(task)
        type_, name = stage_of.get(task, ("", ""))
        name = name or type_ or task.get_name()
    else:
        name = getattr(callback, "__qualname__", type(callback).__name__)
    holder = _holders.get((name, line))
    if holder is None:
        if len(_holders) >= _MOST:
            return
        holder = _holders[name, line] = counting.Stage(type=LOOP, name=name, group=line, wait=1)
    holder.add(ticks)
