"""What a follower keeps of each process's counter file, and of each side of a queue."""

from __future__ import annotations

import os
import select
from dataclasses import dataclass, field
from typing import Any

from latlab._core import queues as core
from latlab.model.queues.observation import Process

__all__ = ["File", "ProcessWatch", "QueueSide"]


class ProcessWatch:
    """Tells at once, and at next to no cost, that a process has ended (pidfd_open(2))."""

    def __init__(self, pid: int) -> None:
        try:
            self._fd = os.pidfd_open(pid)
        except OSError:  # it has ended already, or the kernel has no such thing: the slower look sees it
            self._fd = -1
        self._poll = select.poll()
        if self._fd >= 0:
            self._poll.register(self._fd, select.POLLIN)

    def ended(self) -> bool:
        """Whether its process has ended."""
        return self._fd >= 0 and bool(self._poll.poll(0))

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


@dataclass
class File:
    """A counter file that is followed."""

    process: Process
    reader: core.Reader
    watch: ProcessWatch
    version: int = -1
    phase: int = -1
    alive: bool = True
    queue_versions: dict[int, tuple[int, tuple[int, int]]] = field(default_factory=dict)
    stage_versions: dict[int, int] = field(default_factory=dict)
    queues: dict[int, int] = field(default_factory=dict)  # slot: number
    stages: dict[int, int] = field(default_factory=dict)  # slot: number


@dataclass
class QueueSide:
    """One side of a queue: its file and slot."""

    file: File
    slot: int
    generation: int
    view: dict[str, Any]
