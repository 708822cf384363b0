"""Python's queues, counted: `instrument` for one that exists, and classes to put in the place of the standard
ones.

Counting happens in native code, by atomic additions in the process's counter file: ``self.n += 1`` loses
counts between threads, also under the GIL. Capacities and the semantics of Full and Empty stay what they
were: each class is a subclass of the standard one (or holds one, where that can't be subclassed), and
counts after its operation has succeeded. An object that is put in is counted after it is in, so that
another thread may take it out (and count it) a moment earlier: for that moment an observer takes the fill
for 0, never for less.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import multiprocessing.context
import multiprocessing.queues
import os
import queue
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from typing import Any, TypeVar

from latlab._core import counting

__all__ = [
    "AsyncQueue",
    "CountedExecutor",
    "Deque",
    "LifoQueue",
    "MultiprocessingQueue",
    "PriorityQueue",
    "Queue",
    "SimpleQueue",
    "instrument",
    "set_application",
    "set_phase",
]

_BOUNDED, _UNBOUNDED, _SHARED_MEMORY = 1, 2, 4
_PRODUCER, _CONSUMER, _SHARES = 1, 2, 4
_PHASES = ("starting", "running", "stopping", "ended")

Stage = str | tuple[str, str]
"""A stage's name, or its (type, name)."""
Q = TypeVar("Q")


def set_application(name: str) -> None:
    """The name under which observers find this process; by default that of its program."""
    counting.set_application(name)


def set_phase(phase: str) -> None:
    """Mark where start-up ends and shutdown begins; analyses leave both out.

    Args:
        phase: starting, running, stopping or ended.
    """
    counting.set_phase(_PHASES.index(phase))


def _slot(
    made: Any,
    name: str,
    capacity: int,
    source: Stage,
    drain: Stage,
    group: str = "",
    implementation: str = "",
    identity: int = 0,
    sides: int = _PRODUCER | _CONSUMER,
) -> counting.Slot:
    source_type, source_name = ("", source) if isinstance(source, str) else source
    drain_type, drain_name = ("", drain) if isinstance(drain, str) else drain
    kind = _BOUNDED if capacity > 0 else _UNBOUNDED
    return counting.Slot(
        name=name,
        kind=_SHARED_MEMORY if identity else kind,
        capacity=max(0, capacity),
        source_type=source_type,
        source_name=source_name,
        drain_type=drain_type,
        drain_name=drain_name,
        group=group,
        implementation=implementation or f"{type(made).__module__}.{type(made).__qualname__}",
        identity=identity,
        sides=sides,
    )


class _Counted:
    """What the subclasses of `queue.Queue` share: `_put` and `_get` run under the queue's own lock.

    Those that follow override both again, with what the standard class does in them: calling it by super()
    would cost as much as the counting.
    """

    counts: counting.Slot

    def _count(self, name: str, source: Stage, drain: Stage, group: str) -> None:
        maxsize: int = self.maxsize  # type: ignore[attr-defined]
        self.counts = _slot(self, name, maxsize, source, drain, group)
        self._note_put, self._note_get = self.counts.put_one, self.counts.get_one

    def _put(self, item: Any) -> None:
        super()._put(item)  # type: ignore[misc]
        self._note_put()

    def _get(self) -> Any:
        item = super()._get()  # type: ignore[misc]
        self._note_get()
        return item


class _Made(_Counted):
    """A counted queue that is made as such."""

    def __init__(
        self, maxsize: int = 0, *, name: str = "", source: Stage = "", drain: Stage = "", group: str = ""
    ) -> None:
        super().__init__(maxsize)  # type: ignore[call-arg]
        self._count(name, source, drain, group)


class Queue(_Made, queue.Queue[Any]):
    """`queue.Queue`, counted."""

    def _put(self, item: Any) -> None:
        self.queue.append(item)
        self._note_put()

    def _get(self) -> Any:
        item = self.queue.popleft()
        self._note_get()
        return item


class LifoQueue(_Made, queue.LifoQueue[Any]):
    """`queue.LifoQueue`, counted."""

    def _put(self, item: Any) -> None:
        self.queue.append(item)
        self._note_put()

    def _get(self) -> Any:
        item = self.queue.pop()
        self._note_get()
        return item


class PriorityQueue(_Made, queue.PriorityQueue[Any]):
    """`queue.PriorityQueue`, counted."""

    def _put(self, item: Any) -> None:
        heappush(self.queue, item)
        self._note_put()

    def _get(self) -> Any:
        item = heappop(self.queue)
        self._note_get()
        return item


