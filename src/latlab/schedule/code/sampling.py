"""Samples stacks beside a capture, where that is allowed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Self

from latlab.errors import UnavailableError
from latlab.model.schedule import Schedule
from latlab.schedule.code.stacks import with_stacks
from latlab.schedule.tree import tree_of
from latlab.system.kernel.stacks import Sampler

__all__ = ["Sampling"]


class Sampling:
    """Samples between entering and leaving; where it can't, the schedule says so.

    Args:
        wanted: False for a schedule without stacks.
    """

    def __init__(self, wanted: bool) -> None:
        self._sampler: Sampler | None = None
        self._why = ""
        if wanted:
            try:
                self._sampler = Sampler()
            except UnavailableError as error:
                self._why = str(error)

    @property
    def sampler(self) -> Sampler | None:
        """What samples, where it can."""
        return self._sampler

    def follow(self, pids: Iterable[int]) -> None:
        """Sample these processes, and their children that there are and will be."""
        if self._sampler is not None:
            for pid in tree_of(list(pids)):
                self._sampler.follow(pid)

    def joined_to(self, schedule: Schedule) -> Schedule:
        """The schedule with what was sampled."""
        if self._sampler is not None:
            return with_stacks(schedule, self._sampler.stop())
        if self._why:
            losses = replace(schedule.losses, notes=(*schedule.losses.notes, self._why))
            return replace(schedule, losses=losses)
        return schedule

    def __enter__(self) -> Self:
        if self._sampler is not None:
            self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None:
            self._sampler.halt()
