"""Queues between processes: `multiprocessing.Queue` and its kin, pools, and executors of processes.

A queue is the same in all processes by its pipe's number in the kernel."""

from __future__ import annotations

import os
import threading

from . import names, threads
from .counter_file import BUSY

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["patch_pool", "patch_queues"]

_lock = threading.Lock()
_IDENTITY = 0x6C61740000000000  # beside those that are drawn by chance


def _counts(queue: Any, name: Any = None) -> Any:
    """Of a queue in this process; its copies in others find the same identity."""
    counts = queue.__dict__.get("_latlab_counts", False)
    if counts is not False:
        return counts
    with _lock:
        number = _pipe(queue)
        if number is None or type(queue).__module__.startswith("latlab."):
            queue._latlab_counts = None
            return None
        made = queue.__dict__.get("_latlab_name") or name or ""
        counts = threads.watch(queue, made, max(0, _capacity(queue)), _IDENTITY | number)
        queue._latlab_counts = counts
    return counts


def _pipe(queue: Any) -> Any:
    """The number of its pipe, which both ends have; a worker closes the end that it doesn't use."""
    for end in ("_reader", "_writer"):
        try:
            return os.fstat(getattr(queue, end).fileno()).st_ino
        except (AttributeError, OSError, ValueError):
            continue
    return None


def _capacity(queue: Any) -> Any:
    size = getattr(queue, "_maxsize", 0)
    return size if size < 2**31 - 1 else 0


def _note(queue: Any, producer: Any, item: Any = None) -> None:
    counts = _counts(queue)
    if counts is None:
        return
    if not producer and item is not None:
        _named_by_work(item)
    with _lock:  # several threads of a process may be at one side
        counts.put() if producer else counts.get()


def _named_by_work(item: Any) -> None:
    """A worker of a pool or executor is named after the first function that it is given."""
    identity = threading.get_ident()
    if identity in threads._roles:
        return
    work = getattr(item, "fn", None)
    if work is None and type(item) is tuple and len(item) == 5 and callable(item[2]):
        work = item[2]
        if getattr(work, "__module__", "") == "multiprocessing.pool" and item[3]:
            inner = item[3][0]  # mapstar and its like: (function, items)
            work = inner[0] if type(inner) is tuple and callable(inner[0]) else work
    if work is not None:
        threads._roles[identity] = names.function_name(work)


def patch_queues(module: Any) -> None:
    """Count the three classes that stand in multiprocessing.queues."""
    for kind in (module.Queue, module.SimpleQueue):
        _patch(kind)
    _patch_put(module.JoinableQueue)  # the rest is its parent's


def _patch(kind: Any) -> Any:
    begin, get = kind.__init__, kind.get

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:  # noqa: N807
        begin(self, *arguments, **options)
        self._latlab_name = names.queue_name(type(self).__name__)

    def counted_get(self: Any, *arguments: Any, **options: Any) -> Any:
        counts = self.__dict__.get("_latlab_counts")
        if counts:
            counts.waits(True)
        item = get(self, *arguments, **options)
        _note(self, False, item)
        return item

    counted_get.__name__ = "get"
    kind.__init__, kind.get = __init__, counted_get
    _patch_put(kind)
    state = kind.__dict__.get("__getstate__")
    if state is None:
        return

    def __getstate__(self: Any) -> Any:  # noqa: N807
        found = state(self)
        try:
            counts = _counts(self)
            if counts is not None and counts.name:
                with _lock:
                    counts.announce()
        except Exception:  # noqa: BLE001, S110
            pass  # it goes without a name
        return found

    kind.__getstate__ = __getstate__


def _patch_put(kind: Any) -> Any:
    put = kind.put

    def counted_put(self: Any, obj: Any, *arguments: Any, **options: Any) -> None:
        counts = self.__dict__.get("_latlab_counts")
        times = counts.waits(False) if counts else None
        try:
            put(self, obj, *arguments, **options)
        finally:
            if times is not None:
                times.enter(BUSY)
        _note(self, True)

    counted_put.__name__ = "put"
    kind.put = counted_put


def patch_pool(module: Any) -> Any:
    """A Pool's own threads pass by `put` and `get`."""
    set_up = module.Pool._setup_queues

    def _setup_queues(self: Any) -> Any:
        set_up(self)
        try:
            send, receive = self._quick_put, self._quick_get
            tasks, results = self._inqueue, self._outqueue
            tasks._latlab_name = names.queue_name("Pool", "calls ")
            results._latlab_name = names.queue_name("Pool", "results ")

            def quick_put(item: Any) -> None:
                send(item)
                _note(tasks, True)

            def quick_get() -> Any:
                item = receive()
                _note(results, False)
                return item

            self._quick_put, self._quick_get = quick_put, quick_get
        except AttributeError:
            pass  # a pool of threads, or of another kind

    module.Pool._setup_queues = _setup_queues
