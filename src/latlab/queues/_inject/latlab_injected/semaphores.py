"""Semaphores of threads: pools, where who takes an object gives it back. (Those of tasks: see `tasks`.)

One that somebody else gives back, as the room of a buffer, is a signal, and no pool. What one of Python's own
libraries makes for itself is a part of that.
"""

from __future__ import annotations

import sys
from threading import Lock, get_ident

from . import ready

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_semaphores"]

_LIBRARIES = ("asyncio", "concurrent", "multiprocessing", "queue")


class _Pool:
    """Who holds objects of one semaphore, and its counts: from when one is given back by who took it."""

    __slots__ = ("_begun", "_holders", "_lock", "_size", "busy", "counts")

    def __init__(self, counts: Any, size: Any, busy: Any) -> None:
        self.counts, self.busy = counts, busy
        self._size = size
        self._holders: dict[int, int] = {}  # by thread
        self._lock = Lock()  # the semaphore's own is free again when it is counted
        self._begun = False

    def taken(self) -> None:
        user = get_ident()
        with self._lock:
            self._holders[user] = self._holders.get(user, 0) + 1
            if self._begun:
                self.counts.get()

    def gives_back(self, number: Any) -> Any:
        """Whether it is its own that a thread gives back; counted before another one can take it."""
        user = get_ident()
        with self._lock:
            held = self._holders.get(user, 0)
            if held < number:
                return False
            for at in range(number):
                self._holders[user] = held - 1 - at
                self._begun = True
                self.counts.put()
        return True

    def left(self) -> Any:
        """How many there are to take, by the counts."""
        return self._size - sum(self._holders.values())


def _pool_of(made: Any) -> Any:
    """What is known of a semaphore that the program makes; None of a library's, and of one without a name."""
    frame = sys._getframe(2)
    while frame.f_globals.get("__name__") == "threading" and frame.f_back is not None:
        frame = frame.f_back
    if made._value < 1 or frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        return None
    ready()
    from . import counter_file, names, threads

    counts = threads.watch(made, names.queue_name(type(made).__name__), made._value)
    return None if counts is None else _Pool(counts, made._value, counter_file.BUSY)


def patch_semaphores(module: Any) -> None:
    """Count what is taken from semaphores of threads, and given back."""
    base = module.Semaphore
    begin, acquire = base.__init__, base.acquire
    base._latlab_pool = None

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
        begin(self, *arguments, **options)
        try:
            self._latlab_pool = _pool_of(self)
        except Exception:  # noqa: BLE001, S110
            pass  # it stays what it is

    def latlab_acquire(self: Any, *arguments: Any, **options: Any) -> Any:
        pool = self._latlab_pool
        if pool is None:
            return acquire(self, *arguments, **options)
        times = None if self._value else pool.counts.waits(False)
        try:
            got = acquire(self, *arguments, **options)
        finally:
            if times is not None:
                times.enter(pool.busy)
        if got:
            pool.taken()
        return got

    def left(self: Any) -> Any:
        return self._latlab_pool.left()

    _named(latlab_acquire, acquire)
    for kind in (base, module.BoundedSemaphore):
        if "release" in kind.__dict__:
            kind.release = _gives_back(kind.release)
    base.__init__, base.acquire, base.__enter__, base._qsize = __init__, latlab_acquire, latlab_acquire, left


def _gives_back(release: Any) -> Any:
    def latlab_release(self: Any, n: Any = 1) -> Any:
        pool = self._latlab_pool
        if pool is not None and not pool.gives_back(n):
            self._latlab_pool = None
            pool.counts.retire()
        return release(self) if n == 1 else release(self, n)

    return _named(latlab_release, release)


def _named(outer: Any, inner: Any) -> Any:
    outer.__name__, outer.__qualname__, outer.__doc__ = inner.__name__, inner.__qualname__, inner.__doc__
    return outer
