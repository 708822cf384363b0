"""Kernel tracepoints of the whole machine, or of one task and its children, as columns.

Who ran, who was woken, which interrupt came and which page was missing, stamped with CLOCK_MONOTONIC by the
kernel (perf_event_open(2), one ring a CPU), decoded by the layout that the kernel itself gives in tracefs.
Decoding happens after the measurement; while tracing only a sleeping thread (``latlab-drain``) copies a ring
that is half full."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from latlab._core.system import PerfTrace
from latlab.errors import UnavailableError, UsageError
from latlab.system.cpus import online_cpus
from latlab.system.kernel.samples import Events, EventTable, decode
from latlab.system.kernel.tracefs import EventFormat, event_format, known_events

__all__ = ["SCHEDULER", "Tracer", "formats_of", "tables_of", "unavailable"]

# Enough to follow which thread ran where and who woke it, and a process tree's growth.
SCHEDULER: tuple[str, ...] = (
    "sched:sched_switch",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
)
_RIGHTS = "run as root, or with CAP_PERFMON, or set kernel.perf_event_paranoid to -1"


class Tracer:
    """Collects tracepoints between entering and leaving.

        with Tracer(["sched:sched_switch", "irq:*"]) as tracer:
            ...
        events = tracer.events()

    Args:
        events: names as ``group:event``; a glob (``irq:*``) takes those that the kernel lets us open.
        cpus: the CPUs to trace; all that are online when None.
        pid: this task alone, not everything on the CPUs. The kernel then shows what happens while the task is
            current (its switches out, not its switches in, and its wake-ups of others).
        inherit: with ``pid``, its future children too.
        filters: a tracefs filter for an event (``{"sched:sched_switch": "prev_pid == 7"}``).
        ring_bytes: the ring of one CPU, rounded up to a power of two. A ring that is drained in time loses
            nothing; a sched_switch takes 112 bytes.

    Raises:
        UnavailableError: no rights, no such event, a CPU that is offline.
    """

    def __init__(
        self,
        events: Iterable[str] = SCHEDULER,
        *,
        cpus: Sequence[int] | None = None,
        pid: int | None = None,
        inherit: bool = False,
        filters: Mapping[str, str] | None = None,
        ring_bytes: int = 1 << 20,
    ) -> None:
        self._formats = formats_of(events)
        self._cpus = tuple(online_cpus() if cpus is None else cpus)
        self._filters = dict(filters or {})
        unknown = set(self._filters) - {one.name for one in self._formats}
        if unknown:
            raise UsageError(f"a filter is given for {', '.join(sorted(unknown))}, which is not traced")
        self._pid = -1 if pid is None else pid
        self._inherit = inherit
        self._ring_bytes = 1 << (max(ring_bytes, resource.getpagesize()) - 1).bit_length()
        self._taken: list[list[dict[str, Any]]] = []
        self._running = False
        self._lost = 0
        self._trace: PerfTrace | None = self._open()

    def _open(self) -> PerfTrace:
        _allow_descriptors(len(self._formats) * len(self._cpus))
        names = [one.name for one in self._formats]
        try:
            return PerfTrace(
                [one.id for one in self._formats],
                [self._filters.get(name, "") for name in names],
                list(self._cpus),
                self._pid,
                self._inherit,
                self._ring_bytes,
            )
        except OSError as error:
            raise _explained(error, names, self._cpus) from None

    @property
    def names(self) -> tuple[str, ...]:
        """The tracepoints that are open."""
        return tuple(one.name for one in self._formats)

    def start(self) -> None:
        """Let samples come (entering does it)."""
        if self._trace is None:
            raise UsageError("this tracer has ended; make another one")
        self._trace.start()
        self._running = True

    def stop(self) -> None:
        """Hold, and take what the rings still have; the second time does nothing."""
        if self._trace is None:
            return
        if self._running:
            self._trace.stop()
            self._running = False
        self._taken.append(self._trace.take())
        self._lost = self._trace.lost()
        self._trace = None  # its descriptors and rings go back to the kernel

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def lost(self) -> int:
        """Samples dropped by the kernel so far."""
        return self._lost if self._trace is None else int(self._trace.lost())

    def take(self) -> Events:
        """What came since the last take, and forget it; works while tracing."""
        if self._trace is not None:
            self._taken.append(self._trace.take())
        taken, self._taken = self._taken, []
        return self._decoded(taken)

    def events(self) -> Events:
        """Everything (that no `take` took away); while tracing, everything so far."""
        if self._trace is not None:
            self._taken.append(self._trace.take())
        return self._decoded(self._taken)

    def _decoded(self, taken: list[list[dict[str, Any]]]) -> Events:
        return Events(tables_of(self._formats, taken), self.lost, self._cpus)


def tables_of(formats: Sequence[EventFormat], taken: list[list[dict[str, Any]]]) -> dict[str, EventTable]:
    """What was taken, a table for each tracepoint."""
    return {one.name: decode(one, [parts[index] for parts in taken]) for index, one in enumerate(formats)}


def unavailable(events: Iterable[str] = ("sched:sched_switch",)) -> str | None:
    """Why tracing is not possible here, or None where it is."""
    try:
        tracer = Tracer(events, cpus=online_cpus()[:1], ring_bytes=resource.getpagesize())
    except UnavailableError as error:
        return str(error)
    tracer.stop()
    return None


def formats_of(events: Iterable[str]) -> list[EventFormat]:
    """Of these names, or of all that a glob names and the kernel lets us open."""
    formats: dict[str, EventFormat] = {}
    for pattern in events:
        if "*" in pattern:
            for name in known_events(pattern):
                one = event_format(name)
                if _opens(one):
                    formats.setdefault(name, one)
        else:
            formats.setdefault(pattern, event_format(pattern))
    if not formats:
        raise UsageError("no tracepoint is named", remedy="write them as group:event")
    return list(formats.values())


def _opens(one: EventFormat) -> bool:
    """Whether the kernel gives us this event: it refuses a few (irq_work_exit would trace itself)."""
    try:
        PerfTrace([one.id], [""], online_cpus()[:1], -1, False, resource.getpagesize())
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM) and os.geteuid() != 0:
            raise _explained(error, [one.name], online_cpus()[:1]) from None
        return False
    return True


def _allow_descriptors(count: int) -> None:
    """Lift the soft limit on open files as far as we may: a tracepoint takes a descriptor on each CPU."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = count + 256
    if soft != resource.RLIM_INFINITY and soft < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))


def _explained(error: OSError, names: Sequence[str], cpus: Sequence[int]) -> UnavailableError:
    text = str(error)
    for index, name in reversed(list(enumerate(names))):
        text = text.replace(f"event {index} on", f"{name} on")
    if error.errno in (errno.EACCES, errno.EPERM):
        # EPERM is a ring beyond the limit on locked memory, too (perf_event_open(2): mmap).
        more = "; or raise the limit on locked memory: ulimit -l" if error.errno == errno.EPERM else ""
        return UnavailableError(f"tracing is not allowed ({text})", remedy=f"{_RIGHTS}{more}")
    if error.errno == errno.ENODEV:
        return UnavailableError(
            f"a CPU of {list(cpus)} is offline ({text})", remedy="name CPUs that are online"
        )
    if error.errno == errno.EMFILE:
        return UnavailableError(
            f"too few open files are allowed ({text})", remedy="raise `ulimit -n`, or trace less"
        )
    if error.errno == errno.ESRCH:
        return UnavailableError(f"the process is gone ({text})")
    return UnavailableError(f"tracing failed: {text}")
