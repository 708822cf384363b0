"""`asyncio.Queue`, counted. A module of its own: loading asyncio takes longer than all that counts."""

from __future__ import annotations

import asyncio
import inspect
import weakref
from typing import Any

from latlab._core import counting
from latlab.queues.count.counted import BY_TASK, Counted, Made, Stage
from latlab.queues.count.loop_holds import note_holds, stage_of

__all__ = ["AsyncQueue"]


class _TaskTimes:
    """The times of a task as a stage: named after the stage that drains the queues which it takes from.

    A task that takes for two stages, or for one without a name, has none; nor has one before it comes for the
    second time: a task may take a single event.
    """

    def __init__(self) -> None:
        self._label: tuple[str, str] | None = None
        self._alone = True
        self.stage: counting.Stage | None = None

    def met(self, label: tuple[str, str], task: Any) -> counting.Stage | None:
        if self._label is None:
            self._label = label
            if any(label):
                stage_of[task] = label
            return None
        if label != self._label:
            self.stage, self._alone = None, False
            stage_of.pop(task, None)
        elif self.stage is None and self._alone and any(label):
            self.stage = counting.Stage(type=label[0], name=label[1], wait=1)
            self.stage.busy()
            self.stage.count()
        return self.stage


_times: weakref.WeakKeyDictionary[Any, _TaskTimes] = weakref.WeakKeyDictionary()


def _task() -> Any:
    try:
        return asyncio.current_task()
    except RuntimeError:  # outside of a loop
        return None


# By a task that was made of `get` or `put` alone, as by `asyncio.wait_for` up to Python 3.11: who called it.
_callers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def _user() -> Any:
    """The task that uses a queue."""
    task = _task()
    return _callers.get(task, task) if _callers and task is not None else task


def _runs_for(caller: Any) -> None:
    task = _task()
    if caller is not None and task is not None and task is not caller:
        _callers[task] = caller


def _gives_coroutines(function: Any) -> Any:
    """It says at once who calls, and gives what is to be awaited: it is asked whether it does."""
    function._is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)
    return getattr(inspect, "markcoroutinefunction", lambda same: same)(function)


class Tasked(Counted):
    """Between tasks: who waits in `get` or `put`, or looks in vain, says so of its task.

    Only who waits comes by here, and whoever takes for the first times: the others pay for a look at who they
    are. Of several tasks that share a queue some may never wait in `get`, and wait in `put` all the more.
    """

    mixin = True
    _waits = BY_TASK

    def _count(self, name: str, source: Stage, drain: Stage, group: str) -> None:
        super()._count(name, source, drain, group)
        self._drain = ("", drain) if isinstance(drain, str) else drain
        self._pool = any(self._drain) and source == drain
        self._looked: weakref.WeakSet[Any] = weakref.WeakSet()  # tasks that found nothing
        self._known: dict[
            int, weakref.ref[Any]
        ] = {}  # by their ids, tasks whose times are told, or never are
        note_holds()

    def _stage(self) -> counting.Stage | None:
        task = _user()
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
        task = _user()
        if self._looked or id(task) not in self._known or self.empty():  # type: ignore[attr-defined]
            self._look(task)
        return super().get_nowait()  # type: ignore[misc]

    def _look(self, task: Any) -> None:
        if task is None:
            return
        known = task in _times
        stage = self._stage()
        if self.empty():  # type: ignore[attr-defined]
            self._found_nothing(stage)
            self._looked.add(task)
        else:
            if stage is not None:
                stage.busy()
            self._looked.discard(task)
        if known and id(task) not in self._known:
            number, tasks = id(task), self._known
            tasks[number] = weakref.ref(task, lambda _: tasks.pop(number, None))

    @_gives_coroutines
    def get(self) -> Any:
        """As `asyncio.Queue.get`."""
        return self._got(_user())

    async def _got(self, caller: Any) -> Any:
        _runs_for(caller)
        if not self.empty():  # type: ignore[attr-defined]
            return self.get_nowait()
        task = _user()
        stage = self._stage() if task is not None and task in _times else None
        self._found_nothing(stage)
        try:
            item = await super().get()  # type: ignore[misc]
        except BaseException:  # its time is over, or it is cancelled: it looked in vain
            if task is not None:
                self._looked.add(task)
            raise
        if stage is not None:
            stage.busy()
        return item

    @_gives_coroutines
    def put(self, item: Any) -> Any:
        """As `asyncio.Queue.put`."""
        return self._give(item, _user())

    async def _give(self, item: Any, caller: Any) -> None:
        _runs_for(caller)
        if not self.full():  # type: ignore[attr-defined]
            self.put_nowait(item)  # type: ignore[attr-defined]
            return
        task = _user()
        times = _times.get(task) if task is not None else None
        stage = times.stage if times is not None else None
        if stage is not None:
            stage.blocked()
        try:
            await super().put(item)  # type: ignore[misc]
        finally:
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
