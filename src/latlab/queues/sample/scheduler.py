"""What the kernel's scheduler did to the observed threads: collected while recording, told later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.errors import UnavailableError, UsageError
from latlab.model.queues.observation import Columns
from latlab.model.queues.tail import SchedulerShare
from latlab.system.kernel.samples import Events, EventTable
from latlab.system.kernel.tracing import Tracer

__all__ = ["SchedulerWatch", "ThreadStates"]

SWITCH, WAKING, FUTEX, FUTEX_END = range(4)
_EVENTS = ("sched:sched_switch", "sched:sched_waking")
_KINDS = {"t_ns": "i8", "event": "u4", "tid": "u4", "other": "u4", "value": "u8", "cpu": "u4"}
_FUTEX = ("syscalls:sys_enter_futex", "syscalls:sys_exit_futex")
_RUNNABLE = 0xFF  # of the state: none of these bits means that it wanted to go on
_COLUMNS = ("t_ns", "event", "tid", "other", "value", "cpu")


class SchedulerWatch:
    """Scheduler events of chosen processes, by kernel tracepoints.

    Raises:
        UnavailableError: they are not allowed here.
    """

    def __init__(self) -> None:
        try:
            self._tracer = Tracer([*_EVENTS, *_FUTEX])
            self.futex = True
        except (UnavailableError, UsageError):
            # A kernel without syscall tracepoints still tells who ran where.
            self._tracer = Tracer(_EVENTS)
            self.futex = False
        self._tids: set[int] = set()
        self.names: dict[int, str] = {}

    def start(self) -> None:
        """Let events come."""
        self._tracer.start()

    def stop(self) -> None:
        """Hold; what came is still to be taken."""
        self._tracer.stop()

    @property
    def lost(self) -> int:
        """Events that the kernel dropped."""
        return int(self._tracer.lost)

    def take(self, pids: Iterable[int]) -> dict[str, NDArray[Any]]:
        """The events since the last take that concern threads of these processes, and every switch.

        Returns:
            Columns t_ns, event, tid, other, value, cpu, in order of time: see
            `docs/reference/queue-recording.md`.
        """
        for pid in pids:
            try:
                self._tids.update(int(task.name) for task in Path(f"/proc/{pid}/task").iterdir())
            except OSError:
                continue  # it has ended; its threads are known
        events = self._tracer.take()
        tids = np.fromiter(self._tids, np.int64, len(self._tids))
        parts = list(_rows(events, tids, self.futex))
        columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(columns["t_ns"], kind="stable")
        columns = {name: values[order] for name, values in columns.items()}
        seen = {*np.unique(columns["tid"]).tolist(), *np.unique(columns["other"]).tolist()}
        names = events.comm()
        self.names.update({tid: names[tid] for tid in seen if tid in names})
        return columns


def _rows(events: Events, tids: NDArray[np.int64], futex: bool) -> Iterable[dict[str, NDArray[Any]]]:
    """Every switch, since whoever has a CPU keeps others from it; of the rest what concerns these threads."""

    def part(
        event: int, table: EventTable, tid: Any, other: Any = 0, value: Any = 0
    ) -> dict[str, NDArray[Any]]:
        kept = np.full(len(table), True) if event == SWITCH else np.isin(tid, tids)
        columns = {"t_ns": table["time_ns"], "event": event, "tid": tid, "other": other, "value": value}
        columns["cpu"] = table["cpu"]
        return {
            name: np.broadcast_to(np.asarray(values), len(table))[kept].astype(_KINDS[name])
            for name, values in columns.items()
        }

    switch = events["sched:sched_switch"]
    state = np.asarray(switch["prev_state"]).astype(np.int64) & _RUNNABLE
    yield part(SWITCH, switch, switch["prev_pid"], switch["next_pid"], state)
    waking = events["sched:sched_waking"]
    yield part(WAKING, waking, waking["event_pid"], waking["tid"])
    if futex:
        enter, leave = (events[name] for name in _FUTEX)
        yield part(FUTEX, enter, enter["tid"], value=enter["uaddr"])
        yield part(FUTEX_END, leave, leave["tid"])


@dataclass
class _Thread:
    """One thread's states in order of time.

    Attributes:
        begins: when each stretch began; the last has no end.
        states: running, ready (it was taken off its CPU), woken (ready after a sleep), futex or asleep.
        wakers: of woken: who woke it; else 0.
        cpus: of running: where; else where it ran last.
    """

    begins: list[int] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    wakers: list[int] = field(default_factory=list)
    cpus: list[int] = field(default_factory=list)

    def to(self, at: int, state: str, cpu: int = -1, waker: int = 0) -> None:
        self.begins.append(at)
        self.states.append(state)
        self.wakers.append(waker)
        self.cpus.append(cpu if cpu >= 0 or not self.cpus else self.cpus[-1])


class ThreadStates:
    """The states of threads over time, from recorded scheduler events.

    Args:
        columns: as `SchedulerWatch.take` gives them.
        names: of threads, by tid.
    """

    def __init__(self, columns: Columns, names: Mapping[int, str]) -> None:
        self._names = names
        self._threads: dict[int, _Thread] = {}
        in_futex: set[int] = set()
        rows = zip(*(columns[name].tolist() for name in _COLUMNS), strict=True)
        for at, event, tid, other, value, cpu in rows:
            if event == SWITCH:
                leaves = "ready" if value == 0 else "futex" if tid in in_futex else "asleep"
                self._of(tid).to(at, leaves, cpu)
                self._of(other).to(at, "running", cpu)
            elif event == WAKING:
                thread = self._of(tid)
                if not thread.states or thread.states[-1] in ("futex", "asleep"):
                    thread.to(at, "woken", waker=other)
            elif event == FUTEX:
                in_futex.add(tid)
            else:
                in_futex.discard(tid)
        switches = columns["event"] == SWITCH
        where = columns["cpu"][switches]
        self._cpus = {
            cpu: (columns["t_ns"][switches][where == cpu], columns["other"][switches][where == cpu])
            for cpu in np.unique(where).tolist()
        }

    def _of(self, tid: int) -> _Thread:
        return self._threads.setdefault(tid, _Thread())

    def share(self, tid: int, begin: int, end: int) -> SchedulerShare | None:
        """What happened to a thread in a stretch of time; None where nothing is known of it then."""
        thread = self._threads.get(tid)
        if thread is None or tid == 0 or end <= begin:
            return None
        first = int(np.searchsorted(thread.begins, begin, side="right")) - 1
        last = int(np.searchsorted(thread.begins, end, side="left"))
        if first < 0:
            return None  # nothing is known of it before its first event
        spent = dict.fromkeys(("running", "ready", "woken", "futex", "asleep"), 0)
        holders: dict[int, int] = {}
        wakers: dict[int, int] = {}
        slept = 0
        for i in range(first, last):
            more = i + 1 < len(thread.begins)
            since, until = max(begin, thread.begins[i]), min(end, thread.begins[i + 1]) if more else end
            state = thread.states[i]
            spent[state] += until - since
            if state in ("futex", "asleep"):
                slept = until - since
            elif state == "woken":
                wakers[thread.wakers[i]] = wakers.get(thread.wakers[i], 0) + slept
                slept = 0
            if state in ("ready", "woken"):
                # The CPU that it got in the end is the one that it waited for.
                self._held(thread.cpus[i + 1] if more else thread.cpus[i], since, until, holders)
        return SchedulerShare(
            ran_ns=spent["running"],
            run_queue_ns=spent["ready"] + spent["woken"],
            wake_up_ns=spent["woken"],
            futex_ns=spent["futex"],
            asleep_ns=spent["asleep"],
            cpu_held_by=self._name({one: ns for one, ns in holders.items() if one}),
            woken_by=self._name(wakers),
        )

    def _held(self, cpu: int, begin: int, end: int, holders: dict[int, int]) -> None:
        """Add how long each thread had a CPU in a stretch of time."""
        at, who = self._cpus.get(cpu, (np.empty(0, np.int64), np.empty(0, np.int64)))
        first = max(0, int(np.searchsorted(at, begin, side="right")) - 1)
        last = int(np.searchsorted(at, end, side="left"))
        edges = np.clip(np.append(at[first:last], end), begin, end)
        for tid, length in zip(who[first:last].tolist(), np.diff(edges).tolist(), strict=True):
            holders[tid] = holders.get(tid, 0) + length

    def _name(self, weights: Mapping[int, int]) -> str:
        """Who has the most weight."""
        if not weights:
            return ""
        tid = max(weights, key=lambda one: weights[one])
        return f"{self._names.get(tid, 'thread')} ({tid})" if tid else "an interrupt"
