"""Collects what the kernel tells about threads while a program runs, and resolves descriptors meanwhile.

By BPF programs where they are allowed, by perf events else; the same tables from both.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from latlab.errors import UnavailableError
from latlab.model.schedule import Wait
from latlab.schedule.context import CONTEXTS, UNTIMED
from latlab.schedule.moves import MOVES
from latlab.schedule.pipes import MOVED, PIPES, peers_of, pipes_of
from latlab.schedule.sockets import DropWatch, socket_ends
from latlab.schedule.syscalls import BY_DESCRIPTOR, SYNCED, WAITS
from latlab.schedule.tree import (
    Descriptors,
    Member,
    among_all,
    command_of,
    descriptors_of,
    narrow,
    threads_of,
    tree_of,
)
from latlab.system.kernel.bpf_tracing import BpfTracer
from latlab.system.kernel.samples import Events, EventTable
from latlab.system.kernel.stacks import Sampler
from latlab.system.kernel.tracefs import known_events
from latlab.system.kernel.tracing import Tracer
from latlab.system.quota import QuotaWatch

__all__ = ["FAULTS", "LIVES", "PAYLOAD_BYTES", "SOCKETS", "Collector", "tracepoints"]

_SWITCH = "sched:sched_switch"
_WAKING = "sched:sched_waking"
_NEEDED = (_SWITCH, _WAKING, "sched:sched_process_fork", "sched:sched_process_exit")
# In whose context a wake-up came: of a thread, or of an interrupt; and for which CPU a thread waits. Those
# that this kernel has.
_CONTEXT = (
    "irq:softirq_entry",
    "irq:softirq_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq_vectors:local_timer_entry",
    "irq_vectors:local_timer_exit",
    MOVES,
)
# What goes in and out of the observed processes' sockets, with the first bytes; and when data arrived in any
# socket's queue.
SOCKETS = ("sock:sock_send_length", "sock:sock_recv_length", "sock:sk_data_ready")
PAYLOAD_BYTES = 256
# TCP connections that begin and end: the next socket may have the address of the last.
LIVES = "sock:inet_sock_set_state"
# Pages that were missing, also those that the kernel makes at once: a thread that takes many runs meanwhile.
FAULTS = ("exceptions:page_fault_user", "exceptions:page_fault_kernel")
# Above so many calls a second, in or out, some of the connections are let go.
_MOST_CALLS_HZ = 20_000
_RATE_S = 0.2  # over which the rate is taken
_KEYS = {SOCKETS[0]: "sk", SOCKETS[1]: "sk", SOCKETS[2]: "skaddr", LIVES: "skaddr"}
_LOOK_S, _REST_S = 0.03, 0.06  # the longer one after a look that found nothing new
_KEEP_S = 0.5
_YOUNG = 64  # looks
_ENDS_S = 0.5
_ENDS_PAUSE = 200  # times as long as looking took: /proc/net/tcp takes 20 ms, however few sockets there are
_QUOTAS_S = 0.1
_DROPS_S, _YOUNG_S = 0.5, 1.0  # how often, once it has run for so long
_MOST_QUOTAS = 50  # processes whose groups are looked at each time
_LATEST = 2_000_000  # samples that are kept once twice as many came; of a server all: each may be a request


def tracepoints() -> tuple[str, ...]:
    """What is collected: of those that this kernel has.

    Raises:
        UnavailableError: tracefs is not to be had.
    """
    known = set()
    for group in {name.partition(":")[0] for name in (*_NEEDED, *_CONTEXT)}:
        known.update(known_events(f"{group}:*"))
    if "irq_vectors:local_timer_entry" not in known:  # not x86: each timer that expires instead
        known.update(known_events("timer:hrtimer_expire_*"))
        extra = ("timer:hrtimer_expire_entry", "timer:hrtimer_expire_exit")
        return (*_NEEDED, *(name for name in (*_CONTEXT, *extra) if name in known))
    return (*_NEEDED, *(name for name in _CONTEXT if name in known))


class Collector:
    """Traces between entering and leaving, and keeps what /proc shows only meanwhile.

    Args:
        method: "bpf", "perf", or "auto" for the first that is allowed.
        sockets: collect what goes in and out of the processes' sockets too, which only BPF can.
        pipes: and of their pipes.
        stacks: who samples stacks beside it, and hasn't started: which switch is sampled is then decided
            where the switches are collected, if that is possible.

    Attributes:
        method: the one that is used, and whether it takes perf's tracepoints, which cost the program more.
        members: threads that were there at the beginning, by tid.
        descriptors: what those were that were waited for.
        commands: process -> its command line.
        ends: inode of a socket -> its own address, and whether somebody listens there.
        sampled_share: of the sockets, those that are observed; chance decides which.
        narrow: processes that ran 32-bit programs: neither arguments nor bytes of their calls are known.

    Raises:
        UnavailableError: neither is allowed.
    """

    def __init__(
        self,
        method: str = "auto",
        *,
        sockets: bool = False,
        pipes: bool = False,
        stacks: Sampler | None = None,
    ) -> None:
        if not among_all():
            raise UnavailableError(
                "in this container processes have other numbers than in the kernel's events",
                remedy="run latlab on the machine itself",
            )
        names = tracepoints()
        transfers: tuple[str, ...] = ()
        if sockets:
            lives = known_events(LIVES)
            pipes = pipes and all(known_events(name) for name in PIPES)
            transfers = (*SOCKETS[:2], *(PIPES if pipes else ()))
            faults = [name for name in FAULTS if known_events(name)]
            names, method = (*names, *SOCKETS, *lives, *faults, *transfers[2:]), "bpf"
        self._with_sockets, self.with_pipes = sockets, pipes and sockets
        self.method = method
        self._tracer: BpfTracer | Tracer
        if method in ("auto", "bpf"):
            try:
                self._tracer = BpfTracer(
                    names,
                    registers=[_SWITCH, *transfers],
                    payload_bytes=dict.fromkeys((*transfers[:2], *MOVED), PAYLOAD_BYTES),
                    chosen=(*transfers, *FAULTS),
                    keys=_KEYS if sockets else {},
                    contexts={name: one for name, one in CONTEXTS.items() if name in names},
                    reports=[_WAKING],
                    counts=[_SWITCH],
                    untimed=UNTIMED,
                    adopts={"sched:sched_process_fork": "child_pid"},
                    counted=transfers[:2],
                    watched=_FD_CALLS,
                    stacks=stacks,
                    latest=_LATEST,
                    always=[name for name in names if name.startswith("sched:sched_process_")],
                    whole=transfers,
                )
                self.method = "bpf" if _SWITCH in self._tracer.typed else "bpf, by perf's tracepoints"
            except UnavailableError:
                if method == "bpf":
                    raise
                method = "perf"
        if method == "perf":
            self._tracer = Tracer(names, ring_bytes=4 << 20)
            self.method = "perf"
        self.members: dict[int, Member] = {}
        self.descriptors = Descriptors()
        self.commands: dict[int, tuple[str, ...]] = {}
        self._looks: dict[int, int] = {}  # at young processes
        self.narrow: set[int] = set()
        self.ends: dict[int, tuple[str, bool]] = {}
        self.quotas = QuotaWatch()
        self.drops = DropWatch()
        self.sampled_share = 1.0
        self._below = 1 << 32
        self._rate_before = 0.0
        self._new_sockets = False
        self._peers: frozenset[int] = frozenset()
        self._pids: set[int] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._helper = threading.Thread(target=self._resolve, name="latlab-resolve", daemon=True)

    def follow(self, pids: Iterable[int]) -> None:
        """Processes whose tree is observed: their threads and descriptors are looked at."""
        for pid in tree_of(pids):
            self._add(pid)
            self._called(pid)
            self.commands.setdefault(pid, ())
            for one in threads_of(pid):
                self.members.setdefault(one.tid, one)
                if len(one.call) > 1 and WAITS.get(one.call[0]) in _OF_A_DESCRIPTOR:
                    self._look(pid, one.call[1])
        called = Counter(self.commands.values())
        # A program that we have just started may not have become itself yet: it has no command, or ours.
        called.update({(): 1, command_of(os.getpid()): 1})
        self._looks = {pid: 1 for pid, command in self.commands.items() if called[command] > 1}
        if self.with_pipes and isinstance(self._tracer, BpfTracer):
            self._peers = frozenset(peers_of(pipes_of(self.pids), self.pids))
            for pid in self._peers:
                self._tracer.add_process(pid)  # who is at the other end tells when something arrived

    def _add(self, pid: int) -> None:
        with self._lock:
            self._pids.add(pid)
        if self._with_sockets and isinstance(self._tracer, BpfTracer):
            self._tracer.add_process(pid)

    @property
    def pids(self) -> frozenset[int]:
        """The processes that were followed so far, children included."""
        with self._lock:
            return frozenset(self._pids)

    def __enter__(self) -> Self:
        self._tracer.__enter__()
        self._helper.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._ended.set()
        self._helper.join()
        self._tracer.__exit__(None, None, None)

    def events(self) -> Events:
        """Everything that was collected."""
        return self._tracer.events()

    def _look(self, pid: int, descriptor: int) -> bool:
        """Whether it is another thing than it was."""
        news = self.descriptors.look(pid, descriptor)
        self._new_sockets |= news.startswith("socket:")
        return bool(news)

    def _resolve(self) -> None:
        """While the program runs: its new processes, and what the descriptors are that it waits for."""
        if not isinstance(self._tracer, BpfTracer):
            return
        ends_at = quotas_at = drops_at = kept_at = 0.0  # ends_at: from when on is looked again
        began = counted_at = time.monotonic()
        pause = _LOOK_S
        while True:
            time.sleep(pause)  # Event.wait takes ten times as much of the CPU that the program wants
            last = self._ended.is_set()
            if last or time.monotonic() - quotas_at > _QUOTAS_S:
                pids = sorted(self.pids)[:_MOST_QUOTAS]
                self.quotas.look(pids)
                quotas_at = time.monotonic()
                if last or quotas_at - began < _YOUNG_S or quotas_at - drops_at > _DROPS_S:
                    self.drops.look(pids)
                    drops_at = quotas_at
            descriptors, forks = self._tracer.notes()
            self._forks(forks)
            pause = _LOOK_S if self._look_at(descriptors) or len(forks) else _REST_S
            if time.monotonic() - kept_at > _KEEP_S:
                self._tracer.keep()
                kept_at = time.monotonic()
            if self._with_sockets:
                seconds = time.monotonic() - counted_at
                if seconds > _RATE_S:
                    self._thin(self._tracer, seconds)
                    counted_at = time.monotonic()
                # The kernel looks through all sockets of the machine for them.
                if last or (self._new_sockets and time.monotonic() > ends_at):
                    self._new_sockets = False
                    asked = time.monotonic()
                    self.ends.update(socket_ends())
                    told = time.monotonic()
                    ends_at = told + max(_ENDS_S, _ENDS_PAUSE * (told - asked))
            if last:
                return

    def _forks(self, forks: np.ndarray[Any, Any]) -> None:
        with self._lock:
            children = [
                child for parent, child in forks.tolist() if parent in self._pids and child not in self._pids
            ]
        for child in children:
            self._add(child)  # a thread's number is harmless: no process has it
        with self._lock:
            news = [pid for pid in self._pids if pid not in self.commands]
        for pid, looks in list(self._looks.items()):
            if looks & (looks - 1) == 0:  # ever less often
                self._called(pid)
            self._looks[pid] += 1
            if looks == _YOUNG:
                del self._looks[pid]
        for pid in news:
            self._called(pid)
            if pid in self.commands:
                self._looks[pid] = 1

    def _called(self, pid: int) -> None:
        """Keep by which command a process was started, and whether it is a 32-bit program.

        A child has its parent's until it becomes another program: it is looked at again while it is young.
        """
        command = command_of(pid)
        if command and command != self.commands.get(pid):
            self.commands[pid] = command
            if narrow(pid):
                self.narrow.add(pid)
                for number in descriptors_of(pid):  # its calls don't tell them
                    self._look(pid, number)

    def programs(self, pids: Iterable[int]) -> frozenset[int]:
        """Those of the processes that run, or ran, 32-bit programs."""
        return frozenset(pid for pid in pids if pid in self.narrow or narrow(pid))

    def _thin(self, tracer: BpfTracer, seconds: float) -> None:
        """Let whole connections go while there are too many calls: what remains is complete, and unbiased.

        Not for one burst, such as what is made up for after a pause: who is let go doesn't come back.
        """
        counts = tracer.counts()
        most = max(int(counts[name][1].sum()) for name in SOCKETS[:2]) / seconds
        if most <= _MOST_CALLS_HZ:
            self._rate_before = most
            return
        calls = []
        known: set[int] = set()
        for name in SOCKETS[:2]:
            keys, count = counts[name]
            still = tracer.hashes(keys) < self._below
            calls.append(int(count[still].sum()))
            known.update(keys[still].tolist())  # np.union1d takes 70 ms at first, for what it imports
        sockets = np.fromiter(known, np.uint64, len(known))
        now = max(calls) / seconds
        rate, self._rate_before = min(now, self._rate_before), now
        wanted = max(1, int(len(sockets) * _MOST_CALLS_HZ / rate)) if rate > _MOST_CALLS_HZ else len(sockets)
        if wanted < len(sockets):
            self._below = tracer.sample(sockets, wanted)
            self._rate_before = 0.0  # that was of those that are gone, too
            self.sampled_share *= wanted / len(sockets)

    def sampled(self, table: EventTable, key: str) -> Mapping[str, np.ndarray[Any, Any]]:
        """The columns of a table of calls or arrivals, of the connections that were observed to the end."""
        columns = table.columns
        if self._below != 1 << 32 and isinstance(self._tracer, BpfTracer):
            kept = self._tracer.hashes(table[key]) < self._below
            columns = {name: column[kept] for name, column in columns.items()}
        if "argument" not in columns or not len(columns["time_ns"]):
            return columns
        strange = np.isin(columns["pid"], np.fromiter(self.programs(self.pids), np.int64))
        changed = {
            name: np.where(strange, value, columns[name]) for name, value in _UNREAD if name in columns
        }
        return {**columns, **changed}

    def _look_at(self, rows: np.ndarray[Any, Any]) -> int:
        """Of processes that are observed, or at the other end of their pipes; how many are news."""
        pids = self.pids | self._peers
        return sum(self._look(pid, descriptor) for pid, descriptor in rows.tolist() if pid in pids)


_UNREAD = (("argument", -1), ("captured", 0))  # of a call of a 32-bit program
_OF_A_DESCRIPTOR = (BY_DESCRIPTOR, Wait.POLL, Wait.FILE_LOCK)
_FD_CALLS = sorted({number for number, wait in WAITS.items() if wait in _OF_A_DESCRIPTOR} | SYNCED)
