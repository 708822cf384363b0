"""What an application calls: `instrument` for a queue that exists, and what it says of itself.

Nothing else of ours is loaded before the first queue is counted: a service that counts its queues only where
it is told to starts as fast as one that never could.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # of typing: an application imports this, and its start must hardly change
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from latlab.queues.count.counted import Stage

    Q = TypeVar("Q")

__all__ = ["instrument", "set_application", "set_phase"]


def set_application(name: str) -> None:
    """The name under which observers find this process; by default that of its program."""
    from latlab._core import counting

    counting.set_application(name)


def set_phase(phase: str) -> None:
    """Mark where start-up ends and shutdown begins; analyses leave both out.

    Args:
        phase: starting, running, stopping or ended.

    Raises:
        ValueError: it is none of these.
    """
    from latlab._core import counting
    from latlab.queues.count.counted import LAYOUT

    if f"phase.{phase}" not in LAYOUT:
        raise ValueError(f"'{phase}' is not a phase; write starting, running, stopping or ended")
    counting.set_phase(LAYOUT[f"phase.{phase}"])


def _of_loaded_modules(q: Any) -> tuple[dict[type[Any], type[Any]], type[Any] | None]:
    """Subclasses for, and the executor of, what only programs have that have loaded asyncio or
    concurrent.futures: loading those takes longer than the rest of the program's start."""
    from latlab.queues.count.standard import SUBCLASSES

    subclasses: dict[type[Any], type[Any]] = dict(SUBCLASSES)
    executor = None
    if (tasks := sys.modules.get("asyncio.queues")) is not None and isinstance(q, tasks.Queue):
        from latlab.queues.count.tasks import AsyncQueue

        subclasses[tasks.Queue] = AsyncQueue
    futures = sys.modules.get("concurrent.futures._base")
    if futures is not None and isinstance(q, futures.Executor):
        from latlab.queues.count.executor import CountedExecutor

        executor = CountedExecutor
    return subclasses, executor


def _mixin(counted: type[Any]) -> type[Any]:
    """What a counted class adds to a standard one."""
    from latlab.queues.count.counted import Counted, Threaded

    return next(base for base in counted.__mro__ if base in (Threaded, Counted) or "mixin" in base.__dict__)


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
    import collections
    import queue

    from latlab.queues.count.counted import Counted
    from latlab.queues.count.standard import Deque, SimpleQueue

    described: dict[str, Any] = {"name": name, "source": source, "drain": drain, "group": group}
    result: Any
    if isinstance(q, Counted):
        raise TypeError("this queue is counted already")
    subclasses, executor = _of_loaded_modules(q)
    for base, counted in subclasses.items():
        if isinstance(q, base):
            result = q
            kind = type(q)
            result.__class__ = (
                counted if kind is base else type(f"Counted{kind.__name__}", (_mixin(counted), kind), {})
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
    elif executor is not None:
        result = executor(q, **described)
    else:
        raise TypeError(f"{type(q).__name__} is not a queue that can be counted where it is")
    return result  # type: ignore[no-any-return]