class AsyncQueue(_Made, asyncio.Queue[Any]):
    """`asyncio.Queue`, counted."""

    def _put(self, item: Any) -> None:
        self._queue.append(item)  # type: ignore[attr-defined]
        self._note_put()

    def _get(self) -> Any:
        item = self._queue.popleft()  # type: ignore[attr-defined]
        self._note_get()
        return item


class SimpleQueue:
    """`queue.SimpleQueue`, counted: it can't be subclassed, so this holds one."""

    def __init__(self, *, name: str = "", source: Stage = "", drain: Stage = "", group: str = "") -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.counts = _slot(self._queue, name, 0, source, drain, group)
        self._note_put, self._note_get = self.counts.put_one, self.counts.get_one
        self._put, self._get = self._queue.put, self._queue.get
        self.empty, self.qsize = self._queue.empty, self._queue.qsize

    def put(self, item: Any, block: bool = True, timeout: float | None = None) -> None:
        """As `queue.SimpleQueue.put`."""
        self._put(item)
        self._note_put()

    def put_nowait(self, item: Any) -> None:
        """As `queue.SimpleQueue.put_nowait`."""
        self._put(item)
        self._note_put()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """As `queue.SimpleQueue.get`."""
        item = self._get(block, timeout)
        self._note_get()
        return item

    def get_nowait(self) -> Any:
        """As `queue.SimpleQueue.get_nowait`."""
        item = self._get(False)
        self._note_get()
        return item


# Looked up once: super() costs a third of the call.
_append, _popleft = collections.deque.append, collections.deque.popleft


class Deque(collections.deque[Any]):
    """`collections.deque`, counted as a queue: what goes in at either end, and what comes out at either.

    A deque with maxlen drops an item at the other end when one is put into a full one: that counts as
    dropped. Of several threads that put into a full one at once, the dropped ones are counted by the length
    that each of them saw.
    """

    def __init__(
        self,
        iterable: Iterable[Any] = (),
        maxlen: int | None = None,
        *,
        name: str = "",
        source: Stage = "",
        drain: Stage = "",
        group: str = "",
    ) -> None:
        super().__init__(iterable, maxlen)
        self.counts = _slot(self, name, maxlen or 0, source, drain, group)
        self._note_put, self._note_get = self.counts.put_one, self.counts.get_one
        if len(self):
            self.counts.put(len(self))

    def _note(self, before: int, added: int) -> None:
        self.counts.put(added)
        if self.maxlen is not None and before + added > self.maxlen:
            lost = before + added - self.maxlen
            self.counts.get(lost)
            self.counts.drop(lost)

    def append(self, item: Any, /) -> None:
        """As `deque.append`."""
        if self.maxlen is None:
            _append(self, item)
            self._note_put()
            return
        before = len(self)
        _append(self, item)
        self._note(before, 1)

    def appendleft(self, item: Any, /) -> None:
        """As `deque.appendleft`."""
        before = len(self)
        super().appendleft(item)
        self._note(before, 1)

    def extend(self, items: Iterable[Any], /) -> None:
        """As `deque.extend`."""
        for item in list(items):
            self.append(item)

    def extendleft(self, items: Iterable[Any], /) -> None:
        """As `deque.extendleft`."""
        for item in list(items):
            self.appendleft(item)

    def insert(self, index: int, item: Any, /) -> None:
        """As `deque.insert`."""
        super().insert(index, item)
        self._note_put()

    def pop(self) -> Any:  # type: ignore[override]
        """As `deque.pop`."""
        item = super().pop()
        self._note_get()
        return item

    def popleft(self) -> Any:
        """As `deque.popleft`."""
        item = _popleft(self)
        self._note_get()
        return item

    def remove(self, item: Any, /) -> None:
        """As `deque.remove`."""
        super().remove(item)
        self._note_get()

    def __delitem__(self, index: Any, /) -> None:
        super().__delitem__(index)
        self._note_get()

    def clear(self) -> None:
        """As `deque.clear`."""
        gone = len(self)
        super().clear()
        if gone:
            self.counts.get(gone)


