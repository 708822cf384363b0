"""Python's queues, counted: classes to put in the place of the standard ones.

Counting happens in native code, by atomic additions in the process's counter file: ``self.n += 1`` loses
counts between threads, also under the GIL. Capacities and the semantics of Full and Empty stay what they
were: each class is a subclass of the standard one (or holds one, where that can't be subclassed), and
counts after its operation has succeeded. An object that is put in is counted after it is in, so that
another thread may take it out (and count it) a moment earlier: for that moment an observer takes the fill
for 0, never for less.
"""

from __future__ import annotations

import collections
import queue
from heapq import heappop, heappush

from latlab.queues.count.counted import TOLD, Made, Stage, Threaded, slot_of

TYPE_CHECKING = False  # of typing: an application imports this, and its start must hardly change
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any
else:
    Any = object

__all__ = ["SUBCLASSES", "Deque", "LifoQueue", "PriorityQueue", "Queue", "SimpleQueue"]

_standard_get = queue.Queue.get


def _get_of_standard(self: Any, block: bool = True, timeout: float | None = None) -> Any:
    """As `queue.Queue.get`."""
    return _standard_get(self, True, timeout) if block else Threaded.get(self, False)


class _Standard(Made, Threaded):
    """What counted queues of the standard library have in common."""

    queue: Any
    get = _get_of_standard

    def _put(self, item: Any) -> None:
        self.queue.append(item)
        self._note_put()


class Queue(_Standard, queue.Queue[Any]):
    """`queue.Queue`, counted."""

    def _get(self) -> Any:
        item = self.queue.popleft()
        self._note_get()
        return item


class LifoQueue(_Standard, queue.LifoQueue[Any]):
    """`queue.LifoQueue`, counted."""

    def _get(self) -> Any:
        item = self.queue.pop()
        self._note_get()
        return item


class PriorityQueue(_Standard, queue.PriorityQueue[Any]):
    """`queue.PriorityQueue`, counted."""

    def _put(self, item: Any) -> None:
        heappush(self.queue, item)
        self._note_put()

    def _get(self) -> Any:
        item = heappop(self.queue)
        self._note_get()
        return item


class SimpleQueue:
    """`queue.SimpleQueue`, counted: it can't be subclassed, so this holds one."""

    def __init__(self, *, name: str = "", source: Stage = "", drain: Stage = "", group: str = "") -> None:
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.counts = counts = slot_of(self._queue, name, 0, source, drain, group, waits=TOLD)
        self._note_put, self._note_get = counts.put_one, counts.get_one
        self._wait, self._nothing = counts.wait_for_event, counts.found_nothing
        self._put, self._get = self._queue.put, self._queue.get

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
        try:
            item = self._get(False)
        except queue.Empty:
            if not block:
                self._nothing()
                raise
            self._wait()
            item = self._get(True, timeout)
        self._note_get()
        return item

    def get_nowait(self) -> Any:
        """As `queue.SimpleQueue.get_nowait`."""
        return self.get(False)

    def empty(self) -> bool:
        """As `queue.SimpleQueue.empty`."""
        return self.qsize() == 0

    def qsize(self) -> int:
        """As `queue.SimpleQueue.qsize`."""
        size = self._queue.qsize()
        if size == 0:
            self._nothing()
        return size


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
        self.counts = slot_of(self, name, maxlen or 0, source, drain, group)
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


#: What a queue of the standard library becomes where it stands.
SUBCLASSES: dict[type[Any], type[Any]] = {
    queue.Queue: Queue,
    queue.LifoQueue: LifoQueue,
    queue.PriorityQueue: PriorityQueue,
}
