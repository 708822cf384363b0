"""Queues between tasks: `asyncio.Queue` and its kin. Each is used on one thread, so counts need no lock."""

from __future__ import annotations

import sys
import weakref

from . import loop_holds, names, threads, waits

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_queues"]


_stages = names.Stages()
_ends: dict[int, Any] = {}


def _task() -> Any:
    """The task that uses a queue: who called `get` or `put`, where a task was made of that alone."""
    try:
        return waits.user_of(sys.modules["asyncio"].current_task())
    except (RuntimeError, AttributeError):
        return None  # outside of a loop: before it runs, or by a callback of another thread


def _who() -> Any:
    return id(_task())


def _until_end(user: Any) -> None:
    task = _task()
    if task is None or user in _ends:
        return

    def ended(_: Any) -> None:
        _ends.pop(user, None)
        threads.forget(user, _stages)

    _ends[user] = weakref.ref(task, ended)


def _role() -> Any:
    task = _task()
    if task is None:
        return threads.role()
    coroutine = task.get_coro()
    name = getattr(coroutine, "__qualname__", type(coroutine).__name__).rpartition("<locals>.")[2]
    return names.role_of(task.get_name(), name)


def patch_queues(module: Any) -> None:
    """Count what is made of `asyncio.Queue` and its subclasses."""
    threads.count_classes(module, (_who, _role, _stages, _until_end))
    waits.patch_tasks(module.Queue, _task)
    loop_holds.note(_stages)
