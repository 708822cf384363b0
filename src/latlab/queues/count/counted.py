"""What all counted classes share: a queue's place in the counter file, and who waits at it says so."""

from __future__ import annotations

import queue

from latlab._core import counting

TYPE_CHECKING = False  # of typing: an application imports this, and its start must hardly change
if TYPE_CHECKING:
    from typing import Any
else:
    Any = object

__all__ = [
    "BOTH_SIDES",
    "BY_TASK",
    "LAYOUT",
    "SHARES",
    "TOLD",
    "Counted",
    "Made",
    "Stage",
    "Threaded",
    "slot_of",
]

LAYOUT = counting.layout()
BOTH_SIDES, SHARES = LAYOUT["sides.both"], LAYOUT["sides.shares"]

# Whether a thread that finds a queue empty, or full, says that it waits: nobody does for it; the queue's
# class does; or that does for each task of an event loop.
UNTOLD, TOLD, BY_TASK = range(3)

Stage = str | tuple[str, str]
"""A stage's name, or its (type, name)."""


def slot_of(
    made: Any,
    name: str,
    capacity: int,
    source: Stage,
    drain: Stage,
    group: str = "",
    implementation: str = "",
    identity: int = 0,
    sides: int = BOTH_SIDES,
    waits: int = UNTOLD,
) -> counting.Slot:
    """A place in the counter file for a queue that was made."""
    source_type, source_name = ("", source) if isinstance(source, str) else source
    drain_type, drain_name = ("", drain) if isinstance(drain, str) else drain
    kind = "bounded" if capacity > 0 else "unbounded"
    return counting.Slot(
        name=name,
        kind=LAYOUT["kind.shared_memory" if identity else f"kind.{kind}"],
        capacity=max(0, capacity),
        source_type=source_type,
        source_name=source_name,
        drain_type=drain_type,
        drain_name=drain_name,
        group=group,
        implementation=implementation or f"{type(made).__module__}.{type(made).__qualname__}",
        identity=identity,
        sides=sides,
        waits=waits,
    )


class Counted:
    """What the subclasses of `queue.Queue` share: `_put` and `_get` run under the queue's own lock.

    Those that follow override both again, with what the standard class does in them: calling it by super()
    would cost as much as the counting.
    """

    counts: counting.Slot
    _waits = TOLD

    def _count(self, name: str, source: Stage, drain: Stage, group: str) -> None:
        maxsize: int = self.maxsize  # type: ignore[attr-defined]
        self.counts = slot_of(self, name, maxsize, source, drain, group, waits=self._waits)
        self._note_put, self._note_get = self.counts.put_one, self.counts.get_one

    def _put(self, item: Any) -> None:
        super()._put(item)  # type: ignore[misc]
        self._note_put()

    def _get(self) -> Any:
        item = super()._get()  # type: ignore[misc]
        self._note_get()
        return item


def _tell(condition: Any, wait: Any, go_on: Any) -> None:
    """Have a thread that waits for a condition say so."""
    inner = condition.wait

    def told(timeout: float | None = None) -> Any:
        wait()
        try:
            return inner(timeout)
        finally:
            go_on()

    condition.wait = told


class Threaded(Counted):
    """Between threads: who waits in `get` or `put`, or looks in vain, says so of its thread.

    A stage's times are those of the threads that take from its queues: idle while they wait for an event,
    blocked while they wait for room, busy otherwise.
    """

    def _count(self, name: str, source: Stage, drain: Stage, group: str) -> None:
        super()._count(name, source, drain, group)
        # Only who has to wait comes by here.
        _tell(self.not_empty, self.counts.wait_for_event, self.counts.go_on)  # type: ignore[attr-defined]
        _tell(self.not_full, self.counts.wait_for_room, self.counts.go_on)  # type: ignore[attr-defined]

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """As `queue.Queue.get`."""
        if block:
            return super().get(True, timeout)  # type: ignore[misc]
        try:
            return super().get(False)  # type: ignore[misc]
        except queue.Empty:
            self.counts.found_nothing()
            raise

    def empty(self) -> bool:
        """As `queue.Queue.empty`."""
        return self.qsize() == 0

    def qsize(self) -> int:
        """As `queue.Queue.qsize`."""
        size: int = super().qsize()  # type: ignore[misc]
        if size == 0:
            self.counts.found_nothing()
        return size


class Made(Counted):
    """A counted queue that is made as such."""

    def __init__(
        self, maxsize: int = 0, *, name: str = "", source: Stage = "", drain: Stage = "", group: str = ""
    ) -> None:
        super().__init__(maxsize)  # type: ignore[call-arg]
        self._count(name, source, drain, group)
