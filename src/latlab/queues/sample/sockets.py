"""Following the kernel's receive buffers of the observed processes: they are queues in front of the feed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, replace

from latlab.model.queues.observation import SocketBuffer
from latlab.queues.sample.follow import Event, Follower
from latlab.system.kernel.sockets import SocketFill, receive_buffers

__all__ = ["Row", "SocketFollower"]

Row = tuple[int, int, int, int, int]
"""t_ns, socket, fill_bytes, capacity_bytes, dropped."""


class SocketFollower:
    """The receive buffers of every process that a follower follows.

    Args:
        follower: says which processes, and which stage is their feed.
        read: the buffers of a process id; for tests.
        now_ns: the clock; for tests.
    """

    def __init__(
        self,
        follower: Follower,
        *,
        read: Callable[[int], list[SocketFill]] = receive_buffers,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._follower = follower
        self._read = read
        self._now_ns = now_ns
        self._sockets: list[SocketBuffer] = []
        self._numbers: dict[tuple[int, int], int] = {}  # (pid, inode): number
        self._dropped: dict[int, tuple[int, int]] = {}  # at the first look, and at the last

    @property
    def sockets(self) -> tuple[SocketBuffer, ...]:
        """Every buffer ever seen, by number."""
        return tuple(self._sockets)

    @property
    def dropped(self) -> dict[str, int]:
        """By name, the buffers that dropped datagrams since the first look, and how many."""
        return {
            self._sockets[number].name: last - first
            for number, (first, last) in self._dropped.items()
            if last > first
        }

    def look(self) -> tuple[list[Event], list[Row]]:
        """What has come and gone, and a row of every buffer that there is."""
        events: list[Event] = []
        rows: list[Row] = []
        seen: set[int] = set()
        by_pid = {process.pid: process for process in self._follower.live_processes}
        for pid, process in by_pid.items():
            for found in self._read(pid):
                now = self._now_ns()
                number = self._numbers.get((pid, found.inode))
                if number is None:
                    number = self._numbers[pid, found.inode] = len(self._sockets)
                    self._sockets.append(
                        SocketBuffer(
                            number=number,
                            protocol=found.protocol,
                            local=found.local,
                            remote=found.remote,
                            inode=found.inode,
                            process=process.number,
                            added_ns=now,
                        )
                    )
                    events.append(Event(now, "added", "socket", number, asdict(self._sockets[number])))
                self._notice(number, found, self.feed_of(process.number), now, events)
                seen.add(number)
                first, _ = self._dropped.get(number, (found.dropped, 0))
                self._dropped[number] = (first, found.dropped)
                rows.append((now, number, found.fill_bytes, found.capacity_bytes, found.dropped))
        for number, socket in enumerate(self._sockets):
            if number not in seen and socket.retired_ns is None:
                now = self._now_ns()
                self._sockets[number] = replace(socket, retired_ns=now)
                events.append(Event(now, "retired", "socket", number, asdict(self._sockets[number])))
        return events, rows

    def _notice(self, number: int, found: SocketFill, drain: str, now: int, events: list[Event]) -> None:
        old = self._sockets[number]
        new = replace(old, local=found.local, remote=found.remote, drain=drain or old.drain, retired_ns=None)
        if new != old:
            self._sockets[number] = new
            events.append(Event(now, "changed", "socket", number, asdict(new)))

    def feed_of(self, process: int) -> str:
        """The only stage of a process that drains no queue; "" where there are several or none."""
        live = [queue for queue in self._follower.queues if queue.retired_ns is None]
        drains = {queue.drain for queue in live}
        sources = {queue.source for queue in live if process in queue.processes and queue.source}
        sources |= {
            stage.label
            for stage in self._follower.stages
            if stage.process == process and stage.retired_ns is None and stage.label
        }
        feeds = sources - drains
        return feeds.pop() if len(feeds) == 1 else ""
