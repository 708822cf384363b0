"""`asyncio.Queue`, counted. A module of its own: loading asyncio takes longer than all that counts."""

from __future__ import annotations

import asyncio
from typing import Any

from latlab.queues.count.instrument import Made

__all__ = ["AsyncQueue"]


class AsyncQueue(Made, asyncio.Queue[Any]):
    """`asyncio.Queue`, counted."""

    def _put(self, item: Any) -> None:
        self._queue.append(item)  # type: ignore[attr-defined]
        self._note_put()

    def _get(self) -> Any:
        item = self._queue.popleft()  # type: ignore[attr-defined]
        self._note_get()
        return item
