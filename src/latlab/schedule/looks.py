"""What threads do as /proc shows it, by looking again and again: for who may not read the kernel's events.

Running and runnable time between two looks are the kernel's own (schedstat); on what a thread is blocked is
what it was at the looks. Who ended a wait is not known, nor where in the code it is: what rests on that stays
open.
"""

from __future__ import annotations

import itertools
import os
import shlex
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latlab.model import schedule as layouts
from latlab.model.schedule import Losses, Schedule, ScheduledThread, Source, State, Wait
from latlab.schedule.syscalls import BY_DESCRIPTOR, SYNCED, WAITS
from latlab.schedule.tree import Member, among_all, command_of, described, tree_of
from latlab.system.beside import Beside
from latlab.system.quota import QuotaWatch

__all__ = ["Looks", "grant"]

_LOOK_S = 0.01
_LEAST_REST = 12.0  # times as long as a look takes: looking costs a twelfth of a CPU at most
_TREE_S = 0.05
_QUOTAS_S = 0.1
_LAG_NS = 12_000_000  # schedstat is brought up to date at ticks and switches
_WCHAN = (  # where in the kernel it sleeps, where its system call may not be read
    ("futex", Wait.FUTEX), ("nanosleep", Wait.TIMER), ("pipe", Wait.PIPE), ("ep_poll", Wait.POLL),
    ("do_poll", Wait.POLL), ("poll_schedule", Wait.POLL), ("do_select", Wait.POLL), ("do_wait", Wait.CHILD),
    ("unix_stream", Wait.SOCKET), ("inet_csk", Wait.SOCKET), ("skb_", Wait.SOCKET), ("sk_", Wait.SOCKET),
    ("flock_lock", Wait.FILE_LOCK), ("locks_lock", Wait.FILE_LOCK), ("fcntl_setlk", Wait.FILE_LOCK),
    ("posix_lock", Wait.FILE_LOCK), ("semtimedop", Wait.SEMAPHORE), ("eventfd", Wait.EVENTFD),
    ("sigsuspend", Wait.SIGNAL),
    ("sigtimedwait", Wait.SIGNAL),
)  # fmt: skip
_BY_NAME = (("pipe:", Wait.PIPE), ("socket:", Wait.SOCKET), ("anon_inode:[eventfd]", Wait.EVENTFD))
_ENDS_ITSELF = {
    int(Wait.TIMER): Source.TIMER,
    int(Wait.DISK): Source.DISK,
    int(Wait.SYNC): Source.DISK,
    int(Wait.FAULT): Source.DISK,
}
_RUNS = -1
_MOST_ROWS = 400_000  # of looks at threads: with more threads the looks are rarer


def grant() -> str:
    """The command that lets this Python read the kernel's events."""
    if not among_all():
        return "run latlab on the machine itself, and give the machine's number of the process: --pid PID"
    mount = (
        "" if " tracefs " in _read("/proc/mounts") else "sudo mount -t tracefs nodev /sys/kernel/tracing; "
    )
    rights = "cap_bpf,cap_perfmon,cap_ipc_lock,cap_sys_ptrace,cap_dac_read_search=ep"
    return f"{mount}sudo setcap {rights} {shlex.quote(os.path.realpath(sys.executable))}"


@dataclass
class _Seen:
    """One thread, look by look."""

    member: Member
    process: str
    began: int
    rows: list[tuple[int, int, int, int]] = field(default_factory=list)  # time, ran, waited, kind
    gone: bool = False


