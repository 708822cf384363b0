"""The threads of one schedule, each with its intervals in order. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from latlab.model.schedule import Schedule, Stretches

__all__ = ["Threads"]


class Threads:
    """Looks up threads and what they did.

    Attributes:
        index: by thread id, its place among the schedule's threads. turns: by that place, its intervals.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.index = {one.tid: index for index, one in enumerate(schedule.threads)}
        self.turns = {index: Stretches(schedule.of_thread(index)) for index in self.index.values()}

    def name(self, index: int) -> str:
        """As the schedule has it."""
        return self._schedule.threads[index].name

    def numbered(self, index: int) -> str:
        """Its name with its id; "" for none."""
        return f"{self.name(index)} {self._schedule.threads[index].tid}" if index >= 0 else ""

    def cut(self, index: int, begin: int, end: int) -> Iterable[tuple[Any, int, int]]:
        """The intervals of a thread between two instants, with since when and how long each is."""
        if index < 0 or end <= begin:
            return
        for row in self.turns[index].between(begin, end):
            from_ns = max(int(row["begin"]), begin)
            yield row, from_ns, min(int(row["end"]), end) - from_ns
