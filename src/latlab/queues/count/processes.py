"""`multiprocessing.Queue`, counted."""

from __future__ import annotations

import multiprocessing.context
import multiprocessing.queues
import os
import secrets
from typing import Any

from latlab._core import counting
from latlab.queues.count.counted import BOTH_SIDES, SHARES, TOLD, Stage, slot_of

__all__ = ["MultiprocessingQueue"]


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
            self._slot = slot_of(
                self,
                name,
                maxsize,
                source,
                drain,
                implementation="multiprocessing.Queue",
                identity=identity,
                sides=BOTH_SIDES | SHARES,
                waits=TOLD,
            )
            self._wait_for_event, self._wait_for_room = self._slot.wait_for_event, self._slot.wait_for_room
            self._pid = os.getpid()
        return self._slot

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        """As `multiprocessing.Queue.put`."""
        counts = self._counts()
        self._wait_for_room()
        try:
            super().put(obj, block, timeout)
        finally:
            counts.go_on()
        counts.put()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """As `multiprocessing.Queue.get`."""
        counts = self._counts()
        # Where there is none, it looks again, or does something else until it does: it waits for an event.
        self._wait_for_event()
        item = super().get(block, timeout)
        counts.get()
        return item

    def __getstate__(self) -> Any:
        return (super().__getstate__(), self._description)

    def __setstate__(self, state: Any) -> None:
        inner, self._description = state
        self._pid = 0
        super().__setstate__(inner)
