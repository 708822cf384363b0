"""Queues between tasks: `asyncio.Queue` and its kin. Each is used on one thread, so counts need no lock.

A semaphore and a lock are pools: who acquires takes something out, and puts it back. One that somebody else
gives back is a signal, and no pool.
"""

from __future__ import annotations

import sys
import weakref
from functools import partial

from . import loop_holds, names, threads, waits
from .counter_file import BUSY

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_locks", "patch_queues"]


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


_stages.renamed = partial(threads.renamed, _stages)


def patch_queues(module: Any) -> None:
    """Count what is made of `asyncio.Queue` and its subclasses."""
    threads.count_classes(module, (_who, _role, _stages, _until_end))
    waits.patch_tasks(module.Queue, _task)
    loop_holds.note(_stages)


def patch_locks(module: Any) -> None:
    """Count what is taken from semaphores and locks, and given back."""
    for kind in (module.Semaphore, module.Lock):
        _patch_lock(kind, kind is module.Semaphore)


def _patch_lock(base: Any, several: Any) -> None:
    begin, acquire, release = base.__init__, base.acquire, base.release
    base._latlab_counts = None

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
        begin(self, *arguments, **options)
        try:
            size = self._value if several else 1
            # What a condition or a queue makes for itself is a part of it.
            if size < 1 or sys._getframe(1).f_globals.get("__name__", "").partition(".")[0] == "asyncio":
                return
            name = names.queue_name(type(self).__name__)
            self._latlab_holders = {}
            self._latlab_counts = threads.watch(self, name, size, 0, (_who, _role, _stages, _until_end))
        except Exception:  # noqa: BLE001, S110
            pass  # it stays what it is

    async def latlab_acquire(self: Any) -> Any:
        counts = self._latlab_counts
        if counts is None:
            return await acquire(self)
        times = counts.waits(False) if self.locked() else None
        try:
            got = await acquire(self)
        finally:
            if times is not None:
                times.enter(BUSY)
        user = _who()
        self._latlab_holders[user] = self._latlab_holders.get(user, 0) + 1
        counts.get()
        return got

    def latlab_release(self: Any) -> None:
        release(self)
        counts = self._latlab_counts
        if counts is None:
            return
        user = _who()
        held = self._latlab_holders.get(user, 0)
        if held:
            if held == 1:
                del self._latlab_holders[user]
            else:
                self._latlab_holders[user] = held - 1
            counts.put()
        else:
            self._latlab_counts = None
            counts.retire()

    def free(self: Any) -> Any:
        return self._value if several else int(not self.locked())

    for inner, outer in ((acquire, latlab_acquire), (release, latlab_release)):
        outer.__name__, outer.__qualname__, outer.__doc__ = inner.__name__, inner.__qualname__, inner.__doc__
    base.__init__, base.acquire, base.release, base._qsize = __init__, latlab_acquire, latlab_release, free
