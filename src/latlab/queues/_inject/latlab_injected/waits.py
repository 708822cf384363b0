"""Who waits at a queue, or looks into it and finds nothing, says so."""

from __future__ import annotations

import sys
import weakref

from .counter_file import BUSY

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_condition", "patch_looks", "patch_refusals", "patch_tasks"]


def patch_condition(condition: Any, counts: Any, for_event: Any) -> None:
    """Have a thread that waits for a condition say so."""
    inner, waits = condition.wait, counts.waits

    def told(timeout: Any = None) -> Any:
        times = waits(for_event, True)
        try:
            return inner(timeout)
        finally:
            if times is not None:
                times.enter(BUSY)

    condition.wait = told


def patch_looks(base: Any) -> None:
    """Have who looks into a queue and finds nothing say so."""
    if not hasattr(base, "_qsize"):  # of asyncio: see `patch_tasks`
        return
    get, size, empty = base.get, base.qsize, base.empty

    def latlab_get(self: Any, block: Any = True, timeout: Any = None) -> Any:
        if block or self._latlab_counts is None:
            return get(self, block, timeout)
        if not self._qsize():
            self._latlab_counts.found_nothing()
        return get(self, False)

    def latlab_empty(self: Any) -> Any:
        nothing = empty(self)
        if nothing and self._latlab_counts is not None:
            self._latlab_counts.found_nothing()
        return nothing

    def latlab_qsize(self: Any) -> Any:
        found = size(self)
        if not found and self._latlab_counts is not None:
            self._latlab_counts.found_nothing()
        return found

    for inner, outer in ((get, latlab_get), (empty, latlab_empty), (size, latlab_qsize)):
        outer.__name__, outer.__qualname__, outer.__doc__ = inner.__name__, inner.__qualname__, inner.__doc__
    base.get, base.empty, base.qsize = latlab_get, latlab_empty, latlab_qsize


def patch_refusals(base: Any, full: Any) -> None:
    """Have who finds a queue full, and does not wait for room, say so."""
    by_tasks = base.__module__.startswith("asyncio")
    inner = base.put_nowait if by_tasks else base.put

    def latlab_put_nowait(self: Any, item: Any) -> Any:
        try:
            return inner(self, item)
        except full:
            if self._latlab_counts is not None:
                self._latlab_counts.refused(item)
            raise

    def latlab_put(self: Any, item: Any, block: Any = True, timeout: Any = None) -> Any:
        try:
            return inner(self, item, block, timeout)
        except full:
            if self._latlab_counts is not None:
                self._latlab_counts.refused(item)
            raise

    outer = latlab_put_nowait if by_tasks else latlab_put
    outer.__name__, outer.__qualname__, outer.__doc__ = inner.__name__, inner.__qualname__, inner.__doc__
    if by_tasks:
        base.put_nowait = outer
    else:
        base.put = outer


# By a task that was made of `get` or `put` alone, as by `asyncio.wait_for` up to Python 3.11: who called it.
_callers: Any = weakref.WeakKeyDictionary()


def user_of(task: Any) -> Any:
    """The task that uses a queue by another one."""
    return _callers.get(task, task) if _callers and task is not None else task


def patch_tasks(base: Any, user: Any) -> None:
    """Have a task that waits in `get` or `put`, or looks in vain, say so.

    Args:
        user: the task that uses a queue now.
    """
    get, get_nowait, put = base.get, base.get_nowait, base.put

    def runs_for(caller: Any) -> None:
        task = user()
        if caller is not None and task is not None and task is not caller:
            _callers[task] = caller

    async def got(self: Any, caller: Any) -> Any:
        counts = self._latlab_counts
        if counts is not None:
            runs_for(caller)
            if self.empty():
                counts.waits(True)
        return await get(self)

    def latlab_get(self: Any) -> Any:
        return got(self, user() if self._latlab_counts is not None else None)

    def latlab_get_nowait(self: Any) -> Any:
        if self._latlab_counts is not None and self.empty():
            self._latlab_counts.found_nothing()
        return get_nowait(self)

    async def given(self: Any, item: Any, caller: Any) -> Any:
        counts = self._latlab_counts
        times = None
        if counts is not None:
            runs_for(caller)
            if self.full():
                times = counts.waits(False)
        try:
            return await put(self, item)
        finally:
            if times is not None:
                times.enter(BUSY)

    def latlab_put(self: Any, item: Any) -> Any:
        return given(self, item, user() if self._latlab_counts is not None else None)

    for inner, outer in ((get, latlab_get), (get_nowait, latlab_get_nowait), (put, latlab_put)):
        outer.__name__, outer.__qualname__, outer.__doc__ = inner.__name__, inner.__qualname__, inner.__doc__
    got.__name__, got.__qualname__ = get.__name__, get.__qualname__
    given.__name__, given.__qualname__ = put.__name__, put.__qualname__
    base.get, base.get_nowait, base.put = _coroutines(latlab_get), latlab_get_nowait, _coroutines(latlab_put)


def _coroutines(function: Any) -> Any:
    """They say at once who calls, and give what is to be awaited: they are asked whether they do."""
    function._is_coroutine = getattr(sys.modules.get("asyncio.coroutines"), "_is_coroutine", None)
    return getattr(sys.modules.get("inspect"), "markcoroutinefunction", lambda same: same)(function)
