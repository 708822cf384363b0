"""The executors of `concurrent.futures`, counted."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from functools import partial
from typing import Any

from latlab.queues.count.counted import Stage, slot_of

__all__ = ["CountedExecutor"]


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
        self.counts = slot_of(executor, name, 0, source, drain, group)

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
