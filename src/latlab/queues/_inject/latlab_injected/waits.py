"""Who waits at a queue, or looks into it and finds nothing, says so."""

from __future__ import annotations

from .counter_file import BUSY

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_condition", "patch_looks", "patch_refusals", "patch_tasks"]


def patch_condition(condition: Any, counts: Any, for_event: Any) -> None:
    """Have a thread that waits for a condition say so."""
    inner, waits = condition.wait, counts.waits

    def told(timeout: Any = None) -> Any:
        times = waits(for_event)
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


def patch_tasks(base: Any) -> None:
    """Have a task that waits in `get` or `put`, or looks in vain, say so."""
    get, get_nowait, put = base.get, base.get_nowait, base.put

    async def latlab_get(self: Any) -> Any:
        counts = self._latlab_counts
        if counts is not None and self.empty():
            counts.waits(True)
        return await get(self)

    def latlab_get_nowait(self: Any) -> Any:
        if self._latlab_counts is not None and self.empty():
            self._latlab_counts.found_nothing()
        return get_nowait(self)

    async def latlab_put(self: Any, item: Any) -> Any:
        counts = self._latlab_counts
        times = counts.waits(False) if counts is not None and self.full() else None
        try:
            return await put(self, item)
        finally:
            if times is not None:
                times.enter(BUSY)

    for inner, outer in ((get, latlab_get), (get_nowait, latlab_get_nowait), (put, latlab_put)):
        outer.__name__, outer.__qualname__, outer.__doc__ = inner.__name__, inner.__qualname__, inner.__doc__
    base.get, base.get_nowait, base.put = latlab_get, latlab_get_nowait, latlab_put
