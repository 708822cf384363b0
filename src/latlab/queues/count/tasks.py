"""`asyncio.Queue`, counted. A module of its own: loading asyncio takes longer than all that counts."""

from __future__ import annotations

import asyncio
import weakref
from typing import Any

from latlab._core import counting
from latlab.queues.count.counted import BY_TASK, Counted, Made, Stage
from latlab.queues.count.loop_holds import note_holds, stage_of

__all__ = ["AsyncQueue"]


class _TaskTimes:
    """The times of a task as a stage: named after the stage that drains the queues which it takes from.

    A task that takes for two stages, or for one without a name, has none.
    """

    def __init__(self) -> None:
        self._label: tuple[str, str] | None = None
        self.stage: counting.Stage | None = None

    def met(self, label: tuple[str, str], task: Any) -> counting.Stage | None:
        if label != self._label:
            self.stage = None
            stage_of.pop(task, None)
            if self._label is None and any(label):
                self.stage = counting.Stage(type=label[0], name=label[1], wait=1)
                self.stage.busy()
                self.stage.count()
                stage_of[task] = label
            self._label = label if self._label is None else ("", "")
        return self.stage


_times: weakref.WeakKeyDictionary[Any, _TaskTimes] = weakref.WeakKeyDictionary()


def _task() -> Any:
    try:
        return asyncio.current_task()
    except RuntimeError:  # outside of a loop
        return None


class Tasked(Counted):
    """Between tasks: who waits in `get` or `put`, or looks in vain, says so of its task.

    Only who waits comes by here, and the first one who takes: the others pay for one look.
    """

    mixin = True
    _waits = BY_TASK

    def _count(self, name: str, source: Stage, drain: Stage, group: str) -> None:
        super()._count(name, source, drain, group)
        self._drain = ("", drain) if isinstance(drain, str) else drain
        self._pool = any(self._drain) and source == drain
        self._looked: weakref.WeakSet[Any] = weakref.WeakSet()  # tasks that found nothing
        self._plain = False  # a task that takes from it is known, and none has looked in vain since
        note_holds()

    def _stage(self) -> counting.Stage | None:
        task = _task()
        if task is None:
            return None
        times = _times.get(task)
        if times is None:
            times = _times[task] = _TaskTimes()
        return times.met(self._drain, task)

    def _found_nothing(self, stage: counting.Stage | None) -> None:
        if stage is not None:
            # Without an object of the pool its event can't go on: that is no want of events.
            stage.blocked() if self._pool else stage.idle()

    def get_nowait(self) -> Any:
        """As `asyncio.Queue.get_nowait`."""
        if not self._plain or self.empty():  # type: ignore[attr-defined]
            self._look(_task())
        return super().get_nowait()  # type: ignore[misc]

    def _look(self, task: Any) -> None:
        stage = self._stage()
        if task is None:
            return
        if self.empty():  # type: ignore[attr-defined]
            self._found_nothing(stage)
            self._looked.add(task)
        else:
            if stage is not None:
                stage.busy()
            self._looked.discard(task)
        self._plain = not self._looked

    async def get(self) -> Any:
        """As `asyncio.Queue.get`."""
        if not self.empty():  # type: ignore[attr-defined]
            return super().get_nowait() if self._plain else self.get_nowait()  # type: ignore[misc]
        stage = self._stage()
        self._found_nothing(stage)
        item = await super().get()  # type: ignore[misc]
        if stage is not None:
            stage.busy()
        return item

    async def put(self, item: Any) -> None:
        """As `asyncio.Queue.put`."""
        if not self.full():  # type: ignore[attr-defined]
            self.put_nowait(item)  # type: ignore[attr-defined]
            return
        times = _times.get(_task()) if _task() is not None else None
        stage = times.stage if times is not None else None
        if stage is not None:
            stage.blocked()
        await super().put(item)  # type: ignore[misc]
        if stage is not None:
            stage.busy()


class AsyncQueue(Made, Tasked, asyncio.Queue[Any]):
    """`asyncio.Queue`, counted."""

    def _put(self, item: Any) -> None:
        self._queue.append(item)  # type: ignore[attr-defined]
        self._note_put()

    def _get(self) -> Any:
        item = self._queue.popleft()  # type: ignore[attr-defined]
        self._note_get()
        return item
