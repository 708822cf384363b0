"""What every thread of a program did, without a gap: the schedule that `latlab.schedule` captures.

Three states follow each other in a thread from its beginning to its end: running, runnable without a CPU, and
blocked. Each blocked interval says on what, and who ended it. `latlab.threads` finds what limits in it,
`latlab.requests` takes slow requests apart with it, and `latlab.schedule.simulation` replays it changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np

from latlab.words import count, duration

__all__ = [
    "DEADLINE",
    "FOREIGN",
    "INTERRUPTED",
    "INTERVAL",
    "SAMPLE",
    "SEVERAL",
    "WAKE",
    "Frame",
    "Losses",
    "Schedule",
    "ScheduledThread",
    "Source",
    "State",
    "Stretches",
    "Wait",
]


class State(IntEnum):
    """Of a thread in an interval."""

    RUNNING = 0
    RUNNABLE = 1  # it could run, and has no CPU
    BLOCKED = 2
    UNSEEN = 3  # events were lost: what it did isn't known


class Wait(IntEnum):
    """On what a thread is blocked."""

    NONE = 0  # running, runnable, unseen
    UNKNOWN = 1
    FUTEX = 2  # object: the address of the word (process-private, or shared)
    PIPE = 3  # object: an index into `Schedule.objects`
    SOCKET = 4  # likewise, with its peer
    POLL = 5  # epoll_wait, poll, select: on several; object: the epoll descriptor's, or -1
    EVENTFD = 6
    DISK = 7  # reading or writing a file, uninterruptible
    SYNC = 8  # fsync, fdatasync, sync_file_range, msync
    FAULT = 9  # a page fault that had to wait
    TIMER = 10  # nanosleep, and every wait that its own time-out ended
    SIGNAL = 11  # sigwait, pause
    CHILD = 12  # wait4, waitid
    STOPPED = 13  # by a signal or a debugger, or its control group is frozen
    THROTTLED = 14  # a CPU quota of its control group
    IO_URING = 15
    FILE_LOCK = 16  # flock, fcntl with F_SETLKW; object: the file's
    SEMAPHORE = 17  # semop, semtimedop of System V; object: the number of the set
    SPIN = 18  # a loop that polls, where samples tell one: never the kernel's, for which the thread runs
    LOOK = 19  # sleeps with looks between them at what others do: never the kernel's, for which it sleeps


class Source(IntEnum):
    """Who ended a blocked interval."""

    THREAD = 0  # `waker` is its index, or -1 for a thread outside the schedule
    TIMER = 1
    NETWORK = 2  # a soft interrupt of the network; on one machine `waker` is the sender where it is known
    DISK = 3
    INTERRUPT = 4  # another one
    UNKNOWN = 5


#: The object of a wait for several things that its own time-out ended, where none of them is known; a plain
#: sleep has none.
SEVERAL = -2

#: One interval of a thread. Sorted by (thread, begin); of one thread each begins where the one before ended.
INTERVAL = np.dtype(
    [
        ("thread", np.int32),  # index into Schedule.threads
        ("state", np.uint8),  # State
        ("wait", np.uint8),  # Wait
        ("source", np.uint8),  # Source of the end of a blocked interval
        ("cpu", np.int16),  # of a running one; of a runnable one the CPU it waits for; -1 unknown
        ("begin", np.int64),  # ns, of CLOCK_MONOTONIC
        ("end", np.int64),
        ("waker", np.int32),  # index of the thread that ended a blocked interval; -1: none, or a stranger
        ("object", np.int64),  # what was waited for, by the meaning of `wait`; -1 unknown
        ("sample", np.int32),  # index into Schedule.samples of the stack it blocked in, -1 without
    ]
)

#: One wake-up: thread `waker` (at `time`, while running on `cpu`) made `wakee` runnable. Sorted by time.
WAKE = np.dtype(
    [
        ("time", np.int64),
        ("waker", np.int32),
        ("wakee", np.int32),
        ("cpu", np.int16),
        ("source", np.uint8),
    ]
)

#: Somebody else's turn on a CPU, while threads of ours were there or not. Sorted by (cpu, begin).
FOREIGN = np.dtype([("cpu", np.int16), ("begin", np.int64), ("end", np.int64), ("tid", np.int32)])

#: A turn of a thread whose CPU served interrupts meanwhile, for `ns`. Sorted by (thread, begin).
INTERRUPTED = np.dtype([("thread", np.int32), ("begin", np.int64), ("end", np.int64), ("ns", np.int64)])

#: A wait for several descriptors with a time-out: when that would have ended it. Sorted by (thread, begin).
DEADLINE = np.dtype([("thread", np.int32), ("begin", np.int64), ("due", np.int64)])

#: One sampled stack. Frames are `Schedule.frames[stack[0]]`, innermost first; see `Schedule.stacks`.
SAMPLE = np.dtype(
    [
        ("time", np.int64),
        ("thread", np.int32),
        ("running", np.uint8),  # 1: sampled by the CPU clock; 0: where it blocked
        ("stack", np.int32),  # index into Schedule.stacks
    ]
)


@dataclass(frozen=True, slots=True)
class ScheduledThread:
    """A thread of the observed program.

    Attributes:
        tid, pid: in the kernel's outermost namespace.
        name: its comm at the end; `process` the comm of its process.
        began_ns, ended_ns: while it was observed; `ended` says whether it ended in that time.
        parent: the index of the thread that made it; -1 if it was there before.
        command: the process' command line, as far as it was read.
        entry: the function in which it starts, where it is known.
        peer: it belongs to another program, which the observed one talks to on this machine.
    """

    tid: int
    pid: int
    name: str
    process: str
    began_ns: int
    ended_ns: int
    ended: bool = False
    parent: int = -1
    command: tuple[str, ...] = ()
    entry: str = ""
    peer: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """A place in the code; what isn't known is "" or 0. `offset` is within the module.

    `polls`: "looks" in a loop that only looks whether something has changed, "takes" where it tries to take a
    word by an atomic exchange; known of the innermost frames of running samples.
    `in_mutex`: there its function holds a mutex of Go's library, by its code.
    `begin`: where a function without a name begins within the module.
    """

    function: str
    file: str = ""
    line: int = 0
    module: str = ""
    offset: int = 0
    polls: str = ""
    begin: int = 0
    in_mutex: bool = False

    @property
    def place(self) -> str:
        """Of a function without a name, by where it begins as far as that is known: "pigz+0x7160"."""
        return f"{self.module.rsplit('/', 1)[-1]}+{self.begin or self.offset:#x}"


@dataclass(frozen=True, slots=True)
class Losses:
    """What could not be seen.

    Attributes:
        method: "bpf", "bpf, by perf's tracepoints" (costs the program more), "perf", or "proc" (sampled).
        events: that the kernel counted as lost.
        breaks: of continuity: switches whose `prev` is not the `next` of the switch before on their CPU.
        switches: that were seen.
        unseen_share: of all threads' time, that is UNSEEN; where events were lost, at least the share of the
            CPUs' time in which switches are missing.
        windows: (begin, end) in ns in which events were taken; one, unless the rate made it sample windows.
        notes: in words, what else is missing, and the command that would grant it.
    """

    method: str
    events: int = 0
    breaks: int = 0
    switches: int = 0
    unseen_share: float = 0.0
    windows: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()

    def of_the_last(self, of_s: float, turns: int, seconds: float, *, more: bool = False) -> Losses:
        """The same with a note that the beginning was left out; `more`: there were others, not counted."""
        least = "more than " if more else ""
        last = duration(1e9 * seconds)
        note = f"of {duration(1e9 * of_s)} with {least}{count(turns)} turns the last {last} are analysed"
        return replace(self, notes=(*self.notes, note))


class Stretches:
    """Intervals by time, none of which overlap, to search in.

    The edges are columns by themselves: to search in a field of a table copies all of it, each time.

    Args:
        rows: with "begin" and "end" in ns, in order.
    """

    def __init__(self, rows: np.ndarray[Any, Any]) -> None:
        self.rows = rows
        self.begins, self.ends = (np.ascontiguousarray(rows[name]) for name in ("begin", "end"))

    def between(self, begin: int, end: int) -> np.ndarray[Any, Any]:
        """Those that have a part of a stretch."""
        return self.rows[self.ends.searchsorted(begin, "right") : self.begins.searchsorted(end)]


@dataclass(frozen=True)
class Schedule:
    """What all threads of a program did from `began_ns` to `ended_ns` (CLOCK_MONOTONIC).

    Attributes:
        cpus: that were online.
        intervals: of INTERVAL. wakes: of WAKE. foreign: of FOREIGN.
        objects: index of a pipe, socket or file -> what it is, as "pipe:[4711]", "tcp 127.0.0.1:6379 ->
            127.0.0.1:40112", "/var/lib/x". Two ends of one pipe or of one local connection are one object.
        watching: of FOREIGN, turns of those who observed: the program by itself would have had them.
        foreign_names: tid -> comm of those in `foreign`.
        interrupted: of INTERRUPTED, where it was seen.
        deadlines: of DEADLINE, where system calls are seen.
        priorities: tid -> the kernel's priority: under 100 real-time, else 120 and the nice value.
        samples: of SAMPLE; `stacks` their frames as indices into `frames`, innermost first.
        bases: of each sample the address at which its stack begins, 0 where that is unknown; may be empty.
            One thread runs several in turn where coroutines have stacks of their own, such as goroutines.
        quota: the CPU quota of its control group, where that stopped it, as "50 ms in each 100 ms".
        disk_limit: what its control group lets it have of disks, as "40 MB/s read, of vda".
        dropped: (address, pid, how many datagrams) of UDP sockets in front of which the kernel dropped some.
        throttled_ns: for how long it stopped it, summed over CPUs.
        left_out_ns: from the beginning of the observation to `began_ns`: more happened than can be analysed.
        exit_code: of the command; None of a process that was there before, or goes on.
    """

    began_ns: int
    ended_ns: int
    cpus: tuple[int, ...]
    threads: tuple[ScheduledThread, ...]
    intervals: np.ndarray[Any, Any]
    wakes: np.ndarray[Any, Any]
    foreign: np.ndarray[Any, Any]
    losses: Losses
    objects: Mapping[int, str] = field(default_factory=dict)
    foreign_names: Mapping[int, str] = field(default_factory=dict)
    samples: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, SAMPLE))
    stacks: tuple[tuple[int, ...], ...] = ()
    frames: tuple[Frame, ...] = ()
    exit_code: int | None = None
    quota: str = ""
    throttled_ns: int = 0
    disk_limit: str = ""
    dropped: tuple[tuple[str, int, int], ...] = ()
    watching: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, FOREIGN))
    priorities: Mapping[int, int] = field(default_factory=dict)
    interrupted: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, INTERRUPTED))
    deadlines: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, DEADLINE))
    left_out_ns: int = 0
    bases: np.ndarray[Any, Any] = field(default_factory=lambda: np.empty(0, np.uint64))

    @property
    def seconds(self) -> float:
        """How long was observed."""
        return (self.ended_ns - self.began_ns) / 1e9

    def of_thread(self, thread: int) -> np.ndarray[Any, Any]:
        """The intervals of one thread, in order."""
        # Of the column's own type: any other would have all of it converted, each time.
        wanted = np.array([thread, thread + 1], self._thread_of_each.dtype)
        low, high = np.searchsorted(self._thread_of_each, wanted)
        return self.intervals[low:high]

    @cached_property
    def _thread_of_each(self) -> np.ndarray[Any, Any]:
        """A column by itself: to search in a field of a table copies all of it, for each thread anew."""
        return np.ascontiguousarray(self.intervals["thread"])