class MultiprocessingQueue(multiprocessing.queues.Queue):  # type: ignore[type-arg]
    """`multiprocessing.Queue`, counted as one queue over all processes that use it.

    An event is in the queue from `put` on, also while the feeder thread has not yet sent it: both sides of
    the feeder are the inside of the queue. Each process counts its own share under one identity.
    """

    def __init__(
        self, maxsize: int = 0, *, ctx: Any = None, name: str = "", source: Stage = "", drain: Stage = ""
    ) -> None:
        context = ctx or multiprocessing.get_context()
        super().__init__(maxsize, ctx=context)
        self._description = (name, maxsize, source, drain, secrets.randbits(63) | 1)
        self._pid = 0

    def _counts(self) -> counting.Slot:
        # A child that was forked has a copy of our slot, which its counter file does not publish.
        if self._pid != os.getpid():
            name, maxsize, source, drain, identity = self._description
            self._slot = _slot(
                self,
                name,
                maxsize,
                source,
                drain,
                implementation="multiprocessing.Queue",
                identity=identity,
                sides=_PRODUCER | _CONSUMER | _SHARES,
            )
            self._pid = os.getpid()
        return self._slot

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """As `multiprocessing.Queue.put`."""
        super().put(obj, block, timeout)
        self._counts().put()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """As `multiprocessing.Queue.get`."""
        item = super().get(block, timeout)
        self._counts().get()
        return item

    def __getstate__(self) -> Any:
        return (super().__getstate__(), self._description)

    def __setstate__(self, state: Any) -> None:
        inner, self._description = state
        self._pid = 0
        super().__setstate__(inner)


class CountedExecutor(concurrent.futures.Executor):
    """A `concurrent.futures` executor whose calls that wait for a worker are counted as a queue.

    A call enters it with `submit` and leaves it when a worker begins with it (of processes: when its result
    is there, since a worker in another process tells no earlier) or when it is cancelled.

    Args:
        executor: a ThreadPoolExecutor, ProcessPoolExecutor or another.
    """

    def __init__(
        self,
        executor: concurrent.futures.Executor,
        *,
        name: str = "",
        source: Stage = "",
        drain: Stage = "",
        group: str = "",
    ) -> None:
        self._executor = executor
        self._in_process = isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        self.counts = _slot(executor, name, 0, source, drain, group)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        """As `Executor.submit`."""
        if not self._in_process:
            future = self._executor.submit(fn, *args, **kwargs)
            self.counts.put()
            future.add_done_callback(lambda _: self.counts.get())
            return future
        self.counts.put()
        try:
            future = self._executor.submit(partial(self._begin, fn), *args, **kwargs)
        except BaseException:
            self.counts.get()
            raise
        future.add_done_callback(self._end)
        return future

    def _begin(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.counts.get()
        return fn(*args, **kwargs)

    def _end(self, future: concurrent.futures.Future[Any]) -> None:
        if future.cancelled():  # no worker ever began with it
            self.counts.get()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `Executor.shutdown`."""
        self._executor.shutdown(wait, cancel_futures=cancel_futures)


_SUBCLASSES: dict[type[Any], type[Any]] = {
    queue.Queue: Queue,
    queue.LifoQueue: LifoQueue,
    queue.PriorityQueue: PriorityQueue,
    asyncio.Queue: AsyncQueue,
}


def instrument(q: Q, *, name: str = "", source: Stage = "", drain: Stage = "", group: str = "") -> Q:
    """Count a queue that exists already; what is in it counts as having been put in.

    The object stays the same where its class allows it (queue.Queue, LifoQueue, PriorityQueue,
    asyncio.Queue and subclasses of theirs): then the result is `q` itself. Of a SimpleQueue, a deque or an
    executor, use the result in its place; it holds the original (a deque's is a copy).

    Args:
        q: the queue.
        name: of the queue, for observers.
        source: the stage that puts in: its name, or (type, name).
        drain: the stage that takes out.
        group: pool or set of partitions that it belongs to.

    Returns:
        `q` itself or its stand-in.

    Raises:
        TypeError: for something that is no such queue; make a `MultiprocessingQueue` of a
            multiprocessing.Queue.
    """
    described: dict[str, Any] = {"name": name, "source": source, "drain": drain, "group": group}
    result: Any
    if isinstance(q, _Counted):
        raise TypeError("this queue is counted already")
    for base, counted in _SUBCLASSES.items():
        if isinstance(q, base):
            result = q
            kind = type(q)
            result.__class__ = (
                counted if kind is base else type(f"Counted{kind.__name__}", (_Counted, kind), {})
            )
            result._count(name, source, drain, group)
            if waiting := result.qsize():
                result.counts.put(waiting)
            return q
    if isinstance(q, queue.SimpleQueue):
        result = SimpleQueue(**described)
        while not q.empty():
            result.put(q.get_nowait())
    elif isinstance(q, collections.deque):
        result = Deque(q, q.maxlen, **described)
    elif isinstance(q, concurrent.futures.Executor):
        result = CountedExecutor(q, **described)
    else:
        raise TypeError(f"{type(q).__name__} is no queue that can be counted where it is")
    return result  # type: ignore[no-any-return]