class Looks(Beside):
    """Looks at processes and their children between entering and leaving."""

    method = "proc"

    def __init__(self) -> None:
        super().__init__("latlab-looks")
        self.members: dict[int, Member] = {}
        self.commands: dict[int, tuple[str, ...]] = {}
        self.quotas = QuotaWatch()
        self._roots: list[int] = []
        self._family: list[int] = []
        self._parents: dict[int, int] = {}
        self._seen: dict[int, _Seen] = {}
        self._lock = threading.Lock()

    @property
    def pids(self) -> frozenset[int]:
        """All processes that were seen."""
        with self._lock:
            return frozenset({*self._roots, *(one.member.pid for one in self._seen.values())})

    def follow(self, pids: Iterable[int]) -> None:
        """Look at these and at their children."""
        with self._lock:
            self._roots += pids
        self._grow()

    def _grow(self) -> None:
        with self._lock:
            roots = list(self._roots)
        family = tree_of(roots)
        for pid in family:
            command = command_of(pid)
            if command:
                self.commands[pid] = command
        with self._lock:
            self._family = family

    def _run(self) -> None:
        tree_at = quotas_at = 0.0
        while True:
            begin = time.monotonic()
            if begin - tree_at > _TREE_S:
                self._grow()
                tree_at = begin
            if begin - quotas_at > _QUOTAS_S:
                self.quotas.look(self._family[:50])
                quotas_at = begin
            with self._lock:
                family = list(self._family)
                for pid in family:
                    self._process(pid)
                for seen in self._seen.values():
                    seen.gone |= seen.rows[-1][0] < begin * 1e9 - 1
            took = time.monotonic() - begin
            rows = sum(len(one.rows) for one in self._seen.values())
            rest = max(_LOOK_S - took, _LEAST_REST * took) * (1 + rows // _MOST_ROWS)
            if self._ended.wait(rest):
                return

    def _process(self, pid: int) -> None:
        try:
            tids = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a hot place
        except OSError:
            return
        for name in tids:
            tid = int(name)
            stat = _read(f"/proc/{pid}/task/{tid}/stat")
            spent = _read(f"/proc/{pid}/task/{tid}/schedstat").split()
            if not stat or len(spent) < 2:
                continue
            comm, _, rest = stat.partition("(")[2].rpartition(")")
            words = rest.split()
            if words[0] in "ZX":
                continue
            now = time.monotonic_ns()
            seen = self._seen.get(tid)
            if seen is None or seen.gone:
                seen = _Seen(Member(tid, pid, comm), comm, now)
                self._seen[tid] = seen
                self._parents[pid] = int(words[1])
            seen.member = Member(tid, pid, comm)
            kind = _RUNS if words[0] == "R" else _blocked_on(pid, tid, words[0])
            seen.rows.append((now, int(spent[0]), int(spent[1]), kind))

    def schedule(self, began: int, ended: int, code: int | None) -> Schedule:
        """What was seen, as a schedule."""
        order = sorted(self._seen.values(), key=lambda one: (one.began, one.member.tid))
        leaders = {one.member.pid: i for i, one in enumerate(order) if one.member.tid == one.member.pid}
        names = {one.member.pid: one.member.name for one in order if one.member.tid == one.member.pid}
        parts, threads = [], []
        for index, one in enumerate(order):
            parts.append(_intervals(index, one.rows))
            pid = one.member.pid
            up = (
                leaders.get(self._parents.get(pid, -1), -1) if one.member.tid == pid else leaders.get(pid, -1)
            )
            threads.append(
                ScheduledThread(
                    one.member.tid, pid, one.member.name, names.get(pid, one.process), one.began,
                    one.rows[-1][0], one.gone, up if up != index else -1, self.commands.get(pid, ()),
                )
            )  # fmt: skip
        note = (
            "who ended its waits, and where in the code it was, are not known: only /proc was looked at, as "
            f"the kernel's events may not be read  →  {grant()}"
        )
        schedule = Schedule(
            began, ended, tuple(sorted(os.sched_getaffinity(0))), tuple(threads),
            np.concatenate(parts) if parts else np.empty(0, layouts.INTERVAL), np.empty(0, layouts.WAKE),
            np.empty(0, layouts.FOREIGN),
            Losses("proc", windows=((began, ended),), notes=(note,)), exit_code=code,
            disk_limit=self.quotas.disk,
        )  # fmt: skip
        worst = self.quotas.worst
        return schedule if worst is None else replace(schedule, quota=worst.quota, throttled_ns=worst.time_ns)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:  # it has ended, or is another user's
        return ""


def _blocked_on(pid: int, tid: int, state: str) -> int:
    """The `Wait` of a thread that is not running."""
    if state in "Tt":
        return Wait.STOPPED
    words = _read(f"/proc/{pid}/task/{tid}/syscall").split()
    if len(words) > 1:
        number = int(words[0])
        wait = WAITS.get(number)
        if number in SYNCED:
            return Wait.SYNC
        if state == "D":
            return Wait.DISK if wait is not None else Wait.FAULT
        if wait == BY_DESCRIPTOR:
            name = described(pid, int(words[1], 16))
            return next((kind for begin, kind in _BY_NAME if name.startswith(begin)), Wait.UNKNOWN)
        if wait is not None:
            return wait
    if state == "D":
        return Wait.DISK
    place = _read(f"/proc/{pid}/task/{tid}/wchan")
    return next((kind for word, kind in _WCHAN if word in place), Wait.UNKNOWN)


def _intervals(thread: int, rows: list[tuple[int, int, int, int]]) -> np.ndarray[Any, Any]:
    """Between two looks what it ran first, then what it lacked a CPU, then what it was blocked."""
    out: list[tuple[int, int, int, int, int]] = []  # state, wait, source, begin, end

    def add(state: int, wait: int, begin: int, end: int) -> None:
        if end <= begin:
            return
        if out and out[-1][0] == state and out[-1][1] == wait:
            out[-1] = (*out[-1][:4], end)
        else:
            source = _ENDS_ITSELF.get(wait, Source.UNKNOWN) if state == State.BLOCKED else Source.UNKNOWN
            out.append((state, wait, source, begin, end))

    over_run = over_wait = 0  # told later than it was; below zero: taken to be, and not told yet
    for (at, ran, waited, kind), (then, ran_then, waited_then, kind_then) in itertools.pairwise(rows):
        length = then - at
        run = ran_then - ran + over_run
        lack = waited_then - waited + over_wait
        used_run = min(length, max(0, run))
        used_lack = min(length - used_run, max(0, lack))
        over_run, over_wait = run - used_run, lack - used_lack
        rest = length - used_run - used_lack
        if rest > 0 and kind == kind_then == _RUNS:  # it was never blocked: the kernel has yet to tell
            if over_run > -_LAG_NS:
                used_run, over_run = used_run + rest, over_run - rest
            else:
                used_lack, over_wait = used_lack + rest, over_wait - rest
            rest = 0
        add(State.RUNNING, Wait.NONE, at, at + used_run)
        add(State.RUNNABLE, Wait.NONE, at + used_run, at + used_run + used_lack)
        wait = kind_then if kind_then != _RUNS else kind
        add(State.BLOCKED, wait if wait != _RUNS else Wait.UNKNOWN, then - rest, then)
    table = np.zeros(len(out), layouts.INTERVAL)
    table["thread"] = thread
    table["cpu"] = table["waker"] = table["object"] = table["sample"] = -1
    for place, name in enumerate(("state", "wait", "source", "begin", "end")):
        table[name] = [row[place] for row in out]
    return table
