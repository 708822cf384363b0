"""Queues between threads: `queue.Queue` and its kin, `queue.SimpleQueue`, and executors of threads."""

from __future__ import annotations

import sys
import threading
from threading import get_ident

from . import names, threads

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_queue"]


def patch_queue(module: Any) -> None:
    """Count what is made of `queue.Queue`, its subclasses and `queue.SimpleQueue`."""
    threads.count_classes(module, threads.BY_THREAD)
    if module.SimpleQueue.__module__ == "_queue":
        module.SimpleQueue = _simple(module.SimpleQueue)


def _simple(base: Any) -> Any:
    """`queue.SimpleQueue` has no lock of its own: its counts get one."""

    class SimpleQueue(base):  # type: ignore[misc]
        def __init__(self: Any) -> None:
            super().__init__()
            self._latlab_lock = threading.Lock()
            of_executor = sys._getframe(1).f_globals.get("__name__") == "concurrent.futures.thread"
            name = names.queue_name("executor" if of_executor else "SimpleQueue")
            self._latlab_counts = threads.watch(self, name, 0)

        def put(self, item: Any, block: Any = True, timeout: Any = None) -> None:
            super().put(item)
            counts = self._latlab_counts
            if counts is not None:
                with self._latlab_lock:
                    counts.put(item)

        def put_nowait(self, item: Any) -> None:
            self.put(item)

        def get(self, block: Any = True, timeout: Any = None) -> Any:
            counts = self._latlab_counts
            if counts is not None and not self.qsize():
                counts.waits(True)
            item = super().get(block, timeout)
            if counts is not None:
                work = getattr(item, "fn", None)
                if work is not None and get_ident() not in threads._roles:
                    # A thread of an executor is named by what it does first.
                    threads._roles[get_ident()] = names.function_name(work)
                with self._latlab_lock:
                    counts.get(item)
            return item

        def get_nowait(self) -> Any:
            return self.get(False)

    SimpleQueue.__module__, SimpleQueue.__qualname__ = "queue", "SimpleQueue"
    return SimpleQueue
