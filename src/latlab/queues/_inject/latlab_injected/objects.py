"""Whether a queue is a pool: who takes an object gives that very object back.

One that puts in what it found in what it took, as a crawler does, puts something else; who works events off
takes the next one without giving back any.
"""

from __future__ import annotations

from .counter_file import BLOCKED, IDLE

TYPE_CHECKING = False  # of typing: importing that takes longer than all of ours
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Objects"]

_GIVEN_BACK = 16  # objects in a row, by who took them: of a queue of events so many are none by chance
_MOST = 256  # who waits before it is known


class Objects:
    """Looks at the first events of a queue, and leaves only the counting when it knows."""

    __slots__ = ("_back", "_counting", "_counts", "_held", "_wants", "_who")

    def __init__(self, counts: Any, who: Any, count_in: Any, count_out: Any) -> None:
        self._counts, self._who, self._counting = counts, who, (count_in, count_out)
        self._held: dict[Any, int] = {}  # by user: the object that it has taken, and not given back
        self._wants: list[Any] = []  # the times of who waits for an event, or for an object
        self._back = 0
        counts.put, counts.get = self._put, self._get

    def _put(self, item: Any = None) -> None:
        self._counting[0]()
        held = self._held.pop(self._who(), None)
        if held is None:
            return  # who has taken none fills the pool, or hands out work
        if held != id(item):
            self._decided(False)
            return
        self._back += 1
        if self._back >= _GIVEN_BACK:
            self._decided(True)

    def _get(self, item: Any = None) -> None:
        self._counting[1]()
        user = self._who()
        if item is None or user in self._held:
            self._decided(False)
        else:
            self._held[user] = id(item)

    def _decided(self, pool: Any) -> None:
        self._counts.put, self._counts.get = self._counting
        if pool:
            # They wait under the queue's lock, which is held here: none of them writes its times now.
            for times in self._wants:
                if times.state == IDLE:
                    times.enter(BLOCKED)
            self._counts.is_pool()
        self._held.clear()
        self._wants.clear()
        self._back = -_MOST  # nothing is looked at any more

    def wants(self, times: Any) -> None:
        """Somebody waits for what is taken next."""
        if self._back >= 0 and len(self._wants) < _MOST:
            self._wants.append(times)

    def forget(self, user: Any) -> None:
        """A user has ended, and another one may get its number."""
        self._held.pop(user, None)
